"""What code under test says to the recorder that is on, and the recorder that the environment asks for."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

from dispatchcov import decide
from dispatchcov.decide import Decision, View
from dispatchcov.errors import FactsError
from dispatchcov.recorder import Recorder, active
from dispatchcov.table import Table

if TYPE_CHECKING:
    from dispatchcov.observers.called import Called

__all__ = ["active", "autostart", "calls", "checked", "record", "warm_up"]

calls: ContextVar[tuple[Called, ...]] = ContextVar("dispatchcov_calls", default=())
"""The calls of traced functions that are under way, the innermost last."""


def record(
    table: Table, facts: Mapping[str, object] | None = None, *, kernel: str, machine: str = ""
) -> Decision | None:
    """Record a decision that other code took; ``kernel`` is what really ran: other than the table's it is a mismatch.

    Inside a function that is :func:`traced <dispatchcov.foreign.traced>` for ``table``, ``facts`` and ``machine`` are
    those of its call unless given. Returns None when no recorder is on. Raises :class:`FactsError` for an empty
    ``kernel``, for facts that do not fit ``table``, and for none outside such a function.
    """
    if not isinstance(kernel, str) or not kernel:
        raise FactsError(f"{table.op}: expected the name of the kernel that ran, got {kernel!r}")
    recorder = active()
    if recorder is None:
        return None
    called = next((call for call in reversed(calls.get()) if call.table is table), None)
    if facts is not None:
        values = tuple(table.facts(facts, domain=False).values())
    elif called is not None and called.values is not None:
        values = called.values
    else:
        raise FactsError(f"{table.op}: expected facts, or a call of a function that is traced for this table, got none")
    machine = machine or (called.machine if called is not None else decide.DEFAULT_MACHINE)
    decision = recorder.record(recorder.judged(View.of(table, machine)), values, kernel)
    if called is not None:
        called.said.append(decision)
    return decision


def checked() -> None:
    """Say that a result was compared with a reference; for comparisons that dispatchcov does not see by itself."""
    recorder = active()
    if recorder is not None:
        recorder.checked()


@contextlib.contextmanager
def warm_up() -> Iterator[None]:
    """Decisions inside are counted apart, as phase ``warm-up``: they attest nothing."""
    recorder = active()
    if recorder is None:
        yield
        return
    before = recorder.context
    context = recorder.enter(before.test, "warm-up")
    context.raw = None
    try:
        yield
    finally:
        again = recorder.enter(before.test, before.phase)
        again.raw = before.raw


def autostart() -> None:
    """Record for the run that the environment names, if any, unless something records; called when a table is made."""
    run = os.environ.get("DISPATCHCOV_RUN")
    if not run or active() is not None or _started:
        return
    _started.append(recorder := Recorder(os.environ.get("DISPATCHCOV_DATA") or ".dispatchcov", run=run))
    if os.environ.get("DISPATCHCOV_TABLE"):
        from dispatchcov import config

        named = config.from_environment(os.environ)["table"]  # a table of a module may be what is being made here
        judges = config.tables(tuple(spec for spec in named if spec.endswith(".toml")))
        recorder.judges = {table.rules_digest: table for table in judges}
    recorder.start()
    test, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")
    recorder.enter(test, phase.rstrip(")") if test else "run")
    atexit.register(recorder.stop)


_started: list[Recorder] = []

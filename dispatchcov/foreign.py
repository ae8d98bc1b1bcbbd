"""Functions that choose their kernel by themselves: each call recorded, with what it says that it ran."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from dispatchcov import decide
from dispatchcov.decide import View
from dispatchcov.errors import FactsError, UsageError
from dispatchcov.observers.called import Called
from dispatchcov.recorder import Recorder, active
from dispatchcov.recording import calls, record
from dispatchcov.table import Table

P = ParamSpec("P")
R = TypeVar("R")
Function = Callable[P, R]


def traced(
    table: Table,
    *,
    facts: Callable[..., Mapping[str, object]],
    kernel: str | Callable[[Any], str] | None = None,
    machine: str = "",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: each call of the function that returns is a decision of ``table``, taken and launched by it.

    ``facts`` gives the facts for the arguments of the call, before the function runs. ``kernel`` says what ran: a name,
    or what gives it for the result; without it the function says so itself, ``dispatchcov.record(table, kernel=...)``
    in its body. A kernel other than the table's is a mismatch. With no recorder on, nothing of this is done; under a
    profiler (``--dispatch-observe=torch``) the kernels seen in the call are compared with what it says.

    Raises :class:`UsageError` for a coroutine or a generator, whose call is not its run. A call raises
    :class:`FactsError` for facts that do not fit and for no ``kernel``, :class:`UsageError` if the function did not
    say what ran.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        check_function(function, "traced")

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            recorder = active()
            if recorder is None:
                return function(*args, **kwargs)
            called = Called.of(View.of(table, machine or decide.DEFAULT_MACHINE), facts(*args, **kwargs))
            result = _run(recorder, called, functools.partial(function, *args, **kwargs))
            if kernel is not None:
                ran = kernel if isinstance(kernel, str) else kernel(result)
                called.said.append(record(table, called.facts, kernel=ran, machine=called.machine))
            elif not called.said:
                name = getattr(function, "__qualname__", repr(function))
                raise UsageError(
                    f"{table.op}: expected {name} to say which kernel ran, by dispatchcov.record(table, kernel=...) in "
                    "it or kernel=... of traced, got nothing"
                )
            return result

        return call

    return decorate


def _run(recorder: Recorder, called: Called, function: Callable[[], R]) -> R:
    token = calls.set((*calls.get(), called))
    observer = recorder.observer
    if observer is not None:
        observer.enter(called)
    try:
        return function()
    finally:
        if observer is not None:
            observer.leave()
        calls.reset(token)


def check_function(function: Callable[..., object], what: str) -> None:
    """Raise :class:`UsageError` unless a call of ``function`` is its run."""
    kinds: dict[str, Callable[[Any], bool]] = {
        "a coroutine function": inspect.iscoroutinefunction,
        "a generator function": inspect.isgeneratorfunction,
        "an asynchronous generator": inspect.isasyncgenfunction,
    }
    got = next((kind for kind, test in kinds.items() if test(function)), "")
    if not got and not callable(function):
        got = f"{type(function).__name__}"
    if got:
        raise UsageError(f"dispatchcov.{what}: expected a function that has run when it returns, got {got}")


__all__ = ["FactsError", "check_function", "traced"]

"""The recorder: counts of decisions per test, kept while the test runs and written when it ends.

With no recorder on, none of this is reached. With one on, most decisions are counted by the generated function of
their view (:mod:`dispatchcov.generate`), without a lock: it raises a count in one step that no other thread can come
between. All else happens here under a lock, and while something is changed that those functions read, the views are
*unbound*: they find no cell, come here and wait.
"""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Iterable
from typing import Any

from dispatchcov import decide
from dispatchcov.cells import CHECKED, LAUNCHED, OBSERVED, SELECTED, Context, RecordedDecision
from dispatchcov.counting import LOCK, Counter, Tracer
from dispatchcov.decide import Decision
from dispatchcov.errors import UsageError
from dispatchcov.journal import Journal, Keep
from dispatchcov.table import Table

__all__ = ["CHECKED", "LAUNCHED", "OBSERVED", "SELECTED", "RecordedDecision", "Recorder", "Tracer", "active"]


class Recorder(Counter):
    """Counts decisions while it is on.

    ``data_file`` None keeps counts in memory only (for a test that asserts its own path). A recorder that is started
    while another is on takes its place until it is stopped. ``judges`` are tables that :attr:`extend
    <Table.rules_digest>` those that decide: same rules, requirements of their own, by which decisions are recorded.
    ``keep`` chooses, of the first 16 decisions of a cell, whose facts are kept besides the first and the extreme ones.
    """

    def __init__(
        self,
        data_file: str | None,
        *,
        run: str = "",
        tracer: Tracer | None = None,
        judges: Iterable[Table] = (),
        keep: Keep | None = None,
    ) -> None:
        super().__init__(judges, tracer, keep)
        self.data_file = os.path.abspath(data_file) if data_file is not None else None
        self.run = run or uuid.uuid4().hex
        self._lost = ""
        self._before: decide.Recording | None = None
        self._reset("", "run")
        _recorders.add(self)

    def _reset(self, test: str, phase: str) -> None:
        self._unbind()
        self.journal = Journal(self.data_file, self.run, self.keep)
        self.flight = None  # the ring of the last launches, once the shard is open
        self._ending: list[Context] = []
        self._contexts = 0
        self.context = self._new_context(test, phase)

    # --- on and off -------------------------------------------------------------------------------------------------

    def start(self) -> Recorder:
        """Send decisions here from now on; opens the shard so that an unwritable place is an error at once."""
        with self.lock:
            if self.started:
                raise UsageError("expected a recorder that is off, got one that is on")
            if self.data_file is not None:
                self.flight = self.journal.open().flight
            self.started = True
            self._before = decide.activate(self)
            _recorders.add(self)
        return self

    def stop(self) -> None:
        """Write what is left, close the shard and hand back to the recorder that was on before.

        :attr:`lost` says what could not be written, if anything was. Stopping a recorder that is off does nothing.
        """
        with self.lock:
            if not self.started:
                return
            self.started = False
            self.flight = None
            if decide.active() is self:
                decide.activate(self._outer())
            self._end_context("", "run")
            self.journal.end()
            self._lost = self.journal.lost
            if self.tracer is not None:
                self.tracer.close()
            self._reset("", "run")
        _recorders.discard(self)

    def _outer(self) -> decide.Recording | None:
        """The recorder that was on before this one and has not been stopped since."""
        before = self._before
        while isinstance(before, Recorder) and not before.started:
            before = before._before
        return before

    @property
    def lost(self) -> str:
        """Why records could not be written, "" if all were."""
        return self.journal.lost if self.started else self._lost

    @property
    def trace_lost(self) -> str:
        """Why the raw trace is incomplete, "" if it is not."""
        error = self.tracer.error if self.tracer is not None else None
        return f"the trace is incomplete: {error}" if error else ""

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def forked(self) -> None:
        """In the child of a fork: count afresh, into a shard of its own; the parent writes what it counted before."""
        context = self.context
        self._unbind()
        for earlier in (context, *self._ending):
            earlier.closed = True
            for cell in earlier.cells:
                cell.plain = False
        if self.shard is not None:
            self.shard.release()
        self._reset(context.test, context.phase)
        self.context.raw = context.raw

    # --- contexts ---------------------------------------------------------------------------------------------------

    def _new_context(self, test: str, phase: str) -> Context:
        self._contexts += 1
        return Context(self, test, phase, self._contexts)

    def enter(self, test: str, phase: str) -> Context:
        """Count under ``test`` and ``phase`` from now on; what was counted before is written."""
        with self.lock:
            before = self.context
            self._end_context(test, phase)
            if before.test == test:
                self.context.raw = before.raw
            return self.context

    def _end_context(self, test: str, phase: str) -> None:
        self._ending.append(self.context)
        self.context = self._new_context(test, phase)
        while self._ending:
            self._unbind()
            self.journal.close_context(self._ending[0])
            self._ending.pop(0)

    def list_in(self, decisions: list[Decision]) -> None:
        """Append the decisions of this context to ``decisions`` from now on."""
        with self.lock:
            self.context.raw = decisions
            for cell in self.context.cells:
                cell.plain = False

    def outcome(self, test: str, outcome: str) -> None:
        """Keep how ``test`` ended."""
        self._line({"k": "outcome", "test": test, "outcome": outcome})

    def retry(self, test: str) -> None:
        """``test`` begins again: its decisions so far count as those of an earlier try."""
        self._line({"k": "retry", "test": test})

    def remark(self, text: str) -> None:
        """Keep something to know about this run."""
        self._line({"k": "note", "text": text})

    def partial(self, reason: str) -> None:
        """Keep that absence proves nothing in this run."""
        self._line({"k": "partial", "reason": reason})

    def _line(self, line: dict[str, Any]) -> None:
        with self.lock:
            self.journal.append([line])


def active() -> Recorder | None:
    """The recorder that is on, if any."""
    recorder = decide.active()
    return recorder if isinstance(recorder, Recorder) else None


# --- fork: the child counts for itself, into a shard of its own ------------------------------------------------------

_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    try:
        for recorder in list(_recorders):
            recorder.forked()
    finally:
        LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=_after_fork_in_child)

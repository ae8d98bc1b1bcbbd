"""The recorder: counts of decisions per test, kept while the test runs and written when it ends.

With no recorder on, none of this is reached. With one on, most decisions are counted by the generated function of
their view (:mod:`dispatchcov.generate`), without a lock: it raises a count in one step that no other thread can come
between. All else happens here under a lock, and while something is changed that those functions read, the views are
*unbound*: they find no cell, come here and wait.
"""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Iterable, MutableSequence
from typing import Any, Protocol

from dispatchcov import decide
from dispatchcov.cells import CHECKED, LAUNCHED, OBSERVED, SELECTED, Cell, Context, Observer, RecordedDecision
from dispatchcov.decide import Decision, View
from dispatchcov.errors import UsageError
from dispatchcov.expr import Value
from dispatchcov.files.shard import ShardWriter
from dispatchcov.flight import Flight
from dispatchcov.journal import Journal, Keep
from dispatchcov.table import Table

__all__ = ["CHECKED", "LAUNCHED", "OBSERVED", "SELECTED", "RecordedDecision", "Recorder", "Tracer", "active"]

LOOKED_AT = 16
_lock = threading.RLock()  # one for all recorders, because they share the views, and a fork must find it free


class Tracer(Protocol):
    """Receives every decision, in order, when a raw trace is wanted."""

    error: OSError | None

    def write(self, decision: Decision, test: str, phase: str) -> None: ...
    def close(self) -> None: ...


class Recorder:
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
        self.judges = {table.rules_digest: table for table in judges}
        self.data_file = os.path.abspath(data_file) if data_file is not None else None
        self.run = run or uuid.uuid4().hex
        self.tracer = tracer
        self.keep = keep
        self.observer: Observer | None = None
        self.lock = _lock
        self.started = False
        self._lost = ""
        self._bound: list[View] = []
        self._before: decide.Recording | None = None
        self._reset("", "run")
        _recorders.add(self)

    def _reset(self, test: str, phase: str) -> None:
        self._unbind()
        self.journal = Journal(self.data_file, self.run, self.keep)
        self.flight: Flight | None = None  # the ring of the last launches, once the shard is open
        self._ending: list[Context] = []
        self._contexts = 0
        self.context = self._new_context(test, phase)

    @property
    def shard(self) -> ShardWriter | None:
        """The file that this process writes, if it is open."""
        return self.journal.shard

    @property
    def counts(self) -> MutableSequence[int]:
        """The counts of all cells, four a slot."""
        return self.journal.counts

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

    # --- decisions --------------------------------------------------------------------------------------------------

    def judged(self, view: View) -> View:
        """The view to record decisions of ``view`` by: of the table that judges them, if there is one."""
        table = self.judges.get(view.table.rules_digest, view.table)
        return view if table is view.table else View.of(table, view.machine)

    def note(self, view: View, facts: tuple[Value, ...]) -> RecordedDecision:
        """Count one decision of ``view`` for ``facts``; raises :class:`FactsError` if no rule takes them."""
        with self.lock:
            cell, facts = self._locate(view, facts, "")
            decision = RecordedDecision.of(cell.view)(cell, facts)
            self._count(decision, SELECTED)
            if view.recorder is self and self.started:
                self._bind(view)
        if not cell.rule:
            raise view.untotal(facts)
        return decision

    def record(self, view: View, facts: tuple[Value, ...], kernel: str) -> RecordedDecision:
        """Count a decision that other code took and launched: ``kernel`` is what it says it ran."""
        with self.lock:
            cell, facts = self._locate(view, facts, kernel)
            decision = RecordedDecision.of(cell.view)(cell, facts)
            self.counts[cell.slot + LAUNCHED] += 1
            self._count(decision, SELECTED)
        return decision

    def _bind(self, view: View) -> None:
        """Let ``view`` count by itself in the cells of this context."""
        self._bound.append(view)
        view.bind(self.context.cells_of[view, ""], self.counts, RecordedDecision.of(view))

    def _unbind(self) -> None:
        for view in self._bound:
            if view.recorder is self:
                view.unbind()
        self._bound.clear()

    def _count(self, decision: RecordedDecision, evidence: int) -> None:
        """Count ``decision``, and do what must be done until its cell is plain."""
        cell, context = decision.cell, self.context
        self.counts[cell.slot + evidence] += 1
        if cell.due and (cell.id < 0 or self.counts[cell.slot] >= cell.due):
            self._write_in_progress(cell)
        if evidence != SELECTED:
            return
        context.stale = True
        if context.raw is not None:
            context.raw.append(decision)
        if self.tracer is not None:
            self.tracer.write(decision, context.test, context.phase)
        looked = True
        if self.keep is not None and decision.values is not None:
            if len(cell.seen) < LOOKED_AT:
                cell.seen[decision.values] = None
            looked = self.counts[cell.slot] >= LOOKED_AT
        cell.plain = bool(cell.rule) and not cell.due and context.raw is None and self.tracer is None and looked

    def _write_in_progress(self, cell: Cell) -> None:
        if self.started:
            self.journal.write_in_progress(cell)
            self.flight = self.shard.flight if self.shard is not None else None
        else:
            cell.due = 0

    def _locate(self, view: View, facts: tuple[Value, ...], kernel: str) -> tuple[Cell, tuple[Value, ...]]:
        """The cell of ``facts``, made or widened for them, and the facts as plain values."""
        facts = tuple(view.table.facts(dict(zip(view.table.names, facts, strict=True)), domain=False).values())
        cells = self.context.cells_of.setdefault((view, kernel), {})
        key = (view.vector(facts), *view.hardware(facts))
        cell = cells.get(key)
        if cell is None:
            cell = Cell(self.context, view, facts, kernel)
            if not self.journal.free:
                self._unbind()
                for other in self.context.cells:
                    other.plain = False
            self.journal.place(cell)
            self.context.cells.append(cell)
            cells[key] = cell
        else:
            view.extend(cell.bounds, cell.extremes, facts)
        return cell, facts

    def attest(self, decision: RecordedDecision, evidence: int) -> None:
        """Count ``evidence`` for ``decision``: under the present test, if the one in which it was taken is over."""
        with self.lock:
            if not self.started:
                return
            cell = decision.cell
            if cell.context.closed:
                assert decision.values is not None
                cell, _ = self._locate(cell.view, decision.values, cell.kernel)
                decision.cell = cell
            self._count(decision, evidence)

    def took(self, times: Iterable[tuple[RecordedDecision, int]]) -> None:
        """Keep what the kernels of launches took, in nanoseconds, as a profiler saw it."""
        with self.lock:
            cells: dict[int, Cell] = {}
            for decision, nanoseconds in times:
                decision.cell.nanoseconds += nanoseconds
                cells[id(decision.cell)] = decision.cell
            timed = [cell for cell in cells.values() if cell.id >= 0 and cell.nanoseconds]
            self.journal.append([{"k": "time", "id": cell.id, "nanoseconds": cell.nanoseconds} for cell in timed])

    def mismatch(self, decision: RecordedDecision, ran: str) -> None:
        """Keep that the kernel ``ran`` was seen where ``decision`` had selected another."""
        with self.lock:
            assert decision.values is not None
            cell, facts = self._locate(decision.cell.view, decision.values, ran)
            self._count(RecordedDecision.of(cell.view)(cell, facts), OBSERVED)

    def checked(self) -> None:
        """A result was compared: all decisions of this test so far are ``checked`` if the test passes."""
        with self.lock:
            if self.context.stale:
                self.context.stale = False
                for cell in self.context.cells:
                    cell.plain = False  # the next decision makes the context stale again
                    self.counts[cell.slot + CHECKED] = self.counts[cell.slot]


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
        _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork_in_child)

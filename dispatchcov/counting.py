"""Counting: each decision in its cell of the present context, under a lock unless its view can do it alone."""

from __future__ import annotations

import threading
from collections.abc import Iterable, MutableSequence
from typing import Protocol

from dispatchcov.cells import CHECKED, LAUNCHED, OBSERVED, SELECTED, Cell, Context, Observer, RecordedDecision
from dispatchcov.decide import Decision, View, outside
from dispatchcov.expr import Value
from dispatchcov.files.shard import ShardWriter
from dispatchcov.flight import Flight
from dispatchcov.journal import Journal, Keep
from dispatchcov.table import Table

LOOKED_AT = 16
LOCK = threading.RLock()  # one for all recorders, because they share the views, and a fork must find it free


class Tracer(Protocol):
    """Receives every decision, in order, when a raw trace is wanted."""

    error: OSError | None

    def write(self, decision: Decision, test: str, phase: str) -> None: ...
    def close(self) -> None: ...


class Counter:
    """What a recorder counts; :class:`~dispatchcov.recorder.Recorder` adds when it is on, and for which test."""

    context: Context
    flight: Flight | None
    journal: Journal

    def __init__(self, judges: Iterable[Table], tracer: Tracer | None, keep: Keep | None) -> None:
        self.judges = {table.rules_digest: table for table in judges}
        self.tracer = tracer
        self.keep = keep
        self.observer: Observer | None = None
        self.lock = LOCK
        self.started = False
        self._bound: list[View] = []

    @property
    def shard(self) -> ShardWriter | None:
        """The file that this process writes, if it is open."""
        return self.journal.shard

    @property
    def counts(self) -> MutableSequence[int]:
        """The counts of all cells, four a slot."""
        return self.journal.counts

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
        if self.keep is not None and decision.values is not None and not outside(cell.view.table, cell.vector):
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
        vector = view.outcomes(facts) if kernel else view.vector(facts)
        key = (vector, *view.hardware(facts))
        cell = cells.get(key)
        if cell is None:
            cell = Cell(self.context, view, facts, kernel, vector)
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

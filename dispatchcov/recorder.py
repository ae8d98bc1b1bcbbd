"""The recorder: counts of decisions per test, kept while the test runs and written when it ends.

A *cell* counts the decisions that agree in table, machine, vector, hardware and test; its four counts live in the
shard's mapped array, so they outlive the process. With no recorder on, none of this is reached.

An exception may leave anything here at any point (a time-out or Ctrl-C raises from a signal), so counts are cleared,
and slots used again, only after the lines that hold the counts are in the file.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from types import TracebackType
from typing import Any, Protocol

from dispatchcov import decide
from dispatchcov.decide import Decision, View
from dispatchcov.errors import DataError, FactsError, UsageError
from dispatchcov.expr import Value
from dispatchcov.shard import SLOTS, WIDTH, ShardWriter
from dispatchcov.stale import source_digests
from dispatchcov.table import Table

MEMO = 4096
SELECTED, LAUNCHED, OBSERVED, CHECKED = range(WIDTH)
_ZEROS = memoryview(bytes(WIDTH * 8)).cast("q")
_lock = threading.RLock()  # one for all recorders, because they share the views, and a fork must find it free


class Tracer(Protocol):
    """Receives every decision, in order, when a raw trace is wanted."""

    error: OSError | None

    def write(self, decision: Decision, test: str, phase: str) -> None: ...
    def close(self) -> None: ...


class Observer(Protocol):
    """Brackets each launch while a profiler runs; see :mod:`dispatchcov.observers`."""

    def enter(self, decision: Decision) -> None: ...
    def leave(self) -> None: ...


class Cell:
    """Counts of like decisions in one context; ``slot`` is their place in the array, -1 once they are ``final``."""

    __slots__ = (
        "bounds", "context", "due", "extremes", "final", "first", "hardware", "id", "kernel", "ran", "rule", "slot",
        "vector", "view",
    )  # fmt: skip

    def __init__(self, context: Context, view: View, vector: int, hardware: tuple[Value, ...], kernel: str) -> None:
        table = view.table
        index = decide.select(table, vector)
        self.rule = table.rules[index].name if index is not None else ""
        self.ran = kernel or (table.rules[index].kernel.name if index is not None else "")
        self.context = context
        self.view = view
        self.vector = vector
        self.hardware = hardware
        self.kernel = kernel
        self.id = -1
        self.slot = -1
        self.due = 1
        self.final: tuple[int, ...] = ()
        self.first: tuple[Value, ...] = ()
        self.bounds: list[Any] = []
        self.extremes: list[tuple[Value, ...]] = []


class Context:
    """A phase of a test, ``collect`` or ``run``: what decisions are counted under."""

    __slots__ = ("cells", "closed", "id", "phase", "raw", "recorder", "stale", "test", "told")

    def __init__(self, recorder: Recorder, test: str, phase: str, number: int) -> None:
        self.recorder = recorder
        self.test = test
        self.phase = phase
        self.id = number
        self.cells: list[Cell] = []
        self.told: dict[tuple[View, str], dict[Any, Cell]] = {}
        self.raw: list[Decision] | None = None
        self.stale = False
        self.closed = False


class RecordedDecision(Decision):
    """A decision with its facts, vector and fallback reasons; equal facts in one test share one object."""

    __slots__ = ("cell",)

    def __init__(self, cell: Cell, values: tuple[Value, ...]) -> None:
        self.cell = cell
        self.values = values

    # What the base class stores is read from the cell here: a decision costs two stores while recording.
    table = property(lambda self: self.cell.view.table)
    machine = property(lambda self: self.cell.view.machine)
    vector = property(lambda self: self.cell.vector)
    rule = property(lambda self: self.cell.rule)
    kernel = property(lambda self: self.cell.ran)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many like decisions of this test were selected, launched, observed and checked so far."""
        recorder, slot = self.cell.context.recorder, self.cell.slot
        return self.cell.final or tuple(recorder.counts[slot : slot + WIDTH])

    def __enter__(self) -> RecordedDecision:
        observer = self.cell.context.recorder.observer
        if observer is not None:
            observer.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder = self.cell.context.recorder
        if recorder.observer is not None:
            recorder.observer.leave()
        if kind is None:
            recorder.attest(self, LAUNCHED)


class Recorder:
    """Counts decisions while it is on.

    ``data_file`` None keeps counts in memory only (for a test that asserts its own path). A recorder that is started
    while another is on takes its place until it is stopped. ``judges`` are tables that :attr:`extend
    <Table.rules_digest>`
    those that decide: same rules, requirements of their own, by which decisions are recorded.
    """

    def __init__(
        self, data_file: str | None, *, run: str = "", tracer: Tracer | None = None, judges: Iterable[Table] = ()
    ) -> None:
        self.judges = {table.rules_digest: table for table in judges}
        self.data_file = os.path.abspath(data_file) if data_file is not None else None
        self.run = run or uuid.uuid4().hex
        self.tracer = tracer
        self.observer: Observer | None = None
        self.lock = _lock
        self.started = False
        self._lost = ""
        self._before: decide.Recording | None = None
        self._reset("", "run")
        _recorders.add(self)

    def _reset(self, test: str, phase: str) -> None:
        self.shard: ShardWriter | None = None
        self.counts: MutableSequence[int] = [0] * (SLOTS * WIDTH)
        self._free = list(range(SLOTS - 1, -1, -1))
        self._ending: list[Context] = []
        self._retired: list[int] = []
        self._unsent: list[dict[str, Any]] = []
        self._tables: set[str] = set()
        self._views: dict[tuple[str, str], int] = {}
        self._contexts = 0
        self._rows = 0
        self.context = self._new_context(test, phase)

    # --- on and off -------------------------------------------------------------------------------------------------

    def start(self) -> Recorder:
        """Send decisions here from now on; opens the shard so that an unwritable place is an error at once."""
        with self.lock:
            if self.started:
                raise UsageError("expected a recorder that is off, got one that is on")
            if self.data_file is not None and self.shard is None:
                self._open()
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
            if decide.active() is self:
                decide.activate(self._outer())
            self._end_context("", "run")
            if self._unsent:
                self._append([])
            if self.shard is not None:
                self.shard.close()
                self._lost = self.lost
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
        error = self.shard.error if self.shard is not None else None
        return f"records could not be written: {error}" if error else self._lost

    @property
    def trace_lost(self) -> str:
        """Why the raw trace is incomplete, "" if it is not."""
        error = self.tracer.error if self.tracer is not None else None
        return f"the trace is incomplete: {error}" if error else ""

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _open(self) -> ShardWriter:
        """The shard, which takes over the counts so far."""
        assert self.data_file is not None
        shard = ShardWriter(self.data_file, self.run)
        while len(shard.counts) < len(self.counts):
            shard.grow()
        for place, count in enumerate(self.counts):
            if count:
                shard.counts[place] = count
        self.counts = shard.counts
        self.shard = shard
        return shard

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
            self._close_context(self._ending[0])
            self._ending.pop(0)

    def _close_context(self, context: Context) -> None:
        cells = [cell for cell in context.cells if cell.slot >= 0]
        if lines := self._close_lines(context, cells):
            self._append(lines)
        context.closed = True
        for cell in cells:
            cell.final = tuple(self.counts[cell.slot : cell.slot + WIDTH])
            slot, cell.slot = cell.slot, -1
            self._retired.append(slot)
        self._settle()

    def _settle(self) -> None:
        """Let the slots of closed contexts be used again, once all lines are in the file."""
        if self._unsent or (self.shard is not None and self.shard.pending):
            return
        while self._retired:
            slot = self._retired.pop()
            self.counts[slot : slot + WIDTH] = _ZEROS
            self._free.append(slot // WIDTH)

    def outcome(self, test: str, outcome: str) -> None:
        """Keep how ``test`` ended."""
        self._line({"k": "outcome", "test": test, "outcome": outcome})

    def remark(self, text: str) -> None:
        """Keep something to know about this run."""
        self._line({"k": "note", "text": text})

    def partial(self, reason: str) -> None:
        """Keep that absence proves nothing in this run."""
        self._line({"k": "partial", "reason": reason})

    def _line(self, line: dict[str, Any]) -> None:
        with self.lock:
            if self.data_file is not None:
                self._append([line])

    def _append(self, lines: list[dict[str, Any]]) -> None:
        """Write ``lines``; a shard that cannot be opened now, in a child say, is tried again with the next lines."""
        self._unsent += lines
        try:
            shard = self.shard or self._open()
        except DataError as error:
            self._lost = f"records could not be written: {error}"
            return
        shard.write(self._unsent)
        self._unsent = []
        self._lost = ""

    # --- decisions --------------------------------------------------------------------------------------------------

    def judged(self, view: View) -> View:
        """The view to record decisions of ``view`` by: of the table that judges them, if one with the same
        rules does.
        """
        table = self.judges.get(view.table.rules_digest, view.table)
        return view if table is view.table else View.of(table, view.machine)

    def note(self, view: View, facts: tuple[Value, ...]) -> RecordedDecision:
        """Count one decision of ``view`` for ``facts``; raises :class:`FactsError` if no rule takes them."""
        with self.lock:
            context = self.context
            if view.context is not context:
                view.memo, view.cells, view.context = {}, {}, context
            try:
                decision: RecordedDecision | None = view.memo.get(facts)
            except TypeError:  # not hashable, as symbolic integers are
                facts = tuple(_checked_facts(view, facts).values())
                decision = view.memo.get(facts)
            if decision is None:
                decision = self._first(view, facts, "")
                if len(view.memo) < MEMO:
                    view.memo[facts] = decision
            cell = decision.cell
            slot = cell.slot
            self.counts[slot] += 1
            context.stale = True
            if cell.due or context.raw is not None or self.tracer is not None:
                self._tell(decision, context)
        if not cell.rule:
            raise view.untotal(facts)
        return decision

    def _tell(self, decision: RecordedDecision, context: Context) -> None:
        """The uncommon part of counting: a cell to be written, a test that lists its decisions, a raw trace."""
        cell = decision.cell
        if cell.due and self.counts[cell.slot] >= cell.due:
            self._write_in_progress(cell)
        if context.raw is not None:
            context.raw.append(decision)
        if self.tracer is not None:
            self.tracer.write(decision, context.test, context.phase)

    def _first(self, view: View, facts: tuple[Value, ...], kernel: str) -> RecordedDecision:
        """The decision for facts not seen in this context, or not remembered."""
        if view.context is not self.context:
            view.memo, view.cells, view.context = {}, {}, self.context
        cells = view.cells if not kernel else self.context.told.setdefault((view, kernel), {})
        try:
            cell, inside = view.locate(facts, cells)
        except TypeError:
            _checked_facts(view, facts)
            raise
        if cell is None:
            cell = self._new_cell(view, facts, kernel)
            cells[cell.vector, *cell.hardware] = cell
        elif not inside:
            _checked_facts(view, facts)
            view.extend(cell.bounds, cell.extremes, facts)
        return RecordedDecision(cell, facts)

    def _new_cell(self, view: View, facts: tuple[Value, ...], kernel: str) -> Cell:
        _checked_facts(view, facts)
        cell = Cell(self.context, view, view.vector(facts), view.hardware(facts), kernel)
        cell.first = facts
        cell.bounds = [facts[place] for place in view.ranged for _ in range(2)]
        cell.extremes = [facts] * len(cell.bounds)
        self._place(cell)
        self.context.cells.append(cell)
        return cell

    def _place(self, cell: Cell) -> None:
        """Give ``cell`` a slot, in a longer array if a context has more cells than there are slots."""
        if not self._free:
            self._settle()
        if not self._free:
            start = len(self.counts) // WIDTH
            if self.shard is None:
                self.counts = [*self.counts, *[0] * len(self.counts)]
            else:
                self.shard.grow()
                self.counts = self.shard.counts
                for other in self.context.cells if not self.shard.mapped else ():
                    other.due = other.due or 1
            self._free = list(range(2 * start - 1, start - 1, -1))
        cell.slot = self._free.pop() * WIDTH

    def record(self, table: Table, given: Mapping[str, object], kernel: str, machine: str = "") -> RecordedDecision:
        """Count a decision that other code took: ``kernel`` is what it says it ran."""
        facts = tuple(table.facts(given, domain=False).values())
        view = self.judged(View.of(table, machine or decide.DEFAULT_MACHINE))
        with self.lock:
            decision = self._first(view, facts, kernel)
            slot = decision.cell.slot
            self.counts[slot] += 1
            self.counts[slot + LAUNCHED] += 1
            self.context.stale = True
            self._tell(decision, self.context)
        return decision

    def attest(self, decision: RecordedDecision, evidence: int) -> None:
        """Count ``evidence`` for ``decision``: under the present test, if the one in which it was taken is over."""
        with self.lock:
            if not self.started:
                return
            cell = decision.cell
            if cell.context.closed:
                assert decision.values is not None
                cell = decision.cell = self._first(cell.view, decision.values, cell.kernel).cell
            self.counts[cell.slot + evidence] += 1
            if cell.due and cell.id < 0:
                self._write_in_progress(cell)

    def mismatch(self, decision: RecordedDecision, ran: str) -> None:
        """Keep that the kernel ``ran`` was seen where ``decision`` had selected another."""
        with self.lock:
            assert decision.values is not None
            cell = self._first(decision.cell.view, decision.values, ran).cell
            self.counts[cell.slot + OBSERVED] += 1
            if cell.due and cell.id < 0:
                self._write_in_progress(cell)

    def checked(self) -> None:
        """A result was compared: all decisions of this test so far are ``checked`` if the test passes."""
        with self.lock:
            if self.context.stale:
                self.context.stale = False
                for cell in self.context.cells:
                    self.counts[cell.slot + CHECKED] = self.counts[cell.slot]

    # --- lines ------------------------------------------------------------------------------------------------------

    def forked(self) -> None:
        """In the child of a fork: count afresh, into a shard of its own; the parent writes what it counted before."""
        context = self.context
        for earlier in (context, *self._ending):
            earlier.closed = True
        if self.shard is not None:
            self.shard.release()
        self._reset(context.test, context.phase)
        self.context.raw = context.raw

    def _write_in_progress(self, cell: Cell) -> None:
        """Say that ``cell`` exists: enough where the array is mapped, elsewhere its count is said again eightfold."""
        if self.data_file is None or not self.started:
            cell.due = 0
            return
        if self.shard is None:
            with contextlib.suppress(DataError):
                self._open()
        cell.due = 0 if self._mapped else 8 * cell.due
        self._append(self._lines(cell))

    @property
    def _mapped(self) -> bool:
        return self.shard is not None and self.shard.mapped

    def _lines(self, cell: Cell) -> list[dict[str, Any]]:
        """The row of ``cell``, after what it refers to, if that is new."""
        lines: list[dict[str, Any]] = []
        names = ("id", "view", "vector", "hardware", "kernel", "inputs")
        row = dict(zip(names, self._about(cell, lines), strict=True))
        counts = list(self.counts[cell.slot : cell.slot + WIDTH])
        state = {"slot": cell.slot // WIDTH} if self._mapped else {"counts": counts}
        context = {"context": cell.context.id, "test": cell.context.test, "phase": cell.context.phase}
        return [*lines, {"k": "row", **context, **row, **state}]

    def _close_lines(self, context: Context, cells: list[Cell]) -> list[dict[str, Any]]:
        """All that was counted in ``context``, after what it refers to, if that is new."""
        if self.data_file is None or not cells:
            return []
        lines: list[dict[str, Any]] = []
        rows = [[*self._about(cell, lines), *self.counts[cell.slot : cell.slot + WIDTH]] for cell in cells]
        close = {"k": "close", "context": context.id, "test": context.test, "phase": context.phase, "rows": rows}
        return [*lines, close]

    def _about(self, cell: Cell, lines: list[dict[str, Any]]) -> list[Any]:
        """What ``cell`` counts; a table and a view not written before are appended to ``lines``."""
        table, machine = cell.view.table, cell.view.machine
        if table.digest not in self._tables:
            self._tables.add(table.digest)
            about = {"digest": table.digest, "op": table.op, "source": table.source, "text": table.text}
            lines.append({"k": "table", **about})
            for kernel, checksum in source_digests(table).items():
                lines.append({"k": "source", "digest": table.digest, "kernel": kernel, "sha256": checksum})
        view = self._views.get((table.digest, machine))
        if view is None:
            view = self._views[table.digest, machine] = len(self._views) + 1
            lines.append({"k": "view", "id": view, "digest": table.digest, "machine": machine})
        if cell.id < 0:
            self._rows += 1
            cell.id = self._rows
        inputs = list(dict.fromkeys([cell.first, *cell.extremes]))
        return [cell.id, view, f"{cell.vector:x}", list(cell.hardware), cell.kernel, inputs]


def _checked_facts(view: View, facts: tuple[Value, ...]) -> dict[str, Value]:
    """``facts`` by name, as plain values; raises :class:`FactsError` if one is not of its variable's type."""
    return view.table.facts(dict(zip(view.table.names, facts, strict=True)), domain=False)


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


def active() -> Recorder | None:
    """The recorder that is on, if any."""
    recorder = decide.active()
    return recorder if isinstance(recorder, Recorder) else None


def record(table: Table, facts: Mapping[str, object], *, kernel: str, machine: str = "") -> Decision | None:
    """Record a decision that other code took; ``kernel`` is what really ran: other than the table's it is a mismatch.

    Returns None when no recorder is on. Raises :class:`FactsError` for an empty ``kernel`` or facts that do not fit
    ``table``.
    """
    if not isinstance(kernel, str) or not kernel:
        raise FactsError(f"{table.op}: expected the name of the kernel that ran, got {kernel!r}")
    recorder = active()
    return recorder.record(table, facts, kernel, machine) if recorder else None


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
    _started.append(recorder := Recorder(os.environ.get("DISPATCHCOV_DATA", ".dispatchcov"), run=run))
    if os.environ.get("DISPATCHCOV_TABLE"):
        from dispatchcov import config

        judges = config.tables(config.from_environment(os.environ)["table"])
        recorder.judges = {table.rules_digest: table for table in judges}
    recorder.start()
    test, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")
    recorder.enter(test, phase.rstrip(")") if test else "run")
    atexit.register(recorder.stop)


_started: list[Recorder] = []

"""What a recorder counts: cells of like decisions, in the context of a test, and the decisions themselves.

A *cell* counts the decisions that agree in table, machine, vector, hardware and test; its four counts are in the
recorder's array, so that they outlive the process.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from dispatchcov import decide, generate
from dispatchcov.decide import Decision, View
from dispatchcov.expr import Value
from dispatchcov.files.shard import WIDTH
from dispatchcov.flight import RAISED, RETURNED, Flight

SELECTED, LAUNCHED, OBSERVED, CHECKED = range(WIDTH)


class Observer(Protocol):
    """Brackets each launch while a profiler runs; see :mod:`dispatchcov.observers`."""

    def enter(self, decision: Decision) -> None: ...
    def leave(self) -> None: ...


class Counting(Protocol):
    """What a decision needs of the recorder that counts it."""

    observer: Observer | None
    journal: Any
    flight: Flight | None

    @property
    def counts(self) -> Any: ...
    def attest(self, decision: RecordedDecision, evidence: int) -> None: ...


class Context:
    """A phase of a test, ``collect`` or ``run``: what decisions are counted under.

    ``cells_of`` finds its cells by view and by the kernel that other code says it ran ("": the table's), then by
    vector and hardware; ``raw`` lists its decisions, if someone wants them; it is ``stale`` if a decision came after
    the last comparison of a result.
    """

    __slots__ = ("cells", "cells_of", "closed", "id", "phase", "raw", "recorder", "stale", "test")

    def __init__(self, recorder: Counting, test: str, phase: str, number: int) -> None:
        self.recorder = recorder
        self.test = test
        self.phase = phase
        self.id = number
        self.cells: list[Cell] = []
        self.cells_of: dict[tuple[View, str], dict[tuple[Value, ...], Cell]] = {}
        self.raw: list[Decision] | None = None
        self.stale = False
        self.closed = False


class Cell:
    """Counts of like decisions in one context; ``slot`` is their place in the array, -1 once they are ``final``.

    It is ``plain`` while a decision for facts inside its ``bounds`` needs nothing but one more count; ``due`` is the
    count at which it is to be written again, 0 for never; ``seen`` are the facts of its first decisions, where someone
    may choose from them.
    """

    __slots__ = (
        "bounds", "context", "due", "extremes", "final", "first", "hardware", "id", "kernel", "nanoseconds", "plain",
        "ran", "rule", "seen", "slot", "vector", "view",
    )  # fmt: skip

    def __init__(self, context: Context, view: View, facts: tuple[Value, ...], kernel: str, vector: int) -> None:
        self.context = context
        self.view = view
        self.vector = vector
        self.hardware = view.hardware(facts)
        self.kernel = kernel
        index = decide.select(view.table, self.vector)
        self.rule = view.table.rules[index].name if index is not None else ""
        self.ran = kernel or (view.table.rules[index].kernel.name if index is not None else "")
        self.id = -1
        self.slot = -1
        self.due = 1
        self.plain = False
        self.nanoseconds = 0
        self.final: tuple[int, ...] = ()
        self.seen: dict[tuple[Value, ...], None] = {}
        self.first = facts
        self.bounds: list[Any] = [facts[place] for place in view.ranged for _ in range(2)]
        self.extremes = [facts] * len(self.bounds)


class RecordedDecision(Decision):
    """A decision with its facts, vector and fallback reasons."""

    __slots__ = ("cell", "flight", "place")
    cell: Cell
    flight: Flight | None
    place: int  # of the byte of the flight recorder that tells its state

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

    @staticmethod
    def of(view: View) -> type[RecordedDecision]:
        """The class of the decisions of ``view``: a launch is entered by the function that was generated for it."""
        if view.kind is None:
            body = {"__slots__": (), "__enter__": view.enter, "__module__": __name__}
            view.kind = type("RecordedDecision", (RecordedDecision,), body)
        return view.kind

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder = self.cell.context.recorder
        if recorder.observer is not None:
            recorder.observer.leave()
        flight = self.flight
        try:
            if flight is not None:
                flight.map[self.place] = RETURNED if kind is None else RAISED
        except ValueError:  # another thread closed it
            pass
        if kind is None:
            cell = self.cell
            if cell.plain and generate.ONE_AT_A_TIME:  # no call from here to the count: see generate
                recorder.journal.counts[cell.slot + LAUNCHED] += 1
            else:
                recorder.attest(self, LAUNCHED)

"""What was covered, item by item: frozen values that :mod:`dispatchcov.results` holds and reports read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dispatchcov.expr import Value
from dispatchcov.table import EMULATES

STATES = ("hit", "missed", "elsewhere", "unreachable", "waived", "not-run")
MEASURES = ("partitions", "rules", "fallbacks", "splits", "regions", "boundaries", "mcdc", "mutants")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one machine attests: ``hardware`` are the values of the table's hardware variables there.

    ``evidence`` is what any of the hits has; ``together`` what single hits have, each different set once.
    """

    machine: str
    hardware: tuple[tuple[str, Value], ...]
    hits: int
    evidence: tuple[str, ...]
    together: tuple[tuple[str, ...], ...] = ()

    @property
    def emulated(self) -> bool:
        """Was it no such machine, but one that emulates it?"""
        return emulated(self.machine)


def emulated(machine: str) -> bool:
    """Does ``machine``, a label, emulate another one? :meth:`Table.on <dispatchcov.table.Table.on>` says so in it."""
    return EMULATES in machine


@dataclass(frozen=True, slots=True)
class Reach:
    """What attests an item. ``hits`` are decisions of passing tests with the evidence needed; ``apart`` counts
    the others.

    ``evidence`` holds what any of the hits has; ``apart`` maps a phase or an outcome (``setup``, ``failed``,
    ``in progress``...)
    to its decisions. ``by_machine`` holds the hits by machine and hardware.
    """

    hits: int = 0
    tests: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    apart: tuple[tuple[str, int], ...] = ()
    by_machine: tuple[Seen, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that can be covered: a partition's bin, a rule, a predicate as sole reason, a side of a split,
    a region.

    ``detail`` tells it from others of the same ``name``: the bin, the predicate, the region. ``reachable`` is
    ``feasible``, ``unreachable`` (proved) or ``unknown``; ``witness`` is the smallest input known to reach it and
    ``decision`` what that would select, in words; ``also`` are further inputs that are needed with it.
    ``grade`` of a mutant: ``caught`` (a test that asserts would fail), ``noticed``, ``survived``, ``equivalent``
    (proved) or ``unknown``.
    """

    name: str
    detail: str
    rules: tuple[str, ...]
    state: str
    reach: Reach
    reachable: str
    witness: dict[str, Value] | None = None
    decision: str = ""
    line: int = 0
    required: bool = True
    illegal: bool = False
    at_least: int = 1
    needs: tuple[str, ...] = ()
    waiver: str = ""
    also: tuple[dict[str, Value], ...] = ()
    grade: str = ""

    @property
    def label(self) -> str:
        """Name and detail, as a person names it."""
        return f"{self.name} [{self.detail}]" if self.detail else self.name

    @property
    def counts(self) -> bool:
        """Does it count in totals? What is unreachable, elsewhere or waived does not."""
        return not self.illegal and self.state in ("hit", "missed", "not-run")


@dataclass(frozen=True, slots=True)
class Side:
    """How often a predicate was read, by short-circuit evaluation, and had each outcome."""

    text: str
    line: int
    true: int
    false: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What must not happen, seen in the records.

    ``kind``: ``kernel`` (another kernel than the table's ran), ``contract`` (the input violates the ``requires`` of the
    selected kernel), ``domain`` (facts outside the declared domains), ``untotal`` (no rule takes the input).
    ``nearest`` are the predicates that would explain that another kernel ran, ``waiver`` why it fails nothing.
    """

    kind: str
    rule: str
    expected: str
    got: str
    facts: dict[str, Value]
    decisions: int
    tests: tuple[str, ...]
    nearest: str = ""
    waiver: str = ""


@dataclass(frozen=True, slots=True)
class Totals:
    """``covered`` of ``total`` items that count."""

    covered: int = 0
    total: int = 0

    @property
    def percent(self) -> float:
        """Covered in percent, to two digits, and 0 or 100 only if it is exactly that; 100 of nothing."""
        if self.covered == self.total:
            return 100.0
        if self.covered == 0:
            return 0.0
        return min(max(round(100 * self.covered / self.total, 2), 0.01), 99.99)

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.covered + other.covered, self.total + other.total)


def count(items: Iterable[Item]) -> Totals:
    """The totals over ``items`` that count."""
    counted = [item for item in items if item.counts]
    return Totals(sum(item.state == "hit" for item in counted), len(counted))


@dataclass(frozen=True, slots=True)
class Weight:
    """A region that the workload enters: ``calls`` decisions, kernels of ``nanoseconds``, and a real input of it.

    ``state``, ``evidence`` and ``tests`` are those of the region in the results that are weighed.
    """

    op: str
    region: str
    rule: str
    kernel: str
    calls: int
    nanoseconds: int
    machines: tuple[str, ...]
    input: dict[str, Value]
    state: str
    evidence: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def reached(self) -> bool:
        """Does a test reach it?"""
        return self.state == "hit"


@dataclass(frozen=True, slots=True)
class Weights:
    """The regions of a workload, recorded in ``source``, the heaviest first."""

    source: str
    regions: tuple[Weight, ...]
    notes: tuple[str, ...] = ()

    @property
    def timed(self) -> bool:
        """Did a profiler see kernels of it?"""
        return any(region.nanoseconds for region in self.regions)

    @property
    def calls(self) -> int:
        """How many decisions the workload took."""
        return sum(region.calls for region in self.regions)

    @property
    def nanoseconds(self) -> int:
        """How long its kernels took, as far as a profiler saw."""
        return sum(region.nanoseconds for region in self.regions)

    def reached(self, evidence: str = "selected") -> tuple[int, int]:
        """Calls and nanoseconds in regions that tests reach with ``evidence``."""
        inside = [region for region in self.regions if region.reached and evidence in region.evidence]
        return sum(region.calls for region in inside), sum(region.nanoseconds for region in inside)

    def share(self, region: Weight) -> float:
        """The share of ``region`` in percent: of the time where that was seen, else of the calls."""
        return 100 * region.nanoseconds / self.nanoseconds if self.timed else 100 * region.calls / self.calls

    @property
    def unreached(self) -> tuple[Weight, ...]:
        """The regions that no test reaches, the heaviest first."""
        return tuple(region for region in self.regions if not region.reached)

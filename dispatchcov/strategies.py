"""Hypothesis strategies for the inputs of a table: by rule, partition or region, or of all regions evenly.

Inputs are drawn by construction: a box of classes, then a class of each variable, then a value of the class. Nothing is
filtered but boxes that ask something of a predicate over several variables. They shrink to the smallest witness. Each
input is an event, its region, in Hypothesis' statistics and observability.

Every choice of an input has a label of its own, for Hypothesis makes several examples of one by copying what one label
drew over another draw of that label: the region would stay the same in all of them, and many regions would not come.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.errors import UsageError, known
from dispatchcov.expr import Value
from dispatchcov.formula import ALWAYS, Formula, Some, every, holds
from dispatchcov.regions import Space
from dispatchcov.space.answers import Region
from dispatchcov.space.boxes import Axis, Boxes
from dispatchcov.space.domain import Run, bits, rank, runs
from dispatchcov.space.paths import region_name, settling
from dispatchcov.space.variants import once
from dispatchcov.table import Table

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Facts = dict[str, Value]
Draw = Callable[..., Any]
LARGEST = 1 << 16
MAX_BOXES = 4096
REGION, INPUT, BOX, FACTS, AXES = range(5)

__all__ = ["LARGEST", "covering", "inputs"]


def inputs(
    table: Table,
    *,
    partition: str | None = None,
    rule: str | None = None,
    region: str | int | Region | None = None,
    largest: int | Mapping[str, int] = LARGEST,
) -> SearchStrategy[Facts]:
    """Facts of ``table`` in one partition, rule or region (its name or number); of all inputs without any of them.

    ``largest`` bounds the magnitude of integers that have no bound of their own, for all or by name; a class that
    begins above it keeps its smallest value. Raises :class:`UsageError` for an unknown name, for more than one of
    them, and if no input is known.
    """
    if sum(given is not None for given in (partition, rule, region)) > 1:
        raise UsageError("inputs: expected one of partition, rule and region, got several")
    rules: Sequence[int | None] = [*range(len(table.rules))]
    condition: Formula = ALWAYS
    if partition is not None or rule is not None:
        name = str(partition if partition is not None else rule)
        chosen = table.partition(name) if partition is not None else None
        if chosen is not None:
            rules, condition = chosen.rules, every(chosen.condition, Some(tuple(b.condition for b in chosen.bins)))
        elif rule is None or name not in [r.name for r in table.rules]:
            kind = "partition" if partition is not None else "rule"
            names = [p.name for p in table.partitions] if partition is not None else [r.name for r in table.rules]
            raise UsageError(f"inputs: unknown {kind} {name!r}; {known(name, names)}")
        else:
            rules = [table.rule(name).index]
    elif region is not None:
        return _Drawing(table, largest).region(_region(table, region))
    return _Drawing(table, largest).strategy(rules, condition)


def covering(table: Table, *, largest: int | Mapping[str, int] = LARGEST) -> SearchStrategy[Facts]:
    """Facts of ``table``: a feasible region, each with the same chance, then an input of it; shrinks to the first.

    To reach all of ``n`` regions takes some ``n * (log(n) + 3)`` examples, as with any even draw; for each of them in
    fewer, parametrise over the regions and draw ``inputs(table, region=...)``. Beside several things of one kind (two
    integers, say) the counts differ more: Hypothesis copies one of those over the other, and keeps the facts.
    """
    found = [region for region in Space.of(table).regions if region.witness is not None and region.rule is not None]
    drawing = _Drawing(table, largest)
    region = functools.cache(lambda place: drawing.region(found[place]))

    def facts_of_any_region(draw: Draw) -> Facts:
        facts: Facts = draw(region(draw(_even(len(found)), REGION)), INPUT)
        return facts

    return _composite(facts_of_any_region)


def _region(table: Table, region: str | int | Region) -> Region:
    if isinstance(region, Region):
        return region
    regions = Space.of(table).regions
    found = next((each for each in regions if region in (each.name, each.index)), None)
    if found is None:
        raise UsageError(f"inputs: unknown region {region!r}; {known(str(region), (each.name for each in regions))}")
    return found


class _Drawing:
    def __init__(self, table: Table, largest: int | Mapping[str, int]) -> None:
        self.table = table
        self.boxes = once(table, Boxes)
        self.view = View.of(table, DEFAULT_MACHINE)
        self.largest = largest

    def region(self, region: Region) -> SearchStrategy[Facts]:
        """The inputs of ``region``."""
        guards = zip(self.table.rules, region.settled, strict=False)
        condition = every(*(settling(earlier.guard, False, index) for earlier, index in guards))
        return self.strategy([region.rule], condition)

    def strategy(self, rules: Sequence[int | None], condition: Formula) -> SearchStrategy[Facts]:
        found = [box for rule in rules for box in self.of(rule, condition)]
        if not found:
            raise UsageError(f"inputs: no input of {self.table.op} is known to be there")
        ordered = sorted(found, key=lambda box: self.boxes.point(box).key)
        inside = functools.cache(lambda box: self.inside(box, set(rules), condition))

        def facts(draw: Draw) -> Facts:
            return self.event(draw(inside(ordered[draw(_choice(len(ordered)), BOX)]), FACTS))

        return _composite(facts)

    def of(self, rule: int | None, condition: Formula) -> list[int]:
        """The boxes of what ``rule`` (None: no rule) takes where ``condition`` holds; of too many, the smallest's."""
        last = len(self.table.rules) if rule is None else rule
        steps = [(earlier.guard, False) for earlier in self.table.rules[:last]]
        steps += [] if rule is None else [(self.table.rules[rule].guard, True)]
        found = [self.boxes.full] if self.boxes.full else []
        for formula, wanted in [*steps, (condition, True)]:
            walked = (part for box in found for part in self.boxes.walk(formula, box))
            found = list(dict.fromkeys(part for part, value, _ in walked if value is wanted))
            if len(found) > MAX_BOXES:
                return self.smallest(rule, condition)
        realiser = Space.of(self.table)
        return [box for box in found if self.boxes.point(box).real or realiser.real(box) is not None]

    def smallest(self, rule: int | None, condition: Formula) -> list[int]:
        """The box of all inputs that are to the table what the smallest one is."""
        space = Space.of(self.table)
        answer = space.reaching(len(self.table.rules), condition) if rule is None else space.answer([rule], condition)
        if answer.witness is None:
            return []
        box = self.boxes.full
        for axis in self.boxes.axes:
            name = axis.variable.name
            outcomes = bits(self.boxes.own(axis.variable), {name: answer.witness[name]})
            box = axis.only(box, [(item.true, item.undefined) for item in axis.classes].index(outcomes))
        return [box]

    def inside(self, box: int, rules: set[int | None], condition: Formula) -> SearchStrategy[Facts]:
        ways = [self.on(axis, box) for axis in self.boxes.axes]

        def values(draw: Draw) -> Facts:
            found = (way(draw, AXES + 3 * place) for place, way in enumerate(ways))
            return dict(zip(self.table.names, found, strict=True))

        drawn: Any = _composite(values)
        if self.boxes.point(box).real and not any(opaque.mask & ~box for opaque in self.boxes.opaque):
            strategy: SearchStrategy[Facts] = drawn
            return strategy
        st: Any = import_module("hypothesis.strategies")
        real = Space.of(self.table).real(box)
        fits = drawn.filter(lambda facts: self.fits(facts, rules, condition))
        mixed: SearchStrategy[Facts] = fits if real is None else st.one_of(st.just(real), fits)
        return mixed

    def fits(self, facts: Facts, rules: set[int | None], condition: Formula) -> bool:
        try:
            vector = self.view.vector(tuple(facts.values()))
        except ZeroDivisionError:
            return False
        return path(self.table, vector)[0] in rules and holds(condition, vector)

    def on(self, axis: Axis, box: int) -> Callable[[Draw, int], Value]:
        """Draws a value of a class that ``box`` allows, of three choices; of zeros, the smallest value of all."""
        variable = axis.variable
        chosen = [axis.classes[place] for place in axis.chosen(box)]
        if variable.values:
            members = sorted((v for item in chosen for v in item.members), key=lambda value: rank(variable, value))
            return lambda draw, label: members[draw(_choice(len(members)), label)]
        ways = once(self.table, _Runs).of(axis)
        limit = self.largest if isinstance(self.largest, int) else self.largest.get(variable.name, LARGEST)
        found = [run for item in chosen for run in ways[item.true, item.undefined]]
        found.sort(key=lambda run: rank(variable, run.first))
        inner = [run for number, run in enumerate(found) if not number or abs(run.first) <= limit]

        def integer(draw: Draw, label: int) -> int:
            run = inner[draw(_choice(len(inner)), label)]
            last = max(0, (limit - abs(run.first)) // abs(run.step))
            if run.length is not None:
                last = min(run.length - 1, last)
            kind: int = draw(_choice(10), label + 1)
            begin, end = _PARTS.get(kind, slice(None)).indices(last + 1)[:2]
            return run.first + run.step * int(draw(_integers(begin, end - 1), label + 2))

        return integer

    def event(self, facts: Facts) -> Facts:
        """Say in Hypothesis' statistics which region ``facts`` are in."""
        hypothesis: Any = import_module("hypothesis")
        if hypothesis.currently_in_test_context():
            vector = self.view.vector(tuple(facts.values()))
            hypothesis.event(f"{self.table.op}: {region_name(self.table, *path(self.table, vector))}")
        return facts


class _Runs:
    """The runs of each variable's classes, worked out once."""

    def __init__(self, table: Table) -> None:
        self.boxes = once(table, Boxes)
        self._runs: dict[str, dict[tuple[int, int], list[Run]]] = {}

    def of(self, axis: Axis) -> dict[tuple[int, int], list[Run]]:
        name = axis.variable.name
        if name not in self._runs:
            self._runs[name] = runs(axis.variable, self.boxes.own(axis.variable))
        return self._runs[name]


# Hypothesis prefers fewer choices before smaller ones: each input costs the same number of them, so that it shrinks to
# the smallest value and not to a class that has only one.


_PARTS = {6: slice(2), 7: slice(2), 8: slice(-2, None), 9: slice(-2, None)}
"""Of a run the two values at an end, whose choice is that of the same value of the whole run: so they shrink, too."""


def _integers(smallest: int, largest: int) -> Any:
    return import_module("hypothesis.strategies").integers(smallest, largest)


def _choice(length: int) -> Any:
    """One of ``length`` places."""
    return _integers(0, length - 1)


def _even(length: int) -> Any:
    """One of ``length`` places, each with the same chance: of integers, Hypothesis prefers the small and the last."""
    drawn = import_module("hypothesis.strategies").binary(min_size=8, max_size=8)
    return drawn.map(lambda some: zlib.crc32(some) % length if any(some) else 0)


def _composite(drawn: Callable[[Draw], Facts]) -> SearchStrategy[Facts]:
    strategy: SearchStrategy[Facts] = import_module("hypothesis.strategies").composite(drawn)()
    return strategy

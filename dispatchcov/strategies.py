"""Hypothesis strategies for the inputs of a table: by rule, partition or region, or of all regions evenly.

Inputs are drawn by construction: a box of classes, then a class of each variable, then a value of the class. Nothing is
filtered but boxes that ask something of a predicate over several variables. They shrink to the smallest witness. Each
input is an event, its region, in Hypothesis' statistics and observability.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dispatchcov.answers import Region
from dispatchcov.boxes import Axis, Boxes
from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.domain import Run, bits, rank, runs
from dispatchcov.errors import UsageError, known
from dispatchcov.expr import Value
from dispatchcov.formula import ALWAYS, Formula, Some, every, holds
from dispatchcov.paths import region_name, settling
from dispatchcov.regions import Space
from dispatchcov.table import Table
from dispatchcov.variants import once

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Facts = dict[str, Value]
LARGEST = 1 << 16
MAX_BOXES = 4096
MANY = (1 << 20) - 1

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

    Hypothesis repeats and varies what it has drawn before, so counts differ, and of many regions some stay out in a
    short run; to be sure of each, parametrise over the regions and draw ``inputs(table, region=...)``.
    """
    st: Any = import_module("hypothesis.strategies")
    found = [region for region in Space.of(table).regions if region.witness is not None and region.rule is not None]
    drawing = _Drawing(table, largest)
    # Hypothesis leaves out numbers of a short range for long: a long one stands for it.
    places = _one_of(range(len(found)), st)
    drawn: SearchStrategy[Facts] = places.flatmap(functools.cache(lambda place: drawing.region(found[place])))
    return drawn


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
        st: Any = import_module("hypothesis.strategies")
        found = [box for rule in rules for box in self.of(rule, condition)]
        if not found:
            raise UsageError(f"inputs: no input of {self.table.op} is known to be there")
        ordered = sorted(found, key=lambda box: self.boxes.point(box).key)
        strategy: SearchStrategy[Facts] = _one_of(ordered, st).flatmap(
            lambda box: self.inside(box, st, set(rules), condition)
        )
        return strategy.map(self.event)

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

    def inside(self, box: int, st: Any, rules: set[int | None], condition: Formula) -> SearchStrategy[Facts]:
        values: Any = st.tuples(*(self.on(axis, box, st) for axis in self.boxes.axes))
        drawn: Any = values.map(lambda drawn: dict(zip(self.table.names, drawn, strict=True)))
        if self.boxes.point(box).real and not any(opaque.mask & ~box for opaque in self.boxes.opaque):
            strategy: SearchStrategy[Facts] = drawn
            return strategy
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

    def on(self, axis: Axis, box: int, st: Any) -> SearchStrategy[Value]:
        """A value of one of the classes that ``box`` allows; the smallest value of the smallest class comes first."""
        variable = axis.variable
        chosen = [axis.classes[place] for place in axis.chosen(box)]
        if variable.values:
            members = sorted((v for item in chosen for v in item.members), key=lambda value: rank(variable, value))
            strategy: SearchStrategy[Value] = st.tuples(_one_of(members, st), _place(st)).map(lambda pair: pair[0])
            return strategy
        ways = once(self.table, _Runs).of(axis)
        limit = self.largest if isinstance(self.largest, int) else self.largest.get(variable.name, LARGEST)
        found = [run for item in chosen for run in ways[item.true, item.undefined]]
        found.sort(key=lambda run: rank(variable, run.first))
        inner = [run for number, run in enumerate(found) if not number or abs(run.first) <= limit]
        drawn: SearchStrategy[Value] = st.tuples(_one_of(inner, st), _place(st)).map(
            lambda p: _value(p[0], p[1], limit)
        )
        return drawn

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


# Hypothesis prefers fewer choices before smaller ones: each value costs the same number of them, so that it shrinks to
# the smallest value and not to a class that has only one.


def _one_of(items: Sequence[Any], st: Any) -> Any:
    """One of ``items``, of any number; shrinks to the first."""
    return st.integers(0, MANY).map(lambda n: items[n % len(items)])


def _place(st: Any) -> Any:
    """Where in a run: how far from its first value, or at one of its ends."""
    return st.one_of(st.integers(0, MANY), st.booleans())


def _value(run: Run, place: int | bool, limit: int) -> int:
    """The value of ``run`` at ``place``, by magnitude not above ``limit`` but for the first."""
    last = max(0, (limit - abs(run.first)) // abs(run.step))
    if run.length is not None:
        last = min(run.length - 1, last)
    return run.first + run.step * (place * last if isinstance(place, bool) else place % (last + 1))

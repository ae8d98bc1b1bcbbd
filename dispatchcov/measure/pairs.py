"""The measures that follow from pairs of inputs: boundaries and MC/DC."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from dispatchcov.expr import Value
from dispatchcov.formula import holds
from dispatchcov.items import Item
from dispatchcov.space.answers import Answer
from dispatchcov.space.boundaries import Boundaries, Boundary
from dispatchcov.space.mcdc import Independence, independence
from dispatchcov.space.variants import once
from dispatchcov.table import Table, plain

if TYPE_CHECKING:
    from dispatchcov.measure.groups import Group
    from dispatchcov.measure.table import Measure
    from dispatchcov.records import Row


Told: TypeAlias = Callable[[tuple[Value, ...]], bool]


class Pairs:
    """The boundaries and the MC/DC pairs of ``table``."""

    def __init__(self, table: Table) -> None:
        self.finder = Boundaries(table)
        self.boundaries = tuple(self.finder.all())
        self.independence = tuple(independence(table))


def boundaries(measure: Measure) -> tuple[Item, ...]:
    """Both sides of each boundary; a decision is on one if an input of it lies next to the other side."""
    pairs = once(measure.table, Pairs)
    return tuple(
        _side(measure, pairs.finder, boundary, side) for boundary in pairs.boundaries for side in (True, False)
    )


def _side(measure: Measure, finder: Boundaries, boundary: Boundary, side: bool) -> Item:
    names = measure.table.names
    answer = boundary.true if side else boundary.false

    @functools.cache
    def beside(values: tuple[Value, ...]) -> bool:
        return finder.at(boundary, dict(zip(names, values, strict=True))) is side

    def seen(row: Row) -> bool:
        return any(map(beside, row.inputs))

    def matches(group: Group) -> bool:
        guard, bit = boundary.rule.guard, 1 << boundary.index
        decides = holds(guard, group.vector) != holds(guard, group.vector ^ bit)
        return group.passed >= boundary.rule.index and bool(group.vector & bit) is side and decides

    text = measure.table.predicates[boundary.index].text
    place = f" at {boundary.variable} = {plain(answer.witness[boundary.variable])}" if answer.witness else ""
    detail = f"{text}: {str(side).lower()}{place}"
    line = boundary.rule.line
    return measure.item(boundary.rule.name, detail, [boundary.rule], answer, matches, line, seen=seen, told=beside)


def mcdc(measure: Measure) -> tuple[Item, ...]:
    """One item for each predicate of each guard, hit by the decisions of a pair that shows that it decides."""
    return tuple(_independence(measure, each) for each in once(measure.table, Pairs).independence)


def _independence(measure: Measure, each: Independence) -> Item:
    groups = [group for group in measure.groups if group.passed >= each.rule.index]
    vectors = {group.vector for group in groups if group.counted and not group.wrong}
    halves = each.halves(vectors) if each.method else []
    whole: set[int] = set().union(*(true | false for true, false in halves if true and false))
    wanted = _wanted(measure, each, halves)
    matches: Callable[[Group], bool] = lambda group: group.vector in whole and group.passed >= each.rule.index  # noqa: E731
    text = measure.table.predicates[each.index].text
    detail = f"{text} ({each.method})" if each.method == "masking" else text
    answer, told = wanted[0] if wanted else (Answer("unreachable"), None)
    item = measure.item(each.rule.name, detail, [each.rule], answer, matches, each.rule.line, told=told)
    others = (measure.witness(*other) for other in wanted[1:])
    return replace(item, also=tuple(facts for facts in others if facts is not None))


def _wanted(measure: Measure, each: Independence, halves: list[tuple[set[int], set[int]]]) -> list[tuple[Answer, Told]]:
    """What the way of ``each`` that lacks least still lacks, of those that the hardware of this run can go; of none,
    first the half that it cannot. With each answer, whether an input is of its half.
    """

    def lacks(way: int) -> tuple[bool, int]:
        elsewhere = not all(map(measure.here, each.ways[way]))
        return elsewhere, sum(not half for half in halves[way])

    def told(way: int, half: int) -> Told:
        def is_half(values: tuple[Value, ...]) -> bool:
            group = measure.paths.group(values)
            return group.passed >= each.rule.index and bool(each.halves([group.vector])[way][half])

        return is_half

    way = min(range(len(halves)), key=lacks, default=None)
    if way is None:
        return []
    found = [(answer, told(way, half)) for half, answer in enumerate(each.ways[way])]
    missing = [pair for pair, seen in zip(found, halves[way], strict=True) if not seen] or found[:1]
    return sorted(missing, key=lambda pair: measure.here(pair[0]))

"""The measures that follow from pairs of inputs: boundaries and MC/DC."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from dispatchcov.boundaries import Boundaries, Boundary
from dispatchcov.expr import Value
from dispatchcov.formula import holds
from dispatchcov.mcdc import Independence, independence
from dispatchcov.regions import Answer
from dispatchcov.results import Item
from dispatchcov.table import Table, plain
from dispatchcov.variants import once

if TYPE_CHECKING:
    from dispatchcov.measure import Group, Measure
    from dispatchcov.records import Row


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
    return measure.item(boundary.rule.name, detail, [boundary.rule], answer, matches, line, seen=seen)


def mcdc(measure: Measure) -> tuple[Item, ...]:
    """One item for each predicate of each guard, hit by the decisions of a pair that shows that it decides."""
    return tuple(_independence(measure, each) for each in once(measure.table, Pairs).independence)


def _independence(measure: Measure, each: Independence) -> Item:
    groups = [group for group in measure.groups if group.passed >= each.rule.index]
    vectors = {group.vector for group in groups if group.counted and not group.wrong}
    halves = each.halves(vectors) if each.method else []
    whole: set[int] = set().union(*(true | false for true, false in halves if true and false))
    way = max(range(len(halves)), key=lambda n: bool(halves[n][0]) + bool(halves[n][1]), default=None)
    answer = Answer("unreachable")
    others: tuple[Answer, ...] = ()
    if way is not None:
        missing = [answer for answer, seen in zip(each.ways[way], halves[way], strict=True) if not seen]
        answer, *rest = missing or each.ways[way]
        others = tuple(rest if missing else ())
    matches: Callable[[Group], bool] = lambda group: group.vector in whole and group.passed >= each.rule.index  # noqa: E731
    text = measure.table.predicates[each.index].text
    detail = f"{text} ({each.method})" if each.method == "masking" else text
    item = measure.item(each.rule.name, detail, [each.rule], answer, matches, each.rule.line, fixed=True)
    return measure.also(item, others)

"""The outcomes of predicates where guards read them, measured: what tools call branches.

A guard reads a predicate if no earlier rule took the input and the predicates before it did not settle the guard. An
outcome that no such input has is ``unreachable``, which is proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dispatchcov.formula import ALWAYS, NEVER, Formula, Leaf, Opposite, Some, every, leaves, read
from dispatchcov.items import Item
from dispatchcov.measure.groups import Group, grouped
from dispatchcov.measure.table import Measure
from dispatchcov.results import Results, TableResults
from dispatchcov.table import Rule


@dataclass(frozen=True, slots=True)
class Guard:
    """What was measured of the guard of ``rule``, where it was evaluated.

    ``predicates`` has, in guard order, the items of the outcomes true and false of each; ``taken`` and ``passed`` are
    those of the guard itself. A rule without a guard has no predicates and is never passed.
    """

    rule: Rule
    predicates: tuple[tuple[Item, Item], ...]
    taken: Item
    passed: Item

    @property
    def evaluated(self) -> int:
        """How often the guard was evaluated in decisions that count."""
        return sum(item.reach.hits for item in self.predicates[0]) if self.predicates else 0


def guards(results: Results, table: TableResults) -> tuple[Guard, ...]:
    """The guards of ``table`` in the order of its rules; ``results`` is what it is part of."""
    rows = [row for row in results.data.rows if row.digest == table.table.digest]
    groups = grouped(table.table, results.data, rows)
    measure = Measure(table.table, groups, rows, results.evidence, results.today, bool(results.partial))
    return tuple(
        Guard(rule, tuple(_outcomes(measure, rule)), taken, _passed(measure, rule))
        for rule, taken in zip(table.table.rules, table.rules, strict=True)
    )


def _outcomes(measure: Measure, rule: Rule) -> Iterator[tuple[Item, Item]]:
    for index in leaves(rule.guard):
        reads = read_when(rule.guard, index)
        yield _outcome(measure, rule, index, reads, True), _outcome(measure, rule, index, reads, False)


def _outcome(measure: Measure, rule: Rule, index: int, reads: Formula, side: bool) -> Item:
    def matches(group: Group) -> bool:
        came = group.passed >= rule.index and bool(group.vector >> index & 1) == side
        return came and index in read(rule.guard, group.vector)

    detail = f"{measure.table.predicates[index].text}: {str(side).lower()}"
    answer = measure.space.reaching(rule.index, every(reads, Leaf(index) if side else Opposite(Leaf(index))))
    return measure.item(rule.name, detail, [rule], answer, matches, rule.line)


def _passed(measure: Measure, rule: Rule) -> Item:
    answer = measure.space.reaching(rule.index, Opposite(rule.guard))
    return measure.item(rule.name, "passed", [rule], answer, lambda group: group.passed > rule.index, rule.line)


def read_when(formula: Formula, index: int) -> Formula:
    """The condition on which short-circuit evaluation of ``formula`` reads predicate ``index``."""
    match formula:
        case Leaf():
            return ALWAYS if formula.index == index else NEVER
        case Opposite():
            return read_when(formula.operand, index)
    ways: list[Formula] = []
    before: list[Formula] = []
    for operand in formula.operands:
        if index in leaves(operand):
            ways.append(every(*before, read_when(operand, index)))
        before.append(Opposite(operand) if isinstance(formula, Some) else operand)
    return Some(tuple(ways))

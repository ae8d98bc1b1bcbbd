"""Paths through a table told apart by what does not change with its thresholds, and inputs decided by another table."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

from dispatchcov.decide import path
from dispatchcov.errors import FactsError
from dispatchcov.expr import Value, evaluate
from dispatchcov.formula import leaves, settle
from dispatchcov.space.paths import region_name, settlers
from dispatchcov.table import Table


class Labels:
    """The predicates of each guard by the variables they read: ``sm``, and ``sm (2)`` for a second one."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.of_rule: list[dict[int, str]] = []
        self.choices = [len({index for index, _ in settlers(rule.guard, False)}) for rule in table.rules]
        for rule in table.rules:
            seen: dict[str, int] = {}
            labels: dict[int, str] = {-1: ""}
            for index in leaves(rule.guard):
                reads = table.predicates[index].reads
                name = ", ".join(name for name in table.names if name in reads)
                seen[name] = seen.get(name, 0) + 1
                labels[index] = name if seen[name] == 1 else f"{name} ({seen[name]})"
            self.of_rule.append(labels)

    @classmethod
    def of(cls, table: Table) -> Labels:
        """The labels of ``table``, made once."""
        found = _labels.get(table)
        if found is None:
            found = _labels[table] = cls(table)
        return found

    def settled(self, settled: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
        """Each earlier rule that could fail in several ways with the label of what settled it."""
        return tuple(
            (rule.name, labels[index])
            for rule, labels, choices, index in zip(self.table.rules, self.of_rule, self.choices, settled, strict=False)
            if choices > 1
        )

    def predicate(self, rule: int, label: str) -> int | None:
        """The predicate of a guard that has ``label``, if one does."""
        return next((index for index, other in self.of_rule[rule].items() if other == label and index >= 0), None)


_labels: weakref.WeakKeyDictionary[Table, Labels] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Step:
    """What became of ``rule`` (its index) in a decision: selected or not, and the predicate read last (-1: none)."""

    rule: int
    held: bool
    last: int

    def when(self, table: Table) -> str:
        """The guard of the rule of ``table``, as written."""
        return table.rules[self.rule].when


@dataclass(frozen=True, slots=True)
class Decided:
    """``facts`` decided by ``table``; ``steps`` are those of each rule asked, by name."""

    table: Table
    facts: Mapping[str, Value]
    vector: int
    rule: int | None
    settled: tuple[int, ...]
    steps: Mapping[str, Step]

    @property
    def name(self) -> str:
        """The selected rule, ``""`` if none was."""
        return self.table.rules[self.rule].name if self.rule is not None else ""

    @property
    def region(self) -> str:
        """The region in words."""
        return region_name(self.table, self.rule, self.settled)

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """What settled the earlier rules; see :class:`Labels`."""
        return Labels.of(self.table).settled(self.settled)


def decided(table: Table, given: Mapping[str, Value]) -> Decided | None:
    """``given`` decided by ``table``; None if it lacks a variable or a value has another type by now."""
    try:
        facts = table.facts({name: given[name] for name in table.names if name in given}, domain=False)
    except FactsError:
        return None
    vector = 0
    for index in {index for rule in table.rules for index in leaves(rule.guard)}:
        with contextlib.suppress(ZeroDivisionError):  # what divides by zero is false, as in the space of decisions
            vector |= bool(evaluate(table.predicates[index].expr, facts)) << index
    rule, settled = path(table, vector)
    steps = {table.rules[index].name: Step(index, False, last) for index, last in enumerate(settled)}
    if rule is not None:
        steps[table.rules[rule].name] = Step(rule, True, settle(table.rules[rule].guard, vector)[1])
    return Decided(table, facts, vector, rule, settled, steps)

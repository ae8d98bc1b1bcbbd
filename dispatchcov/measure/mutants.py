"""Mutants of the guards as a measure: noticed by which decisions, caught by which tests, or survived."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dispatchcov.expr import Value
from dispatchcov.items import Item
from dispatchcov.mutate import Mutation, Trial

if TYPE_CHECKING:
    from dispatchcov.measure.groups import Group
    from dispatchcov.measure.table import Measure
    from dispatchcov.records import Row


def mutants(measure: Measure) -> tuple[Item, ...]:
    """One item for each mutant, hit if a counted decision notices it; its grade says more."""
    groups: dict[tuple[Value, ...], set[int]] = {}
    for group in measure.groups:
        for row in group.counted if not group.wrong else ():
            for values in row.inputs:
                groups.setdefault(values, set()).add(id(group))
    mutation = Mutation.of(measure.table)
    return tuple(_item(measure, mutation, trial, groups) for trial in mutation.tried(groups))


def _item(measure: Measure, mutation: Mutation, trial: Trial, groups: dict[tuple[Value, ...], set[int]]) -> Item:
    inside = {group for values in trial.noticing for group in groups[values]}
    caught = False

    def matches(group: Group) -> bool:
        return id(group) in inside

    def seen(row: Row) -> bool:
        nonlocal caught
        noticed = not trial.noticing.isdisjoint(row.inputs)
        caught = caught or (noticed and (row.checked > 0 or measure.asserts(row)))
        return noticed

    def told(values: tuple[Value, ...]) -> bool:
        return mutation.notices(mutant, values)

    mutant, answer = trial.mutant, trial.answer
    place = mutant.rule.name, mutant.change, [mutant.rule]
    item = measure.item(*place, answer, matches, mutant.rule.line, seen=seen, told=told)
    grades = {"hit": "caught" if caught else "noticed", "unreachable": "equivalent"}
    grade = "unknown" if answer.state == "unknown" else "survived"
    return replace(item, grade=grades.get(item.state, grade))

"""Waivers of mismatches that a run has shown to be needed no more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dispatchcov.items import Mismatch, emulated
from dispatchcov.measure.groups import Group
from dispatchcov.measure.mismatches import covers
from dispatchcov.records import Row
from dispatchcov.table import Rule, Waiver

if TYPE_CHECKING:
    from dispatchcov.measure.table import Measure

WHEREVER = ("domain", "untotal")
"""Mismatches that belong to no rule: every decision shows whether there is one."""


def unneeded(worker: Measure, found: Iterable[Mismatch]) -> tuple[Waiver, ...]:
    """The waivers that cover none of ``found``, though the run could have shown a mismatch that they cover."""
    seen = list(found)
    return tuple(
        waiver
        for waiver in worker.table.waivers
        if waiver.mismatch
        and not worker.partial
        and not any(covers(waiver, mismatch) for mismatch in seen)
        and _shown(worker, waiver)
    )


def _shown(worker: Measure, waiver: Waiver) -> bool:
    """Was the rule of ``waiver``, or without one each rule that can be, reached with what tells such a mismatch?"""
    if waiver.mismatch in WHEREVER and not waiver.rule:
        return any(row.selected for group in worker.groups for row in group.counted)
    rules = [rule for rule in worker.table.rules if waiver.rule in ("", rule.name)]
    return all(_reached(worker, rule, waiver.mismatch) for rule in rules)


def _reached(worker: Measure, rule: Rule, kind: str) -> bool:
    """On all hardware on which it can be, where the table says that it depends on that."""
    answer = worker.space.answer((rule.index,))
    groups = [group for group in worker.groups if group.rule == rule.index]
    seen = {row.hardware for group in groups for row in group.counted if _tells(kind, group, row)}
    return answer.state == "unreachable" or (bool(seen) and answer.hardware <= seen)


def _tells(kind: str, group: Group, row: Row) -> bool:
    """Would a mismatch have shown? Another kernel does where what ran is known, and not on emulated hardware."""
    if kind != "kernel":
        return bool(row.selected)
    return bool((group.kernel and row.selected) or row.observed) and not emulated(row.machine)

"""What must not happen, seen in the records: another kernel, a violated contract, facts outside the domains."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Iterable
from dataclasses import replace

from dispatchcov import decide
from dispatchcov.formula import holds
from dispatchcov.items import Mismatch
from dispatchcov.measure.groups import Group
from dispatchcov.nearest import nearest
from dispatchcov.table import Rule, Table, Waiver


def mismatches(table: Table, groups: Iterable[Group], today: datetime.date) -> tuple[Mismatch, ...]:
    """One for each group of decisions and each thing that is wrong with it."""
    found = []
    for group in groups:
        rule = table.rules[group.rule] if group.rule is not None else None
        expected = rule.kernel.name if rule else "no kernel"
        first = next(iter([*group.counted, *(row for _, row in group.apart)])).inputs[0]
        if decide.undefined(table, group.vector, first):
            found.append(_mismatch(table, "untotal", group, None, "a rule", "a predicate that divides by zero"))
            continue
        if group.kernel and group.kernel != expected:
            found.append(_mismatch(table, "kernel", group, rule, expected, group.kernel))
        if decide.outside(table, group.vector):
            found.append(_mismatch(table, "domain", group, rule, *_domain(table, group)))
        if rule is None:
            found.append(_mismatch(table, "untotal", group, rule, "a rule", "none"))
        elif not holds(rule.kernel.requires, group.vector):
            got = f"an input outside the contract of {expected}"
            found.append(_mismatch(table, "contract", group, rule, rule.kernel.requires_text, got))
    return tuple(_waived(table, mismatch, today) for mismatch in found)


def _waived(table: Table, mismatch: Mismatch, today: datetime.date) -> Mismatch:
    for waiver in table.waivers:
        if covers(waiver, mismatch) and waiver.expires >= today:
            return replace(mismatch, waiver=f"{waiver.reason} (until {waiver.expires})")
    return mismatch


def covers(waiver: Waiver, mismatch: Mismatch) -> bool:
    """Is ``waiver`` about ``mismatch``, expired or not?"""
    return (
        waiver.mismatch == mismatch.kind
        and waiver.rule in ("", mismatch.rule)
        and fnmatch.fnmatchcase(mismatch.got, waiver.kernel or "*")
    )


def _mismatch(table: Table, kind: str, group: Group, rule: Rule | None, expected: str, got: str) -> Mismatch:
    rows = [*group.counted, *(row for _, row in group.apart)]
    facts = dict(zip(table.names, rows[0].inputs[0], strict=True))
    tests = tuple(sorted({row.test for row in rows} - {""}))
    decisions = sum(row.selected or row.observed for row in rows)
    near = nearest(table, group.vector, got) if kind == "kernel" else ""
    return Mismatch(kind, rule.name if rule else "", expected, got, facts, decisions, tests, near)


def _domain(table: Table, group: Group) -> tuple[str, str]:
    row = next(iter([*group.counted, *(row for _, row in group.apart)]))
    facts = dict(zip(table.names, row.inputs[0], strict=True))
    names = table.outside(facts)
    wanted = "; ".join(f"{name} {table.variable(name).domain()}" for name in names)
    return wanted, decide.show({name: facts[name] for name in names})

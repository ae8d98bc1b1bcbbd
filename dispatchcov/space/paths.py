"""What identifies a region, the predicate that settled each earlier rule, as a condition and as a name."""

from __future__ import annotations

import hashlib
import weakref

from dispatchcov.formula import ALWAYS, NEVER, Formula, Leaf, Opposite, Some, every
from dispatchcov.table import Table

SHOWN = 6


def settling(formula: Formula, wanted: bool, last: int) -> Formula:
    """When does short-circuit evaluation make ``formula`` ``wanted`` and read predicate ``last`` last?"""
    match formula:
        case Leaf(index=index):
            return NEVER if index != last else formula if wanted else Opposite(formula)
        case Opposite(operand=operand):
            return settling(operand, not wanted, last)
    stop = isinstance(formula, Some)
    parts = formula.operands
    passed = tuple(Opposite(part) for part in parts) if stop else parts
    if not parts:
        return ALWAYS if wanted != stop and last == -1 else NEVER
    if wanted != stop:
        return every(*passed[:-1], settling(parts[-1], wanted, last))
    return Some(tuple(every(*passed[:n], settling(part, wanted, last)) for n, part in enumerate(parts)))


def settlers(formula: Formula, wanted: bool) -> frozenset[tuple[int, bool]]:
    """The predicates, with their outcomes, that can be read last when ``formula`` is ``wanted``."""
    match formula:
        case Leaf(index=index):
            return frozenset({(index, wanted)})
        case Opposite(operand=operand):
            return settlers(operand, not wanted)
    stop = isinstance(formula, Some)
    parts = formula.operands if wanted == stop else formula.operands[-1:]
    return frozenset().union(*(settlers(part, wanted) for part in parts))


def region_name(table: Table, rule: int | None, settled: tuple[int, ...]) -> str:
    """The rule and what settled each earlier one where there is a choice: ``gemm [mma, gemv: not M <= 8]``.

    Different regions of a table have different names; long ones are cut and end in a checksum.
    """
    choices = _choices.get(table)
    if choices is None:
        choices = _choices[table] = _choices_of(table)
    reasons: list[tuple[str, list[str]]] = []
    for earlier, possible, index in zip(table.rules, choices, settled, strict=False):
        if len(possible) < 2 and rule is not None:
            continue
        if reasons and reasons[-1][0] == possible[index]:
            reasons[-1][1].append(earlier.name)
        else:
            reasons.append((possible[index], [earlier.name]))
    head = "no rule" if rule is None else table.rules[rule].name
    parts = [f"{', '.join(names)}: {reason}" for reason, names in reasons]
    if len(parts) > SHOWN:
        checksum = hashlib.sha256("; ".join(parts).encode()).hexdigest()[:8]
        parts = [*parts[: SHOWN - 1], f"and {len(parts) - SHOWN + 1} more, {checksum}"]
    return f"{head} [{'; '.join(parts)}]" if parts else head


_choices: weakref.WeakKeyDictionary[Table, list[dict[int, str]]] = weakref.WeakKeyDictionary()


def _choices_of(table: Table) -> list[dict[int, str]]:
    """For each rule the predicates that can settle that it is not selected, with what is the case then."""
    found = []
    for rule in table.rules:
        outcomes: dict[int, set[bool]] = {}
        for index, value in settlers(rule.guard, False):
            outcomes.setdefault(index, set()).add(value)
        found.append({index: _text(table.predicates[index].text, values) for index, values in outcomes.items()})
    return found


def _text(text: str, outcomes: set[bool]) -> str:
    if len(outcomes) == 2:
        return f"either way {text}"
    return text if True in outcomes else f"not {text}"

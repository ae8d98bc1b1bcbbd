"""Rules that no input reaches, and why: ``dead`` findings with the fewest rules that stand before."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dispatchcov.check.ask import Inquiry
from dispatchcov.check.divide import Divisions
from dispatchcov.check.findings import Finding
from dispatchcov.formula import ALWAYS, Formula, Opposite, Some, assign, every
from dispatchcov.table import Rule

MOST_SETS = 300


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """What keeps the inputs of ``where`` from later rules: ``rule`` takes them, or its guard ``divides`` by zero."""

    rule: Rule
    where: Formula
    divides: bool = False


def dead_rules(ask: Inquiry, divisions: Divisions) -> Iterator[Finding]:
    """Rules that no input reaches; each is entered in ``ask.dead``."""
    for rule in ask.table.rules:
        answer = ask.space.answer([rule.index])
        if answer.state == "unreachable":
            ask.dead.add(rule.index)
            why = shadowed(ask, divisions, [rule])
            yield ask.finding("dead", f"no input reaches rule {rule.name}: {why}", rule=rule)
        elif answer.state == "unknown":
            yield ask.unknown(f"an input reaches rule {rule.name}", answer, rule)


def shadowed(ask: Inquiry, divisions: Divisions, rules: Sequence[Rule], condition: Formula | None = None) -> str:
    """Why no input, for which ``condition`` holds, is left to ``rules``: the fewest others that keep all from them.

    A rule that is dead itself takes nothing, so it is none of these, but its guard may divide by zero. Of as few the
    first in order; where there are too many sets to try, none of those named can be left out.
    """
    taken = every(Some(tuple(map(divisions.held, rules))), condition or ALWAYS)
    if divisions.never(taken):
        return "its condition never holds" if condition else f"its guard never holds{_divided(ask, divisions, rules)}"
    obstacles = [each for each in _obstacles(ask, divisions, rules) if not divisions.never(taken, each.where)]

    def enough(chosen: Iterable[_Obstacle]) -> bool:
        return divisions.never(taken, *(Opposite(each.where) for each in chosen))

    needed = obstacles
    for obstacle in reversed(obstacles):
        fewer = [each for each in needed if each is not obstacle]
        if enough(fewer):
            needed = fewer
    needed = _fewer(obstacles, len(needed), enough) or needed
    by = " and ".join(each.rule.name for each in needed if not each.divides)
    at = " and ".join(each.rule.name for each in needed if each.divides)
    ends = [f"is taken before by {by}"] * bool(by) + [f"divides by zero before, in the guard of {at}"] * bool(at)
    return f"all that it could take {' or '.join(ends)}"


def _obstacles(ask: Inquiry, divisions: Divisions, rules: Sequence[Rule]) -> Iterator[_Obstacle]:
    before = ask.table.rules[: rules[-1].index]
    for rule in before:
        if rule.index not in ask.dead and rule not in rules:
            yield _Obstacle(rule, divisions.held(rule))
    for rule in before:
        if divisions.at[rule.index]:
            passed = (Opposite(Some((earlier.guard, divisions.raised(earlier)))) for earlier in before[: rule.index])
            yield _Obstacle(rule, every(divisions.raised(rule), *passed), divides=True)


def _divided(ask: Inquiry, divisions: Divisions, rules: Iterable[Rule]) -> str:
    """The predicates that divide by zero wherever all else in a guard that never holds is fulfilled, if any do."""
    texts = [
        ask.text(index)
        for rule in rules
        for index, where in divisions.at[rule.index].items()
        for rest in (assign(rule.guard, index, value) for value in (False, True))
        if divisions.never(rest, Opposite(where)) and not divisions.never(rest)
    ]
    return f": it divides by zero in {' and '.join(texts)}" if texts else ""


def _fewer(
    items: Sequence[_Obstacle], than: int, enough: Callable[[Sequence[_Obstacle]], bool]
) -> list[_Obstacle] | None:
    """The first of the smallest subsets of ``items``, with fewer ``than`` members, that is ``enough``, if any is."""
    tries = MOST_SETS
    for count in range(1, than):
        tries -= math.comb(len(items), count)
        if tries < 0:
            return None
        found = next((chosen for chosen in itertools.combinations(items, count) if enough(chosen)), None)
        if found is not None:
            return list(found)
    return None

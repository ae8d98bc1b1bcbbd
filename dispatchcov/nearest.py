"""Which predicates stand between what a table selects and a kernel that ran instead: the fewest to flip."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from dispatchcov.formula import Formula, holds, leaves
from dispatchcov.table import Rule, Table

LIMIT = 20_000
"""Sets of flips that are tried at most; a search that ends there names nothing."""

SHOWN = 3


def flips(table: Table, vector: int, kernel: str) -> tuple[tuple[int, ...], ...]:
    """The smallest sets of predicates whose outcomes in ``vector``, each turned round, let a rule of ``kernel`` be
    selected.

    All of the least size, each ascending, in the order of the rules; empty if no rule has the kernel, if no outcomes at
    all select one, or if the search gave up. Outcomes are turned one by one: that an input has them is not asked.
    """
    found: dict[tuple[int, ...], None] = {}
    for rule in table.rules:
        if rule.kernel.name == kernel:
            size = len(next(iter(found))) if found else len(table.predicates)
            for flipped in _least(table, vector, rule, size):
                if found and len(flipped) < len(next(iter(found))):
                    found.clear()
                found[flipped] = None
    return tuple(found)


def _least(table: Table, vector: int, rule: Rule, limit: int) -> Iterator[tuple[int, ...]]:
    """The smallest sets, of at most ``limit``, that select ``rule``: a set that leaves a condition unmet needs one more
    of the predicates of that condition.
    """
    wanted = [(rule.guard, True), *((earlier.guard, False) for earlier in table.rules[: rule.index])]
    waiting: deque[frozenset[int]] = deque([frozenset()])
    known = {frozenset[int]()}
    least: int | None = None
    while waiting:
        flipped = waiting.popleft()
        if len(flipped) > (limit if least is None else least):
            return
        unmet = _unmet(wanted, vector ^ sum(1 << index for index in flipped))
        if unmet is None:
            least = len(flipped)
            yield tuple(sorted(flipped))
            continue
        for index in leaves(unmet):
            more = flipped | {index}
            if len(known) >= LIMIT:
                return
            if index not in flipped and more not in known:
                known.add(more)
                waiting.append(more)


def _unmet(wanted: list[tuple[Formula, bool]], vector: int) -> Formula | None:
    return next((guard for guard, value in wanted if holds(guard, vector) != value), None)


def nearest(table: Table, vector: int, kernel: str) -> str:
    """:func:`flips` as a person reads it, ``M <= 8 would have to be true``; ``""`` if there are none."""
    sets = flips(table, vector, kernel)
    if not sets or not sets[0]:
        return ""
    more = f", or {len(sets) - SHOWN} other ways" if len(sets) > SHOWN else ""
    return ", or ".join(_words(table, vector, flipped) for flipped in sets[:SHOWN]) + more


def _words(table: Table, vector: int, flipped: tuple[int, ...]) -> str:
    outcomes = {index: "false" if vector >> index & 1 else "true" for index in flipped}
    return " and ".join(f"{table.predicates[index].text} would have to be {word}" for index, word in outcomes.items())

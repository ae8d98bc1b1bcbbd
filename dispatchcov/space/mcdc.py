"""MC/DC: for each predicate of each guard two inputs that show that it alone decides the guard.

*Unique-cause*, where there are such inputs: the two agree in all other predicates of the guard. *Masking* otherwise:
at each of the two the predicate decides, and the guard is not the same. What no two inputs can show is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dispatchcov.formula import ALWAYS, NEVER, Formula, Leaf, Opposite, Some, assign, every, flipped, holds, leaves
from dispatchcov.regions import Space
from dispatchcov.space.answers import Answer
from dispatchcov.table import Rule, Table

MOST_WAYS = 64


@dataclass(frozen=True, slots=True)
class Independence:
    """What shows that predicate ``index`` decides the guard of ``rule`` alone.

    ``method``: ``unique-cause``, ``masking``, or empty if nothing can. ``ways`` are pairs of answers, one of which has
    to be seen whole: an input at which the predicate holds and one at which it does not. ``vectors`` are the outcomes
    of the other predicates of the guard in each way (unique-cause only).
    """

    rule: Rule
    index: int
    method: str
    ways: tuple[tuple[Answer, Answer], ...]
    vectors: tuple[int, ...] = ()

    @property
    def bit(self) -> int:
        """The predicate's bit in a vector."""
        return 1 << self.index

    def halves(self, vectors: Iterable[int]) -> list[tuple[set[int], set[int]]]:
        """For each way which of ``vectors``, of inputs that reach the rule, are its first and its second half."""
        guard, bit = self.rule.guard, self.bit
        mask = sum(1 << i for i in leaves(guard))
        if self.method == "masking":
            decided = [v for v in vectors if holds(guard, v) != holds(guard, v ^ bit)]
            return [({v for v in decided if v & bit}, {v for v in decided if not v & bit})]
        found = []
        for way in self.vectors:
            both = [{v for v in vectors if v & mask == wanted} for wanted in (way | bit, way)]
            found.append((both[0], both[1]))
        return found


def independence(table: Table) -> Iterator[Independence]:
    """One for each predicate of each guard, in guard order."""
    space = Space.of(table)
    for rule in table.rules:
        for index in leaves(rule.guard):
            yield _unique_cause(space, rule, index) or _masking(space, rule, index)


def _unique_cause(space: Space, rule: Rule, index: int) -> Independence | None:
    others = tuple(i for i in leaves(rule.guard) if i != index)
    ways, vectors = [], []
    for number, vector in enumerate(_deciding(rule.guard, index, others, 0)):
        if number == MOST_WAYS:
            break
        rest = [Leaf(i) if vector >> i & 1 else Opposite(Leaf(i)) for i in others]
        true = space.reaching(rule.index, every(Leaf(index), *rest))
        if true.state == "unreachable":
            continue
        false = space.reaching(rule.index, every(Opposite(Leaf(index)), *rest))
        if false.state != "unreachable":
            ways.append((true, false))
            vectors.append(vector)
    return Independence(rule, index, "unique-cause", tuple(ways), tuple(vectors)) if ways else None


def _deciding(guard: Formula, index: int, others: tuple[int, ...], vector: int) -> Iterator[int]:
    """The outcomes of ``others`` with which predicate ``index`` decides ``guard``."""
    if not _matters(guard, index):
        return
    if not others:
        yield vector
        return
    for value in (True, False):
        left = assign(guard, others[0], value)
        yield from _deciding(left, index, others[1:], vector | value << others[0])


def _matters(guard: Formula, index: int) -> bool:
    """Can ``index`` still make a difference? A cheap bound: its value changes what is left of ``guard``."""
    return _simple(assign(guard, index, True)) != _simple(assign(guard, index, False))


def _simple(formula: Formula) -> Formula:
    match formula:
        case Leaf():
            return formula
        case Opposite(operand=operand):
            inner = _simple(operand)
            return NEVER if inner == ALWAYS else ALWAYS if inner == NEVER else Opposite(inner)
    stop = isinstance(formula, Some)
    settled, neutral = (ALWAYS, NEVER) if stop else (NEVER, ALWAYS)
    parts = [part for part in map(_simple, formula.operands) if part != neutral]
    if settled in parts:
        return settled
    return parts[0] if len(parts) == 1 else type(formula)(tuple(parts))


def _masking(space: Space, rule: Rule, index: int) -> Independence:
    other = flipped(rule.guard, index)
    decides = Some((every(rule.guard, Opposite(other)), every(Opposite(rule.guard), other)))
    true = space.reaching(rule.index, every(Leaf(index), decides))
    false = space.reaching(rule.index, every(Opposite(Leaf(index)), decides))
    if "unreachable" in (true.state, false.state):
        return Independence(rule, index, "", ())
    return Independence(rule, index, "masking", ((true, false),))

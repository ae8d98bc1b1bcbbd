"""The smallest input that a question about a table asks for, or the proof that there is none.

A box is looked at through its smallest input. If that input answers the question, nothing left is smaller. If not, some
predicates explain why; the box is cut where one of them changes, and it is dropped where none can. So the search is
exact and never enumerates inputs; it gives up, and says so, after :data:`STEPS` boxes, or :data:`FEW` once a table has
cost :data:`BUDGET` boxes in vain.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dispatchcov.expr import Value
from dispatchcov.formula import ALWAYS, Formula, Leaf, Opposite, Some, holds, leaves, read
from dispatchcov.space.boxes import Axis, Boxes, Point, state, union
from dispatchcov.space.domain import Size, bits
from dispatchcov.space.found import Found
from dispatchcov.space.realise import Realiser
from dispatchcov.space.variants import Effort
from dispatchcov.table import Table

STEPS = 5_000
FEW = 250
BUDGET = 12 * STEPS


@dataclass(frozen=True, slots=True)
class Query:
    """Inputs that no rule before ``rule`` takes and for which ``condition`` holds; if ``exact``, taken by ``rule``."""

    rule: int
    exact: bool
    condition: Formula = ALWAYS


class Search:
    """Answers queries about the table of ``boxes``."""

    def __init__(self, boxes: Boxes, *, solving: bool = True) -> None:
        self.boxes = boxes
        self.rules = boxes.table.rules
        self.choose = _chooser(boxes.table)
        self.realiser = Realiser(boxes, solving=solving)
        self.effort = Effort.of(boxes.table)

    def find(self, query: Query, box: int, *, smallest: bool = True) -> Found:
        """The smallest input of ``box`` that answers ``query``, or the first that is met."""
        best, late = Found(None), ""
        number = itertools.count()
        queue = [_Entry(point.key, next(number), box, point) for point in ([self.boxes.point(box)] if box else [])]
        steps = STEPS if self.effort.boxes < BUDGET else FEW
        for step in range(2 * steps):
            if not queue or (smallest and best.key is not None and queue[0].key >= best.key):
                return best
            if step == steps and smallest:
                late = f"a smaller input may exist: not found in {steps} steps"
                self.effort.boxes += steps
                smallest = False
                queue.sort(reverse=True)
            entry = heapq.heappop(queue) if smallest else queue.pop()
            unmet = self.unmet(query, entry.point.true, entry.point.undefined, entry.box)
            if (
                unmet is None
                and not entry.point.real
                and (exact := self.realiser.exact(entry.box, smallest=smallest)) is not None
            ):
                if exact.facts is not None and exact.key is not None:
                    # The smallest input stands for the box from here on, and comes when nothing smaller is left.
                    at = Point(exact.key, *self.outcomes(exact.facts), exact.facts, True)
                    late = late or exact.reason
                    self._put(queue, _Entry(exact.key, next(number), entry.box, at), smallest)
                elif exact.reason:
                    best = best.better(exact)
                continue
            if unmet is None and not entry.point.real and (alike := self.alike(query, entry)):
                # What is not told of all of the box may be of the part in which all that the query reads is the same.
                unmet = alike
                rest = functools.reduce(lambda box, index: self.same(box, index, entry.point), alike, entry.box)
                self._put(queue, _Entry(entry.key, next(number), rest, entry.point), smallest)
            if unmet is None:
                best = best.better(self.real(query, entry))
                if best.facts and (entry.point.real or not smallest):
                    return Found(best.facts, best.key, best.reason or late)
                continue
            children = [_Entry(at.key, next(number), part, at) for part, at in self.cut(entry, unmet)]
            for child in sorted(children, reverse=True):
                self._put(queue, child, smallest)
        self.effort.boxes += steps
        return best.better(Found(None, None, f"given up after {2 * steps} steps"))

    @staticmethod
    def _put(queue: list[_Entry], entry: _Entry, smallest: bool) -> None:
        if smallest:
            heapq.heappush(queue, entry)
        else:
            queue.append(entry)

    def alike(self, query: Query, entry: _Entry) -> list[int]:
        """The predicates that ``query`` may read and that the box of ``entry`` leaves open."""
        guards = [rule.guard for rule in self.rules[: query.rule + query.exact]]
        indices = dict.fromkeys(index for formula in (*guards, query.condition) for index in leaves(formula))
        point = entry.point
        return [index for index in indices if self.open(index, point.true, point.undefined, entry.box)]

    def same(self, box: int, index: int, point: Point) -> int:
        """The part of ``box`` in which predicate ``index`` has the outcome that it has at ``point``."""
        return self.boxes.narrow(box, index, state(point.true, point.undefined, index))

    def outcomes(self, facts: dict[str, Value]) -> tuple[int, int]:
        """The outcomes of all predicates at ``facts``, as true and undefined bits."""
        return bits(self.boxes.table.predicates, facts)

    def hardware(self, queries: list[Query], facts: dict[str, Value]) -> frozenset[tuple[Value, ...]]:
        """The hardware values with which one of ``queries`` has an answer; ``facts`` are one."""
        found: set[tuple[Value, ...]] = set()

        def visit(depth: int, box: int, facts: dict[str, Value], known: tuple[int, int]) -> None:
            if depth == len(self.boxes.hardware):
                found.update(*(values for _, values in self.boxes.hardware_parts(box)))
                return
            axis = self.boxes.hardware[depth]
            for place in range(len(axis.classes)):
                part = axis.only(box, place)
                near, outcomes = self.swapped(axis, place, facts, known)
                if any(self.unmet(query, *outcomes, 0) is None for query in queries):
                    visit(depth + 1, part, near, outcomes)
                    continue
                others = (self.find(query, part, smallest=False).facts for query in queries)
                other = next((answer for answer in others if answer), None)
                if other:
                    visit(depth + 1, part, other, self.outcomes(other))

        visit(0, self.boxes.full, facts, self.outcomes(facts) if self.boxes.hardware else (0, 0))
        return frozenset(found)

    def swapped(
        self, axis: Axis, place: int, facts: dict[str, Value], known: tuple[int, int]
    ) -> tuple[dict[str, Value], tuple[int, int]]:
        """``facts`` with the smallest value of another class of one variable, and their outcomes."""
        name, item = axis.variable.name, axis.classes[place]
        near = {**facts, name: item.value}
        shared = [opaque.predicate for opaque in self.boxes.opaque if name in opaque.predicate.reads]
        same = ~(axis.decides | union(1 << predicate.index for predicate in shared))
        more = bits(shared, near)
        return near, (known[0] & same | item.true | more[0], known[1] & same | item.undefined | more[1])

    def real(self, query: Query, entry: _Entry) -> Found:
        """An input of a box whose smallest input answers ``query`` as far as the box knows."""
        if entry.point.real:
            return Found(entry.point.facts, entry.point.key)
        return self.realiser.find(entry.box, lambda vector, undefined: self.unmet(query, vector, undefined, 0) is None)

    def cut(self, entry: _Entry, unmet: list[int]) -> Iterator[tuple[int, Point]]:
        """The parts of a box in which one of the predicates ``unmet`` is not what it is at the smallest input."""
        boxes, rest = self.boxes, entry.box
        for index in unmet:
            value = state(entry.point.true, entry.point.undefined, index)
            part = boxes.narrow(rest, index, value, other=True)
            if part:
                yield part, boxes.point(part)
            rest = boxes.narrow(rest, index, value)

    def unmet(self, query: Query, vector: int, undefined: int, box: int) -> list[int] | None:
        """None if these outcomes answer ``query``; else the predicates to blame that ``box`` leaves open."""
        chosen = self.choose(vector)
        if undefined:
            for rule in self.rules[: min(chosen, query.rule - (not query.exact)) + 1]:
                seen = read(rule.guard, vector)
                broken = next((n for n, index in enumerate(seen, 1) if undefined >> index & 1), None)
                if broken:
                    return [index for index in seen[:broken] if self.open(index, vector, undefined, box)]
        if chosen < query.rule:
            return self.because(self.rules[chosen].guard, True, vector, undefined, box)
        if query.exact and chosen != query.rule:
            return self.because(self.rules[query.rule].guard, False, vector, undefined, box)
        if holds(query.condition, vector):
            return None
        return self.because(query.condition, False, vector, undefined, box)

    def open(self, index: int, vector: int, undefined: int, box: int) -> bool:
        """Does ``box`` allow another outcome of a predicate than the one given?"""
        return bool(self.boxes.narrow(box, index, state(vector, undefined, index), other=True))

    def because(self, formula: Formula, held: bool, vector: int, undefined: int, box: int) -> list[int]:
        """The fewest predicates that make ``formula`` be ``held``, without those that ``box`` fixes."""
        match formula:
            case Leaf(index=index):
                return [index] if self.open(index, vector, undefined, box) else []
            case Opposite(operand=operand):
                return self.because(operand, not held, vector, undefined, box)
        if held == isinstance(formula, Some):
            settling = (part for part in formula.operands if holds(part, vector) == held)
            return min((self.because(part, held, vector, undefined, box) for part in settling), key=len)
        return [i for part in formula.operands for i in self.because(part, held, vector, undefined, box)]


@dataclass(frozen=True, slots=True, order=True)
class _Entry:
    key: Size
    number: int
    box: int
    point: Point = field(compare=False)


def _chooser(table: Table) -> Callable[[int], int]:
    """The index of the rule that a vector selects, or the number of rules, compiled from the guards."""
    lines = [f" if {_test(rule.guard)}: return {rule.index}" for rule in table.rules]
    namespace: dict[str, Any] = {}
    exec("\n".join(["def choose(v):", *lines, f" return {len(table.rules)}"]), namespace)  # holds only numbers
    chosen: Callable[[int], int] = namespace["choose"]
    return chosen


def _test(formula: Formula) -> str:
    match formula:
        case Leaf():
            return f"v & {1 << formula.index}"
        case Opposite():
            return f"not ({_test(formula.operand)})"
    word = " or " if isinstance(formula, Some) else " and "
    return word.join(f"({_test(part)})" for part in formula.operands) or str(not isinstance(formula, Some))

"""Boundaries: for each predicate that can decide a guard, the nearest inputs on its two sides, all else being equal.

The two inputs differ in one variable, no earlier rule takes either, and at both the predicate alone decides the guard:
``M = 8 | 9`` for ``M <= 8``, ``K = 32 | 30`` for ``K % 32 == 0`` over even K. Asked of a variant of the table that has
every predicate twice, the second time with the variable moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dispatchcov import expr as ex
from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.expr import Value
from dispatchcov.formula import ALWAYS, NEVER, Every, Formula, Leaf, Opposite, Some, every, flipped, holds, leaves
from dispatchcov.regions import Space
from dispatchcov.space.answers import Answer, either
from dispatchcov.space.domain import outcome
from dispatchcov.space.variants import Variant
from dispatchcov.table import Rule, Table, Variable

STEPS = (1, 2, 3, 4)
MOST_MOVES = 12
KEPT = 16
Facts = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The pair of predicate ``index`` in the guard of ``rule``: where it holds and where not, ``variable`` apart.

    ``distance`` is how far the two are apart, in steps of the domain or places of listed values. If ``true.state`` is
    ``unreachable`` there is no such pair, which is proved, if ``unknown`` none was found; both answers agree in it.
    """

    rule: Rule
    index: int
    variable: str
    distance: int
    true: Answer
    false: Answer


class Boundaries:
    """The boundaries of ``table``, each found when asked for."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.space = Space.of(table)
        self.view = View.of(table, DEFAULT_MACHINE)
        self._spaces: dict[int, tuple[_Moved, Space]] = {}
        self._kept: dict[tuple[str, ...], Space] = {}
        self._sides: dict[tuple[int, int, int], bool | None] = {}

    def all(self) -> Iterator[Boundary]:
        """One for each predicate of each guard, in guard order."""
        for rule in self.table.rules:
            for index in leaves(rule.guard):
                yield self.of(rule, index)

    def of(self, rule: Rule, index: int) -> Boundary:
        """The boundary of predicate ``index`` in the guard of ``rule``."""
        pivotal = _pivotal(rule.guard, index)
        for literal in (Leaf(index), Opposite(Leaf(index))):
            if self.space.reaching(rule.index, every(literal, pivotal)).state == "unreachable":
                return Boundary(rule, index, "", 0, Answer("unreachable"), Answer("unreachable"))
        reads = self.table.predicates[index].reads
        for variable in (v for v in self.table.variables if v.name in reads):
            found = self._listed(rule, index, variable) if variable.values else self._ranged(rule, index, variable)
            if found is not None and all(
                self.at(found, a.witness or {}) is not None for a in (found.true, found.false)
            ):
                return found
        unknown = Answer("unknown", reason="no pair of neighbours was found")
        return Boundary(rule, index, "", 0, unknown, unknown)

    def at(self, boundary: Boundary, facts: Facts) -> bool | None:
        """The side of ``boundary`` on which ``facts`` lie next to it; None if they do not."""
        here = self._side(boundary, facts) if boundary.variable else None
        if here is None:
            return None
        variable = self.table.variable(boundary.variable)
        for value in _neighbours(variable, facts[variable.name], boundary.distance):
            if self._side(boundary, facts | {variable.name: value}) is (not here):
                return here
        return None

    def _side(self, boundary: Boundary, facts: Facts) -> bool | None:
        try:
            vector = self.view.vector(tuple(facts[name] for name in self.table.names))
        except ZeroDivisionError:
            return None
        key = boundary.rule.index, boundary.index, vector
        if key not in self._sides:
            self._sides[key] = self._decided(boundary, vector)
        return self._sides[key]

    def _decided(self, boundary: Boundary, vector: int) -> bool | None:
        guard, index = boundary.rule.guard, boundary.index
        reached = len(path(self.table, vector)[1]) >= boundary.rule.index
        if not reached or holds(guard, vector) == holds(guard, vector ^ 1 << index):
            return None
        return bool(vector >> index & 1)

    # --- the pair -----------------------------------------------------------------------------------------------------

    def _ranged(self, rule: Rule, index: int, variable: Variable) -> Boundary | None:
        for steps in self._distances(variable):
            if steps not in self._spaces:
                moved = _Moved(self.table, steps)
                self._spaces[steps] = moved, Space(moved.more.build())
            moved, space = self._spaces[steps]
            ways = []
            for shift in (-steps * variable.multiple_of, steps * variable.multiple_of):
                answer = space.reaching(rule.index, moved.pair(rule, index, variable, shift))
                if answer.witness is not None:
                    there = int(answer.witness[variable.name]) + shift
                    ways.append((answer, _moved(answer, {variable.name: there}, answer.hardware)))
            if ways:
                return self._nearest(rule, index, variable, steps, ways)
        return None

    def _distances(self, variable: Variable) -> list[int]:
        """Steps to try, nearest first: the first few, then those of the moduli of what reads the variable."""
        constants = {
            abs(node.value) // variable.multiple_of
            for predicate in self.table.predicates
            if variable.name in predicate.reads
            for node in ex.walk(predicate.expr)
            if isinstance(node, ex.Const) and type(node.value) is int
        }
        return sorted({*STEPS, *(constant for constant in constants if constant > 0)})[:MOST_MOVES]

    def _listed(self, rule: Rule, index: int, variable: Variable) -> Boundary | None:
        places = _ordered(variable)
        predicate = self.table.predicates[index]
        alone = predicate.reads == {variable.name}
        held = {value: outcome(predicate.expr, {variable.name: value}) for value in places} if alone else {}
        for distance in range(1, len(places)):
            ways = []
            for pair in zip(places, places[distance:], strict=False):
                for here, there in (pair, pair[::-1]):
                    if alone and (not held[here] or held[there]):
                        continue
                    more = Variant(self.table)
                    condition = _Moved.listed(more, self.table, rule, index, variable, here, there)
                    if condition == NEVER:
                        continue
                    answer = self._grown(more).reaching(rule.index, condition)
                    if answer.witness is not None:
                        hardware = answer.hardware
                        if variable.hardware:
                            at = self.table.hardware.index(variable.name)
                            hardware = frozenset((*values[:at], there, *values[at + 1 :]) for values in hardware)
                        ways.append((answer, _moved(answer, {variable.name: there}, hardware)))
            if ways:
                return self._nearest(rule, index, variable, distance, ways)
        return None

    def _grown(self, more: Variant) -> Space:
        """The space of ``more``; of the last few it is kept, because those of many rules grow by the same."""
        added = tuple(predicate.text for predicate in more.predicates[len(self.table.predicates) :])
        if not added:
            return self.space
        if added not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[added] = Space(more.build())
        return self._kept[added]

    def _nearest(
        self, rule: Rule, index: int, variable: Variable, distance: int, ways: list[tuple[Answer, Answer]]
    ) -> Boundary:
        """The smallest of ``ways``, pairs of the same distance, with the hardware of them all."""
        true, false = (either(self.table.variables, side) for side in zip(*ways, strict=True))
        other = next(away.witness for here, away in ways if here.witness == true.witness)
        return Boundary(rule, index, variable.name, distance, true, replace(false, witness=other))


class _Moved:
    """Conditions on two inputs at once, the second with one ranged variable some steps further up or down."""

    def __init__(self, table: Table, steps: int) -> None:
        self.table = table
        self.more = Variant(table)
        self.leaves: dict[tuple[str, int], dict[int, Formula]] = {}
        self.inside: dict[tuple[str, int], Formula] = {}
        guards = {index for rule in table.rules for index in leaves(rule.guard)}
        for variable in table.variables:
            if variable.values:
                continue
            for shift in (-steps * variable.multiple_of, steps * variable.multiple_of):
                moved: ex.Expr = ex.Bin("+" if shift > 0 else "-", ex.Var(variable.name), ex.Const(abs(shift)))
                key = variable.name, shift
                reads = [p for p in table.predicates if p.index in guards and variable.name in p.reads]
                self.leaves[key] = {
                    p.index: self.more.leaf(ex.substitute(p.expr, {variable.name: moved}), p.line) for p in reads
                }
                ends = [(">=", variable.min, shift < 0), ("<=", variable.max, shift > 0)]
                limits = [ex.Compare(op, moved, ex.Const(end)) for op, end, near in ends if end is not None and near]
                self.inside[key] = every(*map(self.more.leaf, limits)) if limits else ALWAYS

    def pair(self, rule: Rule, index: int, variable: Variable, shift: int) -> Formula:
        """Predicate ``index`` decides at the first input, where it holds, and at the second, where it does not."""
        key = variable.name, shift
        return every(self.inside[key], _both(self.table, rule, index, self.leaves[key]))

    @staticmethod
    def listed(
        more: Variant, table: Table, rule: Rule, index: int, variable: Variable, here: Value, there: Value
    ) -> Formula:
        """The same with ``variable`` at one and at another of its listed values."""
        guards = {i for earlier in table.rules[: rule.index + 1] for i in leaves(earlier.guard)}
        reads = [p for p in table.predicates if p.index in guards and variable.name in p.reads]
        moved = {p.index: more.leaf(ex.substitute(p.expr, {variable.name: ex.Const(there)}), p.line) for p in reads}
        at_here = more.leaf(ex.substitute(table.predicates[index].expr, {variable.name: ex.Const(here)}))
        if moved[index] == ALWAYS or at_here == NEVER:
            return NEVER
        is_here = ex.Compare("==", ex.Var(variable.name), ex.Const(here))
        return every(more.leaf(is_here), _both(table, rule, index, moved))


def _both(table: Table, rule: Rule, index: int, moved: dict[int, Formula]) -> Formula:
    """Here ``index`` holds, there not, it decides in both places, and no earlier rule takes what is there."""
    pivotal = _pivotal(rule.guard, index)
    passed = [Opposite(_replaced(earlier.guard, moved)) for earlier in table.rules[: rule.index]]
    there = [_replaced(pivotal, moved), Opposite(moved.get(index, Leaf(index)))]
    return every(Leaf(index), pivotal, *there, *passed)


def _pivotal(guard: Formula, index: int) -> Formula:
    """The outcome of predicate ``index`` makes the difference for ``guard``."""
    other = flipped(guard, index)
    return Some((every(guard, Opposite(other)), every(Opposite(guard), other)))


def _replaced(formula: Formula, by: dict[int, Formula]) -> Formula:
    match formula:
        case Leaf(index=index):
            return by.get(index, formula)
        case Opposite(operand=operand):
            return Opposite(_replaced(operand, by))
        case Every(operands=operands):
            return Every(tuple(_replaced(part, by) for part in operands))
        case Some(operands=operands):
            return Some(tuple(_replaced(part, by) for part in operands))


def _ordered(variable: Variable) -> list[Value]:
    return sorted(variable.values, key=int) if variable.type == "int" else list(variable.values)


def _neighbours(variable: Variable, value: Value, distance: int) -> list[Value]:
    """The values ``distance`` away from ``value``, in steps of the domain or places of listed values."""
    if not variable.values:
        shifts = (-distance * variable.multiple_of, distance * variable.multiple_of)
        return [int(value) + shift for shift in shifts if variable.contains(int(value) + shift)]
    places = _ordered(variable)
    if value not in places:
        return []
    at = places.index(value)
    return [places[i] for i in (at - distance, at + distance) if 0 <= i < len(places)]


def _moved(answer: Answer, there: Facts, hardware: frozenset[tuple[Value, ...]]) -> Answer:
    """``answer`` for its witness with the values ``there`` in place of its own."""
    return replace(answer, witness={**(answer.witness or {}), **there}, hardware=hardware)

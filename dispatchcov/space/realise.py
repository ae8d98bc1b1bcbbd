"""Real inputs of a box with opaque predicates: a bounded number of candidates, each evaluated, never assumed.

The candidates of a variable are the smallest values of its classes, the ends of its domain, values near the constants
that the opaque predicates name and steps of powers of two, each in the class to which it belongs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.space import abstract
from dispatchcov.space.boxes import Axis, Boxes, state, union
from dispatchcov.space.cases import Cases
from dispatchcov.space.domain import bits, rank, size
from dispatchcov.space.found import Found
from dispatchcov.space.intervals import Intervals
from dispatchcov.table import Predicate, Variable

if TYPE_CHECKING:
    from dispatchcov.smt.boxes import BoxSolver

TRIES = 1_500
BUDGET = 300_000
POOL = 600
OPPOSITES = {"!=": "==", ">=": "<", ">": "<="}
Candidates: TypeAlias = list[tuple[int, Value]]


def available() -> bool:
    """Is z3 installed?"""
    return find_spec("z3") is not None


class Realiser:
    """Finds real inputs in the boxes of a table, at the cost of at most :data:`BUDGET` evaluations in all."""

    def __init__(self, boxes: Boxes, *, solving: bool = True) -> None:
        self.boxes = boxes
        self.budget = BUDGET
        self.solving = solving and available()
        self._solver: BoxSolver | None = None
        self.cases = Cases(boxes)
        self.intervals = Intervals(boxes)
        self.doubted: set[int] = set()
        self._exact: dict[int, Found | None] = {}
        self._any: dict[int, Found | None] = {}
        self._pools: dict[str, Candidates] = {}
        self._known: dict[int, Found | None] = {}

    def real(self, box: int) -> Found:
        """The smallest input of ``box``, exactly unless opaque predicates are demanded of it that no case split and
        no solver tells.
        """
        point = self.boxes.point(box)
        if point.real:
            return Found(point.facts, point.key)
        exact = self.exact(box)
        return exact if exact is not None else self._for_all(box, self._known, self.find) or Found(None)

    def exact(self, box: int, *, smallest: bool = True) -> Found | None:
        """The smallest input of ``box``, which is not empty, or the proof that it has none; None if neither is known.

        The proof may lack for the smallest: :attr:`Found.reason` says so. Without ``smallest`` any input will do.
        """
        demanded = self.demanded(box)
        known = self._exact if smallest else self._any
        found = self._for_all(box, known, lambda box: self._told(box, demanded, smallest))
        if found is None or found.reason:
            self.doubted.update(predicate.index for predicate in demanded)
        return found

    def _told(self, box: int, demanded: list[Predicate], smallest: bool) -> Found | None:
        """What is known of ``box``, of each of ``demanded`` together with those that share variables with it."""
        told = Found(self.boxes.point(box).facts)
        for part in _connected(demanded):
            found = self._told_of(box, part, smallest)
            if found is None or found.facts is None or told.facts is None:
                return found
            told = Found(
                {**told.facts, **{name: found.facts[name] for name in _read(part)}}, reason=told.reason or found.reason
            )
        return replace(told, key=size(self.boxes.table.variables, told.facts or {}))

    def _told_of(self, box: int, demanded: list[Predicate], smallest: bool) -> Found | None:
        """What is known of ``box``: case by case; else by z3, then by intervals; where numbers are multiplied by
        intervals first.
        """
        if _contradictory(demanded, [self.boxes.allowed(box, predicate.index) for predicate in demanded]):
            return Found(None)
        ways = [self.cases.smallest]
        by_intervals = functools.partial(self.intervals.smallest, any=not smallest)
        if not self.solving:
            ways.append(by_intervals)
        else:
            solve = functools.partial(self._solve, any=not smallest)
            ways += [by_intervals, solve] if any(ex.multiplies(p.expr) for p in demanded) else [solve, by_intervals]
        return next((found for way in ways if (found := way(box, demanded)) is not None), None)

    def _solve(self, box: int, demanded: list[Predicate], *, any: bool) -> Found | None:
        if self._solver is None:
            from dispatchcov.smt.boxes import BoxSolver

            self._solver = BoxSolver(self.boxes)
        return self._solver.smallest(box, demanded, any=any)

    def _for_all(self, box: int, known: dict[int, Found | None], find: Callable[[int], Found | None]) -> Found | None:
        """What ``find`` says of ``box``, asked once for all boxes that differ only in variables that do not matter."""
        read = _read(self.demanded(box))
        relevant = box & ~union(axis.mask for axis in self.boxes.axes if axis.variable.name not in read)
        if relevant not in known:
            known[relevant] = find(box)
        found = known[relevant]
        if found is None or found.facts is None:
            return found
        smallest = self.boxes.point(box).facts
        facts = {name: found.facts[name] if name in read else value for name, value in smallest.items()}
        return Found(facts, size(self.boxes.table.variables, facts), found.reason)

    def exists(self, box: int) -> bool:
        """Is there certainly a real input in ``box``, which is not empty?"""
        return not self.demanded(box) or self.real(box).facts is not None

    def demanded(self, box: int) -> list[Predicate]:
        """The opaque predicates of which ``box`` does not allow every outcome."""
        return [opaque.predicate for opaque in self.boxes.opaque if opaque.mask & ~box]

    def find(self, box: int, accept: Callable[[int, int], bool] = lambda true, undefined: True) -> Found:
        """The smallest candidate in ``box`` whose outcomes (true and undefined bits) ``accept`` takes."""
        demanded = self.demanded(box)
        texts = ", ".join(predicate.text for predicate in demanded)
        best = Found(None)
        for facts, true, undefined in self._grid(box, _read(demanded)):
            outcomes = self._outcomes(box, facts, true, undefined)
            if outcomes is not None and accept(*outcomes):
                best = best.better(Found(facts, size(self.boxes.table.variables, facts)))
        if best.facts is None:
            return Found(None, None, f"no input was found with the outcomes wanted of {texts}")
        return Found(best.facts, best.key, f"a smaller input may exist: {texts} not analysed")

    def _grid(self, box: int, read: set[str]) -> Iterator[tuple[dict[str, Value], int, int]]:
        """Inputs of ``box`` that vary the variables ``read``, with the outcomes of all but opaque predicates."""
        facts = self.boxes.point(box).facts
        varied = [axis for axis in self.boxes.axes if axis.variable.name in read]
        others = [axis.classes[axis.chosen(box)[0]] for axis in self.boxes.axes if axis not in varied]
        true, undefined = union(item.true for item in others), union(item.undefined for item in others)
        count = max(2, int(TRIES ** (1 / len(varied)))) if varied else 1
        choices = [_spread([c for c in self._pool(a) if box >> a.offset + c[0] & 1], count) for a in varied]
        for picked in itertools.islice(itertools.product(*choices), min(TRIES, self.budget)):
            self.budget -= 1
            chosen = [axis.classes[place] for axis, (place, _) in zip(varied, picked, strict=True)]
            values = {axis.variable.name: value for axis, (_, value) in zip(varied, picked, strict=True)}
            yield (
                {**facts, **values},
                true | union(item.true for item in chosen),
                undefined | union(item.undefined for item in chosen),
            )

    def _outcomes(self, box: int, facts: dict[str, Value], true: int, undefined: int) -> tuple[int, int] | None:
        """The outcomes of all predicates at ``facts``; None if ``box`` demands others of the opaque ones."""
        for opaque in self.boxes.opaque:
            index = opaque.predicate.index
            own = bits([opaque.predicate], facts)
            true, undefined = true | own[0], undefined | own[1]
            if not self.boxes.narrow(box, index, state(true, undefined, index)):
                return None
        return true, undefined

    def _pool(self, axis: Axis) -> Candidates:
        """The candidates of one variable, each with the place of its class, smallest first."""
        variable = axis.variable
        if variable.name not in self._pools:
            found = {value: place for place, item in enumerate(axis.classes) for value in item.members or [item.value]}
            if not variable.values:
                self._classify(axis, found)
            ordered = sorted(found, key=lambda value: rank(variable, value))
            self._pools[variable.name] = [(found[value], value) for value in ordered]
        return self._pools[variable.name]

    def _classify(self, axis: Axis, found: dict[Value, int]) -> None:
        """Add further values of an ``int`` variable to ``found``, each with the place of its class."""
        name = axis.variable.name
        places = {(item.true, item.undefined): place for place, item in enumerate(axis.classes)}
        own = self.boxes.own(axis.variable)
        opaque = [o.predicate for o in self.boxes.opaque if name in o.predicate.reads]
        for value in _seeds(axis.variable, [int(item.value) for item in axis.classes], opaque):
            if axis.variable.contains(value):
                found.setdefault(value, places[bits(own, {name: value})])


def _seeds(variable: Variable, smallest: list[int], opaque: list[Predicate]) -> Iterator[int]:
    step = variable.multiple_of
    constants = {abs(c) for p in opaque for node in ex.walk(p.expr) for c in _integers(node)} or {0}
    width = max(8, min(64, max(constants).bit_length() + 2))
    for end in (variable.min, variable.max):
        if end is not None:
            yield from (end // step * step, -(-end // step) * step)
    for constant in sorted(constants)[:POOL]:
        for near in (constant, math.isqrt(constant)):
            for shift in (-step, 0, step):
                yield from (sign * (near // step * step + shift) for sign in (1, -1))
    for power in range(width):
        for value in smallest[: POOL // width]:
            yield from (value + (step << power), value - (step << power))


def _contradictory(predicates: list[Predicate], allowed: list[int]) -> bool:
    """Do two of ``predicates`` compare the same by ``==`` and ``!=``, ``<`` and ``>=``, and want what cannot be?"""
    left: dict[str, int] = {}
    anything = abstract.FALSE | abstract.TRUE | abstract.UNDEFINED
    for predicate, wanted in zip(predicates, allowed, strict=True):
        tree, opposite = predicate.expr, None
        if isinstance(tree, ex.Compare) and (opposite := OPPOSITES.get(tree.op)):
            tree = ex.Compare(opposite, tree.left, tree.right)
        same = wanted if opposite is None else abstract.NOT[wanted]
        text = ex.to_text(tree)
        left[text] = left.get(text, anything) & same
    return 0 in left.values()


def _connected(predicates: list[Predicate]) -> list[list[Predicate]]:
    """``predicates`` in groups that share no variable: what is smallest for each is smallest for all together."""
    groups: list[list[Predicate]] = []
    for predicate in predicates:
        sharing = [group for group in groups if _read(group) & predicate.reads]
        groups = [group for group in groups if group not in sharing]
        groups.append([*itertools.chain(*sharing), predicate])
    return groups


def _read(predicates: list[Predicate]) -> set[str]:
    return {name for predicate in predicates for name in predicate.reads}


def _integers(node: ex.Expr) -> list[int]:
    values = node.values if isinstance(node, ex.In) else [node.value] if isinstance(node, ex.Const) else []
    return [value for value in values if type(value) is int]


def _spread(candidates: Candidates, count: int) -> Candidates:
    """At most ``count`` of the candidates, evenly spread from the smallest to the largest."""
    if len(candidates) <= count:
        return candidates
    return [candidates[i * (len(candidates) - 1) // (count - 1)] for i in range(count)]

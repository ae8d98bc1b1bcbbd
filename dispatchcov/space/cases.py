"""Predicates over several variables, exactly, where all but one have few values in a box: case by case.

With the others fixed to the values of one case, each predicate reads one variable and :mod:`.domain` has
its classes. So the smallest input of a box is that of the best case, and a box without one is proved empty. Where a
variable is read only through expressions of it alone that have few values, as ``min(128, max(16, M))`` has, the
smallest value for each of these stands for all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.space.boxes import Axis, Boxes, state
from dispatchcov.space.domain import Class, bits, classes, rank, representatives, runs, size
from dispatchcov.space.found import Found
from dispatchcov.table import Predicate

MAX_VALUES = 256
MAX_CASES = 4096


class Cases:
    """Splits boxes of ``boxes`` into cases; what was worked out for one box serves the others."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        self._values: dict[tuple[object, ...], tuple[Value, ...] | None] = {}
        self._classes: dict[tuple[str, tuple[str, ...]], tuple[Class, ...] | None] = {}

    def smallest(self, box: int, demanded: list[Predicate]) -> Found | None:
        """The smallest input of ``box`` with the outcomes that it demands of ``demanded``, or the proof that it has
        none; None if no case split tells.
        """
        split = self._split(box, demanded)
        if split is None:
            return None
        axes = [axis for axis in self.boxes.axes if axis.variable.name in split]
        best = Found(None)
        for values in itertools.product(*(split[axis.variable.name] for axis in axes)):
            fixed = {axis.variable.name: value for axis, value in zip(axes, values, strict=True)}
            found = self._case(box, demanded, fixed)
            if found is None:
                return None
            best = best.better(found)
        return best

    def _split(self, box: int, demanded: list[Predicate]) -> dict[str, tuple[Value, ...]] | None:
        """The fewest variables, with their values in ``box``, without which each of ``demanded`` reads at most one."""
        axes = self._axes(demanded)
        few = {axis.variable.name: values for axis in axes if (values := self._few(axis, box, demanded))}
        fixed: set[str] = set()
        for predicate in sorted(demanded, key=lambda item: len(item.reads)):
            left = sorted(predicate.reads - fixed)
            choice = sorted((name for name in left if name in few), key=lambda name: len(few[name]))
            needed = len(left) - 1 if predicate.index not in self.boxes.refused else len(left)
            if needed > len(choice):
                return None
            fixed.update(choice[:needed])
        if math.prod(len(few[name]) for name in fixed) > MAX_CASES:
            return None
        return {name: few[name] for name in fixed}

    def _axes(self, demanded: list[Predicate]) -> list[Axis]:
        return [axis for axis in self.boxes.axes if any(axis.variable.name in p.reads for p in demanded)]

    def _few(self, axis: Axis, box: int, demanded: list[Predicate]) -> tuple[Value, ...] | None:
        """The values that ``box`` allows on ``axis``, smallest first, if they are few; of values that are the same to
        ``demanded``, one is enough.
        """
        reading = [predicate for predicate in demanded if axis.variable.name in predicate.reads]
        key = axis.variable.name, box & axis.mask, *(predicate.index for predicate in reading)
        if key not in self._values:
            self._values[key] = self._values_of(axis, box, reading)
        return self._values[key]

    def _values_of(self, axis: Axis, box: int, reading: list[Predicate]) -> tuple[Value, ...] | None:
        trees = dict.fromkeys(tree for predicate in reading for tree in _own(predicate.expr, axis.variable.name))
        if not axis.variable.values and not any(isinstance(tree, ex.Var) for tree in trees):
            chosen = {(axis.classes[place].true, axis.classes[place].undefined) for place in axis.chosen(box)}
            stand = representatives(axis.variable, self.boxes.own(axis.variable), tuple(trees), MAX_VALUES)
            if stand is not None:
                allowed = (value for value, outcome in stand.items() if outcome in chosen)
                return tuple(sorted(allowed, key=lambda value: rank(axis.variable, value)))
        found: list[Value] = []
        for value in self._all(axis, [axis.classes[place] for place in axis.chosen(box)]):
            found.append(value)
            if len(found) > MAX_VALUES and not axis.variable.values:
                return None
        return tuple(sorted(found, key=lambda value: rank(axis.variable, value)))

    def _all(self, axis: Axis, chosen: list[Class]) -> Iterator[Value]:
        if axis.variable.values:
            for item in chosen:
                yield from item.members
            return
        ways = runs(axis.variable, self.boxes.own(axis.variable))
        for item in chosen:
            for run in ways[item.true, item.undefined]:
                yield from (
                    run.first + run.step * i for i in range(MAX_VALUES + 1 if run.length is None else run.length)
                )

    def _case(self, box: int, demanded: list[Predicate], fixed: dict[str, Value]) -> Found | None:
        """The smallest input of ``box`` with the values ``fixed``; None if that cannot be told."""
        constants: dict[str, ex.Expr] = {name: ex.Const(value) for name, value in fixed.items()}
        left: dict[str, list[Predicate]] = {}
        for predicate in demanded:
            names = predicate.reads - fixed.keys()
            if names:
                tree = ex.substitute(predicate.expr, constants)
                reduced = Predicate(predicate.index, ex.to_text(tree), tree, frozenset(names))
                left.setdefault(min(names), []).append(reduced)
            elif not self._allowed(box, predicate, *bits([predicate], fixed)):
                return Found(None)
        facts = self.boxes.point(box).facts | fixed
        for name, rest in left.items():
            axis = next(axis for axis in self.boxes.axes if axis.variable.name == name)
            found = self._joint(axis, rest)
            if found is None:
                return None
            value = self._first(box, axis, rest, found)
            if value is None:
                return Found(None)
            facts[name] = value
        return Found(facts, size(self.boxes.table.variables, facts))

    def _allowed(self, box: int, predicate: Predicate, true: int, undefined: int) -> bool:
        return self.boxes.narrow(box, predicate.index, state(true, undefined, predicate.index)) != 0

    def _joint(self, axis: Axis, reduced: list[Predicate]) -> tuple[Class, ...] | None:
        """The classes of a variable by its own predicates and the ``reduced`` ones; None if one is not analysed."""
        key = axis.variable.name, tuple(f"{predicate.index} {predicate.text}" for predicate in reduced)
        if key not in self._classes:
            found = classes(axis.variable, [*self.boxes.own(axis.variable), *reduced])
            self._classes[key] = None if found.refused else found.classes
        return self._classes[key]

    def _first(self, box: int, axis: Axis, reduced: list[Predicate], joint: tuple[Class, ...]) -> Value | None:
        """The smallest value on ``axis`` whose class ``box`` allows and at which ``reduced`` are as it demands."""
        name = axis.variable.name
        if axis.variable.values:
            values = self._few(axis, box, reduced) or ()
            return next((v for v in values if all(self._allowed(box, p, *bits([p], {name: v})) for p in reduced)), None)
        own = axis.decides
        chosen = {(axis.classes[place].true, axis.classes[place].undefined) for place in axis.chosen(box)}
        for item in joint:
            if (item.true & own, item.undefined & own) in chosen and all(
                self._allowed(box, predicate, item.true, item.undefined) for predicate in reduced
            ):
                return item.value
        return None


def _own(tree: ex.Expr, name: str) -> Iterator[ex.Expr]:
    """The largest parts of ``tree`` that read ``name`` and nothing else."""
    names = ex.names(tree)
    if names == {name}:
        yield tree
    elif name in names:
        for part in ex.children(tree):
            yield from _own(part, name)

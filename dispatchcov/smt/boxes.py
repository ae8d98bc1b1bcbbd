"""z3 for the boxes of the exact engine whose predicates no case split tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dispatchcov.smt.encoding import Encoding
from dispatchcov.smt.engine import Smt
from dispatchcov.space.boxes import Axis, Boxes
from dispatchcov.space.domain import Class, size
from dispatchcov.space.found import Found
from dispatchcov.table import Predicate


class BoxSolver:
    """Smallest inputs of boxes whose predicates no case split tells."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        self.smt = Smt(boxes.table)

    def smallest(self, box: int, demanded: Sequence[Predicate], *, any: bool = False) -> Found | None:
        """The smallest input of ``box`` with the outcomes that it demands of ``demanded``, or the proof that it has
        none; None if z3 cannot tell. ``any`` takes the first input that is met.
        """
        read = {name for predicate in demanded for name in predicate.reads}
        axes = [axis for axis in self.boxes.axes if axis.variable.name in read]
        own = [predicate for axis in axes for predicate in self.boxes.own(axis.variable)]

        def build(encoding: Encoding) -> list[Any]:
            z3 = encoding.terms.z3
            found = [part for axis in axes for part in self._on(encoding, axis, box)]
            for opaque in self.boxes.opaque:
                if opaque.predicate in demanded:
                    chosen = [opaque.classes[place] for place in opaque.chosen(box)]
                    found.append(z3.Or([_is(encoding, [opaque.predicate], item) for item in chosen]))
            return found

        names = [axis.variable.name for axis in axes]
        found = self.smt.smallest(names, [*demanded, *own], build, any=any)
        if found.facts is None:
            return None if found.reason else found
        facts = self.boxes.point(box).facts | found.facts
        return Found(facts, size(self.boxes.table.variables, facts), found.reason)

    def _on(self, encoding: Encoding, axis: Axis, box: int) -> list[Any]:
        """A variable has one of the classes that ``box`` allows."""
        z3, terms = encoding.terms.z3, encoding.terms
        chosen = [axis.classes[place] for place in axis.chosen(box)]
        if len(chosen) == len(axis.classes):
            return []
        if axis.variable.values:
            x = terms.symbol(axis.variable.name)
            return [z3.Or([x == terms.constant(value) for item in chosen for value in item.members])]
        own = self.boxes.own(axis.variable)
        same = [p for p in own if len({_outcome(item, p) for item in chosen}) == 1]
        first = chosen[0]
        left = [item for item in axis.classes if all(_outcome(item, p) == _outcome(first, p) for p in same)]
        found = [_is(encoding, same, first)]
        others = [item for item in left if item not in chosen]
        rest = [p for p in own if p not in same]
        if others and len(others) < len(chosen):
            found.append(z3.Not(z3.Or([_is(encoding, rest, item) for item in others])))
        elif others:
            found.append(z3.Or([_is(encoding, rest, item) for item in chosen]))
        return found


def _outcome(item: Class, predicate: Predicate) -> tuple[bool, bool]:
    return bool(item.true >> predicate.index & 1), bool(item.undefined >> predicate.index & 1)


def _is(encoding: Encoding, predicates: Sequence[Predicate], item: Class) -> Any:
    """``predicates`` have the outcomes of a class."""
    return encoding.terms.z3.And([encoding.outcome(p, *_outcome(item, p)) for p in predicates])

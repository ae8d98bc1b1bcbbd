"""The predicates and guards of a table as z3 terms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dispatchcov.expr import Value
from dispatchcov.formula import Every, Formula, Leaf, Opposite, Some
from dispatchcov.smt.terms import Range, Terms
from dispatchcov.table import Predicate, Table


class Encoding:
    """The predicates of ``table`` as terms; see :class:`~dispatchcov.smt.terms.Terms` for ``width``.

    ``whole`` is false where variables have narrower ranges than their domains: only what is found there is proved.
    """

    def __init__(self, table: Table, width: int | None, ranges: dict[str, Range] | None = None) -> None:
        self.table = table
        self.terms = Terms(table.variables, width)
        self.ranges = ranges or {}
        self.whole = not self.ranges

    def domain(self, names: Iterable[str]) -> list[Any]:
        """What is given of the variables ``names``."""
        found = []
        for name in names:
            found += self.terms.domain(name)
            if name in self.ranges:
                low, high = self.ranges[name]
                x = self.terms.symbol(name)
                found += [x >= self.terms.number(low), x <= self.terms.number(high)]
        return found

    def at_most(self, names: Iterable[str], total: int) -> Any:
        """The magnitudes of the ``int`` variables ``names`` add up to at most ``total``."""
        terms = self.terms
        if not terms.fits(total):
            return terms.z3.BoolVal(True)
        return sum((terms.magnitude(name) for name in names), terms.number(0)) <= terms.number(total)

    def equals(self, name: str, value: Value) -> Any:
        """A variable has this value."""
        terms = self.terms
        if type(value) is int and not terms.fits(value):
            return terms.z3.BoolVal(False)
        return terms.symbol(name) == terms.constant(value)

    def outcome(self, predicate: Predicate, true: bool, undefined: bool) -> Any:
        """``predicate`` has this outcome."""
        z3 = self.terms.z3
        value, broken = self.terms.predicate(predicate)
        return broken if undefined else z3.And(value if true else z3.Not(value), z3.Not(broken))

    def holds(self, formula: Formula) -> Any:
        """``formula`` holds; a predicate that divides by zero does not."""
        z3 = self.terms.z3
        match formula:
            case Leaf(index=index):
                return self.outcome(self.table.predicates[index], True, False)
            case Opposite(operand=operand):
                return z3.Not(self.holds(operand))
        parts = [self.holds(part) for part in formula.operands]
        return z3.Or(parts) if isinstance(formula, Some) else z3.And(parts)

    def evaluated(self, formula: Formula) -> tuple[Any, Any]:
        """Whether short-circuit evaluation of ``formula`` gives true, and whether it divides by zero."""
        z3 = self.terms.z3
        match formula:
            case Leaf(index=index):
                return self.terms.predicate(self.table.predicates[index])
            case Opposite(operand=operand):
                value, broken = self.evaluated(operand)
                return z3.Not(value), broken
        stop = not isinstance(formula, Every)
        value, undefined = z3.BoolVal(not stop), z3.BoolVal(False)
        for part in reversed(formula.operands):
            own, broken = self.evaluated(part)
            undefined = z3.Or(broken, z3.And(z3.Not(own) if stop else own, undefined))
            value = z3.Or(own, value) if stop else z3.And(own, value)
        return value, undefined

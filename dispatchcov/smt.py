"""The questions of :mod:`dispatchcov.regions` answered by z3, for predicates over several variables.

z3 is imported when a table needs it and it is installed (``pip install dispatchcov[smt]``). Every question has a limit
of effort; past it the answer is that it is not known.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from dispatchcov.domain import rank, size
from dispatchcov.expr import Value
from dispatchcov.formula import Every, Formula, Leaf, Opposite, Some
from dispatchcov.found import Found
from dispatchcov.smt_terms import Range, Terms, bounds, linear
from dispatchcov.table import Predicate, Table

EFFORT = 3_000_000
MILLISECONDS = 2_000
SECONDS = 1.0
TOTAL_SECONDS = 60.0
WIDEST = 96
TRIED = 1 << 16
Build: TypeAlias = Callable[["Encoding"], list[Any]]


class Encoding:
    """The predicates of ``table`` as terms; see :class:`~dispatchcov.smt_terms.Terms` for ``width``.

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


class Smt:
    """Smallest inputs of ``table`` under constraints, or the proof that there are none."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.spent = 0.0
        self._encodings: dict[tuple[int | None, tuple[str, ...]], Encoding] = {}

    def smallest(
        self, names: Sequence[str], predicates: Sequence[Predicate], build: Build, *, any: bool = False
    ) -> Found:
        """The values of the variables ``names``, smallest first by :func:`dispatchcov.domain.size`, under what
        ``build`` makes of ``predicates``; ``any`` takes the first that is met.
        """
        texts = ", ".join(predicate.text for predicate in predicates if len(predicate.reads) > 1)
        if self.spent > TOTAL_SECONDS:
            return Found(None, None, f"the solver's {TOTAL_SECONDS:.0f} seconds for this table are spent: {texts}")
        start = time.monotonic()
        found = self._tried(names, predicates, build, any)
        self.spent += time.monotonic() - start
        return found or Found(None, None, f"the solver could not tell in the time it has: {texts}")

    def _tried(self, names: Sequence[str], predicates: Sequence[Predicate], build: Build, any: bool) -> Found | None:
        for encoding in self._ways(names, predicates):
            solver = self._solver(encoding)
            solver.add(*encoding.domain(names), *build(encoding))
            result = str(solver.check())
            if result == "sat":
                facts, reason = _Smallest(encoding, solver, names).facts(first=any)
                reason = reason if encoding.whole else f"a smaller input may exist: values past {TRIED} were not tried"
                variables = [variable for variable in self.table.variables if variable.name in facts]
                return Found(facts, size(variables, facts), reason)
            if result == "unsat" and encoding.whole:
                return Found(None)
        return None

    def _ways(self, names: Sequence[str], predicates: Sequence[Predicate]) -> Iterable[Encoding]:
        if all(linear(predicate.expr) for predicate in predicates):
            return [self._encoding(None)]
        ranges = {name: found for name in names if (found := self._range(name)) is not None}
        open_names = [name for name in names if name not in ranges]
        if open_names:
            tried = dict.fromkeys(open_names, (-TRIED, TRIED))
            width = self._width(predicates, ranges | tried)
            return [self._encoding(None), *([self._encoding(width, tried)] if width <= WIDEST else [])]
        width = self._width(predicates, ranges)
        return [*([self._encoding(width)] if width <= WIDEST else []), self._encoding(None)]

    def _encoding(self, width: int | None, tried: dict[str, Range] | None = None) -> Encoding:
        key = width, tuple(tried or ())
        if key not in self._encodings:
            self._encodings[key] = Encoding(self.table, width, tried)
        return self._encodings[key]

    def _solver(self, encoding: Encoding) -> Any:
        z3 = encoding.terms.z3
        solver = z3.Solver() if encoding.terms.width is None else z3.SolverFor("QF_BV")
        solver.set("timeout", MILLISECONDS)
        solver.set("rlimit", EFFORT)
        return solver

    def _range(self, name: str) -> Range | None:
        variable = self.table.variable(name)
        if variable.type != "int":
            return 0, max(1, len(variable.values))
        if variable.values:
            return min(map(int, variable.values)), max(map(int, variable.values))
        if variable.min is None or variable.max is None:
            return None
        return variable.min, variable.max

    def _width(self, predicates: Sequence[Predicate], ranges: dict[str, Range]) -> int:
        total = sum(max(abs(low), abs(high)) for low, high in ranges.values())
        largest = max((bounds(predicate.expr, ranges)[1] for predicate in predicates), default=0)
        steps = max((variable.multiple_of for variable in self.table.variables), default=1)
        texts = sum(len(variable.values) for variable in self.table.variables)
        return max(total, largest, steps, texts).bit_length() + 2


class _Smallest:
    """Descends from a model to the smallest one, within :data:`SECONDS`."""

    def __init__(self, encoding: Encoding, solver: Any, names: Sequence[str]) -> None:
        self.terms = encoding.terms
        self.solver = solver
        self.names = names
        self.numbers = [name for name in names if self.terms.variables[name].type == "int"]
        self.until = time.monotonic() + SECONDS
        self.late = False
        self._take()

    def _take(self) -> None:
        model = self.solver.model()
        self.best = {name: self.terms.value(model, name) for name in self.names}

    def _better(self, *constraints: Any) -> bool:
        """Is there a model with ``constraints`` too? It is the best one then."""
        if self.late or time.monotonic() > self.until:
            self.late = True
            return False
        self.solver.push()
        self.solver.add(*constraints)
        result = str(self.solver.check())
        if result == "sat":
            self._take()
        self.solver.pop()
        self.late = self.late or result == "unknown"
        return result == "sat"

    def facts(self, *, first: bool) -> tuple[dict[str, Value], str]:
        """The smallest values, and why they are perhaps not the smallest."""
        if first:
            return self.best, ""
        total = sum((self.terms.magnitude(name) for name in self.numbers), self.terms.number(0))
        self._lower(total, lambda: sum(abs(int(self.best[name])) for name in self.numbers))
        for name in self.names:
            x = self.terms.symbol(name)
            if name in self.numbers:
                self._lower(self.terms.magnitude(name), lambda name=name: abs(int(self.best[name])))  # type: ignore[misc]
                if int(self.best[name]) < 0:
                    self._better(x >= self.terms.number(0))
            else:
                variable = self.terms.variables[name]
                smaller = [v for v in variable.values if rank(variable, v) < rank(variable, self.best[name])]
                next((v for v in smaller if self._better(x == self.terms.constant(v))), None)
            self.solver.add(x == self.terms.constant(self.best[name]))
        return self.best, "a smaller input may exist: the solver ran out of time" if self.late else ""

    def _lower(self, term: Any, now: Callable[[], int]) -> None:
        """Halve the way to the least value of ``term`` until it is known, then fix it."""
        low = 0
        while low < now() and not self.late:
            middle = (low + now()) // 2
            if not self._better(term <= self.terms.number(middle)):
                low = middle + 1
        if not self.late:
            self.solver.add(term == self.terms.number(now()))


def combinations(table: Table) -> Iterable[dict[str, Value]]:
    """Every combination of values of the hardware variables of ``table``."""
    values = [table.variable(name).values for name in table.hardware]
    return (dict(zip(table.hardware, each, strict=True)) for each in itertools.product(*values))

"""One question put to z3 in several encodings, and the descent to its smallest answer.

Effort is limited, not time: what is found is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from dispatchcov.expr import Value
from dispatchcov.smt.encoding import Encoding
from dispatchcov.space.domain import rank

EFFORT = 2_000_000
MILLISECONDS = 30_000  # no answer on any machine waits longer than this
DOUBTS = 3
Way: TypeAlias = tuple[Encoding, str]
Build: TypeAlias = Callable[[Encoding], list[Any]]
Constraint: TypeAlias = Callable[[Encoding], Any]
Result: TypeAlias = Literal["sat", "unsat", "unknown"]


class Portfolio:
    """The inputs that ``build`` asks for, in each of ``ways``: an encoding and the name of a solver of z3. The first
    that knows an answer goes first from then on, also in ``ways`` itself.
    """

    def __init__(self, ways: list[Way], names: Sequence[str], build: Build) -> None:
        self.ways = ways
        self.names = names
        self.build = build
        self.fixed: list[Constraint] = []
        self.values: dict[str, Value] = {}
        self._solvers: dict[Way, tuple[Any, int]] = {}

    def check(self, *more: Constraint) -> Result:
        """Is there an input with ``more`` constraints? :attr:`values` are its values then, of :attr:`names`."""
        for way in list(self.ways):
            encoding, solver = way[0], self._solver(way)
            if more:  # a solver that was pushed once solves step by step, with less preparation
                solver.push()
                solver.add(*(constraint(encoding) for constraint in more))
            result: Result = str(solver.check())  # type: ignore[assignment]
            if result == "sat":
                model = solver.model()
                self.values = {name: encoding.terms.value(model, name) for name in self.names}
            if more:
                solver.pop()
            if result == "sat" or (result == "unsat" and encoding.whole):
                self.ways.remove(way)
                self.ways.insert(0, way)
                return result
        return "unknown"

    def fix(self, constraint: Constraint) -> None:
        """Only inputs with ``constraint`` are asked for from now on."""
        self.fixed.append(constraint)

    def _solver(self, way: Way) -> Any:
        """The solver of ``way``, with all that was fixed since it was used last."""
        encoding, name = way
        if way not in self._solvers:
            z3 = encoding.terms.z3
            solver = z3.SolverFor(name) if name.isupper() else getattr(z3, name)()
            solver.set("rlimit", EFFORT)
            solver.set("timeout", MILLISECONDS)
            solver.add(*encoding.domain(self.names), *self.build(encoding))
            self._solvers[way] = solver, 0
        solver, done = self._solvers[way]
        solver.add(*(constraint(encoding) for constraint in self.fixed[done:]))
        self._solvers[way] = solver, len(self.fixed)
        return solver


class Descent:
    """From the input that ``portfolio`` has found to the smallest one; ends after :data:`DOUBTS` unknown answers."""

    def __init__(self, portfolio: Portfolio) -> None:
        self.portfolio = portfolio
        self.variables = portfolio.ways[0][0].terms.variables
        self.best = portfolio.values
        self.doubts = 0

    def run(self) -> dict[str, Value]:
        """The smallest input: by the sum of magnitudes, then variable by variable; if :attr:`doubts`, perhaps not."""
        numbers = [name for name in self.portfolio.names if self.variables[name].type == "int"]
        self._lower(numbers)
        for name in self.portfolio.names:
            if name in numbers:
                self._lower([name])
                if int(self.best[name]) < 0:
                    self._better(_equals(name, -int(self.best[name])))
            else:
                variable = self.variables[name]
                smaller = [v for v in variable.values if rank(variable, v) < rank(variable, self.best[name])]
                next((v for v in smaller if self._better(_equals(name, v))), None)
            self.portfolio.fix(_equals(name, self.best[name]))
        return self.best

    def _better(self, constraint: Constraint) -> bool:
        """Is there an input with ``constraint`` too? It is the best one then."""
        if self.doubts >= DOUBTS:
            return False
        result = self.portfolio.check(constraint)
        if result == "sat":
            self.best = self.portfolio.values
        self.doubts += result == "unknown"
        return result == "sat"

    def _lower(self, names: Sequence[str]) -> None:
        """Halve the way to the least sum of magnitudes of ``names`` until it is known, then fix it."""
        low, high = 0, self._sum(names)
        while low < high and self.doubts < DOUBTS:
            middle = (low + high) // 2
            if self._better(_at_most(names, middle)):
                high = self._sum(names)
            else:
                low = middle + 1
        self.portfolio.fix(_at_most(names, high))

    def _sum(self, names: Sequence[str]) -> int:
        return sum(abs(int(self.best[name])) for name in names)


def _at_most(names: Sequence[str], total: int) -> Constraint:
    return lambda encoding: encoding.at_most(names, total)


def _equals(name: str, value: Value) -> Constraint:
    return lambda encoding: encoding.equals(name, value)

"""The questions of :mod:`dispatchcov.regions` answered by z3, for predicates over several variables.

z3 is imported when a table needs it and it is installed (``pip install dispatchcov[smt]``). Every question has a limit
of effort; past it the answer is that it is not known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.smt.encoding import Encoding
from dispatchcov.smt.solver import Build, Descent, Portfolio, Way
from dispatchcov.smt.terms import Range, bounds
from dispatchcov.space.domain import size
from dispatchcov.space.found import Found
from dispatchcov.space.variants import Effort
from dispatchcov.table import Predicate, Table

WIDEST = 96
TRIED = 1 << 16
MOST_UNKNOWN = 12


class Smt:
    """Smallest inputs of ``table`` under constraints, or the proof that there are none."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.effort = Effort.of(table)
        self._encodings: dict[tuple[int | None, tuple[str, ...]], Encoding] = {}
        self._orders: dict[tuple[Way, ...], list[Way]] = {}

    def smallest(
        self, names: Sequence[str], predicates: Sequence[Predicate], build: Build, *, any: bool = False
    ) -> Found:
        """The values of the variables ``names``, smallest first by :func:`dispatchcov.space.domain.size`, under what
        ``build`` makes of ``predicates``; ``any`` takes the first that is met.
        """
        texts = ", ".join(predicate.text for predicate in predicates if len(predicate.reads) > 1)
        if self.effort.unknown >= MOST_UNKNOWN:
            return Found(None, None, f"the solver's effort for this table is spent: {texts}")
        ways = self._ways(names, predicates)
        portfolio = Portfolio(self._orders.setdefault(tuple(ways), ways), names, build)
        result = portfolio.check()
        if result == "unsat":
            return Found(None)
        if result == "unknown":
            self.effort.unknown += 1
            return Found(None, None, f"the solver could not tell in the effort it has: {texts}")
        facts, reason = portfolio.values, ""
        if not any:
            descent = Descent(portfolio)
            facts = descent.run()
            self.effort.unknown += descent.doubts
            reason = f"a smaller input may exist: the solver could not tell, {texts}" if descent.doubts else ""
        variables = [variable for variable in self.table.variables if variable.name in facts]
        return Found(facts, size(variables, facts), reason)

    def _ways(self, names: Sequence[str], predicates: Sequence[Predicate]) -> list[Way]:
        """Unbounded integers and, where products or divisions may stall them, bit-vectors wide enough for all values,
        or for those up to :data:`TRIED`.
        """
        unbounded = self._encoding(None)
        if all(ex.linear(predicate.expr) for predicate in predicates):
            return [(unbounded, "Solver")]
        ranges = {name: found for name in names if (found := self._range(name)) is not None}
        tried = {name: (-TRIED, TRIED) for name in names if name not in ranges}
        width = self._width(predicates, ranges | tried)
        ways = [(unbounded, "SimpleSolver"), (unbounded, "Solver")]
        return [*ways, (self._encoding(width, tried), "QF_BV")] if width <= WIDEST else ways

    def _encoding(self, width: int | None, tried: dict[str, Range] | None = None) -> Encoding:
        key = width, tuple(tried or ())
        if key not in self._encodings:
            self._encodings[key] = Encoding(self.table, width, tried)
        return self._encodings[key]

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


def combinations(table: Table) -> Iterable[dict[str, Value]]:
    """Every combination of values of the hardware variables of ``table``."""
    values = [table.variable(name).values for name in table.hardware]
    return (dict(zip(table.hardware, each, strict=True)) for each in itertools.product(*values))

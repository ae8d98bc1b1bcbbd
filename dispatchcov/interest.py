"""Which inputs of a cell are worth keeping besides the first and the extreme ones: those that show something more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dispatchcov.decide import select
from dispatchcov.expr import Value
from dispatchcov.mutate import Mutation
from dispatchcov.space.boundaries import Boundaries
from dispatchcov.space.variants import once
from dispatchcov.table import Table

Values: TypeAlias = tuple[Value, ...]
MAX_REMEMBERED = 1 << 14


class Interest:
    """What inputs of ``table`` show: the sides of boundaries that they lie next to, the mutants that they notice."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._boundaries = Boundaries(table)
        self._pairs = [boundary for boundary in self._boundaries.all() if boundary.variable]
        self._mutation = Mutation.of(table)
        self._noticed: dict[int, frozenset[int]] = {}
        self._shown: dict[Values, frozenset[tuple[str, int, bool]]] = {}

    @staticmethod
    def of(table: Table) -> Interest:
        """That of ``table``, made once."""
        return once(table, Interest)

    def more(self, kept: Iterable[Values], others: Iterable[Values]) -> list[Values]:
        """Those of ``others`` that show something which neither ``kept`` nor those before them show."""
        shown = {item for values in kept for item in self.shows(values)}
        found = []
        for values in others:
            new = self.shows(values) - shown
            if new:
                shown |= new
                found.append(values)
        return found

    def shows(self, values: Values) -> frozenset[tuple[str, int, bool]]:
        """What ``values`` show, each as a key; nothing where a predicate divides by zero."""
        found = self._shown.get(values)
        if found is None:
            if len(self._shown) >= MAX_REMEMBERED:
                self._shown.clear()
            found = self._shown[values] = self._look(values)
        return found

    def _look(self, values: Values) -> frozenset[tuple[str, int, bool]]:
        facts = dict(zip(self.table.names, values, strict=True))
        try:
            vector = self._mutation.view.vector(values)
            sides = [(place, self._boundaries.at(pair, facts)) for place, pair in enumerate(self._pairs)]
        except ZeroDivisionError:
            return frozenset()
        if vector not in self._noticed:
            chosen = select(self.table, vector)
            mutants = enumerate(self._mutation.mutants)
            self._noticed[vector] = frozenset(i for i, each in mutants if self._mutation.differs(each, vector, chosen))
        noticed = ((("mutant", place, True)) for place in self._noticed[vector])
        return frozenset([*(("boundary", place, side) for place, side in sides if side is not None), *noticed])

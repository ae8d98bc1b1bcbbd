"""Which mutants of the guards the recorded decisions tell apart from the table, without running anything again.

A mutant is *noticed* if a recorded decision would select another kernel under it. What no decision notices is either
*equivalent*, which is proved, or survives, with the smallest input that a test should add.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dispatchcov.decide import View, select
from dispatchcov.expr import Value
from dispatchcov.formula import ALWAYS, Formula, Opposite, Some, every, holds
from dispatchcov.mutants import Mutant, mutants
from dispatchcov.regions import Space
from dispatchcov.space.answers import Answer, either
from dispatchcov.space.variants import Variant, once
from dispatchcov.table import Table

Facts = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant with the inputs that notice it; ``answer`` is about one that would, if none of those given does."""

    mutant: Mutant
    noticing: frozenset[Facts]
    answer: Answer


class Mutation:
    """The mutants of ``table``; :meth:`of` makes them once."""

    def __init__(self, table: Table) -> None:
        more = Variant(table)
        self.table = table
        self.mutants = tuple(mutants(table, more))
        self.wide = more.build()
        self.space = Space(self.wide)
        self.view = View.apart(self.wide)
        self._answers: dict[Mutant, Answer] = {}

    @staticmethod
    def of(table: Table) -> Mutation:
        """The mutants of ``table``."""
        return once(table, Mutation)

    def tried(self, inputs: Iterable[Facts]) -> tuple[Trial, ...]:
        """Every mutant tried on ``inputs``, the values of the variables in table order."""
        vectors: dict[int, list[Facts]] = {}
        for facts in inputs:
            try:
                vectors.setdefault(self.view.vector(facts), []).append(facts)
            except ZeroDivisionError:
                continue
        chosen = {vector: select(self.table, vector) for vector in vectors}
        found = []
        for mutant in self.mutants:
            noticing = [v for v in vectors if self.differs(mutant, v, chosen[v])]
            inside = frozenset(facts for vector in noticing for facts in vectors[vector])
            found.append(Trial(mutant, inside, Answer("feasible") if inside else self.answer(mutant)))
        return tuple(found)

    def notices(self, mutant: Mutant, facts: Facts) -> bool:
        """Would a decision for ``facts``, the values of the variables in table order, tell ``mutant`` apart?"""
        vector = self.view.vector(facts)
        return self.differs(mutant, vector, select(self.table, vector))

    def differs(self, mutant: Mutant, vector: int, chosen: int | None) -> bool:
        """Does ``mutant`` select another kernel than the rule ``chosen`` by the table?"""
        first = mutant.rule.index
        rules = self.table.rules
        if chosen is not None and chosen < first:
            return False
        if mutant.swapped:
            after = rules[first + 1]
            return chosen == first and after.kernel.name != rules[first].kernel.name and holds(after.guard, vector)
        held = holds(mutant.guard, vector)
        if held == (chosen == first):
            return False
        now = first if held else next((r.index for r in rules[first + 1 :] if holds(r.guard, vector)), None)
        return self._kernel(now) != self._kernel(chosen)

    def _kernel(self, rule: int | None) -> str:
        return self.table.rules[rule].kernel.name if rule is not None else ""

    def answer(self, mutant: Mutant) -> Answer:
        """Is there an input for which ``mutant`` selects another kernel, and the smallest; ``unreachable``: it is
        equivalent.
        """
        if mutant not in self._answers:
            self._answers[mutant] = self._answer(mutant)
        return self._answers[mutant]

    def _answer(self, mutant: Mutant) -> Answer:
        rule, rules = mutant.rule, self.table.rules
        if mutant.swapped:
            after = rules[rule.index + 1]
            if after.kernel.name == rule.kernel.name:
                return Answer("unreachable")
            return self.space.answer([rule.index], after.guard)
        elsewhere = self._elsewhere(rule.index)
        lost = self.space.answer([rule.index], every(Opposite(mutant.guard), elsewhere))
        won = self.space.reaching(rule.index, every(Opposite(rule.guard), mutant.guard, elsewhere))
        return either(self.table.variables, (lost, won))

    def _elsewhere(self, index: int) -> Formula:
        """The rules after ``index`` select another kernel than its own, or none."""
        name = self._kernel(index)
        rest: Formula = ALWAYS
        for rule in reversed(self.table.rules[index + 1 :]):
            if rule.kernel.name == name:
                rest = every(Opposite(rule.guard), rest)
            elif rest != ALWAYS:
                rest = Some((rule.guard, rest))
        return rest

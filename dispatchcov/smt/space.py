"""The questions about a table put to z3 alone: a second engine, to check the first one against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dispatchcov.expr import Value
from dispatchcov.formula import every, leaves
from dispatchcov.regions import Space
from dispatchcov.smt.encoding import Encoding
from dispatchcov.smt.engine import Smt, combinations
from dispatchcov.space.answers import Answer, Settled, State
from dispatchcov.space.found import Found
from dispatchcov.space.paths import settlers, settling
from dispatchcov.space.search import Query
from dispatchcov.table import Table


class SmtSpace(Space):
    """The space of a table as z3 sees it. Nothing is cached and boxes are not looked at: for cross-checks."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.smt = Smt(table)

    def _ask(self, queries: Iterable[Query]) -> Answer:
        queries = list(queries)
        best = Found(None)
        for query in queries:
            best = best.better(self.find(query))
        if best.facts is None:
            return Answer("unknown" if best.reason else "unreachable", reason=best.reason)
        found = set()
        for given in combinations(self.table):
            if any(self.find(query, given).facts is not None for query in queries):
                found.add(tuple(given.values()))
        return Answer("feasible", best.facts, frozenset(found), best.reason)

    def _state(self, queries: Iterable[Query]) -> State:
        return self._ask(queries).state

    def find(self, query: Query, given: dict[str, Value] | None = None) -> Found:
        """The smallest input that answers ``query``; with ``given`` values of some variables, any one."""
        rules = self.table.rules[: query.rule + query.exact]
        indices = {i for f in (*(rule.guard for rule in rules), query.condition) for i in leaves(f)}

        def build(encoding: Encoding) -> list[Any]:
            z3, terms = encoding.terms.z3, encoding.terms
            found = [terms.symbol(name) == terms.constant(value) for name, value in (given or {}).items()]
            for rule in rules:
                value, broken = encoding.evaluated(rule.guard)
                found += [z3.Not(broken), value if rule.index == query.rule else z3.Not(value)]
            return [*found, encoding.holds(query.condition)]

        predicates = [self.table.predicates[i] for i in sorted(indices)]
        return self.smt.smallest(self.table.names, predicates, build, any=given is not None)

    def paths(self) -> set[tuple[int | None, Settled]]:
        """Every region that z3 finds, as :attr:`Space.regions` identifies it."""
        found: set[tuple[int | None, Settled]] = set()
        stack: list[Settled] = [()]
        while stack:
            settled = stack.pop()
            if len(settled) == len(self.table.rules):
                found.add((None, settled))
                continue
            rule = self.table.rules[len(settled)]
            if self.region(rule.index, settled).state != "unreachable":
                found.add((rule.index, settled))
            for last in sorted({index for index, _ in settlers(rule.guard, False)} | {-1}):
                longer = (*settled, last)
                passed = (settling(r.guard, False, i) for r, i in zip(self.table.rules, longer, strict=False))
                if self.left(len(longer), every(*passed)).state != "unreachable":
                    stack.append(longer)
        return found

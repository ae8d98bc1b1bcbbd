"""The rows of one table sorted by what they decided: what counts, and what is kept apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dispatchcov import decide
from dispatchcov.decide import View
from dispatchcov.expr import Value
from dispatchcov.files import fitting
from dispatchcov.formula import leaves, read
from dispatchcov.items import Side
from dispatchcov.records import ASSERTS, COUNTED, Data, Row
from dispatchcov.table import Table


@dataclass
class Group:
    """The rows that agree in vector and kernel; ``rule`` is what the vector selects, ``before`` the number of
    rules passed.
    """

    vector: int
    kernel: str
    rule: int | None
    path: tuple[int | None, tuple[int, ...]]
    counted: list[Row] = field(default_factory=list)
    apart: list[tuple[str, Row]] = field(default_factory=list)
    wrong: str = ""

    @property
    def passed(self) -> int:
        return len(self.path[1])


class Paths:
    """What decisions for given inputs of ``table`` would be; each is worked out once."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.view = View.of(table, decide.DEFAULT_MACHINE)
        self._groups: dict[tuple[Value, ...], Group] = {}

    def group(self, values: tuple[Value, ...]) -> Group:
        """What a decision for ``values``, in table order, would belong to."""
        found = self._groups.get(values)
        if found is None:
            vector = self.view.vector(values)
            path = decide.path(self.table, vector)
            found = self._groups[values] = Group(vector, "", path[0], path)
        return found

    def decision(self, facts: dict[str, Value]) -> str:
        """What ``facts`` would select, with what settled that the rule before it was not selected."""
        table, group = self.table, self.group(tuple(facts[name] for name in self.table.names))
        index, settled = group.path
        if index is None:
            return "no rule"
        chosen = f"{table.rules[index].name} -> {table.rules[index].kernel.name}"
        if not settled or settled[-1] < 0:
            return chosen
        predicate = table.predicates[settled[-1]]
        outcome = str(bool(group.vector >> predicate.index & 1)).lower()
        return f"{chosen} (not {table.rules[index - 1].name}: {predicate.text} is {outcome})"


def grouped(table: Table, data: Data, rows: Sequence[Row]) -> list[Group]:
    """``rows``, all of ``table``, as groups; a row counts if its test passed or it belongs to no test.

    Raises :class:`DataError` if one does not fit ``table``.
    """
    fitting.refuse(table, rows)
    run_of = {shard.name: shard.run for shard in data.shards}
    own = {(outcome.shard, outcome.test): outcome.outcome for outcome in data.outcomes}
    shared = {(run_of.get(outcome.shard, ""), outcome.test): outcome.outcome for outcome in data.outcomes}
    groups: dict[tuple[int, str], Group] = {}
    for row in rows:
        group = groups.get((row.vector, row.kernel))
        if group is None:
            path = decide.path(table, row.vector)
            group = groups[row.vector, row.kernel] = Group(row.vector, row.kernel, path[0], path)
            expected = table.rules[path[0]].kernel.name if path[0] is not None else ""
            if decide.outside(table, row.vector):
                group.wrong = "outside the domain"
            elif row.kernel and row.kernel != expected:
                group.wrong = "with another kernel"
        outcome = own.get((row.shard, row.test)) or shared.get((run_of.get(row.shard, ""), row.test), "in progress")
        if row.phase not in COUNTED:
            group.apart.append((row.phase, row))
        elif row.test and outcome != "passed":
            group.apart.append((outcome, row))
        else:
            group.counted.append(row)
    return list(groups.values())


def asserting(data: Data) -> frozenset[tuple[str, str]]:
    """The tests, with the shards that have rows of them, that asserted where their decisions went."""
    run_of = {shard.name: shard.run for shard in data.shards}
    said = {(run_of.get(o.shard, ""), o.test[len(ASSERTS) :]) for o in data.outcomes if o.test.startswith(ASSERTS)}
    return frozenset((shard, test) for shard, run in run_of.items() for own, test in said if own == run)


def evidence_of(row: Row) -> dict[str, int]:
    """How many decisions of ``row`` have each evidence."""
    return {"selected": row.selected, "launched": row.launched, "observed": row.observed, "checked": row.checked}


def sides(table: Table, groups: Iterable[Group]) -> tuple[Side, ...]:
    """How often each predicate of a guard was read and had each outcome, in the order of the predicates."""
    found = {index: [0, 0] for rule in table.rules for index in leaves(rule.guard)}
    for group in groups:
        hits = sum(row.selected for row in group.counted)
        seen: set[int] = set()
        for rule in table.rules[: group.passed + 1]:
            seen.update(read(rule.guard, group.vector))
        for index in seen:
            found[index][group.vector >> index & 1] += hits
    predicates = table.predicates
    return tuple(Side(predicates[i].text, predicates[i].line, n[1], n[0]) for i, n in sorted(found.items()))

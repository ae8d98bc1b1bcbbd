"""A parametrised pytest for what the recorded tests lack: the fewest inputs that cover it, each with its marker.

An input is tried on paper: it is measured as if a passing test had launched and compared it. Greedy: the one that
covers most of what is missing first, of equals the smallest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.domain import size
from dispatchcov.errors import UsageError, known
from dispatchcov.expr import Value
from dispatchcov.formula import every, holds
from dispatchcov.records import Data, Outcome, Row, Shard, TableText
from dispatchcov.results import MEASURES, Item, Results, TableResults
from dispatchcov.table import Table, show

OPEN = ("missed", "not-run")
CALL = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
MANY = 1 << 20
ROUNDS = 3
Key = tuple[str, str]
Facts = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An input to test: ``partitions`` are what its marker names, ``covers`` the items of each measure."""

    facts: Facts
    rule: str
    kernel: str
    partitions: tuple[str, ...]
    fallback: tuple[tuple[str, str], ...]
    covers: tuple[Key, ...]


def suggest(results: TableResults, data: Data, measures: Sequence[str] = MEASURES) -> tuple[Suggestion, ...]:
    """The inputs that cover what is missed of ``measures``; raises :class:`UsageError` for an unknown measure.

    What needs hardware that no run had is left out. A pair (MC/DC) is completed by as many inputs as it lacks.
    """
    for name in measures:
        if name not in MEASURES:
            raise UsageError(f"suggest: unknown measure {name!r}; {known(name, MEASURES)}")
    return tuple(_Suggesting(results.table, data, tuple(measures)).all(results))


class _Suggesting:
    def __init__(self, table: Table, data: Data, measures: tuple[str, ...]) -> None:
        self.table = table
        self.data = data
        self.measures = measures
        self.view = View.of(table, DEFAULT_MACHINE)
        self._covered: dict[tuple[Value, ...], frozenset[Key]] = {}

    def all(self, results: TableResults) -> Iterator[Suggestion]:
        missing = dict(self.missing(results))
        alone = self.singles(missing.values())
        chosen: list[Facts] = []
        for _ in range(ROUNDS):
            chosen += self.greedy(missing, alone)
            left = dict(self.missing(self.measured(chosen, with_data=True)))
            pairs = [facts for item in left.values() for facts in _inputs(item) if facts not in chosen]
            if not pairs:
                break
            chosen += pairs[:1] if len(left) > 1 else pairs
            missing = dict(self.missing(self.measured(chosen, with_data=True)))
            alone = self.singles(missing.values())
        seen: set[Key] = set()
        for facts in chosen:
            yield self.suggestion(facts, results, seen)

    def missing(self, results: TableResults) -> Iterator[tuple[Key, Item]]:
        for measure, items in _measures(results):
            if measure in self.measures:
                yield from (((measure, item.label), item) for item in items if item.state in OPEN and not item.illegal)

    def singles(self, items: Iterable[Item]) -> list[tuple[Facts, frozenset[Key]]]:
        """Each candidate with what it covers alone, smallest first."""
        found: dict[tuple[Value, ...], Facts] = {tuple(f.values()): f for item in items for f in _inputs(item)}
        ordered = sorted(found.values(), key=lambda facts: size(self.table.variables, facts))
        return [(facts, self.covered(facts)) for facts in ordered]

    def covered(self, facts: Facts) -> frozenset[Key]:
        """What a test of ``facts`` would cover by itself."""
        values = tuple(facts.values())
        if values not in self._covered:
            measures = _measures(self.measured([facts]))
            hit = ((measure, item.label) for measure, items in measures for item in items if item.state == "hit")
            self._covered[values] = frozenset(hit)
        return self._covered[values]

    def greedy(self, missing: dict[Key, Item], alone: list[tuple[Facts, frozenset[Key]]]) -> Iterator[Facts]:
        left = set(missing)
        while left:
            facts, covers = max(alone, key=lambda pair: len(pair[1] & left), default=({}, frozenset()))
            if not covers & left:
                return
            left -= covers
            yield facts

    def measured(self, chosen: Sequence[Facts], *, with_data: bool = False) -> TableResults:
        """The measures if each of ``chosen`` had been tested, and nothing else or also what was recorded."""
        table, rows = self.table, [self.row(facts, number) for number, facts in enumerate(chosen)]
        kept = self.data if with_data else Data()
        of = [text for text in kept.tables if text.digest == table.digest]
        data = Data(
            tuple(of) or (TableText(table.digest, table.op, table.source, table.text),),
            (*kept.shards, Shard("suggested", "suggested", "", 0, "", 0, (), True)),
            (*(row for row in kept.rows if row.digest == table.digest), *rows),
            (*kept.outcomes, *(Outcome("suggested", row.test, "passed") for row in rows)),
        )
        return Results.of(data, [table]).tables[0]

    def row(self, facts: Facts, number: int) -> Row:
        values = tuple(facts[name] for name in self.table.names)
        place = "suggested", self.table.digest, DEFAULT_MACHINE, f"suggested {number}", "call"
        counts = MANY, MANY, MANY, MANY
        return Row(*place, self.view.vector(values), self.view.hardware(values), "", *counts, (values,))

    def suggestion(self, facts: Facts, results: TableResults, seen: set[Key]) -> Suggestion:
        """What to write for ``facts``: what they add to ``seen``, and the partitions that a marker can assert."""
        missing = dict(self.missing(results))
        covered = self.covered(facts)
        new = [key for key in missing if key in covered and key not in seen]
        seen.update(new)
        vector = self.view.vector(tuple(facts[name] for name in self.table.names))
        index = path(self.table, vector)[0]
        assert index is not None, "an input that no rule takes is missed by nothing"
        rule = self.table.rules[index]
        named = [missing[key].name for key in new if key[0] == "partitions"]
        inside = dict.fromkeys(name for name in named if self.inside(name, index, vector))
        if not inside and self.inside(rule.name, index, vector):
            inside = {rule.name: None}
        fallbacks = [missing[key] for key in new if key[0] == "fallbacks"]
        because = {item.name: item.detail for item in fallbacks}
        return Suggestion(facts, rule.name, rule.kernel.name, tuple(inside), tuple(because.items()), tuple(new))

    def inside(self, name: str, index: int, vector: int) -> bool:
        partition = self.table.partition(name)
        if partition is None or index not in partition.rules:
            return False
        return any(holds(every(partition.condition, bin.condition), vector) for bin in partition.bins)


def _measures(results: TableResults) -> Iterator[tuple[str, tuple[Item, ...]]]:
    yield from ((name, getattr(results, name)) for name in MEASURES)


def _inputs(item: Item) -> list[Facts]:
    return [facts for facts in (item.witness, *item.also) if facts is not None]


def render(table: Table, suggestions: Sequence[Suggestion], call: str = "") -> str:
    """The text of a test module that calls ``call``, ``MODULE:FUNCTION`` taking the facts as keywords.

    Without ``call`` the table decides and nothing is launched. Raises :class:`UsageError`.
    """
    head = ['"""Inputs that the recorded tests lack, found by ``dispatchcov suggest``."""', "", "import pytest", ""]
    if call:
        match = CALL.fullmatch(call)
        if match is None:
            raise UsageError(f"--call: expected MODULE:FUNCTION, got {call!r}")
        head += [f"from {match[1]} import {match[2]}"]
        run = f"{match[2]}(**facts)"
    else:
        head += ["import dispatchcov", "", f"TABLE = dispatchcov.load_table({table.source!r})"]
        run = "TABLE.decide(**facts)  # in its place: call the operator and compare the result"
    lines = [*head, "", "", "@pytest.mark.parametrize(", '    "facts",', "    ["]
    for suggestion in suggestions:
        lines += _parameter(suggestion)
    lines += ["    ],", ")", "def test_dispatch(facts):", f"    {run}"]
    return "\n".join(lines) + "\n"


def _parameter(suggestion: Suggestion) -> Iterator[str]:
    for measure in MEASURES:
        labels = [label for name, label in suggestion.covers if name == measure]
        if labels:
            more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
            text = f"{measure}: {'; '.join(labels[:3])}{more}"
            yield f"        # {text if len(text) < 108 else text[:105] + '...'}".replace("\n", " ")
    arguments = [repr(name) for name in suggestion.partitions] + [f"kernel={suggestion.kernel!r}"]
    if suggestion.fallback:
        arguments.append(f"fallback={dict(suggestion.fallback)!r}")
    yield "        pytest.param("
    yield f"            {suggestion.facts!r},"
    yield f"            marks=pytest.mark.dispatch({', '.join(arguments)}),"
    yield f"            id={f'{suggestion.rule} {show(suggestion.facts)}'!r},"
    yield "        ),"

"""A parametrised pytest for what the recorded tests lack: the fewest inputs that cover it, each with its marker.

An input is tried on paper: it is measured as if a passing test had launched and compared it. Greedy: the one that
covers most of what is missing first, of equals the smallest.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dispatchcov import expr as ex
from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.errors import UsageError, known
from dispatchcov.expr import Value
from dispatchcov.formula import Formula, Opposite, every, holds
from dispatchcov.items import MEASURES, Item
from dispatchcov.records import Data, Outcome, Row, Shard, TableText
from dispatchcov.regions import Space
from dispatchcov.results import Results, TableResults
from dispatchcov.space.domain import size
from dispatchcov.space.variants import Variant
from dispatchcov.table import Table

OPEN = ("missed", "not-run")
MANY = 1 << 20
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
        chosen = self.greedy(missing, self.singles(missing.values()))
        tried: set[Key] = set()
        while left := {key: item for key, item in self.lacking(chosen) if key not in tried}:
            key, item = next(iter(left.items()))
            tried.add(key)
            chosen += self.more(item, chosen)
        wanted = {key: max(1, item.at_least - item.reach.hits) for key, item in missing.items()}
        for facts in chosen:
            yield self.suggestion(facts, missing, wanted)

    def lacking(self, chosen: Sequence[Facts]) -> Iterator[tuple[Key, Item]]:
        """What is missed after what was recorded and a test of each of ``chosen``."""
        return self.missing(self.measured(chosen, with_data=True))

    def more(self, item: Item, chosen: Sequence[Facts]) -> list[Facts]:
        """What ``item`` needs besides ``chosen``: the other input of a pair, or as many as it must be hit."""
        if item.at_least == 1:
            return [facts for facts in _inputs(item) if facts not in chosen]
        others = itertools.islice(self.inside_of(item, chosen), item.at_least - item.reach.hits)
        return list(others)

    def inside_of(self, item: Item, chosen: Sequence[Facts]) -> Iterator[Facts]:
        """Inputs of a partition's bin: the smallest first that are not ``chosen``, then the same again."""
        partition = next(p for p in self.table.partitions if p.name == item.name)
        bin = next(bin for bin in partition.bins if bin.label == item.detail)
        witness = item.witness or {}
        given = {name: value for name, value in witness.items() if name in self.table.hardware}
        more = Variant(self.table)
        on_it = every(partition.condition, bin.condition, _equal(more, given))
        found: list[Facts] = []
        others: list[Formula] = [Opposite(_equal(more, facts)) for facts in chosen]
        while True:
            answer = Space(more.build()).answer(partition.rules, every(on_it, *others))
            if answer.witness is None:
                break
            found.append(answer.witness)
            others.append(Opposite(_equal(more, answer.witness)))
            yield answer.witness
        yield from itertools.cycle(found or [witness])

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

    def greedy(self, missing: dict[Key, Item], alone: list[tuple[Facts, frozenset[Key]]]) -> list[Facts]:
        """The candidate that covers most of what is left, again and again, without those that became needless."""
        left = set(missing)
        taken: list[tuple[Facts, frozenset[Key]]] = []
        while left:
            facts, covers = max(alone, key=lambda pair: len(pair[1] & left), default=({}, frozenset()))
            if not covers & left:
                break
            left -= covers
            taken.append((facts, covers & missing.keys()))
        times = Counter(key for _, covers in taken for key in covers)
        needed = []
        for facts, covers in taken:
            if all(times[key] > 1 for key in covers):
                times.subtract(covers)
            else:
                needed.append(facts)
        return needed

    def measured(self, chosen: Sequence[Facts], *, with_data: bool = False) -> TableResults:
        """The measures if each of ``chosen`` had been tested: once, after what was recorded, or alone and often."""
        table, times = self.table, 1 if with_data else MANY
        rows = [self.row(facts, number, times) for number, facts in enumerate(chosen)]
        kept = self.data if with_data else Data()
        of = [text for text in kept.tables if text.digest == table.digest]
        data = Data(
            tuple(of) or (TableText(table.digest, table.op, table.source, table.text),),
            (*kept.shards, Shard("suggested", "suggested", "", 0, "", 0, (), True)),
            (*(row for row in kept.rows if row.digest == table.digest), *rows),
            (*kept.outcomes, *(Outcome("suggested", row.test, "passed") for row in rows)),
        )
        return Results.of(data, [table]).tables[0]

    def row(self, facts: Facts, number: int, times: int) -> Row:
        values = tuple(facts[name] for name in self.table.names)
        place = "suggested", self.table.digest, DEFAULT_MACHINE, f"suggested {number}", "call"
        counts = times, times, times, times
        return Row(*place, self.view.vector(values), self.view.hardware(values), "", *counts, (values,))

    def suggestion(self, facts: Facts, missing: dict[Key, Item], wanted: dict[Key, int]) -> Suggestion:
        """What to write for ``facts``: what they add to what is ``wanted`` still, and so many times, and the partitions
        that a marker can assert.
        """
        covered = self.covered(facts)
        new = [key for key in missing if key in covered and wanted[key] > 0]
        for key in new:
            wanted[key] -= 1
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


def _equal(more: Variant, facts: Facts) -> Formula:
    """Each variable of ``facts`` has this value; the predicates that say so are added to ``more``."""
    compared = (ex.Compare("==", ex.Var(name), ex.Const(value)) for name, value in facts.items())
    return every(*map(more.leaf, compared))


def _inputs(item: Item) -> list[Facts]:
    return [facts for facts in (item.witness, *item.also) if facts is not None]

"""The two sides of a comparison: what each test reached, from records or from a baseline file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dispatchcov.compare.baseline import Baseline, Entry, Facts
from dispatchcov.compare.paths import Labels
from dispatchcov.measure.groups import Group, grouped
from dispatchcov.records import ASSERTS, VARIES, Data
from dispatchcov.table import Table


@dataclass(frozen=True, slots=True)
class Reached:
    """What the tests of ``name`` reached.

    ``outcomes`` are those of all tests that ran; only passed ones have ``entries``. ``partial``: absence of a test
    proves nothing. ``varies`` are tests whose inputs differ from run to run.
    """

    name: str
    tables: Mapping[str, Table]
    entries: tuple[Entry, ...]
    outcomes: Mapping[str, str]
    partial: bool = False
    varies: frozenset[str] = frozenset()

    @property
    def files(self) -> frozenset[str]:
        """The files of which tests ran."""
        return frozenset(map(file_of, self.outcomes))


def file_of(test: str) -> str:
    """The file of the node id ``test``."""
    return test.split("::")[0]


def of_baseline(name: str, baseline: Baseline) -> Reached:
    """The side that the file ``name`` is: all its tests passed."""
    tables = {op: Table(parts) for op, parts in baseline.tables.items()}
    varies = frozenset(entry.test for entry in baseline.entries if entry.varies)
    outcomes = {entry.test: "passed" for entry in baseline.entries}
    return Reached(name, tables, baseline.entries, outcomes, False, varies)


def of_data(name: str, data: Data, tables: Iterable[Table]) -> Reached:
    """The side that the records ``data`` of ``tables`` are."""
    known = {table.op: table for table in tables}
    outcomes: dict[str, str] = {}
    for outcome in data.outcomes:
        if not outcome.test.startswith((ASSERTS, VARIES)) and outcomes.get(outcome.test) != "passed":
            outcomes[outcome.test] = outcome.outcome
    varies = {o.test.removeprefix(VARIES) for o in data.outcomes if o.test.startswith(VARIES)}
    entries: dict[Entry, Entry] = {}
    for table in known.values():
        for group in grouped(table, data, [row for row in data.rows if row.digest == table.digest]):
            for entry in _entries(table, group, varies):
                other = entries.get(entry, entry)
                entries[entry] = min(other, entry, key=_smallest)
            outcomes |= {row.test: "in progress" for _, row in group.apart if row.test and row.test not in outcomes}
    outcomes |= {entry.test: "passed" for entry in entries}
    # A process that did not end in order may be one whose tests are missing.
    partial = any(shard.partial or not shard.ended for shard in data.shards)
    return Reached(name, known, tuple(sorted(entries.values())), outcomes, partial, frozenset(varies))


def _entries(table: Table, group: Group, varies: set[str]) -> Iterable[Entry]:
    """One entry for each row that counts, with the smallest input of the row."""
    rule = table.rules[group.rule] if group.rule is not None else None
    name, kernel = (rule.name, group.kernel or rule.kernel.name) if rule else ("", group.kernel)
    settled = Labels.of(table).settled(group.path[1])
    for row in group.counted:
        inputs = [tuple(zip(table.names, values, strict=True)) for values in row.inputs]
        yield Entry(row.test, table.op, name, kernel, settled, min(inputs, key=_size, default=()), row.test in varies)


def _smallest(entry: Entry) -> tuple[bool, int, str]:
    return not entry.facts, *_size(entry.facts)


def _size(facts: Facts) -> tuple[int, str]:
    """Small integers first; the text makes the order total, whatever order the records came in."""
    return sum(abs(value) for _, value in facts if isinstance(value, int)), repr(facts)

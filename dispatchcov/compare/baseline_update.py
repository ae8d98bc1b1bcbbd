"""A baseline brought up to date by a run: what the run says nothing about stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from dispatchcov.compare.baseline import Baseline, Entry, by_test
from dispatchcov.compare.moved import hardware
from dispatchcov.compare.paths import decided
from dispatchcov.compare.sides import Reached
from dispatchcov.table import Table


def updated(baseline: Baseline, now: Reached, gone: Iterable[str], ignored: Callable[[str], bool]) -> Baseline:
    """``baseline`` with what the passed tests of ``now`` reached.

    Entries stay of tests that did not run, failed or were skipped, and of hardware that ``now`` has not; those of
    ``gone`` tests and of ``ignored`` ones go.
    """
    before, after = by_test(baseline.entries), by_test(now.entries)
    removed = set(gone)
    kept: dict[Entry, Entry] = {}
    for test in {*before, *after} - removed - {""}:
        if ignored(test):
            continue
        ran = now.outcomes.get(test) == "passed"
        for op in {*before.get(test, {}), *after.get(test, {})}:
            old, new = before.get(test, {}).get(op, []), after.get(test, {}).get(op, [])
            found = _merged(old, new, now.tables.get(op), test in now.varies) if ran else old
            kept.update((entry, entry) for entry in found)
    ops = {entry.op for entry in kept}
    tables = dict(baseline.tables) | {op: table.parts for op, table in now.tables.items()}
    return Baseline({op: parts for op, parts in tables.items() if op in ops}, tuple(sorted(kept.values())))


def _merged(old: list[Entry], new: list[Entry], table: Table | None, varies: bool) -> Iterator[Entry]:
    """The entries of one test that passed, and of one operator."""
    here = {hardware(table, entry) for entry in new}
    yield from new
    for entry in old if new else ():
        if hardware(table, entry) not in here:
            yield entry
        elif varies and table is not None and (there := _by_table(table, entry)) is not None:
            yield there  # after the new ones: what was drawn first stays, so that the file does not change in each run


def _by_table(table: Table, entry: Entry) -> Entry | None:
    """``entry`` where ``table`` sends its input now."""
    now = decided(table, dict(entry.facts))
    if now is None or now.rule is None:
        return None
    if (now.name, now.labels) == (entry.rule, entry.settled):
        return replace(entry, varies=True)
    kernel = table.rules[now.rule].kernel.name
    return replace(entry, rule=now.name, kernel=kernel, settled=now.labels, varies=True)

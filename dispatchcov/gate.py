"""The gate: results and limits in, a verdict out. Nothing else in dispatchcov judges."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dispatchcov.demands import Demand
from dispatchcov.drift import Drift, counted
from dispatchcov.items import Item, Mismatch
from dispatchcov.results import Results, TableResults
from dispatchcov.table import Waiver, show

SPARED = "nothing is judged missed but what --dispatch-require names"
SPLIT = ("--gtest_filter", "sharded")
"""How reasons begin that a test runner gives where it starts several processes, each for some of the tests."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is asked of results: ``fail_under`` percent of required partition bins, and partitions named in
    ``require``; with ``fail_on_drift``, that no test moved.
    """

    fail_under: float | None = None
    require: tuple[str, ...] = ()
    fail_on_drift: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """``failures`` make a run fail, each with its reason; ``notes`` are to be read and do not."""

    failures: tuple[str, ...]
    notes: tuple[str, ...] = ()
    no_data: bool = False
    partial: bool = False

    @property
    def ok(self) -> bool:
        return not self.failures


def judge(results: Results, limits: Limits = Limits()) -> Verdict:  # a frozen value
    """The verdict; raises :class:`UsageError` if ``limits`` name a partition that no table has."""
    demands = _demands(results, limits)
    failures = [f"records are damaged: {problem}" for problem in results.problems]
    told = sorted({note for shard in results.data.shards for note in shard.notes})
    if results.drift and limits.fail_on_drift:
        failures += drifted(results.drift)
    if not results.tables and results.partial:
        note = f"partial run ({', '.join(results.partial)}): no dispatch table was met, nothing was judged"
        return Verdict(tuple(failures), (note, *_unended(results), *told), partial=True)
    if not results.tables:
        failures.append("no dispatch table was given and none decided anything: nothing was judged")
        return Verdict(tuple(failures), tuple(told), no_data=True)
    notes = [f"partial run ({reason}): {SPARED}" for reason in results.partial]
    if any(reason.startswith(SPLIT) for reason in results.partial):
        notes.append(
            "if its processes ran all tests together, as of ctest: `dispatchcov report --complete` judges them"
        )
    notes += _unended(results)
    notes += told
    for table in results.tables:
        failures += _table(table, bool(results.partial), results.today)
        notes += [f"{table.table.op}: {note}" for note in table.notes]
        notes += _waived(table)
    for demand in demands:
        failures += _required(results, demand)
    if limits.fail_under is not None and not results.partial:
        totals = results.totals["partitions"]
        if totals.total == 0:
            failures.append("least percentage: no required partition can be reached here, nothing was judged")
        elif totals.percent < limits.fail_under:
            share = f"{totals.covered} of {totals.total}, {totals.percent:g} %"
            failures.append(f"required partitions covered: {share}, expected at least {limits.fail_under:g} %")
    unique = tuple(dict.fromkeys(failures))
    partial = bool(results.partial)
    return Verdict(unique, tuple(dict.fromkeys(notes)), results.decisions == 0 and not partial, partial)


def _unended(results: Results) -> Iterator[str]:
    """Which runs did not end, and what to do: what is added to their records is not judged either."""
    if results.unended:
        yield f"killed, or still going on: {', '.join(f'process {s.pid} on {s.host}' for s in results.unended)}"
        yield (
            "while the records of such a run are kept, nothing is judged missed: `dispatchcov erase`, or a run without "
            "--dispatch-append, removes them; `dispatchcov report --complete` judges them as they are"
        )


def drifted(drift: Drift) -> Iterator[str]:
    """Why ``drift`` fails a run that must not drift: the tests that moved, unless the baseline was brought up to date.

    New and gone tests fail nothing: whoever adds or removes a test sees that it is there or not.
    """
    for moves in () if drift.update else drift.groups:
        first, tests = moves[0], sorted({move.test for move in moves})
        was, now = (place.label if place else "nothing" for place in (first.old, first.new))
        more = f" and {len(tests) - 1} more" if len(tests) > 1 else ""
        yield f"{first.op}: {counted(len(tests))} moved from {was} to {now}: {first.seen}, in {tests[0]}{more}"


def _demands(results: Results, limits: Limits) -> list[Demand]:
    names = [partition.name for table in results.tables for partition in table.table.partitions]
    names += [rule.name for table in results.tables for rule in table.table.rules]
    selecting: dict[str, dict[str, None]] = {}
    for table in results.tables:
        selecting |= {kernel.name: {} for kernel in table.table.kernels if kernel.name not in selecting}
        for rule in table.table.rules:
            selecting[rule.kernel.name][rule.name] = None
    labels = dict.fromkeys(item.label for table in results.tables for item in table.partitions)
    demands = [Demand.of(text, dict.fromkeys(names), selecting, labels) for text in limits.require]
    for demand in demands:
        demand.check(results)
    return demands


def _table(results: TableResults, partial: bool, today: datetime.date) -> Iterator[str]:
    op = results.table.op
    if results.decisions == 0 and not partial:
        yield f"{op}: no decision was recorded"
    for item in results.partitions:
        if item.illegal and item.reach.hits:
            yield f"{op}: illegal partition {item.label} was hit by {_tests(item)}"
        elif item.required and item.state == "missed":
            yield f"{op}: required partition {item.label} {_missed(item)}"
    for name, items in _by_name(results.partitions).items():
        if items[0].required and all(item.state == "unreachable" for item in items):
            yield f"{op}: required partition {name} can be reached by no input, which was proved: is it a mistake?"
    for mismatch in results.mismatches:
        if not mismatch.waiver:
            yield f"{op}: {_mismatch(mismatch)}"
    for waiver in results.table.waivers:
        why = _unneeded(results, waiver)
        if why:
            yield f"{op}: {waiver} is not needed{why}"
        elif waiver.expires < today and not partial:
            yield f"{op}: {waiver} expired on {waiver.expires}"


def _unneeded(results: TableResults, waiver: Waiver) -> str:
    """Why ``waiver`` is needed no more, as far as this run shows."""
    if waiver.mismatch:
        return " any more: there was none where it would have shown" if waiver in results.unneeded else ""
    items = [item for item in results.partitions if item.name == waiver.partition]
    if all(item.state == "hit" for item in items):
        return " any more: it is hit"
    return ": no input reaches it, which was proved" if all(item.state == "unreachable" for item in items) else ""


def _mismatch(mismatch: Mismatch) -> str:
    where = f" in {', '.join(mismatch.tests[:3])}" if mismatch.tests else ""
    near = f"; {mismatch.nearest}" if mismatch.nearest else ""
    return (
        f"{mismatch.kind} mismatch{f' in rule {mismatch.rule}' if mismatch.rule else ''}: expected "
        f"{mismatch.expected}, got {mismatch.got} for {show(mismatch.facts)}{where}{near}"
    )


def _waived(results: TableResults) -> Iterator[str]:
    """What was waived of mismatches."""
    for mismatch in results.mismatches:
        if mismatch.waiver:
            yield f"{results.table.op}: waived, {mismatch.waiver}: {_mismatch(mismatch)}"


def _by_name(items: Iterable[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.name, []).append(item)
    return found


def _required(results: Results, demand: Demand) -> Iterator[str]:
    for table in results.tables:
        items = [item for item in table.partitions if demand.name in (item.name, item.label)]
        items = items or [item for item in table.rules if item.name == demand.name]
        for item in items:
            if item.state != "hit":
                yield f"{table.table.op}: required partition {item.label} {_missed(item)}"
            elif not demand.met(item):
                yield f"{table.table.op}: required partition {item.label}: {demand.lacks(item)}"


def _missed(item: Item) -> str:
    if item.state not in ("missed", "not-run"):
        return f"is {item.state}"
    if item.reach.hits:
        return f"was hit {item.reach.hits} times, expected at least {item.at_least}"
    if item.reach.apart:
        apart = ", ".join(f"{count} {reason}" for reason, count in item.reach.apart)
        return f"was not hit (not counted: {apart})"
    return "was not hit"


def _tests(item: Item) -> str:
    tests = item.reach.tests
    return ", ".join(tests[:3]) + (f" and {len(tests) - 3} more" if len(tests) > 3 else "") if tests else "the run"

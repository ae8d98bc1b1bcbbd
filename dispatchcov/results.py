"""What a run covered: frozen, addable, and derived from nothing but records and tables.

``Results.of(data)`` measures; ``a + b`` merges the records of both and measures again. Judging is the gate's work.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dispatchcov.drift import Drift
from dispatchcov.errors import DataError, DigestError, DispatchcovError
from dispatchcov.items import MEASURES, Item, Mismatch, Side, Totals, Weights, count
from dispatchcov.records import UNENDED, Data, Machine, Shard, TableText
from dispatchcov.table import Table, Waiver


@dataclass(frozen=True, slots=True)
class TableResults:
    """All that was measured for one table."""

    table: Table
    decisions: int
    machines: tuple[str, ...]
    partitions: tuple[Item, ...]
    rules: tuple[Item, ...]
    kernels: tuple[Item, ...]
    fallbacks: tuple[Item, ...]
    splits: tuple[Item, ...]
    regions: tuple[Item, ...]
    predicates: tuple[Side, ...]
    mismatches: tuple[Mismatch, ...]
    notes: tuple[str, ...]
    boundaries: tuple[Item, ...] = ()
    mcdc: tuple[Item, ...] = ()
    mutants: tuple[Item, ...] = ()
    unneeded: tuple[Waiver, ...] = ()

    @property
    def totals(self) -> dict[str, Totals]:
        """Totals by measure; of the partitions, the required ones."""
        required = [item for item in self.partitions if item.required]
        paths = (self.rules, self.fallbacks, self.splits, self.regions)
        measured = (required, *paths, self.boundaries, self.mcdc, self.mutants)
        return {name: count(items) for name, items in zip(MEASURES, measured, strict=True)}


@dataclass(frozen=True, slots=True)
class Results:
    """The measures of one run or of several; ``data`` and ``judged`` are what they follow from.

    ``drift`` is what drifted from a baseline, where there was one to compare with, ``weights`` what a workload weighs.
    """

    tables: tuple[TableResults, ...]
    data: Data = field(repr=False)
    judged: tuple[Table, ...] = field(repr=False)
    evidence: frozenset[str]
    today: datetime.date
    partial: tuple[str, ...]
    problems: tuple[str, ...]
    drift: Drift | None = None
    weights: Weights | None = None

    @staticmethod
    def of(
        data: Data,
        tables: Sequence[Table] = (),
        *,
        evidence: Iterable[str] = (),
        today: datetime.date | None = None,
        machines: Iterable[Machine] = (),
    ) -> Results:
        """Measure ``data`` against ``tables`` and the tables it was recorded with; ``evidence`` is what every
        hit needs. ``machines`` decided in other runs: what they can reach is not ``elsewhere``.

        Raises :class:`DigestError` if a table of ``tables`` is another version of one in ``data``.
        """
        from dispatchcov.measure.table import measure

        judged = same_versions(data, tables)
        day = today or datetime.date.today()
        needed = frozenset(evidence)
        partial = tuple(sorted({reason for shard in data.shards for reason in shard.partial}))
        problems = tuple(f"{shard.name}: {problem}" for shard in data.shards for problem in shard.problems)
        also = frozenset(machines)
        measured = tuple(measure(table, data, needed, day, bool(partial), also) for table in judged)
        return Results(measured, data, judged, needed, day, partial, problems)

    def __add__(self, other: Results) -> Results:
        from dispatchcov.store import merge

        tables = {table.digest: table for table in (*self.judged, *other.judged)}
        evidence = self.evidence | other.evidence
        return Results.of(merge(self.data, other.data), tuple(tables.values()), evidence=evidence, today=self.today)

    @property
    def decisions(self) -> int:
        """How many decisions were recorded, of passing tests or not."""
        return sum(table.decisions for table in self.tables)

    @property
    def unended(self) -> tuple[Shard, ...]:
        """The processes of pytest runs that were killed, or still go on: nothing that is kept with them is whole."""
        return tuple(shard for shard in self.data.shards if UNENDED in shard.partial)

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that decided, emulated ones named as such."""
        return tuple(sorted({machine for table in self.tables for machine in table.machines}))

    @property
    def totals(self) -> dict[str, Totals]:
        """Totals by measure, over all tables."""
        found = {name: Totals() for name in MEASURES}
        for table in self.tables:
            for name, totals in table.totals.items():
                found[name] += totals
        return found


def _other_version(known: Table, recorded: TableText) -> str:
    """Why records of the table ``recorded`` are not judged by ``known``, of the same operator, and what to do."""
    from dispatchcov.loading.load import parse_table

    way = "run again, or erase the old records"
    with contextlib.suppress(DispatchcovError):
        if parse_table(recorded.text, source=recorded.source).rules_digest == known.rules_digest:
            way = (
                f"only the partitions differ: what is to be judged by {known.source} must be recorded "
                f"by it, with --table={known.source} when it runs, in C++ with a header that is generated from it"
            )
    return (
        f"{known.op}: {known.source} has digest {known.digest[:12]}, the records were made with "
        f"{recorded.digest[:12]} of {recorded.source}; {way}"
    )


def same_versions(data: Data, tables: Sequence[Table]) -> tuple[Table, ...]:
    """``tables`` and those that ``data`` were recorded with, one an operator; raises :class:`DigestError`."""
    from dispatchcov.loading.load import parse_table

    judged = {table.op: table for table in tables}
    if len(judged) < len({table.digest for table in tables}):
        ops = sorted(table.op for table in tables)
        raise DataError(f"expected one version of each table, got several for one operator: {', '.join(ops)}")
    for recorded in data.tables:
        known = judged.get(recorded.op)
        if known is None:
            judged[recorded.op] = parse_table(recorded.text, source=recorded.source)
            if judged[recorded.op].digest != recorded.digest:
                raise DigestError(
                    f"{recorded.op}: expected the recorded text of {recorded.source} to have digest "
                    f"{recorded.digest[:12]}, got {judged[recorded.op].digest[:12]}; the data file was changed or made "
                    "by another version of dispatchcov"
                )
        elif known.digest != recorded.digest:
            raise DigestError(_other_version(known, recorded))
    return tuple(judged[op] for op in sorted(judged))

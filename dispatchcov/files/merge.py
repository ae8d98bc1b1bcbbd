"""Merging records: associative, commutative, and idempotent by the name of the shard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter, itemgetter

from dispatchcov.errors import DigestError
from dispatchcov.records import Data, Outcome, Row, Shard, TableText

_by_shard = itemgetter(0)
_outcome_key = itemgetter(1, 2)


def merge(*datas: Data) -> Data:
    """Everything that any of ``datas`` holds, each shard once: two runs add up, a run merged twice counts once.

    Of two copies of one shard the one with more lines holds, then the one that ended, then the one that counted more.
    Tables come by operator, shards by name, the rows of a shard in its own order, so equal merges compare equal.
    Raises :class:`DigestError` if two versions of one table meet.
    """
    copies: dict[str, _Copy] = {}
    texts: dict[str, TableText] = {}
    for data in datas:
        for table in data.tables:
            known = texts.get(table.digest, table)
            texts[table.digest] = min(known, table, key=_table_key)
        for name, copy in _copies(data).items():
            copies[name] = max(copies[name], copy, key=_Copy.rank) if copies.get(name, copy) != copy else copy
    ordered = [copies[name] for name in sorted(copies)]
    tables = tuple(sorted(texts.values(), key=attrgetter("op", "digest")))
    rows = tuple(row for copy in ordered for row in copy.rows)
    _refuse_versions(tables, rows)
    shards = tuple(copy.shard for copy in ordered if copy.shard is not None)
    return Data(tables, shards, rows, tuple(outcome for copy in ordered for outcome in copy.outcomes))


@dataclass(slots=True)
class _Copy:
    """What one of ``datas`` holds of a shard."""

    shard: Shard | None = None
    rows: list[Row] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def rank(self) -> tuple[int, bool, int, str]:
        """The later copy ranks higher; the text only makes the order total."""
        lines, ended = (self.shard.lines, self.shard.ended) if self.shard is not None else (-1, False)
        return lines, ended, sum(sum(row[8:12]) for row in self.rows), repr(self)


def _copies(data: Data) -> dict[str, _Copy]:
    copies = {shard.name: _Copy(shard) for shard in data.shards}
    for name, rows in groupby(data.rows, _by_shard):
        copies.setdefault(name, _Copy()).rows += rows
    for name, outcomes in groupby(data.outcomes, _by_shard):
        copies.setdefault(name, _Copy()).outcomes += outcomes
    for copy in copies.values():
        copy.outcomes.sort(key=_outcome_key)
    return copies


def _table_key(table: TableText) -> tuple[str, str, str]:
    return table.op, table.source, table.text


def _refuse_versions(tables: Iterable[TableText], rows: Iterable[Row]) -> None:
    """Raise :class:`DigestError` if there are two tables of one operator."""
    for op, versions in groupby(tables, attrgetter("op")):
        first, *others = versions
        if others:
            found = " and ".join(f"{table.digest[:12]} ({_where(table, rows)})" for table in (first, *others))
            raise DigestError(
                f"{op}: expected records of one version of the table, got {found}; erase the old records, or combine "
                "only records of one version"
            )


def _where(table: TableText, rows: Iterable[Row]) -> str:
    """Where records of ``table`` come from: its shards, at most three by name."""
    names = list(dict.fromkeys(row.shard for row in rows if row.digest == table.digest))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}, {table.source}" if names else table.source

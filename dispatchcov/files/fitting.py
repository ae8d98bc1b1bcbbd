"""Do rows fit the tables that they name? A file's values are checked one by one where it is read; how many there must
be, and of which types, only the table knows.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from dispatchcov.errors import DataError, DispatchcovError
from dispatchcov.expr import Value
from dispatchcov.files.untrusted import show
from dispatchcov.records import Data, Row, TableText

if TYPE_CHECKING:
    from dispatchcov.table import Table

TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool}


@dataclass(frozen=True)
class Shape:
    """What rows of one table look like: ``types`` of its variables by name, and those that are ``hardware``."""

    op: str
    types: Mapping[str, type]
    hardware: tuple[str, ...]

    @staticmethod
    def of(table: Table) -> Shape:
        """The shape of rows of ``table``."""
        return Shape(table.op, {each.name: TYPES[each.kind] for each in table.variables}, table.hardware)

    def fits(self, rows: Sequence[Row]) -> bool:
        """Do all of ``rows`` have this shape?"""
        return self._inputs_fit(rows) and _are([row.hardware for row in rows], [self.types[n] for n in self.hardware])

    def _inputs_fit(self, rows: Sequence[Row]) -> bool:
        return _are(list(chain.from_iterable([row.inputs for row in rows])), self.types.values())

    def told(self, row: Row) -> str:
        """What was expected, and got in ``row``, which does not fit."""
        if self._inputs_fit([row]):
            return f"expected hardware with {self._wanted(self.hardware)}, got {show(row.hardware)}"
        return f"expected inputs with {self._wanted(self.types)}, got {show(row.inputs)}"

    def _wanted(self, names: Iterable[str]) -> str:
        return ", ".join(f"{name} ({self.types[name].__name__})" for name in names) or "nothing"


def _are(values: Sequence[tuple[Value, ...]], types: Collection[type]) -> bool:
    """Are all ``values`` of ``types``, column by column?"""
    lengths = set(map(len, values))
    columns = zip(*values, strict=False)
    return lengths <= {len(types)} and all(
        set(map(type, column)) == {kind} for column, kind in zip(columns, types, strict=False)
    )


def refuse(table: Table, rows: Sequence[Row]) -> None:
    """Raise :class:`DataError` if one of ``rows`` does not fit ``table``."""
    shape = Shape.of(table)
    if not shape.fits(rows):
        raise DataError(f"{table.op}: records are damaged: {shape.told(_unfit(shape, rows)[0])}")


def refuse_file(path: str, tables: Collection[TableText], rows: Sequence[Row]) -> None:
    """Raise :class:`DataError` if one of ``rows``, of the data file ``path``, does not fit its table."""
    for shape, unfit in _unfitting(tables, rows):
        raise DataError(f"{path}: a decision of {shape.op}: {shape.told(unfit[0])}; the file is damaged or was changed")


def kept(data: Data) -> Data:
    """``data``, of one shard, without rows that do not fit their tables: of these its problems tell."""
    for shape, rows in _unfitting(data.tables, data.rows):
        count = f"{len(rows)} rows" if len(rows) > 1 else "a row"
        problem = f"{count} of {shape.op} left out: {shape.told(rows[0])}"
        out = set(map(id, rows))
        shards = tuple(replace(shard, problems=(*shard.problems, problem)) for shard in data.shards)
        data = replace(data, shards=shards, rows=tuple(row for row in data.rows if id(row) not in out))
    return data


def _unfitting(tables: Collection[TableText], rows: Sequence[Row]) -> Iterator[tuple[Shape, list[Row]]]:
    """Those of ``tables`` that do not fit all of their ``rows``, with the rows that they do not fit."""
    for table in tables:
        own = [row for row in rows if row.digest == table.digest] if len(tables) > 1 else rows
        shape = _shape(table) if own else None
        if shape is not None and not shape.fits(own):
            yield shape, _unfit(shape, own)


def _unfit(shape: Shape, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not shape.fits([row])]


@functools.lru_cache(maxsize=64)
def _shape(recorded: TableText) -> Shape | None:
    """The shape of rows of ``recorded``; None if its text is not the table that its digest names.

    Whoever judges such rows refuses it, or has the table from elsewhere and then :func:`refuse` looks.
    """
    from dispatchcov.loading.load import parse_table

    try:
        table = parse_table(recorded.text, source=recorded.source)
    except DispatchcovError:
        return None
    return Shape.of(table) if table.digest == recorded.digest else None

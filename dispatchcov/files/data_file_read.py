"""Reading a data file, with trust in none of it: it may come from a stranger, a later version or a broken disk."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from itertools import chain
from typing import Any

from dispatchcov.errors import DataError
from dispatchcov.files import checksum, fitting, untrusted
from dispatchcov.files.data_file import (
    APPLICATION,
    FORMAT,
    MAX_BYTES,
    NO_CHECKSUM,
    STATEMENTS,
    TABLES,
    connect,
    whose,
)
from dispatchcov.files.untrusted import integer, open_regular, refuse, text
from dispatchcov.records import Data, Outcome, Row, Shard, TableText

MAX_TEXT = 1 << 28


def read(path: str) -> Data:
    """What the data file ``path`` holds; raises :class:`DataError` for any other file, a later format and damage."""
    with open_regular(path, "a data file", MAX_BYTES) as stream:
        head = stream.read(100)
        version = _check_head(path, head, os.fstat(stream.fileno()).st_size)
        if version != NO_CHECKSUM:
            checksum.check(path, stream)
    try:
        # ``immutable``: no lock, and no journal or other file is looked for; the file is only ever replaced as a whole.
        with contextlib.closing(connect(path, "ro&immutable=1")) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
            connection.execute("PRAGMA trusted_schema=OFF")
            _check_schema(path, connection, version)
            relations = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
    except (sqlite3.Error, ValueError) as error:
        raise DataError(f"{path}: expected a data file, cannot read it: {error}") from None
    return _Content(path, relations).data()


def _check_head(path: str, head: bytes, size: int) -> int:
    """The format of the file ``path``, of ``size`` bytes, by its first 100."""
    application = whose(head)
    if application != APPLICATION:
        text = f"a file that begins with {head[:16]!r}" if head else "an empty file"
        got = text if application is None else "another program's SQLite file"
        raise DataError(f"{path}: expected a data file of dispatchcov, got {got}")
    version = int.from_bytes(head[60:64], "big")
    if version not in (FORMAT, NO_CHECKSUM):
        later = "; a later version of dispatchcov wrote it" if version > FORMAT else ""
        raise DataError(f"{path}: expected data file format {FORMAT}, got {version}{later}")
    page = int.from_bytes(head[16:18], "big")
    whole = (page if page > 1 else 1 << 16) * int.from_bytes(head[28:32], "big")
    if size != whole:
        raise DataError(f"{path}: expected a data file of {whole} bytes, got {size}: it was cut or added to")
    return version


def _check_schema(path: str, connection: sqlite3.Connection, version: int) -> None:
    """Only our tables: a stranger's view or trigger would run as part of a query."""
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    wanted = STATEMENTS if version != NO_CHECKSUM else STATEMENTS[1:]
    if found != set(wanted):
        strange = min(str(sql) for sql in found.symmetric_difference(wanted))[:80]
        raise DataError(f"{path}: expected the tables of data file format {version}, got a difference in {strange!r}")


class _Content:
    """The rows of the tables, checked and put together; ``table`` is the one in work."""

    def __init__(self, path: str, relations: Mapping[str, list[tuple[Any, ...]]]) -> None:
        self.path = path
        self.relations = relations
        self.table = ""

    def rows_of(self, table: str) -> list[tuple[Any, ...]]:
        self.table = table
        return self.relations[table]

    def data(self) -> Data:
        try:
            tests = {integer(number): text(test) for number, test in self.rows_of("tests")}
            tables = {number: TableText(*map(text, row)) for number, *row in self.rows_of("tables")}
            shards = {row[0]: _shard(row) for row in self.rows_of("shards")}
            contexts = {number: (tests[test], text(phase)) for number, test, phase in self.rows_of("contexts")}
            decisions = self.decisions({number: table.digest for number, table in tables.items()})
            fitting.refuse_file(self.path, tables.values(), list(map(_row, decisions.values())))
            rows = self.rows({number: shard.name for number, shard in shards.items()}, contexts, decisions)
            outcomes = [(shards[s].name, tests[test], text(outcome)) for s, test, outcome in self.rows_of("outcomes")]
        except (LookupError, TypeError, ValueError):
            raise DataError(
                f"{self.path}: expected the values that dispatchcov writes into table {self.table}, got others; the "
                "file is damaged or was changed"
            ) from None
        return Data(tuple(tables.values()), tuple(shards.values()), rows, tuple(map(Outcome._make, outcomes)))

    def decisions(self, digests: Mapping[int, str]) -> dict[int, tuple[Any, ...]]:
        rows = self.rows_of("decisions")
        hardware = untrusted.parse_lines([text(row[4]).encode() for row in rows])
        inputs = untrusted.parse_lines([text(row[6]).encode() for row in rows])
        each = zip(rows, hardware, inputs, strict=True)
        return {
            number: (
                digests[digest], text(machine), untrusted.bits(vector), untrusted.facts(values), text(kernel),
                untrusted.inputs(_inputs(seen)),
            )
            for (number, digest, machine, vector, _, kernel, _), values, seen in each
        }  # fmt: skip

    def rows(
        self, shards: Mapping[int, str], contexts: Mapping[int, Any], decisions: Mapping[int, Any]
    ) -> tuple[Row, ...]:
        rows = self.rows_of("rows")
        if not rows:
            return ()
        shard, context, decision, *counts, finished, times = zip(*rows, strict=True)
        numbers = (times, *counts)
        flags = {0, 1}.issuperset(finished)
        if set(map(type, chain(*numbers))) != {int} or min(map(min, numbers)) < 0 or not flags:
            refuse(counts)
        test, phase = zip(*map(contexts.__getitem__, context), strict=True)
        digest, machine, vector, hardware, kernel, inputs = zip(*map(decisions.__getitem__, decision), strict=True)
        names = map(shards.__getitem__, shard)
        what = (names, digest, machine, test, phase, vector, hardware, kernel)
        columns = (*what, *counts, inputs, map(bool, finished), times)
        return tuple(map(Row._make, zip(*columns, strict=True)))


def _row(decision: tuple[Any, ...]) -> Row:
    """What all rows of ``decision`` have in common."""
    digest, machine, vector, hardware, kernel, inputs = decision
    return Row("", digest, machine, "", "", vector, hardware, kernel, 0, 0, 0, 0, inputs)


def _inputs(columns: Any) -> list[list[Any]]:
    """The inputs that :func:`~dispatchcov.files.data_file.columns` wrote as ``columns``."""
    if type(columns) is not list:
        refuse(columns)
    count = max((len(column) for column in columns if type(column) is list), default=1)
    each = [column if type(column) is list else [column] * count for column in columns]
    return [list(values) for values in zip(*each, strict=True)]


def _shard(row: tuple[Any, ...]) -> Shard:
    _, name, run, host, pid, started, lines, partial, ended, problems, notes, sources = row
    about = (text(name), text(run), text(host), integer(pid), text(started), integer(lines))
    return Shard(*about, _texts(partial), bool(integer(ended)), _texts(problems), _texts(notes), _texts(sources))


def _texts(column: Any) -> tuple[str, ...]:
    values = untrusted.parse(text(column).encode())
    return tuple(map(text, values)) if type(values) is list else refuse(values)

"""The data file: merged records in SQLite, written whole and read with trust in none of it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from dispatchcov import untrusted
from dispatchcov.errors import DataError
from dispatchcov.records import Data, Outcome, Row, Shard, TableText
from dispatchcov.untrusted import integer, open_regular, reason, refuse, text

FORMAT = 1
APPLICATION = 0x44437631  # "DCv1", where SQLite keeps whose file it is; ``user_version`` is the format
MAX_BYTES = 1 << 30
MAX_TEXT = 1 << 28

SCHEMA = """
CREATE TABLE tables (    -- the versions of tables that the rows refer to
    id INTEGER PRIMARY KEY,
    digest TEXT,         -- of all that decides, counts or judges
    op TEXT,             -- the operator
    source TEXT,         -- the file it was loaded from
    text TEXT            -- its TOML, enough to judge the rows
);
CREATE TABLE shards (    -- the processes that recorded
    id INTEGER PRIMARY KEY,
    name TEXT,           -- of the shard, which is the identity for merging
    run TEXT,            -- the run that the process belonged to
    host TEXT,
    pid INTEGER,
    started TEXT,        -- ISO 8601, UTC
    lines INTEGER,       -- of the shard when it was read: of two copies the longer one holds
    partial TEXT,        -- JSON list: why absence proves nothing in this run
    ended INTEGER,       -- 1 if the process said that it ended
    problems TEXT        -- JSON list: lines that could not be read
);
CREATE TABLE strings (   -- each text once; what other columns call a string is its id here
    id INTEGER PRIMARY KEY,
    string TEXT
);
CREATE TABLE rows (      -- decisions of one shard that agree in all before the counts, in the order of the shard
    shard INTEGER,       -- shards.id
    digest INTEGER,      -- tables.id
    machine INTEGER,     -- string
    test INTEGER,        -- string: node id, empty outside tests
    phase INTEGER,       -- string: collect, setup, call, teardown, session, warm-up, run
    vector INTEGER,      -- string, hexadecimal: bit i is the outcome of predicate i, the bit after them says "outside"
    hardware INTEGER,    -- string, JSON list: values of the hardware variables in the order of the table
    kernel INTEGER,      -- string: what ran by the account of code that decides itself, empty where the table decided
    selected INTEGER,    -- how many decisions
    launched INTEGER,    -- how many of them were attested: their launcher returned,
    observed INTEGER,    -- the profiler saw their kernel,
    checked INTEGER,     -- a result was compared after them
    inputs INTEGER,      -- string, JSON list of lists: facts seen, the first and those with extreme values
    finished INTEGER     -- 0 if the test had not ended
);
CREATE TABLE outcomes (  -- how tests ended
    shard INTEGER,       -- shards.id
    test INTEGER,        -- string
    outcome INTEGER      -- string: passed, failed, skipped, xfailed, xpassed
)
"""
STATEMENTS = tuple(statement.strip() for statement in SCHEMA.split(";\n"))
TABLES = {"tables": 5, "shards": 10, "strings": 2, "rows": 14, "outcomes": 3}
_dumps = json.JSONEncoder(separators=(",", ":")).encode


# --- writing ----------------------------------------------------------------------------------------------------------


def write(path: str, data: Data) -> None:
    """Make ``path`` hold ``data``, all of it or, if that fails, what it held before; raises :class:`DataError`."""
    beside = f"{path}.{secrets.token_hex(6)}.tmp"
    try:
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _fill(beside, data)
            os.fsync(fd)
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        finally:
            os.close(fd)
    except (OSError, sqlite3.Error, ValueError) as error:
        raise DataError(f"{path}: cannot write the data file: {reason(error)}") from None
    except KeyError as error:
        raise DataError(f"{path}: expected the shard and the table of each row, got none called {error}") from None


def _fill(path: str, data: Data) -> None:
    with contextlib.closing(_connect(path, "rw")) as connection:
        connection.execute("PRAGMA journal_mode=OFF")  # the file is thrown away if this fails
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("BEGIN")
        for statement in STATEMENTS:
            connection.execute(statement)
        for table, rows in _relations(data):
            marks = ",".join("?" * TABLES[table])
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.execute("COMMIT")


class _Ids(dict[Any, int]):
    """The ids of values by their texts in ``strings``, which gains those that it lacks."""

    def __init__(self, strings: dict[str, int], to_text: Callable[[Any], str]) -> None:
        super().__init__()
        self.strings = strings
        self.to_text = to_text

    def __missing__(self, value: Any) -> int:
        self[value] = number = self.strings.setdefault(self.to_text(value), len(self.strings))
        return number


def _relations(data: Data) -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
    """The contents of each table of the schema, the strings last because the others collect them."""
    tables = {table.digest: number for number, table in enumerate(data.tables)}
    shards = {shard.name: number for number, shard in enumerate(data.shards)}
    strings: dict[str, int] = {}

    def ids(column: Iterable[Any], to_text: Callable[[Any], str] = str) -> Iterable[int]:
        return map(_Ids(strings, to_text).__getitem__, column)

    yield "tables", ((i, t.digest, t.op, t.source, t.text) for i, t in enumerate(data.tables))
    yield "shards", (
        (i, s.name, s.run, s.host, s.pid, s.started, s.lines, _dumps(s.partial), s.ended, _dumps(s.problems))
        for i, s in enumerate(data.shards)
    )
    if data.rows:
        names, digests, machines, tests, phases, vectors, hardware, kernels, *counts, inputs, finished = zip(
            *data.rows, strict=True
        )
        # With the digest, because 1 and true are one key here, and only within a table are they of one variable.
        facts, values = zip(digests, inputs, strict=True), zip(digests, hardware, strict=True)
        columns = (
            map(shards.__getitem__, names), map(tables.__getitem__, digests), ids(machines), ids(tests), ids(phases),
            ids(vectors, "{:x}".format), ids(values, _second), ids(kernels), *counts, ids(facts, _second), finished,
        )  # fmt: skip
        yield "rows", zip(*columns, strict=True)
    if data.outcomes:
        names, tests, outcomes = zip(*data.outcomes, strict=True)
        yield "outcomes", zip(map(shards.__getitem__, names), ids(tests), ids(outcomes), strict=True)
    yield "strings", ((number, string) for string, number in strings.items())


def _second(pair: tuple[str, Any]) -> str:
    return _dumps(pair[1])


# --- reading ----------------------------------------------------------------------------------------------------------


def is_data_file(path: str) -> bool:
    """Does ``path`` say that it is a data file, of whatever format?"""
    return _whose(_head(path)) == APPLICATION


def is_sqlite(path: str) -> bool:
    """Does ``path`` say that it is a file of SQLite?"""
    return _whose(_head(path)) is not None


def _head(path: str) -> bytes:
    try:
        with open_regular(path, "a data file", MAX_BYTES) as stream:
            return stream.read(100)
    except DataError:
        return b""


def read(path: str) -> Data:
    """What the data file ``path`` holds; raises :class:`DataError` for any other file, a later format and damage."""
    with open_regular(path, "a data file", MAX_BYTES) as stream:
        head = stream.read(100)
        size = os.fstat(stream.fileno()).st_size
    whose = _whose(head)
    if whose != APPLICATION:
        got = "another program's SQLite file" if whose is not None else f"a file that begins with {head[:16]!r}"
        raise DataError(f"{path}: expected a data file of dispatchcov, got {got}")
    version = int.from_bytes(head[60:64], "big")
    if version != FORMAT:
        later = "; a later version of dispatchcov wrote it" if version > FORMAT else ""
        raise DataError(f"{path}: expected data file format {FORMAT}, got {version}{later}")
    page = int.from_bytes(head[16:18], "big")
    whole = (page if page > 1 else 1 << 16) * int.from_bytes(head[28:32], "big")
    if size != whole:
        raise DataError(f"{path}: expected a data file of {whole} bytes, got {size}: it was cut or added to")
    try:
        # ``immutable``: no lock, and no journal or other file is looked for; the file is only ever replaced as a whole.
        with contextlib.closing(_connect(path, "ro&immutable=1")) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
            connection.execute("PRAGMA trusted_schema=OFF")
            _check_schema(path, connection)
            relations = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
    except (sqlite3.Error, ValueError) as error:
        raise DataError(f"{path}: expected a data file, cannot read it: {error}") from None
    return _Content(path, relations).data()


def _whose(head: bytes) -> int | None:
    """The application that an SQLite file's first 100 bytes name, None if they are of no SQLite file."""
    return int.from_bytes(head[68:72], "big") if len(head) == 100 and head.startswith(b"SQLite format 3\0") else None


def _connect(path: str, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)


def _check_schema(path: str, connection: sqlite3.Connection) -> None:
    """Only our tables: a stranger's view or trigger would run as part of a query."""
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    if found != set(STATEMENTS):
        strange = min(str(sql) for sql in found.symmetric_difference(STATEMENTS))[:80]
        raise DataError(f"{path}: expected the tables of data file format {FORMAT}, got a difference in {strange!r}")


class _Content:
    """The rows of the tables, checked and put together."""

    def __init__(self, path: str, relations: dict[str, list[tuple[Any, ...]]]) -> None:
        self.path = path
        self.relations = relations
        self.strings: dict[int, str] = {}

    def data(self) -> Data:
        table = ""
        try:
            table = "strings"
            self.strings = {integer(number): text(string) for number, string in self.relations[table]}
            table = "tables"
            tables = {number: TableText(*map(text, row)) for number, *row in self.relations[table]}
            table = "shards"
            shards = {row[0]: self._shard(row) for row in self.relations[table]}
            table = "rows"
            rows = self._rows({n: t.digest for n, t in tables.items()}, {n: s.name for n, s in shards.items()})
            table = "outcomes"
            outcomes = tuple(
                Outcome(shards[shard].name, self.strings[test], self.strings[outcome])
                for shard, test, outcome in self.relations[table]
            )
        except (LookupError, TypeError, ValueError):
            raise DataError(
                f"{self.path}: expected the values that dispatchcov writes into table {table}, got others; the file is "
                "damaged or was changed"
            ) from None
        return Data(tuple(tables.values()), tuple(shards.values()), rows, outcomes)

    def _shard(self, row: tuple[Any, ...]) -> Shard:
        _, name, run, host, pid, started, lines, partial, ended, problems = row
        lists = [untrusted.parse(text(column).encode()) for column in (partial, problems)]
        reasons, found = (tuple(map(text, column)) if type(column) is list else refuse(column) for column in lists)
        about = (text(name), text(run), text(host), integer(pid), text(started), integer(lines))
        return Shard(*about, reasons, bool(integer(ended)), found)

    def _rows(self, digests: dict[int, str], shards: dict[int, str]) -> tuple[Row, ...]:
        if not self.relations["rows"]:
            return ()
        columns = list(zip(*self.relations["rows"], strict=True))
        counts = columns[8:12]
        if set(map(type, chain(*counts))) != {int} or min(map(min, counts)) < 0 or not {0, 1}.issuperset(columns[13]):
            refuse(counts)

        def mapped(column: int, values: Mapping[int, Any]) -> Iterable[Any]:
            return map(values.__getitem__, columns[column])

        def parsed(column: int, check: Callable[[Any], Any]) -> Iterable[Any]:
            numbers = list(set(columns[column]))
            values = untrusted.parse_lines([self.strings[number].encode() for number in numbers])
            return mapped(column, {number: check(value) for number, value in zip(numbers, values, strict=True)})

        bits = {number: untrusted.bits(self.strings[number]) for number in set(columns[5])}
        made = (
            mapped(0, shards), mapped(1, digests), mapped(2, self.strings), mapped(3, self.strings),
            mapped(4, self.strings), mapped(5, bits), parsed(6, untrusted.facts), mapped(7, self.strings), *counts,
            parsed(12, untrusted.inputs), map(bool, columns[13]),
        )  # fmt: skip
        return tuple(map(Row._make, zip(*made, strict=True)))

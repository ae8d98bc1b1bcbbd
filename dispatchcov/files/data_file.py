"""The data file: merged records in SQLite. Written whole here, read by :mod:`dispatchcov.files.data_file_read`."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from dispatchcov.errors import DataError
from dispatchcov.expr import Value
from dispatchcov.files import checksum
from dispatchcov.files.untrusted import open_regular, reason
from dispatchcov.records import Data, Inputs, Shard

FORMAT = 3  # 1 had no kernel time, 2 no checksum
NO_CHECKSUM = 2
APPLICATION = 0x44437631  # "DCv1", where SQLite keeps whose file it is; ``user_version`` is the format
MAX_BYTES = 1 << 30

SCHEMA = """
CREATE TABLE checksum (   -- one row; the first table, for its place (dispatchcov.files.checksum)
    sha256 BLOB           -- of the bytes of the file, with 255 in those of this value
);
CREATE TABLE tables (     -- the versions of tables that decided
    id INTEGER PRIMARY KEY,
    digest TEXT,          -- of all that decides, counts or judges
    op TEXT,              -- the operator
    source TEXT,          -- the file it was loaded from
    text TEXT             -- its TOML, enough to judge the rows
);
CREATE TABLE shards (     -- the processes that recorded
    id INTEGER PRIMARY KEY,
    name TEXT,            -- of the shard, which is the identity for merging
    run TEXT,             -- the run that the process belonged to
    host TEXT,
    pid INTEGER,
    started TEXT,         -- ISO 8601, UTC
    lines INTEGER,        -- of the shard when it was read: of two copies the longer one holds
    partial TEXT,         -- JSON list: why absence proves nothing in this run
    ended INTEGER,        -- 1 if the process said that it ended
    problems TEXT,        -- JSON list: lines that could not be read
    notes TEXT,           -- JSON list: what else is to know about the run
    sources TEXT          -- JSON list: table digest, SHA-256 of the sources, kernel, with spaces between
);
CREATE TABLE tests (
    id INTEGER PRIMARY KEY,
    test TEXT             -- node id, empty outside tests
);
CREATE TABLE contexts (   -- what decisions are counted under
    id INTEGER PRIMARY KEY,
    test INTEGER,         -- tests.id
    phase TEXT            -- collect, setup, call, teardown, session, warm-up or run
);
CREATE TABLE decisions (  -- what was decided
    id INTEGER PRIMARY KEY,
    digest INTEGER,       -- tables.id
    machine TEXT,
    vector TEXT,          -- hexadecimal: bit i is the outcome of predicate i, the bit after them says "outside"
    hardware TEXT,        -- JSON list: the values of the table's hardware variables, in its order
    kernel TEXT,          -- what ran by the account of code that decides itself, empty where the table decided
    inputs TEXT           -- JSON list, a column for each variable: its values in the facts seen, the first and those
                          -- with extreme values, as a list or, where they are all the same, as that value
);
CREATE TABLE rows (       -- how often, in the order of the shard
    shard INTEGER,        -- shards.id
    context INTEGER,      -- contexts.id
    decision INTEGER,     -- decisions.id
    selected INTEGER,     -- how many decisions
    launched INTEGER,     -- how many of them were attested: their launcher returned,
    observed INTEGER,     -- the profiler saw their kernel,
    checked INTEGER,      -- a result was compared after them
    finished INTEGER,     -- 0 if the test had not ended
    nanoseconds INTEGER   -- what their kernels took, as far as a profiler saw
);
CREATE TABLE outcomes (   -- how tests ended
    shard INTEGER,        -- shards.id
    test INTEGER,         -- tests.id
    outcome TEXT          -- passed, failed, skipped, xfailed or xpassed
)
"""
STATEMENTS = tuple(statement.strip() for statement in SCHEMA.split(";\n"))
TABLES = {"tables": 5, "shards": 12, "tests": 2, "contexts": 3, "decisions": 7, "rows": 9, "outcomes": 3}
"""The tables of :data:`SCHEMA` after the checksum, with how many columns they have."""
_dumps = json.JSONEncoder(separators=(",", ":")).encode


def write(path: str, data: Data) -> None:
    """Make ``path`` hold ``data``, all of it or, if that fails, what it held before; raises :class:`DataError`."""
    beside = f"{path}.{secrets.token_hex(6)}.tmp"
    try:
        fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _fill(beside, data)
            checksum.seal(beside)
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
    with contextlib.closing(connect(path, "rw")) as connection:
        connection.execute("PRAGMA journal_mode=OFF")  # the file is thrown away if this fails
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA page_size={checksum.PAGE}")
        connection.execute("PRAGMA auto_vacuum=NONE")  # where it is on, the second page is not the first table's
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("BEGIN")
        for statement in STATEMENTS:
            connection.execute(statement)
        connection.execute("INSERT INTO checksum VALUES (?)", (checksum.UNKNOWN,))
        for table, rows in _relations(data):
            _insert(connection, table, iter(rows))
        connection.execute("COMMIT")


def _insert(connection: sqlite3.Connection, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
    """Insert ``rows``, 50 a statement, which takes two thirds of the time of one a statement."""
    marks = f"({','.join('?' * TABLES[table])})"
    rest: tuple[Any, ...] = ()

    def batches() -> Iterator[tuple[Any, ...]]:
        nonlocal rest
        while len(batch := tuple(islice(rows, 50))) == 50:
            yield tuple(chain.from_iterable(batch))
        rest = batch

    connection.executemany(f"INSERT INTO {table} VALUES {','.join([marks] * 50)}", batches())
    connection.executemany(f"INSERT INTO {table} VALUES {marks}", rest)


def connect(path: str, mode: str) -> sqlite3.Connection:
    """A connection to the file ``path``, whatever characters its name has; ``mode`` as in an SQLite URI."""
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None)


class _Ids(dict[Any, int]):
    """Numbers for values, in the order in which they are first asked for."""

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self)
        return number


def _relations(data: Data) -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
    """The contents of each table of the schema; rows and outcomes first, because they collect the others."""
    tables = {table.digest: number for number, table in enumerate(data.tables)}
    shards = {shard.name: number for number, shard in enumerate(data.shards)}
    tests, contexts, decisions = _Ids(), _Ids(), _Ids()
    yield "tables", ((i, t.digest, t.op, t.source, t.text) for i, t in enumerate(data.tables))
    yield (
        "shards",
        (
            (i, s.name, s.run, s.host, s.pid, s.started, s.lines, _dumps(s.partial), int(s.ended), *_lists(s))
            for i, s in enumerate(data.shards)
        ),
    )
    if data.rows:
        names, digest, machine, test, phase, vector, hardware, kernel, *counts, inputs, finished, times = zip(
            *data.rows, strict=True
        )
        context = map(contexts.__getitem__, zip(test, phase, strict=True))
        # 1 and true are one key here, but not within one table: there they would be of one variable.
        what = zip(digest, machine, vector, hardware, kernel, inputs, strict=True)
        decision = map(decisions.__getitem__, what)
        yield "rows", zip(map(shards.__getitem__, names), context, decision, *counts, finished, times, strict=True)
    if data.outcomes:
        names, test, outcome = zip(*data.outcomes, strict=True)
        yield "outcomes", zip(map(shards.__getitem__, names), map(tests.__getitem__, test), outcome, strict=True)
    yield "contexts", ((i, tests[test], phase) for (test, phase), i in contexts.items())
    yield (
        "decisions",
        (
            (i, tables[digest], machine, f"{vector:x}", _dumps(hardware), kernel, _dumps(columns(inputs)))
            for (digest, machine, vector, hardware, kernel, inputs), i in decisions.items()
        ),
    )
    yield "tests", ((i, test) for test, i in tests.items())


def columns(inputs: Inputs) -> list[Value | tuple[Value, ...]]:
    """``inputs``, which differ, by variable: most variables have one value in all of them."""
    return [column if len(set(column)) > 1 else column[0] for column in zip(*inputs, strict=True)]


def _lists(shard: Shard) -> Iterable[str]:
    return map(_dumps, (shard.problems, shard.notes, shard.sources))


def is_data_file(path: str) -> bool:
    """Does ``path`` say that it is a data file, of whatever format?"""
    return whose(_head(path)) == APPLICATION


def is_sqlite(path: str) -> bool:
    """Does ``path`` say that it is a file of SQLite?"""
    return whose(_head(path)) is not None


def whose(head: bytes) -> int | None:
    """The application that an SQLite file's first 100 bytes name, None if they are of no SQLite file."""
    return int.from_bytes(head[68:72], "big") if len(head) == 100 and head.startswith(b"SQLite format 3\0") else None


def _head(path: str) -> bytes:
    try:
        with open_regular(path, "a data file", MAX_BYTES) as stream:
            return stream.read(100)
    except DataError:
        return b""

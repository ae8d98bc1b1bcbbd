"""Evidence that has aged: records of a kernel count only while its sources, and the table, are as they were.

A kernel's ``sources`` name the files it is built from. Their checksum is recorded with each run; when records
of another day or
machine are brought in, what was made from other sources or by another version of a table counts for nothing,
and a note says so.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from dispatchcov.decide import select
from dispatchcov.errors import DataError
from dispatchcov.records import Data, Row
from dispatchcov.table import Table

MAX_SOURCE = 1 << 24


def source_digests(table: Table) -> dict[str, str]:
    """SHA-256 of the sources of each kernel of ``table`` that names some and whose files can be read."""
    found = {kernel.name: _checksum(table.folder, kernel.sources) for kernel in table.kernels if kernel.sources}
    return {name: checksum for name, checksum in found.items() if checksum}


def _checksum(folder: str, sources: Iterable[str]) -> str:
    total = hashlib.sha256()
    for source in sources:
        content = _content(folder, source)
        if content is None:
            return ""
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def _content(folder: str, source: str) -> bytes | None:
    """The file ``source`` below ``folder``; None for anything else, also for a path that leads out of it."""
    if not folder or os.path.isabs(source) or ".." in source.replace("\\", "/").split("/"):
        return None
    try:
        with open(os.path.join(folder, source), "rb", opener=_open_regular) as stream:
            content = stream.read(MAX_SOURCE + 1)
    except OSError:
        return None
    return content if len(content) <= MAX_SOURCE else None


def _open_regular(path: str, flags: int) -> int:
    fd = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is no regular file")
    return fd


def brought_in(patterns: Iterable[str], tables: Iterable[Table], data: Data) -> Data:
    """``data`` with the records of the data files that ``patterns`` name, less what is stale by ``tables`` and
    ``data``.

    Raises :class:`DataError` for a pattern that names no file and for a file that is not readable.
    """
    from dispatchcov import store
    from dispatchcov.loading.load import parse_table

    current = {recorded.op: parse_table(recorded.text, source=recorded.source) for recorded in data.tables}
    current |= {table.op: table for table in tables}
    ops = {recorded.digest: recorded.op for recorded in data.tables}
    known: dict[str, dict[str, str]] = {op: {} for op in current}
    for shard in sorted(data.shards, key=lambda shard: shard.started):
        for (digest, kernel), checksum in _sources_of(shard.sources).items():
            known.setdefault(ops.get(digest, ""), {})[kernel] = checksum
    for table in tables:
        known[table.op] |= source_digests(table)
    for pattern in patterns:
        files = sorted(glob.glob(pattern))
        if not files:
            raise DataError(f"{pattern}: expected a data file to bring in, got none")
        for file in files:
            data = store.merge(data, fresh(store.load(file, shards=False), file, current, known))
    return data


def fresh(data: Data, file: str, current: Mapping[str, Table], sources: Mapping[str, Mapping[str, str]]) -> Data:
    """``data``, of ``file``, without rows of another version of a table or of a kernel's sources; notes say
    what went.
    """
    notes: Counter[str] = Counter()
    ages = {shard.name: _sources_of(shard.sources) for shard in data.shards}
    ops = {recorded.digest: recorded.op for recorded in data.tables}

    def reason(row: Row) -> str:
        table = current.get(ops[row.digest])
        if table is None:
            return ""
        if table.digest != row.digest:
            return f"{table.op}: made with table digest {row.digest[:12]}, now {table.digest[:12]}"
        index = select(table, row.vector)
        kernel = row.kernel or (table.rules[index].kernel.name if index is not None else "")
        then = ages[row.shard].get((row.digest, kernel))
        now = sources.get(table.op, {}).get(kernel)
        return f"{table.op}: the sources of {kernel} have changed" if then and now and then != now else ""

    kept = []
    for row in data.rows:
        why = reason(row)
        if why:
            notes[why] += row.selected
        else:
            kept.append(row)
    texts = tuple(f"{file} is stale, {count} decisions count for nothing: {why}" for why, count in notes.items())
    digests = {row.digest for row in kept}
    tables = tuple(
        replace(table, source=current[table.op].source) if table.op in current else table
        for table in data.tables
        if table.digest in digests
    )
    counted = sum(row.selected for row in kept)
    machines = "; ".join(sorted({row.machine for row in kept}))
    what = f"1 decision of {machines} was" if counted == 1 else f"{counted} decisions of {machines} were"
    came = (f"{what} brought in from {file}",) if kept else ()
    notes_now = (*came, *texts)  # what else is noted was told when it was new
    shards = tuple(replace(shard, notes=notes_now) for shard in data.shards)
    return Data(tables, shards, tuple(kept), data.outcomes)


def _sources_of(entries: Iterable[str]) -> dict[tuple[str, str], str]:
    """``DIGEST CHECKSUM KERNEL`` as a shard keeps it, by table digest and kernel."""
    parts = (entry.split(" ", 2) for entry in entries)
    return {(part[0], part[2]): part[1] for part in parts if len(part) == 3}

"""The lines of a shard as they stand, each checked for its kind. :mod:`.shard_read` makes them records."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from itertools import compress, count, islice
from operator import itemgetter
from typing import Any, BinaryIO

from dispatchcov.errors import DataError
from dispatchcov.files import untrusted
from dispatchcov.files.shard import FORMAT
from dispatchcov.files.untrusted import integer, refuse, show, text
from dispatchcov.records import Shard, TableText

MAX_PROBLEMS = 20
_CHUNK = 1 << 22
_ROW = "id, view (integers), vector (hex), hardware (list of values), kernel (text), inputs (equal lists of values)"
FIELDS = {
    "shard": "name, run, host, started, counts, flight (text) and pid",
    "table": "digest, op, source, text (text)",
    "view": "id (integer), digest of a table before it, machine (text)",
    "row": f"context (integer), test, phase (text), {_ROW} and slot or four counts",
    "close": f"context (integer), test, phase (text), rows (lists of {_ROW}, four counts)",
    "outcome": "test, outcome (text)",
    "partial": "reason (text)",
    "retry": "test (text)",
    "time": "id, nanoseconds (integers)",
    "note": "text (text)",
    "end": "nothing else",
}
_ANY = f'a JSON object whose "k" is one of {", ".join(list(FIELDS)[1:])}'
_BEGIN = b'{"k":"shard",'
_PROGRESS = b'{"k":"row"'
_CONTEXT = re.compile(rb'\{"k":"row","context":(\d{1,15}),')
_close = itemgetter("context", "test", "phase", "rows")
_outcome = itemgetter("test", "outcome")


class ShardLines:
    """What the lines of one shard say, the later over the earlier.

    ``closes`` and ``outcomes``: number and object of each line of these kinds. ``closed``: the contexts that a
    ``close`` line ended. ``open``: number and object of each ``row`` line of the others. ``ended``: number of the
    ``end`` line, or 0. ``retries``: number of the last ``retry`` line of each test that has one,
    ``times``: nanoseconds by id of a row.
    """

    def __init__(self, path: str, parser: untrusted.Lines | None = None) -> None:
        self.path = path
        self.parser = parser or untrusted.Lines(remember=False)
        self.head: Shard | None = None
        self.array_name = ""
        self.flight_name = ""
        self.retries: dict[str, int] = {}
        self.times: dict[int, int] = {}
        self.number = 0
        self.ended = 0
        self.problems: list[str] = []
        self.partial: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.sources: dict[str, None] = {}
        self.tables: dict[str, TableText] = {}
        self.views: dict[int, tuple[str, str]] = {}
        self.open: dict[int, tuple[int, dict[str, Any]]] = {}
        self.closes: list[tuple[int, dict[str, Any]]] = []
        self.closed: set[int] = set()
        self.outcomes: list[tuple[int, dict[str, Any]]] = []

    def read(self, stream: BinaryIO) -> int:
        """Take in all lines; the number of bytes read. Raises :class:`DataError` if the first is not a shard's."""
        size = 0
        while chunk := stream.readlines(_CHUNK):
            size += sum(map(len, chunk))
            if self.head is None:
                if _cut(chunk[0]) and _BEGIN.startswith(chunk[0][: len(_BEGIN)]):
                    break
                self.first(untrusted.parse(chunk[0]))
                chunk[0] = _PROGRESS + b"\n"  # done with, and passed over
            cut = chunk.pop() if _cut(chunk[-1]) else b""
            settled = [line[:10] != _PROGRESS for line in chunk]
            values = self.parser.parse(list(compress(chunk, settled)))
            lines = zip(compress(count(self.number + 1), settled), values, strict=False)
            self._after_end(lines) if self.ended else self.take(lines)
            self.number += len(chunk)
            if cut and self.ended:
                self._after_end([(self.number + 1, cut)])
        self._check()
        if not self.ended or self.problems:
            self._read_progress(stream)
        return size

    def _check(self) -> None:
        """Leave out the ``close`` and ``outcome`` lines with wrong fields. All are looked at together first."""
        self.closes = self._fitting(self.closes, _close, (int, str, str, list))
        self.closed = {value["context"] for _, value in self.closes}
        self.outcomes = self._fitting(self.outcomes, _outcome, (str, str))

    def _fitting(
        self, lines: list[tuple[int, dict[str, Any]]], fields: Callable[[Any], Any], types: tuple[type, ...]
    ) -> list[tuple[int, dict[str, Any]]]:
        """Those of ``lines`` whose ``fields`` have ``types``; what is wrong with the others is a problem."""
        with contextlib.suppress(LookupError):
            columns = zip(*map(fields, map(itemgetter(1), lines)), strict=True)
            if all(set(map(type, column)) == {kind} for column, kind in zip(columns, types, strict=bool(lines))):
                return lines
        fitting = []
        for number, value in lines:
            with contextlib.suppress(LookupError):
                if tuple(map(type, fields(value))) == types:
                    fitting.append((number, value))
                    continue
            self.problem(number, f"expected {_wanted(value)}, got {show(value)}")
        return fitting

    def _read_progress(self, stream: BinaryIO) -> None:
        """Take in the lines that were passed over, of contexts that no line closed."""
        stream.seek(0)
        numbers, lines = [], []
        for number, line in enumerate(islice(stream, self.number), 1):
            if line[:10] == _PROGRESS:
                context = _CONTEXT.match(line)
                if context is None or int(context[1]) not in self.closed:
                    numbers.append(number)
                    lines.append(line)
        left = list(zip(numbers, untrusted.parse_lines(lines), strict=True))
        self.take(line for line in left if not 0 < self.ended < line[0])
        self._after_end(line for line in left if 0 < self.ended < line[0])
        self._check()  # an object may name its kind twice

    def first(self, value: Any) -> None:
        """Take in the first line; raises :class:`DataError` if it is not that of a shard of this format."""
        where = f"{self.path}:1"
        if type(value) is not dict or value.get("k") != "shard":
            raise DataError(f'{where}: expected a shard, whose first line is {{"k":"shard",...}}, got {show(value)}')
        number = value.get("format")
        if type(number) is not int or number != FORMAT:
            later = "; a later version of dispatchcov wrote it" if type(number) is int and number > FORMAT else ""
            raise DataError(f"{where}: expected shard format {FORMAT}, got {show(number)}{later}")
        texts = [value.get(key, "") for key in ("name", "run", "host", "started", "counts", "flight")]
        pid = value.get("pid")
        if set(map(type, texts)) != {str} or type(pid) is not int or not 0 <= pid < 1 << 32:
            raise DataError(f"{where}: expected a line 'shard' with {FIELDS['shard']}, got {show(value)}")
        name, run, host, started, self.array_name, self.flight_name = texts
        self.head = Shard(name or os.path.basename(self.path), run, host, pid, started, 0)

    def take(self, lines: Iterable[tuple[int, Any]]) -> None:
        """Take in parsed lines, each with its number."""
        lines = iter(lines)
        closes, outcomes = self.closes, self.outcomes
        for line in lines:
            number, value = line
            try:
                kind = value["k"]
                if kind == "close":
                    closes.append(line)
                elif kind == "outcome":
                    outcomes.append(line)
                elif kind == "end":
                    self.ended = number
                    self._after_end(lines)
                else:
                    self._rare(number, kind, value)
            except (LookupError, TypeError):
                self.problem(number, f"expected {_wanted(value)}, got {show(value)}")

    def _rare(self, number: int, kind: str, value: dict[str, Any]) -> None:
        if kind == "table":
            table = TableText(*(text(value[key]) for key in ("digest", "op", "source", "text")))
            self.tables[table.digest] = table
        elif kind == "source":
            self.sources[" ".join(text(value[key]) for key in ("digest", "sha256", "kernel"))] = None
        elif kind == "view":
            digest = value["digest"]
            self.views[integer(value["id"])] = (self.tables[digest].digest, text(value["machine"]))
        elif kind == "row":
            self.open[integer(value["id"])] = (number, value)
        elif kind == "time":
            self.times[integer(value["id"])] = untrusted.counts([value["nanoseconds"]], 1)[0]
        elif kind == "retry":
            self.retries[text(value["test"])] = number
        elif kind == "partial":
            self.partial[text(value["reason"])] = None
        elif kind == "note":
            self.notes[text(value["text"])] = None
        else:
            refuse(kind)

    def _after_end(self, lines: Iterable[tuple[int, Any]]) -> None:
        for number, value in lines:
            self.problem(number, f"expected nothing after the line 'end', got {show(value)}")

    def problem(self, number: int, problem: str) -> None:
        """Keep what is wrong with line ``number``."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"line {number}: {problem}")
        elif len(self.problems) == MAX_PROBLEMS:
            self.problems.append("and more")


def _wanted(value: Any) -> str:
    kind = value.get("k") if type(value) is dict else None
    known = type(kind) is str and kind in FIELDS and kind != "shard"
    return f"a line {kind!r} with {FIELDS[str(kind)]}" if known else _ANY


def _cut(line: bytes) -> bool:
    """Did the end of its process cut ``line``, the last one, short?"""
    return not line.endswith(b"\n") and type(untrusted.parse(line)) is not dict

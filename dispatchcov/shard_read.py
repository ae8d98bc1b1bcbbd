"""Reading a shard: what its process left, however that ended. The format is described in :mod:`dispatchcov.shard`.

A shard may come from a stranger: every value is checked, sizes are bounded, and nothing but the shard and the array
beside it is opened.
"""

from __future__ import annotations

import contextlib
import os
import re
from array import array
from collections.abc import Iterable
from functools import partial
from itertools import chain, compress, count, islice, repeat
from operator import itemgetter
from typing import Any, BinaryIO

from dispatchcov import untrusted
from dispatchcov.errors import DataError
from dispatchcov.records import Data, Inputs, Outcome, Row, Shard, TableText
from dispatchcov.shard import FORMAT, WIDTH
from dispatchcov.untrusted import MAX_COUNT, integer, open_regular, refuse, show, text

MAX_BYTES = 1 << 30
MAX_ARRAY = 1 << 27
MAX_PROBLEMS = 20
_CHUNK = 1 << 22
_ROW = "id, view (integers), vector (hex), hardware (list of values), kernel (text), inputs (equal lists of values)"
_FIELDS = {
    "shard": "name, run, host, started, counts (text) and pid",
    "table": "digest, op, source, text (text)",
    "view": "id (integer), digest of a table before it, machine (text)",
    "context": "id (integer), test, phase (text)",
    "row": f"context, {_ROW} and slot or four counts",
    "close": f"context (integer), test, phase (text), rows (lists of {_ROW}, four counts)",
    "outcome": "test, outcome (text)",
    "partial": "reason (text)",
    "end": "nothing else",
}
_ANY = f'a JSON object whose "k" is one of {", ".join(list(_FIELDS)[1:])}'
_PROGRESS = (b'{"k":"row', b'{"k":"con')
_CONTEXT = re.compile(rb'\{"k":"(?:context","id|row","context)":(\d{1,15}),')
_about = itemgetter("id", "view", "vector", "hardware", "kernel", "inputs")
_key = itemgetter(1, 2, 3, 4, 5, 6, 7, 13)
_make_row = partial(tuple.__new__, Row)  # Row._make without its check, which is half of its time


def read_shard(path: str | os.PathLike[str]) -> Data:
    """What the shard ``path`` holds, under the name that its first line gives it.

    A last line that was cut short by the end of its process is left out. Other lines that cannot be read are left out
    and listed in ``shards[0].problems``. A file without a whole line gives empty data. Raises :class:`DataError` if the
    file is not a shard, is of a later format or cannot be read.
    """
    name = os.fspath(path)
    data = Data()
    for _ in range(3):  # a process that still runs may close a context, and use its slots again, while this reads
        reader = _Reader(name)
        with open_regular(name, "a shard", MAX_BYTES) as stream:
            size = reader.read(stream)
            data = reader.data()
            if os.fstat(stream.fileno()).st_size == size:
                break
    return data


class _Reader:
    """The lines of one shard, taken in order, and what they amount to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.head: Shard | None = None
        self.array_name = ""
        self.array: array[int] | None = None
        self.number = 0
        self.ended = 0
        self.problems: list[str] = []
        self.partial: dict[str, None] = {}
        self.tables: dict[str, TableText] = {}
        self.views: dict[int, tuple[str, str]] = {}
        self.contexts: dict[int, tuple[str, str]] = {}
        self.open: dict[int, tuple[int, dict[str, Any]]] = {}
        self.closed: set[int] = set()
        self.final: list[tuple[int, str, str, list[Any]]] = []
        self.outcomes: dict[str, str] = {}

    # --- lines --------------------------------------------------------------------------------------------------------

    def read(self, stream: BinaryIO) -> int:
        """Take in all lines; the number of bytes read."""
        size = 0
        while chunk := stream.readlines(_CHUNK):
            size += sum(map(len, chunk))
            if self.head is None:
                if _cut(chunk[0]) and b'{"k":"shard",'.startswith(chunk[0][:13]):
                    break
                self._first(untrusted.parse(chunk[0]))
                chunk[0] = _PROGRESS[0] + b"\n"  # done with, and passed over
            cut = chunk.pop() if _cut(chunk[-1]) else b""
            settled = [line[:9] not in _PROGRESS for line in chunk]
            values = untrusted.parse_lines(list(compress(chunk, settled)))
            self._lines(compress(count(self.number + 1), settled), values)
            self.number += len(chunk)
            if cut and self.ended:
                self._problem(self.number + 1, f"expected nothing after the line 'end', got {show(cut)}")
        if not self.ended or self.problems:
            self._read_progress(stream)
        return size

    def _read_progress(self, stream: BinaryIO) -> None:
        """Take in the lines that were passed over, of the contexts that no line closed."""
        stream.seek(0)
        numbers, lines = [], []
        for number, line in enumerate(islice(stream, self.number), 1):
            if line.startswith(_PROGRESS):
                context = _CONTEXT.match(line)
                if context is None or int(context[1]) not in self.closed:
                    numbers.append(number)
                    lines.append(line)
        self._lines(numbers, untrusted.parse_lines(lines))

    def _first(self, value: Any) -> None:
        where = f"{self.path}:1"
        if type(value) is not dict or value.get("k") != "shard":
            raise DataError(f'{where}: expected a shard, whose first line is {{"k":"shard",...}}, got {show(value)}')
        number = value.get("format")
        if type(number) is not int or number != FORMAT:
            later = "; a later version of dispatchcov wrote it" if type(number) is int and number > FORMAT else ""
            raise DataError(f"{where}: expected shard format {FORMAT}, got {show(number)}{later}")
        texts = [value.get(key, "") for key in ("name", "run", "host", "started", "counts")]
        pid = value.get("pid")
        if set(map(type, texts)) != {str} or type(pid) is not int or not 0 <= pid < 1 << 32:
            raise DataError(f"{where}: expected a line 'shard' with {_FIELDS['shard']}, got {show(value)}")
        name, run, host, started, self.array_name = texts
        self.head = Shard(name or os.path.basename(self.path), run, host, pid, started, 0)

    def _lines(self, numbers: Iterable[int], values: Iterable[Any]) -> None:
        for number, value in zip(numbers, values, strict=False):
            try:
                kind = value["k"]
                if 0 < self.ended < number:
                    self._problem(number, f"expected nothing after the line 'end', got {show(value)}")
                elif kind == "close":
                    self._close(number, value)
                elif kind == "outcome":
                    self.outcomes[text(value["test"])] = text(value["outcome"])
                else:
                    self._rare(number, kind, value)
            except (LookupError, TypeError):
                self._problem(number, f"expected {_wanted(value)}, got {show(value)}")

    def _close(self, number: int, value: dict[str, Any]) -> None:
        context, test, phase, rows = integer(value["context"]), text(value["test"]), text(value["phase"]), value["rows"]
        self.final.append((number, test, phase, rows if type(rows) is list else refuse(rows)))
        self.closed.add(context)

    def _rare(self, number: int, kind: str, value: dict[str, Any]) -> None:
        if kind == "table":
            table = TableText(*(text(value[key]) for key in ("digest", "op", "source", "text")))
            self.tables[table.digest] = table
        elif kind == "view":
            digest = value["digest"]
            self.views[integer(value["id"])] = (self.tables[digest].digest, text(value["machine"]))
        elif kind == "context":
            self.contexts[integer(value["id"])] = (text(value["test"]), text(value["phase"]))
        elif kind == "row":
            self.open[integer(value["id"])] = (number, value)
        elif kind == "partial":
            self.partial[text(value["reason"])] = None
        elif kind == "end":
            self.ended = number
        else:
            refuse(kind)

    def _problem(self, number: int, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"line {number}: {problem}")
        elif len(self.problems) == MAX_PROBLEMS:
            self.problems.append("and more")

    # --- what they amount to ------------------------------------------------------------------------------------------

    def data(self) -> Data:
        """All that was read, rows in the order in which they were written."""
        if self.head is None:
            return Data()
        rows = self._final_rows()
        if rows is None:
            rows = self._each(self._final_entries())
        rows += self._each(self._entries_in_progress())
        head = self.head
        about = (head.name, head.run, head.host, head.pid, head.started, self.number)
        shard = Shard(*about, tuple(self.partial), self.ended > 0, tuple(self.problems))
        outcomes = tuple(Outcome(head.name, test, outcome) for test, outcome in self.outcomes.items())
        return Data(tuple(self.tables.values()), (shard,), tuple(_added_up(rows)), outcomes)

    def _final_rows(self) -> list[Row] | None:
        """All final rows at once, column by column; None if there is one that needs a closer look."""
        assert self.head is not None
        entries = list(chain.from_iterable(rows for *_, rows in self.final))
        if not entries:
            return []
        try:
            ids, views, vectors, hardware, kernels, inputs, *counts = zip(*entries, strict=True)
            facts = list(chain.from_iterable(inputs))
            bits = {vector: untrusted.bits(vector) for vector in set(vectors)}
            fine = (
                len(set(ids)) == len(ids)
                and set(map(type, ids)) == {int}
                and len(counts) == WIDTH
                and set(map(type, chain(entries, hardware, inputs, facts))) == {list}
                and untrusted.are_facts(chain(chain.from_iterable(hardware), chain.from_iterable(facts)))
                and set(map(type, kernels)) == {str}
                and set(map(type, chain(*counts))) == {int}
                and all(min(column) >= 0 and max(column) <= MAX_COUNT for column in counts)
                and all(inputs)
                and (len(set(map(len, facts))) == 1 or all(len(set(map(len, rows))) == 1 for rows in inputs))
            )
            digests, machines = zip(*map(self.views.__getitem__, views), strict=True)
        except (LookupError, TypeError, ValueError):
            return None
        if not fine:
            return None
        tests = chain.from_iterable(repeat(test, len(rows)) for _, test, _, rows in self.final)
        phases = chain.from_iterable(repeat(phase, len(rows)) for _, _, phase, rows in self.final)
        columns = (
            repeat(self.head.name), digests, machines, tests, phases, map(bits.__getitem__, vectors),
            map(tuple, hardware), kernels, *counts, [tuple(map(tuple, rows)) for rows in inputs], repeat(True),
        )  # fmt: skip
        rows: list[Row] = list(map(_make_row, zip(*columns, strict=False)))
        return [row for row in rows if any(row[8:12])] if 0 in counts[0] else rows

    def _each(self, entries: Iterable[tuple[int, str, str, list[Any], bool]]) -> list[Row]:
        """The rows of ``entries``, one by one; what is wrong with one is a problem of its line."""
        rows = []
        for number, test, phase, entry, finished in entries:
            try:
                row = self._row(test, phase, entry, finished)
            except (LookupError, TypeError, ValueError):
                kind = "close" if finished else "row"
                self._problem(number, f"expected a line {kind!r} with {_FIELDS[kind]}, got {show(entry)}")
            else:
                if any(row[8:12]):
                    rows.append(row)
        return rows

    def _row(self, test: str, phase: str, entry: list[Any], finished: bool) -> Row:
        assert self.head is not None
        _, view, vector, hardware, kernel, inputs, *counts = entry
        selected, launched, observed, checked = untrusted.counts(counts, WIDTH)
        digest, machine = self.views[view]
        return Row(
            self.head.name, digest, machine, test, phase, untrusted.bits(vector), untrusted.facts(hardware),
            text(kernel), selected, launched, observed, checked, untrusted.inputs(inputs), finished,
        )  # fmt: skip

    def _final_entries(self) -> Iterable[tuple[int, str, str, list[Any], bool]]:
        final: dict[Any, tuple[int, str, str, list[Any], bool]] = {}
        for number, test, phase, rows in self.final:
            for entry in rows:
                try:
                    final[integer(entry[0])] = (number, test, phase, entry, True)
                except (LookupError, TypeError):
                    self._problem(number, f"expected a line 'close' with {_FIELDS['close']}, got {show(entry)}")
        return final.values()

    def _entries_in_progress(self) -> Iterable[tuple[int, str, str, list[Any], bool]]:
        for number, value in self.open.values():
            try:
                context = integer(value["context"])
                if context in self.closed:
                    continue
                test, phase = self.contexts[context]
                counts = value["counts"] if "counts" in value else self._from_array(value["slot"])
                entry = [*_about(value), *counts]
            except (LookupError, TypeError):
                self._problem(number, f"expected a line 'row' with {_FIELDS['row']}, got {show(value)}")
            else:
                yield number, test, phase, entry, False

    def _from_array(self, slot: Any) -> list[int]:
        """The counts in ``slot``; a row that the array does not know was selected at least once."""
        if self.array is None:
            self.array = _array(self.path, self.array_name)
        start = WIDTH * (slot if integer(slot) >= 0 else refuse(slot))
        counts = list(self.array[start : start + WIDTH])
        return counts if any(counts) else [1] + [0] * (WIDTH - 1)


def _wanted(value: Any) -> str:
    kind = value.get("k") if type(value) is dict else None
    known = type(kind) is str and kind in _FIELDS and kind != "shard"
    return f"a line {kind!r} with {_FIELDS[str(kind)]}" if known else _ANY


def _cut(line: bytes) -> bool:
    """Did the end of its process cut ``line``, the last one, short?"""
    return not line.endswith(b"\n") and type(untrusted.parse(line)) is not dict


def _array(shard: str, name: str) -> array[int]:
    """The array called ``name`` beside ``shard``; empty if there is none or it is not a plain file there."""
    found = array("q")
    path = os.path.join(os.path.dirname(shard), name)
    if name and name == os.path.basename(name) and not os.path.islink(path):
        with contextlib.suppress(DataError), open_regular(path, "counts", MAX_ARRAY) as stream:
            data = stream.read(MAX_ARRAY)
            found.frombytes(data[: len(data) // 8 * 8])
    return found


def _added_up(rows: list[Row]) -> list[Row]:
    """One row for all that agree in everything but counts, as those of a test that is entered again do."""
    keys = list(map(_key, rows))
    if len(set(keys)) == len(rows):
        return rows
    sums: dict[tuple[Any, ...], Row] = {}
    for key, row in zip(keys, rows, strict=True):
        sums[key] = _added(sums[key], row) if key in sums else row
    return list(sums.values())


def _added(a: Row, b: Row) -> Row:
    counts = (min(x + y, MAX_COUNT) for x, y in zip(a[8:12], b[8:12], strict=True))
    return Row._make((*a[:8], *counts, _extremes(a.inputs + b.inputs), a.finished))


def _extremes(inputs: Inputs) -> Inputs:
    """The first, then those at which an integer is smallest or largest."""
    kept = {inputs[0]: None}
    for place, column in enumerate(zip(*inputs, strict=False)):
        if set(map(type, column)) == {int}:
            kept[min(inputs, key=itemgetter(place))] = kept[max(inputs, key=itemgetter(place))] = None
    return tuple(kept)

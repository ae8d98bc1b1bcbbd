"""Reading a shard: what its process left, however that ended. The format is described in :mod:`.shard`.

A shard may come from a stranger: every value is checked, sizes are bounded, and nothing but the shard and the array
beside it is opened.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Container, Iterable, Sequence
from functools import partial
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

from dispatchcov.errors import DataError
from dispatchcov.expr import Value
from dispatchcov.files import untrusted
from dispatchcov.files.flight_read import beside, in_flight
from dispatchcov.files.shard import WIDTH
from dispatchcov.files.shard_lines import FIELDS, ShardLines
from dispatchcov.files.untrusted import MAX_COUNT, integer, open_regular, refuse, show, text
from dispatchcov.records import COUNTED, EARLIER_TRY, UNENDED, Data, Inputs, Outcome, Row, Shard

MAX_BYTES = 1 << 30
MAX_ARRAY = 1 << 27
MAX_INPUTS = 64
_about = itemgetter("id", "view", "vector", "hardware", "kernel", "inputs")
_key = itemgetter(1, 2, 3, 4, 5, 6, 7, 13)
_make_row = partial(tuple.__new__, Row)  # Row._make without its check, which is half of its time
_make_outcome = partial(tuple.__new__, Outcome)

Entry = tuple[int, str, str, Any, bool]
"""A row not checked yet: number of its line, test, phase, values, finished."""


def read_shard(path: str | os.PathLike[str]) -> Data:
    """What the shard ``path`` holds, under the name that its first line gives it.

    A last line that was cut short by the end of its process is left out. Other lines that cannot be read are left out
    and listed in ``shards[0].problems``. A file without a whole line gives empty data. Raises :class:`DataError` if the
    file is not a shard, is of a later format or cannot be read.
    """
    return _read(os.fspath(path), None)


def read_shards(paths: Sequence[str], *, refuse: Container[str] = ()) -> list[Data]:
    """What each of ``paths`` holds. One that is not readable is a shard without rows whose problem says why; if it is
    in ``refuse``, the :class:`DataError` of :func:`read_shard` is raised. One without a whole line is a shard that says
    so.
    """
    parser = untrusted.Lines(remember=len(paths) > 1)
    found = [_read(path, parser) if path in refuse else _kept(path, parser) for path in paths]
    return [data if data.shards else _empty(path) for path, data in zip(paths, found, strict=True)]


def _empty(path: str) -> Data:
    """What is said of a process that could not write its first line: what it decided is lost."""
    lost = f"{os.path.basename(path)} is empty: its process was killed as it began, or the disk was full"
    return Data(shards=(Shard(os.path.basename(path), "", "", 0, "", 0, partial=(lost,), notes=(lost,)),))


def _kept(path: str, parser: untrusted.Lines) -> Data:
    try:
        return _read(path, parser)
    except DataError as error:
        problem = str(error).removeprefix(path).lstrip(":").strip()
        line = problem if not problem.startswith("1: ") else f"line {problem}"
        return Data(
            shards=(Shard(os.path.basename(path), "", "", 0, "", 0, problems=(f"nothing of it is kept: {line}",)),)
        )


def _read(name: str, parser: untrusted.Lines | None) -> Data:
    data = Data()
    for _ in range(3):  # a process that still runs may close a context, and use its slots again, while this reads
        with open_regular(name, "a shard", MAX_BYTES) as stream:
            lines = ShardLines(name, parser)
            size = lines.read(stream)
            data = records(lines)
            if os.fstat(stream.fileno()).st_size == size:
                break
    return data


def records(lines: ShardLines) -> Data:
    """What ``lines`` amount to, rows in the order in which they were written."""
    head = lines.head
    if head is None:
        return Data()
    reader = _Rows(lines, head.name)
    rows = reader.final_rows()
    if rows is None:
        rows = reader.each(reader.final_entries())
    rows += reader.each(reader.entries_in_progress())
    about = (head.name, head.run, head.host, head.pid, head.started, lines.number)
    notes = (*lines.notes, *(in_flight(lines) if not lines.ended else ()))
    partial = tuple(reason for reason in lines.partial if reason != UNENDED or not lines.ended)
    if reader.lost:
        lost = f"the counts of process {head.pid} are lost: {lines.array_name or 'their file'} is not beside its shard"
        notes = (*notes, f"{lost}; {reader.lost} rows count what was written before, or 1")
        partial = (*partial, lost)
    lists = (tuple(lines.problems), notes, tuple(lines.sources))
    shard = Shard(*about, partial, lines.ended > 0, *lists)
    ends = {value["test"]: value["outcome"] for _, value in lines.outcomes}
    outcomes = tuple(map(_make_outcome, zip(repeat(head.name), ends, ends.values(), strict=False)))
    return Data(tuple(lines.tables.values()), (shard,), tuple(_added_up(rows)), outcomes)


class _Rows:
    def __init__(self, lines: ShardLines, name: str) -> None:
        self.lines = lines
        self.name = name
        self.array: array[int] | None = None
        self.lost = 0  # rows whose counts are not there

    def final_rows(self) -> list[Row] | None:
        """All final rows at once, column by column; None if there is one that needs a closer look."""
        closes = [value for _, value in self.lines.closes]
        every = [value["rows"] for value in closes]
        entries = list(chain.from_iterable(every))
        if not entries:
            return []
        if self.lines.retries or self.lines.times:
            return None
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
            digests, machines = zip(*map(self.lines.views.__getitem__, views), strict=True)
        except (LookupError, TypeError, ValueError):
            return None
        if not fine:
            return None
        lengths = list(map(len, every))
        tests = chain.from_iterable(map(repeat, [value["test"] for value in closes], lengths))
        phases = chain.from_iterable(map(repeat, [value["phase"] for value in closes], lengths))
        columns = (
            repeat(self.name), digests, machines, tests, phases, map(bits.__getitem__, vectors),
            map(tuple, hardware), kernels, *counts, list(map(_different, inputs)), repeat(True), repeat(0),
        )  # fmt: skip
        rows: list[Row] = list(map(_make_row, zip(*columns, strict=False)))
        return [row for row in rows if any(row[8:12])] if 0 in counts[0] else rows

    def each(self, entries: Iterable[Entry]) -> list[Row]:
        """The rows of ``entries``, one by one; what is wrong with one is a problem of its line."""
        rows = []
        for number, test, phase, entry, finished in entries:
            try:
                row = self._row(number, test, phase, entry, finished)
            except (LookupError, TypeError, ValueError):
                kind = "close" if finished else "row"
                self.lines.problem(number, f"expected a line {kind!r} with {FIELDS[kind]}, got {show(entry)}")
            else:
                if any(row[8:12]):
                    rows.append(row)
        return rows

    def _row(self, number: int, test: str, phase: str, entry: list[Any], finished: bool) -> Row:
        number_of_row, view, vector, hardware, kernel, inputs, *counts = entry
        selected, launched, observed, checked = untrusted.counts(counts, WIDTH)
        digest, machine = self.lines.views[view]
        phase = EARLIER_TRY if number < self.lines.retries.get(test, 0) and phase in COUNTED else phase
        return Row(
            self.name, digest, machine, test, phase, untrusted.bits(vector), untrusted.facts(hardware),
            text(kernel), selected, launched, observed, checked, untrusted.inputs(inputs), finished,
            self.lines.times.get(number_of_row, 0),
        )  # fmt: skip

    def final_entries(self) -> Iterable[Entry]:
        final: dict[Any, Entry] = {}
        for number, value in self.lines.closes:
            for entry in value["rows"]:
                try:
                    final[integer(entry[0])] = (number, value["test"], value["phase"], entry, True)
                except (LookupError, TypeError):
                    self.lines.problem(number, f"expected a line 'close' with {FIELDS['close']}, got {show(entry)}")
        return final.values()

    def entries_in_progress(self) -> Iterable[Entry]:
        for number, value in self.lines.open.values():
            try:
                context = integer(value["context"])
                if context in self.lines.closed:
                    continue
                test, phase = text(value["test"]), text(value["phase"])
                counts = value["counts"] if "counts" in value else self._from_array(value["slot"])
                entry = [*_about(value), *counts]
            except (LookupError, TypeError):
                self.lines.problem(number, f"expected a line 'row' with {FIELDS['row']}, got {show(value)}")
            else:
                yield number, test, phase, entry, False

    def _from_array(self, slot: Any) -> list[int]:
        """The counts in ``slot``; a row that the array does not know was selected at least once."""
        if self.array is None:
            self.array = beside(self.lines.path, self.lines.array_name, MAX_ARRAY)
        self.lost += not self.array
        start = WIDTH * (slot if integer(slot) >= 0 else refuse(slot))
        counts = list(self.array[start : start + WIDTH])
        return counts if any(counts) else [1] + [0] * (WIDTH - 1)


def _different(inputs: list[list[Value]]) -> Inputs:
    return (tuple(inputs[0]),) if len(inputs) == 1 else tuple(dict.fromkeys(map(tuple, inputs)))


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
    time = min(a.nanoseconds + b.nanoseconds, MAX_COUNT)
    return Row._make((*a[:8], *counts, _extremes(a.inputs + b.inputs), a.finished, time))


def _extremes(inputs: Inputs) -> Inputs:
    """The first, those at which an integer is smallest or largest, then the others, 64 in all."""
    kept = {inputs[0]: None}
    for place, column in enumerate(zip(*inputs, strict=False)):
        if set(map(type, column)) == {int}:
            kept[min(inputs, key=itemgetter(place))] = kept[max(inputs, key=itemgetter(place))] = None
    return tuple(dict.fromkeys([*kept, *inputs]))[: max(MAX_INPUTS, len(kept))]

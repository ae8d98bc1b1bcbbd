"""What the flight recorder of a process that did not end in order tells: the launches that never returned."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dispatchcov.errors import DataError, DispatchcovError
from dispatchcov.files import untrusted
from dispatchcov.files.untrusted import open_regular, text
from dispatchcov.flight import BEGUN, ENTRIES, RAISED, RETURNED, SIZE, Launch, launches
from dispatchcov.records import UNENDED

if TYPE_CHECKING:
    from dispatchcov.expr import Value
    from dispatchcov.files.shard_lines import ShardLines
    from dispatchcov.table import Table

SHOWN = 16
IN_FLIGHT = "in flight when process"
NONE_IN_FLIGHT = "no launch was in flight when process"
ENDS = {RETURNED: "returned", RAISED: "raised"}


def beside(shard: str, name: str, most: int) -> array[int]:
    """The 64-bit words of the file ``name`` beside ``shard``, ``most`` bytes at most; none if it is no plain file."""
    found = array("q")
    path = os.path.join(os.path.dirname(shard), name)
    if name and name == os.path.basename(name) and not os.path.islink(path):
        with contextlib.suppress(DataError), open_regular(path, "counts", most) as stream:
            data = stream.read(most)
            found.frombytes(data[: len(data) // 8 * 8])
    return found


def in_flight(lines: ShardLines) -> Iterator[str]:
    """A sentence for each launch that had begun and neither returned nor raised.

    If there is none, one for the last launch of a run that did not end: what it started may have failed later.
    """
    kept = launches(beside(lines.path, lines.flight_name, SIZE))
    begun = [launch for launch in kept if launch.state == BEGUN]
    head = lines.head
    assert head is not None
    ended = f"{head.pid} ended without a word"
    for launch in begun[:SHOWN]:
        yield from (f"{IN_FLIGHT} {ended}{told}" for told in _where(lines, launch))
    if len(begun) > SHOWN:
        more = f"{len(begun) - SHOWN} more launches" if len(begun) < ENTRIES else "more launches than were kept"
        yield f"{IN_FLIGHT} {ended}: {more}"
    if kept and not begun and UNENDED in lines.partial:
        last = f"{NONE_IN_FLIGHT} {ended}; the last one, which {ENDS[kept[-1].state]}, was"
        yield from (f"{last}{told}" for told in _where(lines, kept[-1]))


def _where(lines: ShardLines, launch: Launch) -> Iterator[str]:
    """The test of ``launch`` and what was launched; nothing if the ring does not belong to the shard."""
    with contextlib.suppress(LookupError, TypeError, ValueError, DispatchcovError):
        row = _row(lines, launch.cell)
        where = f" in {text(row['test'])} ({text(row['phase'])})" if row["test"] else ""
        yield f"{where}: {_told(lines, launch, row)}"


def _row(lines: ShardLines, cell: int) -> Mapping[str, Any]:
    """The line of row ``cell``, open or closed."""
    if cell in lines.open:
        return lines.open[cell][1]
    for _, value in lines.closes:
        for row in value["rows"]:
            if row[0] == cell:
                named = zip(("id", "view", "vector", "hardware", "kernel", "inputs"), row, strict=False)
                return {"test": value["test"], "phase": value["phase"], **dict(named)}
    raise LookupError(cell)


def _told(lines: ShardLines, launch: Launch, row: Mapping[str, Any]) -> str:
    from dispatchcov.loading.load import parse_table

    digest, _ = lines.views[row["view"]]
    table = parse_table(lines.tables[digest].text, source=lines.tables[digest].source)
    return told(launch, table, untrusted.bits(row["vector"]), untrusted.inputs(row["inputs"])[0])


def told(launch: Launch, table: Table, vector: int, like: tuple[Value, ...]) -> str:
    """``launch`` as a person reads it: rule, kernel and facts; ``vector`` and the input ``like`` it are its row's."""
    from dispatchcov.decide import select, show

    index = select(table, vector)
    selected = f"{table.rules[index].name} -> {table.rules[index].kernel.name}" if index is not None else "no rule"
    try:
        facts = show(launch.named(table))
    except ValueError:
        facts = f"like {show(dict(zip(table.names, like, strict=True)))}"
    return f"{table.op}: {selected} ({facts})"

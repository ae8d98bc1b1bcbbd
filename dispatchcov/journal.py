"""What a recorder writes: its counts in the shard's array, and lines that say what they count.

An exception may leave anything here at any point (a time-out or Ctrl-C raises from a signal), so counts are cleared,
and slots used again, only after the lines that hold the counts are in the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, TypeAlias

from dispatchcov.cells import Cell, Context
from dispatchcov.errors import DataError
from dispatchcov.expr import Value
from dispatchcov.files.shard import SLOTS, WIDTH, ShardWriter
from dispatchcov.stale import source_digests
from dispatchcov.table import Table

Values: TypeAlias = tuple[Value, ...]

Keep = Callable[[Table], Callable[[list[Values], list[Values]], list[Values]]]
"""For a table: of facts that are kept and others, which of the others are to be kept too."""
_ZEROS = memoryview(bytes(WIDTH * 8)).cast("q")


class Journal:
    """The shard of one process for one recorder; ``data_file`` None keeps counts in memory only."""

    def __init__(self, data_file: str | None, run: str, keep: Keep | None = None) -> None:
        self.data_file = data_file
        self.run = run
        self.keep = keep
        self.shard: ShardWriter | None = None
        self.counts: MutableSequence[int] = [0] * (SLOTS * WIDTH)
        self.free = list(range(SLOTS - 1, -1, -1))
        self._retired: list[int] = []
        self._unsent: list[dict[str, Any]] = []
        self._not_opened = ""
        self._tables: set[str] = set()
        self._views: dict[tuple[str, str], int] = {}
        self._rows = 0

    @property
    def lost(self) -> str:
        """Why records could not be written, "" if all were."""
        error = self.shard.error if self.shard is not None else None
        return f"records could not be written: {error}" if error else self._not_opened

    @property
    def mapped(self) -> bool:
        """Do counts survive the death of this process without being written?"""
        return self.shard is not None and self.shard.mapped

    # --- the file ---------------------------------------------------------------------------------------------------

    def open(self) -> ShardWriter:
        """The shard, which takes over the counts so far; raises :class:`DataError` if it cannot be made."""
        if self.shard is not None:
            return self.shard
        assert self.data_file is not None
        shard = ShardWriter(self.data_file, self.run)
        while len(shard.counts) < len(self.counts):
            shard.grow()
        for place, count in enumerate(self.counts):
            if count:
                shard.counts[place] = count
        self.counts = shard.counts
        self.shard = shard
        return shard

    def append(self, lines: list[dict[str, Any]]) -> None:
        """Write ``lines``; a shard that cannot be opened now, in a child say, is tried again with the next lines."""
        if self.data_file is None:
            return
        self._unsent += lines
        try:
            shard = self.open()
        except DataError as error:
            self._not_opened = f"records could not be written: {error}"
            return
        shard.write(self._unsent)
        self._unsent = []
        self._not_opened = ""

    def end(self) -> None:
        """Write what is left and end the shard in order."""
        if self._unsent:
            self.append([])
        if self.shard is not None:
            self.shard.close()

    # --- slots ------------------------------------------------------------------------------------------------------

    def place(self, cell: Cell) -> None:
        """Give ``cell`` a slot, in a longer array if a context has more cells than there are slots."""
        if not self.free:
            self._settle()
        if not self.free:
            start = len(self.counts) // WIDTH
            if self.shard is None:
                self.counts = [*self.counts, *[0] * len(self.counts)]
            else:
                self.shard.grow()
                self.counts = self.shard.counts
                for other in cell.context.cells if not self.shard.mapped else ():
                    other.due, other.plain = other.due or 1, False
            self.free = list(range(2 * start - 1, start - 1, -1))
        cell.slot = self.free.pop() * WIDTH

    def close_context(self, context: Context) -> None:
        """Write the final counts of ``context``, whose slots are then no longer its own."""
        cells = [cell for cell in context.cells if cell.slot >= 0]
        for cell in cells:
            cell.plain = False  # a launch that ends from now on waits for the recorder
        if cells:
            self.append(self._close_lines(context, cells))
        context.closed = True
        for cell in cells:
            cell.final = tuple(self.counts[cell.slot : cell.slot + WIDTH])
            slot, cell.slot = cell.slot, -1
            self._retired.append(slot)
        self._settle()

    def _settle(self) -> None:
        """Let the slots of closed contexts be used again, once all lines are in the file."""
        if self._unsent or (self.shard is not None and self.shard.pending):
            return
        while self._retired:
            slot = self._retired.pop()
            self.counts[slot : slot + WIDTH] = _ZEROS
            self.free.append(slot // WIDTH)

    # --- lines ------------------------------------------------------------------------------------------------------

    def write_in_progress(self, cell: Cell) -> None:
        """Say that ``cell`` exists: enough where the array is mapped, elsewhere its count is said again eightfold."""
        if self.data_file is None:
            cell.due = 0
            return
        with contextlib.suppress(DataError):
            self.open()
        cell.due = 0 if self.mapped else 8 * cell.due
        self.append(self._row_lines(cell))

    def _row_lines(self, cell: Cell) -> list[dict[str, Any]]:
        """The row of ``cell``, after what it refers to, if that is new."""
        lines: list[dict[str, Any]] = []
        names = ("id", "view", "vector", "hardware", "kernel", "inputs")
        row = dict(zip(names, self._about(cell, lines), strict=True))
        counts = list(self.counts[cell.slot : cell.slot + WIDTH])
        state = {"slot": cell.slot // WIDTH} if self.mapped else {"counts": counts}
        context = {"context": cell.context.id, "test": cell.context.test, "phase": cell.context.phase}
        return [*lines, {"k": "row", **context, **row, **state}]

    def _close_lines(self, context: Context, cells: list[Cell]) -> list[dict[str, Any]]:
        """All that was counted in ``context``, after what it refers to, if that is new."""
        if self.data_file is None:
            return []
        lines: list[dict[str, Any]] = []
        rows = []
        for cell in cells:
            about = self._about(cell, lines, self._more(cell))
            rows.append([*about, *self.counts[cell.slot : cell.slot + WIDTH]])
        close = {"k": "close", "context": context.id, "test": context.test, "phase": context.phase, "rows": rows}
        return [*lines, close]

    def _more(self, cell: Cell) -> list[Values]:
        """Facts of ``cell`` to keep besides the first and the extreme ones."""
        if self.keep is None:
            return []
        kept = list(dict.fromkeys([cell.first, *cell.extremes]))
        others = [values for values in cell.seen if values not in kept]
        return self.keep(cell.view.table)(kept, others) if others else []

    def _about(self, cell: Cell, lines: list[dict[str, Any]], more: Sequence[Values] = ()) -> list[Any]:
        """What ``cell`` counts; a table and a view not written before are appended to ``lines``."""
        table, machine = cell.view.table, cell.view.machine
        if table.digest not in self._tables:
            self._tables.add(table.digest)
            about = {"digest": table.digest, "op": table.op, "source": table.source, "text": table.text}
            lines.append({"k": "table", **about})
            for kernel, checksum in source_digests(table).items():
                lines.append({"k": "source", "digest": table.digest, "kernel": kernel, "sha256": checksum})
        view = self._views.get((table.digest, machine))
        if view is None:
            view = self._views[table.digest, machine] = len(self._views) + 1
            lines.append({"k": "view", "id": view, "digest": table.digest, "machine": machine})
        if cell.id < 0:
            self._rows += 1
            cell.id = self._rows
        inputs = list(dict.fromkeys([cell.first, *cell.extremes, *more]))
        return [cell.id, view, f"{cell.vector:x}", list(cell.hardware), cell.kernel, inputs]

"""The flight recorder: the last launches of a process, in mapped memory, for whoever asks after a crash.

A ring of 64 entries, each of 32 native 64-bit words: the number of the launch (from 1, 0 for an entry never used), the
id of its cell's row in the shard, its state, the number of facts that follow, and the facts in the order of the
table's variables: an integer as it is, a boolean as 0 or 1, a string as its place among the declared values, -1 for
none of them. Facts beyond the 28th, or all facts if one does not fit 64 bits, are left out. The file stands beside the
shard, ``….flight``, and is removed once that has ended in order.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import mmap
import os
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dispatchcov.expr import Value
    from dispatchcov.table import Table

ENTRIES = 64
WORDS = 32
ENTRY = WORDS * 8
LAST = ENTRIES - 1
SIZE = ENTRIES * ENTRY
FACTS = WORDS - 4
FLIGHT = ".flight"
STATES = BEGUN, RETURNED, RAISED = range(1, 4)
_NO_FALLOCATE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_NO_FACTS = struct.Struct("@4q")

Pack = Callable[[mmap.mmap, int, int, int, "tuple[Value, ...] | None"], None]
"""Writes an entry: buffer, place, number, cell, facts (the ``pack`` of a view)."""


def entry(count: int) -> struct.Struct:
    """The layout of an entry with ``count`` facts."""
    return struct.Struct(f"@{4 + count}q")


def reserve(fd: int, start: int, size: int) -> None:
    """Set ``size`` bytes aside: without that a full disk would be SIGBUS at the first store, not an error here."""
    try:
        os.posix_fallocate(fd, start, size)
    except (OSError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_FALLOCATE:
            raise
        while size:
            written = os.pwrite(fd, bytes(min(size, 1 << 16)), start)
            start, size = start + written, size - written


class Flight:
    """Writes the ring into the new file ``path``; raises :class:`OSError` if there is no room for it."""

    def __init__(self, path: str) -> None:
        self.path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            reserve(fd, 0, SIZE)
            self._map = mmap.mmap(fd, SIZE)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
        self._words = memoryview(self._map).cast("q")
        self._numbers = itertools.count(1)

    def begin(self, pack: Pack, cell: int, facts: tuple[Value, ...] | None) -> int:
        """A launch of row ``cell`` begins; ``pack`` is its view's. Returns its number, for :meth:`end`."""
        number = next(self._numbers)
        try:
            pack(self._map, (number & LAST) * ENTRY, number, cell, facts)
        except (struct.error, TypeError, ValueError):
            with contextlib.suppress(TypeError, ValueError):  # another thread closed it
                _NO_FACTS.pack_into(self._map, (number & LAST) * ENTRY, number, cell, BEGUN, 0)
        return number

    def end(self, number: int, state: int) -> None:
        """The launch ``number`` returned or raised."""
        place = (number & LAST) * WORDS
        try:
            if self._words[place] == number:
                self._words[place + 2] = state
        except ValueError:  # another thread closed it
            pass

    def last(self) -> list[Launch]:
        """The launches that the ring holds, oldest first."""
        return launches(array("q", self._words))

    def close(self) -> None:
        """Let go of the file."""
        self._words.release()
        self._map.close()


@dataclass(frozen=True, slots=True)
class Launch:
    """An entry of the ring: ``cell`` is the id of a row, ``facts`` are as the ring holds them."""

    number: int
    cell: int
    state: int
    facts: tuple[int, ...]

    def named(self, table: Table) -> dict[str, Value]:
        """The facts by name; raises :class:`ValueError` if they are none of ``table``."""
        if len(self.facts) != min(len(table.variables), FACTS):
            raise ValueError("facts were left out")
        named: dict[str, Value] = {}
        for variable, code in zip(table.variables, self.facts, strict=False):
            if variable.type == "int":
                named[variable.name] = code
            elif variable.type == "bool":
                named[variable.name] = bool(code)
            elif 0 <= code < len(variable.values):
                named[variable.name] = variable.values[code]
            else:
                named[variable.name] = "?"
        return named


def launches(words: array[int]) -> list[Launch]:
    """The launches in ``words``, oldest first; what is no entry is left out."""
    found = []
    for place in range(0, min(len(words), ENTRIES * WORDS) - WORDS + 1, WORDS):
        number, cell, state, count, *facts = words[place : place + WORDS]
        if number > 0 and cell >= 0 and state in STATES and 0 <= count <= FACTS:
            found.append(Launch(number, cell, state, tuple(facts[:count])))
    return sorted(found, key=lambda launch: launch.number)

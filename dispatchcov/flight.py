"""The flight recorder: the last launches of a process, in mapped memory, for whoever asks after a crash.

A ring of 64 entries, each of 32 native 64-bit words: the number of the launch, which grows from launch to launch (0
for an entry never used), the id of its cell's row in the shard, its state, the number of facts that follow, and the
facts in the order of the table's variables: an integer as it is, a boolean as 0 or 1, a string as its place among the
declared values, -1 for none of them. Facts beyond the 28th, or all facts if one does not fit 64 bits, are left out. The
file stands beside the shard, ``….flight``, and is removed once that has ended in order.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import mmap
import os
import struct
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dispatchcov.expr import Value
    from dispatchcov.table import Table

ENTRIES = 64
WORDS = 32
ENTRY = WORDS * 8
SIZE = ENTRIES * ENTRY
LAST = SIZE - 1
STATE = 2 * 8 + (7 if sys.byteorder == "big" else 0)  # the byte of an entry that tells its state
FACTS = WORDS - 4
FLIGHT = ".flight"
STATES = BEGUN, RETURNED, RAISED = range(1, 4)
_NO_FALLOCATE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_NO_FACTS = struct.Struct("@4q")


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


class Flying(Protocol):
    """A launch that has begun: ``flight`` is where its entry is, if it has one."""

    flight: Flight | None


class Flight:
    """Writes the ring into the new file ``path``; raises :class:`OSError` if there is no room for it.

    ``map`` is the file, ``number`` that of the last launch; where threads run at one time, numbers come from ``next``.
    Numbers count bytes, ``ENTRY`` for each entry: ``number & LAST`` is the place of the byte with its state. No other
    takes the entry of a launch in flight: :meth:`free` finds one.
    """

    __slots__ = ("map", "next", "number", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            reserve(fd, 0, SIZE)
            self.map = mmap.mmap(fd, SIZE)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
        self.number = STATE
        self.next = itertools.count(STATE + ENTRY, ENTRY).__next__

    def free(self, launch: Flying, following: Callable[[], int] | None = None) -> int:
        """The number of the next entry that is not in flight, for ``launch``; if all are, it gets none, and 0.

        ``following`` gives numbers where threads run at one time.
        """
        for _ in range(ENTRIES):
            self.number = number = following() if following else self.number + ENTRY
            if self.map[number & LAST] != BEGUN:
                return number
        launch.flight = None
        return 0

    def without_facts(self, number: int, cell: int) -> None:
        """Write the entry of a launch whose facts do not fit."""
        if not number:
            return
        with contextlib.suppress(TypeError, ValueError):  # another thread closed it
            _NO_FACTS.pack_into(self.map, (number & LAST) - STATE, number, cell, BEGUN, 0)

    def last(self) -> list[Launch]:
        """The launches that the ring holds, oldest first."""
        return launches(array("q", self.map[:]))

    def close(self) -> None:
        """Let go of the file."""
        self.map.close()


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

"""The file that one process appends to: JSON lines for what is settled, a mapped array for counts in progress.

Lines of ``.dispatchcov.<host>.<pid>.<random>.jsonl``, each an object with ``k``, its kind:

===========  ====================================================================================================
``shard``    first line: ``format`` (1), ``name`` (this file's, kept by copies), ``run``, ``host``, ``pid``,
             ``started`` (ISO 8601, UTC), ``counts`` (name of the array's file, "" if there is none), ``flight``
             (that of the flight recorder's, :mod:`dispatchcov.flight`)
``table``    ``digest``, ``op``, ``source``, ``text``: before its first view
``source``   ``digest``, ``kernel``, ``sha256`` of the kernel's sources
``view``     ``id``, ``digest``, ``machine``: a table as decided on a machine, before its first row
``row``      a row in progress: ``context``, ``test`` (node id, "" outside tests), ``phase`` (collect, setup, call,
             teardown, session, warm-up or run), ``id``, ``view``, ``vector`` (hex), ``hardware``, ``kernel``,
             ``inputs``, and either ``slot`` (the counts are in the array) or ``counts`` (at least that many)
``close``    the final rows of a context that has any: ``context``, ``test``, ``phase``, ``rows``: for each a list of
             id, view, vector, hardware, kernel, inputs, selected, launched, observed, checked
``outcome``  ``test``, ``outcome``
``partial``  ``reason``: absence proves nothing in this run; "the run did not end" is taken back by ``end``
``time``     ``id`` of a row, ``nanoseconds``: what its kernels took in all, as far as a profiler saw
``retry``    ``test``: it begins again, and what it decided before this line counts as an ``earlier try``
``note``     ``text``: something to know about this run
``end``      the process ended in order
===========  ====================================================================================================

Of two rows or times with one id, and of two outcomes of one test, the later one holds, and final rows over those in
progress, which are skipped unread if their lines begin as :class:`ShardWriter` writes them. The array, ``….counts``,
is native 64-bit integers, four a slot. It lives in the page cache: SIGKILL, ``os._exit`` and a crash lose nothing. A
slot is used again only after the ``close`` line that frees it was written, so the rows of a context without that line
own their slots. The array is removed once the shard has ended in order.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import json
import mmap
import operator
import os
import secrets
import socket
from collections.abc import MutableSequence
from typing import Any

from dispatchcov.errors import DataError
from dispatchcov.flight import FLIGHT, Flight, reserve

FORMAT = 1
SLOTS = 4096
WIDTH = 4
SUFFIX = ".jsonl"
COUNTS = ".counts"
COMPANIONS = (COUNTS, FLIGHT)


def shard_name(data_file: str) -> str:
    """A new shard's path beside ``data_file``: ``<data_file>.<host>.<pid>.<random>.jsonl``."""
    host = "".join(char if char.isascii() and char.isalnum() else "-" for char in socket.gethostname())[:40] or "host"
    return f"{data_file}.{host}.{os.getpid()}.{secrets.token_hex(6)}{SUFFIX}"


class ShardWriter:
    """Appends to one shard. A failed write keeps its lines and tries again with the next; :attr:`error` says why."""

    def __init__(self, data_file: str, run: str) -> None:
        self.path = shard_name(data_file)
        self.error: OSError | None = None
        self._queue: collections.deque[bytes] = collections.deque()
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            self._fd = os.open(self.path, flags, 0o644)
        except OSError as error:
            where = os.path.dirname(os.path.abspath(data_file))
            raise DataError(f"expected to write records into {where}: {error.strerror or error}") from None
        self._map: mmap.mmap | None = None
        self._counts_fd = -1
        self.counts: MutableSequence[int] = [0] * (SLOTS * WIDTH)
        self.flight: Flight | None = None
        self._create_array()
        with contextlib.suppress(OSError, ValueError):
            self.flight = Flight(self.path + FLIGHT)
        head = {
            "k": "shard",
            "format": FORMAT,
            "name": os.path.basename(self.path),
            "run": run,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "counts": os.path.basename(self.path) + COUNTS if self.mapped else "",
            "flight": os.path.basename(self.flight.path) if self.flight else "",
        }
        self.write([head])

    @property
    def mapped(self) -> bool:
        """Do counts survive the death of this process without being written?"""
        return self._map is not None

    @property
    def pending(self) -> bool:
        """Are there lines that are not in the file yet?"""
        return bool(self._queue)

    def _create_array(self) -> None:
        """Map the array; where the file system cannot reserve it, counts in progress are at-least counts in a list."""
        path = self.path + COUNTS
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
            self._counts_fd = os.open(path, flags, 0o644)
            self._remap(SLOTS * WIDTH * 8)
        except (OSError, ValueError):
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _remap(self, size: int) -> None:
        """Map ``size`` bytes of the array's file, which may have grown; slots keep their places and counts."""
        old = os.fstat(self._counts_fd).st_size
        reserve(self._counts_fd, old, size - old)
        grown = mmap.mmap(self._counts_fd, size)
        self._unmap()
        self._map = grown
        self.counts = memoryview(grown).cast("q")  # type: ignore[assignment]  # a memoryview of "q" is a sequence of int

    def grow(self) -> None:
        """Twice as many slots; where they cannot be reserved, :attr:`counts` is a list from now on, not mapped."""
        if self._map is not None:
            with contextlib.suppress(OSError, ValueError):
                self._remap(len(self._map) * 2)
                return
        counts = list(self.counts)
        self._unmap()
        self.counts = [*counts, *[0] * len(counts)]

    def _unmap(self) -> None:
        if isinstance(self.counts, memoryview):
            self.counts.release()
        if self._map is not None:
            self._map.close()
            self._map = None

    def write(self, lines: list[dict[str, Any]]) -> None:
        """Append ``lines`` in one write; never raises for a full or failing disk."""
        encoded = [json.dumps(line, separators=(",", ":"), default=plain).encode() + b"\n" for line in lines]
        if encoded:
            self._queue.append(b"".join(encoded))
        try:
            while self._queue:
                written = os.write(self._fd, self._queue[0])
                if written == len(self._queue[0]):
                    self._queue.popleft()
                else:
                    self._queue[0] = self._queue[0][written:]
            self.error = None
        except OSError as error:
            self.error = error

    def close(self) -> None:
        """End in order: the last line is written and the array, no longer needed, is removed."""
        self.write([{"k": "end"}])
        self.release()
        if not self.pending:
            for companion in COMPANIONS:
                with contextlib.suppress(OSError):
                    os.unlink(self.path + companion)

    def release(self) -> None:
        """Let go of the files without saying that the process ended."""
        self._unmap()
        self.counts = [0] * (SLOTS * WIDTH)
        if self.flight is not None:
            self.flight.close()
            self.flight = None
        for fd in (self._fd, self._counts_fd):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self._fd = self._counts_fd = -1


def plain(value: Any) -> Any:
    """NumPy scalars and the like, as the integers or booleans that they stand for (for ``json.dumps``)."""
    if type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    return operator.index(value)

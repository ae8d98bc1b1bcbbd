"""Kernels to launches: which kernels ran because of which decision.

A launch is a range on the host, named by :data:`PREFIX` and its number. A kernel started in it by the CUDA
driver interface carries the
range's correlation id as its link. One that a PyTorch operator started carries the operator's id: the operator
lies inside the
range, on the same thread, so the range is found by time. What belongs to no range is given back, never dropped.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

PREFIX = "dispatchcov#"
DRIVER = re.compile(r"cu(da)?[A-Z]")


class Event(NamedTuple):
    """What the profiler says of one event: times in nanoseconds, ``on_device`` for what ran on the GPU."""

    name: str
    on_device: bool
    id: int
    link: int
    start: int
    duration: int
    thread: int


@dataclass
class Joined:
    """``kernels`` by launch number, in the order they ran, and those that ran outside all launches."""

    kernels: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    outside: list[Event] = field(default_factory=list)


def is_kernel(event: Event) -> bool:
    """Did it compute on the GPU? Copies, fills by the driver and annotations did not."""
    return event.on_device and not event.name.startswith(("Memcpy", "Memset", PREFIX)) and event.duration > 0


def is_starter(event: Event) -> bool:
    """Can a kernel link to it? Operators and ranges; calls into the driver are numbered in a series of their own."""
    return not event.on_device and event.id != 0 and event.link == 0 and not DRIVER.match(event.name)


def join(events: Iterable[Event]) -> Joined:
    """Attribute each kernel among ``events`` to its launch."""
    known = list(events)
    hosts = {event.id: event for event in known if is_starter(event)}
    ranges = _Ranges(event for event in known if not event.on_device and event.name.startswith(PREFIX))
    joined = Joined()
    for event in sorted(filter(is_kernel, known), key=lambda event: event.start):
        starter = hosts.get(event.link)
        number = ranges.around(starter) if starter is not None else None
        if number is None:
            joined.outside.append(event)
        else:
            joined.kernels[number].append(event)
    return joined


def join_operators(events: Iterable[Event]) -> Joined:
    """Attribute each operator of PyTorch among ``events``, on the host, to the launch that it ran in."""
    known = [event for event in events if not event.on_device]
    ranges = _Ranges(event for event in known if event.name.startswith(PREFIX))
    joined = Joined()
    for event in sorted((event for event in known if "::" in event.name), key=lambda event: event.start):
        number = ranges.around(event)
        if number is None:
            joined.outside.append(event)
        else:
            joined.kernels[number].append(event)
    return joined


class _Ranges:
    """The launches of each thread. They may nest; the innermost one holds."""

    def __init__(self, ranges: Iterable[Event]) -> None:
        self.by_thread: dict[int, list[Event]] = defaultdict(list)
        for event in sorted(ranges, key=lambda event: event.start):
            self.by_thread[event.thread].append(event)
        self.starts = {thread: [event.start for event in found] for thread, found in self.by_thread.items()}

    def around(self, event: Event) -> int | None:
        """The number of the innermost launch that ``event``, on the host, is or lies in."""
        found = self.by_thread.get(event.thread, [])
        for candidate in reversed(found[: bisect_right(self.starts.get(event.thread, []), event.start)]):
            if event.start <= candidate.start + candidate.duration:
                return int(candidate.name.removeprefix(PREFIX))
        return None

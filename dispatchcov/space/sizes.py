"""How many inputs a region has: a number, or the variables in which it has no end."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dispatchcov.regions import Space
from dispatchcov.space.answers import Region
from dispatchcov.space.boxes import Axis, Boxes
from dispatchcov.space.domain import runs
from dispatchcov.space.variants import once
from dispatchcov.table import Table

DIGITS = 6


@dataclass(frozen=True, slots=True)
class Size:
    """``count`` inputs, None without end in the variables ``unbounded``; ``exact`` is false for an upper bound, which
    it is where a predicate over several variables has a say.
    """

    count: int | None
    unbounded: tuple[str, ...] = ()
    exact: bool = True

    @property
    def label(self) -> str:
        """The size class: ``unbounded in M, N``, ``480 inputs``, ``about 10^12 inputs``."""
        if self.count is None:
            return f"unbounded in {', '.join(self.unbounded)}"
        many = len(str(self.count)) > DIGITS
        number = f"about 10^{len(str(self.count)) - 1}" if many else str(self.count)
        return f"{'' if self.exact else 'at most '}{number} input{'' if self.count == 1 else 's'}"


def size(region: Region) -> Size | None:
    """The size of a listed region; None where the table has too many regions to list them with their inputs."""
    boxes = Space.of(region.table).boxes_of(region)
    return once(region.table, _Sizes).of(boxes) if boxes else None


class _Sizes:
    def __init__(self, table: Table) -> None:
        self.boxes = once(table, Boxes)
        self._counts: dict[str, list[int | None]] = {}

    def of(self, boxes: tuple[int, ...]) -> Size:
        counted = [[self.on(axis, box) for axis in self.boxes.axes] for box in boxes]
        endless = [
            axis.variable.name for i, axis in enumerate(self.boxes.axes) if any(counts[i] is None for counts in counted)
        ]
        exact = not any(opaque.mask & ~box for box in boxes for opaque in self.boxes.opaque)
        if endless:
            return Size(None, tuple(endless), exact)
        return Size(sum(math.prod(count or 0 for count in counts) for counts in counted), (), exact)

    def on(self, axis: Axis, box: int) -> int | None:
        """How many values ``box`` allows on ``axis``; None without end."""
        counts = [self.counts(axis)[place] for place in axis.chosen(box)]
        return None if None in counts else sum(count or 0 for count in counts)

    def counts(self, axis: Axis) -> list[int | None]:
        """The number of values of each class."""
        name = axis.variable.name
        if name not in self._counts:
            if axis.variable.values:
                self._counts[name] = [len(item.members) for item in axis.classes]
            else:
                ways = runs(axis.variable, self.boxes.own(axis.variable))
                lengths = [[run.length for run in ways[item.true, item.undefined]] for item in axis.classes]
                self._counts[name] = [None if None in each else sum(n or 0 for n in each) for each in lengths]
        return self._counts[name]

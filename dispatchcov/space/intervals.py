"""Predicates over several variables by intervals: products, sums and ratios of open ranges, without a solver.

What is left of a box are sets of inputs, an interval of each integer. The set whose input nearest to zero is smallest
is taken first: if that input has the outcomes wanted, nothing left is smaller. If not, the set is cut in two, and of
each half is dropped what :mod:`.abstract` says has them nowhere. It gives up after :data:`STEPS` sets,
or earlier where it has looked at :data:`BUDGET` of them in vain for the same table.
"""

from __future__ import annotations

import builtins
import contextlib
import heapq
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from dispatchcov import expr as ex
from dispatchcov.expr import MAX_FACT, Value
from dispatchcov.space import abstract
from dispatchcov.space.abstract import Bound, Domains
from dispatchcov.space.boxes import Axis, Boxes, state
from dispatchcov.space.domain import Run, bits, rank, runs, size
from dispatchcov.space.found import Found
from dispatchcov.space.line import Line
from dispatchcov.space.variants import Effort
from dispatchcov.table import Predicate, Variable

STEPS = 10_000
BUDGET = 12_000
FEW = 500  # where nothing is multiplied, as sums and ratios that are not found soon never are, and past the budget
MAX_RUNS = 200
Part: TypeAlias = tuple[Any, ...]
"""Least and greatest value of an integer, or the values of what is none, smallest first; empty if nothing is left."""
Parts: TypeAlias = dict[str, Part]
Demand: TypeAlias = tuple[Predicate, int, Callable[[Domains], int]]
"""A predicate, the outcomes wanted of it and the outcomes that it can have, as bits of :mod:`.abstract`."""
_TYPES = {"int": "int", "enum": "str", "bool": "bool"}
_MASKS = {(False,): abstract.FALSE, (True,): abstract.TRUE}


class Intervals:
    """Searches the boxes of ``boxes``."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        self.types = {variable.name: _TYPES[variable.type] for variable in boxes.table.variables}
        self.effort = Effort.of(boxes.table)
        self._outcomes: dict[int, Callable[[Domains], int]] = {}

    def smallest(self, box: int, demanded: list[Predicate], *, any: bool = False) -> Found | None:
        """The smallest input of ``box`` with the outcomes that it demands of ``demanded``, or the proof that it has
        none; None if neither was found. ``any`` takes the first input that is met.
        """
        read = {name for predicate in demanded for name in predicate.reads}
        axes = [axis for axis in self.boxes.axes if axis.variable.name in read]
        lines = {axis.variable.name: self._line(axis, box) for axis in axes if axis.variable.type == "int"}
        if sum(len(line.runs) for line in lines.values()) > MAX_RUNS:
            return None
        start = {axis.variable.name: self._part(axis, box, lines) for axis in axes}
        demands = [self._demand(box, predicate) for predicate in demanded]
        question = any, tuple((ex.to_text(p.expr), wanted) for p, wanted, _ in demands), tuple(start.items())
        key = *question, tuple(tuple(line.runs) for line in lines.values())
        if key not in self.effort.told:
            self.effort.told[key] = self._search(axes, lines, demands, start, any=any)
        values = self.effort.told[key]
        if not values:
            return None if values is None else Found(None)
        facts = self.boxes.point(box).facts | values
        return Found(facts, size(self.boxes.table.variables, facts))

    def _search(
        self, axes: list[Axis], lines: dict[str, Line], demands: list[Demand], start: Parts, *, any: bool
    ) -> dict[str, Value] | None:
        descent = _Descent([axis.variable for axis in axes], lines, demands)
        large = self.effort.steps < BUDGET and builtins.any(ex.multiplies(p.expr) for p, _, _ in demands)
        values = None
        with contextlib.suppress(OverflowError):  # a number that is too large to be compared with one without end
            values = descent.run(start, STEPS if large else FEW, any=any)
        if values is None:
            self.effort.steps += descent.steps
        return values

    def _line(self, axis: Axis, box: int) -> Line:
        chosen = [axis.classes[place] for place in axis.chosen(box)]
        if axis.variable.values:
            return Line(Run(int(value), 1, 1) for item in chosen for value in item.members)
        ways = runs(axis.variable, self.boxes.own(axis.variable))
        return Line(run for item in chosen for run in ways[item.true, item.undefined])

    def _part(self, axis: Axis, box: int, lines: dict[str, Line]) -> Part:
        line = lines.get(axis.variable.name)
        if line is not None:
            return line.up(-math.inf), line.down(math.inf)
        members = [value for place in axis.chosen(box) for value in axis.classes[place].members]
        return tuple(sorted(members, key=lambda value: rank(axis.variable, value)))

    def _demand(self, box: int, predicate: Predicate) -> Demand:
        index = predicate.index
        if index not in self._outcomes:
            self._outcomes[index] = abstract.truth(predicate.expr, self.types)
        return predicate, self.boxes.allowed(box, index), self._outcomes[index]


class _Descent:
    def __init__(self, variables: list[Variable], lines: dict[str, Line], demands: list[Demand]) -> None:
        self.variables = variables
        self.lines = lines
        self.demands = demands
        self.steps = 0
        self.most: Bound = math.inf  # sum of magnitudes of an input that is known

    def run(self, start: Parts, steps: int, *, any: bool) -> dict[str, Value] | None:
        """The smallest values wanted in ``start``, an empty dictionary if there are none, None if that is not known."""
        number = itertools.count()
        self.most = self._known(start)
        queue = [(self._key(part), next(number), part) for part in self._trimmed(start)]
        for self.steps in range(steps):
            if not queue:
                return {}
            _, _, parts = heapq.heappop(queue)
            for facts in self._tried(parts, far=any):
                if self._fits(facts):
                    return facts
            for half in self._halves(parts):
                for part in self._trimmed(half):
                    heapq.heappush(queue, (self._key(part), next(number), part))
        return None

    def _key(self, parts: Parts) -> Any:
        return size(self.variables, self._near(parts))

    def _tried(self, parts: Parts, *, far: bool) -> Iterator[dict[str, Value]]:
        yield self._near(parts)
        ends = {name: parts[name] for name in self.lines}
        if far and math.inf not in map(abs, itertools.chain(*ends.values())):
            yield self._near(parts) | {name: max(part, key=abs) for name, part in ends.items()}

    def _near(self, parts: Parts) -> dict[str, Value]:
        return {name: self._nearest(name, part) for name, part in parts.items()}

    def _nearest(self, name: str, part: Part) -> Value:
        """The smallest value of ``part``."""
        if name not in self.lines:
            return part[0]  # type: ignore[no-any-return]
        low, high = part
        if low >= 0 or high <= 0:
            return int(low if low >= 0 else high)
        line = self.lines[name]
        return int(min((v for v in (line.up(0), line.down(0)) if low <= v <= high), key=lambda v: (abs(v), v < 0)))

    def _fits(self, facts: dict[str, Value]) -> bool:
        for predicate, wanted, _ in self.demands:
            if not wanted >> state(*bits([predicate], facts), predicate.index) & 1:
                return False
        return True

    def _possible(self, parts: Parts) -> bool:
        domains = {
            name: (*part, False)
            if name in self.lines
            else _MASKS.get(part, abstract.FALSE | abstract.TRUE)
            if type(part[0]) is bool
            else part
            for name, part in parts.items()
        }
        return all(wanted & outcomes(domains) for _, wanted, outcomes in self.demands)

    def _known(self, start: Parts) -> Bound:
        """The sum of magnitudes of some input that is wanted: one of equal numbers, each lowered as far as it goes."""
        levels = (2**k for k in range(64))
        level = next((level for level in levels if self._fits(self._level(start, level))), None)
        if level is None:
            return math.inf
        facts = self._level(start, _least(level // 2, level, lambda n: self._fits(self._level(start, n))))
        for name in self.lines:
            facts = self._lowered(facts, name)
        return sum(abs(int(facts[name])) for name in self.lines)

    def _lowered(self, facts: dict[str, Value], name: str) -> dict[str, Value]:
        """``facts`` with the least ``name``, not below zero, that is wanted, if what is larger is wanted, too."""
        up = self.lines[name].up
        least = _least(-1, int(facts[name]), lambda n: self._fits({**facts, name: int(up(n))}))
        return {**facts, name: int(up(least)) if least >= 0 else least}

    def _level(self, parts: Parts, level: int) -> dict[str, Value]:
        """The values of ``parts`` nearest to ``level``, from below or above."""
        facts = self._near(parts)
        for name, line in self.lines.items():
            low, high = parts[name]
            at = line.up(max(low, level))
            facts[name] = int(at if at <= high else high)
        return facts

    # --- cut and trim -------------------------------------------------------------------------------------------------

    def _halves(self, parts: Parts) -> Iterator[Parts]:
        """``parts`` cut at its widest part, without cut-off input if it holds only one."""
        widths = {name: part[1] - part[0] if name in self.lines else len(part) - 1 for name, part in parts.items()}
        name = max(widths, key=widths.__getitem__)
        part = parts[name]
        if not widths[name]:
            return
        if name not in self.lines:
            middle = len(part) // 2
            yield from ({**parts, name: part[:middle]}, {**parts, name: part[middle:]})
            return
        line, at = self.lines[name], _middle(*part)
        for low, high in ((part[0], line.down(at)), (line.up(at + 1), part[1])):
            if low <= high:
                yield {**parts, name: (low, high)}

    def _trimmed(self, parts: Parts) -> Iterator[Parts]:
        """``parts`` without what lies nearest to zero and is not possible, or nothing."""
        if not all(part and (name not in self.lines or part[0] <= part[1]) for name, part in parts.items()):
            return
        near = {name: abs(int(self._nearest(name, parts[name]))) for name in self.lines}
        spare = self.most - sum(near.values())
        if spare < 0:
            return
        for name, line in self.lines.items():
            low, high = parts[name]
            if spare < math.inf:
                low, high = max(low, line.up(-near[name] - spare)), min(high, line.down(near[name] + spare))
                parts = {**parts, name: (low, high)}
        for name, line in self.lines.items():
            if not self._possible(parts):
                return
            low, high = parts[name]
            if low < high and low >= 0:
                parts = {**parts, name: (line.up(self._first(parts, name, low, high)), high)}
            elif low < high and high <= 0:
                parts = {**parts, name: (low, line.down(-self._first(parts, name, -high, -low)))}
        yield parts

    def _first(self, parts: Parts, name: str, low: Bound, high: Bound) -> int:
        """Below the result, in magnitude, nothing of ``name`` is possible; ``low`` and ``high`` are magnitudes."""
        sign = 1 if parts[name][0] >= 0 else -1
        good, step = int(low), 1

        def possible(end: Bound) -> bool:
            ends = (sign * good, sign * end)
            return self._possible({**parts, name: (min(ends), max(ends))})

        while good + step - 1 < min(high, MAX_FACT) and not possible(good + step - 1):
            good, step = good + step, step * 2
        while step > 1:
            step //= 2
            if good + step - 1 < high and not possible(good + step - 1):
                good += step
        return good


def _least(bad: int, good: int, holds: Callable[[int], bool]) -> int:
    """The least number above ``bad`` up to ``good`` for which ``holds``, if that goes by size."""
    while good - bad > 1:
        middle = (good + bad) // 2
        bad, good = (bad, middle) if holds(middle) else (middle, good)
    return good


def _middle(low: Bound, high: Bound) -> int:
    """Where an interval is cut: at zero, in the middle, or, without end, at twice the magnitude."""
    if low < 0 <= high:
        return -1
    if high == math.inf:
        return 2 * int(low) + 15
    if low == -math.inf:
        return 2 * int(high) - 16
    return (int(low) + int(high)) // 2

"""The values of an ``int`` variable that a box allows, as a line on which the next one up or down can be asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dispatchcov.space.abstract import Bound
from dispatchcov.space.domain import Run


class Line:
    """The values of ``runs``; where there is no end, they go on to ``inf`` or ``-inf``."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs: list[tuple[Bound, Bound, int, int]] = []
        for run in runs:
            end = run.step * math.inf if run.length is None else run.first + run.step * (run.length - 1)
            self.runs.append((min(run.first, end), max(run.first, end), run.first, abs(run.step)))

    def up(self, value: Bound) -> Bound:
        """The least value of the line that is not below ``value``; ``inf`` if there is none."""
        found: Bound = math.inf
        for low, high, first, step in self.runs:
            if value <= high:
                found = min(found, low if value <= low else first + -((first - int(value)) // step) * step)
        return found

    def down(self, value: Bound) -> Bound:
        """The greatest value of the line that is not above ``value``; ``-inf`` if there is none."""
        found: Bound = -math.inf
        for low, high, first, step in self.runs:
            if value >= low:
                found = max(found, high if value >= high else first + (int(value) - first) // step * step)
        return found

"""An observer that has seen what it is told: for tests without a profiler."""

from __future__ import annotations

from dispatchcov.decide import Decision
from dispatchcov.observers.torch_profiler import Observation, TorchObserver


class FakeObserver(TorchObserver):
    """The n-th launch shows the n-th of ``seen``, the last one again and again."""

    def __init__(self, *seen: tuple[str, ...], outside: tuple[str, ...] = (), available: bool = True) -> None:
        self.seen = seen
        self.outside = outside
        self.available = available
        self.open = 0
        self.profiling = False
        self.decisions: list[Decision] = []

    def start(self) -> None:
        assert not self.profiling
        self.profiling = True
        self.decisions = []

    def enter(self, decision: Decision) -> None:
        assert self.profiling
        self.open += 1
        self.decisions.append(decision)

    def leave(self) -> None:
        self.open -= 1

    def stop(self) -> Observation:
        assert (self.profiling, self.open) == (True, 0)
        self.profiling = False
        last = len(self.seen) - 1
        launches = [(decision, self.seen[min(i, last)]) for i, decision in enumerate(self.decisions)]
        return Observation(launches, [7] * len(launches), self.outside)

"""Times on a GPU: kernel durations as the CUDA profiler sees them, graph replays, host time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

COLD_BYTES = 256 << 20
"""Written between launches that are to find nothing in the L2 cache."""


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds of repeated runs."""

    median: float
    low: float
    """5th percentile."""
    q25: float
    """Lower quartile."""
    q75: float
    """Upper quartile."""
    high: float
    """95th percentile."""
    runs: int

    @classmethod
    def of(cls, samples: list[float]) -> Times:
        ordered = sorted(samples)
        low, q25, q75, high = (ordered[round(part * (len(ordered) - 1))] for part in (0.05, 0.25, 0.75, 0.95))
        return cls(statistics.median(ordered), low, q25, q75, high, len(ordered))

    def as_dict(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def kernels(run: Callable[[], object], *, cold: bool = False, repeats: int = 30) -> Times:
    """Durations of all kernels of ``run`` together, gaps between them left out."""
    per_run = profile(run, cold=cold, repeats=repeats)
    return Times.of([sum(duration for _, duration in events) for events in per_run])


def profile(run: Callable[[], object], *, cold: bool = False, repeats: int = 30) -> list[list[tuple[str, float]]]:
    """For each repetition the kernels that ran: name, microseconds.

    A fill of its own kind marks where a repetition begins; with ``cold`` it writes :data:`COLD_BYTES`.
    """
    marker = _marker(COLD_BYTES if cold else 64)
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(repeats):
            marker.logical_not_()
            run()
        torch.cuda.synchronize()
    results: Any = profiler.profiler
    events = [event for event in results.kineto_results.events() if event.device_type().name == "CUDA"]
    per_run: list[list[tuple[str, float]]] = []
    for event in sorted(events, key=lambda event: event.start_ns()):
        if "logical_not" in event.name():
            per_run.append([])
        elif per_run:
            per_run[-1].append((event.name(), event.duration_ns() / 1e3))
    if len(per_run) != repeats or not all(per_run):
        raise RuntimeError(
            f"the profiler saw {len(per_run)} runs of {repeats}, {[len(run) for run in per_run]} kernels each"
        )
    return per_run


def replays(run: Callable[[], object], *, repeats: int = 30, inner: int = 1) -> Times:
    """Time of a CUDA graph of ``inner`` runs, for each run: kernels and the gaps between them, no host."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            run()
    samples = []
    for repeat in range(repeats + 3):
        start, end = event(), event()
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if repeat >= 3:
            samples.append(start.elapsed_time(end) * 1e3 / inner)
    return Times.of(samples)


def host(run: Callable[[], object], *, repeats: int = 20, inner: int = 50) -> Times:
    """Host time of a call that only enqueues work."""
    samples = []
    for repeat in range(repeats + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(inner):
            run()
        elapsed = time.perf_counter() - start
        if repeat >= 3:
            samples.append(elapsed * 1e6 / inner)
    torch.cuda.synchronize()
    return Times.of(samples)


def wall(run: Callable[[], object], *, repeats: int = 30) -> Times:
    """Time of a call that waits for its work."""
    samples = []
    for repeat in range(repeats + 3):
        start = time.perf_counter()
        run()
        if repeat >= 3:
            samples.append((time.perf_counter() - start) * 1e6)
    return Times.of(samples)


def event() -> Any:
    """A CUDA event that keeps time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


@lru_cache
def _marker(nbytes: int) -> Tensor:
    return torch.zeros(nbytes, dtype=torch.bool, device="cuda")

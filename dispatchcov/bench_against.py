"""What recording costs a call, beside what two well-known observers cost: coverage.py and a dispatch mode of torch."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dispatchcov.errors import UsageError
from dispatchcov.recorder import Recorder
from dispatchcov.table import Table

ROUNDS = 7
Call = Callable[[], object]
Around = Callable[[], AbstractContextManager[object]]


def costs(table: Table, facts: dict[str, Any], by_hand: Callable[..., str], calls: int) -> dict[str, float | None]:
    """Nanoseconds that each observer adds to a call, the median over rounds that time all of them in turn.

    None for what is not installed. The decisions are those of ``table`` and its if-chain ``by_hand`` for ``facts``;
    torch's mode is timed on an addition of two numbers, against the same without it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data")
        chain = lambda: by_hand(**facts)  # noqa: E731  # the same closure for every observer
        decide = lambda: table.decide(**facts)  # noqa: E731
        pairs: dict[str, tuple[Call, Around, Call] | None] = {
            "dispatchcov, off": (decide, nullcontext, chain),
            "dispatchcov, on": (decide, lambda: Recorder(path), chain),
            "coverage.py": _coverage(chain),
            "torch dispatch mode": _torch(),
        }
        found: dict[str, list[float]] = {name: [] for name, pair in pairs.items() if pair}
        for _ in range(ROUNDS):
            for name, pair in pairs.items():
                if pair:
                    call, around, base = pair
                    with around():
                        observed = _ns(call, calls)
                    found[name].append(observed - _ns(base, calls))
    return {name: statistics.median(found[name]) if name in found else None for name in pairs}


def _ns(call: Call, calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - start) / calls


def _coverage(chain: Call) -> tuple[Call, Around, Call] | None:
    """Branch coverage of the file that the if-chain is in."""
    try:
        import coverage
    except ImportError:
        return None
    code: Any = chain

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        measured = coverage.Coverage(data_file=None, branch=True, include=[code.__code__.co_filename, _home(code)])
        measured.start()
        try:
            yield
        finally:
            measured.stop()

    return chain, around, chain


def _home(chain: Any) -> str:
    """The file of the if-chain."""
    by_hand = next(cell.cell_contents for cell in chain.__closure__ if callable(cell.cell_contents))
    home: str = by_hand.__code__.co_filename
    return home


def _torch() -> tuple[Call, Around, Call] | None:
    try:
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return None

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        """The least that a mode can do: count the operator and run it."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            counts[func] = counts.get(func, 0) + 1
            return func(*args, **(kwargs or {}))

    counts: dict[Any, int] = {}
    number = torch.ones(())
    add = lambda: number + number  # noqa: E731
    return add, Counting, add


def flight(table: Table, facts: dict[str, Any], calls: int) -> tuple[float, float]:
    """Nanoseconds of a decision with its launch without the flight recorder, and what that adds."""

    def launch() -> None:
        with table.decide(**facts).launch():
            pass

    base, added = [], []
    with tempfile.TemporaryDirectory() as folder, Recorder(os.path.join(folder, "data")) as recorder:
        launch()  # writes that its cell exists
        ring = recorder.flight
        for _ in range(ROUNDS):
            recorder.flight = None
            base.append(_ns(launch, calls))
            recorder.flight = ring
            added.append(_ns(launch, calls) - base[-1])
    return statistics.median(base), statistics.median(added)


def threads(table: Table, facts: Sequence[dict[str, Any]], count: int, calls: int) -> tuple[int, float, float]:
    """``count`` threads decide ``calls`` times each: how many were counted, ns a decision, those of one thread."""
    recorder = Recorder(None)

    def work() -> None:
        for i in range(calls):
            table.decide(**facts[i % len(facts)])

    with recorder:
        alone = _ns(work, 1) / calls
        recorder.enter("threads", "run")
        workers = [threading.Thread(target=work) for _ in range(count)]
        start = time.perf_counter_ns()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        together = (time.perf_counter_ns() - start) / (count * calls)
        counted = sum(recorder.counts[cell.slot] for cell in recorder.context.cells)
    return counted, together, alone


def memory(table: Table, facts: Sequence[dict[str, Any]], calls: int) -> tuple[int, int]:
    """Resident bytes after a tenth of ``calls`` decisions and after all of them, 0 where the system does not say."""
    with Recorder(None):
        first = 0
        for i in range(calls):
            if i == calls // 10:
                first = _resident()
            table.decide(**facts[i % len(facts)])
        return first, _resident()


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def plot(figures: dict[str, float | None], path: str) -> None:
    """Draw :func:`costs` as bars, into an SVG or PNG file by its name; :class:`UsageError` without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("bench --plot: expected matplotlib to be installed: pip install dispatchcov[bench]") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    known = {name: value for name, value in figures.items() if value is not None}
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.5 * len(known)), layout="constrained")
    bars = axes.barh(list(known), [max(value, 0) for value in known.values()], color="#3b7dd8")
    axes.bar_label(bars, [f"{value:,.0f} ns" for value in known.values()], padding=4, color="#808080")
    axes.invert_yaxis()
    axes.set_xlabel("added to one call, ns")
    axes.margins(x=0.18)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#808080")
    for part in (axes.xaxis, axes.yaxis):
        part.label.set_color("#808080")
        axes.tick_params(colors="#808080")
    try:
        figure.savefig(path, transparent=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"bench --plot: cannot write {path}: {error}") from None
    finally:
        pyplot.close(figure)

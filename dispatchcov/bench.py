"""What recording costs: ``dispatchcov bench``. Every figure is paired with its baseline in the same run;
nothing is asserted.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import dispatchcov
from dispatchcov import bench_against, store
from dispatchcov.interest import Interest
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.table import Table

REPEATS = 9


def by_hand(
    *,
    M: int,
    N: int,
    K: int,
    block_size: int,
    dtype: str,
    bias: bool,
    sm: int,
    native: bool,  # field's names
) -> str:
    """The rules of ``bench.toml`` as one would write them: the baseline."""
    if M == 0 or N == 0:
        return "Empty"
    if K == 0:
        return "FillBias"
    if M <= 8 and block_size == 16 and K % 128 == 0 and sm >= 80:
        return "MmaGemv"
    if M <= 8 and block_size == 16 and K % 32 == 0:
        return "Gemv"
    if native and 120 <= sm < 130 and block_size == 16 and K % 32 == 0 and N % 32 == 0:
        return "Native"
    if K % 8 == 0 and block_size % 2 == 0:
        return "Vec8"
    return "Scalar"


def main(*, quick: bool = False, output: str | None = None, plot: str | None = None) -> int:
    """Print the figures, write them as JSON to ``output``, and draw what a call costs into ``plot``."""
    scale = 10 if quick else 1
    table = parse_table(
        resources.files("dispatchcov").joinpath("bench.toml").read_text(encoding="utf-8"), source="bench.toml"
    )
    print(f"dispatchcov {dispatchcov.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    figures: dict[str, Any] = {"python": platform.python_version(), "quick": quick}
    with tempfile.TemporaryDirectory() as folder:
        figures["decide"] = _decide(table, folder, 100_000 // scale)
        figures["file"] = _file(table, folder, 1_000_000 // scale)
        figures["combine"] = _combine(table, folder, 1000 // scale, 200)
    figures["plugin"] = _plugin(2 if quick else 7)
    figures["against"] = _against(table, 20_000 // scale)
    launch, ring = bench_against.flight(table, shapes(1)[0], 20_000 // scale)
    print(f"flight recorder: adds {ring:.0f} ns to a recorded launch of {launch:.0f} ns ({ring / launch:.2f} x)")
    figures["flight"] = {"launch_ns": launch, "adds_ns": ring}
    figures["load"] = _load(table, 100_000 // scale, 10_000_000 // scale)
    if plot:
        bench_against.plot(figures["against"], plot)
    if output:
        Path(output).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def shapes(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """``count`` different inputs in random order, of the sizes that a model has."""
    sizes = list(
        itertools.product(
            (1, 2, 4, 8, 16, 33, 128, 1024, 8192),
            range(64, 2048, 16),
            (24, 64, 4096, 4098, 5120),
            (5, 16, 32),
            (False, True),
        )
    )
    chosen = random.Random(seed).sample(sizes, count)
    rest = {"dtype": "bfloat16", "sm": 90, "native": False}
    return [{"M": m, "N": n, "K": k, "block_size": b, "bias": bias, **rest} for m, n, k, b, bias in chosen]


def _ns(function: Callable[..., object], inputs: Sequence[dict[str, Any]]) -> float:
    """Nanoseconds a call over ``inputs``."""
    start = time.perf_counter_ns()
    for facts in inputs:
        function(**facts)
    return (time.perf_counter_ns() - start) / len(inputs)


def _decide(table: Table, folder: str, calls: int) -> dict[str, Any]:
    few = shapes(50)
    repeated = [few[i % 50] for i in range(calls)]
    different = shapes(min(calls, 30_000))
    found: dict[str, Any] = {}
    for name, inputs in (("50 shapes", repeated), (f"{len(different)} different shapes", different)):
        off, on, kept, base = [], [], [], []
        for _ in range(REPEATS):
            base.append(_ns(by_hand, inputs))
            off.append(_ns(table.decide, inputs) - base[-1])
            with Recorder(os.path.join(folder, "decide")):
                on.append(_ns(table.decide, inputs) - base[-1])
            with Recorder(os.path.join(folder, "kept"), keep=lambda table: Interest.of(table).more):
                kept.append(_ns(table.decide, inputs) - base[-1])
        hand = statistics.median(base)
        sides = {"recorder off": off, "recorder on": on, "on as pytest records": kept}
        entry = {"if_chain_ns": hand} | {f"{side} adds_ns": statistics.median(added) for side, added in sides.items()}
        found[name] = entry
        print(f"decide, {name}: if-chain {hand:.0f} ns", end="")
        for side in sides:
            added = entry[f"{side} adds_ns"]
            print(f"; {side} adds {added:.0f} ns ({added / hand:.2f} x)", end="")
        print()
    return found


def _file(table: Table, folder: str, calls: int) -> dict[str, Any]:
    path = os.path.join(folder, "file")
    inputs = shapes(10_000)
    with Recorder(path) as recorder:
        for test in range(100):
            recorder.enter(f"tests/test_model.py::test_{test}", "call")
            for i in range(calls // 100):
                table.decide(**inputs[(test * 101 + i) % len(inputs)])
    data = store.combine(path, remove=True)
    size = os.path.getsize(path)
    seen = sum(row.selected for row in data.rows)
    print(f"file: {seen} decisions of 100 tests leave {size / 1e6:.2f} MB in {len(data.rows)} rows")
    return {"decisions": seen, "bytes": size, "rows": len(data.rows)}


def _combine(table: Table, folder: str, shards: int, rows: int) -> dict[str, Any]:
    """``shards`` files as so many workers would leave them, against reading the same bytes as JSON."""
    path = os.path.join(folder, "combine")
    _copies(table, path, shards, rows)
    start = time.perf_counter()
    for name in store.shards_beside(path):
        with open(name, encoding="utf-8") as stream:
            for line in stream:
                json.loads(line)
    parsing = time.perf_counter() - start
    start = time.perf_counter()
    data = store.combine(path)
    seconds = time.perf_counter() - start
    print(
        f"combine: {shards} shards of {rows} rows in {seconds:.2f} s, {seconds / parsing:.1f} x the time of parsing "
        f"their lines as JSON; {len(data.rows)} rows kept"
    )
    return {"shards": shards, "rows": len(data.rows), "seconds": seconds, "parsing_seconds": parsing}


def _copies(table: Table, path: str, count: int, rows: int) -> None:
    """``count`` shards beside ``path``: one is recorded, the others are it under other names, of other runs."""
    with Recorder(path, run="run0") as recorder:
        for row in range(rows):
            recorder.enter(f"tests/test_layers.py::test_{row}", "call")
            table.decide(
                M=1 + row, N=64, K=64 + 2 * row, block_size=16, dtype="bfloat16", bias=False, sm=90, native=False
            )
            recorder.outcome(f"tests/test_layers.py::test_{row}", "passed")
    (first,) = store.shards_beside(path)
    text = Path(first).read_text(encoding="utf-8")
    name = os.path.basename(first)
    for number in range(1, count):
        other = f"{os.path.basename(path)}.host.{number}.{number:012x}.jsonl"
        copy = text.replace(name, other).replace('"run":"run0"', f'"run":"run{number}"')
        Path(first).with_name(other).write_text(copy, encoding="utf-8")


def _against(table: Table, calls: int) -> dict[str, float | None]:
    found = bench_against.costs(table, shapes(1)[0], by_hand, calls)
    shown = (f"{name} {f'{value:.0f} ns' if value is not None else 'not installed'}" for name, value in found.items())
    print(f"a call costs more with: {', '.join(shown)}")
    return found


def _load(table: Table, calls: int, many: int) -> dict[str, Any]:
    """16 threads, and memory over many decisions."""
    counted, together, alone = bench_against.threads(table, shapes(50), 16, calls)
    print(
        f"threads: 16 x {calls} decisions, {counted} counted; {together:.0f} ns a decision, {together / alone:.1f} x "
        "that of one thread"
    )
    first, last = bench_against.memory(table, shapes(10_000), many)
    print(f"memory: {first / 1e6:.1f} MB after {many // 10} decisions, {last / 1e6:.1f} MB after {many}")
    return {"counted": counted, "ns": together, "ns_alone": alone, "bytes_tenth": first, "bytes": last}


def _plugin(repeats: int) -> dict[str, Any]:
    """``pytest --version`` with and without the plugin, in turn."""
    command = [sys.executable, "-m", "pytest", "--version"]
    without = [*command, "-p", "no:dispatchcov"]
    pairs = []
    _seconds(command)
    for _ in range(repeats):
        pairs.append((_seconds(command), _seconds(without)))
    added = statistics.median(a - b for a, b in pairs)
    base = statistics.median(b for _, b in pairs)
    print(f"plugin: adds {1000 * added:.0f} ms to pytest --version, which takes {1000 * base:.0f} ms without it")
    return {"added_ms": 1000 * added, "pytest_ms": 1000 * base}


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start

"""Time of the CPU dequantisers against a table look-up and multiply in torch: ``python -m fp4ops.bench.cpu``.

All results are compared bit by bit first. Every round times all of them one after the other, and a ratio is the median
over the rounds, so that whatever else the machine does hits both sides.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fp4ops.format import E2M1_VALUES
from fp4ops.kernels import dequantizers
from fp4ops.quantize import Quantized
from fp4ops.testing import bits, random_weight

BLOCK = 16


def by_code(quantized: Quantized, dtype: torch.dtype) -> Tensor:
    """One look-up for each code, in a table of 16."""
    weight, scale, scale_2 = quantized
    codes = torch.stack((weight & 15, weight >> 4), dim=-1)
    return _scaled(torch.tensor(E2M1_VALUES)[codes.int()], scale, scale_2, dtype)


def by_byte(quantized: Quantized, dtype: torch.dtype) -> Tensor:
    """One look-up for each byte, in a table of 256 pairs, each fetched as one 64-bit number."""
    weight, scale, scale_2 = quantized
    bytes_ = torch.arange(256)
    pairs = torch.tensor(E2M1_VALUES)[torch.stack((bytes_ & 15, bytes_ >> 4), dim=-1)].view(torch.float64)
    values = pairs.view(-1).index_select(0, weight.view(-1).int()).view(torch.float32)
    return _scaled(values, scale, scale_2, dtype)


def _scaled(values: Tensor, scale: Tensor, scale_2: Tensor, dtype: torch.dtype) -> Tensor:
    product = values.view(*scale.shape, BLOCK) * (scale.float() * scale_2).unsqueeze(2)
    return product.to(dtype).flatten(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; raises SystemExit where a kernel's bits are wrong."""
    parser = argparse.ArgumentParser(prog="python -m fp4ops.bench.cpu", description=__doc__)
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the matrix (default 4096)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds to take the median of (default 15)")
    args = parser.parse_args(arguments)
    print(f"{args.size} x {args.size}, block_size {BLOCK}, {torch.get_num_threads()} threads, {args.rounds} rounds")
    print(f"{'dtype':<10} {'kernel':<26} {'ms':>7} {'/ by code':>10} {'/ by byte':>10}")
    for dtype in (torch.float16, torch.bfloat16):
        measure(args.size, dtype, args.rounds)
    return 0


def measure(size: int, dtype: torch.dtype, rounds: int) -> None:
    """Print a line for each dequantiser and baseline."""
    quantized = random_weight(size, size, BLOCK)
    runs: dict[str, Callable[[], Tensor]] = {
        "by code": lambda: by_code(quantized, dtype),
        "by byte": lambda: by_byte(quantized, dtype),
    }
    for name, kernel in dequantizers("cpu").items():
        runs[name] = lambda kernel=kernel: kernel(*quantized, K=size, block_size=BLOCK, dtype=dtype)  # type: ignore[misc]
    expected = bits(runs["by code"]())
    for name, run in runs.items():
        if not torch.equal(bits(run()), expected):
            raise SystemExit(f"{name}: other bits than the look-up by code")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    for name, own in times.items():
        ratios = [
            statistics.median(a / b for a, b in zip(own, times[baseline], strict=True))
            for baseline in ("by code", "by byte")
        ]
        label = str(dtype).removeprefix("torch.")
        print(f"{label:<10} {name:<26} {1e3 * statistics.median(own):7.1f} {ratios[0]:10.2f} {ratios[1]:10.2f}")


if __name__ == "__main__":
    raise SystemExit(main())

"""What an eager ``matmul_nvfp4`` call costs on the host, against ``linear``: ``python -m fp4ops.bench.host``.

On CPU tensors, where a call computes as well: each kernel is replaced by one that allocates its result and no more,
which leaves checks, decision and the way to them. Times are those that the thread ran, not those it waited for a core.
Every round times all calls one after the other, and a ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import linear

from dispatchcov import Recorder, warm_up
from fp4ops import matmul_nvfp4
from fp4ops.kernels import cpu
from fp4ops.kernels.cpu import gemv
from fp4ops.problem import Operands, Problem
from fp4ops.testing import Call, random_call, reference

M, N, K = 1, 16, 32
Around: TypeAlias = Callable[[], AbstractContextManager[object]]


def allocate(problem: Problem, operands: Operands) -> Tensor:
    """A kernel that computes nothing: ``[M, N]``, uninitialised."""
    return operands.a.new_empty((problem.M, problem.N))


@contextmanager
def no_kernels() -> Iterator[None]:
    """Every CPU kernel is :func:`allocate`, so no decision counts as a hit, and torch uses one thread."""
    before, threads = cpu.LAUNCHERS, torch.get_num_threads()
    cpu.LAUNCHERS = MappingProxyType(dict.fromkeys(before, allocate))
    torch.set_num_threads(1)
    try:
        with warm_up():
            yield
    finally:
        cpu.LAUNCHERS = before
        torch.set_num_threads(threads)


def measure(call: Call, rounds: int, calls: int) -> dict[str, list[float]]:
    """Microseconds of one call: a list over the rounds for each variant, the baseline first."""
    dense = torch.zeros((N, K), dtype=torch.bfloat16)

    def ours() -> Tensor:
        return matmul_nvfp4(*call)

    with tempfile.TemporaryDirectory() as folder:
        variants: dict[str, tuple[Callable[[], Tensor], Around]] = {
            "linear": (lambda: linear(call.a, dense), nullcontext),
            "matmul_nvfp4": (ours, nullcontext),
            "matmul_nvfp4, recording": (ours, lambda: Recorder(os.path.join(folder, "records"))),
        }
        times: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, (run, around) in variants.items():
                with around():
                    times[name].append(_time(run, calls))
    return times


def _time(run: Callable[[], Tensor], calls: int) -> float:
    run()
    start = time.thread_time()
    for _ in range(calls):
        run()
    return 1e6 * (time.thread_time() - start) / calls


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; AssertionError if the operator's result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fp4ops.bench.host", description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="rounds to take the median of (default 25)")
    parser.add_argument("--calls", type=int, default=2000, help="calls a round (default 2000)")
    options = parser.parse_args(arguments)
    call = random_call(M, N, K, dtype=torch.bfloat16)
    reference(call, gemv.KERNEL).check(matmul_nvfp4(*call))
    for mode in (torch.inference_mode, torch.enable_grad):
        with no_kernels(), mode():
            times = measure(call, options.rounds, options.calls)
        base = times["linear"]
        print(f"{M} x {N} x {K}, torch.{mode.__name__}, {options.rounds} rounds of {options.calls} calls")
        for name, own in times.items():
            ratio = statistics.median(a / b for a, b in zip(own, base, strict=True))
            print(f"{name:<26} {statistics.median(own):7.2f} us  {ratio:6.2f} x linear")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""``Fp4GemvKernel``: decode without tensor cores, a warp a weight row, slices of 32 along K."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from torch import Tensor

from fp4ops.format import ceildiv
from fp4ops.kernels import require
from fp4ops.kernels.cuda.build import SOURCES
from fp4ops.kernels.cuda.launch import Kernel, device
from fp4ops.problem import Operands, Problem

KERNEL = "Fp4GemvKernel"
SLICE = 32
MAX_M = 8
WARPS = 8  # a block, as in gemv.cu
_RESIDENT_WARPS = 32  # a multiprocessor, about: fewer rows than warps are split along K

_kernel = Kernel(SOURCES[KERNEL], "PPPPPPiiii")


class Plan(NamedTuple):
    """How a launch is cut."""

    rows: int
    """Template parameter: activation rows, at least M."""
    split: int
    """Warps that share a weight row."""
    blocks: int


@lru_cache(maxsize=4096)
def plan(M: int, N: int, K: int, multiprocessors: int) -> Plan:
    """Split rows along K until the GPU is full or a warp would have less than one slice a lane."""
    split = 1
    while split < WARPS and N * split < multiprocessors * _RESIDENT_WARPS and 32 * split < K // SLICE:
        split *= 2
    return Plan(next(rows for rows in (1, 2, 4, 8) if rows >= M), split, ceildiv(N, WARPS // split))


def launch(problem: Problem, operands: Operands) -> Tensor:
    """``[M, N]``; contract: 1 <= M <= 8, N >= 1, block_size == 16, K a positive multiple of 32."""
    M, N, K = problem.M, problem.N, problem.K
    if not (1 <= M <= MAX_M and N > 0 and problem.block_size == 16 and K > 0 and K % SLICE == 0):
        require(KERNEL, "1 <= M <= 8 and N > 0 and block_size == 16 and K > 0 and K % 32 == 0", False, problem)
    a, weight, scale, scale_2, bias = operands
    out = a.new_empty((M, N))
    cut = plan(M, N, K, device(out.get_device()).multiprocessors)
    arguments = (
        a.data_ptr(),
        weight.data_ptr(),
        scale.data_ptr(),
        scale_2.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        out.data_ptr(),
        M,
        N,
        K // SLICE,
        cut.split,
    )
    _kernel.launch(out, arguments, dtype=a.dtype, grid=(cut.blocks, 1), block=32 * WARPS, parameter=cut.rows)
    return out

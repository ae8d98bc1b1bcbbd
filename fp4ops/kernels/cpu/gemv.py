"""Twin of ``Fp4GemvKernel``: a warp owns one weight row, each of its 32 lanes slices of 32 along K.

A lane sums the plain E2M1 products of a block, multiplies by the block's scale, and adds up its blocks; the lanes are
summed at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fp4ops.kernels import require
from fp4ops.kernels.cpu.common import decode_bytes, epilogue, slabs
from fp4ops.problem import Operands, Problem

KERNEL = "Fp4GemvKernel"
LANES = 32
SLICE = 32
BLOCK = 16


def launch(problem: Problem, operands: Operands) -> Tensor:
    """Sum slices, then lanes, in float32; tensor scale and bias in the epilogue."""
    _require(problem)
    a, scale = operands.a.float(), operands.weight_scale.float()
    total = a.new_empty((problem.M, problem.N))
    for rows in slabs(range(problem.N), LANES * SLICE):
        total[:, rows] = _warps(a, operands.weight[rows], scale[rows]).sum(dim=2)
    return epilogue(total, operands.weight_scale_2, operands)


def _warps(a: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """What each lane holds before the lanes are summed: ``[M, R, LANES]``."""
    M, K = a.shape
    R = len(packed)
    lanes = a.new_zeros((M, R, LANES))
    for first in range(0, K, LANES * SLICE):
        last = min(first + LANES * SLICE, K)
        slices = (last - first) // SLICE
        values = decode_bytes(packed[:, first // 2 : last // 2]).view(R, slices, 2, BLOCK)
        dots = torch.einsum("msbk,rsbk->mrsb", a[:, first:last].reshape(M, slices, 2, BLOCK), values)
        scaled = dots * scale[:, first // BLOCK : last // BLOCK].reshape(R, slices, 2)
        lanes[:, :, :slices] += scaled.sum(dim=3)
    return lanes


def _require(p: Problem) -> None:
    clause = "0 < M <= 8 and N > 0 and block_size == 16 and K > 0 and K % 32 == 0"
    sizes = 0 < p.M <= 8 and p.N > 0 and p.K > 0
    require(KERNEL, clause, sizes and p.block_size == BLOCK and p.K % SLICE == 0, p)

"""Twin of ``DequantizeNvFp4Vec8Kernel``: one 32-bit word -> 8 codes -> 8 values, then GEMM.

A thread of the kernel owns one chunk of 8 neighbours in a row and steps its scale along with the 4 pairs of codes,
since a block may end inside the chunk. Rows are a grid of at most 65,535; each thread loops over the rows beyond.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fp4ops.kernels import require
from fp4ops.kernels.cpu.common import decode_words, one_nan_if_any, prefill, slabs
from fp4ops.problem import Operands, Problem

KERNEL = "DequantizeNvFp4Vec8Kernel"
GRID_ROWS = 65_535


def launch(problem: Problem, operands: Operands) -> Tensor:
    """Dequantise into scratch, then GEMM."""
    return prefill(dequantize, problem, operands)


def dequantize(
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    *,
    K: int,
    block_size: int,
    dtype: torch.dtype,
) -> Tensor:
    """``[N, K]`` of ``dtype``; K a multiple of 8, block_size even."""
    holds = K % 8 == 0 and block_size % 2 == 0
    require(KERNEL, "K % 8 == 0 and block_size % 2 == 0", holds, f"K = {K}, block_size = {block_size}")
    N = len(weight)
    words = weight.view(-1).view(torch.int32).view(N, K // 8)
    scale = weight_scale.float() * weight_scale_2
    blocks = blocks_of_pairs(K // 8, min(block_size, K)).view(-1).repeat_interleave(2)
    out = torch.empty((N, K), dtype=dtype, device="cpu")
    for first in range(0, N, GRID_ROWS):
        for rows in slabs(range(first, min(first + GRID_ROWS, N)), K):
            out[rows] = decode_words(words[rows]).flatten(1).mul_(scale[rows].index_select(1, blocks))
    return one_nan_if_any(out, scale)


def blocks_of_pairs(chunks: int, block_size: int) -> Tensor:
    """Which scale of its row each pair of codes takes, int32 ``[chunks, 4]``; stepped along, as a thread does it."""
    first = torch.arange(chunks, dtype=torch.int32, device="cpu") * 8
    block, left = first // block_size, block_size - first % block_size
    steps = []
    for _ in range(4):
        steps.append(block)
        left = left - 2
        ended = left == 0
        block = block + ended
        left = torch.where(ended, block_size, left)
    return torch.stack(steps, dim=1).to(torch.int32)

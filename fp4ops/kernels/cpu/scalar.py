"""Twin of ``DequantizeNvFp4Kernel``: one packed byte -> two values, each with the scale of its own column; then GEMM.

The kernel for every layout: a block may end between the two codes of a byte.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fp4ops.kernels.cpu.common import decode, one_nan_if_any, prefill, slabs
from fp4ops.problem import Operands, Problem

KERNEL = "DequantizeNvFp4Kernel"


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
    """``[N, K]`` of ``dtype``; any even K, any block_size."""
    N = len(weight)
    scale = weight_scale.float() * weight_scale_2
    block_size = min(block_size, K)  # fits 32 bits
    even = torch.arange(0, K, 2, dtype=torch.int32, device="cpu")
    low_block, high_block = even // block_size, (even + 1) // block_size
    out = torch.empty((N, K), dtype=dtype, device="cpu")
    for rows in slabs(range(N), K):
        packed, row_scale = weight[rows].int(), scale[rows]
        out[rows, 0::2] = decode(packed & 15).mul_(row_scale.index_select(1, low_block))
        out[rows, 1::2] = decode(packed >> 4).mul_(row_scale.index_select(1, high_block))
    return one_nan_if_any(out, scale)

"""Twin of ``DequantizeNvFp4FlatKernel``: one 32-bit word -> 8 codes -> 8 values by the flat chunk index, then GEMM.

Blocks fill rows exactly, so the matrix is one flat run of chunks of 8 and of scales: chunk i takes scale
``i >> log2(block_size / 8)``, and no row or column is ever computed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fp4ops.kernels import require
from fp4ops.kernels.cpu.common import decode_words, one_nan_if_any, prefill, slabs
from fp4ops.problem import Operands, Problem

KERNEL = "DequantizeNvFp4FlatKernel"
BLOCK_SIZES = (8, 16, 32, 64)


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
    """``[N, K]`` of ``dtype``; K a multiple of 64, block_size 8, 16, 32 or 64."""
    holds = K % 64 == 0 and block_size in BLOCK_SIZES
    require(KERNEL, "K % 64 == 0 and block_size in [8, 16, 32, 64]", holds, f"K = {K}, block_size = {block_size}")
    words = weight.view(-1).view(torch.int32)
    scale = weight_scale.view(-1).float() * weight_scale_2
    shift = (block_size // 8).bit_length() - 1
    out = torch.empty((len(words), 8), dtype=dtype, device="cpu")
    for chunks in slabs(range(len(words)), 8):
        values = decode_words(words[chunks])
        index = torch.arange(chunks.start, chunks.stop, device="cpu") >> shift
        out[chunks] = values.mul_(scale.index_select(0, index).unsqueeze(1))
    return one_nan_if_any(out.view(len(weight), K), scale)

"""``NativeFp4Matmul`` (sm_120): quantise the activations, then torch's NVFP4 scaled matmul (cuBLASLt).

The block scales of both operands go in tiles of 128 rows by 4 blocks (:func:`swizzle_scales`); both tensor scales and
the bias are applied by the matmul. The matmul was never run: no sm_120 GPU was at hand. The quantisation kernel runs on
any GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

from fp4ops.format import E2M1_MAX, E4M3_MAX, ceildiv
from fp4ops.kernels import require
from fp4ops.kernels.cuda.build import SOURCES
from fp4ops.kernels.cuda.launch import Kernel
from fp4ops.problem import Operands, Problem

KERNEL = "NativeFp4Matmul"
BLOCK = 16
TILE_ROWS, TILE_BLOCKS = 128, 4
THREADS = 128

_RECIPE = [ScalingType.BlockWise1x16, ScalingType.TensorWise]
_SWIZZLE = [SwizzleType.SWIZZLE_32_4_4, SwizzleType.NO_SWIZZLE]
_quantize = Kernel(SOURCES["QuantizeNvFp4Kernel"], "PPPPiiii")


class QuantizedActivations(NamedTuple):
    """NVFP4 activations as the matmul reads them."""

    codes: Tensor
    """uint8 ``[M, K / 2]``."""
    scale: Tensor
    """float8_e4m3fn, flat: the tiles of :func:`swizzle_scales`."""
    scale_2: Tensor
    """float32, 0-dim."""


def launch(problem: Problem, operands: Operands) -> Tensor:
    """``[M, N]``; contract: 120 <= sm < 130, block_size == 16, K and N positive multiples of 32."""
    divides = problem.K > 0 and problem.K % 32 == 0 and problem.N > 0 and problem.N % 32 == 0
    if not (120 <= problem.sm < 130 and problem.block_size == BLOCK and divides):
        clause = "120 <= sm and sm < 130 and block_size == 16 and K > 0 and K % 32 == 0 and N > 0 and N % 32 == 0"
        require(KERNEL, clause, False, problem)
    a = quantize_activations(operands.a)
    fp4 = torch.float4_e2m1fn_x2
    result: Tensor = scaled_mm(
        a.codes.view(fp4),
        operands.weight.view(fp4).t(),
        [a.scale, a.scale_2],
        _RECIPE,
        [swizzle_scales(operands.weight_scale), operands.weight_scale_2],
        _RECIPE,
        swizzle_a=_SWIZZLE,
        swizzle_b=_SWIZZLE,
        bias=operands.bias,
        output_dtype=operands.a.dtype,
    )
    return result


def quantize_activations(a: Tensor) -> QuantizedActivations:
    """``quantize_nvfp4`` of ``[M, K]`` on a GPU, bit for bit, without its checks; float16 or bfloat16, K % 16 == 0."""
    M, K = a.shape
    amax = a.abs().amax().float()
    scale_2 = torch.where(amax == 0, 1.0, (amax / (E2M1_MAX * E4M3_MAX)).clamp(min=2.0**-126))
    rows, blocks = ceildiv(M, TILE_ROWS) * TILE_ROWS, ceildiv(K // BLOCK, TILE_BLOCKS) * TILE_BLOCKS
    codes = a.new_empty((M, K // 2), dtype=torch.uint8)
    scale = a.new_empty((rows * blocks,), dtype=torch.float8_e4m3fn)
    arguments = (a.data_ptr(), scale_2.data_ptr(), codes.data_ptr(), scale.data_ptr(), M, K // BLOCK, rows, blocks)
    grid = (ceildiv(rows * blocks, THREADS), 1)
    _quantize.launch(codes, arguments, dtype=a.dtype, grid=grid, block=THREADS)
    return QuantizedActivations(codes, scale, scale_2)


def swizzle_scales(scale: Tensor) -> Tensor:
    """Block scales ``[R, C]`` -> flat tiles of 128 rows by 4 blocks, padded with zeros.

    Tiles follow each other row by row; in a tile of 512 bytes, row r and block c is byte
    ``16 (r % 32) + 4 (r // 32) + c``.
    """
    R, C = scale.shape
    rows, blocks = ceildiv(R, TILE_ROWS), ceildiv(C, TILE_BLOCKS)
    padding = (0, blocks * TILE_BLOCKS - C, 0, rows * TILE_ROWS - R)
    padded = torch.nn.functional.pad(scale.view(torch.uint8), padding)
    tiles = padded.view(rows, 4, 32, blocks, TILE_BLOCKS).permute(0, 3, 2, 1, 4)
    return tiles.reshape(-1).view(torch.float8_e4m3fn)

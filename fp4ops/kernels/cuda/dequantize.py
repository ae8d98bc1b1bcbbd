"""The three dequantisers: alone, and as the first half of prefill, which is dequantise into scratch, then torch's GEMM.

All give the same bits. ``scalar`` takes every layout; ``vec8`` rows of whole 8-value chunks and even blocks; ``flat``
blocks that fill rows exactly. Scratch is a torch tensor: the caching allocator reuses it in stream order, also under a
CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from fp4ops.format import ceildiv
from fp4ops.kernels import Dequantizer, require
from fp4ops.kernels.cuda.build import SOURCES
from fp4ops.kernels.cuda.launch import Kernel
from fp4ops.problem import Launcher, Operands, Problem

SCALAR = "DequantizeNvFp4Kernel"
VEC8 = "DequantizeNvFp4Vec8Kernel"
FLAT = "DequantizeNvFp4FlatKernel"

GRID_ROWS = 65_535  # the largest gridDim.y
GRID_BLOCKS = 2**31 - 1  # the largest gridDim.x
FLAT_BLOCK_SIZES = (8, 16, 32, 64)
FLAT_CHUNKS = 2  # chunks a thread, as in dequantize_flat.cu
THREADS = 256

_scalar = Kernel(SOURCES[SCALAR], "PPPPqiii")
_vec8 = Kernel(SOURCES[VEC8], "PPPPqiii")
_flat = Kernel(SOURCES[FLAT], "PPPPqi")

Run: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor, int], None]
"""weight, weight_scale, weight_scale_2, out [N, K], block_size; N > 0, K > 0; the contract is the caller's."""


def run_scalar(weight: Tensor, scale: Tensor, scale_2: Tensor, out: Tensor, block_size: int) -> None:
    """One thread a byte; a grid beyond the limit loops."""
    N, K = out.shape
    total = N * (K // 2)
    arguments = (*_pointers(weight, scale, scale_2, out), total, K // 2, scale.shape[1], min(block_size, K))
    grid = (min(ceildiv(total, THREADS), GRID_BLOCKS), 1)
    _scalar.launch(out, arguments, dtype=out.dtype, grid=grid, block=THREADS)


def run_vec8(weight: Tensor, scale: Tensor, scale_2: Tensor, out: Tensor, block_size: int) -> None:
    """One thread a chunk; a row of the grid is a row of the matrix, rows beyond 65,535 loop."""
    N, K = out.shape
    chunks = K // 8
    threads = min((128, 256), key=lambda t: (ceildiv(chunks, t) * t, -t))  # the fewest idle threads at a row's end
    arguments = (*_pointers(weight, scale, scale_2, out), N, chunks, scale.shape[1], min(block_size, K))
    grid = (ceildiv(chunks, threads), min(N, GRID_ROWS))
    _vec8.launch(out, arguments, dtype=out.dtype, grid=grid, block=threads)


def run_flat(weight: Tensor, scale: Tensor, scale_2: Tensor, out: Tensor, block_size: int) -> None:
    """One thread several chunks of the flat matrix, a block's width apart."""
    chunks = out.numel() // 8
    arguments = (*_pointers(weight, scale, scale_2, out), chunks, (block_size // 8).bit_length() - 1)
    grid = (ceildiv(chunks, THREADS * FLAT_CHUNKS), 1)
    _flat.launch(out, arguments, dtype=out.dtype, grid=grid, block=THREADS)


def _dequantizer(kernel: str, run: Run, clause: str, holds: Callable[[int, int], bool]) -> Dequantizer:
    def dequantize(
        weight: Tensor, weight_scale: Tensor, weight_scale_2: Tensor, *, K: int, block_size: int, dtype: torch.dtype
    ) -> Tensor:
        if not holds(K, block_size):
            require(kernel, clause, False, f"K = {K}, block_size = {block_size}")
        out = torch.empty((len(weight), K), dtype=dtype, device=weight.device)
        if out.numel():
            run(weight, weight_scale, weight_scale_2, out, block_size)
        return out

    return dequantize


def _prefill(dequantize: Dequantizer) -> Launcher:
    def launch(problem: Problem, operands: Operands) -> Tensor:
        weight = dequantize(
            operands.weight,
            operands.weight_scale,
            operands.weight_scale_2,
            K=problem.K,
            block_size=problem.block_size,
            dtype=operands.a.dtype,
        )
        return gemm(operands.a, weight, operands.bias)

    return launch


def gemm(a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``a [M, K] @ weight [N, K].T + bias [N]`` by cuBLAS, summed in float32 and rounded once."""
    N, K = weight.shape
    if bias is None or (K % 8 == 0 and N % 8 == 0):
        return torch.nn.functional.linear(a, weight, bias)
    # cuBLAS fuses no bias where rows are not 16-byte aligned: torch would round the product, add, and round again.
    return torch.mm(a, weight.t(), out_dtype=torch.float32).add_(bias).to(a.dtype)


def _pointers(*tensors: Tensor) -> tuple[int, ...]:
    return tuple(tensor.data_ptr() for tensor in tensors)


DEQUANTIZERS: dict[str, Dequantizer] = {
    FLAT: _dequantizer(
        FLAT,
        run_flat,
        "K % 64 == 0 and block_size in [8, 16, 32, 64]",
        lambda K, block_size: K % 64 == 0 and block_size in FLAT_BLOCK_SIZES,
    ),
    VEC8: _dequantizer(
        VEC8,
        run_vec8,
        "K % 8 == 0 and block_size % 2 == 0",
        lambda K, block_size: K % 8 == 0 and block_size % 2 == 0,
    ),
    SCALAR: _dequantizer(SCALAR, run_scalar, "K % 2 == 0", lambda K, block_size: K % 2 == 0),
}

LAUNCHERS: dict[str, Launcher] = {name: _prefill(dequantize) for name, dequantize in DEQUANTIZERS.items()}

"""What CUDA launchers do before they touch a GPU: names, contracts, how a launch is cut, scale layouts."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fp4ops.format import ceildiv
from fp4ops.kernels import ContractError
from fp4ops.kernels.cuda import DEQUANTIZERS, LAUNCHERS, build, dequantize, gemv, mma_gemv, native
from fp4ops.kernels.cuda.mma_gemv import Gpu
from fp4ops.machine import TABLE
from fp4ops.problem import Operands, Problem
from fp4ops.testing import random_call

H200 = Gpu(232448, {1: 132, 2: 66, 4: 30, 8: 15})
SMALL = Gpu(101376, {1: 28})


MMA_FILES = ("mma_gemv.cu", "mma_stream.cuh", "mma_operands.cuh")


def problem_of(M: int, N: int, K: int, block_size: int = 16, sm: int = 90) -> tuple[Problem, Operands]:
    call = random_call(M, N, K, block_size)
    return Problem(M, N, K, block_size, "float16", False, sm, True), Operands(*call)


def constant(file: str, name: str) -> int:
    """A constant of a ``.cu`` file: its default where it is a macro."""
    text = (build.HERE / file).read_text()
    found = re.search(rf"(?:#define {name}|constexpr int {name} =) (\d+)", text)
    assert found, f"{file}: no {name}"
    return int(found.group(1))


def by_rows(name: str, rows: int) -> int:
    """A constant of the kernel that depends on ROWS: ``ROWS <= limit ? this : that``."""
    text = "".join((build.HERE / file).read_text() for file in MMA_FILES)
    found = re.search(rf"constexpr int {name} = ROWS <= (\d+) \? (\d+) : (\d+);", text)
    assert found, f"mma_gemv.cu: no {name}"
    limit, small, large = map(int, found.groups())
    return small if rows <= limit else large


def test_each_kernel_of_the_table_has_a_launcher() -> None:
    assert {kernel.name for kernel in TABLE.kernels} <= set(LAUNCHERS)
    assert set(DEQUANTIZERS) <= set(LAUNCHERS)


def test_constants_agree_with_the_sources() -> None:
    assert constant("dequantize_flat.cu", "FLAT_CHUNKS") == dequantize.FLAT_CHUNKS
    assert constant("gemv.cu", "kWarps") == gemv.WARPS
    assert tuple(mma_gemv.VARIANTS) == build.SOURCES["Fp4MmaGemvKernel"].parameters
    for rows, variant in mma_gemv.VARIANTS.items():
        constants = tuple(by_rows(name, rows) for name in ("kSpan", "kStages", "kMaxWarps"))
        assert constants == variant
    assert constant("mma_gemv.cu", "kMaxBatch") == mma_gemv.MAX_BATCH
    assert build.SOURCES["Fp4MmaGemvKernel"].parameters[-1] == mma_gemv.MAX_M
    assert build.SOURCES["Fp4GemvKernel"].parameters[-1] == gemv.MAX_M


@pytest.mark.parametrize(
    ("name", "M", "N", "K", "block_size", "sm"),
    [
        ("Fp4MmaGemvKernel", 1, 2, 64, 16, 90),
        ("Fp4MmaGemvKernel", 1, 2, 128, 32, 90),
        ("Fp4MmaGemvKernel", mma_gemv.MAX_M + 1, 2, 128, 16, 90),
        ("Fp4MmaGemvKernel", 1, 2, 128, 16, 75),
        ("Fp4MmaGemvKernel", 1, 0, 128, 16, 90),
        ("Fp4MmaGemvKernel", 0, 2, 128, 16, 90),
        ("Fp4GemvKernel", 1, 0, 64, 16, 90),
        ("Fp4GemvKernel", 1, 2, 48, 16, 90),
        ("Fp4GemvKernel", 1, 2, 64, 8, 90),
        ("Fp4GemvKernel", 9, 2, 64, 16, 90),
        ("NativeFp4Matmul", 1, 32, 64, 16, 90),
        ("NativeFp4Matmul", 1, 31, 64, 16, 120),
        ("DequantizeNvFp4Vec8Kernel", 9, 2, 12, 16, 90),
        ("DequantizeNvFp4Vec8Kernel", 9, 2, 16, 5, 90),
        ("DequantizeNvFp4FlatKernel", 9, 2, 72, 8, 90),
        ("DequantizeNvFp4FlatKernel", 9, 2, 64, 4, 90),
        ("Empty", 1, 1, 2, 16, 90),
        ("FillBias", 1, 1, 2, 16, 90),
    ],
)
def test_outside_its_contract_a_launcher_refuses(name: str, M: int, N: int, K: int, block_size: int, sm: int) -> None:
    with pytest.raises(ContractError, match=name):
        LAUNCHERS[name](*problem_of(M, N, K, block_size, sm))


@given(M=st.integers(1, 8), N=st.integers(1, 300_000), slices=st.integers(1, 2000))
def test_gemv_plan(M: int, N: int, slices: int) -> None:
    cut = gemv.plan(M, N, 32 * slices, 132)
    assert M <= cut.rows < 2 * M
    assert gemv.WARPS % cut.split == 0
    assert cut.split == 1 or 16 * cut.split < slices  # each warp has a slice for more than half of its lanes
    assert (cut.blocks - 1) * (gemv.WARPS // cut.split) < N <= cut.blocks * (gemv.WARPS // cut.split)


@given(
    M=st.integers(1, mma_gemv.MAX_M),
    N=st.integers(1, 300_000),
    windows=st.integers(1, 400),
    gpu=st.sampled_from([H200, SMALL]),
)
def test_mma_gemv_plan(M: int, N: int, windows: int, gpu: Gpu) -> None:
    cut = mma_gemv.plan(M, N, 128 * windows, gpu)
    variant = mma_gemv.VARIANTS[cut.rows]
    tiles, spans = ceildiv(N, mma_gemv.TILE), ceildiv(windows, variant.span)
    assert M <= cut.rows <= (16 if windows == 1 and M <= 16 else max(1, 8 * (M > 1), 2 * (M - 1)))
    assert variant.span <= windows
    assert 1 <= cut.clusters <= min(tiles, gpu.clusters[cut.cluster])
    assert 1 <= cut.warps <= variant.max_warps
    slice_ = ceildiv(spans, cut.cluster)
    assert (cut.passes - 1) * cut.warps < slice_ <= cut.passes * cut.warps
    assert (cut.cluster - 1) * slice_ < spans  # each block has work
    assert 1 <= cut.batch <= min(mma_gemv.MAX_BATCH, ceildiv(tiles, cut.clusters))
    ring = variant.stages * variant.span * 16 * (64 + 8)
    activations = cut.rows * variant.span * 256
    slots = cut.batch * mma_gemv.TILE * (4 if cut.rows == 1 else cut.rows) * 4
    inbox = ceildiv(cut.batch, cut.cluster) * cut.cluster * mma_gemv.TILE * ceildiv(M, 4) * 16 if cut.cluster > 1 else 0
    own = activations + slots if cut.passes > 1 else max(activations, slots)
    assert 4 * 8 * cut.batch + inbox + cut.warps * (ring + own) <= cut.shared <= gpu.shared_memory


def test_mma_gemv_plan_of_decode_steps() -> None:
    """One block takes all of K in one pass where its warps can, the tiles of a block are one batch; a longer K is split
    between two blocks, on all multiprocessors, and its passes load the schedulers alike.
    """
    assert mma_gemv.plan(1, 17408, 5120, H200)[1:6] == (1, 132, 20, 1, 9)
    assert mma_gemv.plan(8, 17408, 5120, H200)[1:6] == (1, 132, 20, 1, 9)
    assert mma_gemv.plan(1, 4096, 4096, H200)[1:6] == (1, 132, 16, 1, 2)
    assert mma_gemv.plan(8, 5120, 17408, H200)[1:6] == (2, 66, 18, 2, 5)


@pytest.mark.parametrize(("R", "C"), [(1, 1), (128, 4), (130, 6), (300, 3), (256, 320)])
def test_scale_tiles_equal_a_plain_emulation(R: int, C: int) -> None:
    scale = torch.randint(0, 127, (R, C), dtype=torch.uint8)
    row_tiles, column_tiles = ceildiv(R, 128), ceildiv(C, 4)
    expected = [0] * (row_tiles * column_tiles * 512)
    for r in range(R):
        for c in range(C):
            tile = r // 128 * column_tiles + c // 4
            expected[512 * tile + 16 * (r % 32) + 4 * (r % 128 // 32) + c % 4] = int(scale[r, c])
    tiles = native.swizzle_scales(scale.view(torch.float8_e4m3fn))
    assert tiles.view(torch.uint8).tolist() == expected

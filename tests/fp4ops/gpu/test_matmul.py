"""Each kernel's product against float64, exactly where the numbers allow it, into poisoned memory."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fp4ops.format import E2M1_VALUES, pack
from fp4ops.kernels.cuda import LAUNCHERS, mma_gemv
from fp4ops.problem import DTYPE_NAMES, Operands, Problem
from fp4ops.quantize import dequantize_nvfp4
from fp4ops.testing import Call, bits, random_call, reference

CUDA = torch.device("cuda", 0)
DTYPES = [torch.float16, torch.bfloat16]
GEMV, MMA = "Fp4GemvKernel", "Fp4MmaGemvKernel"
SCALAR, VEC8, FLAT = "DequantizeNvFp4Kernel", "DequantizeNvFp4Vec8Kernel", "DequantizeNvFp4FlatKernel"


def launch(kernel: str, call: Call, block_size: int = 16) -> Tensor:
    """The kernel's result on the GPU, its memory poisoned with NaN before."""
    operands = Operands(*(None if part is None else part.to(CUDA) for part in call))  # type: ignore[arg-type]
    M, K = operands.a.shape
    N = len(operands.weight)
    sm = 10 * torch.cuda.get_device_capability(CUDA)[0]
    problem = Problem(M, N, K, block_size, DTYPE_NAMES[operands.a.dtype], operands.bias is not None, sm, False)
    if kernel not in (GEMV, MMA):  # cuBLAS writes the result
        return LAUNCHERS[kernel](problem, operands)
    torch.use_deterministic_algorithms(True)  # torch then fills new memory with NaN
    try:
        assert operands.a.new_empty(1).isnan()
        return LAUNCHERS[kernel](problem, operands)
    finally:
        torch.use_deterministic_algorithms(False)


SHAPES = [  # kernel, M, N, K, block_size
    (MMA, 1, 1, 128, 16),
    (MMA, 1, 17, 128, 16),
    (MMA, 2, 300, 256, 16),
    (MMA, 3, 48, 17408, 16),
    (MMA, 4, 4096, 4096, 16),
    (MMA, 7, 5000, 1152, 16),
    (MMA, 8, 515, 17408, 16),
    (MMA, 8, 40000, 256, 16),
    (MMA, 9, 300, 640, 16),
    (MMA, 16, 2500, 5120, 16),
    (MMA, 17, 33, 384, 16),
    (MMA, 32, 3000, 2048, 16),
    (MMA, 31, 300, 17408, 16),
    (MMA, 1, 40, 61440, 16),
    (MMA, 6, 40, 61568, 16),
    (MMA, 12, 33, 51200, 16),
    (MMA, 5, 3, 1408, 16),
    (GEMV, 1, 1, 32, 16),
    (GEMV, 1, 5000, 96, 16),
    (GEMV, 2, 77, 4064, 16),
    (GEMV, 3, 300, 1056, 16),
    (GEMV, 5, 100, 17376, 16),
    (GEMV, 8, 2000, 416, 16),
    (FLAT, 33, 128, 1024, 32),
    (VEC8, 9, 130, 1032, 6),
    (VEC8, 1, 2, 24, 16),
    (SCALAR, 16, 70, 1026, 16),
    (SCALAR, 10, 1, 16, 5),
]


@pytest.mark.parametrize(("kernel", "M", "N", "K", "block_size"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
def test_within_rounding_of_float64(
    kernel: str, M: int, N: int, K: int, block_size: int, dtype: torch.dtype, bias: bool
) -> None:
    call = random_call(M, N, K, block_size, dtype, bias, seed=M + N + K)
    reference(call, kernel, block_size).check(launch(kernel, call, block_size))


@settings(max_examples=60, deadline=None)
@given(
    M=st.integers(1, mma_gemv.MAX_M),
    N=st.integers(1, 400),
    windows=st.integers(1, 24),
    dtype=st.sampled_from(DTYPES),
    bias=st.booleans(),
)
def test_mma_gemv_of_any_shape(M: int, N: int, windows: int, dtype: torch.dtype, bias: bool) -> None:
    call = random_call(M, N, 128 * windows, 16, dtype, bias, seed=M + N)
    reference(call, MMA).check(launch(MMA, call))


def exact_call(M: int, N: int, K: int, dtype: torch.dtype, *, bias: bool = True) -> Call:
    """Integer activations, scales of 0.5, 1 and 2: every sum of products is exact in float32, in any order."""
    generator = torch.Generator().manual_seed(K)
    integer = partial(torch.randint, generator=generator)
    a = integer(-4, 5, (M, K)).to(dtype)
    weight = pack(integer(0, 16, (N, K), dtype=torch.uint8))
    scale = torch.tensor([0.5, 1.0, 2.0])[integer(0, 3, (N, K // 16))].to(torch.float8_e4m3fn)
    values = integer(-8, 9, (N,)).to(dtype) if bias else None
    return Call(a, weight, scale, torch.tensor(0.5), values)


@pytest.mark.parametrize(
    ("kernel", "M", "N", "K"),
    [(MMA, 1, 100, 4096), (MMA, 8, 700, 17408), (MMA, 32, 65, 5120), (GEMV, 8, 100, 17376), (FLAT, 64, 96, 5120)],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_sums(kernel: str, M: int, N: int, K: int, dtype: torch.dtype) -> None:
    call = exact_call(M, N, K, dtype)
    assert call.bias is not None
    w = dequantize_nvfp4(call.weight, call.weight_scale, call.weight_scale_2, dtype=torch.float32).double()
    exact = call.a.double() @ w.T + call.bias.double()
    assert torch.equal(launch(kernel, call).cpu(), exact.to(dtype))
    torch.testing.assert_close(exact.float().double(), exact, rtol=0, atol=0)  # it was exact


@pytest.mark.parametrize(("kernel", "M", "K"), [(MMA, 8, 256), (MMA, 32, 256), (GEMV, 8, 96), (FLAT, 128, 128)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_unit_rows_give_the_weight_back(kernel: str, M: int, K: int, dtype: torch.dtype) -> None:
    """Codes and scales in every place along K; with a power of two as tensor scale both orders of rounding agree."""
    N = 300
    call = random_call(M, N, K, seed=3)._replace(weight_scale_2=torch.tensor(0.25))
    w = dequantize_nvfp4(call.weight, call.weight_scale, call.weight_scale_2, dtype=dtype)
    for first in range(0, K, M):
        a = torch.eye(K, dtype=dtype)[first : first + M].contiguous()
        result = launch(kernel, call._replace(a=a))
        torch.testing.assert_close(result.cpu(), w.T[first : first + M], rtol=0, atol=0)


@pytest.mark.parametrize(("kernel", "K"), [(MMA, 256), (GEMV, 96), (VEC8, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_scales_reach_their_row_only(kernel: str, K: int, dtype: torch.dtype) -> None:
    call = random_call(3, 40, K, dtype=dtype)
    call.weight_scale.view(torch.uint8)[7, -1] = 0x7F
    call.weight_scale.view(torch.uint8)[25, 0] = 0xFF
    nan = launch(kernel, call).isnan().cpu()
    assert nan[:, [7, 25]].all()
    assert nan.sum() == 6


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_scale_and_code_in_the_mma_operand(dtype: torch.dtype) -> None:
    """All 16 codes by all 256 scales through the tensor cores, subnormal operands included."""
    codes = torch.arange(16, dtype=torch.uint8).repeat(256, 8)
    scale = torch.arange(256, dtype=torch.uint8).view(256, 1).repeat(1, 8).view(torch.float8_e4m3fn)
    for column in range(16):
        a = torch.zeros((1, 128), dtype=dtype)
        a[0, column] = 1
        call = Call(a, pack(codes), scale, torch.tensor(1.0), None)
        expected = torch.tensor(E2M1_VALUES[column]) * scale.float()[:, 0]
        result = launch(MMA, call).cpu()[0]
        torch.testing.assert_close(result.float(), expected.to(dtype).float(), rtol=0, atol=0, equal_nan=True)


def test_results_repeat_bit_by_bit() -> None:
    call = random_call(8, 3000, 4096, dtype=torch.bfloat16)
    first = bits(launch(MMA, call))
    for _ in range(5):
        assert torch.equal(bits(launch(MMA, call)), first)


def test_weight_beyond_32_bit_indices() -> None:
    N, K, tail = 600_000, 8192, 48
    assert N * K // 2 > 2**31
    weight = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=CUDA)
    scale = torch.randint(0, 0x59, (N, K // 16), dtype=torch.uint8, device=CUDA).view(torch.float8_e4m3fn)
    call = random_call(2, 1, K)._replace(weight=weight, weight_scale=scale)
    for kernel in (MMA, GEMV):
        result = launch(kernel, call)
        for rows in (slice(0, tail), slice(N // 2, N // 2 + tail), slice(N - tail, N)):
            part = call._replace(weight=weight[rows], weight_scale=scale[rows])
            reference(part, kernel).check(result[:, rows])

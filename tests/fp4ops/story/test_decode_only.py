"""A suite as one finds them: many shapes, both dtypes, with and without bias, all green, and all of them decode shapes.

M is at most 8, block_size 16, K a multiple of 32. Dispatch coverage says what is missing; ``test_four_more.py`` adds
it.
"""

from __future__ import annotations

import pytest
import torch

from fp4ops import dequantize_nvfp4, matmul_nvfp4, quantize_nvfp4

DTYPES = [torch.float16, torch.bfloat16]


def case(M: int, N: int, K: int, dtype: torch.dtype, bias: bool) -> None:
    """Compare the operator with a float32 matmul by the dequantised weight."""
    generator = torch.Generator().manual_seed(M * N * K)
    a = torch.randn(M, K, generator=generator).to(dtype)
    weight = quantize_nvfp4(torch.randn(N, K, generator=generator))
    b = torch.randn(N, generator=generator).to(dtype) if bias else None
    expected = a.float() @ dequantize_nvfp4(*weight, dtype=torch.float32).T
    if b is not None:
        expected += b.float()
    torch.testing.assert_close(matmul_nvfp4(a, *weight, b), expected.to(dtype), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("K", [32, 64, 96, 160, 1056])
@pytest.mark.parametrize("M", [1, 2, 4, 8])
def test_rows_and_columns(M: int, K: int, dtype: torch.dtype, bias: bool) -> None:
    case(M, 64, K, dtype, bias)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("N", "K"), [(1, 32), (7, 96), (96, 160), (256, 544), (1000, 96), (512, 2080)])
def test_layer_shapes(N: int, K: int, dtype: torch.dtype) -> None:
    case(4, N, K, dtype, bias=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_long_inner_dimension(dtype: torch.dtype) -> None:
    case(1, 16, 17440, dtype, bias=True)

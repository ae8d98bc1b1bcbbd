"""The four cases that ``test_decode_only.py`` lacks: one for each bin that its dispatch coverage reports as missed."""

from __future__ import annotations

import pytest
import torch

from fp4ops import dequantize_nvfp4, matmul_nvfp4, quantize_nvfp4


@pytest.mark.parametrize(
    ("M", "N", "K", "block_size", "dtype", "bias"),
    [
        pytest.param(16, 64, 80, 16, torch.float16, False, id="vec8"),
        pytest.param(16, 64, 80, 16, torch.bfloat16, True, id="vec8-bias"),
        pytest.param(16, 64, 64, 15, torch.float16, False, id="odd-block"),
        pytest.param(16, 64, 60, 16, torch.bfloat16, False, id="ragged-K"),
    ],
)
def test_prefill(M: int, N: int, K: int, block_size: int, dtype: torch.dtype, bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(M, K, generator=generator).to(dtype)
    weight = quantize_nvfp4(torch.randn(N, K, generator=generator), block_size)
    b = torch.randn(N, generator=generator).to(dtype) if bias else None
    expected = a.float() @ dequantize_nvfp4(*weight, block_size=block_size, dtype=dtype).float().T
    if b is not None:
        expected += b.float()
    result = matmul_nvfp4(a, *weight, b, block_size=block_size)
    torch.testing.assert_close(result, expected.to(dtype), rtol=2e-2, atol=2e-2)

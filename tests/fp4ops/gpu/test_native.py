"""The quantisation kernel of the native path, which runs on any GPU; the matmul behind it needs sm_120."""

from __future__ import annotations

import pytest
import torch

from fp4ops.kernels.cuda import native
from fp4ops.quantize import quantize_rows

CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(("M", "K"), [(1, 16), (7, 64), (128, 32), (130, 4096), (300, 5120)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_activations_are_quantised_as_on_the_cpu(M: int, K: int, dtype: torch.dtype) -> None:
    a = torch.randn((M, K), generator=torch.Generator().manual_seed(M)).to(dtype)
    a[0, :8] = torch.tensor([0.0, -0.0, 1e-4, -1e-4, 5.0, -5.0, 2.5, 0.25])
    expected = quantize_rows(a, 16)
    result = native.quantize_activations(a.to(CUDA))
    torch.testing.assert_close(result.scale_2.cpu(), expected.weight_scale_2, rtol=0, atol=0)
    tiles = native.swizzle_scales(expected.weight_scale)
    torch.testing.assert_close(result.scale.cpu().view(torch.uint8), tiles.view(torch.uint8), rtol=0, atol=0)
    torch.testing.assert_close(result.codes.cpu(), expected.weight, rtol=0, atol=0)


def test_zeros() -> None:
    result = native.quantize_activations(torch.zeros((3, 32), dtype=torch.float16, device=CUDA))
    torch.testing.assert_close(result.codes.cpu(), torch.zeros((3, 16), dtype=torch.uint8), rtol=0, atol=0)
    torch.testing.assert_close(result.scale_2.cpu(), torch.tensor(1.0), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_ties_go_to_the_even_code(dtype: torch.dtype) -> None:
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0])
    a = torch.cat((ties, -ties)).repeat(2, 1).to(dtype)  # block scale times tensor scale is 1
    result = native.quantize_activations(a.to(CUDA))
    low = result.codes.cpu() & 15
    high = result.codes.cpu() >> 4
    codes = torch.stack((low, high), dim=-1).flatten(1)[0]
    expected = torch.tensor([0, 2, 2, 4, 4, 6, 6, 7, 8, 10, 10, 12, 12, 14, 14, 15], dtype=torch.uint8)
    torch.testing.assert_close(codes, expected, rtol=0, atol=0)

"""The ten shapes of a test-suite of ONNX Runtime's NVFP4 operator, and the kernel that each reaches here.

They look like a mix of decode (M = 1, 2) and prefill (M >= 9). Five of them reach one kernel, and M says little:
K = 16, 24 and 48 are no multiples of 32, so four of the six M <= 2 shapes are not decode.
"""

from __future__ import annotations

import pytest
import torch

from dispatchcov.plugin.assertions import DispatchTrace
from fp4ops import matmul_nvfp4
from fp4ops.testing import random_call, reference

FLAT, VEC8, SCALAR = "DequantizeNvFp4FlatKernel", "DequantizeNvFp4Vec8Kernel", "DequantizeNvFp4Kernel"
GEMV = "Fp4GemvKernel"
HALF, BF16 = torch.float16, torch.bfloat16

SHAPES = [
    (2, 2, 16, 16, HALF, False, VEC8),
    (1, 2, 16, 16, BF16, True, VEC8),
    (2, 2, 64, 16, HALF, False, GEMV),
    (1, 2, 32, 16, BF16, True, GEMV),
    (1, 2, 24, 16, HALF, False, VEC8),
    (1, 1, 48, 16, BF16, False, VEC8),
    (16, 3, 24, 6, HALF, False, VEC8),
    (9, 2, 64, 16, BF16, True, FLAT),
    (10, 1, 16, 5, HALF, False, SCALAR),
    (12, 2, 12, 4, BF16, False, SCALAR),
]


@pytest.mark.parametrize(("M", "N", "K", "block_size", "dtype", "bias", "kernel"), SHAPES)
def test_shape(
    dispatch_trace: DispatchTrace, M: int, N: int, K: int, block_size: int, dtype: torch.dtype, bias: bool, kernel: str
) -> None:
    call = random_call(M, N, K, block_size, dtype, bias)
    result = matmul_nvfp4(*call, block_size=block_size)
    assert [decision.kernel for decision in dispatch_trace.decisions] == [kernel]
    reference(call, kernel, block_size).check(result)


def test_what_the_ten_shapes_reach() -> None:
    kernels = [shape[-1] for shape in SHAPES]
    assert {kernel: kernels.count(kernel) for kernel in kernels} == {VEC8: 5, GEMV: 2, FLAT: 1, SCALAR: 2}

"""Every partition that this machine can reach, through the operator: the kernel selected, launched and right."""

from __future__ import annotations

import pytest
import torch

from dispatchcov.plugin.assertions import DispatchTrace
from fp4ops import matmul_nvfp4
from fp4ops.testing import Call, random_call, reference

CASES = [  # partition, M, N, K, block_size
    ("decode", 1, 4096, 4096, 16),
    ("decode", 8, 17408, 5120, 16),
    ("decode", 32, 300, 640, 16),
    ("decode", 5, 77, 4064, 16),
    ("prefill-flat", 64, 512, 4096, 16),
    ("prefill-flat", 9, 33, 192, 32),
    ("prefill-flat", 40, 130, 1024, 8),
    ("prefill-vec8", 64, 512, 4104, 16),
    ("vec8-scale-inside-chunk", 40, 96, 1032, 6),
    ("vec8-row-loop", 3, 65600, 24, 16),
    ("odd-block", 48, 96, 1024, 5),
    ("ragged-K", 48, 96, 1026, 16),
    ("small-M-prefill", 4, 96, 4080, 16),
    ("zero-k", 4, 96, 0, 16),
    ("empty", 0, 96, 128, 16),
]


def on_gpu(call: Call) -> Call:
    return Call(*(None if part is None else part.cuda() for part in call))  # type: ignore[arg-type]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("partition", "M", "N", "K", "block_size"), CASES)
def test_partition(
    dispatch_trace: DispatchTrace,
    partition: str,
    M: int,
    N: int,
    K: int,
    block_size: int,
    dtype: torch.dtype,
    bias: bool,
) -> None:
    call = random_call(M, N, K, block_size, dtype, bias)
    result = matmul_nvfp4(*on_gpu(call), block_size=block_size)
    dispatch_trace.assert_reached(partition, evidence="launched")
    (decision,) = dispatch_trace.decisions
    assert decision.machine == torch.cuda.get_device_name()
    if M == 0 or K == 0:
        expected = torch.zeros(M, N, dtype=dtype) if call.bias is None else call.bias.expand(M, N)
        torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)
    else:
        reference(call, decision.kernel, block_size).check(result)

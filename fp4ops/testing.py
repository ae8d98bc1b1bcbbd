"""Inputs and the float64 reference that tests and benchmarks compare against, for CPU and GPU alike."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from unittest import mock

import torch
from torch import Tensor

from fp4ops.format import Layout
from fp4ops.kernels.cpu import gemv, mma_gemv, native
from fp4ops.machine import TABLE
from fp4ops.op import matmul_nvfp4
from fp4ops.quantize import Quantized, dequantize_nvfp4, quantize_rows


class Call(NamedTuple):
    """The positional arguments of ``matmul_nvfp4``."""

    a: Tensor
    weight: Tensor
    weight_scale: Tensor
    weight_scale_2: Tensor
    bias: Tensor | None


class Reference(NamedTuple):
    """What a kernel may return: ``value`` plus or minus ``bound``, both float64 ``[M, N]``."""

    value: Tensor
    bound: Tensor

    def check(self, result: Tensor) -> None:
        """AssertionError where ``result`` is further from ``value`` than ``bound``, or not of its shape."""
        assert result.shape == self.value.shape, f"expected shape {self.value.shape}, got {result.shape}"
        excess = ((result.cpu().double() - self.value).abs() - self.bound).clamp(min=0)
        torch.testing.assert_close(excess, torch.zeros_like(excess), rtol=0, atol=0)


def random_weight(N: int, K: int, block_size: int = 16, *, seed: int = 0, scale_2: float = 0.0137) -> Quantized:
    """Random bytes, and random finite e4m3 scales of both signs with magnitudes from 2^-9 to 16."""
    layout = Layout(N, K, block_size)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randint(0, 256, layout.weight_shape, dtype=torch.uint8, generator=generator)
    scale = torch.randint(0, 0x59, layout.scale_shape, dtype=torch.uint8, generator=generator)
    scale |= torch.randint(0, 2, layout.scale_shape, dtype=torch.uint8, generator=generator) << 7
    return Quantized(weight, scale.view(torch.float8_e4m3fn), torch.tensor(scale_2, dtype=torch.float32))


def random_call(
    M: int,
    N: int,
    K: int,
    block_size: int = 16,
    dtype: torch.dtype = torch.float16,
    bias: bool = False,
    *,
    seed: int = 0,
) -> Call:
    """A call with normal activations ``[M, K]``."""
    generator = torch.Generator().manual_seed(seed + 1)
    a = torch.randn((M, K), generator=generator).to(dtype)
    values = torch.randn(N, generator=generator).to(dtype) if bias else None
    return Call(a, *random_weight(N, K, block_size, seed=seed), values)


def run_facts(
    *, M: int, N: int, K: int, block_size: int, dtype: str, bias: bool, sm: int, native: bool, dequantize: str = "auto"
) -> None:
    """Call the operator on the CPU with these facts, one keyword for each variable of the dispatch table, and compare
    with :func:`reference`: what ``dispatchcov suggest --call fp4ops.testing:run_facts`` writes tests for.
    """
    call = random_call(M, N, K, block_size, getattr(torch, dtype), bias)
    switches = {"FP4OPS_TARGET": f"sm_{sm}", "FP4OPS_NATIVE": str(int(native)), "FP4OPS_DEQUANTIZE": dequantize}
    with mock.patch.dict(os.environ, switches):
        result = matmul_nvfp4(*call, block_size=block_size)
    facts = {"M": M, "N": N, "K": K, "block_size": block_size, "dtype": dtype, "bias": bias, "sm": sm}
    rule = TABLE.explain(**facts, native=native, dequantize=dequantize)  # type: ignore[arg-type]  # of several types
    kernel = re.search(r"selected, kernel (\S+)", rule)
    assert kernel is not None, rule
    reference(call, kernel[1], block_size).check(result)


def reference(call: Call, kernel: str, block_size: int = 16) -> Reference:
    """The float64 result for ``kernel``, from the numbers that this kernel multiplies, and its error bound.

    A dequantising kernel multiplies weights rounded to the dtype of ``a``; a decode kernel exact ones; the native
    kernel exact ones by quantised activations. The bound is K + 3 float32 roundings of the sum of magnitudes, and one
    rounding of the result.
    """
    a = call.a.cpu()
    quantized = Quantized(*(tensor.cpu() for tensor in call[1:4]))
    if kernel in (mma_gemv.KERNEL, gemv.KERNEL, native.KERNEL):
        w = _exact(quantized, block_size)
    else:
        w = dequantize_nvfp4(*quantized, block_size=block_size, dtype=a.dtype).double()
    x = _exact(quantize_rows(a, block_size), block_size) if kernel == native.KERNEL else a.double()
    value, magnitude = x @ w.T, x.abs() @ w.abs().T
    if call.bias is not None:
        bias = call.bias.cpu().double()
        value, magnitude = value + bias, magnitude + bias.abs()
    info = torch.finfo(a.dtype)
    bound = (a.shape[-1] + 3) * 2.0**-24 * magnitude * (1 + info.eps)
    return Reference(value, bound + info.eps / 2 * value.abs() + info.smallest_normal * info.eps)


def _exact(quantized: Quantized, block_size: int) -> Tensor:
    """The matrix in float64, where no product is rounded: ``[N, K]``."""
    weight, weight_scale, weight_scale_2 = quantized
    ones = torch.ones((), dtype=torch.float32, device="cpu")
    folded = dequantize_nvfp4(weight, weight_scale, ones, block_size=block_size, dtype=torch.float32)
    return folded.double() * weight_scale_2.double()


def bits(values: Tensor) -> Tensor:
    """A float16 or bfloat16 tensor as int16, so that -0.0 and NaN compare by their bits."""
    return values.cpu().view(torch.int16)

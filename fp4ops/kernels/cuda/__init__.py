"""CUDA kernels: kernel name (as in ``dispatch.toml``) -> launcher. Importing compiles nothing and touches no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fp4ops.kernels import Dequantizer
from fp4ops.kernels.cuda import dequantize, gemv, mma_gemv, native
from fp4ops.kernels.degenerate import empty, fill_bias
from fp4ops.problem import Launcher

LAUNCHERS: Mapping[str, Launcher] = MappingProxyType(
    {
        "Empty": empty,
        "FillBias": fill_bias,
        mma_gemv.KERNEL: mma_gemv.launch,
        gemv.KERNEL: gemv.launch,
        native.KERNEL: native.launch,
        **dequantize.LAUNCHERS,
    }
)

DEQUANTIZERS: Mapping[str, Dequantizer] = MappingProxyType(dequantize.DEQUANTIZERS)

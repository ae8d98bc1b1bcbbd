"""CPU twins: each emulates one kernel with that kernel's own chunking, in vectorised torch. They are the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fp4ops.kernels import Dequantizer
from fp4ops.kernels.cpu import flat, gemv, mma_gemv, native, scalar, vec8
from fp4ops.kernels.degenerate import empty, fill_bias
from fp4ops.problem import Launcher

LAUNCHERS: Mapping[str, Launcher] = MappingProxyType(
    {
        "Empty": empty,
        "FillBias": fill_bias,
        mma_gemv.KERNEL: mma_gemv.launch,
        gemv.KERNEL: gemv.launch,
        native.KERNEL: native.launch,
        flat.KERNEL: flat.launch,
        vec8.KERNEL: vec8.launch,
        scalar.KERNEL: scalar.launch,
    }
)

DEQUANTIZERS: Mapping[str, Dequantizer] = MappingProxyType(
    {flat.KERNEL: flat.dequantize, vec8.KERNEL: vec8.dequantize, scalar.KERNEL: scalar.dequantize}
)

"""The NVFP4 weight format: code table, packing, scale layout, shapes.

A weight matrix ``[N, K]`` is stored as three tensors:

====================  ======================================  ==================================================
tensor                shape, dtype                            meaning
====================  ======================================  ==================================================
``weight``            ``[N, K / 2]`` uint8                    two E2M1 codes a byte, the low nibble the even column
``weight_scale``      ``[N, ceil(K / block_size)]`` e4m3fn    one scale for ``block_size`` neighbours of a row
``weight_scale_2``    one float32                             one scale for the whole matrix
====================  ======================================  ==================================================

The value of an element is ``e2m1 * (e4m3 * weight_scale_2)``, both products in float32 and in that order.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import torch
from torch import Tensor

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""Value of each 4-bit code: bit 3 the sign, bits 2-1 the exponent (bias 1), bit 0 the mantissa."""

E2M1_MAX = 6.0
E4M3_MAX = 448.0
E4M3_SMALLEST = 2.0**-9
"""The smallest positive e4m3 value, a subnormal."""

NAN_BITS = 0x7FFF
"""The one NaN that a dequantised float16 or bfloat16 weight may hold: what the conversions of a GPU give."""


def ceildiv(a: int, b: int) -> int:
    """The least integer that is at least ``a / b``."""
    return -(-a // b)


def check_block_size(block_size: object) -> None:
    """TypeError unless ``block_size`` is an integer (a truth value is none), ValueError unless it is at least 1."""
    if isinstance(block_size, bool) or not isinstance(block_size, numbers.Integral | torch.SymInt):
        raise TypeError(f"block_size: expected an integer, got {type(block_size).__name__} {block_size!r}")
    if block_size < 1:
        raise ValueError(f"block_size: expected at least 1, got {block_size}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Shapes of one NVFP4 matrix ``[N, K]``; ValueError, or TypeError for ``block_size``, if there is no such one."""

    N: int
    K: int
    block_size: int = 16

    def __post_init__(self) -> None:
        if self.N < 0 or self.K < 0:
            raise ValueError(f"expected N >= 0 and K >= 0, got N = {self.N}, K = {self.K}")
        if self.K % 2:
            raise ValueError(f"K: expected an even number (two elements a byte), got {self.K}")
        check_block_size(self.block_size)

    @property
    def blocks(self) -> int:
        """Scales in a row; the last block may be partial."""
        return ceildiv(self.K, self.block_size)

    @property
    def weight_shape(self) -> tuple[int, int]:
        return self.N, self.K // 2

    @property
    def scale_shape(self) -> tuple[int, int]:
        return self.N, self.blocks

    @property
    def nbytes(self) -> int:
        """Bytes of the three tensors together."""
        return self.N * (self.K // 2 + self.blocks) + 4


def pack(codes: Tensor) -> Tensor:
    """Pack E2M1 codes ``[N, K]`` (uint8, 0 to 15) into ``[N, K / 2]`` uint8, the low nibble the even column."""
    if codes.dtype != torch.uint8 or codes.dim() != 2 or codes.shape[1] % 2:
        raise ValueError(f"codes: expected uint8 [N, K] with K even, got {codes.dtype} {list(codes.shape)}")
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpack(packed: Tensor) -> Tensor:
    """The E2M1 codes ``[N, K]`` (uint8, 0 to 15) of packed bytes ``[N, K / 2]`` (uint8)."""
    if packed.dtype != torch.uint8 or packed.dim() != 2:
        raise ValueError(f"packed: expected uint8 [N, K / 2], got {packed.dtype} {list(packed.shape)}")
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)


def block_of_column(K: int, block_size: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Which scale of its row each of ``K`` columns takes: int32 ``[K]``."""
    return torch.arange(K, dtype=torch.int32, device=device) // max(1, min(block_size, K))  # fits 32 bits, as K does


def one_nan_(values: Tensor) -> Tensor:
    """Replace, in place, every NaN of a float16 or bfloat16 tensor by :data:`NAN_BITS`.

    torch's conversion from float32 gives one NaN in its vector loop and another in the rest, so its bits depend on the
    length.
    """
    values.view(torch.int16).masked_fill_(values.isnan(), NAN_BITS)
    return values

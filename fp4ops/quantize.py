"""float -> NVFP4 (round to nearest, ties to even) and NVFP4 -> float, in plain torch operations on any device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fp4ops import format as nvfp4
from fp4ops.problem import check_weight

# Between code i and code i + 1. A tie goes to the even code: upwards from an odd i, so there the bound itself must lie
# above the threshold, which is therefore one float32 lower.
_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_THRESHOLDS = tuple(m * (1 - 2.0**-24) if i % 2 else m for i, m in enumerate(_MIDPOINTS))


class Quantized(NamedTuple):
    """An NVFP4 matrix; unpacks in the order of the arguments of ``matmul_nvfp4``."""

    weight: Tensor
    weight_scale: Tensor
    weight_scale_2: Tensor


def quantize_nvfp4(w: Tensor, block_size: int = 16) -> Quantized:
    """Quantise a matrix to NVFP4.

    ``weight_scale_2`` maps the largest magnitude of the matrix to ``6 * 448``; each block's scale maps the block's
    largest magnitude to 6 and is rounded to e4m3 (never to zero); elements are rounded to the nearest E2M1 value, ties
    to the even code.

    :param w: ``[N, K]`` of a floating dtype, K even, all elements finite in float32.
    :param block_size: elements of a row that share one scale, at least 1; the last block of a row may be partial.
    :return: ``weight`` uint8 ``[N, K / 2]``, ``weight_scale`` float8_e4m3fn ``[N, ceil(K / block_size)]``,
        ``weight_scale_2`` float32 0-dim; on the device of ``w``.
    :raises TypeError: ``w`` is not floating, block_size no integer. :raises ValueError: wrong rank, odd K, bad
        block_size, the meta device, NaN or infinity.
    """
    if not w.is_floating_point():
        raise TypeError(f"w: expected a floating dtype, got {w.dtype}")
    if w.dim() != 2:
        raise ValueError(f"w: expected shape [N, K], got {list(w.shape)}")
    nvfp4.Layout(w.shape[0], w.shape[1], block_size)
    if w.is_meta:
        raise ValueError("w: expected a tensor with values, got one on the meta device")
    w = w.detach().to(torch.float32)
    if not bool(w.isfinite().all()):
        raise ValueError("w: expected elements that are finite in float32, got NaN or infinity")
    return quantize_rows(w, block_size)


def quantize_rows(w: Tensor, block_size: int) -> Quantized:
    """:func:`quantize_nvfp4` without its checks: one NaN or infinity makes every dequantised element NaN."""
    w = w.to(torch.float32)
    N, K = w.shape
    block_size = max(1, min(block_size, K))  # a longer block would only be padded
    blocks = nvfp4.ceildiv(K, block_size)
    amax = w.abs().amax() if w.numel() else w.new_zeros(())
    # The lower bound keeps e4m3 * weight_scale_2 above zero, so nothing is divided by zero below.
    scale_2 = torch.where(amax == 0, 1.0, (amax / (nvfp4.E2M1_MAX * nvfp4.E4M3_MAX)).clamp(min=2.0**-126))

    padded = torch.nn.functional.pad(w, (0, blocks * block_size - K)).view(N, blocks, block_size)
    block_amax = padded.abs().amax(dim=2)
    scale = (block_amax / nvfp4.E2M1_MAX / scale_2).clamp(nvfp4.E4M3_SMALLEST, nvfp4.E4M3_MAX)
    scale = scale.to(torch.float8_e4m3fn)

    scaled = padded / (scale.to(torch.float32) * scale_2).unsqueeze(2)
    codes = encode(scaled.view(N, blocks * block_size)[:, :K])
    return Quantized(nvfp4.pack(codes), scale, scale_2)


def encode(x: Tensor) -> Tensor:
    """The E2M1 code (uint8) nearest to each float32 element, ties to the even code; beyond 6 saturates."""
    thresholds = torch.tensor(_THRESHOLDS, dtype=torch.float32, device=x.device)
    magnitude = torch.bucketize(x.abs().contiguous(), thresholds, out_int32=True).to(torch.uint8)
    return magnitude | x.signbit().to(torch.uint8) << 3


def dequantize_nvfp4(
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    *,
    block_size: int = 16,
    dtype: torch.dtype = torch.bfloat16,
) -> Tensor:
    """The matrix that NVFP4 tensors stand for: ``round_to_dtype(e2m1 * (e4m3 * weight_scale_2))``.

    The definition that every dequantising kernel equals bit by bit. -0.0 stays -0.0, NaN scales give NaN (one NaN, see
    ``format.NAN_BITS``).

    :param weight: uint8 ``[N, K / 2]``, low nibble the even element.
    :param weight_scale: float8_e4m3fn ``[N, ceil(K / block_size)]``.
    :param weight_scale_2: one float32.
    :param dtype: float16, bfloat16, or float32 for the unrounded product.
    :return: ``[N, K]`` of ``dtype``.
    :raises TypeError: a wrong dtype. :raises ValueError: shapes or devices that do not belong together.
    """
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise TypeError(f"dtype: expected float16, bfloat16 or float32, got {dtype}")
    _, K = check_weight(weight, weight_scale, weight_scale_2, block_size)
    table = torch.tensor(nvfp4.E2M1_VALUES, dtype=torch.float32, device=weight.device)
    columns = nvfp4.block_of_column(K, block_size, device=weight.device)
    scale = weight_scale.to(torch.float32) * weight_scale_2.reshape(())
    values = table[nvfp4.unpack(weight).int()] * scale.index_select(1, columns)
    return values if dtype == torch.float32 else nvfp4.one_nan_(values.to(dtype))

"""What several twins share: the code table, slabs of rows, the GEMM that follows a dequantisation, the epilogue."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fp4ops.format import E2M1_VALUES, one_nan_
from fp4ops.kernels import Dequantizer
from fp4ops.problem import Operands, Problem

_SLAB = 1 << 21  # elements: small enough for the cache, large enough that torch's threads seldom wait for each other

# device="cpu": a twin may be imported under torch.device("meta") or a default device.
_TABLE = torch.tensor(E2M1_VALUES, dtype=torch.float32, device="cpu")
_SHIFTS = torch.arange(0, 32, 4, dtype=torch.int32, device="cpu")


def slabs(rows: range, columns: int) -> Iterator[slice]:
    """Cut ``rows`` into slices that hold at most some 2^21 elements each."""
    step = max(1, _SLAB // max(columns, 1))
    for first in range(rows.start, rows.stop, step):
        yield slice(first, min(first + step, rows.stop))


def decode(codes: Tensor) -> Tensor:
    """E2M1 codes (int32, contiguous) -> their float32 values, in the same shape."""
    return _TABLE.index_select(0, codes.view(-1)).view(codes.shape)


def decode_bytes(packed: Tensor) -> Tensor:
    """Packed bytes ``[R, C]`` -> float32 ``[R, 2 C]``, low nibble first."""
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).int()
    return decode(codes).flatten(1)


def decode_words(words: Tensor) -> Tensor:
    """Words of eight codes (int32, the lowest bits first) -> their float32 values, in a new last dimension."""
    return decode((words.unsqueeze(-1) >> _SHIFTS).bitwise_and_(15))


def fold(packed: Tensor, scale: Tensor) -> Tensor:
    """``e2m1 * e4m3`` of ``[R, C]`` bytes and ``[R, C / 8]`` float32 block scales (16 elements each) -> ``[R, 2 C]``.

    The products are exact, in float16 and bfloat16 too; the tensor scale is left to the epilogue.
    """
    values = decode_bytes(packed).view(*scale.shape, 16)
    return (values * scale.unsqueeze(2)).flatten(1)


def one_nan_if_any(weight: Tensor, scale: Tensor) -> Tensor:
    """A dequantised ``weight`` with one NaN only; it holds none where every float32 ``scale`` is finite."""
    return weight if bool(scale.isfinite().all()) else one_nan_(weight)


def prefill(dequantize: Dequantizer, problem: Problem, operands: Operands) -> Tensor:
    """Dequantise into scratch, then GEMM: ``[M, N]``."""
    a, weight, weight_scale, weight_scale_2, bias = operands
    K, block_size = problem.K, problem.block_size
    dense = dequantize(weight, weight_scale, weight_scale_2, K=K, block_size=block_size, dtype=a.dtype)
    return gemm(a, dense, bias)


def gemm(a: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``a [M, K] @ weight[N, K].T + bias [N]``, accumulated in float32 and rounded once: ``[M, N]``."""
    out = torch.empty((len(a), len(weight)), dtype=a.dtype, device="cpu")
    a = a.float()
    for rows in slabs(range(len(weight)), weight.shape[1]):
        total = a @ weight[rows].float().T
        out[:, rows] = total if bias is None else total + bias[rows].float()
    return out


def epilogue(total: Tensor, scale: Tensor, operands: Operands) -> Tensor:
    """``total * scale + bias`` in float32, rounded once to the dtype of ``a``: ``[M, N]``."""
    total = total * scale
    if operands.bias is not None:
        total = total + operands.bias.float()
    return total.to(operands.a.dtype)

"""Tensors -> frozen ``Problem`` (the facts of a dispatch decision) and ``Operands`` (what kernels read).

Every argument check and every message of ``matmul_nvfp4`` is here; the checks read shapes, dtypes and devices only, so
that the fake implementation makes the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from fp4ops.format import ceildiv

ALIGNMENT = 16
"""Bytes that every operand's address is a multiple of: kernels load and store 16-byte vectors."""

DTYPE_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


class Problem(NamedTuple):
    """The facts that dispatch may read, one field for each variable of ``dispatch.toml``."""

    M: int
    N: int
    K: int
    block_size: int
    dtype: str
    bias: bool
    sm: int
    native: bool
    dequantize: str = "auto"


class Operands(NamedTuple):
    """Checked, flattened, contiguous, 16-byte aligned tensors on one device."""

    a: Tensor
    """``[M, K]`` float16 or bfloat16."""
    weight: Tensor
    """``[N, K / 2]`` uint8, low nibble the even element."""
    weight_scale: Tensor
    """``[N, ceil(K / block_size)]`` float8_e4m3fn."""
    weight_scale_2: Tensor
    """float32, 0-dim; read through its pointer, so no kernel waits for its value."""
    bias: Tensor | None
    """``[N]``, dtype of ``a``."""


Launcher: TypeAlias = Callable[[Problem, Operands], Tensor]
"""Computes ``[M, N]`` in the dtype of ``a``."""


def check_weight(weight: Tensor, weight_scale: Tensor, weight_scale_2: Tensor, block_size: int) -> tuple[int, int]:
    """N and K of an NVFP4 matrix; TypeError for a wrong dtype, ValueError for a wrong shape, device or block_size."""
    if block_size < 1:
        raise ValueError(f"block_size: expected at least 1, got {block_size}")
    _check_dtype("weight", weight, torch.uint8)
    _check_dtype("weight_scale", weight_scale, torch.float8_e4m3fn)
    _check_dtype("weight_scale_2", weight_scale_2, torch.float32)
    if weight.dim() != 2:
        raise ValueError(f"weight: expected shape [N, K / 2], got {list(weight.shape)}")
    N, half = weight.shape
    K = 2 * half
    blocks = ceildiv(K, block_size)
    if weight_scale.dim() != 2 or weight_scale.shape[0] != N or weight_scale.shape[1] != blocks:
        raise ValueError(
            f"weight_scale: expected shape [N, ceil(K / block_size)] = [{N}, {blocks}] "
            f"(K = {K}, block_size = {block_size}), got {list(weight_scale.shape)}"
        )
    if weight_scale_2.numel() != 1:
        raise ValueError(f"weight_scale_2: expected one element, got shape {list(weight_scale_2.shape)}")
    _check_device("weight_scale", weight_scale, "weight", weight)
    _check_device("weight_scale_2", weight_scale_2, "weight", weight)
    return N, K


def check(
    a: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    bias: Tensor | None,
    block_size: int,
) -> tuple[int, int]:
    """N and K of a ``matmul_nvfp4`` call; TypeError for a wrong dtype, ValueError for all else that does not fit."""
    N, K = check_weight(weight, weight_scale, weight_scale_2, block_size)
    if a.dtype not in DTYPE_NAMES:
        raise TypeError(f"a: expected dtype float16 or bfloat16, got {_name(a.dtype)}")
    if a.dim() < 1:
        raise ValueError("a: expected shape [..., K], got a 0-dim tensor")
    columns = a.shape[-1]
    if columns % 2:
        raise ValueError(f"a: expected an even K (weight holds two elements a byte), got K = {columns}")
    if columns != K:
        raise ValueError(f"a: expected K = {K} (weight holds {K // 2} bytes a row), got K = {columns}")
    _check_device("weight", weight, "a", a)
    if bias is not None:
        _check_dtype("bias", bias, a.dtype)
        if bias.dim() != 1 or bias.shape[0] != N:
            raise ValueError(f"bias: expected shape [N] = [{N}], got {list(bias.shape)}")
        _check_device("bias", bias, "a", a)
    return N, K


def prepare(
    a: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    bias: Tensor | None,
    block_size: int,
    *,
    sm: int,
    native: bool,
    dequantize: str = "auto",
) -> tuple[Problem, Operands]:
    """Check the arguments; the facts and the operands of one call, views copied where kernels could not read them."""
    N, K = check(a, weight, weight_scale, weight_scale_2, bias, block_size)
    if a.dim() == 2:
        M = a.shape[0]
    else:
        M = math.prod(a.shape[:-1])
        a = a.reshape(M, K)
    problem = Problem(M, N, K, block_size, DTYPE_NAMES[a.dtype], bias is not None, sm, native, dequantize)
    operands = Operands(
        _plain(a),
        _plain(weight),
        _plain(weight_scale),
        _scalar(weight_scale_2),
        None if bias is None else _plain(bias),
    )
    return problem, operands


def _plain(tensor: Tensor) -> Tensor:
    """``tensor``, or a copy of it if it is not contiguous or not aligned."""
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor


def _scalar(tensor: Tensor) -> Tensor:
    """One float32 as a 0-dim tensor; kernels read it alone, so its own alignment is enough."""
    if tensor.dim():
        tensor = tensor.reshape(())
    return tensor.clone() if tensor.data_ptr() % tensor.itemsize else tensor


def _check_dtype(name: str, tensor: Tensor, dtype: torch.dtype) -> None:
    if tensor.dtype != dtype:
        raise TypeError(f"{name}: expected dtype {_name(dtype)}, got {_name(tensor.dtype)}")


def _check_device(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    if tensor.device != other.device:
        raise ValueError(f"{name}: expected device {other.device} (that of {other_name}), got {tensor.device}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

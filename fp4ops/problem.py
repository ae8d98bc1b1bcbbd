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

from fp4ops.format import check_block_size

ALIGNMENT = 16
"""Bytes that every operand's address is a multiple of: kernels load and store 16-byte vectors."""

_WIDE = {
    torch.float32: "; cast it, or the whole model with model.to(torch.bfloat16), or run it under torch.autocast",
    torch.float64: "; cast it, or the whole model with model.to(torch.bfloat16)",
}
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


def check_types(
    a: object, weight: object, weight_scale: object, weight_scale_2: object, bias: object, block_size: object
) -> None:
    """TypeError for what torch would take for something else: None for an empty tensor, True for 1."""
    operands = {"a": a, "weight": weight, "weight_scale": weight_scale, "weight_scale_2": weight_scale_2, "bias": bias}
    for name, value in operands.items():
        if not isinstance(value, Tensor) and not (name == "bias" and value is None):
            raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    check_block_size(block_size)


def check_weight(weight: Tensor, weight_scale: Tensor, weight_scale_2: Tensor, block_size: int) -> tuple[int, int]:
    """N and K of an NVFP4 matrix; TypeError for a wrong dtype or a block_size that is no integer, ValueError for a
    wrong shape, device or block_size.
    """
    if type(block_size) is not int or block_size < 1:
        check_block_size(block_size)
    if weight.dtype is not torch.uint8:
        raise _wrong_dtype("weight", torch.uint8, weight)
    if weight_scale.dtype is not torch.float8_e4m3fn:
        raise _wrong_dtype("weight_scale", torch.float8_e4m3fn, weight_scale)
    if weight_scale_2.dtype is not torch.float32:
        raise _wrong_dtype("weight_scale_2", torch.float32, weight_scale_2)
    shape = weight.shape
    if len(shape) != 2:
        raise ValueError(f"weight: expected shape [N, K / 2], got {list(shape)}")
    N, half = shape
    K = 2 * half
    blocks = -(-K // block_size)
    if weight_scale.shape != (N, blocks):
        raise ValueError(
            f"weight_scale: expected shape [N, ceil(K / block_size)] = [{N}, {blocks}] "
            f"(K = {K}, block_size = {block_size}), got {list(weight_scale.shape)}"
        )
    if weight_scale_2.numel() != 1:
        raise ValueError(f"weight_scale_2: expected one element, got shape {list(weight_scale_2.shape)}")
    device = weight.device
    if weight_scale.device != device:
        raise _wrong_device("weight_scale", "weight", device, weight_scale)
    if weight_scale_2.device != device:
        raise _wrong_device("weight_scale_2", "weight", device, weight_scale_2)
    return N, K


def check(
    a: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    bias: Tensor | None,
    block_size: int,
) -> tuple[torch.Size, int, int]:
    """Shape of ``a``, N and K of a ``matmul_nvfp4`` call; TypeError for a wrong dtype, ValueError for all else."""
    N, K = check_weight(weight, weight_scale, weight_scale_2, block_size)
    if a.dtype not in DTYPE_NAMES:
        raise TypeError(f"a: expected dtype float16 or bfloat16, got {_name(a.dtype)}{_WIDE.get(a.dtype, '')}")
    shape = a.shape
    if not shape:
        raise ValueError("a: expected shape [..., K], got a 0-dim tensor")
    columns = shape[-1]
    if columns != K:
        if columns % 2:
            raise ValueError(f"a: expected an even K (weight holds two elements a byte), got K = {columns}")
        raise ValueError(f"a: expected K = {K} (weight holds {K // 2} bytes a row), got K = {columns}")
    device = a.device
    if weight.device != device:
        raise _wrong_device("weight", "a", device, weight)
    if bias is not None:
        if bias.dtype is not a.dtype:
            raise _wrong_dtype("bias", a.dtype, bias)
        if bias.shape != (N,):
            raise ValueError(f"bias: expected shape [N] = [{N}], got {list(bias.shape)}")
        if bias.device != device:
            raise _wrong_device("bias", "a", device, bias)
    return shape, N, K


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
    shape, N, K = check(a, weight, weight_scale, weight_scale_2, bias, block_size)
    if len(shape) == 2:
        M = shape[0]
    else:
        M = math.prod(shape[:-1])
        a = a.reshape(M, K)
    if not a.is_contiguous() or a.data_ptr() % ALIGNMENT:
        a = _copied(a)
    if not weight.is_contiguous() or weight.data_ptr() % ALIGNMENT:
        weight = _copied(weight)
    if not weight_scale.is_contiguous() or weight_scale.data_ptr() % ALIGNMENT:
        weight_scale = _copied(weight_scale)
    if weight_scale_2.dim() or weight_scale_2.data_ptr() % 4:
        weight_scale_2 = _scalar(weight_scale_2)
    if bias is not None and (not bias.is_contiguous() or bias.data_ptr() % ALIGNMENT):
        bias = _copied(bias)
    problem = Problem(M, N, K, block_size, DTYPE_NAMES[a.dtype], bias is not None, sm, native, dequantize)
    return problem, Operands(a, weight, weight_scale, weight_scale_2, bias)


def _copied(tensor: Tensor) -> Tensor:
    """A contiguous copy at an aligned address; TypeError for a sparse tensor."""
    if tensor.layout is not torch.strided:
        raise TypeError(f"expected strided tensors, got layout {_name(tensor.layout)} of shape {list(tensor.shape)}")
    return tensor.clone(memory_format=torch.contiguous_format)


def _scalar(tensor: Tensor) -> Tensor:
    """One float32 as a 0-dim tensor; kernels read it alone, so its own alignment is enough."""
    if tensor.dim():
        tensor = tensor.reshape(())
    return tensor.clone() if tensor.data_ptr() % tensor.itemsize else tensor


def _wrong_dtype(name: str, dtype: torch.dtype, tensor: Tensor) -> TypeError:
    return TypeError(f"{name}: expected dtype {_name(dtype)}, got {_name(tensor.dtype)}")


def _wrong_device(name: str, other: str, device: torch.device, tensor: Tensor) -> ValueError:
    return ValueError(f"{name}: expected device {device} (that of {other}), got {tensor.device}")


def _name(dtype: torch.dtype | torch.layout) -> str:
    return str(dtype).removeprefix("torch.")

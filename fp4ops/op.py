"""``torch.ops.fp4ops.matmul_nvfp4``: check, decide, launch; the fake implementation and the gradient.

The body runs when the operator runs, also under ``torch.compile``, which sees it as one opaque node: a decision is
made, and recorded, for each execution.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from fp4ops.eager import plain
from fp4ops.kernels import launchers
from fp4ops.machine import machine
from fp4ops.problem import check, check_types, prepare
from fp4ops.quantize import dequantize_nvfp4

LIBRARY = torch.library.Library("fp4ops", "DEF")  # type: ignore[no-untyped-call]
LIBRARY.define(  # type: ignore[no-untyped-call]
    "matmul_nvfp4(Tensor a, Tensor weight, Tensor weight_scale, Tensor weight_scale_2, Tensor? bias=None, *, "
    "int block_size=16) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
OP = torch.ops.fp4ops.matmul_nvfp4.default


def matmul_nvfp4(
    a: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    bias: Tensor | None = None,
    *,
    block_size: int = 16,
) -> Tensor:
    """``a @ W.T + bias`` with an NVFP4 weight ``W``; products are summed in float32 and rounded once.

    Which kernel runs is the decision of ``dispatch.toml``. Every operand may be a view: one that is not contiguous or
    not 16-byte aligned is copied first. ``a`` and ``bias`` get gradients; the quantised weight cannot. Under
    ``torch.autocast`` both are cast to its dtype first, as those of a linear layer are (float64 is not).

    :param a: ``[..., K]`` float16 or bfloat16; leading dimensions are flattened into M.
    :param weight: uint8 ``[N, K / 2]``, low nibble the even element.
    :param weight_scale: float8_e4m3fn ``[N, ceil(K / block_size)]``; NaN gives NaN.
    :param weight_scale_2: one float32.
    :param bias: ``[N]`` of the dtype of ``a``, or None.
    :param block_size: elements of a weight row that share one scale.
    :return: ``[..., N]`` of the dtype of ``a``; K = 0 gives bias or zeros.
    :raises TypeError: a wrong dtype, or what is no tensor or no block_size at all.
    :raises ValueError: shapes or devices that do not belong together, or a switch that is not understood.
    """
    if plain(a, weight, weight_scale, weight_scale_2, bias):
        return _run(a, weight, weight_scale, weight_scale_2, bias, block_size=block_size)
    if not is_compiling():
        check_types(a, weight, weight_scale, weight_scale_2, bias, block_size)
    result: Tensor = OP(a, weight, weight_scale, weight_scale_2, bias, block_size=block_size)
    return result


def _run(
    a: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    bias: Tensor | None = None,
    *,
    block_size: int = 16,
) -> Tensor:
    sm, native, dequantize, backend, decide = machine(a.device)
    problem, operands = prepare(
        a, weight, weight_scale, weight_scale_2, bias, block_size, sm=sm, native=native, dequantize=dequantize
    )
    decision = decide(
        M=problem.M,
        N=problem.N,
        K=problem.K,
        block_size=block_size,
        dtype=problem.dtype,
        bias=problem.bias,
        sm=sm,
        native=native,
        dequantize=dequantize,
    )
    with decision.launch():
        result = launchers(backend)[decision.kernel](problem, operands)
    return result if a.dim() == 2 else result.view(*a.shape[:-1], problem.N)


def _autocast(
    device: str,
    a: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    bias: Tensor | None = None,
    *,
    block_size: int = 16,
) -> Tensor:
    """The operator with ``a`` and ``bias`` in the dtype of autocast on ``device``; the weight stays as it is."""
    dtype = torch.get_autocast_dtype(device)
    a, bias = _cast(a, device, dtype), bias if bias is None else _cast(bias, device, dtype)
    with torch.autocast(device, enabled=False):
        result: Tensor = OP(a, weight, weight_scale, weight_scale_2, bias, block_size=block_size)
    return result


def _cast(tensor: Tensor, device: str, dtype: torch.dtype) -> Tensor:
    """What autocast casts: floating tensors of its device, but for float64."""
    fits = tensor.is_floating_point() and tensor.dtype is not torch.float64 and tensor.device.type == device
    return tensor.to(dtype) if fits else tensor


def _fake(
    a: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_scale_2: Tensor,
    bias: Tensor | None = None,
    *,
    block_size: int = 16,
) -> Tensor:
    shape, N, _ = check(a, weight, weight_scale, weight_scale_2, bias, block_size)
    return a.new_empty((*shape[:-1], N))


def _save(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, int], output: Tensor) -> None:
    _, weight, weight_scale, weight_scale_2, _ = inputs
    for index, name in ((2, "weight_scale"), (3, "weight_scale_2")):
        if ctx.needs_input_grad[index]:
            raise ValueError(
                f"{name}: expected a tensor without requires_grad; gradients are defined for a and bias only"
            )
    ctx.save_for_backward(weight, weight_scale, weight_scale_2)
    ctx.block_size = keyword_only_inputs["block_size"]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None, Tensor | None]:
    """``grad [..., N] @ W [N, K]`` for ``a``, W dequantised to the dtype of ``a``; the sum over M for ``bias``."""
    wanted = ctx.needs_input_grad  # one entry less where bias was left to its default
    grad_a = grad_bias = None
    if wanted[0]:
        weight = dequantize_nvfp4(*ctx.saved_tensors, block_size=ctx.block_size, dtype=grad.dtype)
        grad_a = _matmul(grad, weight)
    if wanted[4:] == (True,):
        grad_bias = grad.sum_to_size(grad.shape[-1]) if grad.dim() > 1 else grad
    return grad_a, None, None, None, grad_bias


def _matmul(grad: Tensor, weight: Tensor) -> Tensor:
    with torch.autocast(grad.device.type, enabled=False):
        if grad.device.type == "cpu":  # a GPU accumulates in float32 by itself
            return (grad.float() @ weight.float()).to(grad.dtype)
        return grad @ weight


LIBRARY.impl("matmul_nvfp4", _run, "CPU")  # type: ignore[no-untyped-call]
LIBRARY.impl("matmul_nvfp4", _run, "CUDA")  # type: ignore[no-untyped-call]
LIBRARY.impl("matmul_nvfp4", functools.partial(_autocast, "cpu"), "AutocastCPU")  # type: ignore[no-untyped-call]
LIBRARY.impl("matmul_nvfp4", functools.partial(_autocast, "cuda"), "AutocastCUDA")  # type: ignore[no-untyped-call]
torch.library.register_fake("fp4ops::matmul_nvfp4", _fake, lib=LIBRARY)
torch.library.register_autograd("fp4ops::matmul_nvfp4", _backward, setup_context=_save, lib=LIBRARY)

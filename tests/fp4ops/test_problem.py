"""Every argument check with its message, and views that kernels could not read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fp4ops import dequantize_nvfp4, matmul_nvfp4
from fp4ops.problem import ALIGNMENT, Operands, Problem, check_weight, prepare
from fp4ops.testing import Call, random_call, random_weight

CALL = random_call(4, 6, 64, bias=True)
E4M3 = torch.float8_e4m3fn


def prepared(call: Call, block_size: int = 16) -> tuple[Problem, Operands]:
    return prepare(*call, block_size, sm=90, native=False)


def test_the_facts_of_a_call() -> None:
    problem, operands = prepared(CALL)
    assert problem == Problem(4, 6, 64, 16, "float16", bias=True, sm=90, native=False, dequantize="auto")
    assert operands.a is CALL.a
    assert operands.weight is CALL.weight
    assert operands.weight_scale_2.shape == ()


@pytest.mark.parametrize(("shape", "M"), [((64,), 1), ((2, 3, 64), 6), ((2, 0, 3, 64), 0), ((1, 64), 1)])
def test_leading_dimensions_flatten_into_m(shape: tuple[int, ...], M: int) -> None:
    problem, operands = prepared(CALL._replace(a=torch.zeros(shape, dtype=torch.bfloat16), bias=None))
    assert (problem.M, problem.dtype, problem.bias) == (M, "bfloat16", False)
    assert operands.a.shape == (M, 64)


def test_k_zero_flattens_too() -> None:
    call = random_call(6, 3, 0)
    assert prepared(call._replace(a=call.a.view(2, 3, 0)))[1].a.shape == (6, 0)


REFUSED: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("a float32", {"a": torch.zeros(4, 64)}, TypeError, "a: expected dtype float16 or bfloat16, got float32; "
     r"cast it, or the whole model with model.to\(torch.bfloat16\), or run it under torch.autocast"),
    ("a float64", {"a": torch.zeros(4, 64).double()}, TypeError, "a: expected dtype float16 or bfloat16, got float64; "
     r"cast it, or the whole model with model.to\(torch.bfloat16\)$"),
    ("a int64", {"a": torch.zeros(4, 64).long()}, TypeError, "a: expected dtype float16 or bfloat16, got int64$"),
    ("a rank", {"a": torch.zeros((), dtype=torch.half)}, ValueError,
     r"a: expected shape \[..., K\], got a 0-dim tensor"),
    ("K", {"a": torch.zeros(4, 62).half()}, ValueError,
     r"a: expected K = 64 \(weight holds 32 bytes a row\), got K = 62"),
    ("odd K", {"a": torch.zeros(4, 63).half()}, ValueError,
     r"a: expected an even K \(weight holds two elements a byte\), got K = 63"),
    ("weight dtype", {"weight": CALL.weight.to(torch.int8)}, TypeError, "weight: expected dtype uint8, got int8"),
    ("weight rank", {"weight": CALL.weight[0]}, ValueError, r"weight: expected shape \[N, K / 2\], got \[32\]"),
    ("scale bytes", {"weight_scale": CALL.weight_scale.view(torch.uint8)}, TypeError,
     "weight_scale: expected dtype float8_e4m3fn, got uint8"),
    ("scale e5m2", {"weight_scale": CALL.weight_scale.view(torch.float8_e5m2)}, TypeError,
     "weight_scale: expected dtype float8_e4m3fn, got float8_e5m2"),
    ("scale columns", {"weight_scale": CALL.weight_scale[:, :3]}, ValueError,
     r"weight_scale: expected shape \[N, ceil\(K / block_size\)\] = \[6, 4\] \(K = 64, block_size = 16\), "
     r"got \[6, 3\]"),
    ("scale rows", {"weight_scale": CALL.weight_scale[:5]}, ValueError, r"= \[6, 4\] .*, got \[5, 4\]"),
    ("scale rank", {"weight_scale": CALL.weight_scale.flatten()}, ValueError, r"= \[6, 4\] .*, got \[24\]"),
    ("scale_2 dtype", {"weight_scale_2": torch.ones((), dtype=torch.float64)}, TypeError,
     "weight_scale_2: expected dtype float32, got float64"),
    ("scale_2 size", {"weight_scale_2": torch.ones(2)}, ValueError,
     r"weight_scale_2: expected one element, got shape \[2\]"),
    ("bias dtype", {"bias": torch.zeros(6)}, TypeError, "bias: expected dtype float16, got float32"),
    ("bias shape", {"bias": torch.zeros(5).half()}, ValueError, r"bias: expected shape \[N\] = \[6\], got \[5\]"),
    ("bias rank", {"bias": torch.zeros(1, 6).half()}, ValueError, r"bias: expected shape \[N\] = \[6\], got \[1, 6\]"),
    ("block_size 0", {"block_size": 0}, ValueError, "block_size: expected at least 1, got 0"),
    ("block_size -16", {"block_size": -16}, ValueError, "block_size: expected at least 1, got -16"),
    ("block_size True", {"block_size": True}, TypeError, "block_size: expected an integer, got bool True"),
    ("block_size 8", {"block_size": 8}, ValueError, r"= \[6, 8\] \(K = 64, block_size = 8\), got \[6, 4\]"),
    ("weight device", {"weight": CALL.weight.to("meta")}, ValueError,
     r"weight_scale: expected device meta \(that of weight\), got cpu"),
    ("scale device", {"weight_scale": CALL.weight_scale.to("meta")}, ValueError,
     r"weight_scale: expected device cpu \(that of weight\), got meta"),
    ("scale_2 device", {"weight_scale_2": CALL.weight_scale_2.to("meta")}, ValueError,
     r"weight_scale_2: expected device cpu \(that of weight\), got meta"),
    ("bias device", {"bias": CALL.bias.to("meta") if CALL.bias is not None else None}, ValueError,
     r"bias: expected device cpu \(that of a\), got meta"),
    ("a device", {"a": CALL.a.to("meta")}, ValueError, r"weight: expected device meta \(that of a\), got cpu"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "error", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_with_a_message(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    """By the operator and, where it runs on meta tensors, by its fake implementation alike."""
    arguments: dict[str, Any] = CALL._asdict() | changed
    with pytest.raises(error, match=message):
        matmul_nvfp4(**arguments)
    meta: dict[str, Any] = {
        name: value.to("meta") if isinstance(value, Tensor) else value for name, value in arguments.items()
    }
    if "device" not in message:
        with pytest.raises(error, match=message):
            matmul_nvfp4(**meta)


@pytest.mark.parametrize("block_size", [16.0, "16", None, torch.tensor(16)], ids=["float", "str", "none", "tensor"])
def test_a_block_size_that_is_no_integer_is_refused_by_name(block_size: Any) -> None:
    for call in (lambda: matmul_nvfp4(*CALL, block_size=block_size), lambda: prepared(CALL, block_size)):
        with pytest.raises(TypeError, match=rf"block_size: expected an integer, got {type(block_size).__name__} "):
            call()
    assert prepared(CALL, np.int64(16))[0].block_size == 16  # type: ignore[arg-type]  # an integer all the same


@pytest.mark.parametrize("M", [1, 16])
@pytest.mark.parametrize("name", ["a", "weight", "weight_scale", "weight_scale_2", "bias"])
def test_what_is_no_tensor_is_refused_by_name(name: str, M: int) -> None:
    arguments: dict[str, Any] = random_call(M, 6, 64)._asdict()
    for value in (1.0, [1], np.zeros(3), *([None] if name != "bias" else [])):
        with pytest.raises(TypeError, match=f"{name}: expected a tensor, got {type(value).__name__}"):
            matmul_nvfp4(**{**arguments, name: value})


def test_sparse_activations_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected strided tensors, got layout sparse_coo of shape \[4, 64\]"):
        matmul_nvfp4(**{**CALL._asdict(), "a": CALL.a.to_sparse()})


def test_dequantize_makes_the_checks_of_the_weight() -> None:
    weight, scale, scale_2 = random_weight(6, 64)
    assert check_weight(weight, scale, scale_2, 16) == (6, 64)
    with pytest.raises(ValueError, match=r"weight_scale: expected shape .* got \[6, 3\]"):
        dequantize_nvfp4(weight, scale[:, :3], scale_2)


def strided(tensor: Tensor) -> Tensor:
    """The same values with a stride of two in the last dimension."""
    wide = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]))
    wide[..., ::2] = tensor
    return wide[..., ::2]


def transposed(tensor: Tensor) -> Tensor:
    """The same values, the first dimension contiguous."""
    return tensor.T.contiguous().T if tensor.dim() > 1 else strided(tensor)


def shifted(tensor: Tensor) -> Tensor:
    """The same values one element further, so contiguous and not 16-byte aligned."""
    flat = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)
    flat[1:] = tensor.flatten()
    view = flat[1:].view(tensor.shape)
    assert view.is_contiguous()
    assert view.data_ptr() % ALIGNMENT
    return view


@pytest.mark.parametrize("view", [strided, transposed, shifted])
@pytest.mark.parametrize("name", ["a", "weight", "weight_scale", "bias"])
@pytest.mark.parametrize("shape", [(4, 6, 128), (4, 6, 96), (9, 6, 64), (9, 6, 60)], ids=str)
def test_views_give_what_their_copies_give(name: str, view: Any, shape: tuple[int, int, int]) -> None:
    call = random_call(*shape, bias=True)
    viewed = call._replace(**{name: view(getattr(call, name))})
    assert torch.equal(getattr(viewed, name).float(), getattr(call, name).float())
    assert torch.equal(matmul_nvfp4(*viewed), matmul_nvfp4(*call))


def test_operands_are_contiguous_and_aligned_and_copied_only_if_need_be() -> None:
    _, same = prepared(CALL)
    assert all(one is other for one, other in zip(same, CALL, strict=True))
    bias = random_call(4, 6, 64, bias=True).bias
    assert bias is not None
    viewed = Call(shifted(CALL.a), shifted(CALL.weight), shifted(CALL.weight_scale), CALL.weight_scale_2, shifted(bias))
    for tensor in prepared(viewed)[1]:
        assert tensor is not None
        assert tensor.is_contiguous()
        assert tensor.dim() == 0 or tensor.data_ptr() % ALIGNMENT == 0


def test_a_scale_inside_a_table_of_scales_is_read_in_place() -> None:
    scales = torch.arange(8, dtype=torch.float32)
    operands = prepared(CALL._replace(weight_scale_2=scales[3:4]))[1]
    assert operands.weight_scale_2.shape == ()
    assert operands.weight_scale_2.data_ptr() == scales.data_ptr() + 12


def test_expanded_and_overlapping_activations() -> None:
    row = CALL.a[:1]
    assert torch.equal(matmul_nvfp4(row.expand(4, 64), *CALL[1:]), matmul_nvfp4(row.repeat(4, 1), *CALL[1:]))
    stream = torch.randn(64 + 3 * 8).half()
    windows = stream.as_strided((4, 64), (8, 1))
    assert torch.equal(matmul_nvfp4(windows, *CALL[1:]), matmul_nvfp4(windows.clone(), *CALL[1:]))

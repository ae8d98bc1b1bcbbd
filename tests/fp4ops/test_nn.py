"""``Fp4Linear`` and ``convert``."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn

from fp4ops import Fp4Linear, convert, dequantize_nvfp4, matmul_nvfp4, quantize_nvfp4
from fp4ops.testing import random_weight

HALVES = [torch.float16, torch.bfloat16]


class Block(nn.Module):
    """Two linear layers, one of them shared under a second name, a gate, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(32, 48)
        self.down = nn.Linear(48, 32, bias=False)
        self.again = self.down
        self.gate = nn.Linear(32, 2)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.down(torch.relu(self.up(x)))) * self.gate(x).sum(-1, keepdim=True)  # type: ignore[no-any-return]


def layer(dtype: torch.dtype = torch.float16) -> Fp4Linear:
    return Fp4Linear.from_quantized(random_weight(6, 32), torch.arange(6, dtype=dtype))


def saved_and_loaded(module: nn.Module) -> Any:
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def state(module: nn.Module) -> dict[str, Any]:
    return {key: value.float().tolist() for key, value in module.state_dict().items()}


@pytest.mark.parametrize("dtype", HALVES)
def test_forward_is_the_operator(dtype: torch.dtype) -> None:
    linear = layer(dtype)
    x = torch.randn(2, 3, 32).to(dtype)
    result = linear(x)
    assert result.shape == (2, 3, 6)
    assert torch.equal(result, matmul_nvfp4(x, *random_weight(6, 32), torch.arange(6, dtype=dtype)))


def test_a_new_layer_holds_zeros_and_says_what_it_is() -> None:
    linear = Fp4Linear(20, 3, bias=False, block_size=6)
    assert repr(linear) == "Fp4Linear(in_features=20, out_features=3, bias=False, block_size=6)"
    assert {key: (value.dtype, tuple(value.shape)) for key, value in linear.state_dict().items()} == {
        "weight": (torch.uint8, (3, 10)),
        "weight_scale": (torch.float8_e4m3fn, (3, 4)),
        "weight_scale_2": (torch.float32, ()),
    }
    assert not linear(torch.randn(2, 20).half()).any()


def test_the_layer_refuses_impossible_shapes_and_dtypes() -> None:
    with pytest.raises(ValueError, match=r"K: expected an even number \(two elements a byte\), got 5"):
        Fp4Linear(5, 2)
    with pytest.raises(TypeError, match=r"dtype: expected float16 or bfloat16, got torch\.float32"):
        Fp4Linear(4, 2, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"bias: expected shape \[N\] = \[6\], got \[5\]"):
        Fp4Linear.from_quantized(random_weight(6, 32), torch.zeros(5).half())
    with pytest.raises(TypeError, match=r"bias: expected float16 or bfloat16, got torch\.float32"):
        Fp4Linear.from_quantized(random_weight(6, 32), torch.zeros(6))
    with pytest.raises(ValueError, match="weight_scale: expected shape"):
        Fp4Linear.from_quantized(random_weight(6, 32), block_size=8)


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m.half(), lambda m: m.bfloat16(), lambda m: m.float(), lambda m: m.to(torch.bfloat16),
        lambda m: m.to("cpu"),
        copy.deepcopy, saved_and_loaded, lambda m: m.share_memory(),
    ],
)  # fmt: skip
def test_casting_and_moving_leave_the_quantised_bytes_alone(move: Any) -> None:
    before = layer()
    before.input_scale = torch.tensor(0.3)
    expected = {key: (value.dtype, value.float().tolist()) for key, value in before.state_dict().items()}
    after = move(before)
    found = {key: (value.dtype, value.float().tolist()) for key, value in after.state_dict().items()}
    assert expected.pop("bias")[1] == found.pop("bias")[1]
    assert found == expected


def test_casting_changes_the_bias() -> None:
    linear = layer(torch.float16).bfloat16()
    assert linear.bias is not None
    assert linear.bias.dtype == torch.bfloat16
    assert linear(torch.randn(2, 32).bfloat16()).dtype == torch.bfloat16


def test_to_empty_and_meta() -> None:
    linear = Fp4Linear(32, 6, device="meta")
    assert linear(torch.zeros(2, 32, dtype=torch.bfloat16, device="meta")).shape == (2, 6)
    linear = linear.to_empty(device="cpu")
    assert linear.weight_scale.dtype == torch.float8_e4m3fn
    linear.load_state_dict(layer().state_dict())
    assert torch.equal(linear.weight, random_weight(6, 32).weight)


def test_state_dict_round_trip_with_torch_save() -> None:
    source = layer()
    source.input_scale = torch.tensor(0.25)
    buffer = io.BytesIO()
    torch.save(source.state_dict(), buffer)
    buffer.seek(0)
    target = Fp4Linear(32, 6, dtype=torch.float16)
    target.load_state_dict(torch.load(buffer))
    assert state(target) == state(source)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("weight", torch.zeros(6, 16), "weight: expected dtype torch.uint8, got torch.float32"),
        (
            "weight_scale",
            torch.zeros(6, 2, dtype=torch.uint8),
            "weight_scale: expected dtype torch.float8_e4m3fn, got torch.uint8",
        ),
        (
            "weight_scale_2",
            torch.ones((), dtype=torch.half),
            "weight_scale_2: expected dtype torch.float32, got torch.float16",
        ),
        ("weight", torch.zeros(6, 8, dtype=torch.uint8), r"size mismatch for weight: .*\[6, 8\]"),
        ("weight_scale", None, 'Missing key.*"weight_scale"'),
    ],
)
def test_a_state_dict_that_does_not_fit(key: str, value: torch.Tensor | None, message: str) -> None:
    given = dict(layer().state_dict())
    if value is None:
        del given[key]
    else:
        given[key] = value
    with pytest.raises(RuntimeError, match=message):
        Fp4Linear(32, 6, dtype=torch.float16).load_state_dict(given)


# --- convert


def test_convert_replaces_every_linear_layer_and_keeps_the_rest() -> None:
    model = Block().bfloat16()
    expected = {name: copy.deepcopy(getattr(model, name)) for name in ("up", "down", "gate", "norm")}
    assert convert(model) is model
    for name in ("up", "down", "gate"):
        converted = getattr(model, name)
        assert type(converted) is Fp4Linear
        quantized = quantize_nvfp4(expected[name].weight)
        assert torch.equal(converted.dequantize(), dequantize_nvfp4(*quantized))
        assert (converted.bias is None) == (expected[name].bias is None)
        if converted.bias is not None:
            assert torch.equal(converted.bias, expected[name].bias)
            assert converted.bias.requires_grad
    assert type(model.norm) is nn.LayerNorm
    assert model.again is model.down
    assert model(torch.randn(3, 32).bfloat16()).shape == (3, 32)


def test_a_converted_layer_is_close_to_the_layer() -> None:
    linear = nn.Linear(256, 64).half()
    x = torch.randn(16, 256).half()
    expected = linear(x).float()
    error = (convert(copy.deepcopy(linear))(x).float() - expected).norm() / expected.norm()
    assert 0.02 < error < 0.15


@pytest.mark.parametrize("skip", [["gate"], "gate", ["ga*"], ["g?te"]])
def test_convert_skips_by_name_and_pattern(skip: Any) -> None:
    model = convert(Block(), skip=skip)
    assert type(model.gate) is nn.Linear
    assert type(model.up) is Fp4Linear


def test_a_nested_name_is_skipped_by_its_full_name() -> None:
    model = convert(nn.ModuleDict({"first": Block(), "second": Block()}), skip=["second.up", "*.gate"])
    assert isinstance(model, nn.ModuleDict)
    assert type(model.get_submodule("first.up")) is Fp4Linear
    assert type(model.get_submodule("second.up")) is nn.Linear
    assert type(model.get_submodule("first.gate")) is nn.Linear


def test_a_skip_that_matches_nothing_is_an_error_and_changes_nothing() -> None:
    model = Block()
    with pytest.raises(ValueError, match="skip: 'gat' matches no linear layer; names of linear layers: 'up', '"):
        convert(model, skip=["gat"])
    assert type(model.up) is nn.Linear
    with pytest.raises(ValueError, match=r"skip: 'head' matches no linear layer; names of linear layers: '0', '2'$"):
        convert(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), skip="head")
    with pytest.raises(ValueError, match=r"skip: 'head' matches no linear layer; there is none$"):
        convert(nn.Sequential(nn.ReLU()), skip="head")


def test_a_converted_model_in_float32_says_what_to_do_and_does_it() -> None:
    model = convert(nn.Sequential(nn.Linear(32, 8), nn.LayerNorm(8), nn.Linear(8, 4)))
    x = torch.randn(3, 32)
    with pytest.raises(
        TypeError, match=r"got float32; cast it, or the whole model with model.to\(torch.bfloat16\), or "
    ):
        model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(x).dtype == torch.bfloat16
    assert model.to(torch.bfloat16)(x.to(torch.bfloat16)).dtype == torch.bfloat16


def test_a_layer_that_cannot_be_converted_is_named_and_nothing_is_changed() -> None:
    model = nn.Sequential(nn.Linear(16, 5), nn.Linear(5, 2))
    with pytest.raises(
        ValueError, match=r"1: cannot be converted: K: expected an even number .*, got 5; skip it by name"
    ):
        convert(model)
    assert isinstance(model[0], nn.Linear)
    convert(model, skip=["1"])
    assert [type(layer) for layer in model.children()] == [Fp4Linear, nn.Linear]


@pytest.mark.parametrize(
    ("own", "asked", "expected"),
    [
        (torch.float32, None, torch.bfloat16),
        (torch.float16, None, torch.float16),
        (torch.bfloat16, torch.float16, torch.float16),
    ],
)
def test_the_dtype_of_a_converted_bias(own: torch.dtype, asked: torch.dtype | None, expected: torch.dtype) -> None:
    converted = convert(nn.Linear(16, 4).to(own), dtype=asked, block_size=8)
    assert isinstance(converted, Fp4Linear)
    assert converted.bias is not None
    assert converted.bias.dtype == expected
    assert converted.block_size == 8


def test_convert_keeps_the_mode_and_what_is_frozen() -> None:
    linear = nn.Linear(16, 4).eval().requires_grad_(False)
    converted = convert(linear)
    assert not converted.training
    assert isinstance(converted, Fp4Linear)
    assert converted.bias is not None
    assert not converted.bias.requires_grad


def test_subclasses_of_linear_stay_since_others_reach_into_them() -> None:
    attention = nn.MultiheadAttention(16, 2)
    convert(attention)
    x = torch.randn(3, 1, 16)
    assert attention(x, x, x)[0].shape == (3, 1, 16)

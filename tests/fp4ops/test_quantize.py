"""float -> NVFP4 -> float."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fp4ops import dequantize_nvfp4, quantize_nvfp4
from fp4ops.format import E2M1_VALUES, NAN_BITS, unpack
from fp4ops.quantize import encode, quantize_rows
from fp4ops.testing import bits, random_weight

HALVES = [torch.float16, torch.bfloat16]


def codes_of(*values: float) -> list[int]:
    return encode(torch.tensor(values)).tolist()


def test_ties_go_to_the_even_code() -> None:
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    assert [E2M1_VALUES[code] for code in codes_of(*ties)] == [0, 1, 1, 2, 2, 4, 4]
    assert codes_of(*(-tie for tie in ties)) == [code | 8 for code in codes_of(*ties)]


def test_next_to_a_tie_the_nearer_value_wins() -> None:
    for low, high in itertools.pairwise(E2M1_VALUES[:8]):
        tie = np.float32((low + high) / 2)
        below, above = float(np.nextafter(tie, np.float32(0))), float(np.nextafter(tie, np.float32(9)))
        assert [E2M1_VALUES[code] for code in codes_of(below, above)] == [low, high]


def test_codes_saturate_and_keep_the_sign_of_zero() -> None:
    assert codes_of(6.0, 7.0, 1e30, -1e30) == [7, 7, 7, 15]
    assert codes_of(0.0, -0.0, -0.1) == [0, 8, 8]


@given(st.floats(-8, 8, width=32))
def test_encode_is_nearest(x: float) -> None:
    best = min(abs(min(max(x, -6), 6) - value) for value in E2M1_VALUES)
    assert abs(min(max(x, -6), 6) - E2M1_VALUES[codes_of(x)[0]]) == best


@pytest.mark.parametrize("dtype", HALVES)
def test_all_bytes_times_all_scales_against_numpy(dtype: torch.dtype) -> None:
    """Row s holds all 256 bytes with scale byte s; numpy computes the same in float32."""
    weight = torch.arange(256, dtype=torch.uint8).expand(256, 256).contiguous()
    scale = torch.arange(256, dtype=torch.uint8).view(256, 1).view(torch.float8_e4m3fn)
    scale_2 = torch.tensor(0.37, dtype=torch.float32)
    result = dequantize_nvfp4(weight, scale, scale_2, block_size=512, dtype=dtype)

    e4m3 = np.array([e4m3_value(byte) for byte in range(256)], dtype=np.float32)
    row = np.array([E2M1_VALUES[code] for byte in range(256) for code in (byte & 15, byte >> 4)], dtype=np.float32)
    product = row[None, :] * (e4m3 * np.float32(0.37))[:, None]
    expected = torch.from_numpy(product).to(dtype)
    isnan = torch.from_numpy(np.isnan(product))
    assert isnan[0x7F].all()
    assert isnan[0xFF].all()
    assert int(isnan.sum()) == 2 * 512
    assert torch.equal(bits(result)[~isnan], bits(expected)[~isnan])
    assert set(bits(result)[isnan].tolist()) == {NAN_BITS}
    assert bits(result)[1, 16:18].tolist() == [-0x8000, 0]  # byte 0x08: -0.0, then 0.0


def e4m3_value(byte: int) -> float:
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return float("nan")
    magnitude = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -magnitude if byte & 0x80 else magnitude


def test_the_order_of_the_products_is_value_times_scaled_scale() -> None:
    quantized = random_weight(64, 256, seed=3)
    weight, scale, scale_2 = quantized
    values = torch.tensor(E2M1_VALUES)[unpack(weight).int()]
    spread = scale.float().repeat_interleave(16, dim=1)
    result = dequantize_nvfp4(*quantized, dtype=torch.float32)
    assert torch.equal(result, values * (spread * scale_2))
    assert not torch.equal(result, values * spread * scale_2)


@pytest.mark.parametrize(("N", "K", "block_size"), [(5, 64, 16), (3, 20, 16), (7, 30, 5), (4, 2, 64), (1, 12, 1)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_round_trip_error_is_half_a_step_of_the_block(N: int, K: int, block_size: int, dtype: torch.dtype) -> None:
    w = torch.randn(N, K, generator=torch.Generator().manual_seed(K)).to(dtype)
    weight, scale, scale_2 = quantize_nvfp4(w, block_size)
    back = dequantize_nvfp4(weight, scale, scale_2, block_size=block_size, dtype=torch.float32)
    step = (scale.float() * scale_2).repeat_interleave(block_size, dim=1)[:, :K]
    error = (back - w.float()).abs()
    # Up to 4 the codes are at most 1 apart, from 4 to 6 they are 2 apart; e4m3 may make the largest element saturate.
    assert bool((error <= step * 1.01).all())
    assert bool((error <= step * 0.51)[w.float().abs() <= 4 * step].all())
    assert scale_2 == (w.float().abs().max() / (6 * 448))


def test_what_is_representable_comes_back_exactly() -> None:
    original = random_weight(16, 64, seed=5, scale_2=0.25)
    original.weight[:, 0] = 0x77  # each row, then the matrix, has a 6 and so the same scales again
    scale = torch.full((16, 4), 2.0).to(torch.float8_e4m3fn)
    scale[0, 0] = 448.0
    original.weight[:, ::8] = 0x77
    w = dequantize_nvfp4(original.weight, scale, original.weight_scale_2, dtype=torch.float32)
    weight, scale_again, scale_2 = quantize_nvfp4(w)
    assert torch.equal(weight, original.weight)
    assert torch.equal(scale_again.float(), scale.float())
    assert scale_2 == 0.25


def test_a_block_much_smaller_than_the_rest_is_not_lost() -> None:
    w = torch.zeros(1, 32)
    w[0, 0], w[0, 16:] = 6 * 448, 2.0**-9 * 2
    assert torch.equal(dequantize_nvfp4(*quantize_nvfp4(w), dtype=torch.float32), w)


@pytest.mark.parametrize("value", [0.0, 1e-45, 1e-38, 1e38])
def test_extreme_magnitudes_stay_finite(value: float) -> None:
    w = torch.full((2, 32), value)
    back = dequantize_nvfp4(*quantize_nvfp4(w), dtype=torch.float32)
    torch.testing.assert_close(back, w, rtol=1e-6, atol=2e-38)


@pytest.mark.parametrize("shape", [(0, 32), (3, 0), (0, 0)])
def test_empty_matrices(shape: tuple[int, int]) -> None:
    quantized = quantize_nvfp4(torch.zeros(shape))
    assert quantized.weight.shape == (shape[0], shape[1] // 2)
    assert dequantize_nvfp4(*quantized).shape == shape


def test_views_quantize_like_their_copies() -> None:
    w = torch.randn(32, 64)
    for one, other in zip(quantize_nvfp4(w.T[:, ::2]), quantize_nvfp4(w.T[:, ::2].contiguous()), strict=True):
        assert torch.equal(one.float(), other.float())


def test_a_parameter_gives_tensors_without_gradient() -> None:
    assert not any(t.requires_grad for t in quantize_nvfp4(torch.nn.Parameter(torch.randn(2, 16))))


def test_rows_with_nan_or_infinity_give_nan_everywhere() -> None:
    for bad in (float("nan"), float("inf")):
        w = torch.ones(2, 32)
        w[1, 3] = bad
        assert bool(dequantize_nvfp4(*quantize_rows(w, 16)).isnan().all())


@pytest.mark.parametrize(
    ("w", "block_size", "error", "message"),
    [
        (torch.zeros(2, 16, dtype=torch.int32), 16, TypeError, "w: expected a floating dtype, got torch.int32"),
        (torch.zeros(16), 16, ValueError, r"w: expected shape \[N, K\], got \[16\]"),
        (torch.zeros(2, 15), 16, ValueError, r"K: expected an even number \(two elements a byte\), got 15"),
        (torch.zeros(2, 16), 0, ValueError, "block_size: expected at least 1, got 0"),
        (torch.full((2, 16), float("nan")), 16, ValueError, "w: expected elements that are finite in float32"),
        (
            torch.full((2, 16), 1e300, dtype=torch.float64),
            16,
            ValueError,
            "w: expected elements that are finite in float",
        ),
        (torch.zeros(2, 16, device="meta"), 16, ValueError, "w: expected a tensor with values, got one on the meta"),
        (torch.zeros(2, 16), True, TypeError, "block_size: expected an integer, got bool True"),
        (torch.zeros(2, 16), 16.0, TypeError, r"block_size: expected an integer, got float 16\.0"),
        (torch.full((2, 16), float("inf")), 16, ValueError, "w: expected elements that are finite in float32"),
    ],
)
def test_quantize_refuses(w: torch.Tensor, block_size: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        quantize_nvfp4(w, block_size)


@pytest.mark.parametrize("block_size", [18, 1 << 31, 1 << 40, 1 << 80])
def test_a_block_longer_than_a_row_is_the_row(block_size: int) -> None:
    w = torch.randn(3, 18)
    whole = quantize_nvfp4(w, 18)
    for mine, own in zip(quantize_nvfp4(w, block_size), whole, strict=True):
        assert torch.equal(mine.float(), own.float())
    assert torch.equal(dequantize_nvfp4(*whole, block_size=block_size), dequantize_nvfp4(*whole, block_size=18))


def test_any_floating_dtype_is_quantised() -> None:
    w = torch.tensor([[1.0, -2.0], [0.5, 6.0]])
    for dtype in (torch.float64, torch.float16, torch.float8_e4m3fn):
        assert torch.equal(quantize_nvfp4(w.to(dtype)).weight, quantize_nvfp4(w).weight)


def test_dequantize_refuses_another_dtype() -> None:
    with pytest.raises(TypeError, match=r"dtype: expected float16, bfloat16 or float32, got torch\.float64"):
        dequantize_nvfp4(*random_weight(2, 16), dtype=torch.float64)

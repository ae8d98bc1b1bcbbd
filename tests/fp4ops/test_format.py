"""The NVFP4 format: code table, packing, shapes."""

from __future__ import annotations

import pytest
import torch

from fp4ops import format as nvfp4
from fp4ops.format import Layout


def e2m1(code: int) -> float:
    """The value of a code from its bit fields."""
    exponent, mantissa = code >> 1 & 3, code & 1
    magnitude = mantissa * 0.5 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1)
    return -magnitude if code & 8 else magnitude


def test_table_is_e2m1_with_a_negative_zero() -> None:
    assert list(nvfp4.E2M1_VALUES) == [e2m1(code) for code in range(16)]
    assert str(nvfp4.E2M1_VALUES[8]) == "-0.0"


def test_constants_are_those_of_e4m3() -> None:
    info = torch.finfo(torch.float8_e4m3fn)
    assert info.max == nvfp4.E4M3_MAX
    assert torch.tensor(1, dtype=torch.uint8).view(torch.float8_e4m3fn).item() == nvfp4.E4M3_SMALLEST


def test_the_low_nibble_is_the_even_column() -> None:
    assert nvfp4.pack(torch.tensor([[0x3, 0xA]], dtype=torch.uint8)).tolist() == [[0xA3]]
    assert nvfp4.unpack(torch.tensor([[0xA3]], dtype=torch.uint8)).tolist() == [[0x3, 0xA]]


def test_all_bytes_survive_unpack_and_pack() -> None:
    packed = torch.arange(256, dtype=torch.uint8).view(2, 128)
    assert torch.equal(nvfp4.pack(nvfp4.unpack(packed)), packed)


def test_packing_refuses_what_is_not_a_code_matrix() -> None:
    with pytest.raises(ValueError, match=r"codes: expected uint8 \[N, K\] with K even, got torch.uint8 \[2, 3\]"):
        nvfp4.pack(torch.zeros(2, 3, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"packed: expected uint8 \[N, K / 2\], got torch.int32 \[2, 3\]"):
        nvfp4.unpack(torch.zeros(2, 3, dtype=torch.int32))


def test_layout_shapes() -> None:
    layout = Layout(N=3, K=20, block_size=16)
    assert (layout.weight_shape, layout.scale_shape, layout.blocks) == ((3, 10), (3, 2), 2)
    assert layout.nbytes == 3 * 10 + 3 * 2 + 4
    assert Layout(0, 0).scale_shape == (0, 0)
    with pytest.raises(AttributeError):
        layout.N = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 20, 0), "block_size: expected at least 1, got 0"),
        ((3, 21, 16), r"K: expected an even number \(two elements a byte\), got 21"),
        ((-1, 20, 16), "expected N >= 0 and K >= 0, got N = -1, K = 20"),
    ],
)
def test_layout_refuses(arguments: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layout(*arguments)


def test_block_of_column_with_a_partial_last_block() -> None:
    assert nvfp4.block_of_column(7, 3).tolist() == [0, 0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 7, 64, 1003])
def test_one_nan_for_every_length(dtype: torch.dtype, length: int) -> None:
    values = torch.full((length,), float("nan")).to(dtype)
    values[0] = -0.0
    after = nvfp4.one_nan_(values).view(torch.int16).tolist()
    assert after[0] == -0x8000
    assert set(after[1:]) <= {nvfp4.NAN_BITS}

"""A whole model says the same whichever dequantiser runs in it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dispatchcov.plugin.assertions import DispatchTrace
from fp4ops.kernels.cpu import flat
from tests.fp4ops.model import Model, Size, digest, digests, greedy, prompt

SIZE = Size(width=64, hidden=128, layers=2, heads=4, vocabulary=256)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("block_size", [32, 16])
def test_the_tokens_are_the_same_for_every_dequantizer(
    dispatch_trace: DispatchTrace, monkeypatch: pytest.MonkeyPatch, block_size: int, dtype: torch.dtype
) -> None:
    """In blocks of 32 every step dequantises; in blocks of 16 the prompt does, and the steps after it decode."""
    model = Model(SIZE, block_size, dtype)
    found = digests(model, prompt(SIZE), block_size, dispatch_trace, monkeypatch)
    assert found == dict.fromkeys(("scalar", "vec8", "flat"), found["scalar"])


def test_the_tokens_follow_the_prompt_and_do_not_repeat_one_for_ever() -> None:
    model = Model(SIZE, 32, torch.bfloat16)
    first, again, other = (greedy(model, prompt(SIZE, seed=seed)) for seed in (1, 1, 2))
    assert digest(first) == digest(again) != digest(other)
    assert len(set(first.tolist())) > 16


def test_a_dequantizer_that_takes_a_neighbours_scale_says_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    model, right = Model(SIZE, 32, torch.bfloat16), flat.dequantize
    expected = digest(greedy(model, prompt(SIZE)))

    def wrong(weight: Tensor, scale: Tensor, scale_2: Tensor, *, K: int, block_size: int, dtype: torch.dtype) -> Tensor:
        shifted = scale.view(torch.uint8).roll(1, dims=1).view(scale.dtype)
        return right(weight, shifted, scale_2, K=K, block_size=block_size, dtype=dtype)

    monkeypatch.setattr(flat, "dequantize", wrong)
    assert digest(greedy(model, prompt(SIZE))) != expected

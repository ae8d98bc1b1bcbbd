"""A whole model on the GPU says the same whichever dequantiser runs in it."""

from __future__ import annotations

import pytest
import torch

from dispatchcov.plugin.assertions import DispatchTrace
from tests.fp4ops.model import Model, Size, digests, prompt

SIZE = Size(width=1024, hidden=2816, layers=2, heads=16, vocabulary=8192)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("block_size", [32, 16])
def test_the_tokens_are_the_same_for_every_dequantizer(
    dispatch_trace: DispatchTrace, monkeypatch: pytest.MonkeyPatch, block_size: int, dtype: torch.dtype
) -> None:
    """In blocks of 32 every step dequantises; in blocks of 16 the prompt does, and the steps after it decode."""
    model = Model(SIZE, block_size, dtype, "cuda")
    found = digests(model, prompt(SIZE).cuda(), block_size, dispatch_trace, monkeypatch)
    assert found == dict.fromkeys(("scalar", "vec8", "flat"), found["scalar"])

"""GPU tests are skipped, with the reason, where there is no GPU that can run them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def why_not() -> str | None:
    if not torch.cuda.is_available():
        return "needs a CUDA GPU and a CUDA build of torch"
    if find_spec("cuda") is None or find_spec("cuda.core") is None:
        return "needs cuda-core, nvidia-cuda-nvrtc and nvidia-cuda-runtime"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = why_not()
    if reason is None:
        return
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def float32_sums() -> Iterator[None]:
    """cuBLAS may add partial sums in half precision unless told not to; the references assume that it does not."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
    yield
    matmul.allow_fp16_reduced_precision_reduction, matmul.allow_bf16_reduced_precision_reduction = before

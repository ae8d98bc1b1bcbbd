"""What all fp4ops tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from a second thread, and lose much where another process has the core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def default_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that wants a switch sets it; the caller's environment sets none."""
    for name in ("FP4OPS_TARGET", "FP4OPS_NATIVE", "FP4OPS_DEQUANTIZE"):
        monkeypatch.delenv(name, raising=False)

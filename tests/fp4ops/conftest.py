"""What all fp4ops tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def default_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that wants a switch sets it; the caller's environment sets none."""
    for name in ("FP4OPS_TARGET", "FP4OPS_NATIVE", "FP4OPS_DEQUANTIZE"):
        monkeypatch.delenv(name, raising=False)

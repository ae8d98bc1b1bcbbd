"""The switches, parsed strictly, and the machine label that decisions carry."""

from __future__ import annotations

import os

import pytest
import torch

from fp4ops import matmul_nvfp4
from fp4ops.machine import TABLE, machine
from fp4ops.testing import random_call

CPU = torch.device("cpu")


@pytest.mark.parametrize("sm", [75, 80, 90, 121])
def test_the_target_to_emulate(monkeypatch: pytest.MonkeyPatch, sm: int) -> None:
    monkeypatch.setenv("FP4OPS_TARGET", f"sm_{sm}")
    assert machine(CPU).sm == sm
    assert machine(CPU).decide is TABLE.on("cpu", emulates=f"sm_{sm}").decide


def test_the_default_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FP4OPS_TARGET", raising=False)
    assert machine(CPU).sm == 90


@pytest.mark.parametrize("text", ["sm90", "90", "sm_91", "SM_90", " sm_90", ""])
def test_a_target_that_is_not_understood(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FP4OPS_TARGET", text)
    with pytest.raises(ValueError, match=rf"FP4OPS_TARGET: expected one of sm_75, .*sm_121, got '{text}'"):
        matmul_nvfp4(*random_call(1, 1, 16))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("true", True),
        ("ON", True),
        ("yes", True),
        ("0", False),
        ("False", False),
        ("off", False),
        ("no", False),
    ],
)
def test_the_native_switch(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("FP4OPS_NATIVE", text)
    assert machine(CPU).native is value


def test_the_native_switch_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FP4OPS_NATIVE", raising=False)
    assert machine(CPU).native is False


@pytest.mark.parametrize("text", ["2", "", "enabled", "1 ", "-1"])
def test_a_switch_that_is_not_understood(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FP4OPS_NATIVE", text)
    message = rf"FP4OPS_NATIVE: expected one of 1, true, on, yes, 0, false, off, no, got '{text}'"
    with pytest.raises(ValueError, match=message):
        matmul_nvfp4(*random_call(1, 1, 16))


@pytest.mark.parametrize("text", ["auto", "flat", "vec8", "scalar"])
def test_the_dequantize_switch(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FP4OPS_DEQUANTIZE", text)
    assert machine(CPU).dequantize == text


def test_every_dequantizer_may_be_taken_by_default() -> None:
    assert machine(CPU).dequantize == "auto"


@pytest.mark.parametrize("text", ["", "Vec8", " flat", "1", "DequantizeNvFp4Kernel"])
def test_a_dequantizer_that_is_not_known(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FP4OPS_DEQUANTIZE", text)
    message = rf"FP4OPS_DEQUANTIZE: expected one of auto, flat, vec8, scalar, got '{text}'"
    with pytest.raises(ValueError, match=message):
        matmul_nvfp4(*random_call(1, 1, 16))


def test_switches_are_read_at_each_call_however_the_environment_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ["FP4OPS_DEQUANTIZE"] = "vec8"
    assert machine(CPU).dequantize == "vec8"
    os.environ.update(FP4OPS_DEQUANTIZE="flat", FP4OPS_TARGET="sm_80")
    assert machine(CPU)[:3] == (80, False, "flat")
    del os.environ["FP4OPS_DEQUANTIZE"], os.environ["FP4OPS_TARGET"]
    assert machine(CPU)[:3] == (90, False, "auto")
    monkeypatch.setattr(os, "environ", {"FP4OPS_NATIVE": "1", "FP4OPS_DEQUANTIZE": "scalar"})
    assert machine(CPU)[:3] == (90, True, "scalar")


def test_a_switch_stays_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FP4OPS_NATIVE", "maybe")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"FP4OPS_NATIVE: expected one of .*, got 'maybe'"):
            machine(CPU)


@pytest.mark.skipif(os.name != "posix", reason="environments hold bytes on POSIX alone")
def test_a_switch_that_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"FP4OPS_TARGET", b"sm_\xff90")
    with pytest.raises(ValueError, match=r"FP4OPS_TARGET: expected one of .*, got 'sm_\\udcff90'"):
        machine(CPU)

"""Other libraries in the benchmark: what is said of one that is not there, and of one that is wrong."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import Tensor

from fp4ops.bench import peers
from fp4ops.quantize import dequantize_nvfp4
from fp4ops.testing import random_weight

WEIGHT = tuple(random_weight(48, 128))


def weight() -> peers.Weight:
    return WEIGHT[0], WEIGHT[1], WEIGHT[2]


def right(a: Tensor) -> Tensor:
    return (a.float() @ dequantize_nvfp4(*weight(), dtype=torch.float32).T).to(a.dtype)


@pytest.mark.parametrize(("name", "module"), [("humming-kernels", "humming.layer"), ("onnxruntime-gpu", "onnxruntime")])
def test_one_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, name: str, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    layer, note = peers.attempt(peers.PEERS[name], weight())
    assert layer is None
    assert note.startswith("not importable: ")
    assert module.split(".")[0] in note


def test_a_runtime_for_cpus_is_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(__version__="1.30.0", get_available_providers=lambda: ["CPUExecutionProvider"])
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    monkeypatch.setitem(sys.modules, "onnx", ModuleType("onnx"))
    assert peers.attempt(peers.PEERS["onnxruntime-gpu"], weight()) == (
        None,
        "not importable: onnxruntime 1.30.0 without its CUDA provider (onnxruntime-gpu)",
    )


def test_one_that_fails_is_said_in_a_line() -> None:
    def build(_: peers.Weight) -> peers.Layer:
        raise RuntimeError("no kernel for sm_90\nlog")

    assert peers.attempt(build, weight()) == (None, "could not be built: RuntimeError: no kernel for sm_90")


def test_wrong_results_are_not_timed() -> None:
    a = torch.randn((3, 128)).to(torch.bfloat16)
    assert peers.wrong(right, a, weight()) == ""
    assert peers.wrong(lambda a: right(a) * 1.02, a, weight()).startswith("other results: 0.02")
    assert peers.wrong(lambda a: right(a) * float("nan"), a, weight()).startswith("other results: nan")
    assert peers.wrong(lambda a: a[:, 1000], a, weight()).startswith("could not be run: IndexError: index 1000")

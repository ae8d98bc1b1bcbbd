"""The host benchmark checks the operator, times it without kernels, and puts the kernels back."""

from __future__ import annotations

import re

import pytest
import torch

from fp4ops import matmul_nvfp4
from fp4ops.bench import host
from fp4ops.kernels import cpu
from fp4ops.testing import Call, random_call


def test_a_line_for_each_variant_in_both_modes(capsys: pytest.CaptureFixture[str]) -> None:
    assert host.main(["--rounds", "2", "--calls", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[1] for line in (lines[0], lines[4])] == [" torch.inference_mode", " torch.enable_grad"]
    for first in (1, 5):
        matched = [re.fullmatch(r"(.*?) +[\d.]+ us +([\d.]+) x linear", line) for line in lines[first : first + 3]]
        found = [(match[1], match[2]) for match in matched if match]
        assert [name for name, _ in found] == ["linear", "matmul_nvfp4", "matmul_nvfp4, recording"]
        assert found[0][1] == "1.00"


def test_the_kernels_and_threads_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    before = cpu.LAUNCHERS
    with host.no_kernels():
        assert set(cpu.LAUNCHERS.values()) == {host.allocate}
        assert matmul_nvfp4(*random_call(1, 2, 32)).shape == (1, 2)
    with pytest.raises(OSError, match="broken"), host.no_kernels():
        raise OSError("broken")
    assert cpu.LAUNCHERS is before
    assert used == [1, 7, 1, 7]


def test_a_wrong_result_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*call: torch.Tensor) -> torch.Tensor:
        return matmul_nvfp4(*Call(*call)) + 1

    monkeypatch.setattr(host, "matmul_nvfp4", wrong)
    with pytest.raises(AssertionError):
        host.main(["--rounds", "1", "--calls", "1"])

"""The CPU benchmark prints a line for each baseline and kernel, after comparing their bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fp4ops.bench import cpu
from fp4ops.quantize import Quantized


def run() -> None:
    assert cpu.main(["--size", "64", "--rounds", "2"]) == 0


def test_every_kernel_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("64 x 64, block_size 16, ")
    names = ["by code", "by byte", *(f"DequantizeNvFp4{kind}Kernel" for kind in ("Flat", "Vec8", ""))]
    assert [" ".join(line.split()[1:-3]) for line in lines[2:]] == names * 2
    assert [line.split()[-2] for line in lines[2:] if "by code" in line] == ["1.00"] * 2


def test_other_bits_end_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(quantized: Quantized, dtype: torch.dtype) -> Tensor:
        return torch.zeros(64, 64, dtype=dtype)

    monkeypatch.setattr(cpu, "by_byte", wrong)
    with pytest.raises(SystemExit, match="by byte: other bits than the look-up by code"):
        run()

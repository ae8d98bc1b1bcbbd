from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dispatchcov import store
from fp4ops.bench import workload
from fp4ops.machine import TABLE


def test_calls_are_counted_by_the_path_that_they_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "work"
    size = ["--width", "64", "--hidden", "128", "--depth", "2", "--tokens", "3"]
    assert workload.main(["--record", str(path), *size]) == 0
    calls = len(workload.PROMPTS) * (1 + 3) * 2 * 7
    assert f"{calls} calls for {len(workload.PROMPTS)} prompts" in capsys.readouterr().out
    rows = store.load(path).rows
    assert sum(row.selected for row in rows) == sum(row.launched for row in rows) == calls
    assert {row.phase for row in rows} == {"run"}
    sizes = {facts[TABLE.names.index("M")] for row in rows for facts in row.inputs}
    assert {1, min(workload.PROMPTS), max(workload.PROMPTS)} <= sizes
    if not torch.cuda.is_available():
        assert {row.nanoseconds for row in rows} == {0}


def test_a_server_that_reads_more_than_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "work"
    size = ["--width", "64", "--hidden", "128", "--depth", "1", "--tokens", "0"]
    assert workload.main(["--record", str(path), *size, "--prompts", "40, 50"]) == 0
    assert "14 calls for 2 prompts" in capsys.readouterr().out
    place = TABLE.names.index("M")
    assert {facts[place] for row in store.load(path).rows for facts in row.inputs} == {40, 50}


@pytest.mark.parametrize("arguments", [["--prompts", "8,"], ["--prompts", "-8"], ["--tokens", "-1"], ["--width", "x"]])
def test_sizes_that_are_none(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        workload.main(["--record", "never", *arguments])
    assert "expected a whole number, 0 or more, got" in capsys.readouterr().err
    assert not Path("never").exists()


def test_each_prompt_is_read_at_once_and_answered_token_by_token() -> None:
    assert list(workload.steps([5, 2], 2)) == [5, 1, 1, 2, 1, 1]
    assert [(layer.N, layer.K, layer.count) for layer in workload.layers(8, 16, 3)] == [
        (8, 8, 12),
        (16, 8, 6),
        (8, 16, 3),
    ]


def test_a_result_of_the_wrong_shape_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "matmul_nvfp4", lambda a, *_: a)
    with pytest.raises(AssertionError, match=r"expected a result of shape \(1, 32\), got \(1, 64\)"):
        workload.serve([workload.Layer("x", 32, 64, 1)], [1], 0, "cpu")

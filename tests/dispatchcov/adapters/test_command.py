"""The command of the adapters: PyTorch's samples, disagreement, and what it does not measure."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest

from dispatchcov.adapters import command, conv, sdpa
from dispatchcov.adapters.torch_operator import Call

pytest.importorskip("torch")
pytest.importorskip("expecttest")

OPERATOR = sdpa.operator()


@pytest.fixture(scope="module")
def some() -> list[tuple[str, Call]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's list of operators warns of what NumPy will change
        return list(command.samples(OPERATOR, "cpu"))


def test_pytorchs_samples_in_each_dtype_with_and_without_gradients(some: list[tuple[str, Call]]) -> None:
    names = [name for name, _ in some]
    assert len(names) == len(set(names)) >= 100
    assert {name.partition("[")[2].partition("]")[0] for name in names} == {
        f"{dtype}{grad}" for dtype in command.DTYPES for grad in ("", ", grad")
    }


@pytest.mark.parametrize("observe", ["", "torch-operators"])
def test_samples_are_recorded_with_what_pytorch_says_or_what_ran(
    some: list[tuple[str, Call]], observe: str, tmp_path: Path
) -> None:
    counts = command.run(OPERATOR, iter(some[:40]), "cpu", observe, str(tmp_path / "records"))
    assert (counts["run"], counts["left out"], counts["chosen otherwise than seen"]) == (40, 0, 0)
    table = command.measured(OPERATOR.table, str(tmp_path / "records"))
    assert (table.decisions, table.mismatches) == (40, ())
    (flash,) = [item for item in table.rules if item.name == "flash-cpu"]
    assert flash.state == "hit"
    assert ("observed" in flash.reach.evidence) == bool(observe)


def lies(*arguments: Any, **named: Any) -> str:
    return "math" if sdpa.kernel(*arguments, **named) == "flash" else "flash"


def test_what_is_chosen_otherwise_than_seen_is_counted(some: list[tuple[str, Call]], tmp_path: Path) -> None:
    wrong = dataclasses.replace(OPERATOR, kernel=lies)
    counts = command.run(wrong, iter(some[:8]), "cpu", "torch-operators", str(tmp_path / "records"))
    assert counts["chosen otherwise than seen"] == 8


def test_disagreement_is_shown_and_is_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(OPERATOR, ["--random", "50"]) == 0
    assert command.main(dataclasses.replace(OPERATOR, kernel=lies), ["--random", "50"]) == 2
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith("table and PyTorch agree on 50 of 50 random calls")
    assert printed[1].endswith("agree on 0 of 50 random calls")
    assert len(printed) == 2 + command.SHOWN


def test_inputs_that_are_refused_are_left_out_with_the_reason(tmp_path: Path) -> None:
    import torch

    one = torch.rand(8)
    counts = command.run(OPERATOR, iter([("bad", Call((one, one, one), {}))]), "cpu", "", str(tmp_path / "records"))
    assert (counts["run"], counts["left out"]) == (0, 1)
    assert "1 times: aten::scaled_dot_product_attention: expected dense tensors" in command._reasons(counts)


def test_an_observer_that_can_not_tell_the_kernels_apart_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(conv.operator(), ["--samples", "--observe=torch"]) == 1
    assert "expected --observe=torch-operators: torch does not tell its kernels apart" in capsys.readouterr().err


def test_a_gpu_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for asked in (["--random", "1"], ["--samples"]):
        assert command.main(OPERATOR, [*asked, "--device", "cuda"]) == 1
        assert "expected the device cpu or a CUDA GPU that is there, got cuda" in capsys.readouterr().err


def test_without_pytorch_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert command.main(OPERATOR, ["--samples"]) == 1
    assert "expected PyTorch to compare the table with, it is not importable" in capsys.readouterr().err

"""``python -m fp4ops.bench``: help, one benchmark by name, and a name that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import pytest

from fp4ops.bench.__main__ import NAMES, main


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_every_benchmark(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(NAMES)] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_gets_the_other_arguments(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    given: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> int:
        given.append(arguments)
        return 7

    monkeypatch.setattr(import_module(f"fp4ops.bench.{name}"), "main", run)
    assert main([name, "--rounds", "1"]) == 7
    assert given == [["--rounds", "1"]]


def test_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tpu"]) == 2
    assert capsys.readouterr().err == "fp4ops.bench: expected one of cpu, host, gpu, plot, workload, got 'tpu'\n"

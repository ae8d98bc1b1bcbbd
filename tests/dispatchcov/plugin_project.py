"""A project with an operator of two kernels, and pytest run in it as a user would."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dispatchcov.build import SMALL

OPERATOR = """
import dispatchcov
TABLE = dispatchcov.load_table("small.toml")
def scale(n, aligned=True, dtype="float16"):
    decision = TABLE.decide(N=n, aligned=aligned, dtype=dtype)
    with decision.launch():
        return 2 * n
"""

GREEN = """
import pytest
from operator_under_test import scale
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_aligned(dtype):
    assert scale(4, dtype=dtype) == pytest.approx(8)
def test_ragged():
    assert scale(3) == 6
"""

ONLY_ALIGNED = GREEN.split("def test_ragged")[0]

ENVIRONMENT = ("DISPATCHCOV_RUN", "DISPATCHCOV_DATA", "DISPATCHCOV_TABLE", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """The project, free of what the pytest around it set in the environment."""
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    pytester.makefile(".toml", small=SMALL)
    pytester.makepyfile(operator_under_test=OPERATOR)
    pytester.syspathinsert()
    return pytester


def run(project: pytest.Pytester, *arguments: str, **files: str) -> pytest.RunResult:
    """In this process."""
    if files:
        project.makepyfile(**files)
    return project.runpytest("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments)


def run_apart(project: pytest.Pytester, *arguments: str, **files: str) -> pytest.RunResult:
    """In a process of its own, for runs that fork, are killed or have workers."""
    project.makepyfile(**files)
    return project.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments)


def report(project: pytest.Pytester) -> dict[str, Any]:
    """The JSON report ``out.json``."""
    loaded: dict[str, Any] = json.loads((project.path / "out.json").read_text())
    return loaded


def table(project: pytest.Pytester) -> dict[str, Any]:
    """The operator's part of ``out.json``."""
    found: dict[str, Any] = report(project)["tables"]["demo::scale"]
    return found


def bins(project: pytest.Pytester) -> dict[str, str]:
    """State by partition and bin in ``out.json``."""
    return {f"{entry['name']} {entry['bin']}".strip(): entry["state"] for entry in table(project)["partitions"]}


def reached_by(project: pytest.Pytester, rule: str) -> list[str]:
    """The tests that ``out.json`` counts for ``rule``."""
    (entry,) = (entry for entry in table(project)["rules"] if entry["name"] == rule)
    found: list[str] = entry["tests"]
    return found

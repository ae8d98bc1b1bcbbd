"""What C++ code that decides by itself records: nothing fails because it is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.recording import record
from dispatchcov.records import Data
from dispatchcov.results import Results
from dispatchcov.table import Table
from tests.dispatchcov.cpp import build as cpp_build

pytestmark = cpp_build.needs_gxx

DIVIDES = """
[table]
op = "foreign::op"
[variables]
M = { type = "int", min = 0 }
a = { type = "int", min = 0 }
[[kernel]]
name = "Even"
[[kernel]]
name = "Rest"
[[rule]]
name = "even"
when = "M > 3 and M % a == 0 and M * M * M > 0"
kernel = "Even"
[[rule]]
name = "rest"
kernel = "Rest"
splits = ["M // a > 2"]
"""
LARGEST = (1 << 63) - 1


def divides() -> Table:
    """A table whose first guard has no value where ``a`` is 0 and ``M`` is greater than 3."""
    return parse_table(DIVIDES, source="foreign.toml")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``foreign.cpp``, compiled."""
    folder = tmp_path_factory.mktemp("foreign")
    cpp_build.write_header(folder, "foreign.hpp", divides(), "foreign")
    return cpp_build.build(folder / "foreign", cpp_build.HERE / "foreign.cpp")


def said(program: Path, data: Path | None, *lines: str) -> str:
    done = cpp_build.run(program, data=data, stdin="\n".join(lines) + "\n")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def kept(data: Data) -> list[tuple[object, ...]]:
    return sorted((*row[4:12], row.inputs) for row in data.rows)


def test_facts_with_which_a_guard_divides_by_zero_are_a_mismatch(program: Path, tmp_path: Path) -> None:
    calls = [(8, 0, "Even"), (9, 0, "Even"), (8, 0, "Other"), (3, 0, "Rest"), (8, 2, "Even"), (8, 3, "Even")]
    assert said(program, tmp_path / "cpp", *(f"{M} {a} {kernel}" for M, a, kernel in calls)) == ""
    with Recorder(str(tmp_path / "python"), run="cpp"):
        for M, a, kernel in calls:
            record(divides(), {"M": M, "a": a}, kernel=kernel)
    ours, theirs = store.load(tmp_path / "cpp"), store.load(tmp_path / "python")
    assert kept(ours) == kept(theirs)
    (table,) = Results.of(ours).tables
    found = sorted((m.kind, m.expected, m.got, m.facts["M"], m.decisions) for m in table.mismatches)
    assert found == [
        ("kernel", "Rest", "Even", 8, 1),
        ("untotal", "a rule", "a predicate that divides by zero", 8, 1),
        ("untotal", "a rule", "a predicate that divides by zero", 8, 2),
    ]


def test_a_number_beyond_127_bits_is_a_mismatch(program: Path, tmp_path: Path) -> None:
    assert said(program, tmp_path / "d", f"{LARGEST} 1 Even", "8 2 Even") == ""
    (table,) = Results.of(store.load(tmp_path / "d")).tables
    assert [(m.kind, m.facts["M"]) for m in table.mismatches] == [("untotal", LARGEST)]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_kernel_without_a_name_is_refused(program: Path, tmp_path: Path, recorded: bool) -> None:
    wanted = 'foreign::op: expected the name of the kernel that ran, got ""\n'
    assert said(program, tmp_path / "d" if recorded else None, "8 2 -", "8 2 Even") == wanted
    if recorded:
        assert [row.kernel for row in store.load(tmp_path / "d").rows] == ["Even"]

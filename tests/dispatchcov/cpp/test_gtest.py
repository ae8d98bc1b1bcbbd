"""GoogleTest cases as tests: their outcomes, and when a run of them is partial. The example, beside a Python run."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.cpp import header as cpp
from dispatchcov.loading.load import load_table
from dispatchcov.records import EARLIER_TRY, UNENDED, Data
from tests.dispatchcov.cpp import build as cpp_build
from tests.dispatchcov.recording import demo, recorded, totals

MAIN = ("gtest", "gtest_main")
ALL = ["Kinds.Passes", "Kinds.Skips", "Kinds.Fails", "Kinds.Dies", "Kinds.Leaves"]
SIZED = ["Small/Sized.Decides/0", "Small/Sized.Decides/1"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``gtest.cpp``, compiled."""
    cpp_build.needs_gtest()
    folder = tmp_path_factory.mktemp("gtest")
    cpp_build.write_header(folder, "demo.hpp", demo(), "demo")
    return cpp_build.build(folder / "kinds", cpp_build.HERE / "gtest.cpp", libraries=MAIN)


def ran(program: Path, folder: Path, *arguments: str, status: int = 0, extra: dict[str, str] | None = None) -> Data:
    """What the program recorded, run with ``arguments`` and ``extra`` in its environment."""
    done = cpp_build.run(program, *arguments, data=folder / "d", extra=extra)
    assert done.returncode == status, done.stdout + done.stderr
    return recorded(folder / "d")


def outcomes(data: Data) -> dict[str, str]:
    return {outcome.test.removeprefix("kinds::"): outcome.outcome for outcome in data.outcomes}


def partial(data: Data) -> list[str]:
    return sorted({reason for shard in data.shards for reason in shard.partial})


def test_each_case_is_a_test_with_its_outcome(program: Path, tmp_path: Path) -> None:
    data = ran(program, tmp_path, status=1, extra={"ASKED": "fail"})
    expected = dict.fromkeys([*ALL, *SIZED], "passed")
    assert outcomes(data) == expected | {"Kinds.Skips": "skipped", "Kinds.Fails": "failed"}
    counts = {key: value for key, value in totals(data.rows).items() if value[0]}
    assert counts == {
        ("kinds::Kinds", "setup"): (1, 1, 0, 0),
        ("kinds::Kinds.Passes", "call"): (1, 1, 0, 1),
        ("kinds::Kinds.Skips", "call"): (1, 1, 0, 0),
        ("kinds::Kinds.Fails", "call"): (1, 1, 0, 0),
        ("kinds::Kinds.Dies", "call"): (1, 1, 0, 0),
        ("kinds::Kinds.Leaves", "call"): (1, 1, 0, 0),
        ("kinds::Kinds", "teardown"): (1, 1, 0, 0),
        **{(f"kinds::{name}", "call"): (1, 1, 0, 0) for name in SIZED},
    }
    assert partial(data) == []


@pytest.mark.parametrize("style", ["fast", "threadsafe"])
def test_the_child_of_a_death_test_counts_under_its_case(program: Path, tmp_path: Path, style: str) -> None:
    data = ran(program, tmp_path, extra={"ASKED": style})
    (row,) = (row for row in data.rows if row.inputs[0][0] == 5)
    assert (row.test, row.phase, row.finished) == ("kinds::Kinds.Dies", "call", False)
    assert len(data.shards) == 2
    assert partial(data) == []
    assert outcomes(data)["Kinds.Dies"] == "passed"


@pytest.mark.parametrize(
    ("arguments", "extra", "reasons"),
    [
        (["--gtest_filter=*Passes:*Sized*"], {}, ["--gtest_filter left tests out"]),
        ([], {"GTEST_FILTER": "-*Dies"}, ["--gtest_filter left tests out"]),
        (["--gtest_filter=*"], {}, []),
        (["--gtest_filter=Kinds.*:Small*"], {}, []),
        (["--gtest_also_run_disabled_tests"], {}, []),
        (["--gtest_shuffle"], {}, []),
        ([], {"GTEST_TOTAL_SHARDS": "2", "GTEST_SHARD_INDEX": "1"}, ["sharded: other processes run other tests"]),
        (["--gtest_repeat=2"], {}, ["--gtest_repeat"]),
    ],
)
def test_a_run_that_leaves_cases_out_is_partial(
    program: Path, tmp_path: Path, arguments: list[str], extra: dict[str, str], reasons: list[str]
) -> None:
    assert partial(ran(program, tmp_path, *arguments, extra=extra)) == reasons


def test_a_run_that_stops_at_a_failure_is_partial(program: Path, tmp_path: Path) -> None:
    assert partial(ran(program, tmp_path, "--gtest_fail_fast", status=1, extra={"ASKED": "fail"})) == [
        "stopped before the end"
    ]


@pytest.mark.parametrize(("how", "status"), [("exit", 0), ("crash", -signal.SIGABRT)])
def test_a_program_that_leaves_inside_a_case_is_partial(program: Path, tmp_path: Path, how: str, status: int) -> None:
    data = ran(program, tmp_path, status=status, extra={"ASKED": how})
    assert partial(data) == [UNENDED]
    (row,) = (row for row in data.rows if row.inputs[0][0] == 6)
    assert (row.selected, row.launched) == (1, 1)


def test_a_case_that_is_repeated_counts_by_its_last_try(program: Path, tmp_path: Path) -> None:
    counts = totals(ran(program, tmp_path, "--gtest_repeat=3").rows)
    assert counts["kinds::Kinds.Passes", "call"] == (1, 1, 0, 1)
    assert counts["kinds::Kinds.Passes", EARLIER_TRY] == (2, 2, 0, 2)


@pytest.mark.parametrize("style", ["fast", "threadsafe"])
def test_children_of_a_case_that_is_repeated_count_by_its_last_try(program: Path, tmp_path: Path, style: str) -> None:
    data = ran(program, tmp_path, "--gtest_repeat=3", extra={"ASKED": style})
    rows = [row for row in data.rows if row.inputs[0][0] == 5]
    assert {row.test for row in rows} == {"kinds::Kinds.Dies"}
    assert sorted((row.phase, row.selected) for row in rows) == [("call", 1), (EARLIER_TRY, 1), (EARLIER_TRY, 1)]


def test_a_program_that_a_test_of_pytest_starts_is_not_partial(program: Path, tmp_path: Path) -> None:
    extra = {"PYTEST_CURRENT_TEST": "test_it.py::test_program (call)"}
    assert partial(ran(program, tmp_path, "--gtest_filter=*Passes", extra=extra)) == []


def test_listing_cases_records_nothing(program: Path, tmp_path: Path) -> None:
    assert cpp_build.run(program, "--gtest_list_tests", data=tmp_path / "d").returncode == 0
    assert not list(tmp_path.iterdir())


def test_records_that_cannot_be_written_fail_the_program(program: Path, tmp_path: Path) -> None:
    done = cpp_build.run(program, data=tmp_path / "none" / "d")
    assert done.returncode == 1
    assert "dispatchcov: records could not be written: No such file or directory" in done.stdout


# --- the example ------------------------------------------------------------------------------------------------------

TWIN = """
import dispatchcov, pytest

TABLE = dispatchcov.load_table({table!r})


@pytest.mark.parametrize(("n", "incx", "incy", "dtype"), [
    (64, 1, 1, "float"), (67, 1, 1, "float"), (66, 1, 1, "double"), (10, 2, 3, "float"), (3, 1, 1, "double"),
    (9, -2, 1, "double"), (0, 1, 1, "float"),
])
def test_axpy(n, incx, incy, dtype):
    with TABLE.decide(n=n, incx=incx, incy=incy, dtype=dtype).launch():
        pass
    dispatchcov.checked()
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's test program, compiled."""
    cpp_build.needs_gtest()
    sources = [cpp_build.EXAMPLE / name for name in ("axpy.cpp", "axpy_test.cpp")]
    return cpp_build.build(tmp_path_factory.mktemp("example") / "axpy_test", *sources, libraries=MAIN)


def test_the_report_is_that_of_pytest_over_the_same_inputs(example: Path, tmp_path: Path) -> None:
    done = cpp_build.command(tmp_path, "run", "--data=cpp", "--format=json", "-o", "cpp.json", "--", example)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "test_twin.py").write_text(TWIN.format(table=str(cpp_build.EXAMPLE / "axpy.toml")), encoding="utf-8")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dispatch-report=json:python.json"]
    subprocess.run(run, cwd=tmp_path, env=cpp_build.environment(None), check=True, capture_output=True)
    ours, theirs = cpp_build.report(tmp_path / "cpp.json"), cpp_build.report(tmp_path / "python.json")
    (op,) = ours["tables"]
    assert ours["tables"][op].pop("source") == "examples/cpp/axpy.toml"
    theirs["tables"][op].pop("source")
    assert ours == theirs


def test_a_filtered_run_of_the_example_is_not_judged(example: Path, tmp_path: Path) -> None:
    done = cpp_build.command(tmp_path, "run", "--", example, "--gtest_filter=*Strided")
    assert done.returncode == 0
    assert "dispatch gate: not judged, the run was partial" in done.stdout
    halves = [{"GTEST_TOTAL_SHARDS": "2", "GTEST_SHARD_INDEX": str(half)} for half in (0, 1)]
    for half in halves:
        assert cpp_build.run(example, data=tmp_path / "d", extra=half).returncode == 0
    done = cpp_build.command(tmp_path, "report", "--complete", "--data=d")
    assert done.returncode == 0
    assert "dispatch gate: passed" in done.stdout


def test_the_header_of_the_example_is_what_its_table_gives() -> None:
    header = cpp_build.EXAMPLE / "axpy_dispatch.hpp"
    cpp.check(str(header), load_table(cpp_build.EXAMPLE / "axpy.toml"))


def test_merged_records_of_both_languages_are_of_one_table(example: Path, tmp_path: Path) -> None:
    assert cpp_build.run(example, data=tmp_path / "d").returncode == 0
    (tmp_path / "test_twin.py").write_text(TWIN.format(table=str(cpp_build.EXAMPLE / "axpy.toml")), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=cpp_build.environment(tmp_path / "d"),
        check=True,
        capture_output=True,
    )
    data = store.load(tmp_path / "d")
    assert len(data.tables) == 1
    assert sum(row.selected for row in data.rows) == 14

"""What is needed is not overwritten, and what is missing is told before any test runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.errors import UsageError
from dispatchcov.plugin.destinations import writable
from tests.dispatchcov.plugin_project import GREEN, project, run

__all__ = ["project"]

NO_TABLE = "def test_a(): pass\ndef test_b(): pass\n"


def workload(project: pytest.Pytester, name: str) -> Path:
    """Records of a run, kept as ``name``."""
    assert run(project, f"--dispatch-data={name}", "--dispatch-report=term", test_scale=GREEN).ret == 0
    return project.path / name


@pytest.mark.parametrize("option", ["weights", "stored"])
def test_records_to_read_are_not_those_to_write(project: pytest.Pytester, option: str) -> None:
    before = workload(project, "served").read_bytes()
    result = run(project, "--dispatch-data=served", f"--dispatch-{option}=./served")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *--dispatch-data: *a file of its own*served*that of --dispatch-{option}"])
    assert (project.path / "served").read_bytes() == before
    result = run(project, "--dispatch-data=served", "--dispatch-append", f"--dispatch-{option}=served")
    assert result.ret == 0

    arguments = ("run", "--data", "served", f"--{option}", "served", "--", sys.executable, "-c", "pass")
    done = project.run(sys.executable, "-m", "dispatchcov.cli", *arguments)
    assert done.ret == 1
    done.stderr.fnmatch_lines([f"dispatchcov: --data: *that of --{option}"])
    assert store.load(project.path / "served").rows


@pytest.mark.parametrize("option", ["weights", "stored"])
@pytest.mark.parametrize(("name", "message"), [("nowhere", "got n*"), ("small.toml", "expected a data file*")])
def test_records_that_are_missing_are_told_before_the_tests(
    project: pytest.Pytester, option: str, name: str, message: str
) -> None:
    result = run(project, f"--dispatch-{option}={name}", "--dispatch-report=term", test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {name}: *{message}"])


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        (("--dispatch-report=json:.dispatchcov",), "--dispatch-data"),
        (("--dispatch-report=json:a", "--dispatch-report=lcov:./a"), "--dispatch-report=json"),
        (("--dispatch-report=json:t", "--dispatch-trace=t"), "--dispatch-report=json"),
        (("--dispatch-report=json:small.toml", "--dispatch-table=small.toml"), "--dispatch-table"),
    ],
)
def test_each_file_has_one_purpose(project: pytest.Pytester, options: tuple[str, ...], taken: str) -> None:
    result = run(project, *options, test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *expected a file of its own to write, *that of {taken}"])
    assert "[[rule]]" in (project.path / "small.toml").read_text()


def test_a_command_does_not_write_over_what_it_reads(project: pytest.Pytester) -> None:
    workload(project, "served")
    for arguments in (("json", "--data", "served"), ("report", "--data", "x", "--weights", "served")):
        done = project.run(sys.executable, "-m", "dispatchcov.cli", *arguments, "-o", "served")
        assert done.ret == 1
        done.stderr.fnmatch_lines(["dispatchcov: -o: expected a file of its own to write, got served*"])
    assert store.load(project.path / "served").rows


@pytest.mark.parametrize("option", ["--dispatch-report=json:small.toml", "--dispatch-trace=small.toml"])
def test_a_table_that_decides_without_being_named_is_not_overwritten(project: pytest.Pytester, option: str) -> None:
    result = run(project, option, test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dispatch-*: expected a file that may be overwritten, got small.toml, *"])
    assert "[[rule]]" in (project.path / "small.toml").read_text()


def test_a_page_that_cannot_be_written_is_told_before_the_tests(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report=html:operator_under_test.py", test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dispatch-report: expected a folder to write to, got the file *test.py"])


def test_several_reports_may_go_nowhere(project: pytest.Pytester) -> None:
    reports = ("--dispatch-report=json:/dev/null", "--dispatch-report=lcov:/dev/null")
    assert run(project, *reports, "--dispatch-report=xml", "--dispatch-report=xml", test_scale=GREEN).ret == 0


def test_a_workload_of_another_table_leaves_the_report(project: pytest.Pytester) -> None:
    workload(project, "served")
    table = project.path / "small.toml"
    table.write_text(table.read_text().replace('when = "N % 4 == 0 and', 'when = "N % 8 == 0 and'))
    result = run(project, "--dispatch-weights=served", "--dispatch-report=term")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["vec4 *", "rules reached: *", "dispatch gate: FAILED*", "  - *record it again"])


def test_a_partial_run_that_meets_no_table_weighs_nothing(project: pytest.Pytester) -> None:
    workload(project, "served")
    (project.path / "test_scale.py").unlink()
    result = run(project, "--dispatch-weights=served", "-k", "test_a", test_none=NO_TABLE)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["dispatch gate: not judged, the run was partial"])


def test_the_workload_of_a_project_is_recorded_where_its_settings_want_it(project: pytest.Pytester) -> None:
    project.makepyprojecttoml('[tool.dispatchcov]\nweights = "served"\n')
    code = "from operator_under_test import scale; scale(3)"
    for _ in range(2):
        arguments = ("run", "--data", "served", "--", sys.executable, "-c", code)
        done = project.run(sys.executable, "-m", "dispatchcov.cli", *arguments)
        assert done.ret == 2
        assert sum(row.selected for row in store.load(project.path / "served").rows) == 1


def test_a_place_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("kept")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    for path in (there, tmp_path / "new.jsonl"):
        with pytest.raises(UsageError, match=r"--dispatch-trace: expected a place that can be written to, got .*jsonl"):
            writable(str(path), "--dispatch-trace")
    assert there.read_text() == "kept"

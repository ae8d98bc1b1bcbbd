"""Runs that end early, run inside others or leave tests out: what they may claim, and whose records they touch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dispatchcov import store
from tests.dispatchcov.plugin_project import GREEN, ONLY_ALIGNED, bins, project, run, run_apart

__all__ = ["project"]

PARTIAL = "dispatch gate: not judged, the run was partial"
NESTED = """
import os, shutil, subprocess, sys
from operator_under_test import scale
def test_pytest_in_a_test(tmp_path):
    (tmp_path / "test_inner.py").write_text(
        "from operator_under_test import scale\\ndef test_a(): scale(4, dtype='float32')\\ndef test_b(): pass\\n"
    )
    shutil.copy("small.toml", tmp_path)
    arguments = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", *{arguments}, str(tmp_path)]
    environment = {{**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}}
    done = subprocess.run(arguments, capture_output=True, text=True, cwd={cwd}, env=environment)
    assert done.returncode == {status}, done.stdout + done.stderr
    assert {message!r} in done.stdout + done.stderr
"""


def nested(arguments: list[str], *, cwd: str = "tmp_path", status: int = 0, message: str = "1 passed") -> str:
    return NESTED.format(arguments=arguments, cwd=cwd, status=status, message=message)


def test_a_killed_run_is_partial(project: pytest.Pytester) -> None:
    killed = "def test_z():\n    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    run_apart(project, "--dispatch-report", test_scale=ONLY_ALIGNED + killed)
    result = project.run(sys.executable, "-m", "dispatchcov.cli", "report")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["note: partial run (the run did not end)*", PARTIAL])
    result = project.run(sys.executable, "-m", "dispatchcov.cli", "report", "--complete")
    assert result.ret == 2
    result.stdout.fnmatch_lines(["  - demo::scale: required partition ragged was not hit"])


def test_what_is_added_to_a_killed_run_says_why_it_is_not_judged(project: pytest.Pytester) -> None:
    killed = "def test_z():\n    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    run_apart(project, "--dispatch-report", test_scale=ONLY_ALIGNED + killed)
    (shard,) = store.load(project.path / ".dispatchcov").shards
    for _ in range(2):
        result = run_apart(project, "--dispatch-report=term", "--dispatch-append", test_scale=ONLY_ALIGNED)
        assert result.ret == 0
        lines = [f"note: killed, or still going on: process {shard.pid} on {shard.host}", "note: *`dispatchcov erase`*"]
        result.stdout.fnmatch_lines([*lines, PARTIAL])
    assert project.run(sys.executable, "-m", "dispatchcov.cli", "erase").ret == 0
    result = run_apart(project, "--dispatch-report=term", "--dispatch-append", test_scale=ONLY_ALIGNED)
    assert result.ret == 1
    result.stdout.no_fnmatch_line("note: *")


def test_the_last_line_says_that_the_gate_failed(project: pytest.Pytester) -> None:
    result = run_apart(project, "--dispatch-report=term", "--junitxml=out.xml", "--color=yes", test_scale=ONLY_ALIGNED)
    assert result.ret == 1
    assert "2 passed" in result.outlines[-2]
    assert result.outlines[-1] == "\x1b[31m\x1b[1mdispatch gate: FAILED, see dispatch coverage above\x1b[0m"
    assert "\x1b[31m\x1b[1mdispatch gate: FAILED, 1 reason\x1b[0m" in result.outlines
    result = run_apart(project, "--dispatch-report=term", "--junitxml=out.xml", test_scale=GREEN)
    assert result.ret == 0
    assert "3 passed" in result.outlines[-1]


def test_what_a_pytest_inside_a_test_leaves_out_does_not_make_the_run_partial(project: pytest.Pytester) -> None:
    arguments = ["-k", "test_a"]
    result = run_apart(project, "--dispatch-report", test_scale=ONLY_ALIGNED, test_nested=nested(arguments))
    assert result.ret == 1
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["vec4 * dtype=float32 * hit * 2 *", "  - *required partition ragged was not hit"])


def test_a_report_inside_a_test_leaves_the_records_of_the_run_alone(project: pytest.Pytester) -> None:
    inner = nested(["--dispatch-report=term"], status=1, message="required partition ragged was not hit")
    result = run_apart(project, "--dispatch-report", test_a=inner, test_scale=GREEN)
    assert result.ret == 0
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["demo::scale  3 decisions *", "dispatch gate: passed"])


def test_a_report_inside_a_test_wants_a_data_file_of_its_own(project: pytest.Pytester) -> None:
    wanted = "expected a --dispatch-data of its own"
    inner = nested(["--dispatch-report=term"], cwd="os.getcwd()", status=4, message=wanted)
    result = run_apart(project, "--dispatch-report", test_a=inner, test_scale=GREEN)
    assert result.ret == 0
    result.assert_outcomes(passed=4)


def test_a_report_inside_dispatchcov_run_keeps_what_that_recorded(project: pytest.Pytester) -> None:
    project.makepyfile(test_scale=ONLY_ALIGNED)
    python = f"{sys.executable} -m"
    script = f"{sys.executable} -c 'from operator_under_test import scale; scale(3)'"
    script += f"; {python} pytest -p no:hypothesispytest --dispatch-report=term"
    result = project.run(sys.executable, "-m", "dispatchcov.cli", "run", "--", "sh", "-c", script)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["demo::scale  3 decisions *", "dispatch gate: passed"] * 2)


def test_failed_first_leaves_nothing_out(project: pytest.Pytester) -> None:
    project.makepyfile(test_scale=GREEN.replace("== 6", "== 7"), test_other="def test_other(): pass")
    assert project.runpytest_subprocess("--dispatch-report").ret == 1
    project.makepyfile(test_scale=ONLY_ALIGNED)
    result = project.runpytest_subprocess("--dispatch-report", "--ff")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["  - demo::scale: required partition ragged was not hit"])


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_fixtures_without_tests_are_partial(project: pytest.Pytester, option: str) -> None:
    result = run(project, "--dispatch-report", option, test_scale=GREEN)
    assert result.ret == 0
    result.stdout.fnmatch_lines([PARTIAL])


@pytest.mark.parametrize("option", ["--help", "--version", "--markers", "--fixtures", "--cache-show"])
def test_what_runs_no_tests_leaves_the_records_alone(project: pytest.Pytester, option: str) -> None:
    run(project, "--dispatch-report", test_scale=GREEN)
    before = {name: (project.path / name).stat().st_mtime_ns for name in os.listdir() if "dispatchcov" in name}
    project.runpytest_subprocess("--dispatch-report", option)
    assert {name: (project.path / name).stat().st_mtime_ns for name in os.listdir() if "dispatchcov" in name} == before


def test_a_run_that_another_plugin_ends_before_it_begins(project: pytest.Pytester) -> None:
    last = "@pytest.hookimpl(trylast=True)\ndef pytest_configure(config): raise pytest.UsageError('not today')"
    project.makeconftest(f"import pytest\n{last}")
    assert run(project, "--dispatch-report", test_scale=GREEN).ret == pytest.ExitCode.USAGE_ERROR
    assert not [name for name in os.environ if name.startswith("DISPATCHCOV_")]
    project.makeconftest("")
    assert run(project, "--dispatch-report=json:out.json", "--dispatch-append").ret == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dispatch-trace=folder"], "--dispatch-trace: expected a file to write to, got the folder folder"),
        (["--dispatch-trace=no/trace"], "--dispatch-trace: expected a folder to write no/trace into, got none"),
        (["--dispatch-report=json:folder"], "--dispatch-report: expected a file to write to, got the folder folder"),
        (["--dispatch-evidence="], "--dispatch-evidence: expected one or more of selected, launched"),
        (["--dispatch-data=notes", "--dispatch-append"], "notes: expected a data file of dispatchcov"),
    ],
)
def test_mistakes_are_said_before_the_tests_run(project: pytest.Pytester, arguments: list[str], message: str) -> None:
    (project.path / "folder").mkdir()
    (project.path / "notes").write_text("precious")
    result = run(project, "--dispatch-report", *arguments, test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_a_report_that_cannot_be_written_does_not_hide_the_others(project: pytest.Pytester) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device that is full")
    result = run(project, f"--dispatch-report=json:{full}", "--dispatch-report=term", test_scale=ONLY_ALIGNED)
    assert result.ret == 1
    failure = f"json report: cannot write {full}: No space left on device"
    result.stdout.fnmatch_lines(["vec4 * hit *", "*ragged was not hit", f"  - {failure}"])


@pytest.mark.parametrize(
    "text",
    [
        '[tool]\ndispatchcov = { report = "term" }',
        '[tool."dispatchcov"]\nreport = "term"',
        'tool.dispatchcov.report = "term"',
        '["tool" . dispatchcov]\nreport = "term"',
    ],
)
def test_settings_are_found_however_they_are_written(project: pytest.Pytester, text: str) -> None:
    project.makefile(".toml", pyproject=text)
    run(project, test_scale=GREEN).stdout.fnmatch_lines(["dispatch gate: passed"])


def test_an_unreadable_shard_fails_the_gate_by_name(project: pytest.Pytester) -> None:
    run(project, "--dispatch-report", test_scale=GREEN)
    name = ".dispatchcov.host.1.000000000000.jsonl"
    (project.path / name).write_text("damaged\n")
    result = run(project, "--dispatch-report=json:out.json", "--dispatch-append")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"  - records are damaged: {name}: nothing of it is kept: line 1: expected a shard*"])
    assert set(bins(project).values()) == {"hit"}

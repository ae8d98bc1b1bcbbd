"""The baseline as users of the pytest plugin meet it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dispatchcov.report.json import schema
from tests.dispatchcov.build import SMALL
from tests.dispatchcov.plugin_project import project, run

__all__ = ["project"]

TESTS = """
import pytest
from operator_under_test import scale
@pytest.mark.parametrize("n", [4, 8, 12])
def test_whole(n):
    assert scale(n) == 2 * n
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_others(dtype):
    scale(3, dtype=dtype)
    scale(4, dtype=dtype)
@pytest.mark.parametrize("name", ["a]::b[ |x`'", "\\u00e9\\n"])
def test_odd_names(name):
    scale(5)
def test_wide():
    scale(8, dtype="float32")
"""
FILE = "--dispatch-baseline=base.jsonl"
UPDATE = (FILE, "--dispatch-update-baseline")
FAIL = (FILE, "--dispatch-fail-on-drift")


@pytest.fixture
def based(project: pytest.Pytester) -> pytest.Pytester:
    """The project with a baseline of its tests."""
    assert run(project, *UPDATE, test_scale=TESTS).ret == 0
    return project


def moved_threshold(project: pytest.Pytester) -> None:
    project.makefile(".toml", small=SMALL.replace("N % 4 == 0 and", "N % 8 == 0 and"))


def entries(project: pytest.Pytester) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (project.path / "base.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
        value = json.loads(line)
        if "test" in value:
            found.setdefault(value["test"].removeprefix("test_scale.py::"), []).append(value["kernel"])
    return found


def test_a_run_that_is_as_the_baseline_says(based: pytest.Pytester) -> None:
    before = (based.path / "base.jsonl").read_bytes()
    result = run(based, *FAIL)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["drift from base.jsonl: nothing moved, 8 unchanged", "dispatch gate: passed"])
    result = run(based, *UPDATE)
    result.stdout.fnmatch_lines(["    baseline unchanged: base.jsonl"])
    assert (based.path / "base.jsonl").read_bytes() == before
    assert len(entries(based)) == 8


def test_a_threshold_that_moves_tests_fails_the_run_if_that_is_asked(based: pytest.Pytester) -> None:
    moved_threshold(based)
    result = run(based, FILE)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "drift from base.jsonl: 4 tests moved, 4 unchanged",
            "    table demo::scale, rule vec4",
            "        was N % 4 == 0 and aligned -> ScaleVec4",
            "        is  N % 8 == 0 and aligned -> ScaleVec4",
            "    demo::scale: 4 tests moved",
            "        was vec4 -> ScaleVec4",
            "        is  scalar [[]vec4: not N % 8 == 0] -> Scale",
            "        vec4: N % 4 == 0 was true, is now N % 8 == 0, false",
            "            test_scale.py::test_whole[[]12]  N=12 aligned=true dtype=float16",
            "            test_scale.py::test_whole[[]4]  N=4 aligned=true dtype=float16",
        ],
        consecutive=False,
    )
    result = run(based, *FAIL, "--dispatch-report=json:out.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["  - demo::scale: 4 tests moved from vec4 -> ScaleVec4 to scalar *(N=4), in *"])
    document = json.loads((based.path / "out.json").read_text())
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert [move["cause"]["after"] for move in document["drift"]["moved"]] == ["N % 8 == 0"] * 4
    assert (document["drift"]["unchanged"], document["gate"]["ok"]) == (4, False)


def test_update_accepts_the_drift_and_says_what_changed(based: pytest.Pytester) -> None:
    moved_threshold(based)
    result = run(based, *UPDATE, "--dispatch-fail-on-drift")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["drift from base.jsonl: 4 tests moved, *", "    baseline written: base.jsonl"])
    assert entries(based)["test_whole[4]"] == ["Scale"]
    run(based, *FAIL).stdout.fnmatch_lines(["drift from base.jsonl: nothing moved, 8 unchanged"])


@pytest.mark.parametrize("select", [("-k", "whole"), ("test_scale.py::test_whole",), ("--deselect", "x", "-m", "x")])
def test_a_partial_run_neither_drops_nor_reports_what_did_not_run(
    based: pytest.Pytester, select: tuple[str, ...]
) -> None:
    before = entries(based)
    result = run(based, *UPDATE, *select)
    result.stdout.fnmatch_lines(["drift from base.jsonl: nothing moved, *", "    not compared: * not run"])
    result.stdout.no_fnmatch_line("*gone*")
    assert entries(based) == before


def test_a_renamed_test_is_gone_and_new_and_a_file_that_did_not_run_is_not_gone(based: pytest.Pytester) -> None:
    run(based, *UPDATE, "test_more.py", test_more="from operator_under_test import scale\ndef test_more(): scale(3)")
    assert len(entries(based)) == 9
    renamed = TESTS.replace("test_whole", "test_renamed")
    result = run(based, *FAIL, "test_scale.py", test_scale=renamed)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["drift from base.jsonl: nothing moved, 3 new, 3 gone, 5 unchanged"])
    result.stdout.fnmatch_lines(["    gone: 3 tests", "    not compared: 1 test not run"])
    (based.path / "test_more.py").unlink()
    result = run(based, *UPDATE)
    result.stdout.fnmatch_lines(["    gone: 4 tests", "        test_more.py::test_more"])
    assert sorted(entries(based)) == sorted(
        name.replace("whole", "renamed") for name in entries(based) if "more.py" not in name
    )


def test_failed_and_skipped_tests_are_apart_and_stay(based: pytest.Pytester) -> None:
    before = entries(based)
    body = TESTS.replace("assert scale(n) == 2 * n", "scale(3); assert n != 4; pytest.skip() if n == 8 else scale(n)")
    result = run(based, *UPDATE, test_scale=body)
    result.stdout.fnmatch_lines(["    not compared: 1 test failed", "    not compared: 1 test skipped"])
    result.stdout.fnmatch_lines(["    demo::scale: 1 test moved", "        was not there", "        is  scalar *"])
    assert entries(based) == before | {"test_whole[12]": ["Scale", "ScaleVec4"]}


VARYING = """
import random
import pytest
from hypothesis import given, settings, strategies as st
from operator_under_test import scale
@given(st.integers(0, 1000))
@settings(database=None)
def test_drawn(n):
    scale(n)
@pytest.mark.dispatch_varies
def test_marked():
    scale(random.choice([3, 4, 7, 8]))
class TestMethod:
    @given(st.sampled_from([3, 4]))
    @settings(database=None, max_examples=1)
    def test_method(self, n):
        scale(n)
"""


def test_tests_that_draw_their_inputs_do_not_flicker(project: pytest.Pytester) -> None:
    assert run(project, *UPDATE, test_scale=VARYING + TESTS).ret == 0
    for _ in range(3):
        result = run(project, *FAIL)
        assert result.ret == 0, result.stdout.str()
    for _ in range(4):
        run(project, *UPDATE)
    before = (project.path / "base.jsonl").read_bytes()
    assert before.count(b'"varies": true') >= 3
    run(project, *UPDATE).stdout.fnmatch_lines(["*nothing moved*"])


def test_ignored_tests(based: pytest.Pytester) -> None:
    (based.path / "pyproject.toml").write_text('[tool.dispatchcov]\nbaseline_ignore = ["*::test_whole[*]"]\n')
    moved_threshold(based)
    run(based, FILE).stdout.fnmatch_lines(["drift from base.jsonl: 2 tests moved, 3 unchanged"])


def test_settings_of_the_project_and_the_environment(based: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (based.path / "pyproject.toml").write_text('[tool.dispatchcov]\nbaseline = "base.jsonl"\nfail_on_drift = true\n')
    moved_threshold(based)
    assert run(based).ret == 1
    monkeypatch.setenv("DISPATCHCOV_FAIL_ON_DRIFT", "no")
    assert run(based).ret == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((FILE,), "*base.jsonl: expected a baseline, got no file; pytest * --dispatch-update-baseline writes it*"),
        (
            ("--dispatch-fail-on-drift",),
            "*--dispatch-fail-on-drift: expected --dispatch-baseline=FILE with it, got none*",
        ),
        (("--dispatch-update-baseline",), "*--dispatch-update-baseline: expected --dispatch-baseline=FILE with it*"),
        (("--dispatch-baseline=no/base.jsonl", "--dispatch-update-baseline"), "*expected a folder to write no/base*"),
        (("--dispatch-baseline=small.toml", "--dispatch-update-baseline"), "*small.toml:1: expected a baseline of*"),
    ],
)
def test_wrong_usage_is_said_before_any_test_runs(
    project: pytest.Pytester, options: tuple[str, ...], message: str
) -> None:
    result = run(project, *options, test_scale=TESTS)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert (project.path / "small.toml").read_text() == SMALL.strip()
    assert not (project.path / "base.jsonl").exists()


@pytest.mark.parametrize("head", ['{"dispatchcov": "baseline", "format": 2}', "<<<<<<< HEAD", ""])
def test_a_baseline_that_cannot_be_read_is_not_overwritten(project: pytest.Pytester, head: str) -> None:
    (project.path / "base.jsonl").write_text(head)
    assert run(project, *UPDATE, test_scale=TESTS).ret == pytest.ExitCode.USAGE_ERROR
    assert (project.path / "base.jsonl").read_text() == head


def test_workers_leave_the_same_baseline(based: pytest.Pytester) -> None:
    before = (based.path / "base.jsonl").read_bytes()
    (based.path / "base.jsonl").unlink()
    result = based.runpytest_subprocess("-p", "no:cacheprovider", "-n2", *UPDATE)
    assert result.ret == 0
    assert (based.path / "base.jsonl").read_bytes() == before


def test_a_run_in_another_folder_knows_which_files_are_there(
    based: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = based.path / "elsewhere"
    elsewhere.mkdir()
    (based.path / "pytest.ini").write_text("[pytest]\n")
    Path(elsewhere / "test_own.py").write_text("import operator_under_test as o\ndef test_own(): o.scale(3)\n")
    monkeypatch.chdir(elsewhere)
    (elsewhere / "small.toml").write_text(SMALL)
    result = run(based, "--dispatch-baseline=../base.jsonl", "test_own.py")
    result.stdout.fnmatch_lines(["    not compared: 8 tests not run"])
    (based.path / "pyproject.toml").write_text('[tool.dispatchcov]\nbaseline = "base.jsonl"\n')
    run(based, "test_own.py").stdout.fnmatch_lines(["drift from *base.jsonl: nothing moved, 1 new, 0 unchanged"])

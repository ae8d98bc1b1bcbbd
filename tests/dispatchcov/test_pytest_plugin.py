"""The plugin as its users meet it: whole pytest runs in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.dispatchcov.build import SMALL
from tests.dispatchcov.plugin_project import GREEN, ONLY_ALIGNED, bins, project, report, run, run_apart

__all__ = ["project"]


def test_all_partitions_hit(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report", test_scale=GREEN)
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*dispatch coverage*",
            "demo::scale  3 decisions  machine: *",
            "vec4 * dtype=float16 * hit * 1 * 1 * selected, launched, checked",
            "ragged * hit * 1 * 1 * selected, launched",
            "covered: partitions 3/3 (100 %), rules 2/2 (100 %)*",
            "dispatch gate: passed",
        ]
    )
    assert (project.path / ".dispatchcov").exists()
    assert not list(project.path.glob(".dispatchcov.*"))


def test_a_missed_partition_fails_a_green_suite_with_an_input_and_its_decision(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report", test_scale=ONLY_ALIGNED)
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "ragged * MISSED * 0 *",
            "    reached by  N=1 aligned=false dtype=float16",
            "    would take  scalar -> Scale (not vec4: N % 4 == 0 is false)",
            "dispatch gate: FAILED, 1 reason",
            "  - demo::scale: required partition ragged was not hit",
        ]
    )


def test_term_has_no_witnesses(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report=term", test_scale=ONLY_ALIGNED)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["ragged * MISSED*"])
    result.stdout.no_fnmatch_line("*reached by*")


def test_json_goes_to_its_file_beside_the_terminal(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report=json:out.json", "--dispatch-report=term", test_scale=GREEN)
    result.stdout.fnmatch_lines(["dispatch gate: passed", "written: out.json"])
    assert bins(project) == {"vec4 dtype=float16": "hit", "vec4 dtype=float32": "hit", "ragged": "hit"}


def test_a_test_path_taken_for_a_report_type(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report", "test_scale.py", test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--dispatch-report took the test path 'test_scale.py' for a report type*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dispatch-report=trem"], "unknown type 'trem'; did you mean 'term'? known: term, term-missing, json"),
        (["--dispatch-report=term:out"], "term is printed and takes no destination"),
        (["--dispatch-fail-under=101"], "--dispatch-fail-under: expected a percentage from 0 to 100, got '101'"),
        (["--dispatch-evidence=seen"], "unknown evidence 'seen'"),
        (["--dispatch-table=none.toml"], "none.toml: expected a readable TOML file: No such file or directory"),
        (["--dispatch-report=json:no/such/out.json"], "expected a folder to write no/such/out.json into"),
        (["--dispatch-report", "--dispatch-data=no/such/folder/data"], "expected to write records into"),
    ],
)
def test_wrong_options_are_usage_errors(project: pytest.Pytester, arguments: list[str], message: str) -> None:
    result = run(project, *arguments, test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
    assert not [name for name in os.environ if name.startswith("DISPATCHCOV_")]


def test_no_dispatch_at_all_is_no_pass(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report", test_scale="def test(): pass")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*no dispatch table was given and none decided anything: nothing was judged*"])
    result = run(project, "--dispatch-report", "--dispatch-table=small.toml", test_scale="def test(): pass")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*demo::scale: no decision was recorded*"])


def test_require_an_optional_partition_also_in_a_partial_run(project: pytest.Pytester) -> None:
    project.makefile(".toml", small=SMALL + "required = false\n")
    assert run(project, "--dispatch-report", test_scale=ONLY_ALIGNED).ret == 0
    for extra in ([], ["-k", "float16"]):
        result = run(project, "--dispatch-report", "--dispatch-require=ragged", *extra, test_scale=ONLY_ALIGNED)
        assert result.ret == 1
        result.stdout.fnmatch_lines(["  - demo::scale: required partition ragged was not hit"])
    result = run(project, "--dispatch-require=raged", "--dispatch-report", test_scale=ONLY_ALIGNED)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["vec4 * hit *", "*unknown partition 'raged'; did you mean 'ragged'*"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "float16"],
        ["--collect-only"],
        ["test_scale.py::test_ragged"],
        ["-x"],
        ["--deselect", "test_scale.py::test_ragged"],
    ],
)
def test_partial_runs_judge_nothing_missed(project: pytest.Pytester, arguments: list[str]) -> None:
    tests = GREEN.replace("assert scale(3)", "assert 0, scale(3)") if arguments == ["-x"] else GREEN
    result = run(project, "--dispatch-report=json:out.json", "--dispatch-fail-under=100", *arguments, test_scale=tests)
    assert result.ret == (1 if arguments == ["-x"] else 0)
    assert arguments == ["--collect-only"] or "missed" not in bins(project).values()
    result.stdout.fnmatch_lines(
        ["note: partial run (*)*nothing *judged*", "dispatch gate: not judged, the run was partial"]
    )


def test_last_failed_is_partial(project: pytest.Pytester) -> None:
    project.makepyfile(test_scale=GREEN.replace("== 6", "== 7"))
    assert project.runpytest_subprocess("--dispatch-report").ret == 1
    project.makepyfile(test_scale=GREEN)
    result = project.runpytest_subprocess("--dispatch-report", "--lf")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["note: partial run (*"])


def test_hits_of_failing_and_skipped_tests_and_of_fixtures_do_not_count(project: pytest.Pytester) -> None:
    tests = """
        import pytest
        from operator_under_test import scale
        @pytest.fixture
        def warm():
            scale(4)
        def test_setup(warm): pass
        def test_fails():
            scale(4)
            assert 0
        @pytest.mark.xfail(strict=False)
        def test_xfails():
            scale(4)
            assert 0
        def test_skips():
            scale(4)
            pytest.skip()
    """
    result = run(project, "--dispatch-report", test_scale=tests)
    result.stdout.fnmatch_lines(["vec4 * MISSED * 0 * apart: 1 failed, 1 setup, 1 skipped, 1 xfailed"])


def test_fail_under(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report", "--dispatch-fail-under=70", test_scale=ONLY_ALIGNED)
    result.stdout.fnmatch_lines(["  - required partitions covered: 2 of 3, 66.67 %, expected at least 70 %"])


def test_evidence(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-report", "--dispatch-evidence=launched,checked", test_scale=GREEN)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["ragged * MISSED * 0 * apart: 1 without checked"])


def test_append_adds_up(project: pytest.Pytester) -> None:
    run(project, "--dispatch-report", test_scale=ONLY_ALIGNED)
    more = "from operator_under_test import scale\ndef test_more():\n    assert scale(3) == 6\n"
    result = run(project, "--dispatch-report=json:out.json", "--dispatch-append", "test_more.py", test_more=more)
    assert result.ret == 0
    assert bins(project) == {"vec4 dtype=float16": "hit", "vec4 dtype=float32": "hit", "ragged": "hit"}
    result = run(project, "--dispatch-report=json:out.json", "test_more.py")
    assert bins(project)["vec4 dtype=float16"] == "missed"


def test_an_older_version_of_a_table_is_refused_when_appending(project: pytest.Pytester) -> None:
    run(project, "--dispatch-report", test_scale=GREEN)
    project.makefile(".toml", small=SMALL.replace("N % 4 == 0 and", "N % 8 == 0 and"))
    result = run(project, "--dispatch-report", "--dispatch-append")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*demo::scale: expected records of one version of the table*"])


def test_trace(project: pytest.Pytester) -> None:
    result = run(project, "--dispatch-trace=trace.jsonl", test_scale=GREEN)
    result.assert_outcomes(passed=3)
    lines = [json.loads(line) for line in (project.path / "trace.jsonl").read_text().splitlines()]
    assert [line["test"] for line in lines] == [
        "test_scale.py::test_aligned[float16]",
        "test_scale.py::test_aligned[float32]",
        "test_scale.py::test_ragged",
    ]
    last = lines[-1]
    assert (last["op"], last["rule"], last["kernel"], last["phase"]) == ("demo::scale", "scalar", "Scale", "call")
    assert last["facts"] == {"N": 3, "aligned": True, "dtype": "float16"}
    assert last["predicates"]["N % 4 == 0"] is False
    assert last["fallbacks"] == [{"rule": "vec4", "failed": ["N % 4 == 0"], "values": {"N": 3}, "sole": "N % 4 == 0"}]
    assert last["machine"]


def test_settings_from_pyproject_and_their_precedence(project: pytest.Pytester) -> None:
    project.makepyprojecttoml('[tool.dispatchcov]\nfail_under = 100\ntable = ["small.toml"]')
    result = run(project, test_scale=ONLY_ALIGNED)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*expected at least 100 %"])
    result = run(project, "--dispatch-fail-under=50")
    result.stdout.no_fnmatch_line("*expected at least*")


@pytest.mark.parametrize("options", [[], ["--dispatch-report"]])
def test_mistakes_in_pyproject_are_errors_with_and_without_options(
    project: pytest.Pytester, options: list[str]
) -> None:
    project.makepyprojecttoml('[tool.dispatchcov]\nreports = ["term"]')
    result = run(project, *options, test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown key 'reports'; did you mean 'report'*"])


def test_paths_in_pyproject_are_from_its_folder(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyprojecttoml('[tool.dispatchcov]\nreport = ["term"]\ntable = ["small.toml"]\ndata = "kept"')
    project.makepyfile(test_scale="def test(): pass")
    deep = project.mkdir("deep")
    monkeypatch.chdir(deep)
    result = run(project, "../test_scale.py")
    result.stdout.fnmatch_lines(["*demo::scale: no decision was recorded"])
    assert (project.path / "kept").exists()


def test_the_environment_asks_too(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHCOV_REPORT", "term")
    result = run(project, test_scale=ONLY_ALIGNED)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["ragged * MISSED *"])
    monkeypatch.setenv("DISPATCHCOV_REPROT", "term")
    result = run(project)
    result.stderr.fnmatch_lines(
        ["*environment: unknown variable 'DISPATCHCOV_REPROT'; did you mean 'DISPATCHCOV_REPORT'*"]
    )


def test_pytest_inside_dispatchcov_run(project: pytest.Pytester) -> None:
    marked = GREEN + '@pytest.mark.dispatch("vec4")\ndef test_marked(dispatch_trace):\n    assert scale(8) == 16\n'
    project.makepyfile(test_scale=marked)
    command = [sys.executable, "-m", "dispatchcov.cli", "run", "--", sys.executable, "-m", "pytest", "-q"]
    result = project.run(*command, "-p", "no:cacheprovider")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["demo::scale  4 decisions *", "vec4 * dtype=float16 * hit * 2 * 2 *", "ragged * hit *"]
    )


def test_nothing_happens_without_an_option(project: pytest.Pytester) -> None:
    result = run(project, test_scale=GREEN)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*dispatch coverage*")
    assert not list(project.path.glob(".dispatchcov*"))


MARKED = """
import pytest
from operator_under_test import scale
@pytest.mark.dispatch("vec4", kernel="Scale*", evidence="launched")
def test_vec4():
    scale(8)
@pytest.mark.dispatch("ragged", fallback={"vec4": "N % 4 == 0"})
def test_ragged():
    scale(6)
@pytest.mark.dispatch("vec4")
def test_named_after_a_kernel_it_does_not_reach():
    scale(6)
@pytest.mark.dispatch("vec4")
def test_that_dispatches_in_its_fixture_only(eight):
    pass
@pytest.mark.dispatch("vec8")
def test_unknown():
    scale(8)
@pytest.mark.dispatch("vec4", kernels="x")
def test_wrong_argument():
    scale(8)
@pytest.fixture
def eight():
    scale(8)
def test_trace(dispatch_trace):
    scale(8)
    scale(7)
    dispatch_trace.assert_reached("vec4")
    dispatch_trace.assert_kernel("Scale")
    dispatch_trace.assert_fallback("vec4", because="N % 4 == 0")
    assert [d.rule for d in dispatch_trace.decisions] == ["vec4", "scalar"]
"""


@pytest.mark.parametrize("arguments", [[], ["--dispatch-report=json:out.json"]])
def test_marker_and_fixture_with_and_without_a_report(project: pytest.Pytester, arguments: list[str]) -> None:
    result = run_apart(project, *arguments, test_scale=MARKED)
    result.assert_outcomes(passed=3, failed=4)
    result.stdout.fnmatch_lines(
        [
            "expected partition 'vec4' of demo::scale to be reached",
            "1 decision in this test:",
            "  selected scalar -> Scale for N=6 aligned=true dtype=float16",
            "    not vec4: N % 4 == 0 is false (N=6)",
            "(marker of test_scale.py:*)",
            "no decision was recorded in this test",
            "unknown partition 'vec8'; did you mean 'vec4'[?] known: vec4, ragged, scalar",
            "mark.dispatch: unknown argument 'kernels'; did you mean 'kernel'*",
        ]
    )


OTHER_KERNEL = """
import dispatchcov
import pytest
from operator_under_test import TABLE, scale
def fell_back(n):
    dispatchcov.record(TABLE, {"N": n, "aligned": True, "dtype": "float16"}, kernel="Scale")
@pytest.mark.dispatch("vec4")
def test_marked():
    fell_back(8)
def test_fixture(dispatch_trace):
    fell_back(8)
    dispatch_trace.assert_reached("vec4")
@pytest.mark.dispatch("vec4")
def test_outside():
    scale(-4)
@pytest.mark.dispatch("vec4")
def test_also_right():
    fell_back(8)
    scale(8)
"""


@pytest.mark.parametrize("arguments", [[], ["--dispatch-report=json:out.json"]])
def test_what_the_report_counts_apart_is_no_hit_for_marker_and_fixture(
    project: pytest.Pytester, arguments: list[str]
) -> None:
    result = run_apart(project, *arguments, test_scale=OTHER_KERNEL)
    result.assert_outcomes(passed=1, failed=3)
    said = result.stdout.str()
    assert said.count("    not counted: kernel Scale ran, the table selects ScaleVec4") == 2
    assert said.count("    not counted: outside the declared domain: expected N to be an integer >= 0, got N=-4") == 1


def without_time(text: str) -> str:
    return re.sub(r'"timestamp": "[^"]*"', "", text)


MANY = """
import pytest
from operator_under_test import scale
@pytest.mark.parametrize("n", range(40))
def test_many(n):
    for k in range(n % 5 + 1):
        assert scale(n + k, aligned=bool(n % 3)) == pytest.approx(2 * (n + k))
"""


def test_xdist_gives_the_same_report(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    reports = []
    for workers in ("0", "2"):
        result = run_apart(project, "-n", workers, "--dispatch-report=json:out.json", test_scale=MANY)
        result.assert_outcomes(passed=40)
        reports.append(without_time((project.path / "out.json").read_text()))
    assert reports[0] == reports[1]
    assert not list(project.path.glob(".dispatchcov.*"))


def test_xdist_partial_and_trace(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    result = run_apart(
        project, "-n", "2", "-k", "test_many", "--dispatch-report", "--dispatch-trace=t.jsonl", test_scale=MANY + GREEN
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(["note: partial run (tests were deselected): nothing is judged missed*"])
    assert len((project.path / "t.jsonl").read_text().splitlines()) == sum(n % 5 + 1 for n in range(40))


CHILDREN = """
import os, subprocess, sys
from operator_under_test import scale
def test_fork():
    if os.fork() == 0:
        scale(8)
        os._exit(0)
    os.wait()
def test_spawn():
    subprocess.run([sys.executable, "-c", "import operator_under_test as o; o.scale(3); o.scale(3)"], check=True)
"""


def test_children_count_under_their_test(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project.path))
    run_apart(project, "--dispatch-report=json:out.json", test_scale=CHILDREN)
    table = report(project)["tables"]["demo::scale"]
    found = {entry["name"] + entry["bin"]: (entry["hits"], entry["tests"]) for entry in table["partitions"]}
    assert found["vec4dtype=float16"] == (1, ["test_scale.py::test_fork"])
    assert found["ragged"] == (2, ["test_scale.py::test_spawn"])


def test_a_killed_run_leaves_its_finished_tests(project: pytest.Pytester) -> None:
    killed = "    import os, signal\n    scale(5)\n    scale(5)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    tests = f"{GREEN}def test_z_killed():\n{killed}"
    run_apart(project, "--dispatch-report", test_scale=tests)
    result = project.run(sys.executable, "-m", "dispatchcov.cli", "report")
    result.stdout.fnmatch_lines(["ragged * hit * 1 * 1 * apart: 2 in progress"])


def test_the_data_file_named_by_mistake_is_not_lost(project: pytest.Pytester) -> None:
    precious = project.path / "notes.txt"
    precious.write_text("precious")
    result = run(project, "--dispatch-report", "--dispatch-data=notes.txt", test_scale=GREEN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert precious.read_text() == "precious"


def test_the_plugin_imports_nothing_heavy(project: pytest.Pytester) -> None:
    loaded = "[m for m in sys.modules if m.startswith('dispatchcov.') or m in ('torch', 'numpy')]"
    code = f"import sys, dispatchcov.pytest_plugin; print({loaded})"
    result = project.run(sys.executable, "-c", code)
    assert result.outlines == ["['dispatchcov.pytest_plugin']"]


def test_help_names_every_option() -> None:
    from dispatchcov import pytest_plugin

    text = Path(pytest_plugin.__file__).read_text()
    for option in pytest_plugin.OPTIONS:
        assert f"--dispatch-{option.replace('_', '-')}" in text


def test_a_suite_with_requirements_of_its_own(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project.path))
    project.makefile(
        ".toml",
        own='[table]\nextends = "small.toml"\n[[partition]]\nname = "big"\nrule = "vec4"\nwhere = "N >= 4096"\n',
    )
    tests = CHILDREN.replace("o.scale(3); o.scale(3)", "o.scale(8192)") + "def test_big(): scale(4096)\n"
    result = run_apart(project, "--dispatch-table=own.toml", "--dispatch-report=json:out.json", test_scale=tests)
    assert result.ret == 0
    table = report(project)["tables"]["demo::scale"]
    found = {entry["name"]: (entry["hits"], entry["tests"]) for entry in table["partitions"]}
    assert found == {"big": (2, ["test_scale.py::test_big", "test_scale.py::test_spawn"])}
    both = (
        "import pytest\n"
        + tests
        + """
@pytest.mark.dispatch("vec4")
@pytest.mark.dispatch("big")
def test_both(): scale(4096)
"""
    )
    result = run_apart(project, "--dispatch-table=own.toml", "-k", "both", test_scale=both)
    result.assert_outcomes(passed=1, deselected=3)
    assert run_apart(project, "-n", "2", "--dispatch-table=own.toml", "--dispatch-report", test_scale=tests).ret == 0


def test_observing_without_a_gpu_says_so_and_runs_the_tests(project: pytest.Pytester) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = run(project, "--dispatch-observe=torch", "--dispatch-report", test_scale=GREEN)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["note: observing with torch: no CUDA device, nothing was observed"])


@pytest.mark.parametrize("inner", [True, False])
def test_settings_of_a_folder_below_the_root(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, inner: bool
) -> None:
    below = project.mkdir("below")
    (below / "test_below.py").write_text(GREEN)
    (below / "small.toml").write_text(SMALL)
    project.makepyprojecttoml("[tool.pytest.ini_options]\n[tool.dispatchcov]\nrequire = ['no-such']\n")
    if inner:
        (below / "pyproject.toml").write_text("[tool.dispatchcov]\nreport = ['term']\nrequire = ['vec4']\n")
    monkeypatch.chdir(below)
    result = run(project)
    if inner:  # the nearest holds, as `dispatchcov debug` says
        result.stdout.fnmatch_lines(["*dispatch gate: passed*"])
    else:
        result.stdout.fnmatch_lines(["*unknown*no-such*"])

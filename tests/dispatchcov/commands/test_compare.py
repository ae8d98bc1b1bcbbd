from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from dispatchcov import store
from dispatchcov.cli import main
from dispatchcov.compare import baseline
from dispatchcov.compare import sources as compare_sources
from dispatchcov.compare.baseline import Baseline
from dispatchcov.errors import UsageError
from dispatchcov.report.json import schema
from dispatchcov.table import Table
from tests.dispatchcov.build import data, row
from tests.dispatchcov.compare.test_moved import GEMM, GEMV, MMA, TABLE, Facts, side, table

WIDER = table(("M <= 8 and K % 128 == 0", "M <= 32 and K % 128 == 0"))
BEFORE: dict[str, list[Facts]] = {"t.py::a": [MMA], "t.py::b": [{**GEMM, "M": 16}], "t.py::old": [GEMV]}
NOW: dict[str, list[Facts]] = {"t.py::a": [MMA], "t.py::b": [{**GEMM, "M": 16}], "t.py::n|w": [GEMV]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("DISPATCHCOV_", "GIT_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(path: str, by: Table, inputs: Mapping[str, list[Facts]]) -> None:
    rows = [row(by, test, shard=path, **facts) for test, many in inputs.items() for facts in many]
    store.save(path, data(by, *rows))


def keep(path: str, by: Table, inputs: Mapping[str, list[Facts]]) -> None:
    baseline.write(path, Baseline({by.op: by.parts}, side(inputs, by).entries))


def compare(*arguments: str) -> int:
    return main(["compare", *arguments])


SHOWN = """\
drift from before: 1 test moved, 1 new, 1 gone, 1 unchanged
    table demo::mm, rule mma
        was M <= 8 and K % 128 == 0 -> Mma
        is  M <= 32 and K % 128 == 0 -> Mma
    demo::mm: 1 test moved
        was gemm [mma, gemv: not M <= 8] -> Gemm
        is  mma -> Mma
        mma: M <= 8 was false, is now M <= 32, true
            t.py::b  M=16 K=128 bias=false sm=90
    new: 1 test
        t.py::n|w
    gone: 1 test
        t.py::old
"""


def test_two_data_files(capsys: pytest.CaptureFixture[str]) -> None:
    save("before", TABLE, BEFORE)
    save("now", WIDER, NOW)
    assert compare("before", "now") == 0
    assert capsys.readouterr().out == SHOWN
    assert compare("before", "now", "--fail-on-drift") == 2
    assert compare("now", "now", "--fail-on-drift") == 0


def test_a_baseline_with_the_records_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    keep("before", TABLE, BEFORE)
    save(".dispatchcov", WIDER, NOW)
    assert compare("before") == 0
    assert capsys.readouterr().out == SHOWN
    save("other", WIDER, NOW)
    assert compare("before", "--data", "other", "-o", "out.txt") == 0
    assert Path("out.txt").read_text() == SHOWN


def test_new_tests_fail_nothing() -> None:
    save("before", TABLE, {"t.py::a": [MMA]})
    save("now", TABLE, {"t.py::a": [MMA], "t.py::b": [GEMM]})
    assert compare("before", "now", "--fail-on-drift") == 0
    assert compare("now", "before", "--fail-on-drift") == 0


def test_json_is_what_the_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    save("before", TABLE, BEFORE)
    save("now", WIDER, NOW)
    assert compare("before", "now", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    whole = schema()
    jsonschema.Draft202012Validator(whole["$defs"]["drift"] | {"$defs": whole["$defs"]}).validate(document["drift"])
    assert (document["format"], document["drift"]["new"]) == (1, ["t.py::n|w"])
    (move,) = document["drift"]["moved"]
    assert move["old"]["input"] == move["new"]["input"] == {"M": 16, "K": 128, "bias": False, "sm": 90}
    assert move["cause"] == {
        "kind": "table",
        "rule": "mma",
        "before": "M <= 8",
        "after": "M <= 32",
        "text": "mma: M <= 8 was false, is now M <= 32, true (M=16)",
    }


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    save("before", TABLE, BEFORE)
    save("now", WIDER, NOW)
    assert compare("before", "now", "--format", "markdown") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "### Dispatch drift"
    assert (
        "| `t.py::b` | `gemm [mma, gemv: not M <= 8] -> Gemm` | `mma -> Mma` | "
        "`mma: M <= 8 was false, is now M <= 32, true (M=16)` |"
    ) in shown
    assert "- new: `t.py::n\\|w`" in shown


def git(*arguments: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(folder: Path) -> None:
    """A repository whose first commit, tagged ``first``, has the baseline ``tests/base.jsonl`` and a data file."""
    Path("tests").mkdir()
    keep("tests/base.jsonl", TABLE, BEFORE)
    save("stored", TABLE, BEFORE)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    git("tag", "first")
    keep("tests/base.jsonl", WIDER, NOW)
    git("commit", "-q", "-a", "-m", "second")


@pytest.mark.usefixtures("repository")
def test_revisions(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare("first:tests/base.jsonl", "HEAD:tests/base.jsonl") == 0
    assert capsys.readouterr().out == SHOWN.replace("before", "first:tests/base.jsonl")
    assert compare("first", "tests/base.jsonl", "--baseline", "tests/base.jsonl", "--fail-on-drift") == 2
    capsys.readouterr()
    assert compare("first:stored", "HEAD:tests/base.jsonl") == 0
    assert "1 test moved" in capsys.readouterr().out
    Path("pyproject.toml").write_text('[tool.dispatchcov]\nbaseline = "tests/base.jsonl"\nfail_on_drift = true\n')
    assert compare("HEAD", "tests/base.jsonl") == 0
    assert compare("HEAD~1", "HEAD") == 2
    monkeypatch.chdir("tests")
    assert compare("HEAD~1", "HEAD", "--baseline", "base.jsonl", "--fail-on-drift") == 2
    assert compare("HEAD~1:./base.jsonl", "base.jsonl", "--fail-on-drift") == 2


@pytest.mark.usefixtures("repository")
def test_a_baseline_that_no_side_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("first:stored", "stored", "--baseline", "tests/base.jsonl") == 1
    wanted = "--baseline names the baseline of a mere revision, expected one, got first:stored and stored"
    assert capsys.readouterr().err == f"dispatchcov: compare: {wanted}\n"


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("first", "expected the baseline of revision first to be named: give first:PATH or --baseline=FILE"),
        ("nothing", "expected a data file, a baseline, REV:PATH or a revision, got 'nothing', which is no file and no"),
        (
            "first:nothing",
            "got 'first:nothing', which is no file; git: fatal: path 'nothing' does not exist in 'first'",
        ),
        ("nothing:stored", "got 'nothing:stored', which is no file; git: fatal: invalid object name 'nothing'"),
        ("first:tests", "got 'first:tests', which is no file; git: fatal: "),
    ],
)
def test_what_is_none(capsys: pytest.CaptureFixture[str], base: str, message: str) -> None:
    assert compare(base, "stored") == 1
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("repository")
def test_a_damaged_file_of_a_revision_is_named_as_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(Path("stored").read_bytes())
    content[-1] ^= 1
    Path("stored").write_bytes(content)
    git("commit", "-q", "-a", "-m", "third")
    assert compare("HEAD:stored", "first:stored") == 1
    assert capsys.readouterr().err.startswith("dispatchcov: HEAD:stored: expected a data file whose content has the")


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("spec", ["--batch", "--textconv:tests", "-p:x"])
def test_no_option_gets_to_git(spec: str) -> None:
    with pytest.raises(UsageError, match=f"got '{spec}', which is no file and looks like an option"):
        compare_sources.side(spec, "")


def test_files_that_are_none(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    Path("text").write_text("some text")
    assert compare("text", "text") == 1
    assert "text: " in capsys.readouterr().err
    assert compare(str(folder), "text") == 1
    save("before", TABLE, BEFORE)
    assert compare("before") == 1
    assert ".dispatchcov: no data" in capsys.readouterr().err


def test_gone_tests_are_told_by_the_file_system_only_in_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    save("before", TABLE, {"t.py::a": [MMA], "u.py::b": [GEMM]})
    save("now", TABLE, {"t.py::a": [MMA]})
    assert compare("before", "now") == 0
    assert "not compared: 1 test not run" in capsys.readouterr().out
    Path("t.py").touch()
    assert compare("before", "now") == 0
    assert "gone: 1 test" in capsys.readouterr().out
    Path("u.py").touch()
    assert compare("before", "now") == 0
    assert "not compared: 1 test not run" in capsys.readouterr().out

"""Suggested tests: they run as written, reach what they say, and leave nothing missed that an input can reach."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dispatchcov import load_table, parse_table, store
from dispatchcov.cli import main
from dispatchcov.errors import UsageError
from dispatchcov.items import MEASURES
from dispatchcov.results import Results
from dispatchcov.suggest import suggest
from dispatchcov.suggest_render import render
from dispatchcov.table import Table
from tests.dispatchcov.build import SMALL, data, row

ROOT = Path(__file__).parents[2]
TABLE = parse_table(SMALL, source="small.toml")
PLAIN = ("partitions", "rules", "fallbacks", "splits", "regions")


def left(of: Table, *given: dict[str, Any]) -> dict[str, list[str]]:
    """What is missed after ``given``, by measure."""
    results = Results.of(data(of, *(row(of, test=f"t.py::{i}", **facts) for i, facts in enumerate(given)))).tables[0]
    found = {name: [item.label for item in getattr(results, name) if item.state == "missed"] for name in MEASURES}
    return {name: labels for name, labels in found.items() if labels}


def suggested(of: Table, *given: dict[str, Any], measures: tuple[str, ...] = MEASURES) -> list[dict[str, Any]]:
    records = data(of, *(row(of, test=f"t.py::{i}", **facts) for i, facts in enumerate(given)))
    return [each.facts for each in suggest(Results.of(records).tables[0], records, measures)]


def test_nothing_is_left_after_the_suggestions() -> None:
    given = {"N": 4, "aligned": True, "dtype": "float16"}
    found = suggested(TABLE, given)
    assert left(TABLE, given)
    assert left(TABLE, given, *found) == {}
    assert all(left(TABLE, given, *(f for f in found if f is not one)) for one in found)


def test_only_the_measures_asked_for() -> None:
    given = {"N": 4, "aligned": True, "dtype": "float16"}
    assert suggested(TABLE, given, measures=("partitions",)) == [
        {"N": 0, "aligned": True, "dtype": "float32"},
        {"N": 1, "aligned": False, "dtype": "float16"},
    ]
    with pytest.raises(UsageError, match="unknown measure 'partition'; did you mean 'partitions'"):
        suggested(TABLE, given, measures=("partition",))


def test_the_fp4_table_from_nothing() -> None:
    of = load_table(ROOT / "tests" / "dispatchcov" / "tables" / "fp4.toml")
    given = {v.name: v.values[0] if v.values else 64 for v in of.variables}
    found = suggested(of, given, measures=PLAIN)
    missed = left(of, given, *found)
    assert not set(missed) & set(PLAIN)
    assert len(found) < sum(len(labels) for labels in left(of, given).values()) / 2


AT_LEAST = SMALL.replace('name = "ragged"', 'name = "ragged"\nat_least = 4')
ONE = """[[partition]]
name = "one"
rule = "scalar"
where = "N == 4 and not aligned and dtype == 'float32'"
at_least = 3
"""


def test_as_many_inputs_as_a_partition_needs_other_ones_first(pytester: pytest.Pytester) -> None:
    of = parse_table(AT_LEAST + ONE, source="small.toml")
    given: dict[str, Any] = {"N": 5, "aligned": True, "dtype": "float16"}
    found = suggested(of, given, measures=("partitions",))
    ragged = [f for f in found if f["N"] % 4]
    places = [(False, "float16"), (False, "float32"), (True, "float16")]
    assert ragged == [{"N": 1, "aligned": aligned, "dtype": dtype} for aligned, dtype in places]
    assert [f for f in found if f["N"] == 4] == [{"N": 4, "aligned": False, "dtype": "float32"}] * 3
    pytester.makefile(".toml", small=of.text)
    records = data(of, row(of, **given))
    text = render(of, suggest(Results.of(records).tables[0], records, ("partitions",)))
    pytester.makepyfile(test_suggested=text + f"\ndef test_given():\n    TABLE.decide(**{given})\n")
    result = pytester.runpytest_subprocess("--dispatch-report", "--dispatch-table=small.toml")
    result.assert_outcomes(passed=len(found) + 1)
    result.stdout.fnmatch_lines(["dispatch gate: passed"])
    assert text.count("dispatch('ragged', kernel=") == 3
    assert text.count("dispatch('one', kernel=") == 3


def test_no_suggestion_is_needless() -> None:
    of = load_table(ROOT / "tests" / "dispatchcov" / "tables" / "fp4.toml")
    given = {v.name: v.values[0] if v.values else 64 for v in of.variables}
    measures = ("partitions", "splits", "boundaries")
    found = suggested(of, given, measures=measures)
    for one in found:
        assert set(left(of, given, *(facts for facts in found if facts is not one))) & set(measures)


def test_the_module_runs_as_written(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", small=SMALL)
    records = data(TABLE, row(TABLE, N=4, aligned=True, dtype="float16"))
    found = suggest(Results.of(records).tables[0], records)
    pytester.makepyfile(test_suggested=render(TABLE, found))
    result = pytester.runpytest_subprocess("--dispatch-report", "--dispatch-table=small.toml")
    result.assert_outcomes(passed=len(found))
    text = (pytester.path / "test_suggested.py").read_text()
    assert "partitions: vec4 [dtype=float32]" in text
    assert "fallback={'vec4': 'N % 4 == 0'}" in text


def test_a_marker_that_would_not_hold_fails(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", small=SMALL)
    records = data(TABLE, row(TABLE, N=4, aligned=True, dtype="float16"))
    text = render(TABLE, suggest(Results.of(records).tables[0], records))
    pytester.makepyfile(
        test_suggested=text.replace("'N': 1,", "'N': 4,").replace("'aligned': False", "'aligned': True")
    )
    assert pytester.runpytest_subprocess().parseoutcomes()["failed"] > 0


def test_what_to_call() -> None:
    assert "from fp4ops.testing import run_facts\n" in render(TABLE, [], "fp4ops.testing:run_facts")
    for wrong in ("module", "a:b:c", "os:system('x')", "a b:c"):
        with pytest.raises(UsageError, match="expected MODULE:FUNCTION"):
            render(TABLE, [], wrong)


CALLED = """
from pathlib import Path
import dispatchcov
TABLE = dispatchcov.load_table(Path(__file__).with_name("small.toml"))
def f(**facts):
    TABLE.decide(**facts)
number = 3
"""


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a table, and records of one decision."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("small.toml").write_text(SMALL)
    Path("takes_facts.py").write_text(CALLED)
    store.save(".dispatchcov", data(TABLE, row(TABLE, N=4, aligned=True, dtype="float16")))
    return tmp_path


def test_the_command(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suggest", "--of", "partitions", "-o", "test_it.py"]) == 0
    assert Path("test_it.py").read_text().count("pytest.param(") == 2
    assert main(["suggest", "--of", "rules", "--call", "takes_facts:f"]) == 0
    assert "    f(**facts)\n" in capsys.readouterr().out
    Path(".dispatchcov").unlink()
    assert main(["suggest"]) == 1


@pytest.mark.parametrize(("call", "message"), [
    ("no.such:f", "--call no.such:f: No module named 'no'"),
    ("takes_facts:g", "--call takes_facts:g: module 'takes_facts' has no attribute 'g'"),
    ("takes_facts:number", "--call takes_facts:number: expected a function, got what cannot be called"),
    ("broken:f", "--call broken:f: importing broken raised RuntimeError: no device"),
    ("takes_facts", "--call: expected MODULE:FUNCTION, got 'takes_facts'"),
])  # fmt: skip
def test_what_cannot_be_called_is_told_at_once(
    recorded: Path, capsys: pytest.CaptureFixture[str], call: str, message: str
) -> None:
    Path("broken.py").write_text("raise RuntimeError('no device')")
    assert main(["suggest", "--call", call, "-o", "test_it.py"]) == 1
    assert message in capsys.readouterr().err
    assert not Path("test_it.py").exists()


@pytest.mark.parametrize(
    ("output", "loaded"),
    [
        ("test_it.py", "TABLE = dispatchcov.load_table(Path(__file__).with_name('small.toml'))"),
        ("tests/deep/test_it.py", "TABLE = dispatchcov.load_table(Path(__file__).parent / '../../small.toml')"),
    ],
)
def test_the_module_finds_the_table_from_anywhere(recorded: Path, output: str, loaded: str) -> None:
    (recorded / output).parent.mkdir(parents=True, exist_ok=True)
    assert main(["suggest", "--of", "partitions", "-o", output]) == 0
    assert loaded in (recorded / output).read_text().splitlines()
    elsewhere = recorded / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(recorded / output)]
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_printed_module_says_where_it_looks(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suggest", "--of", "partitions"]) == 0
    assert (
        "# From the folder of this file: right for a file in the folder in which suggest ran.\n"
        "TABLE = dispatchcov.load_table(Path(__file__).with_name('small.toml'))\n"
    ) in capsys.readouterr().out
    Path("small.toml").unlink()
    assert main(["suggest", "--of", "partitions", "-o", "test_it.py"]) == 0
    assert (
        "# Recorded as 'small.toml', which was not there when this was written: say where the table is.\n"
        "TABLE = dispatchcov.load_table('small.toml')\n"
    ) in Path("test_it.py").read_text()


def test_suggestions_run_as_written_on_fp4ops(pytester: pytest.Pytester) -> None:
    of = load_table(ROOT / "fp4ops" / "dispatch.toml")
    facts: dict[str, Any] = {v.name: v.values[0] if v.values else 32 for v in of.variables} | {"sm": 90, "M": 1}
    records = data(of, row(of, **facts))
    found = suggest(Results.of(records).tables[0], records, ("partitions", "rules", "boundaries"))
    small = [each for each in found if all(int(each.facts[name]) < 1000 for name in ("M", "N", "K"))]
    pytester.makepyfile(test_suggested=render(of, small, "fp4ops.testing:run_facts"))
    pytester.syspathinsert(ROOT)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=len(small))
    assert len(small) > 8

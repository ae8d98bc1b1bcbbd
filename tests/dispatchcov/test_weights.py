from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dispatchcov import store
from dispatchcov.errors import DataError, DigestError
from dispatchcov.gate import judge
from dispatchcov.items import Weights
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data, Row
from dispatchcov.report import json as json_report
from dispatchcov.report import text
from dispatchcov.report import weights as section
from dispatchcov.results import Results
from dispatchcov.weights import weigh
from tests.dispatchcov.build import SMALL, data, row

TABLE = parse_table(SMALL, source="small.toml")


def took(nanoseconds: int, **given: Any) -> Row:
    return row(TABLE, "", phase="run", **{"aligned": True, "dtype": "float16", **given})._replace(
        nanoseconds=nanoseconds
    )


def measured(*rows: Row) -> Results:
    return Results.of(data(TABLE, *rows), (TABLE,))


ALIGNED = row(TABLE, "t.py::test_aligned", N=8, aligned=True, dtype="float16", checked=1)
WORKLOAD = data(
    TABLE,
    took(30_000_000, N=4096, selected=10),
    took(969_000_000, N=4095, selected=2),
    took(1_000_000, N=4, aligned=False, selected=1),
)


def test_what_tests_reach_of_the_calls_and_of_the_time() -> None:
    weights = weigh(measured(ALIGNED), WORKLOAD, "serve")
    assert [(each.kernel, each.calls, each.nanoseconds, each.state) for each in weights.regions] == [
        ("Scale", 2, 969_000_000, "missed"),
        ("ScaleVec4", 10, 30_000_000, "hit"),
        ("Scale", 1, 1_000_000, "missed"),
    ]
    assert (weights.calls, weights.nanoseconds) == (13, 1_000_000_000)
    assert weights.reached() == weights.reached("checked") == (10, 30_000_000)
    assert weights.reached("observed") == (0, 0)
    assert [each.input["N"] for each in weights.unreached] == [4095, 4]
    assert weights.regions[1].tests == ("t.py::test_aligned",)
    assert section.lines(weights) == [
        "workload serve: tests reach the paths of 3.0 % of the GPU time (30.00 of 1000.00 ms) and 76.9 % of the calls",
        "  with evidence: launched 0 %, observed 0 %, checked 3.0 %",
        "  heaviest paths that no test reaches, each with an input of the workload:",
        "     96.9 %  scalar -> Scale:  N=4095 aligned=true dtype=float16",
        "      0.1 %  scalar -> Scale:  N=4 aligned=false dtype=float16",
    ]


def test_a_workload_that_no_profiler_saw_weighs_by_its_calls() -> None:
    untimed = replace(WORKLOAD, rows=tuple(each._replace(nanoseconds=0) for each in WORKLOAD.rows))
    weights = weigh(measured(ALIGNED), untimed, "serve")
    assert [each.calls for each in weights.regions] == [10, 2, 1]
    assert section.lines(weights)[:2] == [
        "workload serve: tests reach the paths of 76.9 % of the calls (10 of 13; GPU time was not observed)",
        "  with evidence: launched 0 %, observed 0 %, checked 76.9 %",
    ]


def test_calls_that_the_profiler_did_not_see_are_said() -> None:
    partly = replace(WORKLOAD, rows=(*WORKLOAD.rows[:2], WORKLOAD.rows[2]._replace(nanoseconds=0)))
    note = "1 calls are in regions whose kernels no profiler saw: they weigh nothing"
    assert weigh(measured(ALIGNED), partly, "serve").notes == (note,)


def test_shares_are_never_rounded_to_none_or_all() -> None:
    rows = (took(1, N=4), took(10**9, N=3))
    first = section.lines(weigh(measured(ALIGNED), data(TABLE, *rows), "w"))[0]
    assert "0.1 % of the GPU time" in first
    rows = (took(10**9, N=4), took(1, N=3))
    first = section.lines(weigh(measured(ALIGNED), data(TABLE, *rows), "w"))[0]
    assert "99.9 % of the GPU time" in first
    first = section.lines(weigh(measured(ALIGNED), data(TABLE, took(5, N=4)), "w"))[0]
    assert "100 % of the GPU time (0.00 of 0.00 ms) and 100 % of the calls" in first


@pytest.mark.parametrize(
    ("workload", "error", "message"),
    [
        (
            Data(),
            DataError,
            "serve: expected decisions of a workload by one of the tables judged (demo::",
        ),
        (data(TABLE, took(1, N=4)._replace(phase="setup")), DataError, "got none"),
        (data(TABLE, took(1, N=-4)), DataError, "got none"),  # outside the domain
    ],
)
def test_a_workload_without_decisions_is_an_error(workload: Data, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        weigh(measured(ALIGNED), workload, "serve")
    assert message in str(raised.value)


def test_a_workload_of_another_version_of_the_table_is_an_error() -> None:
    other = parse_table(SMALL.replace("N % 4 == 0 and", "N % 8 == 0 and"), source="small.toml")
    workload = data(other, row(other, "", phase="run", N=8, aligned=True, dtype="float16"))
    with pytest.raises(
        DigestError, match=r"demo::scale: small.toml has digest \w+, the workload serve was recorded with"
    ):
        weigh(measured(ALIGNED), workload, "serve")


def test_a_workload_recorded_with_other_requirements_on_the_same_rules() -> None:
    """Its predicates are others, so the bits of its vectors mean something else."""
    other = parse_table(
        SMALL.replace('where = "N % 4 != 0"', "where = \"dtype == 'float32' and N != 3 and N % 4 != 0\""),
        source="other.toml",
    )
    given = {"aligned": True, "dtype": "float32", "phase": "run"}
    rows = (
        row(other, "", N=8, **given)._replace(nanoseconds=70),
        row(other, "", N=3, **given)._replace(nanoseconds=30),
    )
    weights = weigh(measured(ALIGNED), data(other, *rows), "serve")
    assert [(each.rule, each.nanoseconds, each.state) for each in weights.regions] == [
        ("vec4", 70, "hit"),
        ("scalar", 30, "missed"),
    ]


def test_reports() -> None:
    results = replace(measured(ALIGNED), weights=weigh(measured(ALIGNED), WORKLOAD, "serve"))
    document = json.loads(json_report.render(results, judge(results)))
    jsonschema.validate(document, json_report.schema())
    assert document["weights"]["reached"]["checked"] == {"calls": 10, "nanoseconds": 30_000_000}
    assert [region["percent"] for region in document["weights"]["regions"]] == [96.9, 3.0, 0.1]
    assert "workload serve: tests reach the paths of 3.0 % of the GPU time" in text.render(results, judge(results))
    assert "weights" not in json.loads(json_report.render(measured(ALIGNED), judge(results)))
    assert isinstance(results.weights, Weights)


SERVE = """
import dispatchcov
TABLE = dispatchcov.load_table("small.toml")
for n in [3] * 20 + [4] * 5:
    TABLE.decide(N=n, aligned=True, dtype="float16")
"""
TEST = """
from serve import TABLE
def test_aligned(): assert TABLE.decide(N=4, aligned=True, dtype="float16").kernel == "ScaleVec4"
"""


def test_from_a_recorded_program_to_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "serve.py").write_text(SERVE)
    (tmp_path / "test_serve.py").write_text(TEST)
    monkeypatch.chdir(tmp_path)
    for name in ("DISPATCHCOV_RUN", "DISPATCHCOV_DATA", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> str:
        done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode in (1, 2), done.stdout + done.stderr
        return done.stdout

    call("dispatchcov.cli", "run", "--data", "workload", "--", sys.executable, "serve.py")
    assert sum(row.selected for row in store.load("workload").rows) == 25
    monkeypatch.delenv("DISPATCHCOV_RUN", raising=False)
    options = ("-p", "no:cacheprovider", "--dispatch-weights=workload", "--dispatch-report=term")
    printed = call("pytest", *options)
    line = "workload workload: tests reach the paths of 20.0 % of the calls (5 of 25; GPU time was not observed)"
    assert line in printed.splitlines()
    assert line in call("dispatchcov.cli", "report", "--weights", "workload").splitlines()
    assert "     80.0 %  scalar -> Scale:  N=3 aligned=true dtype=float16" in printed.splitlines()

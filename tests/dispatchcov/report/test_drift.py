from __future__ import annotations

import re
from dataclasses import replace

from dispatchcov.compare.moved import compare
from dispatchcov.drift import Drift
from dispatchcov.gate import Limits, drifted, judge
from dispatchcov.loading.load import parse_table
from dispatchcov.report import drift as report
from dispatchcov.report import text
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, data, row
from tests.dispatchcov.compare.test_moved import GEMM, MMA, side, table

WIDER = table(("M <= 8 and K % 128 == 0", "M <= 32 and K % 128 == 0"))


def many(count: int) -> Drift:
    inputs = {f"t.py::test[{n:03}]": [{**GEMM, "M": 9 + n % 20}] for n in range(count)}
    return compare(side(inputs), side(inputs, WIDER))


def test_moves_that_one_change_made_are_one_group() -> None:
    drift = many(200)
    assert len(drift.groups) == 1
    shown = report.text(drift).splitlines()
    assert len(shown) == 14
    assert shown[:1] == ["drift from base: 200 tests moved, 0 unchanged"]
    assert shown[-2:] == [
        "            t.py::test[004]  M=13 K=128 bias=false sm=90",
        "            ... and 195 more (the JSON and HTML reports have all)",
    ]
    assert len(report.document(drift)["moved"]) == 200


def test_the_gate_gives_a_reason_a_group() -> None:
    (failure,) = drifted(many(3))
    assert failure == (
        "demo::mm: 3 tests moved from gemm [mma, gemv: not M <= 8] -> Gemm to mma -> Mma: "
        "mma: M <= 8 was false, is now M <= 32, true (M=9), in t.py::test[000] and 2 more"
    )
    assert not list(drifted(Drift("base", many(3).moves, update="written: base")))


def test_only_a_gate_that_is_asked_to_fails_on_drift() -> None:
    small = parse_table(SMALL, source="small.toml")
    rows = [row(small, N=n, aligned=True, dtype=dtype) for n in (4, 3) for dtype in ("float16", "float32")]
    results = Results.of(data(small, *rows))
    results = replace(results, drift=many(1))
    assert judge(results, Limits()).ok
    assert [failure.split(":")[0] for failure in judge(results, Limits(fail_on_drift=True)).failures] == ["demo"]
    assert judge(replace(results, drift=Drift("base", new=("a",), gone=("b",))), Limits(fail_on_drift=True)).ok
    shown = text.render(results, judge(results))
    assert "\ndrift from base: 1 test moved, 0 unchanged\n" in shown
    assert "drift" not in text.render(replace(results, drift=None), judge(results))


def test_both_inputs_are_shown_where_they_differ() -> None:
    drift = compare(side({"t.py::a": [MMA]}), side({"t.py::a": [GEMM]}))
    assert "            t.py::a  M=4 K=128 bias=false sm=90  now M=40 K=128 bias=false sm=90" in report.lines(drift)


def test_what_is_not_compared_is_counted() -> None:
    drift = Drift("b", (), apart=(("a", "failed"), ("b", "failed"), ("c", "skipped")), not_run=("d",), elsewhere=("e",))
    assert list(report.lines(drift)) == [
        "drift from b: nothing moved, 0 unchanged",
        "    not compared: 2 tests failed",
        "    not compared: 1 test skipped",
        "    not compared: 1 test not run",
        "    not compared: 1 test on hardware that one side does not have",
    ]


HOSTILE = "t.py::a[\x1b[31m`|<script>``\n# x]"


def test_hostile_names_stay_text() -> None:
    drift = compare(side({HOSTILE: [MMA]}), side({HOSTILE: [GEMM], "new" + HOSTILE: [GEMM]}))
    assert "\x1b" not in report.text(drift)
    assert [line for line in report.text(drift).split("\n") if line.startswith("#")] == []
    marked = report.markdown(drift)
    (line,) = [line for line in marked.split("\n") if "script" in line and line.startswith("|")]
    assert re.match(r"\| ```t\.py::a\[.*``.*``` \|", line)
    assert len(re.split(r"(?<!\\)\|", line)) == 6
    assert "<script>" not in re.sub(r"(`+).*?\1", "", marked)

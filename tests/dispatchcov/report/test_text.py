from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dispatchcov.gate import Verdict, judge
from dispatchcov.items import Totals
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data
from dispatchcov.report.text import near, render, totals_text, verdict_lines
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, STATES, data, row

TABLE = parse_table(SMALL, source="small.toml")
HALF = row(TABLE, N=4, aligned=True, dtype="float16", launched=1)


def text(records: Data, *, missing: bool = True) -> str:
    results = Results.of(records)
    return render(results, judge(results), missing=missing)


def test_the_whole_report() -> None:
    expected = f"""\
demo::scale  1 decision  machine: cpu
table small.toml  digest {TABLE.digest[:12]}

partition  bin            state   hits  tests  evidence
---------  -------------  ------  ----  -----  --------
vec4       dtype=float16  hit        1      1  selected, launched
vec4       dtype=float32  MISSED     0      0
    reached by  N=0 aligned=true dtype=float32
    would take  vec4 -> ScaleVec4
ragged                    MISSED     0      0
    reached by  N=1 aligned=false dtype=float16
    would take  scalar -> Scale (not vec4: N % 4 == 0 is false)

rules reached: vec4
rules never selected: 1 of 2
    scalar:  N=0 aligned=false dtype=float16
sides of splits never taken: 1 of 2
    vec4 [N >= 1024: true]:  N=1024 aligned=true dtype=float16
predicates never the sole reason of a fallback: 2 of 2
    vec4 [N % 4 == 0]:  N=1 aligned=true dtype=float16
    vec4 [aligned]:  N=0 aligned=false dtype=float16
regions never entered: 2 of 3
    scalar [vec4: not N % 4 == 0]:  N=1 aligned=false dtype=float16
    scalar [vec4: not aligned]:  N=0 aligned=false dtype=float16
sides of boundaries never met: 2 of 4
    vec4 [N % 4 == 0: false at N = 1]:  N=1 aligned=true dtype=float16
    vec4 [aligned: false at aligned = false]:  N=0 aligned=false dtype=float16
predicates never shown to decide alone (MC/DC): 2 of 2
    vec4 [N % 4 == 0]:  N=1 aligned=true dtype=float16
    vec4 [aligned]:  N=0 aligned=false dtype=float16
mutants of guards that no decision notices: 3 of 7
    vec4 [N % 4 == 0 -> N % 2 == 0]:  N=2 aligned=true dtype=float16
    vec4 [N % 4 == 0 dropped]:  N=1 aligned=true dtype=float16
    vec4 [aligned dropped]:  N=0 aligned=false dtype=float16
mutants noticed: 4, of which 0 by a test that asserts; equivalent: 0

covered: partitions 1/3 (33.33 %), rules 1/2 (50 %), fallbacks 0/2 (0 %), splits 1/2 (50 %), regions 1/3 (33.33 %), \
boundaries 2/4 (50 %), mcdc 0/2 (0 %), mutants 4/7 (57.14 %)
dispatch gate: FAILED, 2 reasons
  - demo::scale: required partition vec4 [dtype=float32] was not hit
  - demo::scale: required partition ragged was not hit"""
    assert text(data(TABLE, HALF)) == expected


def test_without_what_is_missing() -> None:
    short = text(data(TABLE, HALF), missing=False)
    assert "reached by" not in short
    assert "never" not in short
    assert "MISSED" in short


def test_elsewhere_waived_illegal_optional_and_apart() -> None:
    table = parse_table(STATES)
    facts: dict[str, Any] = {"N": 4, "aligned": True, "sm": 80}
    rows = [row(table, dtype="float16", **facts), row(table, phase="setup", dtype="float32", **facts)]
    lines = {line.split("  ")[0]: line for line in text(data(table, *rows)).splitlines()}
    assert "elsewhere" in lines["new"]
    assert "illegal, not hit" in lines["never"]
    assert "missed (optional)" in lines["nice"]
    assert "waived: no such layer (until 2126-01-01)" in lines["ragged"]
    assert "apart: 1 setup" in lines["vec4"]


def test_a_mismatch_is_shouted() -> None:
    shown = text(data(TABLE, row(TABLE, N=4, aligned=True, dtype="float16", kernel="Scale")))
    assert "MISMATCH: another kernel ran in rule vec4: expected ScaleVec4, got Scale for N=4 aligned=true" in shown
    assert "vec4       dtype=float16  MISSED     0      0  apart: 1 with another kernel" in shown


def test_paths_inside_the_working_directory_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    assert near(str(tmp_path / "a" / "t.toml")) == "t.toml"
    assert near(str(tmp_path / "t.toml")) == str(tmp_path / "t.toml")
    assert near("<table>") == "<table>"


@pytest.mark.parametrize(
    ("totals", "shown"),
    [(Totals(0, 0), "none to cover"), (Totals(2, 3), "2/3 (66.67 %)"), (Totals(3, 3), "3/3 (100 %)")],
)
def test_totals(totals: Totals, shown: str) -> None:
    assert totals_text(totals) == shown


@pytest.mark.parametrize("kind", ["kernels outside every launch", "lib::op: kernels that no pattern matches"])
def test_notes_of_one_kind_on_kernels_stand_together(kind: str) -> None:
    notes = [f"t.py::test_{i}: {kind}: void fill<{i % 2}>()" for i in range(30)]
    lines = list(verdict_lines(Verdict((), (*notes[:1], "first", *notes[1:], "second" * 100))))
    assert lines == [
        "note: first",
        f"note: {('second' * 100)[:236]} ...",
        f"note: 30 tests, t.py::test_0 and others: {kind}: void fill<0>(); void fill<1>()",
        "dispatch gate: passed",
    ]
    assert next(verdict_lines(Verdict((), tuple(notes[:1])))) == f"note: {notes[0]}"


def test_notes_on_kernels_of_two_operators_stand_apart() -> None:
    notes = [f"t.py::test[a: {op}]: lib::{op}: kernels that no pattern matches: void copy()" for op in ("one", "two")]
    lines = list(verdict_lines(Verdict((), tuple(notes))))
    assert lines == [*(f"note: {note}" for note in notes), "dispatch gate: passed"]


def test_what_a_terminal_or_a_job_would_obey_is_escaped() -> None:
    hostile = "gpu\x1b[31m\n::error::x\ud800"
    one = row(TABLE, N=4, aligned=True, dtype="float16", machine=hostile)
    two = row(TABLE, N=3, aligned=True, dtype="float16", machine="b", kernel="evil\r\n::stop-commands::x")
    printed = text(data(TABLE, one, two))
    assert all(line.isprintable() for line in printed.split("\n"))
    assert not any(line.startswith("::") for line in printed.split("\n"))
    assert r"machine: b; gpu\x1b[31m\n::error::x\ud800" in printed
    assert r"got evil\r\n::stop-commands::x for N=3" in printed
    verdict = Verdict(("bad\n::error::x",), ("note\n::error::x",))
    assert [line for line in verdict_lines(verdict) if "::error" in line] == [
        r"note: note\n::error::x",
        r"  - bad\n::error::x",
    ]

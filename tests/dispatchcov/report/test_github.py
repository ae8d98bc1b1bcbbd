from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dispatchcov.gate import judge
from dispatchcov.report import render
from dispatchcov.weights import weigh
from tests.dispatchcov import test_weights as weights
from tests.dispatchcov.build import SMALL
from tests.dispatchcov.formats import FLOAT16, NAMED, measured, rendered

pytestmark = pytest.mark.usefixtures("here")
COMMAND = re.compile(r"::(error|notice) ([^:]*)::([^\n]*)")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    return tmp_path


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    found = []
    for line in text.splitlines():
        match = COMMAND.fullmatch(line)
        assert match, line
        found.append((match[1], dict(pair.split("=", 1) for pair in match[2].split(",")), match[3]))
    return found


def test_a_missed_partition_at_its_line_from_the_root_of_the_repository() -> None:
    *errors, last = commands(rendered("github", SMALL, {"N": 4, **FLOAT16}))
    assert [(level, given["file"], given["line"]) for level, given, _ in errors] == [
        ("error", "sub/small.toml", "21"), ("error", "sub/small.toml", "25"),
    ]  # fmt: skip
    assert errors[1][2].startswith("demo::scale: required partition ragged was not hit%0Areached by N=1 aligned=false")
    assert last[0] == "notice"
    assert last[2].startswith("FAILED, 2 reasons; covered: partitions 1/3 (33.33 %25)")


def test_each_kind_of_reason_has_its_line() -> None:
    text = (
        SMALL
        + """\
[[partition]]
name = "never"
rule = "scalar"
where = "N == 7"
illegal = true
[[partition]]
name = "dead"
rule = "vec4"
where = "N % 2 == 1"
[[waiver]]
partition = "ragged"
reason = "no such layer"
expires = 2020-01-01
[[waiver]]
mismatch = "contract"
rule = "vec4"
reason = "none"
expires = 2099-01-01
[[waiver]]
mismatch = "kernel"
rule = "scalar"
reason = "late"
expires = 2020-01-01
"""
    )
    rows = ({"N": 7, **FLOAT16}, {"N": 4, "kernel": "Scale", **FLOAT16})
    found = {
        message.split("%0A")[0]: given.get("line") for _, given, message in commands(rendered("github", text, *rows))
    }
    lines = {re.sub(r"^demo::scale: ", "", message).split(",")[0][:34]: line for message, line in found.items()}
    assert lines["illegal partition never was hit by"] == "29"
    assert lines["required partition dead can be rea"] == "34"
    assert lines["the waiver of ragged is not needed"] == "38"
    assert lines["the waiver of contract mismatches "] == "42"
    assert lines["the waiver of kernel mismatches in"] == "47"
    assert lines["kernel mismatch in rule vec4: expe"] == "13"


def test_a_reason_that_names_its_own_line_and_one_without_any() -> None:
    results, verdict = measured(SMALL, {"N": 4, **FLOAT16})
    verdict = replace(verdict, failures=("small.toml:3: contract: too wide", "records are damaged: a: line 3: short"))
    first, second, _ = commands(render("github", results, verdict))
    assert (first[1]["file"], first[1]["line"], first[2]) == ("sub/small.toml", "3", "contract: too wide")
    assert "file" not in second[1]


def test_at_most_ten_then_how_many_more() -> None:
    text = SMALL + "".join(
        f'[[partition]]\nname = "p{n}"\nrule = "vec4"\nwhere = "N == {4 * n}"\n' for n in range(2, 20)
    )
    found = commands(rendered("github", text, {"N": 4, **FLOAT16}))
    assert [level for level, _, _ in found] == ["error"] * 10 + ["notice"]
    assert "FAILED, 20 reasons, 10 of them not annotated;" in found[-1][2]


def test_names_cannot_give_commands() -> None:
    found = commands(rendered("github", NAMED, {"N": 4, **FLOAT16}))
    assert [level for level, _, _ in found] == ["error", "error", "notice"]
    assert "%250A::error::@me" in found[1][2]


def test_passed_and_partial() -> None:
    rows = ({"N": 4, **FLOAT16}, {"N": 4, **FLOAT16, "dtype": "float32"}, {"N": 5, **FLOAT16})
    assert "::passed; covered: partitions 3/3" in rendered("github", SMALL, *rows)
    partial = rendered("github", SMALL, {"N": 4, **FLOAT16}, partial=("interrupted",))
    assert "::not judged, the run was partial; " in partial


def test_the_notice_says_what_of_a_workload_tests_reach() -> None:
    results = weights.measured(weights.ALIGNED)
    weighed = replace(results, weights=weigh(results, weights.WORKLOAD, "serve"))
    *_, last = commands(render("github", weighed, judge(weighed)))
    share = "3.0 %25 of the GPU time (30.00 of 1000.00 ms) and 76.9 %25 of the calls"
    assert last[2].endswith(f"; workload serve: tests reach the paths of {share}")

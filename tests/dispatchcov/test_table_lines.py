from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dispatchcov.loading.load import load_table
from dispatchcov.results import Results
from dispatchcov.table_lines import Branch, FileLines, Line, files
from tests.dispatchcov.build import SMALL, STATES, data, row
from tests.dispatchcov.test_places import OWN, line_of

FACTS: dict[str, Any] = {"aligned": True, "dtype": "float16"}
WHEN = line_of(SMALL, 'when = "N % 4 == 0 and aligned"')
VEC4, SCALAR = WHEN - 2, line_of(SMALL, 'name = "scalar"') - 1
SPLIT = line_of(SMALL, 'splits = ["N >= 1024"]')
CROSSED = line_of(SMALL, 'cross = ["dtype"]') - 3
RAGGED = line_of(SMALL, 'name = "ragged"') - 1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def covered(path: Path, text: str, *rows: dict[str, Any], **more: Any) -> tuple[FileLines, ...]:
    path.write_text(text)
    table = load_table(path.name)
    return files(Results.of(data(table, *(row(table, **facts) for facts in rows)), (table,), **more))


def lines(file: FileLines) -> dict[int, Line]:
    return {line.number: line for line in file.lines}


def taken(line: Line) -> dict[str, int]:
    return {branch.text: branch.hits for branch in line.branches}


def test_rules_guards_splits_kernels_and_partitions(here: Path) -> None:
    (file,) = covered(here / "t.toml", SMALL, {"N": 4, **FACTS}, {"N": 4, **FACTS, "test": "t.py::b"})
    found = lines(file)
    assert set(found) == {VEC4, WHEN, SPLIT, SCALAR, CROSSED, RAGGED, 8, 11}
    assert [found[n].hits for n in (VEC4, WHEN, SPLIT, SCALAR, CROSSED, RAGGED)] == [2, 2, 2, 0, 2, 0]
    assert found[WHEN].branches == (
        Branch(0, 0, "N % 4 == 0: true", 2),
        Branch(0, 1, "N % 4 == 0: false", 0),
        Branch(1, 0, "aligned: true", 2),
        Branch(1, 1, "aligned: false", 0),
    )
    assert taken(found[SPLIT]) == {"N >= 1024: true": 0, "N >= 1024: false": 2}
    assert taken(found[CROSSED]) == {"vec4 [dtype=float16]": 2, "vec4 [dtype=float32]": 0}
    assert not found[CROSSED].complete
    assert found[VEC4].tests == ("t.py::b", "t.py::test")
    assert [(f.name, f.hits) for f in file.functions] == [
        ("rule vec4", 2), ("rule scalar", 0), ("kernel ScaleVec4", 2), ("kernel Scale", 0),
    ]  # fmt: skip


def test_what_followed_a_guard(here: Path) -> None:
    (file,) = covered(here / "t.toml", SMALL, {"N": 4, **FACTS}, {"N": 5, **FACTS})
    jumps = {(jump.start, jump.end): (jump.text, jump.hits) for jump in file.jumps}
    assert jumps == {
        (WHEN, VEC4): ("rule vec4 was selected", 1),
        (WHEN, SCALAR): ("rule vec4 was passed over", 1),
    }


def test_an_outcome_that_is_proved_impossible_is_no_branch(here: Path) -> None:
    text = SMALL.replace('"N % 4 == 0 and aligned"', '"N % 4 == 0 and N % 2 == 0"')
    (file,) = covered(here / "t.toml", text, {"N": 4, **FACTS})
    when = lines(file)[WHEN]
    assert [(b.block, b.number, b.text) for b in when.branches] == [
        (0, 0, "N % 4 == 0: true"), (0, 1, "N % 4 == 0: false"), (1, 0, "N % 2 == 0: true"),
    ]  # fmt: skip


def test_let_names_stand_where_the_guard_reads_them(here: Path) -> None:
    text = SMALL.replace("[[kernel]]", '[let]\nrows = "max(32, N)"\n[[kernel]]', 1).replace(
        '"N % 4 == 0 and aligned"', '"rows > 32 and aligned"'
    )
    (file,) = covered(here / "t.toml", text, {"N": 4, **FACTS})
    assert taken(lines(file)[WHEN + 2])["rows > 32: false"] == 1


def test_what_does_not_count_is_spared(here: Path) -> None:
    text = f"{STATES}[[partition]]\nname = 'dead'\nrule = 'vec4'\nwhere = 'N % 2 == 1'\n".replace("'", '"')
    (file,) = covered(here / "t.toml", text, {"N": 4, "sm": 80, **FACTS})
    states = {text.splitlines()[line].split('"')[1]: state for line, state in file.spared.items()}
    assert states == {
        "ragged": "waived", "new": "elsewhere", "dead": "unreachable", "never": "illegal", "nice": "not required",
    }  # fmt: skip
    assert not set(file.spared) & set(lines(file))


def test_too_few_hits_are_none(here: Path) -> None:
    text = SMALL.replace('where = "N % 4 != 0"', 'where = "N % 4 != 0"\nat_least = 3')
    (file,) = covered(here / "t.toml", text, {"N": 5, **FACTS}, {"N": 6, **FACTS})
    assert lines(file)[RAGGED].hits == 0


def test_evidence_that_is_asked_for_counts_here_too(here: Path) -> None:
    rows = ({"N": 4, **FACTS}, {"N": 8, **FACTS, "launched": 1})
    (file,) = covered(here / "t.toml", SMALL, *rows, evidence=["launched"])
    assert (lines(file)[VEC4].hits, lines(file)[WHEN].hits) == (1, 1)


def test_a_table_that_extends_has_rules_in_one_file_and_partitions_in_the_other(here: Path) -> None:
    (here / "base").mkdir()
    (here / "base" / "small.toml").write_text(SMALL)
    base, own = covered(here / "own.toml", OWN.replace("2126", "2020"), {"N": 4, **FACTS})
    assert (base.path, own.path) == ("base/small.toml", "own.toml")
    assert lines(base)[WHEN].hits == 1
    assert CROSSED not in lines(base)  # requirements of the base are not those judged
    assert {number: line.hits for number, line in lines(own).items()} == {4: 0}


def test_rules_on_one_line_are_told_apart(here: Path) -> None:
    text = """\
kernel = [{ name = "A" }, { name = "B" }]
rule = [{ name = "a", when = "N > 3", kernel = "A" }, { name = "b", kernel = "B" }]
[table]
op = "demo::inline"
[variables]
N = { type = "int", min = 0 }
"""
    (file,) = covered(here / "t.toml", text, {"N": 4})
    two = lines(file)[2]
    assert taken(two) == {
        "N > 3: true": 1, "N > 3: false": 0, "rule a": 1, "guard of a": 1, "rule b": 0,
    }  # fmt: skip
    assert len({(branch.block, branch.number) for branch in two.branches}) == len(two.branches)
    assert not two.complete

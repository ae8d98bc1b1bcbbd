from __future__ import annotations

from pathlib import Path

import pytest

from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.places import Place, Places, from_here, from_root
from tests.dispatchcov.build import SMALL

OWN = """\
[table]
extends = "base/small.toml"

[[partition]]
name = "wide"
rule = "vec4"
where = "N > 100"
[[waiver]]
partition = "wide"
reason = "no memory"
expires = 2126-01-01
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "small.toml").write_text(SMALL)
    (tmp_path / "own.toml").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line_of(text: str, wanted: str) -> int:
    lines = text.splitlines()
    assert lines.count(wanted) == 1
    return lines.index(wanted) + 1


@pytest.mark.usefixtures("project")
def test_one_file() -> None:
    places = Places(load_table("base/small.toml"))
    when = line_of(SMALL, 'when = "N % 4 == 0 and aligned"')
    assert places.found
    assert places.rule(0) == Place("base/small.toml", when - 2)
    assert places.rule(0, "when") == Place("base/small.toml", when)
    assert places.rule(0, "splits", 0) == Place("base/small.toml", line_of(SMALL, 'splits = ["N >= 1024"]'))
    assert places.kernel("Scale") == Place("base/small.toml", line_of(SMALL, 'name = "Scale"') - 1)
    assert places.partition("ragged") == Place("base/small.toml", line_of(SMALL, 'name = "ragged"') - 1)
    assert places.waiver("ragged") is None


@pytest.mark.usefixtures("project")
def test_a_table_that_extends_has_two_files() -> None:
    table = load_table("own.toml")
    recorded = parse_table(table.text, source=table.source)  # as the records of a run know it
    for places in (Places(table), Places(recorded)):
        assert places.rule(1).file == "base/small.toml"
        assert places.partition("wide") == Place("own.toml", 4)
        assert places.waiver("wide") == Place("own.toml", 8)


@pytest.mark.usefixtures("project")
def test_a_table_without_partitions_stands_for_its_rules() -> None:
    text = SMALL[: SMALL.index("[[partition]]")]
    Path("plain.toml").write_text(text)
    places = Places(load_table("plain.toml"))
    assert places.partition("scalar") == places.rule(1)


@pytest.mark.usefixtures("project")
def test_a_table_of_another_machine_is_found_by_the_end_of_its_path() -> None:
    table = parse_table(SMALL, source="/home/ci/work/../project/base/small.toml")
    assert Places(table).rule(0).file == "base/small.toml"


def test_another_version_is_not_the_table(project: Path) -> None:
    table = load_table("base/small.toml")
    (project / "base" / "small.toml").write_text("\n\n" + SMALL.replace("N % 4 == 0 and", "N % 8 == 0 and"))
    places = Places(table)
    assert not places.found
    assert places.rule(0, "when").line == line_of(SMALL, 'when = "N % 4 == 0 and aligned"')


def test_the_same_table_with_other_lines_is_the_table(project: Path) -> None:
    table = load_table("base/small.toml")
    (project / "base" / "small.toml").write_text("# moved\n\n" + SMALL)
    assert Places(table).rule(0, "when").line == line_of(SMALL, 'when = "N % 4 == 0 and aligned"') + 2


def test_a_file_that_is_gone_keeps_its_name_and_recorded_lines() -> None:
    places = Places(parse_table(SMALL, source="nowhere/small.toml"))
    assert not places.found
    assert places.rule(0).file == "nowhere/small.toml"
    assert places.rule(0).line > 0


def test_paths_from_the_working_directory_and_from_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "repo" / "sub")
    inside = str(tmp_path / "repo" / "sub" / "a" / "t.toml")
    beside = str(tmp_path / "repo" / "t.toml")
    assert (from_here(inside), from_root(inside)) == ("a/t.toml", "sub/a/t.toml")
    assert (from_here(beside), from_root(beside)) == (beside, "t.toml")

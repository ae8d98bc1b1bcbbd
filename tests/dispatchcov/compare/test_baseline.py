from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchcov.compare.baseline import Baseline, Entry, parse, read, render, write
from dispatchcov.errors import UsageError
from dispatchcov.loading.load import load_table, parse_table
from tests.dispatchcov.build import SMALL
from tests.test_layers import ROOT

PARTS = parse_table(SMALL).parts
A = Entry("t.py::a[1]", "demo::scale", "scalar", "Scale", (("vec4", "N"),), (("N", 3), ("aligned", True)))
B = Entry("t.py::b", "demo::scale", "vec4", "ScaleVec4", (), (("N", 4), ("aligned", True)), True)
BASELINE = Baseline({"demo::scale": PARTS}, (A, B))
LINES = render(BASELINE).decode().splitlines(keepends=True)


def test_the_file_is_one_line_an_entry_in_order() -> None:
    assert LINES == [
        '{"dispatchcov": "baseline", "format": 1, "about": "which test reaches which region and kernel; '
        'written by pytest --dispatch-update-baseline"}\n',
        '{"op": "demo::scale", "variable": "N", "type": "int", "min": 0}\n',
        '{"op": "demo::scale", "variable": "aligned", "type": "bool"}\n',
        '{"op": "demo::scale", "variable": "dtype", "type": "enum", "values": ["float16", "float32"]}\n',
        '{"op": "demo::scale", "rule": "vec4", "when": "N % 4 == 0 and aligned", "kernel": "ScaleVec4"}\n',
        '{"op": "demo::scale", "rule": "scalar", "when": "", "kernel": "Scale"}\n',
        '{"test": "t.py::a[1]", "op": "demo::scale", "rule": "scalar", "kernel": "Scale", "not": {"vec4": "N"}, '
        '"input": {"N": 3, "aligned": true}}\n',
        '{"test": "t.py::b", "op": "demo::scale", "rule": "vec4", "kernel": "ScaleVec4", "not": {}, '
        '"input": {"N": 4, "aligned": true}, "varies": true}\n',
    ]
    assert render(Baseline(BASELINE.tables, (B, A))).decode() == "".join(LINES)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "base.jsonl")
    assert write(path, BASELINE)
    assert not write(path, BASELINE)
    found = read(path)
    assert [(e, e.facts, e.varies) for e in found.entries] == [(e, e.facts, e.varies) for e in (A, B)]
    assert render(found) == render(BASELINE)


@pytest.mark.parametrize("file", ["fp4ops/dispatch.toml", "tests/dispatchcov/small"])
def test_a_table_of_a_file_decides_as_the_table_does(file: str) -> None:
    from tests.dispatchcov.small_table import SMALL as LETS

    table = load_table(ROOT / file) if file.endswith(".toml") else parse_table(LETS)
    found = parse(render(Baseline({table.op: table.parts}, ())), "base").tables[table.op]
    guards = [(rule.name, rule.when, rule.kernel.name, rule.guard) for rule in table.rules]
    assert [(rule.name, rule.when, rule.kernel.name, rule.guard) for rule in found.rules] == guards
    known = {str(p.expr) for p in table.predicates}
    assert {str(p.expr) for p in found.predicates} <= known
    plain = [(v.name, v.type, v.min, v.max, v.multiple_of, v.values, v.hardware) for v in table.variables]
    assert [(v.name, v.type, v.min, v.max, v.multiple_of, v.values, v.hardware) for v in found.variables] == plain


def test_values_of_any_characters() -> None:
    table = parse_table(SMALL.replace('"float32"', '"\\u007f\\t é\'\\"\\\\"'))
    found = parse(render(Baseline({table.op: table.parts}, ())), "base").tables[table.op]
    assert found.variables[2].values == table.variables[2].values == ("float16", "\x7f\t é'\"\\")


def test_a_git_union_merge_is_read_and_written_in_order() -> None:
    again = "".join([*LINES, LINES[6], LINES[6].replace("a[1]", "c")])
    found = parse(again.encode(), "base")
    assert [entry.test for entry in found.entries] == ["t.py::a[1]", "t.py::b", "t.py::c"]
    assert parse(again.replace("\n", "\r\n").encode(), "base").entries == found.entries
    twice = "".join([*LINES[:6], LINES[4], *LINES[6:]])
    assert render(parse(twice.encode(), "base")) == render(BASELINE)
    both = "".join([*LINES[:5], LINES[4].replace("N % 4", "N % 8"), *LINES[5:]])
    with pytest.raises(UsageError, match="expected one line of rule 'vec4', got two; a merge left both, keep one"):
        parse(both.encode(), "base")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "base:1: expected a baseline of dispatchcov, got another file: "),
        ("SQLite format 3\0", "base:1: expected a baseline of dispatchcov, got another file: SQLite format 3"),
        ('{"version": 1}\n', "base:1: expected a baseline of dispatchcov, got another file"),
        (
            LINES[0].replace("1", "2", 1),
            "base: expected a baseline of format 1, got format 2; it was written by another",
        ),
        ("<<<<<<< HEAD\n" + LINES[0], "base:1: expected a baseline.*; a merge was not finished"),
        (LINES[0] + "<<<<<<< HEAD\n", "base:2: expected a JSON object, got <<<<<<< HEAD; a merge was not finished"),
        ("".join(LINES)[:-20], "base:8: expected a JSON object, got {"),
        (LINES[0] + "[1]\n", "base:2: expected a JSON object, got"),
        (LINES[0] + LINES[6].replace("input", "inputs"), "base:2: expected an entry with test, op, rule, kernel, not,"),
        (LINES[0] + LINES[6].replace('{"test"', '{"more": 1, "test"'), "base:2: expected an entry"),
        (LINES[0] + LINES[6].replace('"N": 3', '"N": [3]'), "base:2: expected an entry"),
        (LINES[0] + LINES[6].replace('"N": 3', '"N": null'), "base:2: expected an entry"),
        (LINES[0] + LINES[6].replace('{"vec4": "N"}', '{"vec4": 1}'), "base:2: expected an entry"),
        (LINES[0] + LINES[7].replace("true}\n", "1}\n"), "base:2: expected an entry"),
        (LINES[0] + '{"variable": "N"}\n', "base:2: expected an entry with .*, or a line of a table with op"),
        (LINES[0] + '{"op": "x", "kernel": "N"}\n', "base: expected the table of x as dispatchcov writes it: a line"),
        (LINES[0] + LINES[4], "base: expected the table of demo::scale .*: expected .variables., got none"),
        ("".join(LINES[:6]).replace("N % 4", "N ^ 4"), "base: expected the table of demo::scale as dispatchcov"),
        ("".join(LINES[:6]).replace('"min": 0', '"min": {}'), "base: expected the table of demo::scale"),
    ],
)
def test_another_file_is_refused(content: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(content.encode(), "base")


def test_a_missing_file_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a baseline, got no file; pytest .* --dispatch-update-baseline"):
        read(str(tmp_path / "none.jsonl"))
    with pytest.raises(UsageError, match="something else than a regular file"):
        read(str(tmp_path))


@given(st.binary(max_size=60), st.integers(0, 7), st.integers(0, 200))
def test_only_our_errors_come_out(junk: bytes, number: int, at: int) -> None:
    lines = [line.encode() for line in LINES]
    lines[number] = lines[number][:at] + junk + lines[number][at + 1 :]
    with contextlib.suppress(UsageError):
        parse(b"".join(lines), "base")


@given(st.text(), st.text(st.characters(codec="utf-8")), st.integers(-(1 << 200), 1 << 200))
def test_any_characters_in_names(test: str, name: str, number: int) -> None:
    whole = test.encode("utf-8", "backslashreplace").decode()  # as the records have it
    entry = Entry(whole, "x", name, name, ((name, name),), (("N", number), (name, name)))
    (found,) = parse(render(Baseline({}, (entry,))), "base").entries
    assert (found, dict(found.facts)) == (entry, dict(entry.facts))
    assert render(Baseline({}, (entry,))).count(b"\n") == 2


def test_writing_keeps_mode_and_link_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target, link = tmp_path / "there" / "base.jsonl", tmp_path / "link.jsonl"
    target.parent.mkdir()
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    assert write(str(link), BASELINE)
    assert link.is_symlink()
    assert target.read_bytes() == render(BASELINE)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(target.parent) == ["base.jsonl"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "base.jsonl"
    path.write_text("old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"cannot write the baseline: No space left on device"):
        write(str(path), BASELINE)
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["base.jsonl"])


def test_a_threshold_changes_one_line_of_the_file_and_no_entry_that_it_does_not_move() -> None:
    from dispatchcov.compare.sides import of_data
    from tests.dispatchcov.build import data, row

    def lines(text: str) -> set[str]:
        table = parse_table(text)
        records = data(table, *[row(table, f"t.py::{n}", N=n, aligned=True, dtype="float16") for n in (3, 4, 5, 8)])
        return set(
            render(Baseline({table.op: table.parts}, of_data("", records, [table]).entries)).decode().split("\n")
        )

    before, after = lines(SMALL), lines(SMALL.replace("N % 4 == 0 and", "N % 8 == 0 and"))
    changed = [json.loads(line) for line in before - after]
    assert sorted(line.get("test", line["rule"]) for line in changed) == ["t.py::4", "vec4"]

"""Findings are exact: planted faults and random tables against trying every input, repaired tables without findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dispatchcov import realise
from dispatchcov.check import check
from dispatchcov.cli import main
from dispatchcov.decide import select
from dispatchcov.domain import size
from dispatchcov.expr import Value
from dispatchcov.formula import holds
from dispatchcov.table import Table
from tests.dispatchcov.planted import PLANTED
from tests.dispatchcov.random_tables import decisions, tables

Expected = dict[tuple[str, str | None], dict[str, Value] | None]
TRIED = ("contract", "dead", "untotal")


def expected(table: Table) -> Expected:
    """The findings of the kinds :data:`TRIED` with the smallest input of each, by trying every input."""
    found: Expected = {}
    tried = [(facts, vector, select(table, vector)) for facts, vector in decisions(table)]

    def smallest(inputs: list[dict[str, Value]]) -> dict[str, Value]:
        return min(inputs, key=lambda facts: size(table.variables, facts))

    for rule in table.rules:
        taken = [(facts, vector) for facts, vector, chosen in tried if chosen == rule.index]
        broken = [facts for facts, vector in taken if not holds(rule.kernel.requires, vector)]
        if not taken:
            found["dead", rule.name] = None
        elif broken:
            found["contract", rule.name] = smallest(broken)
    lost = [facts for facts, _, chosen in tried if chosen is None]
    if lost:
        found["untotal", None] = smallest(lost)
    for partition in table.partitions:
        alive = [i for i in partition.rules if ("dead", table.rules[i].name) not in found]
        reached = any(chosen in alive and holds(partition.condition, vector) for _, vector, chosen in tried)
        if alive and not reached:
            found["dead", partition.name] = None
    return found


def told(table: Table) -> Expected:
    """The same by ``check``, without guards that divide by zero, which no decision shows."""
    found = {(f.kind, f.rule or f.partition): f for f in check(table) if f.kind in TRIED}
    assert "unknown" not in {kind for kind, _ in found}
    return {key: f.input for key, f in found.items() if not (f.kind == "untotal" and f.rule)}


@settings(max_examples=40, deadline=None)
@given(st.one_of(tables(contracts=True), tables(shared=True, contracts=True)))
def test_findings_agree_with_trying_all_inputs(table: Table) -> None:
    note(table.text)
    assert told(table) == expected(table)


SOLVED = ("product one past", "product of three", "grid of tiles", "rows at an offset", "alignment of an offset")
needs_z3 = pytest.mark.skipif(not realise.available(), reason="needs z3")
NAMES = [pytest.param(name, marks=needs_z3 if name in SOLVED else ()) for name in PLANTED]


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_fault_is_all_that_is_found(name: str) -> None:
    table = PLANTED[name].table()
    found = check(table)
    assert tuple(f"{f.kind} {f.rule or f.partition}" for f in found) == PLANTED[name].found
    assert [f for f in found if "smaller" in f.message] == []
    lines = table.text.splitlines()
    for finding in found:
        assert lines[finding.line - 1] == ("[[partition]]" if finding.partition else "[[rule]]")
        named = finding.partition or finding.rule or table.rules[-1].name
        assert lines[finding.line] == f"name = '{named}'"


@pytest.mark.parametrize("name", NAMES)
def test_its_repair_leaves_nothing(name: str) -> None:
    assert check(PLANTED[name].table(repaired=True)) == ()


@pytest.mark.parametrize("name", [param for param in NAMES if PLANTED[str(param.values[0])].most])
@pytest.mark.parametrize("repaired", [False, True])
def test_its_input_is_the_smallest_of_all(name: str, repaired: bool) -> None:
    planted = PLANTED[name]
    by_trying = expected(planted.table(repaired=repaired, bounded=True))
    assert told(planted.table(repaired=repaired)) == by_trying
    assert told(planted.table(repaired=repaired, bounded=True)) == by_trying


@settings(max_examples=25, deadline=None)
@given(tables(contracts=True))
def test_rules_that_shadow_are_the_fewest(table: Table) -> None:
    note(table.text)
    vectors = {vector for _, vector in decisions(table)}
    for finding in check(table):
        _, said, names = finding.message.partition("taken before by ")
        if finding.kind != "dead" or not said or finding.partition:
            continue
        rule = table.rule(str(finding.rule))
        named = [table.rule(name).index for name in names.split(" and ")]
        taken = {vector for vector in vectors if holds(rule.guard, vector)}
        by = {r.index: {v for v in taken if holds(r.guard, v)} for r in table.rules[: rule.index]}
        assert set().union(*(by[i] for i in named)) == taken
        if len(named) > 1 and taken:  # none is left where guards divide by zero
            assert taken not in by.values()


def test_one_rule_that_shadows_goes_before_two() -> None:
    planted = PLANTED["dead behind three"]
    rules = "a: k if M <= 9\nb: k if M <= 4\nc: k if M > 4 and M < 8\nd: k if M <= 7\ne: k"
    found = check(type(planted)("M", "k:", rules, (), ("", "")).table())
    assert [f.message.partition("taken before by ")[2] for f in found] == ["a", "a", "a"]


@pytest.mark.parametrize(("requires", "message"), [
    ("not flag", "not (flag)"), ("M < 3 or M > 5", "(M < 3 or M > 5)"),
    ("not (M == 3 or flag)", "not (M == 3) and not (flag)"),
    ("not (flag and M < 9)", "(not (flag) or not (M < 9))"),
    ("M < 2 and (not flag or M > 9)", "M < 2 and (not (flag) or M > 9)"),
])  # fmt: skip
def test_a_contract_finding_says_what_is_required(requires: str, message: str) -> None:
    planted = PLANTED["not"]
    table = type(planted)("M; flag?", f"k: {requires}\nr:", "a: k if flag and M > 2\nr: r", (), ("", "")).table()
    (found,) = check(table)
    assert found.message.endswith(f": {message} is required and does not hold")


def test_exit_status_and_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 for errors, 0 for notes and for none, 1 for what cannot be read, whatever the format."""
    files = {}
    for name, status in (("or", 2), ("narrow alignment", 0), ("gap", 2)):
        files[name] = tmp_path / f"{name.replace(' ', '-')}.toml"
        files[name].write_text(PLANTED[name].table().text)
        for format in ("text", "json", "github"):
            assert main(["check", str(files[name]), "--format", format]) == status
    broken = tmp_path / "broken.toml"
    broken.write_text("[table]\nop = 'x'\n")
    capsys.readouterr()
    assert main(["check", str(files["or"]), str(broken)]) == 1
    assert capsys.readouterr().out == ""
    other = tmp_path / "other.toml"
    other.write_text(files["gap"].read_text().replace("planted::table", "planted::other"))
    assert main(["check", str(files["or"]), str(other), "--format", "json"]) == 2
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(f["op"], f["kind"], f["input"]["M"]) for f in found] == [
        ("planted::table", "contract", 1), ("planted::other", "untotal", 1),
    ]  # fmt: skip

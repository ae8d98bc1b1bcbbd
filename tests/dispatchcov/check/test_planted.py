"""Findings are exact: planted faults and random tables against trying every input, repaired tables without findings."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, note, settings
from hypothesis import strategies as st

from dispatchcov.check.faults import check
from dispatchcov.cli import main
from dispatchcov.decide import select
from dispatchcov.expr import Value
from dispatchcov.formula import holds
from dispatchcov.loading.load import parse_table
from dispatchcov.space import realise
from dispatchcov.space.domain import size
from dispatchcov.table import Rule, Table
from tests.dispatchcov.check.planted import PLANTED
from tests.dispatchcov.random_tables import decisions, tables, values

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


@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
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


EVEN = "a % 2 == 0"
ALWAYS_DIVIDES = "1 <= 5 * (a) < 6 and not ((b + 0 // (-(b) + b)) in [0])"


def guards(*guards: str, where: str = "a >= 0") -> Table:
    """A table with one rule for each guard, over a and b from 0 to 2 and a flag, and partition ``p`` of the last."""
    variables = "".join(f"{name} = {{ type = 'int', min = 0, max = 2 }}\n" for name in "ab")
    rules = "".join(f"[[rule]]\nname = 'r{i}'\nkernel = 'k'\nwhen = \"{g}\"\n" for i, g in enumerate(guards))
    partition = f"[[partition]]\nname = 'p'\nrule = 'r{len(guards) - 1}'\nwhere = \"{where}\"\n"
    head = f"[table]\nop = 'x::y'\n[variables]\n{variables}flag = {{ type = 'bool' }}\n[[kernel]]\nname = 'k'\n"
    return parse_table(head + rules + partition)


def value(rule: Rule, facts: dict[str, Value]) -> bool | None:
    """What Python makes of the guard of ``rule``; None where it divides by zero."""
    try:
        return bool(eval(rule.when or "True", {"ceildiv": lambda a, b: -(-a // b)}, dict(facts)))
    except ZeroDivisionError:
        return None


def kept_from(table: Table, rule: Rule, dead: set[str]) -> tuple[set[int], dict[str, set[int]]]:
    """The inputs, by number, that ``rule`` could take, and those of them that each other rule keeps from it: the rule
    takes them (``NAME``), or what comes to it divides by zero there (``NAME!``).
    """
    taken: set[int] = set()
    kept: dict[str, set[int]] = {}
    for number, facts_of in enumerate(itertools.product(*map(values, table.variables))):
        facts = dict(zip(table.names, facts_of, strict=True))
        if not value(rule, facts):
            continue
        taken.add(number)
        passed = True
        for earlier in table.rules[: rule.index]:
            outcome = value(earlier, facts)
            if outcome and earlier.name not in dead:
                kept.setdefault(earlier.name, set()).add(number)
            if outcome is None and passed:
                kept.setdefault(f"{earlier.name}!", set()).add(number)
            passed = passed and outcome is False
    return taken, kept


def covers(kept: dict[str, set[int]], names: Iterable[str], taken: set[int]) -> bool:
    return set().union(*(kept.get(name, set()) for name in names)) == taken


@settings(max_examples=60, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(st.one_of(tables(contracts=True), tables(shared=True)))
@example(guards(EVEN, EVEN, f"flag and {EVEN}", EVEN, ALWAYS_DIVIDES))
@example(guards("a // b == 1", "b == 0", "a > b or flag", "b == 0 and flag"))
@example(guards("b == 0 and flag", "flag and a // b < 9", "flag and b > 0", "flag", "not flag and 1 % (a * b) == 0"))
def test_rules_that_shadow_are_alive_and_the_fewest(table: Table) -> None:
    """Checked with Python's own reading of the guards, for every input there is."""
    note(table.text)
    found = [finding for finding in check(table) if finding.kind == "dead" and finding.rule]
    dead = {str(finding.rule) for finding in found}
    for finding in found:
        rule = table.rule(str(finding.rule))
        taken, kept = kept_from(table, rule, dead)
        reason = SHADOW.fullmatch(finding.message.removeprefix(f"no input reaches rule {rule.name}: "))
        assert reason is not None, finding.message
        assert bool(reason["never"]) == (not taken)
        if taken:
            by, at = reason["by"] or "", reason["at"] or ""
            named = [*filter(None, by.split(" and ")), *(f"{name}!" for name in at.split(" and ") if name)]
            assert covers(kept, named, taken)
            assert not any(covers(kept, fewer, taken) for fewer in itertools.combinations(kept, len(named) - 1))


SHADOW = re.compile(
    r"(?P<never>its guard never holds.*)|all that it could take (is taken before by (?P<by>r\d( and r\d)*))?( or )?"
    r"(divides by zero before, in the guard of (?P<at>r\d( and r\d)*))?"
)


@pytest.mark.parametrize(("given", "why"), [
    ((EVEN, EVEN, "a == 0"), {"r1": "all that it could take is taken before by r0",
                              "r2": "all that it could take is taken before by r0"}),
    ((EVEN, EVEN, ALWAYS_DIVIDES),
     {"r1": "all that it could take is taken before by r0",
      "r2": "its guard never holds: it divides by zero in b + 0 // (-b + b) in [0]"}),
    (("a > 5", "a > 1 and a < 1"), {"r0": "its guard never holds", "r1": "its guard never holds"}),
    (("a // b == 9 and flag", "b == 0"),
     {"r0": "its guard never holds", "r1": "all that it could take divides by zero before, in the guard of r0"}),
    (("a == 0", "a // b == 1", "b == 0"),
     {"r2": "all that it could take is taken before by r0 or divides by zero before, in the guard of r1"}),
    (("a == 0", "1 // b > 1 and flag", "b == 0 and flag and a > 0", "b == 0 and flag"),
     {"r1": "its guard never holds", "r2": "all that it could take divides by zero before, in the guard of r1",
      "r3": "all that it could take is taken before by r0 or divides by zero before, in the guard of r1"}),
])  # fmt: skip
def test_a_dead_rule_says_why(given: tuple[str, ...], why: dict[str, str]) -> None:
    found = {f.rule: f.message for f in check(guards(*given)) if f.kind == "dead" and f.rule}
    assert found == {rule: f"no input reaches rule {rule}: {text}" for rule, text in why.items()}


@pytest.mark.parametrize(("given", "where", "why"), [
    (("a <= 1", "a <= 1 and b > 0", "flag"), "a == 0", "is taken before by r0"),
    (("1 // b > 9 and a > 0", "b == 0 or flag"), "b == 0", "divides by zero before, in the guard of r0"),
])  # fmt: skip
def test_a_dead_partition_says_why(given: tuple[str, ...], where: str, why: str) -> None:
    (found,) = [f for f in check(guards(*given, where=where)) if f.partition]
    assert found.message == f"no input reaches partition p: all that it could take {why}"


def test_a_predicate_that_divides_by_zero_is_not_redundant() -> None:
    """Without it the guard would take inputs that no rule takes now."""
    kinds = [f.kind for f in check(guards("flag and not (b // b < 0)", "a >= 0"))]
    assert kinds == ["untotal", "redundant"]
    kinds = [f.kind for f in check(guards("flag and b > 0 and not (b // b < 0)", "a > 0 or flag or b > 0"))]
    assert "redundant" in kinds


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

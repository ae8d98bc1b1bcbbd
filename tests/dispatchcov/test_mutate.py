"""Mutants: what is made, what recorded decisions notice, what is proved equivalent, and what survives."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings

from dispatchcov import load_table, parse_table, store
from dispatchcov.cli import main
from dispatchcov.gate import judge
from dispatchcov.items import Item
from dispatchcov.mutants import Mutant, left_out, mutants
from dispatchcov.mutate import Mutation
from dispatchcov.results import Results
from dispatchcov.space.variants import Variant
from dispatchcov.table import Table
from tests.dispatchcov.build import data, row
from tests.dispatchcov.random_tables import decisions, tables
from tests.dispatchcov.space.test_boundaries import table

CASES = Path(__file__).parent / "cases"
EXPECTED = tomllib.loads((CASES / "expected.toml").read_text())


def made(of: Table) -> list[tuple[str, str]]:
    return [(mutant.kind, mutant.change) for mutant in mutants(of, Variant(of))]


def test_the_mutants_of_a_guard() -> None:
    variables = "M = { type = 'int', min = 0 }\nK = { type = 'int', min = 0, multiple_of = 2 }\n"
    variables += "sm = { type = 'int', values = [80, 90, 120] }\nd = { type = 'enum', values = ['a', 'b'] }"
    assert made(table("M <= 8 and K % 32 == 0", "90 <= sm and d == 'a'", "not M <= 16", "", variables=variables)) == [
        ("off-by-one", "M <= 8 -> M <= 7"), ("off-by-one", "M <= 8 -> M <= 9"), ("comparison", "M <= 8 -> M >= 8"),
        ("constant", "M <= 8 -> M <= 16"), ("negated", "M <= 8 -> not (M <= 8)"), ("dropped", "M <= 8 dropped"),
        ("modulus", "K % 32 == 0 -> K % 16 == 0"), ("modulus", "K % 32 == 0 -> K % 64 == 0"),
        ("negated", "K % 32 == 0 -> not (K % 32 == 0)"), ("dropped", "K % 32 == 0 dropped"),
        ("order", "rules r0 and r1 swapped"),
        ("constant", "90 <= sm -> 80 <= sm"), ("constant", "90 <= sm -> 120 <= sm"),
        ("comparison", "90 <= sm -> 90 >= sm"), ("negated", "90 <= sm -> not (90 <= sm)"),
        ("dropped", "90 <= sm dropped"), ("constant", "d == 'a' -> d == 'b'"),
        ("negated", "d == 'a' -> not (d == 'a')"), ("dropped", "d == 'a' dropped"),
        ("order", "rules r1 and r2 swapped"),
        ("off-by-one", "M <= 16 -> M <= 15"), ("off-by-one", "M <= 16 -> M <= 17"),
        ("comparison", "M <= 16 -> M >= 16"), ("constant", "M <= 16 -> M <= 8"),
        ("negated", "M <= 16 -> not (M <= 16)"), ("dropped", "M <= 16 dropped"), ("order", "rules r2 and r3 swapped"),
    ]  # fmt: skip


SIZES = "N = { type = 'int', min = 0 }"


def test_of_many_constants_those_next_to_a_predicates_own_are_tried() -> None:
    of = table(*(f"N == {size}" for size in (0, 40, 10, 30, 20, 60, 50)), "", variables=SIZES)
    tried: dict[str, list[int]] = {}
    for kind, change in made(of):
        if kind == "constant":
            own, other = change.split(" -> N == ")
            tried.setdefault(own, []).append(int(other))
    assert tried == {  # in the order of the table, as ever
        "N == 0": [40, 10, 30, 20], "N == 40": [30, 20, 60, 50], "N == 10": [0, 40, 30, 20],
        "N == 30": [40, 10, 20, 50], "N == 20": [0, 40, 10, 30], "N == 60": [40, 30, 20, 50],
        "N == 50": [40, 30, 20, 60],
    }  # fmt: skip


def test_of_many_names_those_next_to_a_predicates_own_are_tried() -> None:
    names = [f"t{place}" for place in range(9)]
    of = table("t == 't1'", "t != 't7'", "", variables=f"t = {{ type = 'enum', values = {names} }}")
    assert [change for kind, change in made(of) if kind == "constant"] == [
        f"t == 't1' -> t == 't{place}'" for place in (0, 2, 3, 4)
    ]
    assert left_out(of) == (
        "mutants: of 9 values of t only the 4 next to a predicate's own constant are put in its place",
    )


def test_mutants_that_are_left_out_are_told_of() -> None:
    few = table(*(f"N == {3 * place}" for place in range(5)), "", variables=SIZES)
    assert Results.of(data(few), (few,)).tables[0].notes == left_out(few) == ()
    many = table(*(f"N == {3 * place}" for place in range(60)), "", variables=SIZES)
    note = "mutants: of 60 predicates like N == 0 only the 4 next to a predicate's own constant are put in its place"
    results = Results.of(data(many, row(many, N=3)), (many,))
    assert results.tables[0].notes == (note,)
    assert f"x::y: {note}" in judge(results).notes
    assert len(results.tables[0].mutants) <= 9 * 60  # not 60 for each


def selected(of: Table, mutation: Mutation, mutant: Mutant, facts: dict[str, Any]) -> bool:
    """Does the mutant select another kernel, by the definition?"""
    vector = mutation.view.vector(tuple(facts.values()))
    return mutation.differs(mutant, vector, _rule(of, facts))


def _rule(of: Table, facts: dict[str, Any]) -> int | None:
    from dispatchcov.decide import DEFAULT_MACHINE, View, select

    return select(of, View.of(of, DEFAULT_MACHINE).vector(tuple(facts.values())))


@settings(max_examples=15, deadline=None)
@given(tables())
def test_what_is_equivalent_is_so_for_every_input(of: Table) -> None:
    note(of.text)
    text = of.text.replace("kernel = 'k'", "kernel = 'k1'", 1) + "\n[[kernel]]\nname = 'k1'"
    of = parse_table(text)
    mutation = Mutation(of)
    inputs = [facts for facts, _ in decisions(of)]
    for mutant in mutation.mutants:
        answer = mutation.answer(mutant)
        told = [facts for facts in inputs if selected(of, mutation, mutant, facts)]
        if answer.state == "unreachable":
            assert told == [], mutant
        elif answer.witness is not None:
            assert answer.witness in told, mutant


def measured(of: Table, *given: dict[str, Any], **counts: int) -> dict[str, Item]:
    rows = [row(of, test=f"t.py::test_{i}", **facts, **counts) for i, facts in enumerate(given)]
    return {item.detail: item for item in Results.of(data(of, *rows)).tables[0].mutants}


def test_a_case_whose_tests_miss_a_mutant() -> None:
    of = load_table(CASES / "vec8-even-block.toml")
    case = EXPECTED["vec8-even-block"]
    wanted = next(found["change"] for found in case["find"] if found["kind"] == "surviving-mutant")
    before = measured(of, *case["inputs"])
    assert (before[wanted].state, before[wanted].grade) == ("missed", "survived")
    assert before[wanted].witness == {"M": 9, "K": 8, "block_size": 2}
    after = measured(of, *case["inputs"], case["shows"])
    assert (after[wanted].state, after[wanted].grade) == ("hit", "noticed")
    repaired = measured(of, *case["inputs"], *(i.witness for i in before.values() if i.state == "missed" and i.witness))
    assert {item.state for item in repaired.values()} <= {"hit", "unreachable"}


def test_a_case_whose_tests_miss_a_region() -> None:
    of = load_table(CASES / "vec8-even-block.toml")
    case = EXPECTED["vec8-even-block"]
    for inputs, state in ((case["inputs"], "missed"), ([*case["inputs"], case["shows"]], "hit")):
        rows = [row(of, **facts) for facts in inputs]
        splits = Results.of(data(of, *rows)).tables[0].splits
        assert {item.detail: item.state for item in splits}["block_size % 8 == 0: false"] == state


def test_equivalent_mutants_do_not_count() -> None:
    of = table("K >= 8 and M < 3", "", variables="M = { type = 'int' }\nK = { type = 'int', min = 0, multiple_of = 4 }")
    found = measured(of, {"M": 2, "K": 8})
    assert found["K >= 8 -> K >= 4"].grade == "survived"
    assert found["K >= 8 -> K >= 12"].grade == "noticed"
    same = table("sm < 130", "", variables="sm = { type = 'int', values = [80, 90] }")
    assert measured(same, {"sm": 80})["sm < 130 dropped"].state == "unreachable"
    assert measured(same, {"sm": 80})["sm < 130 dropped"].grade == "equivalent"


def test_noticed_is_caught_if_the_test_asserts(pytester: pytest.Pytester) -> None:
    of = table("M <= 8", "", variables="M = { type = 'int', min = 0 }")
    assert measured(of, {"M": 8})["M <= 8 -> M <= 7"].grade == "noticed"
    assert measured(of, {"M": 8}, checked=1)["M <= 8 -> M <= 7"].grade == "caught"
    pytester.makefile(".toml", small=of.text)
    pytester.makepyfile(
        "import dispatchcov, pytest\ntable = dispatchcov.load_table('small.toml')\n"
        "@pytest.mark.dispatch('r0')\ndef test_marked(): table.decide(M=8)\n"
        "def test_trace(dispatch_trace):\n    table.decide(M=9)\n    dispatch_trace.assert_kernel('k1')\n"
        "def test_plain(): table.decide(M=0)\n"
    )
    result = pytester.runpytest_subprocess("--dispatch-report=json:out.json", "--dispatch-table=small.toml")
    assert result.ret == 0
    (found,) = json.loads((pytester.path / "out.json").read_text())["tables"].values()
    grades = {entry["change"]: entry["grade"] for entry in found["mutants"]}
    assert grades["M <= 8 -> M <= 7"] == grades["M <= 8 -> M <= 9"] == "caught"
    assert set(grades.values()) == {"caught"}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    of = table("M <= 8", "", variables="M = { type = 'int', min = 0 }")
    store.save(tmp_path / ".dispatchcov", data(of, row(of, M=0), row(of, M=20)))
    assert main(["mutate"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "x::y: mutants noticed 4/6 (66.67 %)", "  of 6: noticed 4, survived 2; caught by a test that asserts 0",
        "survived: r0: M <= 8 -> M <= 7", "    add  M=8", "         r0 -> k0",
        "survived: r0: M <= 8 -> M <= 9", "    add  M=9", "         r1 -> k1 (not r0: M <= 8 is false)",
    ]  # fmt: skip
    assert main(["mutate", "--fail-under", "90"]) == 2
    capsys.readouterr()
    assert main(["mutate", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["tables"].values()
    assert [entry["grade"] for entry in found["mutants"]].count("survived") == 2

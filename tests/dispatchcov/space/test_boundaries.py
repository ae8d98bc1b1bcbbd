"""Boundaries and MC/DC: the pairs of the fp4 table, random tables against all inputs, and what a run hits of them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings

from dispatchcov import load_table, parse_table
from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.expr import Value
from dispatchcov.formula import holds, leaves
from dispatchcov.regions import Space
from dispatchcov.results import Results, TableResults
from dispatchcov.space.boundaries import Boundaries, Boundary
from dispatchcov.space.mcdc import Independence, independence
from dispatchcov.space.variants import Variant
from dispatchcov.table import Table
from tests.dispatchcov.build import data, row
from tests.dispatchcov.random_tables import decisions, tables

FP4 = load_table(Path(__file__).parents[1] / "tables" / "fp4.toml")
VARIABLES = "M = { type = 'int', min = 0 }\nK = { type = 'int', min = 0, multiple_of = 2 }\nflag = { type = 'bool' }\n"
VARIABLES += "sm = { type = 'int', values = [120, 80, 90], hardware = true }"


def table(*guards: str, variables: str = VARIABLES) -> Table:
    whens = [f'when = "{guard}"' if guard else "" for guard in guards]
    rules = "".join(f"[[rule]]\nname = 'r{i}'\nkernel = 'k{i}'\n{when}\n" for i, when in enumerate(whens))
    kernels = "".join(f"[[kernel]]\nname = 'k{i}'\n" for i in range(len(guards)))
    return parse_table(f"[table]\nop = 'x::y'\n[variables]\n{variables}\n{kernels}{rules}")


def shown(of: Table) -> list[str]:
    """Each boundary as ``rule, predicate: variable = true side | false side``."""
    found = []
    for b in Boundaries(of).all():
        text = f"{b.rule.name} {of.predicates[b.index].text}: "
        if b.true.witness and b.false.witness:
            values = b.true.witness[b.variable], b.false.witness[b.variable]
            found.append(f"{text}{b.variable} = {values[0]} | {values[1]}")
            assert {n for n in of.names if b.true.witness[n] != b.false.witness[n]} == {b.variable}
        else:
            found.append(text + b.true.state)
    return found


def test_the_nearest_inputs_on_the_two_sides() -> None:
    of = table("M <= 8 and K % 32 == 0 and sm >= 90 and flag", "K > 64 or M == 0", "")
    assert shown(of) == [
        "r0 M <= 8: M = 8 | 9",
        "r0 K % 32 == 0: K = 0 | 2",
        "r0 sm >= 90: sm = 90 | 80",
        "r0 flag: flag = True | False",
        "r1 K > 64: K = 66 | 64",
        "r1 M == 0: M = 0 | 1",
    ]


def test_pairs_of_listed_values_need_few_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A space is most of the work: not one for each pair of values, and no variant for pairs on one side."""
    made: list[Table] = []
    tried: list[Table] = []

    class Counted(Space):
        def __init__(self, table: Table, *, solving: bool = True) -> None:
            made.append(table)
            super().__init__(table, solving=solving)

    class Tried(Variant):
        def __init__(self, table: Table) -> None:
            tried.append(table)
            super().__init__(table)

    sizes = [8 * place for place in range(12)]
    whens = [f"N == {size} and sm >= 90" for size in sizes[1:-1]]
    variables = f"N = {{ type = 'int', values = {sizes} }}\nsm = {{ type = 'int', values = [80, 90], hardware = true }}"
    of = table(*whens, "", variables=variables)
    monkeypatch.setattr("dispatchcov.space.boundaries.Space", Counted)
    monkeypatch.setattr("dispatchcov.space.boundaries.Variant", Tried)
    pairs = list(Boundaries(of).all())
    assert [pair.true.state for pair in pairs] == ["feasible"] * 20
    assert len(made) == 2  # that of the table, and one with sm == 90
    assert len(tried) <= 3 * 10  # a size and the two next to it, sm at 90 and 80


def test_a_pair_further_apart_where_another_predicate_keeps_what_is_between() -> None:
    variables = "K = { type = 'int', min = 1 }"
    assert shown(table("K % 6 == 0 and K % 2 == 0 and K > 3", variables=variables)) == [
        "r0 K % 6 == 0: K = 6 | 4",
        "r0 K % 2 == 0: unreachable",
        "r0 K > 3: unreachable",
    ]


def test_two_variables_move_one_of_them() -> None:
    variables = "N = { type = 'int', min = 1 }\ntile = { type = 'int', values = [16, 32] }"
    assert shown(table("N % tile == 0", variables=variables)) == ["r0 N % tile == 0: N = 16 | 15"]


def at(of: Table, boundary: Boundary, facts: dict[str, Value]) -> bool | None:
    """The side on which predicate and rule say ``facts`` are, if the predicate decides the guard there."""
    vector = View.of(of, DEFAULT_MACHINE).vector(tuple(facts.values()))
    guard = boundary.rule.guard
    if len(path(of, vector)[1]) < boundary.rule.index or holds(guard, vector) == holds(
        guard, vector ^ 1 << boundary.index
    ):
        return None
    return bool(vector >> boundary.index & 1)


@settings(max_examples=15, deadline=None)
@given(tables())
def test_pairs_agree_with_trying_all_inputs(of: Table) -> None:
    note(of.text)
    finder = Boundaries(of)
    inputs = [facts for facts, _ in decisions(of)]
    for boundary in finder.all():
        sides = [at(of, boundary, facts) for facts in inputs]
        if boundary.true.state == "unreachable":
            assert not {True, False} <= set(sides)
        elif boundary.true.witness is not None and boundary.false.witness is not None:
            assert finder.at(boundary, boundary.true.witness) is True
            assert finder.at(boundary, boundary.false.witness) is False
            assert at(of, boundary, boundary.true.witness) is True
            assert at(of, boundary, boundary.false.witness) is False


def pairs(of: Table, each: Independence) -> tuple[bool, bool]:
    """Are there a unique-cause and a masking pair among all inputs?"""
    guard, bit = each.rule.guard, each.bit
    mask = sum(1 << i for i in leaves(guard))
    vectors = {v for _, v in decisions(of) if len(path(of, v)[1]) >= each.rule.index}
    deciding = {v & mask for v in vectors if holds(guard, v) != holds(guard, v ^ bit)}
    unique = any(v ^ bit in deciding for v in deciding)
    return unique, any(v & bit for v in deciding) and any(not v & bit for v in deciding)


@settings(max_examples=25, deadline=None)
@given(tables())
def test_mcdc_agrees_with_trying_all_inputs(of: Table) -> None:
    note(of.text)
    for each in independence(of):
        unique, masking = pairs(of, each)
        assert each.method == ("unique-cause" if unique else "masking" if masking else "")


def test_mcdc_of_coupled_predicates_needs_masking() -> None:
    of = table("M <= 8 and K > 4 or M > 8 and K > 8", "")
    assert {of.predicates[e.index].text: e.method for e in independence(of)} == {
        "M <= 8": "masking", "K > 4": "unique-cause", "M > 8": "", "K > 8": "unique-cause",
    }  # fmt: skip


def measured(of: Table, *given: dict[str, Any]) -> TableResults:
    rows = [row(of, test=f"t.py::test_{i}", **facts) for i, facts in enumerate(given)]
    return Results.of(data(of, *rows)).tables[0]


def test_a_run_hits_the_sides_it_was_next_to() -> None:
    of = table("M <= 8 and K % 32 == 0", "", variables="M = { type = 'int', min = 0 }\nK = { type = 'int', min = 0 }")
    results = measured(of, {"M": 8, "K": 32}, {"M": 12, "K": 64}, {"M": 3, "K": 33}, {"M": 9, "K": 33})
    assert {item.detail: item.state for item in results.boundaries} == {
        "M <= 8: true at M = 8": "hit",
        "M <= 8: false at M = 9": "missed",
        "K % 32 == 0: true at K = 0": "hit",
        "K % 32 == 0: false at K = 1": "hit",
    }
    assert results.boundaries[0].reach.tests == ("t.py::test_0",)
    assert results.boundaries[1].witness == {"M": 9, "K": 0}
    assert (results.totals["boundaries"].covered, results.totals["boundaries"].total) == (3, 4)


def test_mcdc_needs_both_inputs_of_a_pair() -> None:
    of = table("M <= 8 and flag", "", variables="M = { type = 'int', min = 0 }\nflag = { type = 'bool' }")
    alone = measured(of, {"M": 12, "flag": True})
    assert [item.state for item in alone.mcdc] == ["missed", "missed"]
    assert (alone.mcdc[0].witness, alone.mcdc[0].also) == ({"M": 0, "flag": True}, ())
    assert (alone.mcdc[1].witness, alone.mcdc[1].also) == ({"M": 0, "flag": True}, ({"M": 0, "flag": False},))
    both = measured(of, {"M": 12, "flag": True}, {"M": 1, "flag": True}, {"M": 12, "flag": False})
    assert [item.state for item in both.mcdc] == ["hit", "missed"]
    assert both.mcdc[0].reach.tests == ("t.py::test_0", "t.py::test_1")


def test_what_cannot_be_shown_does_not_count() -> None:
    of = table("M <= 8 and sm < 200", "")
    results = measured(of, *({"M": m, "K": 0, "flag": True, "sm": 80} for m in (8, 9)))
    assert [item.state for item in results.mcdc] == ["hit", "unreachable"]
    assert [item.state for item in results.boundaries] == ["hit", "hit", "unreachable", "unreachable"]


def test_every_predicate_of_the_fp4_table_has_its_pairs() -> None:
    found = dict(zip(shown(FP4), itertools.repeat(None)))
    assert "decode-gemv M <= 8: M = 8 | 9" in found
    assert "decode-gemv K % 32 == 0: K = 32 | 30" in found
    assert "decode-gemv block_size == 16: block_size = 16 | 15" in found
    assert [text for text in found if text.endswith("unknown")] == []
    assert {e.method for e in independence(FP4)} <= {"unique-cause", "masking", ""}

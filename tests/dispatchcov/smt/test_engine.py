"""z3 as a second engine: it agrees with the exact one and with trying every input, and decides what that one cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dispatchcov import expr as ex
from dispatchcov import load_table, parse_table
from dispatchcov.check.faults import check
from dispatchcov.decide import path
from dispatchcov.formula import ALWAYS, Leaf, Opposite, leaves
from dispatchcov.regions import Space
from dispatchcov.smt import engine as smt
from dispatchcov.smt import solver as smt_solver
from dispatchcov.smt.space import SmtSpace
from dispatchcov.smt.terms import Terms, bounds
from dispatchcov.space import cases, realise
from dispatchcov.table import Table, Variable
from tests.dispatchcov.random_tables import decisions, tables, tried
from tests.dispatchcov.space.test_cases import table as of_guards
from tests.dispatchcov.test_regions import answers, groups

pytestmark = pytest.mark.skipif(not realise.available(), reason="needs z3")
SLOW = settings(max_examples=12, deadline=None)
FP4 = Path(__file__).parents[3] / "fp4ops" / "dispatch.toml"


@SLOW
@given(st.one_of(tables(), tables(shared=True)))
def test_regions_and_answers_of_both_engines(of: Table) -> None:
    note(of.text)
    exact, other = Space(of), SmtSpace(of)
    assert other.paths() == {(region.rule, region.settled) for region in exact.regions}
    condition = of.partitions[0].condition
    for rule in of.rules:
        assert other.answer([rule.index], condition) == exact.answer([rule.index], condition)
    assert other.reaching(len(of.rules)) == exact.reaching(len(of.rules))
    first = of.rules[0]
    for index in leaves(first.guard):
        assert other.sole(0, index).witness == exact.sole(0, index).witness


@SLOW
@given(tables(shared=True))
def test_findings_of_both_engines(of: Table) -> None:
    note(of.text)
    assert check(of) == check(of, SmtSpace)


@SLOW
@given(tables(shared=True))
def test_boxes_that_no_case_split_tells_are_solved(of: Table) -> None:
    note(of.text)
    condition = of.partitions[0].condition
    expected = tried(of, lambda outcomes: groups(of, condition, outcomes))
    with mock.patch.object(cases, "MAX_CASES", 0):
        space = Space(of)
        assert space.notes == ()
        assert {("region", r.rule, r.settled) for r in space.regions} == {g for g in expected if g[0] == "region"}
        for question, answer in answers(space, condition):
            best = expected.get(question)
            assert answer.witness == (best.witness if best else None), question


NUMBERS = st.recursive(
    st.one_of(st.sampled_from("ab").map(ex.Var), st.integers(-4, 4).map(ex.Const)),
    lambda inner: st.one_of(
        st.builds(ex.Bin, st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner),
        st.builds(ex.Call, st.sampled_from(["min", "max", "ceildiv"]), st.tuples(inner, inner)),
        st.builds(ex.Neg, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(NUMBERS, st.integers(-9, 9), st.integers(-9, 9))
@pytest.mark.parametrize("wide", [False, True])
def test_arithmetic_means_what_it_means_in_python(wide: bool, tree: ex.Expr, a: int, b: int) -> None:
    width = bounds(tree, {"a": (-9, 9), "b": (-9, 9)})[1].bit_length() + 2 if wide else None
    terms = Terms((Variable("a", "int"), Variable("b", "int")), max(width, 6) if width else None)
    value, undefined = terms.term(tree)
    fixed = [(terms.symbol("a"), terms.number(a)), (terms.symbol("b"), terms.number(b))]
    z3: Any = terms.z3
    try:
        expected = ex.evaluate(tree, {"a": a, "b": b})
    except ZeroDivisionError:
        assert z3.is_true(z3.simplify(z3.substitute(undefined, *fixed)))
        return
    assert z3.is_false(z3.simplify(z3.substitute(undefined, *fixed)))
    got = z3.simplify(z3.substitute(value, *fixed))
    assert (got.as_signed_long() if wide else got.as_long()) == expected


OPEN = "N = { type = 'int', min = 1 }\nK = { type = 'int', min = 1 }"
BOUNDED = OPEN.replace("min = 1", "min = 1, max = 1048576")


@pytest.mark.parametrize(
    ("variables", "guard", "witness"),
    [
        (OPEN, "N < K and K < N", None),
        (OPEN, "N % 3 == 1 and N + K == 30 and N > K", {"N": 16, "K": 14}),
        (OPEN, "N * K == 35 and N > 5", {"N": 7, "K": 5}),
        (BOUNDED, "N * K >= 4294967296 and N == 3 * K", {"N": 113514, "K": 37838}),
        (BOUNDED, "N % K == 7 and N // K == 3 and K > 100", {"N": 310, "K": 101}),
        (OPEN, "ceildiv(N, K) > 4 and N <= 4 * K", None),
    ],
)
def test_what_the_exact_engine_cannot_tell(variables: str, guard: str, witness: dict[str, int] | None) -> None:
    of = of_guards(variables, guard, "")
    answer = Space(of).answer([0])
    assert answer.state == ("feasible" if witness else "unreachable")
    assert (answer.witness, answer.reason) == (witness, "")
    if answer.witness:
        assert path(of, next(iter(decisions(of, [tuple(answer.witness.values())])))[1])[0] == 0


def test_past_the_limit_of_effort_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt_solver, "EFFORT", 1)
    answer = Space(of_guards(OPEN, "N < K and K < N", "")).answer([0])
    assert answer.state == "unknown"
    assert answer.reason


def test_past_the_effort_for_the_table_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smt, "MOST_UNKNOWN", 0)
    answer = Space(of_guards(OPEN, "N < K and K < N", "")).answer([0])
    assert answer.state == "unknown"


def test_a_case_with_a_product_is_proved_and_its_repair_too() -> None:
    file = Path(__file__).parents[1] / "cases" / "bias-offset-wrap.toml"
    (found,) = check(load_table(file))
    assert found.input == {"queries": 65537, "stride": 65536}
    assert "smaller" not in found.message
    guard = '"stride % 8 == 0 and queries * stride - stride <= 4294967295"'
    assert check(parse_table(file.read_text().replace('"stride % 8 == 0"', guard))) == ()


def test_products_of_bounded_variables_are_bit_vectors() -> None:
    tree = ex.parse("(N - 1) * K < 4294967296")
    assert not ex.linear(tree)
    assert ex.linear(ex.parse("3 * N + K // 2 < min(N, K)"))
    assert bounds(tree, {"N": (1, 1 << 20), "K": (1, 1 << 20)})[1] == max((1 << 20) * ((1 << 20) - 1), 1 << 32)


def test_z3_is_imported_only_when_a_table_needs_it(tmp_path: Path) -> None:
    (tmp_path / "needs.toml").write_text(of_guards(OPEN, "N < K", "").text)
    code = "import sys; from dispatchcov.cli import main; main(['check', sys.argv[1]]); print('z3' in sys.modules)"
    for file, needed in ((FP4, "False"), (tmp_path / "needs.toml", "True")):
        done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == needed


def test_without_z3_the_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatchcov.space.realise.available", lambda: False)
    of = of_guards(OPEN, "N < K and K < N", "")
    assert Space(of).answer([0]).state == "unknown"
    assert [finding.kind for finding in check(of)] == ["unknown"]
    assert Space(of).answer([0], Opposite(Leaf(0))).state == "unreachable"
    assert Space(of).answer([1], ALWAYS).witness == {"N": 1, "K": 1}

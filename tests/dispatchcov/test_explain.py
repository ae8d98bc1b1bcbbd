from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from dispatchcov.decide import explain, select
from dispatchcov.errors import FactsError
from dispatchcov.expr import Expr, Facts, Value
from dispatchcov.formula import holds, leaves, settle
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.table import Rule, Table
from tests.dispatchcov.expressions import FACTS, tables
from tests.dispatchcov.small_table import changed
from tests.dispatchcov.test_generate import interpreted

FP4 = load_table(Path(__file__).parent / "tables" / "fp4.toml")


def test_a_decision_of_the_fp4_table() -> None:
    text = FP4.explain(M=16, N=64, K=4080, block_size=6, dtype="float16", bias=True, sm=120, native=True)
    assert (
        text
        == """\
fp4ops::matmul_nvfp4  M=16 N=64 K=4080 block_size=6 dtype=float16 bias=true sm=120 native=true
  empty: no, M == 0 is false, N == 0 is false
    false  M == 0  M=16
    false  N == 0  N=64
  zero-k: no, K == 0 is false
    false  K == 0  K=4080
  decode-mma: no, M <= 8 is false
    false  M <= 8            M=16
    false  block_size == 16  block_size=6
    false  K % 128 == 0      K=4080, K % 128 = 112
    true   sm >= 80          sm=120
  decode-gemv: no, M <= 8 is false
    false  M <= 8            M=16
    false  block_size == 16  block_size=6
    false  K % 32 == 0       K=4080, K % 32 = 16
  native-sm120: no, block_size == 16 is false
    true   native            native=true
    true   120 <= sm         sm=120
    true   sm < 130          sm=120
    false  block_size == 16  block_size=6
    false  K % 32 == 0       K=4080, K % 32 = 16
    true   N % 32 == 0       N=64, N % 32 = 0
  prefill-vec8: selected, kernel DequantizeNvFp4Vec8Kernel
    true   K % 8 == 0           K=4080, K % 8 = 0
    true   block_size % 2 == 0  block_size=6, block_size % 2 = 0
    split false  block_size % 8 == 0  block_size=6, block_size % 8 = 6
    split true   N <= 65535           N=64
  not asked: prefill-scalar"""
    )


def test_the_last_rule_asks_nothing() -> None:
    text = FP4.explain(M=16, N=64, K=12, block_size=16, dtype="float16", bias=True, sm=90, native=False)
    assert text.endswith(
        "  prefill-vec8: no, K % 8 == 0 is false\n"
        "    false  K % 8 == 0           K=12, K % 8 = 4\n"
        "    true   block_size % 2 == 0  block_size=16, block_size % 2 = 0\n"
        "  prefill-scalar: selected, kernel DequantizeNvFp4Kernel"
    )


def test_facts_that_do_not_fit() -> None:
    with pytest.raises(FactsError, match=r"expected K to be an integer >= 0, a multiple of 2, got 7"):
        FP4.explain(M=16, N=64, K=7, block_size=16, dtype="float16", bias=True, sm=90, native=False)


def guarded(guard: str, last: str = "") -> Table:
    last_rule = 'name = "plain"\nkernel = "Plain"'
    return parse_table(changed(("N % 4 == 0 and rows > 32", guard), (last_rule, last_rule + last)))


def test_no_rule() -> None:
    text = guarded("N > 3", '\nwhen = "sm == 90"').explain(N=2, sm=80, dtype="float16", bias=False)
    assert text == (
        "demo::scale  N=2 sm=80 dtype=float16 bias=false\n"
        "  vec4: no, N > 3 is false\n    false  N > 3  N=2\n"
        "  plain: no, sm == 90 is false\n    false  sm == 90  sm=80\n"
        "  no rule takes this input"
    )


@pytest.mark.parametrize(("guard", "why"), [
    ("N > 3 and bias", "N > 3 is false"),
    ("not (N == 2 and not bias)", "N == 2 is true, bias is false"),
    ("(N > 3 or bias) and sm == 90", "N > 3 is false, bias is false"),
    ("(N < 3 or bias) and sm == 90", "sm == 90 is false"),
    ("N > 9 and sm % (N - 2) == 0 or bias", "N > 9 is false, bias is false"),
])  # fmt: skip
def test_all_that_was_read_and_made_the_guard_false_is_named(guard: str, why: str) -> None:
    text = guarded(guard).explain(N=2, sm=80, dtype="float16", bias=False)
    assert text.splitlines()[1] == f"  vec4: no, {why}"


def test_negations_derived_values_and_both_sides() -> None:
    text = guarded("not (rows * 2 <= 2 * sm) and N % 3 in [1, 2] and bias").explain(
        N=100, sm=80, dtype="float16", bias=False
    )
    assert text == (
        "demo::scale  N=100 sm=80 dtype=float16 bias=false\n"
        "  vec4: no, bias is false\n"
        "    false  rows * 2 <= 2 * sm  N=100 sm=80, max(32, N) * 2 = 200, 2 * sm = 160\n"
        "    true   N % 3 in [1, 2]     N=100, N % 3 = 1\n"
        "    false  bias                bias=false\n"
        "  plain: selected, kernel Plain"
    )


def test_a_guard_that_divides_by_zero_ends_the_decision() -> None:
    facts: dict[str, Value] = {"N": 0, "sm": 80, "dtype": "float16", "bias": True}
    table = guarded("bias and sm % N == 0")
    assert table.explain(**facts) == (
        "demo::scale  N=0 sm=80 dtype=float16 bias=true\n"
        "  vec4: no decision, sm % N == 0 divides by zero: ZeroDivisionError\n"
        "    true       bias         bias=true\n"
        "    undefined  sm % N == 0  N=0 sm=80, sm % N divides by zero"
    )
    with pytest.raises(ZeroDivisionError):
        table.decide(**facts)


def test_a_predicate_that_is_not_read_may_divide_by_zero() -> None:
    text = guarded("N != 0 and sm % N == 0").explain(N=0, sm=80, dtype="float16", bias=True)
    assert text.endswith(
        "  vec4: no, N != 0 is false\n"
        "    false      N != 0       N=0\n"
        "    undefined  sm % N == 0  N=0 sm=80, sm % N divides by zero\n"
        "  plain: selected, kernel Plain"
    )


def test_strings_in_quotes_where_needed() -> None:
    table = parse_table(changed(('"float32"', '"a\\nb"')))
    assert table.explain(N=1, sm=80, dtype="a\nb", bias=True).startswith(
        r"demo::scale  N=1 sm=80 dtype='a\nb' bias=true"
    )


def named(table: Table, rule: Rule, vector: int, why: str) -> list[int]:
    """The predicates that ``why`` names, in guard order, each with the outcome that it has in ``vector``."""
    words = {i: f"{table.predicates[i].text} is {'true' if vector >> i & 1 else 'false'}" for i in leaves(rule.guard)}
    chosen = [i for i in words if f", {words[i]}," in f", {why},"]
    assert ", ".join(words[i] for i in chosen) == why
    return chosen


@settings(max_examples=80, deadline=None)
@given(tables(), FACTS)
def test_explain_says_what_decide_does(made: tuple[Table, list[Expr]], facts: Facts) -> None:
    table, guards = made
    facts = {**facts, "N": int(facts["N"]) // 2 * 2 if int(facts["N"]) > -4 else 0}
    wanted = interpreted(table, guards, facts)
    lines = explain(table, facts).split("\n")
    verdicts = [line for line in lines if line.startswith("  ") and not line.startswith("    ")]
    selected = [line for line in verdicts if ": selected, kernel k" in line]
    if wanted == "ZeroDivisionError":
        assert verdicts[-1].endswith("divides by zero: ZeroDivisionError")
    elif wanted == "FactsError":
        assert verdicts[-1] == "  no rule takes this input"
    else:
        assert selected == [f"  {wanted}: selected, kernel k"]
        vector = table.on("cpu").vector(tuple(facts[name] for name in table.names))
        index = select(table, vector)
        for rule, line in zip(table.rules[:index], verdicts, strict=False):
            said = named(table, rule, vector, line.removeprefix(f"  {rule.name}: no, "))
            assert settle(rule.guard, vector)[1] in said  # last, unless the guard reads it twice
            others = sum(1 << i for i in leaves(rule.guard) if i not in said)
            for free in (0, others, ~vector & others):  # what is named settles it, whatever the others are
                assert not holds(rule.guard, vector & ~others | free)
    assert (wanted in {f"r{i}" for i in range(len(guards))} | {"rest"}) == bool(selected)

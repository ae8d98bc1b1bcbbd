from __future__ import annotations

from collections.abc import Collection

import pytest

from dispatchcov.assertions import DispatchTrace
from dispatchcov.decide import Decision
from dispatchcov.errors import UsageError
from dispatchcov.load import parse_table
from dispatchcov.recorder import Recorder
from tests.dispatchcov.build import SMALL

TABLE = parse_table(SMALL, source="small.toml")


def trace(*inputs: tuple[int, bool], evidence: Collection[str] = ("selected",)) -> DispatchTrace:
    with Recorder(None):
        decisions: list[Decision] = [TABLE.decide(N=n, aligned=aligned, dtype="float16") for n, aligned in inputs]
    return DispatchTrace(decisions, lambda decision: evidence, lambda: [TABLE])


def message(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value)


def test_reached() -> None:
    seen = trace((3, True), (4, True))
    seen.assert_reached("ragged")
    seen.assert_reached("vec4", kernel="Scale*4")
    seen.assert_reached("scalar")
    seen.assert_kernel("ScaleVec?")
    assert seen.kernels == ("Scale", "ScaleVec4")
    assert [decision.rule for decision in seen.decisions] == ["scalar", "vec4"]


def test_not_reached_says_which_predicate_with_which_values() -> None:
    with pytest.raises(AssertionError) as error:
        trace((6, True)).assert_reached("vec4")
    assert message(error) == (
        "expected partition 'vec4' of demo::scale to be reached\n"
        "1 decision in this test:\n"
        "  selected scalar -> Scale for N=6 aligned=true dtype=float16\n"
        "    not vec4: N % 4 == 0 is false (N=6)"
    )


def test_not_reached_because_an_earlier_rule_took_it() -> None:
    with pytest.raises(
        AssertionError, match=r"vec4 comes before scalar and its guard held: N % 4 == 0 is true \(N=4\), aligned"
    ):
        trace((4, True)).assert_reached("ragged")


def test_not_reached_because_of_where() -> None:
    with pytest.raises(AssertionError, match=r"in scalar, but N % 4 != 0 is false \(N=8\)"):
        trace((8, False)).assert_reached("ragged")


def test_no_decision_at_all() -> None:
    with pytest.raises(AssertionError, match="no decision was recorded in this test"):
        trace().assert_reached("vec4")


def test_many_inputs_are_cut() -> None:
    with pytest.raises(AssertionError, match=r"8 decisions in this test:(\n.*)+\n  \.\.\. and 3 other inputs"):
        trace(*[(4 * n + 1, True) for n in range(8)]).assert_reached("vec4")


def test_a_kernel_other_than_expected() -> None:
    with pytest.raises(AssertionError, match=r"expected a kernel like 'Scale' in partition 'vec4', got ScaleVec4"):
        trace((4, True)).assert_reached("vec4", kernel="Scale")
    with pytest.raises(AssertionError, match=r"expected a kernel like 'Scale'\n1 decision"):
        trace((4, True)).assert_kernel("Scale")
    for check in (trace((4, True)).assert_kernel, lambda name: trace((4, True)).assert_reached("vec4", kernel=name)):
        with pytest.raises(UsageError, match=r"no kernel is like 'Vec\*'; known: Scale, ScaleVec4"):
            check("Vec*")


def test_evidence() -> None:
    trace((4, True), evidence={"selected", "launched"}).assert_reached("vec4", evidence="launched")
    with pytest.raises(
        AssertionError, match="was reached, expected evidence launched, checked; got selected, launched for"
    ):
        trace((4, True), evidence={"selected", "launched"}).assert_reached("vec4", evidence=("checked", "launched"))
    with pytest.raises(UsageError, match="unknown evidence 'launch'; did you mean 'launched'"):
        trace((4, True)).assert_reached("vec4", evidence="launch")


def test_fallback() -> None:
    trace((6, True)).assert_fallback("vec4")
    trace((6, True)).assert_fallback("vec4", because="N % 4 == 0")
    trace((6, True)).assert_fallback("vec4", because=" N%4==0")
    with pytest.raises(AssertionError) as error:
        trace((6, False)).assert_fallback("vec4", because="aligned")
    assert message(error) == (
        "expected a fallback from rule 'vec4' because of 'aligned' alone\n"
        "  fell back from vec4: N % 4 == 0 is false, aligned is false (N=6 aligned=false)"
    )
    with pytest.raises(AssertionError, match="expected a fallback from rule 'vec4'\n1 decision"):
        trace((4, True)).assert_fallback("vec4")


def test_not_reached_asserted() -> None:
    trace((6, True)).assert_not_reached("vec4")
    with pytest.raises(
        AssertionError, match="expected partition 'vec4' not to be reached\n  selected vec4 -> ScaleVec4 for N=4"
    ):
        trace((4, True)).assert_not_reached("vec4")


@pytest.mark.parametrize("name", ["vec", "assert_nothing"])
def test_unknown_names_are_errors_not_passes(name: str) -> None:
    seen = trace((4, True))
    for check in (seen.assert_reached, seen.assert_not_reached):
        with pytest.raises(UsageError, match=r"unknown partition .*known: vec4, ragged, scalar"):
            check(name)
    with pytest.raises(UsageError, match=r"unknown rule .*known: vec4, scalar"):
        seen.assert_fallback(name)
    with pytest.raises(UsageError, match=r"unknown predicate 'N' of rule 'vec4'; known: N % 4 == 0, aligned"):
        seen.assert_fallback("vec4", because="N")

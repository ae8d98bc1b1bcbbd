from __future__ import annotations

from collections.abc import Collection

import pytest

from dispatchcov.decide import Decision
from dispatchcov.errors import UsageError
from dispatchcov.loading.load import parse_table
from dispatchcov.plugin.assertions import DispatchTrace
from dispatchcov.recorder import Recorder
from dispatchcov.recording import record
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


def ran(*inputs: tuple[int, str]) -> DispatchTrace:
    """Decisions of other code: ``N``, which is aligned, and the kernel that it says it ran."""
    with Recorder(None):
        decisions = [record(TABLE, {"N": n, "aligned": True, "dtype": "float16"}, kernel=k) for n, k in inputs]
    return DispatchTrace([d for d in decisions if d is not None], lambda decision: ["selected"], lambda: [TABLE])


@pytest.mark.parametrize("name", ["vec4", "scalar"])
def test_another_kernel_than_the_tables_is_no_hit(name: str) -> None:
    n, kernel, other = (4, "ScaleVec4", "Scale") if name == "vec4" else (3, "Scale", "Elsewhere")
    ran((n, other), (n, kernel)).assert_reached(name, kernel=kernel)
    with pytest.raises(AssertionError) as error:
        ran((n, other)).assert_reached(name)
    assert message(error) == (
        f"expected partition {name!r} of demo::scale to be reached\n"
        "1 decision in this test:\n"
        f"  selected {name} -> {kernel} for N={n} aligned=true dtype=float16\n"
        f"    not counted: kernel {other} ran, the table selects {kernel}"
    )
    with pytest.raises(AssertionError, match=rf"not counted: kernel {other} ran, the table selects {kernel}"):
        ran((n, other)).assert_kernel(kernel)
    with pytest.raises(AssertionError, match=rf"expected partition '{name}' not to be reached"):
        ran((n, other)).assert_not_reached(name)


def test_another_kernel_than_the_tables_is_no_fallback() -> None:
    ran((3, "Scale")).assert_fallback("vec4", because="N % 4 == 0")
    with pytest.raises(AssertionError, match=r"expected a fallback from rule 'vec4'\n(.*\n)+.*kernel Elsewhere ran"):
        ran((3, "Elsewhere")).assert_fallback("vec4")


def test_facts_outside_the_declared_domain_are_no_hit() -> None:
    for seen in (ran((-4, "ScaleVec4")), trace((-4, True))):
        with pytest.raises(AssertionError) as error:
            seen.assert_reached("vec4")
        assert message(error).endswith(
            "  selected vec4 -> ScaleVec4 for N=-4 aligned=true dtype=float16\n"
            "    not counted: outside the declared domain: expected N to be an integer >= 0, got N=-4"
        )
    with pytest.raises(AssertionError, match="outside the declared domain: expected N to be"):
        trace((-3, True)).assert_fallback("vec4")


def test_a_kernel_in_the_place_of_a_partition_or_rule() -> None:
    seen = trace((4, True))
    hint = "it is a kernel, selected by scalar; a kernel is asked for with kernel='Scale' or assert_kernel"
    for check in (seen.assert_reached, seen.assert_not_reached):
        with pytest.raises(UsageError, match=f"^unknown partition 'Scale'; {hint}$"):
            check("Scale")
    with pytest.raises(UsageError, match=f"^unknown rule 'Scale'; {hint}$"):
        seen.assert_fallback("Scale")


def test_a_rule_without_a_guard_is_never_passed_over() -> None:
    for because in (None, "aligned"):
        with pytest.raises(UsageError, match="rule 'scalar' has no guard: it takes all that comes to it"):
            trace((4, True)).assert_fallback("scalar", because=because)

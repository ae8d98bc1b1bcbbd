"""Functions that choose by themselves: what a decorated call records, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dispatchcov
from dispatchcov import store
from dispatchcov.errors import FactsError, UndefinedError, UsageError
from dispatchcov.foreign import traced
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import LAUNCHED, OBSERVED, SELECTED, Recorder
from dispatchcov.recording import record
from dispatchcov.results import Results
from tests.dispatchcov.build import parsed
from tests.dispatchcov.fake_observer import FakeObserver

TABLE = parsed(vec4='symbol = "ScaleVec4<{dtype}"', scalar='symbol = "Scale<{dtype}"')


def facts(values: list[float], aligned: bool = True) -> Mapping[str, object]:
    return {"N": len(values), "aligned": aligned, "dtype": "float16"}


@traced(TABLE, facts=facts, kernel=lambda result: str(result[1]))
def scale(values: list[float], aligned: bool = True) -> tuple[list[float], str]:
    """Doubles, and says how."""
    return [2 * value for value in values], "ScaleVec4" if len(values) % 4 == 0 and aligned else "Scale"


def counts(recorder: Recorder) -> dict[tuple[str, str], tuple[int, ...]]:
    """Selected, launched and observed by the table's rule and the kernel that ran."""
    return {
        (cell.rule, cell.ran): tuple(recorder.counts[cell.slot + n] for n in (SELECTED, LAUNCHED, OBSERVED))
        for cell in recorder.context.cells
    }


def test_a_call_is_a_decision_that_was_taken_and_launched() -> None:
    with Recorder(None) as recorder:
        assert scale([1.0] * 4) == ([2.0] * 4, "ScaleVec4")
        scale([1.0] * 3)
        scale([1.0] * 3, aligned=False)
        assert counts(recorder) == {("vec4", "ScaleVec4"): (1, 1, 0), ("scalar", "Scale"): (1, 1, 0)} | {
            ("scalar", "Scale"): (1, 1, 0)
        }
        assert len(recorder.context.cells) == 3


def test_the_function_stays_what_it_was() -> None:
    assert (scale.__name__, scale.__doc__) == ("scale", "Doubles, and says how.")
    assert scale([1.0]) == ([2.0], "Scale")


def test_with_no_recorder_on_not_even_the_facts_are_asked() -> None:
    @traced(TABLE, facts=lambda: pytest.fail("asked"), kernel=lambda _: pytest.fail("asked"))
    def function() -> int:
        return 3

    assert function() == 3


def test_the_facts_are_those_before_the_call() -> None:
    @traced(TABLE, facts=facts, kernel="ScaleVec4")
    def shrinks(values: list[float]) -> None:
        values.pop()

    with Recorder(None) as recorder:
        shrinks([1.0] * 4)
        assert counts(recorder) == {("vec4", "ScaleVec4"): (1, 1, 0)}


def test_another_kernel_than_the_tables_is_recorded_as_such() -> None:
    @traced(TABLE, facts=facts, kernel="Scale")
    def always_scalar(values: list[float]) -> None: ...

    with Recorder(None) as recorder:
        always_scalar([1.0] * 4)
        assert counts(recorder) == {("vec4", "Scale"): (1, 1, 0)}


@traced(TABLE, facts=facts)
def says_inside(values: list[float]) -> None:
    if len(values) % 4 == 0:
        record(TABLE, kernel="ScaleVec4")
    elif values:
        record(TABLE, {"N": 1, "aligned": False, "dtype": "float32"}, kernel="Scale")


def test_what_ran_may_be_said_inside_with_the_facts_of_the_call_or_others() -> None:
    with Recorder(None) as recorder:
        says_inside([1.0] * 4)
        says_inside([1.0])
        (first, second) = recorder.context.cells
        assert (first.ran, first.first) == ("ScaleVec4", (4, True, "float16"))
        assert (second.ran, second.first) == ("Scale", (1, False, "float32"))


def test_a_function_that_says_nothing_is_an_error_not_silence() -> None:
    @traced(TABLE, facts=facts)
    def silent(values: list[float]) -> None: ...

    with Recorder(None), pytest.raises(UsageError, match=r"expected .*silent to say which kernel ran"):
        silent([1.0])
    silent([1.0])


def test_outside_a_traced_call_of_this_table_record_needs_facts() -> None:
    other = parsed()

    @traced(other, facts=facts, kernel="Scale")
    def function(values: list[float]) -> None:
        record(TABLE, kernel="Scale")

    with Recorder(None):
        with pytest.raises(FactsError, match="expected facts, or a call of a function that is traced"):
            record(TABLE, kernel="Scale")
        with pytest.raises(FactsError, match="expected facts, or a call of a function that is traced"):
            function([1.0])
    assert record(TABLE, kernel="Scale") is None


def test_a_call_that_raises_has_said_nothing() -> None:
    @traced(TABLE, facts=facts, kernel="Scale")
    def fails(values: list[float]) -> None:
        raise KeyError("x")

    with Recorder(None) as recorder:
        with pytest.raises(KeyError):
            fails([1.0])
        assert recorder.context.cells == []
        with pytest.raises(FactsError, match="is traced for this table"):
            record(TABLE, kernel="Scale")


def test_the_machine_is_that_of_the_decorator() -> None:
    @traced(TABLE, facts=facts, machine="NVIDIA H200")
    def function(values: list[float]) -> None:
        record(TABLE, kernel="Scale")

    with Recorder(None) as recorder:
        function([1.0])
        assert [cell.view.machine for cell in recorder.context.cells] == ["NVIDIA H200"]


async def coroutine(values: list[float]) -> None: ...
def generator(values: list[float]) -> Any:
    yield


@pytest.mark.parametrize(
    ("function", "got"), [(coroutine, "a coroutine function"), (generator, "a generator function")]
)
def test_what_has_not_run_when_it_returns_is_refused(function: Any, got: str) -> None:
    for decorator in (traced(TABLE, facts=facts, kernel="Scale"), dispatchcov.observe(TABLE, facts=facts)):
        with pytest.raises(UsageError, match=f"has run when it returns, got {got}"):
            decorator(function)


@pytest.mark.parametrize(
    ("symbols", "expected"),
    [
        (("void ScaleVec4<__half>(int)",), {("vec4", "ScaleVec4"): (1, 1, 1)}),
        (("void Scale<__half>(int)",), {("vec4", "ScaleVec4"): (1, 1, 0), ("vec4", "Scale"): (0, 0, 1)}),
        ((), {("vec4", "ScaleVec4"): (1, 1, 0)}),
    ],
)
def test_under_a_profiler_what_it_says_is_attested_or_contradicted(
    symbols: tuple[str, ...], expected: dict[tuple[str, str], tuple[int, ...]]
) -> None:
    from dispatchcov.observers.evidence import Observed, profiled

    with Recorder(None) as recorder:
        with profiled(FakeObserver(symbols), recorder, Observed()):
            scale([1.0] * 4)
        assert counts(recorder) == expected


UNDEFINED = """
[table]
op = "o::o"
[variables]
M = { type = "int" }
a = { type = "int" }
[[kernel]]
name = "k0"
[[kernel]]
name = "k1"
[[rule]]
name = "r0"
when = "M % a == 0"
kernel = "k0"
[[rule]]
name = "r1"
kernel = "k1"
"""


def test_a_call_for_which_the_table_divides_by_zero_is_kept_as_a_mismatch(tmp_path: Path) -> None:
    """What decided by itself must not fail because it is recorded."""
    table = parse_table(UNDEFINED)
    traced = dispatchcov.traced(table, facts=lambda m, a: {"M": m, "a": a}, kernel="k1")(lambda m, a: m)
    with Recorder(str(tmp_path / "data"), keep=lambda _: lambda *_: []):
        dispatchcov.record(table, {"M": 4, "a": 2}, kernel="k0")
        dispatchcov.record(table, {"M": 5, "a": 0}, kernel="k0")
        assert traced(3, 0) == 3
        with pytest.raises(UndefinedError, match="M % a == 0 divides by zero"):
            table.decide(M=5, a=0)
    (measured,) = Results.of(store.load(str(tmp_path / "data")), [table]).tables
    found = [(m.kind, m.rule, m.got, m.facts) for m in measured.mismatches]
    got = "a predicate that divides by zero"
    assert found == [("untotal", "", got, {"M": 5, "a": 0}), ("untotal", "", got, {"M": 3, "a": 0})]
    assert [(rule.name, rule.reach.hits) for rule in measured.rules] == [("r0", 1), ("r1", 0)]


@pytest.mark.parametrize("given", [None, 3, [("M", 4)]])
def test_facts_that_are_no_mapping_are_refused(given: Any) -> None:
    with Recorder(None), pytest.raises(FactsError, match="o::o: expected facts by name, M, a, got"):
        dispatchcov.traced(parse_table(UNDEFINED), facts=lambda: given, kernel="k0")(lambda: 1)()

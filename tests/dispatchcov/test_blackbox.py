"""Code that is only called: the rule follows from the symbols that an observer, made up here, has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

import dispatchcov
from dispatchcov import store
from dispatchcov.errors import FactsError, UsageError
from dispatchcov.gate import judge
from dispatchcov.loading.load import parse_table
from dispatchcov.observers.evidence import Observed, profiled
from dispatchcov.recorder import LAUNCHED, OBSERVED, SELECTED, Recorder
from dispatchcov.records import Data
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, parsed
from tests.dispatchcov.fake_observer import FakeObserver

TABLE = parsed(vec4='symbol = "ScaleVec4<{dtype}"', scalar='symbol = "Scale<{dtype}"')
VEC4, SCALAR, GEMM = "void ScaleVec4<__half>(int)", "void Scale<__half>(int)", "nvjet_sm90_hsh"


def facts(n: int) -> dict[str, object]:
    return {"N": n, "aligned": True, "dtype": "float16"}


def counts(recorder: Recorder) -> dict[tuple[str, str], tuple[int, ...]]:
    return {
        (cell.rule, cell.ran): tuple(recorder.counts[cell.slot + n] for n in (SELECTED, LAUNCHED, OBSERVED))
        for cell in recorder.context.cells
    }


@pytest.mark.parametrize(
    ("n", "symbols", "rule", "ran", "rules", "unmatched", "nearest"),
    [
        (4, (VEC4, GEMM), "vec4", "ScaleVec4", ("vec4",), (GEMM,), ""),
        (3, (SCALAR,), "scalar", "Scale", ("scalar",), (), ""),
        (3, (GEMM, VEC4), "scalar", "ScaleVec4", ("vec4",), (GEMM,), "N % 4 == 0 would have to be true"),
        (4, (SCALAR, VEC4), "vec4", "ScaleVec4", ("vec4",), (), ""),
        (4, (GEMM,), "vec4", GEMM, (), (GEMM,), ""),
        (4, (), "vec4", "", (), (), ""),
    ],
)
def test_what_one_block_shows(
    n: int,
    symbols: tuple[str, ...],
    rule: str,
    ran: str,
    rules: tuple[str, ...],
    unmatched: tuple[str, ...],
    nearest: str,
) -> None:
    with Recorder(None) as recorder:
        with dispatchcov.observe(TABLE, facts=facts(n), watcher=FakeObserver(symbols)) as seen:
            pass
        (call,) = seen.calls
        assert (call.facts, call.rule, call.ran, call.rules) == (facts(n), rule, ran, rules)
        assert (call.unmatched, call.nearest, seen.unmatched) == (unmatched, nearest, unmatched)
        assert call.mismatch == (bool(ran) and ran != TABLE.rule(rule).kernel.name)
        assert [kernel for _, kernel in seen.mismatches] == [ran] * call.mismatch
        assert counts(recorder) == ({(rule, ran): (1, 1, 1)} if ran else {})


def test_several_calls_in_one_block_are_profiled_together() -> None:
    with Recorder(None) as recorder:
        with dispatchcov.observe(TABLE, watcher=FakeObserver((VEC4,), (SCALAR,))) as seen:
            with seen.call(**facts(4)):
                pass
            with seen.call(**facts(3)):
                pass
        assert [call.ran for call in seen.calls] == ["ScaleVec4", "Scale"]
        assert counts(recorder) == {("vec4", "ScaleVec4"): (1, 1, 1), ("scalar", "Scale"): (1, 1, 1)}
        assert [cell.nanoseconds for cell in recorder.context.cells] == [7, 7]


def test_a_block_without_a_call_says_that_nothing_is_counted(tmp_path: Path) -> None:
    observed = dispatchcov.observe(TABLE, watcher=FakeObserver((VEC4,), (VEC4,)))
    with Recorder(str(tmp_path / "data")) as recorder:
        recorder.enter("t.py::t", "call")
        with observed:
            pass
        with observed as seen, seen.call(**facts(4)):
            pass
    told = "a block of observe(...) in which no call was named: nothing is counted"
    notes = store.load(str(tmp_path / "data")).shards[0].notes
    assert [note for note in notes if told in note] == [f"t.py::t: {TABLE.op}: {told}"]


def test_a_block_tells_without_a_recorder_too() -> None:
    with dispatchcov.observe(TABLE, facts=lambda: facts(3), watcher=FakeObserver((VEC4,))) as seen:
        pass
    assert [call.mismatch for call in seen.calls] == [True]


def test_each_call_of_a_decorated_function_is_observed() -> None:
    asked: list[int] = []

    def told(n: int) -> dict[str, object]:
        asked.append(n)
        return facts(n)

    @dispatchcov.observe(TABLE, facts=told, watcher=FakeObserver((VEC4,)))
    def library(n: int) -> int:
        """Doubles."""
        return 2 * n

    assert (library(4), library.__doc__) == (8, "Doubles.")
    assert asked == []  # no recorder is on
    with Recorder(None) as recorder:
        assert library(4) == 8
        assert library(8) == 16
        assert counts(recorder) == {("vec4", "ScaleVec4"): (2, 2, 2)}


def test_inside_a_run_that_profiles_the_run_has_what_was_seen() -> None:
    @dispatchcov.observe(TABLE, facts=facts, watcher=FakeObserver(()))
    def library(n: int) -> None: ...

    with Recorder(None) as recorder:
        with profiled(FakeObserver((VEC4,)), recorder, whole := Observed()):
            library(4)
            with dispatchcov.observe(TABLE, facts=facts(8)) as inner:
                pass
        assert counts(recorder) == {("vec4", "ScaleVec4"): (2, 2, 2)}
        assert (len(whole.calls), inner.calls) == (2, [])


def test_without_a_gpu_the_code_runs_nothing_counts_and_the_notes_say_so(tmp_path: Path) -> None:
    data = f"{tmp_path}/records"
    box = dispatchcov.observe(TABLE, facts=facts, watcher=FakeObserver(available=False))
    with Recorder(data) as recorder:
        assert [box(lambda n: n + 1)(n) for n in (1, 2)] == [2, 3]
        with dispatchcov.observe(TABLE, facts=facts(4), watcher=FakeObserver(available=False)) as seen:
            pass
        assert counts(recorder) == {}
    note = (
        "demo::scale: calls are not observed and not counted: no CUDA device is there, and the profiler sees no "
        "kernels of a CPU"
    )
    assert seen.notes == [note]
    (shard,) = tmp_path.glob("records.*.jsonl")
    assert shard.read_bytes().count(note.encode()) == 2  # once for each of the two, not for each call
    verdict = judge(Results.of(store.load(data), [TABLE]))
    assert note in verdict.notes
    assert "demo::scale: no decision was recorded" in verdict.failures


def test_kernels_that_no_pattern_matches_are_listed_in_the_notes_of_the_run(tmp_path: Path) -> None:
    data = f"{tmp_path}/records"
    with Recorder(data) as recorder:
        recorder.enter("t.py::test", "call")
        with dispatchcov.observe(TABLE, watcher=FakeObserver((VEC4, GEMM), (), outside=("void fill()",))) as seen:
            for n in (4, 3):
                with seen.call(**facts(n)):
                    pass
    listed = [
        "demo::scale: kernels that no pattern matches: nvjet_sm90_hsh",
        "demo::scale: 1 call showed no kernel to the profiler, not counted",
        "kernels outside every launch: void fill()",
    ]
    assert seen.notes == listed
    assert judge(loaded(data)).notes == tuple(sorted(f"t.py::test: {note}" for note in listed))


BOTH = "the patterns of two kernels match in one call: ScaleVec4 (void ScaleVec4<__half>(int)) and Scale "
NOT_SEEN = "; which of them was chosen is not seen: not counted as observed"


def test_two_kernels_of_a_table_in_one_call_are_observed_and_named_once_for_each_pair(tmp_path: Path) -> None:
    data = f"{tmp_path}/records"
    with Recorder(data) as recorder:
        library = dispatchcov.observe(TABLE, facts=facts, watcher=FakeObserver((SCALAR, VEC4)))(lambda n: n)
        assert [library(4), library(8)] == [4, 8]
        assert counts(recorder) == {("vec4", "ScaleVec4"): (2, 2, 2)}
    note = f"demo::scale: {BOTH}(void Scale<__half>(int)), for N=4 aligned=true dtype=float16"
    assert judge(loaded(data)).notes == (note,)


def test_a_symbol_that_two_patterns_match_proves_neither() -> None:
    table = parsed(vec4='symbol = "Scale*<{dtype}"', scalar='symbol = "Scale*"')
    with Recorder(None) as recorder:
        with dispatchcov.observe(table, facts=facts(4), watcher=FakeObserver((VEC4,))) as seen:
            pass
        assert counts(recorder) == {("vec4", "ScaleVec4"): (1, 1, 0)}
    (note,) = seen.notes
    assert note.endswith(f"{BOTH}(void ScaleVec4<__half>(int)), for N=4 aligned=true dtype=float16{NOT_SEEN}")


@pytest.mark.parametrize(("symbols", "observed"), [((SCALAR, VEC4), 1), ((SCALAR,), 1), (("void ScaleBoth()",), 0)])
def test_what_a_function_says_that_it_ran_is_attested_by_its_own_symbol_only(
    symbols: tuple[str, ...], observed: int
) -> None:
    table = parsed(vec4='symbol = "ScaleVec4|ScaleBoth"', scalar='symbol = "Scale|ScaleBoth"')
    library = dispatchcov.traced(table, facts=facts, kernel="Scale")(lambda n: n)
    with Recorder(None) as recorder:
        with profiled(FakeObserver(symbols), recorder, Observed()):
            library(3)
        assert counts(recorder) == {("scalar", "Scale"): (1, 1, observed)}


def loaded(path: str) -> Results:
    data: Data = store.load(path)
    return Results.of(data, [TABLE])


def test_a_disagreement_fails_the_gate_with_facts_rule_kernel_and_predicate(tmp_path: Path) -> None:
    data = f"{tmp_path}/records"
    with (
        Recorder(data),
        dispatchcov.observe(TABLE, facts=facts(3), watcher=FakeObserver((VEC4,))),
    ):
        pass
    failures = judge(loaded(data)).failures
    assert failures[-1] == (
        "demo::scale: kernel mismatch in rule scalar: expected Scale, got ScaleVec4 for N=3 aligned=true "
        "dtype=float16; N % 4 == 0 would have to be true"
    )
    (mismatch,) = loaded(data).tables[0].mismatches
    assert (mismatch.decisions, mismatch.nearest) == (1, "N % 4 == 0 would have to be true")
    assert not any(item.reach.hits for item in loaded(data).tables[0].partitions)


def test_an_input_that_no_rule_takes_is_recorded_with_what_ran() -> None:
    table = parse_table(SMALL.replace('[[rule]]\nname = "scalar"', '[[rule]]\nname = "scalar"\nwhen = "N > 4"'))
    with Recorder(None) as recorder:
        with dispatchcov.observe(table, facts=facts(3), watcher=FakeObserver((GEMM,))) as seen:
            pass
        assert (seen.calls[0].rule, seen.calls[0].expected, seen.calls[0].mismatch) == ("", "", True)
        assert counts(recorder) == {("", GEMM): (1, 1, 1)}


def test_wrong_facts_are_refused_and_the_profiler_is_stopped() -> None:
    watcher = FakeObserver((VEC4,))
    for given in ({"N": 4}, {**facts(4), "M": 1}):
        with pytest.raises(FactsError), dispatchcov.observe(TABLE, facts=given, watcher=watcher):
            pytest.fail("entered")
        assert not watcher.profiling


def test_a_block_that_raises_is_left_in_order() -> None:
    watcher = FakeObserver((VEC4,))
    with Recorder(None) as recorder:
        with pytest.raises(KeyError), dispatchcov.observe(TABLE, facts=facts(4), watcher=watcher):
            raise KeyError("x")
        assert (watcher.profiling, watcher.open, recorder.observer) == (False, 0, None)


@pytest.mark.parametrize(("given", "got"), [(None, "none"), ({"N": 4}, "dict")])
def test_a_decorator_needs_facts_that_are_a_function(given: dict[str, object] | None, got: str) -> None:
    with pytest.raises(UsageError, match=f"expected facts to be a function of the call's arguments, got {got}"):
        dispatchcov.observe(TABLE, facts=given)(lambda: None)


def test_a_block_can_not_be_entered_twice_at_once() -> None:
    box = dispatchcov.observe(TABLE, watcher=FakeObserver((VEC4,)))
    with box, pytest.raises(UsageError, match="not entered yet"), box:
        pass
    with box:
        pass


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown observer 'cuda'; known: torch, torch-operators"):
        dispatchcov.observe(TABLE, facts=facts(4), kind="cuda").__enter__()

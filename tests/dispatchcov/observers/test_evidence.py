"""What was seen, made up: which evidence and which mismatches follow. The profiler itself is tested on a GPU."""

from __future__ import annotations

import pytest

import dispatchcov
from dispatchcov.errors import UsageError
from dispatchcov.observers.evidence import attest, observer
from dispatchcov.observers.torch_profiler import Observation
from dispatchcov.recorder import OBSERVED, RecordedDecision, Recorder
from tests.dispatchcov.build import parsed

TABLE = parsed(vec4='symbol = "ScaleVec4<{dtype}"', scalar='symbol = "Scale<{dtype}"')
PLAIN = parsed(vec4='symbol = "ScaleVec4<{dtype}"')


def decide(n: int, table: dispatchcov.Table = TABLE) -> RecordedDecision:
    decision = table.decide(N=n, aligned=True, dtype="float16")
    assert isinstance(decision, RecordedDecision)
    return decision


@pytest.mark.parametrize(
    ("n", "seen", "evidence", "ran"),
    [
        (4, ("void ScaleVec4<__half>(int)",), 1, []),
        (4, ("void other()", "void ScaleVec4<__half>(int)"), 1, []),
        (4, (), 0, []),
        (4, ("void Scale<__half>(int)",), 0, ["Scale"]),
        (4, ("void ScaleVec4<float>(int)",), 0, ["void ScaleVec4<float>(int)"]),
        (3, ("void ScaleVec4<__half>(int)",), 0, ["ScaleVec4"]),
    ],
)
def test_what_follows_from_the_symbols_of_a_launch(
    n: int, seen: tuple[str, ...], evidence: int, ran: list[str]
) -> None:
    with Recorder(None) as recorder:
        decision = decide(n)
        found = attest(recorder, Observation([(decision, seen)], [250]))
        assert decision.cell.nanoseconds == 250
        assert decision.counts[OBSERVED] == evidence
        assert [kernel for _, kernel in found.mismatches] == ran
        assert len(recorder.context.cells) == 1 + len(ran)


def test_a_kernel_without_a_symbol_is_observed_unless_another_of_the_table_was_seen() -> None:
    for seen, evidence in (((), 1), (("void fill()",), 1), (("void ScaleVec4<__half>(int)",), 0)):
        with Recorder(None) as recorder:
            decision = decide(3, PLAIN)
            attest(recorder, Observation([(decision, seen)]))
            assert decision.counts[OBSERVED] == evidence


def test_kernels_outside_every_launch_are_named() -> None:
    with Recorder(None) as recorder:
        found = attest(recorder, Observation(outside=tuple(f"void k{i}()" for i in range(7)), notes=["x"]))
    assert found.notes == [
        "x",
        "kernels outside every launch: void k0(); void k1(); void k2(); void k3(); void k4(); and 2 more",
    ]


def test_an_unknown_observer() -> None:
    with pytest.raises(UsageError, match="unknown observer 'trch'; did you mean 'torch'"):
        observer("trch")


def test_without_a_gpu_observing_is_an_error_not_silence() -> None:
    if observer("torch").available:
        pytest.skip("there is a GPU")
    with pytest.raises(UsageError, match="expected a CUDA device, got none"), dispatchcov.observe():
        pass

"""The profiler sees the kernel that the table chose, and says so when another one ran.

Each test records into a recorder of its own, so that what it provokes does not reach the run that it is part of.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest
import torch

import dispatchcov
from dispatchcov.observers.evidence import Observed
from dispatchcov.recorder import OBSERVED, RecordedDecision, Recorder
from fp4ops import matmul_nvfp4, op
from fp4ops.kernels import launchers
from fp4ops.problem import Launcher
from fp4ops.testing import random_call
from tests.fp4ops.gpu.test_partitions import on_gpu

VEC8, FLAT, SCALAR, MMA = (
    "DequantizeNvFp4Vec8Kernel",
    "DequantizeNvFp4FlatKernel",
    "DequantizeNvFp4Kernel",
    "Fp4MmaGemvKernel",
)


@pytest.fixture(autouse=True)
def recorder() -> Iterator[Recorder]:
    with Recorder(None) as recorder:
        yield recorder


def symbols(seen: Observed) -> list[str]:
    return [symbol for _, found in seen.launches for symbol in found]


def observed(decision: dispatchcov.Decision) -> int:
    assert isinstance(decision, RecordedDecision)
    return decision.counts[OBSERVED]


@pytest.mark.parametrize(
    ("kernel", "M", "K", "block_size"),
    [(MMA, 4, 256, 16), ("Fp4GemvKernel", 4, 96, 16), (FLAT, 64, 256, 16), (VEC8, 64, 264, 6), (SCALAR, 64, 264, 5)],
)
def test_the_selected_kernel_is_seen(kernel: str, M: int, K: int, block_size: int) -> None:
    call = on_gpu(random_call(M, 96, K, block_size))
    with dispatchcov.observe() as seen:
        matmul_nvfp4(*call, block_size=block_size)
    ((decision, found),) = seen.launches
    assert decision.kernel == kernel
    assert any(f"{kernel}<__half" in symbol for symbol in found), found
    assert (seen.mismatches, observed(decision)) == ([], 1)


def test_the_gemm_behind_a_dequantiser_belongs_to_its_launch() -> None:
    call = on_gpu(random_call(64, 96, 256, 16, torch.bfloat16))
    matmul_nvfp4(*call)
    with dispatchcov.observe() as seen:
        matmul_nvfp4(*call)
        torch.mm(call.a, call.a.t())
    ((_, found),) = seen.launches
    assert len(found) >= 2
    assert len(seen.outside) == 1
    assert any("outside every launch" in note for note in seen.notes)


def test_swapped_launchers_are_a_mismatch_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(device: str) -> Mapping[str, Launcher]:
        real = dict(launchers(device))
        return real | {VEC8: real[SCALAR], SCALAR: real[VEC8]}

    monkeypatch.setattr(op, "launchers", swapped)
    call = on_gpu(random_call(64, 96, 264, 16))
    with dispatchcov.observe() as seen:
        matmul_nvfp4(*call)
    ((decision, ran),) = seen.mismatches
    assert (decision.kernel, ran) == (VEC8, SCALAR)
    assert observed(decision) == 0


def test_streams_and_threads() -> None:
    call = on_gpu(random_call(4, 96, 256))
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with dispatchcov.observe() as seen:
        with torch.cuda.stream(stream):
            matmul_nvfp4(*call)
        thread = threading.Thread(target=lambda: matmul_nvfp4(*call))
        thread.start()
        thread.join()
    assert [any(MMA in symbol for symbol in found) for _, found in seen.launches] == [True, True]


def test_a_captured_launch_is_attributed_to_the_replay() -> None:
    call = on_gpu(random_call(4, 96, 256))
    matmul_nvfp4(*call)
    torch.cuda.synchronize()
    for replays in (0, 2):
        with dispatchcov.observe() as seen:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                matmul_nvfp4(*call)
            for _ in range(replays):
                graph.replay()
        assert any("captured into a CUDA graph" in note for note in seen.notes)
        ((_, found),) = seen.launches
        assert any(MMA in symbol for symbol in found) == bool(replays)
        assert seen.mismatches == []


def test_code_that_profiles_for_itself_keeps_its_events_and_is_named() -> None:
    call = on_gpu(random_call(4, 96, 256))
    with dispatchcov.observe() as seen:
        matmul_nvfp4(*call)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as inner:
            matmul_nvfp4(*call)
            torch.cuda.synchronize()
    assert any(MMA in event.key for event in inner.key_averages())
    assert any("a profiler of its own" in note for note in seen.notes)
    assert any(MMA in symbol for symbol in symbols(seen))


def test_compiled_code() -> None:
    call = on_gpu(random_call(4, 96, 256))
    compiled: Callable[..., torch.Tensor] = torch.compile(lambda *parts: matmul_nvfp4(*parts) * 2, backend="aot_eager")
    compiled(*call)
    with dispatchcov.observe() as seen:
        compiled(*call)
    ((_, found),) = seen.launches
    assert any(MMA in symbol for symbol in found)

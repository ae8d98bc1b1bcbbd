"""Streams, graphs, threads, views: where a launch goes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fp4ops
from fp4ops.kernels.cuda import dequantize
from fp4ops.kernels.cuda.build import SOURCES
from fp4ops.kernels.cuda.launch import Kernel, LaunchError
from fp4ops.testing import Call, random_call, reference

CUDA = torch.device("cuda", 0)
PROBLEMS = {  # kernel: M, N, K, block_size
    "Fp4MmaGemvKernel": (4, 512, 1024, 16),
    "Fp4GemvKernel": (4, 512, 1056, 16),
    "DequantizeNvFp4Vec8Kernel": (40, 512, 1032, 6),
    "DequantizeNvFp4Kernel": (40, 512, 1026, 5),
}
KERNELS = list(PROBLEMS)


def on_gpu(call: Call) -> Call:
    return Call(*(None if part is None else part.to(CUDA) for part in call))  # type: ignore[arg-type]


def call_of(kernel: str, *, seed: int = 0) -> tuple[Call, int]:
    M, N, K, block_size = PROBLEMS[kernel]
    return random_call(M, N, K, block_size, torch.bfloat16, True, seed=seed), block_size


@pytest.mark.parametrize("kernel", KERNELS)
def test_operator(kernel: str) -> None:
    call, block_size = call_of(kernel)
    result = fp4ops.matmul_nvfp4(*on_gpu(call), block_size=block_size)
    reference(call, kernel, block_size).check(result)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kernel", KERNELS)
def test_autocast(kernel: str, dtype: torch.dtype) -> None:
    call, block_size = call_of(kernel)
    gpu = on_gpu(call)
    assert gpu.bias is not None
    wide = gpu._replace(a=gpu.a.float(), bias=gpu.bias.float())
    with torch.autocast("cuda", dtype=dtype):
        results = [
            function(*wide, block_size=block_size)
            for function in (fp4ops.matmul_nvfp4, torch.ops.fp4ops.matmul_nvfp4.default)
        ]
    for result in results:
        assert result.dtype == dtype
        half = call._replace(a=call.a.to(dtype), bias=None if call.bias is None else call.bias.to(dtype))
        reference(half, kernel, block_size).check(result)


@pytest.mark.parametrize("kernel", KERNELS)
def test_current_stream(kernel: str) -> None:
    """The activations arrive late, on a side stream: a launch on any other stream would read zeros."""
    call, block_size = call_of(kernel)
    gpu = on_gpu(call)
    fp4ops.matmul_nvfp4(*gpu, block_size=block_size)
    late = torch.zeros_like(gpu.a)
    stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # type: ignore[no-untyped-call]
        late.copy_(gpu.a)
        result = fp4ops.matmul_nvfp4(*gpu._replace(a=late), block_size=block_size)
    assert not stream.query()  # nothing above waited
    stream.synchronize()
    reference(call, kernel, block_size).check(result)


@pytest.mark.parametrize("kernel", KERNELS)
def test_graph_capture_and_replay(kernel: str) -> None:
    call, block_size = call_of(kernel)
    gpu = on_gpu(call)
    fp4ops.matmul_nvfp4(*gpu, block_size=block_size)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = fp4ops.matmul_nvfp4(*gpu, block_size=block_size)
    for seed in (1, 2):
        other, _ = call_of(kernel, seed=seed)
        for target, source in zip(gpu, other, strict=True):
            if target is not None and source is not None:
                target.copy_(source)
        result.fill_(torch.nan)
        graph.replay()
        torch.cuda.synchronize()
        reference(other, kernel, block_size).check(result)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_new_thread(kernel: str) -> None:
    call, block_size = call_of(kernel)
    gpu = on_gpu(call)
    results: list[Tensor] = []
    thread = threading.Thread(target=lambda: results.append(fp4ops.matmul_nvfp4(*gpu, block_size=block_size)))
    thread.start()
    thread.join()
    reference(call, kernel, block_size).check(results[0])


@pytest.mark.parametrize("kernel", KERNELS)
def test_misaligned_and_strided_views(kernel: str) -> None:
    call, block_size = call_of(kernel)
    views = Call(*(None if part is None else misaligned(part.to(CUDA)) for part in call))  # type: ignore[arg-type]
    assert views.a.data_ptr() % 16
    reference(call, kernel, block_size).check(fp4ops.matmul_nvfp4(*views, block_size=block_size))
    wide = torch.empty((len(call.a), 2 * call.a.shape[1]), dtype=call.a.dtype, device=CUDA)
    strided = wide[:, ::2].copy_(call.a)
    result = fp4ops.matmul_nvfp4(*on_gpu(call)._replace(a=strided), block_size=block_size)
    reference(call, kernel, block_size).check(result)


def misaligned(tensor: Tensor) -> Tensor:
    """A copy one element past an aligned address."""
    storage = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return storage[1:].view(tensor.shape).copy_(tensor)


@pytest.mark.parametrize(("M", "N", "K"), [(0, 4, 64), (3, 0, 64), (3, 4, 0), (0, 0, 0)])
@pytest.mark.parametrize("bias", [False, True])
def test_nothing_to_multiply(M: int, N: int, K: int, bias: bool) -> None:
    call = on_gpu(random_call(M, N, K, bias=bias))
    result = fp4ops.matmul_nvfp4(*call)
    assert result.shape == (M, N)
    expected = torch.zeros((M, N), dtype=torch.float16) if call.bias is None else call.bias.cpu().expand(M, N)
    torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)


def test_leading_dimensions() -> None:
    call = random_call(6, 64, 256, bias=True)
    result = fp4ops.matmul_nvfp4(*on_gpu(call)._replace(a=call.a.view(2, 3, 256).to(CUDA)))
    reference(call, "Fp4MmaGemvKernel").check(result.view(6, 64))


def test_a_refused_launch_is_an_error_that_names_it() -> None:
    kernel = Kernel(SOURCES[dequantize.FLAT], "PPPPqi")
    out = torch.empty(8, dtype=torch.float16, device=CUDA)
    with pytest.raises(LaunchError, match=r"DequantizeNvFp4FlatKernel on cuda:0, grid \(1, 1\), block 4096"):
        kernel.launch(out, (0, 0, 0, 0, 0, 0), dtype=torch.float16, grid=(1, 1), block=4096)
    out.zero_()  # the refusal left the device usable
    assert out.sum() == 0


def test_first_launch_inside_a_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling and loading under a capture neither breaks nor enters it."""
    monkeypatch.setenv("FP4OPS_CACHE_DIR", str(tmp_path))
    kernel = Kernel(SOURCES[dequantize.FLAT], "PPPPqi")
    monkeypatch.setattr(dequantize, "_flat", kernel)
    call = on_gpu(random_call(1, 64, 64))
    out = torch.zeros((64, 64), dtype=torch.float16, device=CUDA)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dequantize.run_flat(call.weight, call.weight_scale, call.weight_scale_2, out, 16)
    assert not out.any()
    graph.replay()
    expected = fp4ops.dequantize_nvfp4(call.weight, call.weight_scale, call.weight_scale_2, dtype=torch.float16)
    torch.testing.assert_close(out, expected, rtol=0, atol=0)

"""The measurements, one function a section: each yields rows as it gets them. Random data; block size 16; bfloat16."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import linear

import dispatchcov
import fp4ops
from fp4ops.bench import ceilings, peers, timing
from fp4ops.kernels.cuda import LAUNCHERS, dequantize, gemv, mma_gemv
from fp4ops.problem import Operands, Problem

DTYPE = torch.bfloat16
GIB = 1 << 30
SMALL = [(4096, 4096), (6144, 2048), (2048, 6144)]
LARGE = [(17408, 5120), (248320, 5120)]
DECODE = [(17408, 5120), (5120, 17408), (4096, 4096)]
MODEL = [(112, 17408, 5120), (56, 5120, 17408)]
"""Count, N, K of the matrices of a 27-billion-parameter model."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measured variant."""

    section: str
    problem: str
    variant: str
    nbytes: int = 0
    """Bytes that must move; 0 where the time is not about memory."""
    times: dict[str, timing.Times] = field(default_factory=dict)
    """``warm`` and ``cold`` kernel time, ``replay`` of a graph, ``host``; nothing where it could not be measured."""
    note: str = ""
    """Why it could not be."""

    def rate(self, kind: str) -> float:
        """TB/s of ``nbytes`` at the median of one kind of time."""
        return self.nbytes / self.times[kind].median / 1e6


Section = Callable[[], Iterator[Row]]


def memory() -> Iterator[Row]:
    """Ceilings: 2 GiB copied (read + written), read, written."""
    source = torch.randint(0, 256, (2 * GIB,), dtype=torch.uint8, device="cuda")
    target, sink = torch.empty(GIB, dtype=torch.uint8, device="cuda"), torch.zeros(4, dtype=torch.int32, device="cuda")
    half, words = source[:GIB], source.view(torch.int32)
    yield _row("memory", "2 GiB", "copy", 2 * GIB, lambda: target.copy_(half), cold=False)
    yield _row("memory", "2 GiB", "read", 2 * GIB, lambda: ceilings.read(source, sink), cold=False)
    yield _row("memory", "2 GiB", "write", 2 * GIB, lambda: words.fill_(7), cold=False)


def dequantisation() -> Iterator[Row]:
    """The three dequantisers, and the same bytes moved without decoding."""
    for N, K in SMALL + LARGE:
        weight, out = _weight(N, K), torch.empty((N, K), dtype=DTYPE, device="cuda")
        variants: dict[str, Callable[[], object]] = {
            "scalar": partial(dequantize.run_scalar, *weight, out, 16),
            "vec8": partial(dequantize.run_vec8, *weight, out, 16),
            "flat": partial(dequantize.run_flat, *weight, out, 16),
            "expand-copy 8": partial(ceilings.expand_copy, weight[0], weight[1], out, 8),
            "expand-copy 32": partial(ceilings.expand_copy, weight[0], weight[1], out, 32),
        }
        for name, run in variants.items():
            yield _row("dequantisation", f"{N} x {K}", name, N * K // 2 + N * K // 16 + 2 * N * K, run)


def decode() -> Iterator[Row]:
    """Decode kernels against cuBLAS on dense weights and against prefill's way, for M up to the kernel's limit."""
    for N, K in DECODE:
        weight, dense = _weight(N, K), _dense(N, K)
        for M in (1, 2, 4, 8, 16, 32):
            yield from _decode(M, N, K, weight, dense)


def vocabulary() -> Iterator[Row]:
    """The same at the size of a vocabulary matrix, which no cache holds."""
    N, K = 248320, 5120
    weight, dense = _weight(N, K), _dense(N, K)
    for M in (1, 4, 8):
        yield from _decode(M, N, K, weight, dense)


def prefill() -> Iterator[Row]:
    """Dequantise into scratch, then GEMM; and that GEMM on dense weights."""
    N, K = 17408, 5120
    weight, dense = _weight(N, K), _dense(N, K)
    for M in (33, 64, 256, 1024, 8192):
        a = torch.randn((M, K), device="cuda").to(DTYPE)
        problem, operands = _problem(a, weight)
        for name in (dequantize.FLAT, dequantize.VEC8):
            yield _row("prefill", _text(M, N, K), name, 0, partial(LAUNCHERS[name], problem, operands))
        yield _row("prefill", _text(M, N, K), "cuBLAS, dense", 0, partial(linear, a, dense))


def model() -> Iterator[Row]:
    """One pass over all matrices of a model, each dequantised once, as one CUDA graph."""
    matrices = [(_weight(N, K), N, K) for count, N, K in MODEL for _ in range(count)]
    outs = [torch.empty(17408 * 5120, dtype=DTYPE, device="cuda") for _ in range(4)]
    nbytes = sum(N * K // 2 + N * K // 16 + 2 * N * K for _, N, K in matrices)
    for name, run in (("flat", dequantize.run_flat), ("vec8", dequantize.run_vec8)):

        def pass_over(run: dequantize.Run = run) -> None:
            for i, (weight, N, K) in enumerate(matrices):
                run(*weight, outs[i % 4].view(N, K), 16)

        times = {"replay": timing.replays(pass_over, repeats=10)}
        yield Row("model", f"{len(matrices)} matrices", name, nbytes, times)


def host() -> Iterator[Row]:
    """Host time of an eager call on a tiny decode problem, and one decode step as a graph against its kernel's time."""
    N, K = 256, 256
    weight, dense = _weight(N, K), _dense(N, K)
    a = torch.randn((1, K), device="cuda").to(DTYPE)
    call = partial(fp4ops.matmul_nvfp4, a, *weight)
    yield Row("host", _text(1, N, K), "matmul_nvfp4", 0, {"host": timing.host(call)})
    yield Row("host", _text(1, N, K), "linear, dense", 0, {"host": timing.host(partial(linear, a, dense))})
    N, K = 17408, 5120
    weight = _weight(N, K)
    a = torch.randn((1, K), device="cuda").to(DTYPE)
    step = partial(fp4ops.matmul_nvfp4, a, *weight)
    times = {"replay": timing.replays(step, inner=20), "warm": timing.kernels(step)}
    yield Row("host", _text(1, N, K), "matmul_nvfp4, 20 in a graph", _packed(N, K), times)


def compiled() -> Iterator[Row]:
    """What torch.compile makes of the definition of dequantisation and a matmul."""
    N, K = 17408, 5120
    weight, scale, scale_2 = _weight(N, K)
    table = torch.tensor(fp4ops.format.E2M1_VALUES, device="cuda")

    def definition(a: Tensor) -> Tensor:
        codes = torch.stack((weight & 15, weight >> 4), dim=-1).view(N, K // 16, 16)
        values = table[codes.int()] * (scale.float() * scale_2).unsqueeze(2)
        return linear(a, values.to(DTYPE).view(N, K))

    run = torch.compile(definition)
    for M in (1, 1024):
        a = torch.randn((M, K), device="cuda").to(DTYPE)
        yield _row("compiled", _text(M, N, K), "torch.compile", 0, partial(run, a), cold=False)


def observing() -> Iterator[Row]:
    """One small test, a call and the wait for it: alone, recorded, profiled as ``--dispatch-observe=torch`` does."""
    N, K = 256, 256
    call = partial(fp4ops.matmul_nvfp4, torch.randn((1, K), device="cuda").to(DTYPE), *_weight(N, K))

    def test() -> None:
        call()
        torch.cuda.synchronize()

    def profiled() -> None:
        with dispatchcov.observe():
            test()

    yield Row("observing", _text(1, N, K), "a test", 0, {"host": timing.wall(test)})
    with tempfile.TemporaryDirectory() as folder, dispatchcov.Recorder(os.path.join(folder, "records")):
        for name, run in (("recorded", test), ("recorded and observed", profiled)):
            yield Row("observing", _text(1, N, K), f"a test, {name}", 0, {"host": timing.wall(run)})


def others() -> Iterator[Row]:
    """The same products by other libraries, where they can be imported."""
    for N, K in DECODE:
        weight = _weight(N, K)
        for name, build in peers.PEERS.items():
            layer, note = peers.attempt(build, weight)
            for M in (1, 4, 8):
                a = torch.randn((M, K), device="cuda").to(DTYPE)
                if layer is not None:
                    note = peers.wrong(layer, a, weight)
                if layer is None or note:
                    yield Row("decode", _text(M, N, K), name, note=note)
                else:
                    yield _row("decode", _text(M, N, K), name, _packed(N, K), partial(layer, a))


SECTIONS: dict[str, Section] = {
    section.__name__: section
    for section in (memory, dequantisation, decode, vocabulary, prefill, model, host, compiled, observing, others)
}


def _decode(M: int, N: int, K: int, weight: tuple[Tensor, Tensor, Tensor], dense: Tensor) -> Iterator[Row]:
    a = torch.randn((M, K), device="cuda").to(DTYPE)
    problem, operands = _problem(a, weight)
    kernels = [mma_gemv.KERNEL] + [gemv.KERNEL] * (M <= gemv.MAX_M) + [dequantize.FLAT] * (M > gemv.MAX_M)
    for name in kernels:
        yield _row("decode", _text(M, N, K), name, _packed(N, K), partial(LAUNCHERS[name], problem, operands))
    yield _row("decode", _text(M, N, K), "cuBLAS, dense", 2 * N * K, partial(linear, a, dense))


def _row(section: str, problem: str, variant: str, nbytes: int, run: Callable[[], object], *, cold: bool = True) -> Row:
    times = {"warm": timing.kernels(run)}
    if cold:
        times["cold"] = timing.kernels(run, cold=True, repeats=20)
    return Row(section, problem, variant, nbytes, times)


def _weight(N: int, K: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random bytes and finite scales of an NVFP4 matrix, made on the GPU."""
    weight = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device="cuda")
    scale = torch.randint(0, 0x59, (N, K // 16), dtype=torch.uint8, device="cuda").view(torch.float8_e4m3fn)
    return weight, scale, torch.tensor(0.0137, device="cuda")


def _dense(N: int, K: int) -> Tensor:
    return torch.randn((N, K), dtype=DTYPE, device="cuda")


def _problem(a: Tensor, weight: tuple[Tensor, Tensor, Tensor]) -> tuple[Problem, Operands]:
    major, minor = torch.cuda.get_device_capability()
    problem = Problem(len(a), len(weight[0]), a.shape[1], 16, "bfloat16", False, 10 * major + minor, False)
    return problem, Operands(a, *weight, None)


def _packed(N: int, K: int) -> int:
    """Bytes of codes, which decode rates are quoted in; the scales are an eighth more."""
    return N * K // 2


def _text(M: int, N: int, K: int) -> str:
    return f"{M}, {N}, {K}"

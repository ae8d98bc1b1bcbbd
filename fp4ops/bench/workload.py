"""A server's work, recorded: ``python -m fp4ops.bench workload --record FILE``.

The linear layers of a decoder-only model answer prompts: each is read at once, M its length (prefill), then its answer
is generated token by token, M = 1 (decode). On a GPU the kernels are seen by the profiler and their time is recorded;
on the CPU the calls are counted. ``dispatchcov report --weights FILE`` then weighs a suite's coverage by them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

import dispatchcov
from dispatchcov import Recorder
from fp4ops import matmul_nvfp4
from fp4ops.testing import random_weight

PROMPTS = (733, 1024, 2048, 311, 8, 1536, 512, 97)
"""Lengths of prompts in tokens: most are long, one fits the decode kernels."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A linear layer ``[N, K]`` in NVFP4, used ``count`` times a token."""

    name: str
    N: int
    K: int
    count: int


def layers(width: int, hidden: int, depth: int) -> tuple[Layer, ...]:
    """The linear layers of a model with ``depth`` blocks of attention (``width``) and SwiGLU (``hidden``)."""
    return (
        Layer("q, k, v, o", width, width, 4 * depth),
        Layer("gate, up", hidden, width, 2 * depth),
        Layer("down", width, hidden, depth),
    )


def serve(model: Sequence[Layer], prompts: Sequence[int], tokens: int, device: str) -> None:
    """Answer ``prompts`` (lengths in tokens) with ``tokens`` tokens each; every layer's M as a server would run it."""
    generator = torch.Generator().manual_seed(0)
    for layer in model:
        weight = [part.to(device) for part in random_weight(layer.N, layer.K)]
        for m in steps(prompts, tokens):
            a = torch.randn((m, layer.K), generator=generator).to(device, torch.bfloat16)
            for _ in range(layer.count):
                check(matmul_nvfp4(a, *weight), (m, layer.N))


def steps(prompts: Sequence[int], tokens: int) -> Iterator[int]:
    """M of each step."""
    for prompt in prompts:
        yield prompt
        yield from [1] * tokens


def check(result: Tensor, shape: tuple[int, int]) -> None:
    """A result of the wrong shape ends the run: what was recorded would be of no worth."""
    if result.shape != shape:
        raise AssertionError(f"expected a result of shape {shape}, got {tuple(result.shape)}")


def size(text: str) -> int:
    """A number of at least 0, as text."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {text!r}")
    return int(text)


def lengths(text: str) -> tuple[int, ...]:
    """Lengths of prompts in tokens, comma-separated."""
    return tuple(size(each.strip()) for each in text.split(","))


def main(arguments: Sequence[str]) -> int:
    """Serve, recording into ``--record``."""
    parser = argparse.ArgumentParser(prog="python -m fp4ops.bench workload", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--record", metavar="FILE", required=True, help="the data file to write")
    parser.add_argument("--tokens", type=size, default=16, help="tokens generated for each prompt (default: 16)")
    parser.add_argument(
        "--prompts", type=lengths, default=PROMPTS, metavar="LENGTHS",
        help=f"lengths of the prompts in tokens, comma-separated (default: {','.join(map(str, PROMPTS))})",
    )  # fmt: skip
    sizes = (5120, 17408, 4) if torch.cuda.is_available() else (256, 512, 1)
    for name, default in zip(("width", "hidden", "depth"), sizes, strict=True):
        parser.add_argument(f"--{name}", type=size, default=default, help=f"of the model (default: {default})")
    options = parser.parse_args(arguments)
    gpu = torch.cuda.is_available()
    model = layers(options.width, options.hidden, options.depth)
    path = os.path.abspath(options.record)
    dispatchcov.erase(path)
    watch: AbstractContextManager[object] = dispatchcov.observe() if gpu else nullcontext()
    with Recorder(path), watch:
        serve(model, options.prompts, options.tokens, "cuda" if gpu else "cpu")
    data = dispatchcov.combine(path, remove=True)
    calls, time = (sum(column) for column in zip(*((row.selected, row.nanoseconds) for row in data.rows), strict=True))
    seen = f"kernels took {time / 1e6:.2f} ms" if gpu else "no GPU, so no time was observed"
    print(f"{options.record}: {calls} calls for {len(options.prompts)} prompts, {seen}")
    return 0


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))

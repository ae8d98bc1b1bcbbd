"""A small decoder-only transformer whose every linear layer is an ``Fp4Linear``: a dequantiser seen from a model.

RMSNorm before each half of a layer, rotary attention with a cache of keys and values, SwiGLU; weights and prompt come
from a seed, tokens are chosen greedily.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from dispatchcov.plugin.assertions import DispatchTrace
from fp4ops import Fp4Linear, quantize_nvfp4

PROMPT, TOKENS = 256, 64
FLAT, VEC8, SCALAR = "DequantizeNvFp4FlatKernel", "DequantizeNvFp4Vec8Kernel", "DequantizeNvFp4Kernel"
MMA, GEMV = "Fp4MmaGemvKernel", "Fp4GemvKernel"
FORCED = {"scalar": SCALAR, "vec8": VEC8, "flat": FLAT}
"""What ``FP4OPS_DEQUANTIZE`` selects where each kernel can take the input."""


@dataclass(frozen=True, slots=True)
class Size:
    """Dimensions of a model; ``width`` and ``hidden`` are the K of its linear layers."""

    width: int
    hidden: int
    layers: int
    heads: int
    vocabulary: int

    def calls(self, block_size: int, dequantizer: str) -> Counter[str]:
        """How often :func:`greedy` runs each kernel. Only blocks of 16 are decoded, in steps of one token."""
        if block_size != 16:
            return Counter({dequantizer: TOKENS * (7 * self.layers + 1)})
        wide, deep = (MMA if K % 128 == 0 else GEMV for K in (self.width, self.hidden))
        decoded = Counter({wide: (TOKENS - 1) * 6 * self.layers + TOKENS})  # the head reads the last position alone
        return decoded + Counter({deep: (TOKENS - 1) * self.layers}) + Counter({dequantizer: 7 * self.layers})


class Layer(nn.Module):
    """``[T, width]`` -> ``[T, width]``; ``cache`` holds the keys and values of the positions before, and gets these."""

    def __init__(self, size: Size, make: Linears) -> None:
        super().__init__()
        self.heads = size.heads
        # Attention to single tokens: smooth attention soon repeats one token for ever.
        self.q, self.k = (make(size.width, size.width, gain=4.0) for _ in range(2))
        self.v, self.o = (make(size.width, size.width) for _ in range(2))
        self.gate, self.up = (make(size.width, size.hidden) for _ in range(2))
        self.down = make(size.hidden, size.width)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: list[Tensor]) -> Tensor:
        h = rms_norm(x, x.shape[-1:])
        q, k = rotate(self.split(self.q(h)), turn), rotate(self.split(self.k(h)), turn)
        v = self.split(self.v(h))
        if cache:
            k, v = (torch.cat(pair, dim=1) for pair in zip(cache, (k, v), strict=True))
        cache[:] = k, v
        attended = scaled_dot_product_attention(q, k, v, is_causal=len(x) > 1)
        x = x + self.o(attended.transpose(0, 1).flatten(1))
        h = rms_norm(x, x.shape[-1:])
        return x + self.down(silu(self.gate(h)) * self.up(h))  # type: ignore[no-any-return]

    def split(self, x: Tensor) -> Tensor:
        """``[T, width]`` -> ``[heads, T, width / heads]``."""
        return x.view(len(x), self.heads, -1).transpose(0, 1)


class Model(nn.Module):
    """Tokens ``[T]`` -> logits ``[vocabulary]`` of the token after the last."""

    def __init__(self, size: Size, block_size: int, dtype: torch.dtype, device: str = "cpu") -> None:
        super().__init__()
        make = Linears(block_size, dtype, device)
        self.size = size
        values = torch.randn((size.vocabulary, size.width), generator=make.generator)
        self.embedding = nn.Embedding.from_pretrained(values.to(device, dtype))  # type: ignore[no-untyped-call]
        self.layers = nn.ModuleList(Layer(size, make) for _ in range(size.layers))
        self.head = make(size.width, size.vocabulary)

    def forward(self, tokens: Tensor, position: int, caches: list[list[Tensor]]) -> Tensor:
        x = self.embedding(tokens)
        turn = angles(position, len(tokens), self.size.width // self.size.heads, x)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, turn, cache)
        return self.head(rms_norm(x[-1:], x.shape[-1:]))[0]  # type: ignore[no-any-return]


class Linears:
    """Makes layers with normal weights, one after the other from one seed; every other one has a bias."""

    def __init__(self, block_size: int, dtype: torch.dtype, device: str) -> None:
        self.block_size = block_size
        self.dtype = dtype
        self.device = device
        self.generator = torch.Generator().manual_seed(0)
        self.made = 0

    def __call__(self, inputs: int, outputs: int, gain: float = 1.0) -> Fp4Linear:
        weight = torch.randn((outputs, inputs), generator=self.generator) * gain / inputs**0.5
        bias = torch.randn(outputs, generator=self.generator).to(self.device, self.dtype) / 8
        self.made += 1
        quantized = quantize_nvfp4(weight.to(self.device), self.block_size)
        return Fp4Linear.from_quantized(quantized, bias if self.made % 2 else None, block_size=self.block_size)


def angles(position: int, count: int, columns: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines ``[count, columns / 2]`` of rotary positions, in the dtype of ``like``."""
    frequencies = 10_000.0 ** -(torch.arange(0, columns, 2) / columns)
    turns = torch.arange(position, position + count).unsqueeze(1) * frequencies
    return turns.cos().to(like), turns.sin().to(like)


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the pairs (column i, column i + half) of ``[heads, T, columns]``."""
    cosine, sine = turn
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)


def prompt(size: Size, *, seed: int = 1) -> Tensor:
    """``[PROMPT]`` random tokens."""
    return torch.randint(0, size.vocabulary, (PROMPT,), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def greedy(model: Model, tokens: Tensor) -> Tensor:
    """The :data:`TOKENS` most likely tokens after ``tokens``, one after the other: int64, on the CPU."""
    caches: list[list[Tensor]] = [[] for _ in model.layers]
    position, chosen = 0, []
    for _ in range(TOKENS):
        logits = model(tokens, position, caches)
        position += len(tokens)
        tokens = logits.argmax().view(1)
        chosen.append(tokens)
    return torch.cat(chosen).cpu()


def digests(
    model: Model, tokens: Tensor, block_size: int, trace: DispatchTrace, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The digest of the greedy tokens for each ``FP4OPS_DEQUANTIZE`` that forces a kernel, which really ran."""
    found = {}
    for switch, kernel in FORCED.items():
        monkeypatch.setenv("FP4OPS_DEQUANTIZE", switch)
        before = len(trace.decisions)
        found[switch] = digest(greedy(model, tokens))
        assert Counter(trace.kernels[before:]) == model.size.calls(block_size, kernel)
    return found


def digest(tokens: Tensor) -> str:
    """SHA-256 of int64 tokens."""
    return hashlib.sha256(tokens.numpy().tobytes()).hexdigest()

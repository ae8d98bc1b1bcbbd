"""The three dequantisers give the bits of the definition, and so of each other."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fp4ops.format import NAN_BITS, ceildiv
from fp4ops.kernels import ContractError
from fp4ops.kernels.cuda import DEQUANTIZERS, dequantize
from fp4ops.quantize import Quantized, dequantize_nvfp4
from fp4ops.testing import bits, random_weight

CUDA = torch.device("cuda", 0)
DTYPES = [torch.float16, torch.bfloat16]
KERNELS = [dequantize.SCALAR, dequantize.VEC8, dequantize.FLAT]
RUNS = {
    dequantize.SCALAR: dequantize.run_scalar,
    dequantize.VEC8: dequantize.run_vec8,
    dequantize.FLAT: dequantize.run_flat,
}


def takes(kernel: str, K: int, block_size: int) -> bool:
    if kernel == dequantize.FLAT:
        return K % 64 == 0 and block_size in (8, 16, 32, 64)
    return kernel == dequantize.SCALAR or (K % 8 == 0 and block_size % 2 == 0)


def run(kernel: str, weight: Quantized, block_size: int, dtype: torch.dtype) -> Tensor:
    """Dequantise on the GPU into poisoned memory; the contract is not checked."""
    weight = Quantized(*(part.to(CUDA) for part in weight))
    out = torch.full((len(weight.weight), 2 * weight.weight.shape[1]), 1234.0, dtype=dtype, device=CUDA)
    RUNS[kernel](*weight, out, block_size)
    return out.cpu()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale_2", [1.0, 0.0137, 3e-6, 2e4, 1e37, 1e-40, -0.7])
def test_every_byte_with_every_scale(kernel: str, dtype: torch.dtype, scale_2: float) -> None:
    bytes_, block_size = torch.arange(256, dtype=torch.uint8), 16
    weight = bytes_.repeat(256, 1)  # row: scale, column: byte
    scale = bytes_.view(256, 1).repeat(1, 512 // block_size).view(torch.float8_e4m3fn)
    matrix = Quantized(weight, scale, torch.tensor(scale_2))
    expected = dequantize_nvfp4(*matrix, block_size=block_size, dtype=dtype)
    result = run(kernel, matrix, block_size, dtype)
    assert torch.equal(bits(result), bits(expected))
    assert (bits(result)[0x7F] == NAN_BITS).all()
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


LAYOUTS = [  # N, K, block_size: aligned and ragged
    (512, 128, 16),
    (256, 4096, 16),
    (64, 17408, 16),
    (64, 17408, 32),
    (300, 1032, 6),
    (128, 5120, 5),
    (130, 5130, 16),
    (77, 1026, 5),
    (96, 2568, 16),
    (33, 8192, 64),
    (65, 4104, 2),
    (40, 2560, 8),
    (50, 1344, 4096),
]


@pytest.mark.parametrize(("N", "K", "block_size"), LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_digests_are_those_of_the_cpu(N: int, K: int, block_size: int, dtype: torch.dtype) -> None:
    matrix = random_weight(N, K, block_size, seed=N + K)
    digests = {"cpu": digest(dequantize_nvfp4(*matrix, block_size=block_size, dtype=dtype))}
    for kernel in KERNELS:
        if takes(kernel, K, block_size):
            digests[kernel] = digest(run(kernel, matrix, block_size, dtype))
    torch.testing.assert_close(len(set(digests.values())), 1, msg=f"{digests}")
    assert dequantize.SCALAR in digests


def digest(values: Tensor) -> str:
    return hashlib.sha256(bits(values).numpy().tobytes()).hexdigest()


@settings(max_examples=150, deadline=None)
@given(
    N=st.integers(1, 40),
    half=st.integers(1, 150),
    block_size=st.integers(1, 80),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
def test_random_layouts(N: int, half: int, block_size: int, dtype: torch.dtype, seed: int) -> None:
    matrix = random_weight(N, 2 * half, block_size, seed=seed)
    expected = bits(dequantize_nvfp4(*matrix, block_size=block_size, dtype=dtype))
    for kernel in KERNELS:
        if takes(kernel, 2 * half, block_size):
            assert torch.equal(bits(run(kernel, matrix, block_size, dtype)), expected), kernel


@pytest.mark.parametrize("block_size", [6, 16])
def test_rows_beyond_the_grid_loop(block_size: int) -> None:
    matrix = random_weight(70_000, 64, block_size)
    expected = bits(dequantize_nvfp4(*matrix, block_size=block_size))
    for kernel in KERNELS:
        if takes(kernel, 64, block_size):
            assert torch.equal(bits(run(kernel, matrix, block_size, torch.bfloat16)), expected), kernel


def test_more_elements_than_32_bits_count() -> None:
    N, K, tail = 270_000, 8192, 64
    assert N * K > 2**31
    weight = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=CUDA)
    scale = torch.randint(0, 0x70, (N, K // 16), dtype=torch.uint8, device=CUDA).view(torch.float8_e4m3fn)
    matrix = Quantized(weight, scale, torch.tensor(0.0137, device=CUDA))
    outputs = []
    for kernel in KERNELS:
        out = torch.full((N, K), 1234.0, dtype=torch.float16, device=CUDA)
        RUNS[kernel](*matrix, out, 16)
        outputs.append(out.view(torch.int16))
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(outputs[0], outputs[2])
    last = (weight[-tail:].cpu(), scale[-tail:].cpu(), matrix.weight_scale_2.cpu())
    assert torch.equal(outputs[0][-tail:].cpu(), bits(dequantize_nvfp4(*last, dtype=torch.float16)))


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_rows_or_no_columns(kernel: str) -> None:
    for N, K in ((0, 64), (3, 0)):
        weight = torch.empty((N, K // 2), dtype=torch.uint8, device=CUDA)
        scale = torch.empty((N, ceildiv(K, 16)), dtype=torch.float8_e4m3fn, device=CUDA)
        out = DEQUANTIZERS[kernel](
            weight, scale, torch.tensor(1.0, device=CUDA), K=K, block_size=16, dtype=torch.float16
        )
        assert out.shape == (N, K)


# Negative controls: what the contracts exclude does go wrong, so these comparisons notice a guard that lets it through.


@pytest.mark.parametrize(("K", "block_size"), [(64, 5), (64, 1), (64, 15), (12, 4), (1026, 16), (4098, 16)])
def test_vec8_outside_its_contract_gives_wrong_bits(K: int, block_size: int) -> None:
    matrix = random_weight(32, K, block_size)
    expected = bits(dequantize_nvfp4(*matrix, block_size=block_size))
    assert not torch.equal(bits(run(dequantize.VEC8, matrix, block_size, torch.bfloat16)), expected)
    with pytest.raises(ContractError):
        DEQUANTIZERS[dequantize.VEC8](*matrix, K=K, block_size=block_size, dtype=torch.bfloat16)


@pytest.mark.parametrize(("K", "block_size"), [(72, 16), (80, 64), (64, 24)])
def test_flat_outside_its_contract_gives_wrong_bits(K: int, block_size: int) -> None:
    matrix = random_weight(32, K, block_size)
    expected = bits(dequantize_nvfp4(*matrix, block_size=block_size))
    assert not torch.equal(bits(run(dequantize.FLAT, matrix, block_size, torch.bfloat16)), expected)

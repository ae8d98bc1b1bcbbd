"""The CPU twins: dequantisers bit by bit, matmuls against float64, contracts against the table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchcov.formula import holds
from fp4ops import TABLE, ContractError, dequantize_nvfp4, matmul_nvfp4
from fp4ops.format import E2M1_VALUES, unpack
from fp4ops.kernels import dequantizers, launchers
from fp4ops.kernels.cpu import common, vec8
from fp4ops.problem import Problem, prepare
from fp4ops.testing import Call, bits, random_call, random_weight, reference

HALVES = [torch.float16, torch.bfloat16]
FLAT, VEC8, SCALAR = "DequantizeNvFp4FlatKernel", "DequantizeNvFp4Vec8Kernel", "DequantizeNvFp4Kernel"
DEQUANTIZERS = dequantizers("cpu")
LAUNCHERS = launchers("cpu")
MATMULS = ["Fp4MmaGemvKernel", "Fp4GemvKernel", "NativeFp4Matmul", FLAT, VEC8, SCALAR]


def launch(kernel: str, call: Call, block_size: int = 16, sm: int = 120) -> torch.Tensor:
    """Launch ``kernel`` whatever the table would select."""
    problem, operands = prepare(*call, block_size, sm=sm, native=False)
    return LAUNCHERS[kernel](problem, operands)


def contract(kernel: str, problem: Problem) -> bool:
    """Whether the table's ``requires`` of ``kernel`` holds."""
    requires = next(k.requires for k in TABLE.kernels if k.name == kernel)
    return holds(requires, TABLE.on("test").vector(tuple(problem)))


def test_a_launcher_for_each_kernel_of_the_table() -> None:
    assert set(LAUNCHERS) == {kernel.name for kernel in TABLE.kernels}
    assert set(DEQUANTIZERS) == {name for name in LAUNCHERS if name.startswith("Dequantize")}


def test_an_unknown_device_type_is_named() -> None:
    with pytest.raises(ValueError, match="device type: expected one of cpu, cuda, got meta"):
        launchers("meta")


# --- dequantisers


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kernel", DEQUANTIZERS)
@pytest.mark.parametrize("scale_2", [0.37, 1.0, 0.0, 1e30, float("inf"), float("nan")])
def test_all_bytes_times_all_scales(kernel: str, dtype: torch.dtype, scale_2: float) -> None:
    """Row s holds all 256 bytes, in blocks of 16 that take scale bytes s, s + 1, …, so each byte meets each scale."""
    weight = torch.arange(256, dtype=torch.uint8).expand(256, 256).contiguous()
    scale = (torch.arange(256).view(256, 1) + torch.arange(32)).to(torch.uint8).view(torch.float8_e4m3fn)
    tensors = (weight, scale, torch.tensor(scale_2, dtype=torch.float32))
    result = DEQUANTIZERS[kernel](*tensors, K=512, block_size=16, dtype=dtype)
    assert result.dtype == dtype
    assert torch.equal(bits(result), bits(dequantize_nvfp4(*tensors, dtype=dtype)))


@given(
    N=st.integers(1, 5),
    half=st.integers(0, 50) | st.integers(0, 6).map(lambda chunks: 32 * chunks),
    block_size=st.integers(1, 64) | st.sampled_from([8, 16, 32, 64]),
    dtype=st.sampled_from(HALVES),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=150)
def test_random_layouts(N: int, half: int, block_size: int, dtype: torch.dtype, seed: int) -> None:
    K = 2 * half
    tensors = random_weight(N, K, block_size, seed=seed)
    expected = elementwise(*tensors, block_size).to(dtype)
    assert torch.equal(bits(dequantize_nvfp4(*tensors, block_size=block_size, dtype=dtype)), bits(expected))

    def run(kernel: str) -> torch.Tensor:
        return bits(DEQUANTIZERS[kernel](*tensors, K=K, block_size=block_size, dtype=dtype))

    problem = Problem(9, N, K, block_size, "float16", False, 90, False)
    for kernel in DEQUANTIZERS:
        if contract(kernel, problem):
            assert torch.equal(run(kernel), bits(expected))
        else:
            with pytest.raises(ContractError, match=f"{kernel}: .*, got K = {K}, block_size = {block_size}"):
                run(kernel)


def elementwise(weight: torch.Tensor, scale: torch.Tensor, scale_2: torch.Tensor, block_size: int) -> torch.Tensor:
    """The definition, one element at a time."""
    codes, e4m3, g = unpack(weight).numpy(), scale.float().numpy(), np.float32(scale_2.item())
    out = np.zeros(codes.shape, dtype=np.float32)
    for n, k in np.ndindex(codes.shape):
        out[n, k] = np.float32(E2M1_VALUES[codes[n, k]]) * (e4m3[n, k // block_size] * g)
    return torch.from_numpy(out)


@given(chunks=st.integers(0, 40), block_size=st.integers(1, 32).map(lambda half: 2 * half))
def test_vec8_steps_its_scale_as_the_column_says(chunks: int, block_size: int) -> None:
    stepped = vec8.blocks_of_pairs(chunks, block_size).flatten().tolist()
    assert stepped == [column // block_size for column in range(0, 8 * chunks, 2)]


@pytest.mark.parametrize("M", [1, 16])
@pytest.mark.parametrize("block_size", [1 << 31, (1 << 40) + 1, (1 << 63) - 1])
@pytest.mark.parametrize("K", [8, 18])
def test_blocks_of_more_than_32_bits(M: int, K: int, block_size: int) -> None:
    call = random_call(M, 3, K, block_size=K)
    whole = matmul_nvfp4(*call, block_size=K)
    assert torch.equal(matmul_nvfp4(*call, block_size=block_size), whole)


@pytest.mark.parametrize("kernel", DEQUANTIZERS)
def test_rows_beyond_the_grid_and_beyond_a_slab(kernel: str) -> None:
    """More rows than two grids of 65,535, and rows longer than a slab of the twin."""
    for N, K in ((2 * vec8.GRID_ROWS + 3, 64 if kernel == FLAT else 8), (2, 1 << 22)):
        tensors = random_weight(N, K)
        result = DEQUANTIZERS[kernel](*tensors, K=K, block_size=16, dtype=torch.float16)
        assert torch.equal(bits(result), bits(dequantize_nvfp4(*tensors, dtype=torch.float16)))


def test_folded_weights_are_exact_in_both_dtypes() -> None:
    """What lets the decode kernels keep ``e2m1 * e4m3`` in 16 bits: 16 codes × 256 scales survive the rounding."""
    packed = torch.arange(256, dtype=torch.uint8).expand(256, 256).contiguous()
    e4m3 = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    folded = common.fold(packed, e4m3.view(256, 1).expand(256, 32))
    for dtype in HALVES:
        assert torch.equal(folded.to(dtype).float().nan_to_num(7e7), folded.nan_to_num(7e7))


# --- matmuls


def supported(kernel: str, call: Call, block_size: int) -> bool:
    return contract(kernel, prepare(*call, block_size, sm=120, native=False)[0])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("M", "N", "K", "block_size"), [
    (1, 33, 128, 16), (8, 32, 384, 16), (3, 64, 2048 + 128, 16), (4, 96, 96, 16), (5, 64, 1120, 16), (16, 32, 64, 16),
    (9, 7, 48, 6), (2, 5, 24, 10), (3, 9, 30, 7), (6, 4, 14, 1), (2, 3, 2, 64),
])  # fmt: skip
def test_matmul_against_float64(M: int, N: int, K: int, block_size: int, dtype: torch.dtype, bias: bool) -> None:
    call = random_call(M, N, K, block_size, dtype, bias, seed=M * N + K)
    kernels = [kernel for kernel in MATMULS if supported(kernel, call, block_size)]
    assert SCALAR in kernels
    for kernel in kernels:
        result = launch(kernel, call, block_size)
        assert result.dtype == dtype
        reference(call, kernel, block_size).check(result)


@pytest.mark.parametrize("kernel", MATMULS)
def test_the_bound_is_tight_enough_to_notice_one_wrong_code(kernel: str) -> None:
    call = random_call(2, 32, 128, seed=4)
    wrong = call._replace(weight=call.weight.clone())
    wrong.weight[0, 0] ^= 0x04
    result = launch(kernel, wrong)
    with pytest.raises(AssertionError):
        reference(call, kernel).check(result)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kernel", MATMULS)
def test_exact_data_gives_exact_results(kernel: str, dtype: torch.dtype) -> None:
    """Few significant bits, scales of 0.5, 1, 2: each order of summation gives the same.

    The largest magnitude of each block is 6 * 448 / 512, so NVFP4 holds the activations too.
    """
    generator = torch.Generator().manual_seed(9)
    M, N, K = 4, 64, 256
    a = torch.tensor(E2M1_VALUES)[torch.randint(0, 16, (M, K), generator=generator)]
    a[:, ::16] = 6.0
    a *= 448 / 512
    weight = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, generator=generator)
    scale = torch.tensor([0.5, 1.0, 2.0])[torch.randint(0, 3, (N, K // 16), generator=generator)]
    bias = torch.randint(-8, 9, (N,), generator=generator).to(dtype)
    call = Call(a.to(dtype), weight, scale.to(torch.float8_e4m3fn), torch.tensor(0.5), bias)
    values = torch.tensor(E2M1_VALUES, dtype=torch.float64)[unpack(weight).int()]
    exact = a.double() @ (values * scale.double().repeat_interleave(16, 1) * 0.5).T + bias.double()
    assert torch.equal(launch(kernel, call), exact.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("kernel", "K", "block_size"),
    [(FLAT, 64, 8), (FLAT, 128, 32), (VEC8, 64, 16), (VEC8, 48, 6), (SCALAR, 64, 16), (SCALAR, 48, 5)],
)
def test_identity_gives_the_dequantised_matrix_back(kernel: str, K: int, block_size: int, dtype: torch.dtype) -> None:
    weight = random_weight(12, K, block_size)
    result = launch(kernel, Call(torch.eye(K, dtype=dtype), *weight, None), block_size)
    assert torch.equal(result.T, dequantize_nvfp4(*weight, block_size=block_size, dtype=dtype))


@pytest.mark.parametrize("kernel", ["Fp4MmaGemvKernel", "Fp4GemvKernel"])
def test_identity_through_decode_kernels(kernel: str) -> None:
    weight = random_weight(12, 128, scale_2=0.25)
    rows = [
        launch(kernel, Call(torch.eye(128, dtype=torch.float16)[first : first + 8], *weight, None))
        for first in range(0, 128, 8)
    ]
    assert torch.equal(torch.cat(rows).T, dequantize_nvfp4(*weight, dtype=torch.float16))


@pytest.mark.parametrize("kernel", MATMULS)
def test_a_nan_scale_reaches_its_row_and_no_other(kernel: str) -> None:
    call = random_call(3, 32, 128, bias=True)
    call.weight_scale.view(torch.uint8)[5, 2] = 0x7F
    isnan = launch(kernel, call).isnan()
    assert bool(isnan[:, 5].all())
    assert int(isnan.sum()) == 3


@pytest.mark.parametrize("kernel", ["Fp4MmaGemvKernel", "Fp4GemvKernel"])
def test_decode_kernels_do_not_overflow_where_the_dequantised_weight_would(kernel: str) -> None:
    """g = 64 makes 6 * 448 * g infinite in float16; the fused kernels apply g after the sum."""
    weight = torch.full((2, 64), 0x77, dtype=torch.uint8)
    scale = torch.full((2, 8), 448.0).to(torch.float8_e4m3fn)
    call = Call(torch.full((1, 128), 2.0**-10, dtype=torch.float16), weight, scale, torch.tensor(64.0), None)
    assert launch(kernel, call).tolist() == [[6.0 * 448 * 64 / 8] * 2]
    assert launch(VEC8, call).tolist() == [[float("inf")] * 2]


def test_native_is_the_only_kernel_that_rounds_activations() -> None:
    call = random_call(4, 32, 64, seed=2)
    exact = reference(call, VEC8)
    exact.check(launch(VEC8, call))
    with pytest.raises(AssertionError):
        exact.check(launch("NativeFp4Matmul", call))


# --- contracts


@pytest.mark.parametrize("kernel", LAUNCHERS)
def test_the_contract_of_each_twin_is_that_of_the_table(kernel: str) -> None:
    seen = set()
    for M, N, K in itertools.product((0, 1, 8, 9), (0, 1, 31, 32), (0, 8, 12, 32, 64, 128)):
        for block_size, sm in itertools.product((1, 2, 6, 16, 32), (75, 80, 103, 120, 121)):
            call = random_call(M, N, K, block_size)
            problem, operands = prepare(*call, block_size, sm=sm, native=True)
            expected = contract(kernel, problem)
            seen.add(expected)
            if expected and kernel != "Empty":
                assert LAUNCHERS[kernel](problem, operands).shape == (M, N)
            elif not expected:
                with pytest.raises(ContractError, match=f"{kernel}: outside its contract: expected "):
                    LAUNCHERS[kernel](problem, operands)
    assert seen == ({True} if kernel in (SCALAR, "Empty") else {True, False})


def test_empty_refuses_what_is_not_empty() -> None:
    with pytest.raises(ContractError, match="Empty: outside its contract: expected M == 0 or N == 0"):
        launch("Empty", random_call(1, 1, 16))

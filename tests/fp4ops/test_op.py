"""The operator: each kernel reached through it, shapes, the fake implementation, torch.compile, gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor

from dispatchcov.plugin.assertions import DispatchTrace
from fp4ops import Fp4Linear, dequantize_nvfp4, matmul_nvfp4
from fp4ops.testing import Call, random_call, random_weight, reference

HALVES = [torch.float16, torch.bfloat16]
OP = torch.ops.fp4ops.matmul_nvfp4.default
Run: TypeAlias = Callable[..., str]


@pytest.fixture
def run(dispatch_trace: DispatchTrace) -> Run:
    """Run a call, compare it with float64, and return the kernel that was selected."""

    def checked(call: Call, block_size: int = 16) -> str:
        result = matmul_nvfp4(*call, block_size=block_size)
        kernel = dispatch_trace.decisions[-1].kernel
        reference(call, kernel, block_size).check(result)
        return kernel

    return checked


# --- each rule, through the operator


@pytest.mark.dispatch("decode-mma", kernel="Fp4MmaGemvKernel")
@pytest.mark.parametrize("dtype", HALVES)
def test_decode_with_whole_windows_runs_the_tensor_core_kernel(run: Run, dtype: torch.dtype) -> None:
    for M, K in ((1, 128), (8, 384)):
        assert run(random_call(M, 5, K, dtype=dtype, bias=M == 8)) == "Fp4MmaGemvKernel"


@pytest.mark.dispatch("decode-gemv", kernel="Fp4GemvKernel", fallback={"decode-mma": "K % 128 == 0"})
@pytest.mark.parametrize("dtype", HALVES)
def test_decode_with_whole_slices_runs_the_scalar_kernel(run: Run, dtype: torch.dtype) -> None:
    for M, K in ((1, 32), (8, 1120)):
        assert run(random_call(M, 5, K, dtype=dtype, bias=M == 8)) == "Fp4GemvKernel"


@pytest.mark.dispatch("decode-gemv", fallback={"decode-mma": "sm >= 80"})
def test_decode_on_an_old_architecture(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FP4OPS_TARGET", "sm_75")
    assert run(random_call(4, 5, 128)) == "Fp4GemvKernel"


@pytest.mark.dispatch("native-sm120", kernel="NativeFp4Matmul")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("bias", [False, True])
def test_native_matmul(run: Run, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, bias: bool) -> None:
    monkeypatch.setenv("FP4OPS_TARGET", "sm_120")
    monkeypatch.setenv("FP4OPS_NATIVE", "1")
    assert run(random_call(9, 64, 96, dtype=dtype, bias=bias)) == "NativeFp4Matmul"


@pytest.mark.dispatch("prefill-flat", fallback={"native-sm120": "native"})
def test_native_is_off_unless_switched_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FP4OPS_TARGET", "sm_120")
    assert run(random_call(9, 64, 192)) == "DequantizeNvFp4FlatKernel"


@pytest.mark.dispatch("prefill-flat", kernel="DequantizeNvFp4FlatKernel")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("block_size", [8, 16, 32, 64])
def test_prefill_with_blocks_that_fill_rows(run: Run, block_size: int, dtype: torch.dtype, bias: bool) -> None:
    call = random_call(9, 5, 192, block_size, dtype, bias)
    assert run(call, block_size) == "DequantizeNvFp4FlatKernel"


@pytest.mark.dispatch(
    "prefill-vec8", kernel="DequantizeNvFp4Vec8Kernel", fallback={"prefill-flat": "block_size in [8, 16, 32, 64]"}
)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("bias", [False, True])
def test_prefill_with_an_even_block(run: Run, dtype: torch.dtype, bias: bool) -> None:
    assert run(random_call(9, 5, 192, 24, dtype, bias), 24) == "DequantizeNvFp4Vec8Kernel"


@pytest.mark.dispatch("prefill-vec8", fallback={"prefill-flat": "K % 64 == 0"})
@pytest.mark.parametrize("K", [8, 72, 96, 4064])
def test_prefill_with_rows_of_whole_chunks(run: Run, K: int) -> None:
    assert run(random_call(9, 5, K)) == "DequantizeNvFp4Vec8Kernel"


@pytest.mark.dispatch("vec8-scale-inside-chunk")
@pytest.mark.parametrize("block_size", [2, 4, 6, 12, 20])
def test_prefill_with_a_scale_boundary_inside_a_chunk(run: Run, block_size: int) -> None:
    assert run(random_call(9, 5, 64, block_size), block_size) == "DequantizeNvFp4Vec8Kernel"


@pytest.mark.dispatch("vec8-row-loop")
def test_prefill_with_more_rows_than_a_grid_has(run: Run) -> None:
    assert run(random_call(1, 2 * 65_535 + 2, 8, bias=True)) == "DequantizeNvFp4Vec8Kernel"


@pytest.mark.dispatch("odd-block", kernel="DequantizeNvFp4Kernel", fallback={"prefill-vec8": "block_size % 2 == 0"})
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("block_size", [1, 5, 15, 99])
def test_prefill_with_an_odd_block(run: Run, block_size: int, dtype: torch.dtype) -> None:
    call = random_call(10, 5, 32, block_size, dtype, bias=block_size == 5)
    assert run(call, block_size) == "DequantizeNvFp4Kernel"


@pytest.mark.dispatch("ragged-K", kernel="DequantizeNvFp4Kernel", fallback={"prefill-vec8": "K % 8 == 0"})
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("K", [2, 12, 62])
def test_prefill_with_a_ragged_k(run: Run, K: int, dtype: torch.dtype) -> None:
    assert run(random_call(12, 5, K, dtype=dtype, bias=K == 12)) == "DequantizeNvFp4Kernel"


@pytest.mark.dispatch("small-M-prefill")
@pytest.mark.parametrize(("K", "block_size"), [(48, 16), (64, 8), (24, 5), (36, 16)])
def test_few_rows_that_are_not_decode(run: Run, K: int, block_size: int) -> None:
    assert run(random_call(4, 5, K, block_size), block_size).startswith("Dequantize")


@pytest.mark.dispatch("zero-k", kernel="FillBias")
@pytest.mark.parametrize("dtype", HALVES)
def test_no_columns_give_bias_or_zeros(dtype: torch.dtype) -> None:
    call = random_call(3, 5, 0, dtype=dtype, bias=True)
    assert call.bias is not None
    torch.testing.assert_close(matmul_nvfp4(*call), call.bias.expand(3, 5), rtol=0, atol=0)
    zeros = matmul_nvfp4(*call._replace(bias=None))
    torch.testing.assert_close(zeros, torch.zeros(3, 5, dtype=dtype), rtol=0, atol=0)


@pytest.mark.dispatch("empty", kernel="Empty")
@pytest.mark.parametrize(("M", "N", "K"), [(0, 5, 64), (3, 0, 64), (0, 0, 64), (0, 5, 0), (3, 0, 0)])
def test_no_rows_or_no_outputs_give_an_empty_result(M: int, N: int, K: int) -> None:
    result = matmul_nvfp4(*random_call(M, N, K, dtype=torch.bfloat16, bias=True))
    torch.testing.assert_close(result, torch.empty(M, N, dtype=torch.bfloat16))


@pytest.mark.parametrize("sm", [75, 90, 120])
@pytest.mark.parametrize("dequantize", ["flat", "vec8", "scalar"])
def test_every_way_past_the_earlier_rules(run: Run, monkeypatch: pytest.MonkeyPatch, dequantize: str, sm: int) -> None:
    """M, N, K, block_size, the architecture and the switches each alone, and together, keep an input from them."""
    monkeypatch.setenv("FP4OPS_TARGET", f"sm_{sm}")
    monkeypatch.setenv("FP4OPS_DEQUANTIZE", dequantize)
    for native, K in itertools.product(("on", "off"), (128, 192, 96, 72, 60)):
        monkeypatch.setenv("FP4OPS_NATIVE", native)
        for M, N, block_size in itertools.product((1, 9, 33), (5, 32), (16, 8, 6, 5)):
            run(random_call(M, N, K, block_size, torch.bfloat16), block_size)


@pytest.mark.parametrize(
    ("dequantize", "K", "block_size", "kernel", "because"),
    [
        ("flat", 128, 32, "DequantizeNvFp4FlatKernel", {}),
        ("flat", 128, 6, "DequantizeNvFp4Vec8Kernel", {"prefill-flat": "block_size in [8, 16, 32, 64]"}),
        ("flat", 60, 16, "DequantizeNvFp4Kernel", {"prefill-vec8": "K % 8 == 0"}),
        ("vec8", 128, 32, "DequantizeNvFp4Vec8Kernel", {"prefill-flat": "dequantize in ['auto', 'flat']"}),
        ("vec8", 128, 5, "DequantizeNvFp4Kernel", {"prefill-vec8": "block_size % 2 == 0"}),
        ("scalar", 128, 32, "DequantizeNvFp4Kernel", {"prefill-vec8": "dequantize != 'scalar'"}),
        ("scalar", 128, 5, "DequantizeNvFp4Kernel", {}),
    ],
)
def test_a_forced_dequantizer_leaves_what_it_cannot_take_to_the_next(
    run: Run,
    dispatch_trace: DispatchTrace,
    monkeypatch: pytest.MonkeyPatch,
    dequantize: str,
    K: int,
    block_size: int,
    kernel: str,
    because: dict[str, str],
) -> None:
    call = random_call(9, 5, K, block_size, bias=True)
    expected = matmul_nvfp4(*call, block_size=block_size)
    monkeypatch.setenv("FP4OPS_DEQUANTIZE", dequantize)
    assert run(call, block_size) == kernel
    assert torch.equal(matmul_nvfp4(*call, block_size=block_size), expected)
    for rule, predicate in because.items():
        dispatch_trace.assert_fallback(rule, because=predicate)


@pytest.mark.dispatch("decode-mma")
@pytest.mark.parametrize("dequantize", ["flat", "vec8", "scalar"])
def test_a_forced_dequantizer_leaves_decode_alone(run: Run, monkeypatch: pytest.MonkeyPatch, dequantize: str) -> None:
    monkeypatch.setenv("FP4OPS_DEQUANTIZE", dequantize)
    assert run(random_call(4, 5, 128)) == "Fp4MmaGemvKernel"


# --- shapes


@pytest.mark.parametrize("shape", [(64,), (1, 64), (2, 3, 64), (2, 0, 64), (1, 1, 1, 64)], ids=str)
def test_leading_dimensions_come_back(shape: tuple[int, ...]) -> None:
    weight = random_weight(5, 64)
    a = torch.randn(shape).half()
    result = matmul_nvfp4(a, *weight)
    assert result.shape == (*shape[:-1], 5)
    assert result.is_contiguous()
    assert torch.equal(result.reshape(-1, 5), matmul_nvfp4(a.reshape(-1, 64), *weight))


def test_the_result_shares_no_memory_with_an_argument() -> None:
    call = random_call(1, 4, 0, bias=True)
    assert call.bias is not None
    matmul_nvfp4(*call).fill_(7)
    assert not (call.bias == 7).any()


def test_a_default_device_does_not_move_the_cpu_kernels() -> None:
    call = random_call(9, 32, 64, bias=True)
    with torch.device("meta"):
        result = matmul_nvfp4(*call)
    assert torch.equal(result, matmul_nvfp4(*call))


def test_arguments_by_name_and_from_the_namespace() -> None:
    call = random_call(3, 5, 24, 6)
    assert torch.equal(torch.ops.fp4ops.matmul_nvfp4(**call._asdict(), block_size=6), matmul_nvfp4(*call, block_size=6))


# --- torch.library and torch.compile


@pytest.mark.parametrize(
    ("M", "N", "K", "block_size"), [(2, 4, 128, 16), (9, 4, 24, 6), (9, 4, 20, 5), (0, 4, 16, 16), (3, 4, 0, 16)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_opcheck(monkeypatch: pytest.MonkeyPatch, M: int, N: int, K: int, block_size: int, bias: bool) -> None:
    allclose = torch.allclose

    def comparable(tensor: Tensor) -> Tensor:  # opcheck compares arguments by allclose, which knows no float8
        return tensor.view(torch.uint8) if tensor.dtype == torch.float8_e4m3fn else tensor

    monkeypatch.setattr(torch, "allclose", lambda a, b, **other: allclose(comparable(a), comparable(b), **other))
    call = random_call(M, N, K, block_size, bias=bias)
    arguments = (call.a.requires_grad_(), *call[1:])
    results = torch.library.opcheck(OP, arguments, {"block_size": block_size})
    assert set(results.values()) == {"SUCCESS"}


def test_meta_tensors_have_the_right_shape_and_dtype() -> None:
    a, weight, scale, scale_2 = (tensor.to("meta") for tensor in random_call(3, 5, 64, dtype=torch.bfloat16)[:4])
    result = matmul_nvfp4(a, weight, scale, scale_2, a.new_zeros(5))
    assert (result.shape, result.dtype, result.device.type) == ((3, 5), torch.bfloat16, "meta")


@pytest.fixture
def compiled() -> Iterator[Callable[..., Any]]:
    """A compiler that leaves nothing behind."""
    torch.compiler.reset()
    yield lambda function: torch.compile(function, backend="aot_eager", fullgraph=True)
    torch.compiler.reset()


def test_a_compiled_call_decides_and_launches_at_each_run(
    compiled: Callable[..., Any], dispatch_trace: DispatchTrace
) -> None:
    """Tracing decides nothing; each run of the compiled graph is one decision, with the shape of that run."""
    weight = random_weight(5, 128)
    function = compiled(lambda a: torch.relu(matmul_nvfp4(a, *weight)))
    for M, kernel in (
        (2, "Fp4MmaGemvKernel"),
        (3, "Fp4MmaGemvKernel"),
        (33, "DequantizeNvFp4FlatKernel"),
        (4, "Fp4MmaGemvKernel"),
    ):
        before = len(dispatch_trace.decisions)
        a = torch.randn(M, 128).half()
        result = function(a)
        assert [decision.kernel for decision in dispatch_trace.decisions[before:]] == [kernel]
        facts = dispatch_trace.decisions[-1].facts
        assert facts is not None
        assert facts["M"] == M
        assert torch.equal(result, torch.relu(matmul_nvfp4(a, *weight)))
    dispatch_trace.assert_reached("prefill-flat", evidence="launched")


def test_a_compiled_layer_and_its_gradient(compiled: Callable[..., Any], dispatch_trace: DispatchTrace) -> None:
    layer = Fp4Linear.from_quantized(random_weight(5, 64), torch.zeros(5).bfloat16())
    x = torch.randn(3, 64).bfloat16()
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    compiled(layer)(ours).sum().backward()
    assert len(dispatch_trace.decisions) == 1
    layer(theirs).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    assert torch.equal(ours.grad, theirs.grad)


def test_the_default_compiler_runs_it_too(dispatch_trace: DispatchTrace) -> None:
    call = random_call(9, 5, 24, 6)
    function = torch.compile(lambda *tensors: matmul_nvfp4(*tensors, block_size=6), fullgraph=True)
    assert torch.equal(function(*call), matmul_nvfp4(*call, block_size=6))
    assert [decision.rule for decision in dispatch_trace.decisions] == ["prefill-vec8"] * 2
    torch.compiler.reset()


# --- autocast


@pytest.mark.parametrize("around", HALVES)
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("call", [matmul_nvfp4, OP], ids=["function", "operator"])
def test_autocast_casts_activations_and_bias_as_those_of_a_linear_layer(
    call: Callable[..., Tensor], dtype: torch.dtype, around: torch.dtype
) -> None:
    a, weight, bias = torch.randn(3, 64).to(dtype), random_weight(5, 64), torch.randn(5)
    with torch.autocast("cpu", dtype=around):
        result = call(a, *weight, bias)
        assert result.dtype == torch.nn.functional.linear(a, torch.randn(5, 64), bias).dtype == around
    assert torch.equal(result, matmul_nvfp4(a.to(around), *weight, bias.to(around)))


def test_autocast_leaves_float64_and_what_is_switched_off_alone(dispatch_trace: DispatchTrace) -> None:
    call = random_call(3, 5, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(TypeError, match="expected dtype float16 or bfloat16, got float64"):
            matmul_nvfp4(call.a.double(), *call[1:])
        with torch.autocast("cpu", enabled=False):
            assert matmul_nvfp4(*call).dtype == torch.float16
    assert [decision.facts and decision.facts["dtype"] for decision in dispatch_trace.decisions] == ["float16"]


@pytest.mark.parametrize("inside", [False, True], ids=["around", "inside"])
def test_autocast_of_what_is_compiled(
    compiled: Callable[..., Any], dispatch_trace: DispatchTrace, inside: bool
) -> None:
    layer = Fp4Linear.from_quantized(random_weight(5, 64), torch.zeros(5).bfloat16())
    x = torch.randn(3, 64)

    def cast(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.float16):
            return torch.relu(layer(x))

    if inside:
        result = compiled(cast)(x)
    else:
        with torch.autocast("cpu", dtype=torch.float16):
            result = compiled(lambda x: torch.relu(layer(x)))(x)
    assert len(dispatch_trace.decisions) == 1
    assert torch.equal(result, cast(x))


def test_the_gradient_through_autocast_has_the_dtype_of_its_tensor() -> None:
    weight = random_weight(5, 64)
    a, bias = torch.randn(3, 64).requires_grad_(), torch.randn(5).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.autograd.backward(matmul_nvfp4(a, *weight, bias).float().sum())
    cast = a.detach().bfloat16().requires_grad_()
    torch.autograd.backward(matmul_nvfp4(cast, *weight).float().sum())
    assert a.grad is not None
    assert bias.grad is not None
    assert cast.grad is not None
    assert (a.grad.dtype, bias.grad.dtype) == (torch.float32, torch.float32)
    assert torch.equal(a.grad, cast.grad.float())
    assert torch.equal(bias.grad, torch.full((5,), 3.0))


# --- gradients


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("shape", "K", "block_size"), [((2, 128), 128, 16), ((2, 5, 24), 24, 6), ((20,), 20, 5)], ids=str
)
def test_the_gradient_goes_through_the_dequantised_weight(
    shape: tuple[int, ...], K: int, block_size: int, dtype: torch.dtype
) -> None:
    weight = random_weight(6, K, block_size)
    dense = dequantize_nvfp4(*weight, block_size=block_size, dtype=dtype)
    a = torch.randn(shape).to(dtype).requires_grad_()
    bias = torch.randn(6).to(dtype).requires_grad_()
    grad = torch.randn(*shape[:-1], 6).to(dtype)
    torch.autograd.backward(matmul_nvfp4(a, *weight, bias, block_size=block_size), grad)

    a32, bias32 = (tensor.detach().float().requires_grad_() for tensor in (a, bias))
    torch.autograd.backward(torch.nn.functional.linear(a32, dense.float(), bias32), grad.float())
    for mine, other in ((a, a32), (bias, bias32)):
        assert mine.grad is not None
        assert mine.grad.dtype == dtype
        assert other.grad is not None
        torch.testing.assert_close(mine.grad.float(), other.grad, rtol=2 * torch.finfo(dtype).eps, atol=1e-3)


def test_no_gradient_is_kept_where_none_is_asked_for() -> None:
    call = random_call(2, 6, 64, bias=True)
    assert not matmul_nvfp4(*call).requires_grad
    a = call.a.clone().requires_grad_()
    with torch.no_grad():
        assert not matmul_nvfp4(a, *call[1:]).requires_grad


def test_the_weight_can_be_frozen_and_an_adapter_beside_it_trained() -> None:
    layer = Fp4Linear.from_quantized(random_weight(6, 32))
    assert list(layer.parameters()) == []
    adapter = torch.nn.Linear(32, 6, dtype=torch.bfloat16)
    first = torch.nn.Linear(32, 32, dtype=torch.bfloat16)
    x = first(torch.randn(4, 32).bfloat16())
    (layer(x) + adapter(x)).sum().backward()
    assert first.weight.grad is not None
    assert bool(first.weight.grad.any())


@pytest.mark.parametrize("name", ["weight_scale_2", "weight_scale"])
def test_a_gradient_for_a_scale_is_refused(name: str) -> None:
    call = random_call(2, 6, 64)
    wanted: Tensor = getattr(call, name).requires_grad_()
    message = f"{name}: expected a tensor without requires_grad; gradients are defined for a and bias only"
    with pytest.raises(ValueError, match=message):
        matmul_nvfp4(*call._replace(**{name: wanted}))

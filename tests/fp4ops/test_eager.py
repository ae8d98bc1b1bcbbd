"""A call that skips torch's dispatcher gives what one through it gives; one that is looked at does not skip it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from fp4ops import eager, matmul_nvfp4, op
from fp4ops.testing import Call, random_call

OP = torch.ops.fp4ops.matmul_nvfp4.default
CALL = random_call(3, 5, 64, bias=True)


@pytest.fixture
def through(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets a word for each call that goes through the dispatcher; that the run itself is profiled does not count."""
    calls: list[str] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append("through")
        return OP(*arguments, **options)

    monkeypatch.setattr(op, "OP", counted)
    monkeypatch.setattr(eager, "_profiler_enabled", lambda: False)
    return calls


@pytest.mark.parametrize("around", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("call", [CALL, CALL._replace(bias=None), random_call(0, 5, 64), random_call(2, 3, 0)])
def test_an_eager_call_skips_it_and_gives_the_same(through: list[str], around: Callable[[], Any], call: Call) -> None:
    with around():
        assert torch.equal(matmul_nvfp4(*call), OP(*call))
    assert through == []


def test_leading_dimensions_and_block_size(through: list[str]) -> None:
    call = random_call(6, 5, 24, 6)
    a = call.a.view(2, 3, 24)
    assert torch.equal(matmul_nvfp4(a, *call[1:], block_size=6), OP(a, *call[1:], block_size=6))
    assert through == []


def test_parameters_are_plain(through: list[str]) -> None:
    """A frozen bias, and activations that are a parameter, as a learned first token is."""
    assert CALL.bias is not None
    bias = nn.Parameter(CALL.bias, requires_grad=False)
    a = nn.Parameter(CALL.a, requires_grad=False)
    assert torch.equal(matmul_nvfp4(a, *CALL[1:4], bias), matmul_nvfp4(*CALL))
    assert through == []


@pytest.mark.parametrize("name", ["a", "bias"])
def test_what_needs_a_gradient(through: list[str], name: str) -> None:
    tensor: Tensor = getattr(CALL, name).clone().requires_grad_()
    call = CALL._replace(**{name: tensor})
    torch.autograd.backward(matmul_nvfp4(*call).sum())
    assert tensor.grad is not None
    assert through == ["through"]
    with torch.no_grad():
        assert not matmul_nvfp4(*call).requires_grad
    assert through == ["through"]


SEEN: list[str] = []


class Watcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the names of the operators that it sees."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(str(function))
        return function(*args, **(kwargs or {}))


class FunctionWatcher(TorchFunctionMode):
    """The same a level higher."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [Watcher, FunctionWatcher])
def test_a_mode_sees_the_operator(mode: Callable[[], Any]) -> None:
    SEEN.clear()
    with mode():
        matmul_nvfp4(*CALL)
    assert "fp4ops.matmul_nvfp4.default" in SEEN


def test_a_profiler_sees_the_operator() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        matmul_nvfp4(*CALL)
    assert "fp4ops::matmul_nvfp4" in [event.name for event in profiler.events()]


def test_autocast_goes_through_the_dispatcher(through: list[str]) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        matmul_nvfp4(*CALL)
    assert through == ["through"] * 2  # once more below autocast, with what it cast
    matmul_nvfp4(*CALL)
    assert through == ["through"] * 2


def test_fake_tensors_compute_nothing() -> None:
    with FakeTensorMode() as mode:
        fake = Call(*(None if part is None else mode.from_tensor(part) for part in CALL))  # type: ignore[arg-type]
    outside = matmul_nvfp4(*fake)
    with mode:
        inside = matmul_nvfp4(*fake)
    for result in (outside, inside):
        assert type(result).__name__ == "FakeTensor"
        assert result.shape == (3, 5)


def test_a_trace_holds_the_operator() -> None:
    traced = torch.jit.trace(lambda a: matmul_nvfp4(a, *CALL[1:]), (CALL.a,))  # type: ignore[no-untyped-call]
    assert "fp4ops::matmul_nvfp4" in str(traced.graph)


def test_vmap_runs_it_row_by_row() -> None:
    result = torch.vmap(lambda row: matmul_nvfp4(row, *CALL[1:]))(CALL.a)
    assert torch.equal(result, torch.stack([matmul_nvfp4(row, *CALL[1:]) for row in CALL.a]))


class Marked(Tensor):
    """A tensor class of someone else's."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(str(function))
        return super().__torch_function__(function, types, args, kwargs or {})  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", ["a", "weight", "weight_scale", "weight_scale_2", "bias"])
def test_a_tensor_of_another_class_sees_the_operator(name: str) -> None:
    call = CALL._replace(**{name: getattr(CALL, name).as_subclass(Marked)})
    SEEN.clear()
    matmul_nvfp4(*call)
    assert "fp4ops.matmul_nvfp4.default" in SEEN


@pytest.mark.parametrize("name", ["a", "weight_scale_2", "bias"])
def test_negatives_of_what_memory_holds_are_resolved_on_the_way(through: list[str], name: str) -> None:
    opposite = torch._neg_view(-getattr(CALL, name))
    assert opposite.is_neg()
    assert torch.equal(matmul_nvfp4(*CALL._replace(**{name: opposite})), matmul_nvfp4(*CALL))
    assert through == ["through"]


@pytest.mark.parametrize("convert", [Tensor.to_sparse, Tensor.to_mkldnn])
def test_tensors_without_memory_are_refused(convert: Callable[[Tensor], Tensor]) -> None:
    a = convert(CALL.a.to(torch.bfloat16))
    with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
        matmul_nvfp4(a, *CALL[1:4])

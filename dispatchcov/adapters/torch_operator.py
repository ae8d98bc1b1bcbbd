"""An operator of PyTorch with its table: what gives facts and kernels for real arguments, and inputs to try them on."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dispatchcov.errors import UsageError
from dispatchcov.expr import Value
from dispatchcov.table import Table

DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Call:
    """Arguments of one call; ``settings`` puts PyTorch's switches where it needs them, as a context."""

    arguments: tuple[Any, ...]
    named: dict[str, Any]
    settings: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


@dataclass(frozen=True)
class Operator:
    """One operator. ``facts`` and ``kernel`` take the arguments of ``function``, which calls it.

    ``samples`` are its names in PyTorch's list of operators, each with what turns a sample of it into arguments.
    ``draw`` makes a random call on a device, ``build`` one that has given facts; both raise :class:`UsageError` for
    what can not be made there. ``kinds`` are the observers that can tell its kernels apart.
    """

    table: Table
    function: Callable[..., Any]
    facts: Callable[..., dict[str, Value]]
    kernel: Callable[..., str]
    samples: Mapping[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]]
    draw: Callable[[random.Random, str], Call]
    build: Callable[[Mapping[str, Value], str], Call]
    kinds: tuple[str, ...] = ("torch-operators", "torch")


def machine(device: str) -> str:
    """The label of the machine that decides: the name of the GPU, or the CPU's."""
    from dispatchcov.decide import DEFAULT_MACHINE

    if device == "cpu":
        return DEFAULT_MACHINE
    import torch

    return torch.cuda.get_device_name()


def hardware(table: Table, device: str) -> str:
    """The value of the table's ``device`` for a device of PyTorch: ``cpu`` or ``sm_90``.

    Raises :class:`UsageError` for a GPU that the table does not know.
    """
    if device == "cpu":
        return "cpu"
    import torch

    if device != "cuda" or not torch.cuda.is_available():
        raise UsageError(f"{table.op}: expected the device cpu or a CUDA GPU that is there, got {device}")
    major, minor = torch.cuda.get_device_capability()
    if (name := f"sm_{major}{minor}") not in table.variable("device").values:
        raise UsageError(f"{table.op}: expected device to be {table.variable('device').domain()}, got {name}")
    return name


def device_of(facts: Mapping[str, Value]) -> str:
    """The device of PyTorch that ``facts`` are about."""
    return "cpu" if facts["device"] == "cpu" else "cuda"


def dtype_name(dtype: object) -> str:
    """``float16`` for ``torch.float16``; ``other`` if no table tells it from others."""
    name = str(dtype).removeprefix("torch.")
    return name if name in DTYPES else "other"


def dtype_of(name: Value) -> Any:
    """The dtype called ``name``; complex64 for ``other``, which can require a gradient."""
    import torch

    return getattr(torch, str(name)) if name in DTYPES else torch.complex64


def tensor(sizes: Sequence[int], dtype: Any, device: str, *, unit_stride: bool = True, grad: bool = False) -> Any:
    """A random tensor; without ``unit_stride`` its last dimension is one of stride 2 or more, whatever its size."""
    import torch

    sizes = tuple(sizes)
    real = torch.rand(sizes if unit_stride else (*sizes, 2), device=device).to(dtype)
    if not unit_stride:
        real = real[..., 0]
    return real.requires_grad_() if grad else real


@contextlib.contextmanager
def switched(**values: tuple[Callable[[], Any], Callable[[Any], object], bool | int]) -> Iterator[None]:
    """Put each switch, given by what reads and what writes it, to its value, and back afterwards."""
    before = [(write, read()) for read, write, _ in values.values()]
    try:
        for _, write, value in values.values():
            write(value)
        yield
    finally:
        for write, value in before:
            write(value)

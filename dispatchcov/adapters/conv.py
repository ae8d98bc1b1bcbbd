"""Convolutions of PyTorch: which backend they use, by the table ``conv.toml``.

``python -m dispatchcov.adapters.conv --samples`` says which partitions PyTorch's own sample inputs reach.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dispatchcov.adapters.torch_operator import (
    DTYPES,
    Call,
    Operator,
    device_of,
    dtype_name,
    dtype_of,
    hardware,
    switched,
    tensor,
)
from dispatchcov.errors import FactsError, UsageError
from dispatchcov.expr import Value
from dispatchcov.loading.load import load_table
from dispatchcov.table import Table

UNNAMED = {"Mkldnn": "MkldnnTranspose", "Mps": "MpsTranspose"}
"""Backends to which PyTorch gives no name in Python, by the one before them."""


@functools.cache
def table() -> Table:
    """The table."""
    return load_table(os.path.join(os.path.dirname(__file__), "conv.toml"))


def facts(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> dict[str, Value]:
    """The facts of a call of ``torch.convolution``, whose arguments they are.

    Raises :class:`FactsError` for inputs that PyTorch refuses or the table is not about.
    """
    import torch

    dims = weight.dim() - 2
    if input.dim() != weight.dim() or dims not in (1, 2, 3) or input.is_mkldnn:
        raise FactsError(
            f"{table().op}: expected a dense input with batch and weight of 3 to 5 dimensions, got "
            f"{tuple(input.shape)} and {tuple(weight.shape)}"
        )
    strides = _computed(stride, dims, 1)
    sizes, filters = ([1] * (dims == 1) + list(t.shape[2:]) for t in (input, weight))
    wanted = any(t is not None and t.requires_grad for t in (input, weight, bias))
    return {
        "device": hardware(table(), input.device.type),
        "dtype": dtype_name(input.dtype),
        "dims": dims,
        "N": input.shape[0],
        "in_per_group": input.shape[1] // groups,
        "out_per_group": weight.shape[1] if transposed else weight.shape[0] // groups,
        "groups": groups,
        "height": sizes[0],
        "width": sizes[1],
        "kernel_height": filters[-2],
        "kernel_width": filters[-1],
        "stride_1": strides[0],
        "stride_2": strides[1],
        "stride_3": strides[2] if dims == 3 else 1,
        "dilated": any(step != 1 for step in dilation),
        "transposed": transposed,
        "big_output_padding": any(
            pad >= step for pad, step in zip(_computed(output_padding, dims, 0), strides, strict=True)
        ),
        "channels_last": dims > 1 and input.dtype != torch.float64 and _channels_last(input, weight),
        "grad": torch.is_grad_enabled() and wanted,
        **_machine(),
    }


def _computed(values: Sequence[int], dims: int, first: int) -> list[int]:
    """One value a dimension, with that of the height which a one-dimensional convolution gets."""
    full = list(values) * dims if len(values) == 1 else list(values)
    return [first, *full] if dims == 1 else full


def _channels_last(input: Any, weight: Any) -> bool:
    import torch
    from torch._prims_common import suggest_memory_format

    wanted = torch.channels_last if weight.dim() == 4 else torch.channels_last_3d
    return any(suggest_memory_format(t) == wanted for t in (input, weight))


def _machine() -> dict[str, Value]:
    import torch

    return {
        "threads": torch.get_num_threads(),
        "mkldnn": bool(torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()),  # type: ignore[no-untyped-call]
        "nnpack": bool(torch.backends.nnpack.is_available() and torch._C._get_nnpack_enabled()),  # type: ignore[no-untyped-call]
        "cudnn": bool(torch.backends.cudnn.is_available() and torch._C._get_cudnn_enabled()),  # type: ignore[no-untyped-call]
        "cpu_float16": bool(torch.ops.mkldnn._is_mkldnn_fp16_supported()),
        "cpu_bfloat16": bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    }


def kernel(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> str:
    """What PyTorch chooses, by its own function; a backend that it does not name in Python gets its name from here."""
    import torch

    backend: Any = torch._C._select_conv_backend(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    name = backend.name
    if name != "???":
        return str(name).rstrip(",")
    known: dict[int, str] = {int(value): key for key, value in type(backend).__members__.items()}
    return UNNAMED.get(known.get(int(backend) - 1, ""), f"backend {int(backend)}")


def convolution(*arguments: Any) -> Any:
    """PyTorch's function itself."""
    import torch

    return torch.convolution(*arguments)


def settings(given: Mapping[str, Value]) -> Any:
    """A context in which PyTorch's switches and threads are as in the facts ``given``."""
    import torch

    return switched(
        mkldnn=(torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled, bool(given["mkldnn"])),
        nnpack=(torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled, bool(given["nnpack"])),
        cudnn=(torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled, bool(given["cudnn"])),
        threads=(torch.get_num_threads, torch.set_num_threads, int(given["threads"])),
    )


def build(given: Mapping[str, Value], device: str) -> Call:
    """A call with the facts ``given``; raises :class:`UsageError` if no tensors, or not this machine, have them."""
    if device != device_of(given):
        raise UsageError(f"{table().op}: expected facts of {device}, got those of {given['device']}")
    if given["transposed"] and given["in_per_group"] == 0:
        raise UsageError(f"{table().op}: PyTorch refuses a transposed convolution of no channels")
    number = {name: int(found) for name, found in given.items() if isinstance(found, int)}
    dims, transposed = number["dims"], bool(given["transposed"])
    sizes = [number["height"], number["width"], 2][dims == 1 :][:dims]
    filters = [1, number["kernel_height"], number["kernel_width"]][-dims:]
    stride = [number["stride_1"], number["stride_2"], number["stride_3"]][dims == 1 :][:dims]
    dilation = [1 + number["dilated"]] * dims
    padding = [
        0 if transposed else max(0, step * (f - 1) + 1 - s) for f, s, step in zip(filters, sizes, dilation, strict=True)
    ]
    channels = number["groups"] * number["in_per_group"]
    outward = number["out_per_group"] if transposed else number["groups"] * number["out_per_group"]
    dtype, grad = dtype_of(given["dtype"]), bool(given["grad"])
    one = tensor((number["N"], channels, *sizes), dtype, device, grad=grad)
    weight_sizes = (channels, outward, *filters) if transposed else (outward, number["in_per_group"], *filters)
    two = tensor(weight_sizes, dtype, device)
    if given["channels_last"]:
        one = _laid_out(one, dims)
    more = [step if given["big_output_padding"] else 0 for step in stride]
    call = Call(
        (one, two, None, stride, padding, dilation, transposed, more, number["groups"]),
        {},
        functools.partial(settings, dict(given)),
    )
    with call.settings():
        made = facts(*call.arguments)
    wrong = [name for name in table().names if made[name] != given[name]]
    if wrong:
        name = wrong[0]
        raise UsageError(f"{table().op}: no convolution here has {name}={given[name]}, it would be {made[name]}")
    return call


def _laid_out(input: Any, dims: int) -> Any:
    import torch

    if dims == 1:
        return input
    layout = torch.channels_last if dims == 2 else torch.channels_last_3d
    return input.detach().to(memory_format=layout).requires_grad_(input.requires_grad)


def draw(rng: random.Random, device: str) -> Call:
    """A random call, most of them near some boundary of the table."""
    while True:
        try:
            return build(_drawn(rng, device), device)
        except UsageError:  # a layout, or switch, that does not go with the rest
            continue


def _drawn(rng: random.Random, device: str) -> dict[str, Value]:
    dims = rng.choice([1, 2, 2, 3])
    given: dict[str, Value] = {
        "device": hardware(table(), device),
        "dtype": rng.choice([*DTYPES, "float32", "float32"]),
        "dims": dims,
        "N": rng.choice([0, 1, 1, 1, 2, 15, 16, 17]),
        "in_per_group": rng.choice([0, 1, 1, 2, 3]) if rng.random() < 0.2 else rng.choice([1, 2]),
        "out_per_group": rng.choice([1, 2]),
        "groups": rng.choice([1, 1, 2, 3, 31, 32, 128, 256, 512] if device != "cpu" else [1, 1, 1, 2, 3]),
        "height": rng.choice([1, 2, 7, 8, 28, 142]),
        "width": rng.choice([1, 6, 7, 8, 28, 29, 143, 144]),
        "kernel_height": rng.choice([1, 1, 2, 3, 4, 5, 16, 17]),
        "kernel_width": rng.choice([1, 1, 2, 3, 4, 5, 16, 17]),
        "stride_1": rng.choice([1, 1, 2]),
        "stride_2": rng.choice([1, 1, 2, 3]),
        "stride_3": rng.choice([1, 2]) if dims == 3 else 1,
        **{name: rng.random() < 0.25 for name in ("dilated", "transposed", "big_output_padding", "channels_last")},
        "grad": rng.random() < 0.5,
        **_machine(),
        "threads": rng.choice([1, 2]),
    }
    for switch in ("mkldnn", "nnpack", "cudnn"):
        given[switch] = bool(given[switch]) and rng.random() < 0.8
    given["channels_last"] = bool(given["channels_last"]) and dims > 1 and given["dtype"] != "float64"
    if dims == 1:
        given |= {"height": 1, "kernel_height": 1, "stride_1": 1}
    return given


def _batched(
    dims: int,
    transposed: bool,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    *rest: Any,
    **named: Any,
) -> tuple[Any, ...]:
    """Arguments of ``torch.nn.functional`` as those of ``torch.convolution``."""
    names = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
    given = {"stride": stride, "padding": padding, "dilation": 1, "output_padding": 0, "groups": 1}
    given |= dict(zip(names, rest, strict=False)) | named
    each = {name: list(v) if isinstance(v, tuple | list) else v for name, v in given.items() if name != "groups"}
    filters = weight.shape[2:]
    dilation = each["dilation"] if isinstance(each["dilation"], list) else [each["dilation"]] * dims
    if each["padding"] == "same":
        each["padding"] = [step * (size - 1) // 2 for step, size in zip(dilation, filters, strict=True)]
    elif each["padding"] == "valid":
        each["padding"] = 0
    full = {name: v * dims if isinstance(v, list) and len(v) == 1 else v for name, v in each.items()}
    full = {name: v if isinstance(v, list) else [v] * dims for name, v in full.items()}
    if input.dim() == weight.dim() - 1:
        input = input.unsqueeze(0)
    return (
        input, weight, bias, full["stride"], full["padding"], full["dilation"], transposed, full["output_padding"],
        given["groups"],
    )  # fmt: skip


def _sample(dims: int, transposed: bool) -> Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]:
    def arguments(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return _batched(dims, transposed, sample.input, *sample.args, **sample.kwargs), {}

    return arguments


def operator() -> Operator:
    """All of it together."""
    samples = {
        f"nn.functional.conv{'_transpose' if transposed else ''}{dims}d": _sample(dims, transposed)
        for dims in (1, 2, 3)
        for transposed in (False, True)
    }
    return Operator(table(), convolution, facts, kernel, samples, draw, build, ("torch-operators",))


if __name__ == "__main__":
    from dispatchcov.adapters.command import main

    raise SystemExit(main(operator()))

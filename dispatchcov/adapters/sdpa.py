"""scaled_dot_product_attention of PyTorch: which backend it uses, by the table ``sdpa.toml``.

``python -m dispatchcov.adapters.sdpa --samples`` says which partitions PyTorch's own sample inputs reach.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import warnings
from collections.abc import Mapping
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

BACKENDS = ("math", "flash", "efficient", "cudnn", "overrideable")
NOTHING_FITS = ("No available kernel", "No viable backend", "Invalid backend")
SWITCHES = {"flash": "flash", "efficient": "mem_efficient", "cudnn": "cudnn", "math": "math"}


@functools.cache
def table() -> Table:
    """The table."""
    return load_table(os.path.join(os.path.dirname(__file__), "sdpa.toml"))


def facts(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> dict[str, Value]:
    """The facts of a call, as the table wants them; arguments as those of PyTorch's function.

    Raises :class:`FactsError` for arguments that PyTorch refuses or the table is not about: nested tensors, dtypes or
    devices that differ, an order of backends that is not the default one, empty tensors before PyTorch 2.13.
    """
    import torch

    inputs = (query, key, value)
    if any(t.is_nested for t in inputs) or len({(t.dtype, t.device) for t in inputs}) != 1 or query.dim() < 2:
        kinds = "; ".join(f"{'nested ' if t.is_nested else ''}{t.dtype} on {t.device}" for t in inputs)
        raise FactsError(f"{table().op}: expected dense tensors of one dtype on one device, got {kinds}")
    if not zeros_first() and any(t.numel() == 0 for t in inputs):
        raise FactsError(
            f"{table().op}: expected no empty tensor before PyTorch 2.13, whose choice may end the process, got "
            f"{', '.join(str(tuple(t.shape)) for t in inputs)}"
        )
    device = hardware(table(), query.device.type)
    _default_order(device)
    ranks = {t.dim() for t in inputs}
    batches = [t.shape[:-3] for t in inputs]
    names: dict[str, Value] = {"device": device, "dtype": dtype_name(query.dtype)}
    names["rank"] = query.dim() if len(ranks) == 1 else 0
    names["B"] = min(batch.numel() for batch in batches)
    names["same_batch"] = batches[0] == batches[1] == batches[2]
    for letter, place in (("H", -3), ("S", -2), ("D", -1)):
        for of, t in zip("qkv", inputs, strict=True):
            names[f"{letter}_{of}"] = t.shape[place] if t.dim() >= -place else 1
    names["unit_stride"] = all(t.stride(-1) == 1 for t in inputs)
    names |= _mask(query, key, attn_mask)
    names["causal"] = is_causal
    names["dropout"] = dropout_p > 0
    names["grad"] = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
    names["gqa"] = enable_gqa
    for name, switch in SWITCHES.items():
        names[name] = bool(getattr(torch.backends.cuda, f"{switch}_sdp_enabled")())
    names["deterministic"] = (
        torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
    )
    return names


def zeros_first() -> bool:
    """Does PyTorch look for empty tensors before it chooses? 2.13 does, 2.11 does not."""
    import torch

    return bool(torch.__version__ >= (2, 13))  # type: ignore[operator, unused-ignore]


def _mask(query: Any, key: Any, mask: Any) -> dict[str, Value]:
    if mask is None:
        return {"mask": "none", "mask_fits": False, "mask_unit_stride": False, "mask_grad": False}
    wanted = (*query.shape[:2], query.shape[2], key.shape[2]) if query.dim() == key.dim() == 4 else ()
    fits = mask.dim() in (2, 4) and all(
        size in (1, full) for size, full in zip(reversed(mask.shape), reversed(wanted), strict=False)
    )
    return {
        "mask": "bool" if mask.dtype.is_floating_point is False else "float",
        "mask_fits": fits and bool(wanted),
        "mask_unit_stride": mask.stride(-1) == 1,
        "mask_grad": mask.requires_grad,
    }


def _default_order(device: str) -> None:
    """Raise :class:`FactsError` if the user has changed the order in which backends are tried on a GPU."""
    if device == "cpu":
        return
    import torch

    _order_is_set()
    order = [BACKENDS[place] for place in torch._C._get_sdp_priority_order() if 0 <= place < len(BACKENDS)]
    if order[:3] != ["cudnn", "flash", "efficient"]:
        raise FactsError(f"{table().op}: expected the order cudnn, flash, efficient, got {', '.join(order)}")


@functools.cache
def _order_is_set() -> None:
    """PyTorch sets its order with the first choice, whatever becomes of that."""
    import torch

    one = torch.zeros(1, 1, 2, 8, device="cuda", dtype=torch.float16)
    with contextlib.suppress(RuntimeError):
        torch._fused_sdp_choice(one, one, one)


def kernel(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str:
    """What PyTorch chooses for a call, by its own function: a kernel of the table, or ``overrideable``.

    For empty tensors PyTorch does not get to a choice, and that function may kill the process: it is not asked.
    """
    import torch

    if any(t.numel() == 0 for t in (query, key, value)):
        return "zeros"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch explains each backend that it did not take
        try:
            chosen = torch._fused_sdp_choice(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        except RuntimeError as error:
            if any(text in str(error) for text in NOTHING_FITS):
                return "error"
            raise
    return BACKENDS[chosen] if chosen >= 0 else "error"


def attention(*arguments: Any, **named: Any) -> Any:
    """PyTorch's function itself."""
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(*arguments, **named)


def settings(given: Mapping[str, Value]) -> contextlib.AbstractContextManager[None]:
    """A context in which PyTorch's switches are as in the facts ``given``."""
    import torch

    backends = {
        name: (
            getattr(torch.backends.cuda, f"{switch}_sdp_enabled"),
            getattr(torch.backends.cuda, f"enable_{switch}_sdp"),
            bool(given[name]),
        )
        for name, switch in SWITCHES.items()
    }
    deterministic = (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
        bool(given["deterministic"]),
    )
    return switched(**backends, deterministic=deterministic)


def build(given: Mapping[str, Value], device: str) -> Call:
    """A call with the facts ``given``; raises :class:`UsageError` if no tensors have them."""
    if device != device_of(given):
        raise UsageError(f"{table().op}: expected facts of {device}, got those of {given['device']}")
    number = {name: int(found) for name, found in given.items() if isinstance(found, int)}
    dtype, ranks = dtype_of(given["dtype"]), [number["rank"] or 4, *[number["rank"] or 3] * 2]
    batches = [number["B"], number["B"] + (not given["same_batch"]), number["B"] + (not given["same_batch"])]
    tensors = []
    for of, rank, batch in zip("qkv", ranks, batches, strict=True):
        sizes = (batch, *[1] * max(rank - 4, 0), number[f"H_{of}"], number[f"S_{of}"], number[f"D_{of}"])
        tensors.append(
            tensor(sizes[-rank:], dtype, device, unit_stride=bool(given["unit_stride"]), grad=bool(given["grad"]))
        )
    named = {"dropout_p": 0.5 * number["dropout"], "is_causal": bool(given["causal"]), "enable_gqa": bool(given["gqa"])}
    named["attn_mask"] = _build_mask(given, tensors, device)
    return Call(tuple(tensors), named, functools.partial(settings, dict(given)))


def _build_mask(given: Mapping[str, Value], tensors: list[Any], device: str) -> Any:
    if given["mask"] == "none":
        return None
    import torch

    scores = (tensors[0].shape[-2], tensors[1].shape[-2])
    sizes = scores if given["mask_fits"] else (1, *scores)
    dtype = torch.bool if given["mask"] == "bool" else tensors[0].dtype
    unit, grad = bool(given["mask_unit_stride"]), bool(given["mask_grad"])
    return tensor(sizes, dtype, device, unit_stride=unit, grad=grad)


def draw(rng: random.Random, device: str) -> Call:
    """A random call, most of them near some boundary of the table."""
    while True:
        call = _drawn(rng, device)
        if zeros_first() or all(t.numel() for t in call.arguments):
            return call


def _drawn(rng: random.Random, device: str) -> Call:
    odd = rng.choice([0.0, 0.05, 0.3])  # how often one of them is unusual

    def usual(value: Any, *others: Any) -> Any:
        return rng.choice(others) if rng.random() < odd else value

    d, s, h, b = (rng.choice(c) for c in ((8, 16, 3, 4, 64, 1, 12), (1, 2, 5, 17), (1, 2, 4, 6), (1, 2, 3)))
    given = dict.fromkeys(table().names, False) | {
        "device": hardware(table(), device),
        "dtype": rng.choice([*DTYPES, "other"]) if device == "cpu" else rng.choice([*DTYPES[:3], *DTYPES]),
        "rank": usual(4, 0, 2, 3, 5),
        "B": usual(b, 0),
        "same_batch": usual(True, False),
        "unit_stride": usual(True, False),
        "mask": usual(rng.choice(["none", "none", "bool", "float"]), "float"),
        **{f"H_{of}": usual(h, 0, 1, 2, 4, 3) for of in "qkv"},
        **{f"S_{of}": usual(s, 0, 1, 2, 7) for of in "qkv"},
        **{f"D_{of}": usual(d, 0, 1, 8, 72, 136, 256, 264) for of in "qkv"},
        **{name: usual(rng.random() < 0.3, True) for name in ("causal", "grad", "gqa")},
        "dropout": usual(False, True),
        "deterministic": usual(False, True),
        **{name: usual(True, False) for name in SWITCHES},
    }
    if given["gqa"] and given["H_k"]:
        given["H_q"] = usual(int(given["H_k"]) * rng.choice([1, 2, 3]), 5)
    if given["mask"] != "none":
        given["mask_fits"], given["mask_unit_stride"] = usual(True, False), usual(True, False)
        given["mask_grad"] = given["mask"] == "float" and given["dtype"] != "other" and usual(False, True)
    if given["rank"] in (2, 3):
        given["B"] = 1
    if given["rank"] == 2:
        given |= {"H_q": 1, "H_k": 1, "H_v": 1}
    return build(given, device)


def _sample(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (sample.input, *sample.args), sample.kwargs


def operator() -> Operator:
    """All of it together."""
    samples = {"nn.functional.scaled_dot_product_attention": _sample}
    return Operator(table(), attention, facts, kernel, samples, draw, build)


if __name__ == "__main__":
    from dispatchcov.adapters.command import main

    raise SystemExit(main(operator()))

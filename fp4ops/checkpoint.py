"""NVFP4 checkpoints in safetensors, with the tensor names of ModelOpt.

For each quantised linear layer ``name``: ``name.weight`` uint8 ``[N, K / 2]``, ``name.weight_scale`` float8_e4m3fn
``[N, K / 16]``, ``name.weight_scale_2`` float32, and where present ``name.input_scale`` float32 and ``name.bias``. All other
tensors are ordinary ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from fp4ops.nn import Fp4Linear, replace

_Module = TypeVar("_Module", bound=nn.Module)
_BLOCK_SIZES = "fp4ops.block_sizes"
_PARTS = ("weight", "weight_scale", "weight_scale_2")

Path = str | os.PathLike[str]


class CheckpointError(ValueError):
    """A checkpoint and a module do not belong together; the message lists every key at fault."""


def save(module: nn.Module, path: Path) -> None:
    """Write the state of ``module`` to one safetensors file.

    Block sizes other than 16 go into the file's metadata, where :func:`load` finds them. A tensor that several modules
    share is written under each of its names.
    """
    seen: set[int] = set()
    tensors = {}
    for key, value in module.state_dict().items():
        address = value.untyped_storage().data_ptr()
        tensors[key] = value.contiguous() if address not in seen else value.clone(memory_format=torch.contiguous_format)
        seen.add(address)
    sizes = {
        name: layer.block_size
        for name, layer in module.named_modules(remove_duplicate=False)
        if isinstance(layer, Fp4Linear) and layer.block_size != 16
    }
    save_file(tensors, os.fspath(path), {"format": "pt", **({_BLOCK_SIZES: json.dumps(sizes)} if sizes else {})})


def load(module: _Module, *paths: Path, device: str = "cpu", strict: bool = True) -> _Module:
    """Load a checkpoint of one or several safetensors files into ``module``, in place.

    Where the checkpoint has NVFP4 tensors for a layer, an ``nn.Linear`` or :class:`Fp4Linear` of the same shape is replaced
    by an :class:`Fp4Linear` that holds them; every other tensor is copied into the parameter or buffer of its name (or takes its
    place, if that is on the meta device).

    :param device: where the quantised tensors go.
    :param strict: whether keys that ``module`` lacks, or has and the checkpoint lacks, are errors; a wrong shape or dtype
        always is one.
    :raises CheckpointError: with every missing, unexpected and mis-shaped key. ``module`` is unchanged then.
    """
    tensors, sizes = _read(paths, device)
    names = sorted({key.rpartition(".")[0] for key in tensors if key.endswith(".weight_scale_2")})
    problems: list[str] = []
    layers = {}
    for name in names:
        own = {part: tensors.pop(f"{name}.{part}", None) for part in (*_PARTS, "input_scale", "bias")}
        layer = _layer(module, name, own, sizes.get(name, 16), problems)
        if layer is not None:
            layers[name] = layer
    rest = _rest(module, layers)
    problems += _compare(rest, tensors, strict)
    if problems:
        raise CheckpointError("\n  ".join([f"{len(problems)} problems with {_listed(paths)}:", *problems]))
    for name, layer in layers.items():
        replace(module, name, layer)
    module.load_state_dict(tensors, strict=False, assign=any(value.is_meta for value in rest.values()))
    return module


def _read(paths: Iterable[Path], device: str) -> tuple[dict[str, Tensor], dict[str, int]]:
    """All tensors, and the block sizes that are not 16."""
    tensors: dict[str, Tensor] = {}
    sizes: dict[str, int] = {}
    for path in paths:
        with safe_open(os.fspath(path), framework="pt", device=device) as file:
            sizes |= json.loads((file.metadata() or {}).get(_BLOCK_SIZES, "{}"))
            for key in file.keys():  # noqa: SIM118 (not a mapping)
                if key in tensors:
                    raise CheckpointError(f"{key}: expected in one file only, got it again in {os.fspath(path)}")
                tensors[key] = file.get_tensor(key)
    return tensors, sizes


def _layer(
    module: nn.Module, name: str, own: dict[str, Tensor | None], block_size: int, problems: list[str]
) -> Fp4Linear | None:
    """The layer that takes the place of ``name``; None after adding to ``problems``."""
    weight, weight_scale, weight_scale_2 = (own[part] for part in _PARTS)
    missing = [f"{name}.{part}: missing" for part in _PARTS if own[part] is None]
    if weight is None or weight_scale is None or weight_scale_2 is None:
        problems += missing
        return None
    try:
        target = module.get_submodule(name)
    except AttributeError:
        problems.append(f"{name}: unexpected: no such module")
        return None
    if not isinstance(target, nn.Linear | Fp4Linear):
        problems.append(f"{name}: expected a linear layer, got {type(target).__name__}")
        return None
    try:
        layer = Fp4Linear.from_quantized(
            (weight, weight_scale, weight_scale_2), own["bias"], block_size=block_size, input_scale=own["input_scale"]
        )
    except (TypeError, ValueError) as error:
        problems.append(f"{name}.{error}")
        return None
    expected, got = ((x.out_features, x.in_features, x.bias is not None) for x in (target, layer))
    if expected != got:
        text = "{}.weight: expected N = {}, K = {}, bias {}, got N = {}, K = {}, bias {}"
        problems.append(text.format(name, *expected, *got))
        return None
    return layer.train(target.training)


def _rest(module: nn.Module, layers: dict[str, Fp4Linear]) -> dict[str, Tensor]:
    """The state of ``module`` without that of the layers to be replaced."""
    prefixes = tuple(f"{name}." for name in layers)
    return {key: value for key, value in module.state_dict().items() if not key.startswith(prefixes)}


def _compare(expected: dict[str, Tensor], got: dict[str, Tensor], strict: bool) -> list[str]:
    problems = []
    if strict:
        problems += [f"{key}: missing" for key in expected if key not in got]
        problems += [f"{key}: unexpected" for key in got if key not in expected]
    for key in expected.keys() & got.keys():
        if expected[key].shape != got[key].shape:
            problems.append(f"{key}: expected shape {list(expected[key].shape)}, got {list(got[key].shape)}")
        elif not got[key].is_floating_point() and expected[key].is_floating_point():
            problems.append(f"{key}: expected dtype {expected[key].dtype}, got {got[key].dtype}")
    return sorted(problems)


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(os.fspath(path) for path in paths)

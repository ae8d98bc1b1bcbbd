"""NVFP4 checkpoints in safetensors, with the tensor names of ModelOpt.

For each quantised linear layer ``name``: ``name.weight`` uint8 ``[N, K / 2]``, ``name.weight_scale`` float8_e4m3fn
``[N, K / 16]``, ``name.weight_scale_2`` float32, and where present ``name.input_scale`` float32 and ``name.bias``.
All other tensors are ordinary ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from fp4ops.format import check_block_size
from fp4ops.nn import Fp4Linear, replace
from fp4ops.problem import check_weight
from fp4ops.quantize import Quantized

Path: TypeAlias = str | os.PathLike[str]
_Module = TypeVar("_Module", bound=nn.Module)
_Tensors: TypeAlias = dict[str, Tensor]

_BLOCK_SIZES = "fp4ops.block_sizes"
_PARTS = ("weight", "weight_scale", "weight_scale_2")
_CASTABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


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
        tensors[key] = value.clone() if address in seen else value.contiguous()
        seen.add(address)
    sizes = {
        name: layer.block_size
        for name, layer in module.named_modules(remove_duplicate=False)
        if isinstance(layer, Fp4Linear) and layer.block_size != 16
    }
    save_file(tensors, os.fspath(path), {"format": "pt", **({_BLOCK_SIZES: json.dumps(sizes)} if sizes else {})})


def load(module: _Module, *paths: Path, strict: bool = True) -> _Module:
    """Load a checkpoint of one or several safetensors files into ``module``, in place.

    Where the checkpoint has NVFP4 tensors for a layer, an ``nn.Linear`` or :class:`Fp4Linear` of the same shape is
    replaced by an :class:`Fp4Linear` that holds them, on the same device. Every other tensor is copied into the
    parameter or buffer of its name. A module on the meta device takes the tensors themselves, on the CPU.

    :param strict: whether keys that ``module`` lacks, or has and the checkpoint lacks, are errors; a wrong shape or
        dtype always is one.
    :raises CheckpointError: with every missing, unexpected and mis-shaped key, or the file that is not readable;
        ``module`` is unchanged then. :raises FileNotFoundError: no such file.
    """
    if not paths:
        raise CheckpointError("expected at least one safetensors file, got none")
    tensors, sizes = _read(paths)
    state = dict(module.state_dict())
    layers: dict[str, Fp4Linear] = {}
    problems: list[str] = []
    if isinstance(module, Fp4Linear) and module.block_size != sizes.get("", 16):
        problems.append(f"block_size: expected {module.block_size}, got {sizes.get('', 16)}")
    for name in _quantized_names(tensors):
        own, _ = _take(tensors, name), _take(state, name)
        try:
            layers[name] = _layer(module, name, own, sizes.get(name, 16), strict)
        except (TypeError, ValueError) as error:
            problems.append(f"{name}{error}")
    problems += _compare(state, tensors, strict)
    if problems:
        where = ", ".join(os.fspath(path) for path in paths)
        raise CheckpointError("\n  ".join([f"{len(problems)} problems with {where}:", *sorted(problems)]))
    for name, layer in layers.items():
        replace(module, name, layer)
    module.load_state_dict(tensors, strict=False, assign=any(value.is_meta for value in state.values()))
    return module


def _read(paths: Iterable[Path]) -> tuple[_Tensors, dict[str, int]]:
    """All tensors, and the block sizes that are not 16."""
    tensors: _Tensors = {}
    sizes: dict[str, int] = {}
    for path in paths:
        try:
            with safe_open(os.fspath(path), framework="pt") as file:
                metadata = file.metadata() or {}
                own = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
        except FileNotFoundError:
            raise
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{os.fspath(path)}: expected a safetensors file: {error}") from None
        sizes |= _block_sizes(metadata.get(_BLOCK_SIZES, "{}"), path)
        for key in own:
            if key in tensors:
                raise CheckpointError(f"{key}: expected in one file only, got it again in {os.fspath(path)}")
        tensors |= own
    return tensors, sizes


def _block_sizes(text: str, path: Path) -> dict[str, int]:
    """The metadata that :func:`save` writes; whoever wrote other metadata is told what is expected."""
    try:
        sizes = json.loads(text)
        if not isinstance(sizes, dict):
            raise TypeError("not an object")
        for size in sizes.values():
            check_block_size(size)
    except (ValueError, TypeError, RecursionError) as error:
        wanted = f"{_BLOCK_SIZES} to be a JSON object of a block size for each layer"
        raise CheckpointError(f"{os.fspath(path)}: expected {wanted}, got {text[:100]!r}: {error}") from None
    return sizes


def _quantized_names(tensors: _Tensors) -> list[str]:
    """The layers that have an NVFP4 scale; not the root, whose tensors have no prefix."""
    split = (key.rpartition(".") for key in tensors)
    return sorted({name for name, _, part in split if name and part in ("weight_scale", "weight_scale_2")})


def _take(tensors: _Tensors, name: str) -> _Tensors:
    """Remove and return the tensors of the layer ``name``, by the rest of their names."""
    parts = (*_PARTS, "input_scale", "bias")
    return {part: tensors.pop(f"{name}.{part}") for part in parts if f"{name}.{part}" in tensors}


def _layer(module: nn.Module, name: str, own: _Tensors, block_size: int, strict: bool) -> Fp4Linear:
    """The layer that takes the place of ``name``; the message of an error continues after the name."""
    try:
        target = module.get_submodule(name)
    except AttributeError:
        raise ValueError(": unexpected, no such module") from None
    if not isinstance(target, nn.Linear | Fp4Linear):
        raise ValueError(f": expected a linear layer, got {type(target).__name__}")
    bias = _bias(own.get("bias"), target.bias, strict)
    missing = [part for part in _PARTS if part not in own]
    if missing:
        raise ValueError(f".{missing[0]}: missing")
    quantized = Quantized(*(own[part] for part in _PARTS))
    try:
        N, K = check_weight(*quantized, block_size)
        if (target.out_features, target.in_features) != (N, K):
            expected = f"N = {target.out_features}, K = {target.in_features}"
            raise ValueError(f"weight: expected {expected}, got N = {N}, K = {K}")
        scale = own.get("input_scale")
        layer = Fp4Linear.from_quantized(quantized, bias, block_size=block_size, input_scale=scale)
    except (TypeError, ValueError) as error:
        raise ValueError(f".{error}") from error
    layer.train(target.training)
    return layer if target.weight.is_meta else layer.to(target.weight.device)


def _bias(own: Tensor | None, target: Tensor | None, strict: bool) -> Tensor | None:
    """The bias to use. Not strict: the layer's own where the checkpoint has none, none where the layer has none."""
    if strict and (own is None) != (target is None):
        raise ValueError(".bias: missing" if own is None else ".bias: unexpected")
    return None if target is None else target if own is None else own


def _compare(expected: _Tensors, got: _Tensors, strict: bool) -> list[str]:
    """What keeps ``got`` from being copied into ``expected``."""
    problems = []
    if strict:
        problems += [f"{key}: missing" for key in expected.keys() - got.keys()]
        problems += [f"{key}: unexpected" for key in got.keys() - expected.keys()]
    for key in expected.keys() & got.keys():
        mine, value = expected[key], got[key]
        if mine.shape != value.shape:
            problems.append(f"{key}: expected shape {list(mine.shape)}, got {list(value.shape)}")
        elif mine.dtype != value.dtype and not (mine.dtype in _CASTABLE and value.dtype in _CASTABLE):
            problems.append(f"{key}: expected dtype {mine.dtype}, got {value.dtype}")
    return problems

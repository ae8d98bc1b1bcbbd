"""Kernel name (as in ``dispatch.toml``) -> launcher, one mapping for each device type.

A launcher trusts its caller: the operator has checked the arguments and the table has selected the kernel. Called
outside the kernel's ``requires`` a CPU launcher raises :class:`ContractError`; none takes another path by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Protocol

import torch
from torch import Tensor

from fp4ops.problem import Launcher

BACKENDS = ("cpu", "cuda")


class ContractError(RuntimeError):
    """A kernel was launched with an input that its ``requires`` excludes."""


class Dequantizer(Protocol):
    """A dequantising kernel alone: the tensors of an NVFP4 matrix -> ``[N, K]`` of ``dtype`` (float16 or bfloat16)."""

    def __call__(
        self,
        weight: Tensor,
        weight_scale: Tensor,
        weight_scale_2: Tensor,
        *,
        K: int,
        block_size: int,
        dtype: torch.dtype,
    ) -> Tensor: ...


def launchers(device_type: str) -> Mapping[str, Launcher]:
    """The launchers for tensors on ``device_type``, ``"cpu"`` or ``"cuda"``; imports the backend at its first use."""
    mapping: Mapping[str, Launcher] = _backend(device_type).LAUNCHERS  # type: ignore[attr-defined]
    return mapping


def dequantizers(device_type: str) -> Mapping[str, Dequantizer]:
    """The dequantising kernels alone, for tensors on ``device_type``."""
    mapping: Mapping[str, Dequantizer] = _backend(device_type).DEQUANTIZERS  # type: ignore[attr-defined]
    return mapping


def require(kernel: str, clause: str, holds: bool, got: object) -> None:
    """Raise :class:`ContractError` unless ``holds``."""
    if not holds:
        raise ContractError(f"{kernel}: outside its contract: expected {clause}, got {got}")


@cache
def _backend(device_type: str) -> object:
    if device_type not in BACKENDS:
        raise ValueError(f"device type: expected one of {', '.join(BACKENDS)}, got {device_type}")
    return import_module(f"fp4ops.kernels.{device_type}")

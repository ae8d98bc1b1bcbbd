"""The dispatch table, the machine a tensor lives on, and the switches.

=====================  ======================================================================  ===========
variable               meaning                                                                 default
=====================  ======================================================================  ===========
``FP4OPS_TARGET``      the architecture that CPU tensors emulate, ``sm_75`` to ``sm_121``      ``sm_90``
``FP4OPS_NATIVE``      allow the native FP4 matmul, which quantises the activations too        off
``FP4OPS_DEQUANTIZE``  where prefill starts in its order of dequantisers, ``flat``, ``vec8``,  ``auto``
                       ``scalar``; one that cannot take the input leaves it to the next
=====================  ======================================================================  ===========

They are read at each call. A value that is not understood is a ValueError, never a default.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

import dispatchcov

TABLE = dispatchcov.load_table(Path(__file__).with_name("dispatch.toml"))
"""The dispatch table of ``fp4ops::matmul_nvfp4``."""

_BOOLEANS = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


class Machine(NamedTuple):
    """Where and how a call runs: what dispatch knows besides the arguments, and the table as decided there."""

    sm: int
    native: bool
    dequantize: str
    backend: str
    """``"cpu"`` or ``"cuda"``."""
    decide: Callable[..., dispatchcov.Decision]


def machine(device: torch.device) -> Machine:
    """The machine of tensors on ``device``: a GPU by its name and capability, or the CPU and what it emulates."""
    environ: Any = os.environ
    if environ is _ENVIRON:  # its own get() encodes the name and raises a KeyError inside for each that is not set
        get = environ._data.get
        return _machine(device, get(_KEYS[0]), get(_KEYS[1]), get(_KEYS[2]))
    return _machine(device, *map(environ.get, _NAMES))


_NAMES = ("FP4OPS_TARGET", "FP4OPS_NATIVE", "FP4OPS_DEQUANTIZE")
_ENVIRON: Any = os.environ if hasattr(os.environ, "_data") else None  # where it holds what encodekey() and co. give
_KEYS = tuple(map(os.environ.encodekey, _NAMES))


@lru_cache
def _machine(device: torch.device, *raw: str | bytes | None) -> Machine:
    """Parsed once for each combination of switches as the environment holds them; what it refuses is not kept."""
    target, native, dequantize = (None if value is None else os.fsdecode(value) for value in raw)
    switches = _native(native), _dequantize(dequantize), device.type
    if device.type == "cpu":
        target = "sm_90" if target is None else target
        return Machine(_sm(target), *switches, TABLE.on("cpu", emulates=target).decide)
    major, minor = torch.cuda.get_device_capability(device)
    return Machine(10 * major + minor, *switches, TABLE.on(torch.cuda.get_device_name(device)).decide)


def _sm(target: str) -> int:
    known = {f"sm_{sm}": int(sm) for sm in TABLE.variable("sm").values}
    if target not in known:
        raise ValueError(f"FP4OPS_TARGET: expected one of {', '.join(known)}, got {target!r}")
    return known[target]


def _native(text: str | None) -> bool:
    if text is None:
        return False
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError(f"FP4OPS_NATIVE: expected one of {', '.join(_BOOLEANS)}, got {text!r}") from None


def _dequantize(text: str | None) -> str:
    if text is None:
        return "auto"
    known = tuple(map(str, TABLE.variable("dequantize").values))
    if text not in known:
        raise ValueError(f"FP4OPS_DEQUANTIZE: expected one of {', '.join(known)}, got {text!r}")
    return text

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
from typing import NamedTuple

import torch

import dispatchcov

TABLE = dispatchcov.load_table(Path(__file__).with_name("dispatch.toml"))
"""The dispatch table of ``fp4ops::matmul_nvfp4``."""

_BOOLEANS = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("0", "false", "off", "no"), False),
}


class Machine(NamedTuple):
    """Where a call runs: the architecture that dispatch sees, and the table as decided there."""

    sm: int
    decide: Callable[..., dispatchcov.Decision]


def machine(device: torch.device) -> Machine:
    """The machine of tensors on ``device``: a GPU by its name and capability, or the CPU and what it emulates."""
    if device.type == "cpu":
        return _emulated(os.environ.get("FP4OPS_TARGET", "sm_90"))
    return _gpu(device.index)


def native_allowed() -> bool:
    """The switch ``FP4OPS_NATIVE``."""
    text = os.environ.get("FP4OPS_NATIVE")
    if text is None:
        return False
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError(f"FP4OPS_NATIVE: expected one of {', '.join(_BOOLEANS)}, got {text!r}") from None


def preferred_dequantizer() -> str:
    """The switch ``FP4OPS_DEQUANTIZE``."""
    text = os.environ.get("FP4OPS_DEQUANTIZE", "auto")
    known = TABLE.variable("dequantize").values
    if text not in known:
        raise ValueError(f"FP4OPS_DEQUANTIZE: expected one of {', '.join(map(str, known))}, got {text!r}")
    return text


@lru_cache
def _emulated(target: str) -> Machine:
    known = {f"sm_{sm}": int(sm) for sm in TABLE.variable("sm").values}
    if target not in known:
        raise ValueError(f"FP4OPS_TARGET: expected one of {', '.join(known)}, got {target!r}")
    return Machine(known[target], TABLE.on("cpu", emulates=target).decide)


@lru_cache
def _gpu(index: int) -> Machine:
    major, minor = torch.cuda.get_device_capability(index)
    return Machine(10 * major + minor, TABLE.on(torch.cuda.get_device_name(index)).decide)

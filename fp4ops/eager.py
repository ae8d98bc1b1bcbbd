"""May a call skip torch's dispatcher? The way through it costs as much as all checks and the decision together.

It may where nothing on that way would look at the call: :func:`plain`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

try:
    from torch._C import (
        _get_tracing_state,
        _is_any_autocast_enabled,
        _len_torch_dispatch_stack,
        _len_torch_function_stack,
    )
    from torch._C._autograd import _profiler_enabled
    from torch._C._functorch import peek_interpreter_stack
except ImportError:  # torch's own names, which a release may change: then every call goes through the dispatcher
    KNOWN = False
else:
    KNOWN = True

_TYPES = frozenset((Tensor, nn.Parameter))  # a tensor of another class may be something else than the memory it shows


def plain(a: Tensor, weight: Tensor, weight_scale: Tensor, weight_scale_2: Tensor, bias: Tensor | None) -> bool:
    """Whether a call with these operands is eager, watched by nobody and asks for no gradient."""
    return KNOWN and not (
        is_compiling()  # first: a compiler that traces the call traces this function too
        or _len_torch_dispatch_stack()
        or _len_torch_function_stack()
        or peek_interpreter_stack() is not None  # vmap, grad
        or _get_tracing_state() is not None  # torch.jit.trace
        or _profiler_enabled()  # it names the operator
        or _is_any_autocast_enabled()  # it casts
        or type(a) not in _TYPES
        or type(weight) not in _TYPES
        or type(weight_scale) not in _TYPES
        or type(weight_scale_2) not in _TYPES
        or not (a.is_cpu or a.is_cuda)
        or a.is_neg()  # imaginary parts of a conjugate: memory holds the opposite of the values
        or weight_scale_2.is_neg()
        or (bias is not None and (type(bias) not in _TYPES or bias.is_neg()))
        or (torch.is_grad_enabled() and _differentiable(a, weight_scale, weight_scale_2, bias))
    )


def _differentiable(a: Tensor, weight_scale: Tensor, weight_scale_2: Tensor, bias: Tensor | None) -> bool:
    wanted = a.requires_grad or weight_scale.requires_grad or weight_scale_2.requires_grad
    return wanted or (bias is not None and bias.requires_grad)

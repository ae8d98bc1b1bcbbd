"""``Empty`` and ``FillBias``: problems without a single product, the same on every device."""

from __future__ import annotations

from torch import Tensor

from fp4ops.kernels import require
from fp4ops.problem import Operands, Problem


def empty(problem: Problem, operands: Operands) -> Tensor:
    """No rows or no columns: an empty ``[M, N]``."""
    require("Empty", "M == 0 or N == 0", problem.M == 0 or problem.N == 0, problem)
    return operands.a.new_empty((problem.M, problem.N))


def fill_bias(problem: Problem, operands: Operands) -> Tensor:
    """K = 0: every row is the bias, or zeros."""
    require("FillBias", "K == 0", problem.K == 0, problem)
    shape = (problem.M, problem.N)
    if operands.bias is None:
        return operands.a.new_zeros(shape)
    return operands.bias.expand(shape).clone()

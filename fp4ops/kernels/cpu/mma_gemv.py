"""Twin of ``Fp4MmaGemvKernel``: tensor cores, windows of 128 along K.

``e2m1 * e4m3`` is folded into the weight operand, where it is exact.
"""

from __future__ import annotations

from torch import Tensor

from fp4ops.kernels import require
from fp4ops.kernels.cpu.common import epilogue, fold, slabs
from fp4ops.problem import Operands, Problem

KERNEL = "Fp4MmaGemvKernel"
WINDOW = 128
ROWS = 32


def launch(problem: Problem, operands: Operands) -> Tensor:
    """Sum the windows in float32; tensor scale and bias in the epilogue."""
    _require(problem)
    a, scale = operands.a.float(), operands.weight_scale.float()
    total = a.new_zeros((problem.M, problem.N))
    for rows in slabs(range(problem.N), WINDOW):
        for first in range(0, problem.K, WINDOW):
            last = first + WINDOW
            tile = fold(operands.weight[rows, first // 2 : last // 2], scale[rows, first // 16 : last // 16])
            total[:, rows] += a[:, first:last] @ tile.T
    return epilogue(total, operands.weight_scale_2, operands)


def _require(p: Problem) -> None:
    clause = f"0 < M <= {ROWS} and N > 0 and block_size == 16 and K > 0 and K % 128 == 0 and sm >= 80"
    sizes = 0 < p.M <= ROWS and p.N > 0 and p.K > 0
    holds = sizes and p.block_size == 16 and p.K % WINDOW == 0 and p.sm >= 80
    require(KERNEL, clause, holds, p)

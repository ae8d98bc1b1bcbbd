"""Twin of ``NativeFp4Matmul`` (sm_120): activations quantised to NVFP4 too, the tensor cores multiply FP4.

The activations get one tensor scale, from their largest magnitude, and one e4m3 scale for each 16 of a row. Products
are exact in float32 and accumulated there, 64 along K at a time; both tensor scales and the bias come in the epilogue.
"""

from __future__ import annotations

from torch import Tensor

from fp4ops.kernels import require
from fp4ops.kernels.cpu.common import epilogue, fold, slabs
from fp4ops.problem import Operands, Problem
from fp4ops.quantize import quantize_rows

KERNEL = "NativeFp4Matmul"
STEP = 64
BLOCK = 16


def launch(problem: Problem, operands: Operands) -> Tensor:
    """Quantise ``a``, sum steps of 64 in float32. NaN or infinity in ``a`` makes the whole result NaN."""
    _require(problem)
    packed, a_scale, a_scale_2 = quantize_rows(operands.a, BLOCK)
    a, scale = fold(packed, a_scale.float()), operands.weight_scale.float()
    total = a.new_zeros((problem.M, problem.N))
    for rows in slabs(range(problem.N), STEP):
        for first in range(0, problem.K, STEP):
            last = min(first + STEP, problem.K)
            tile = fold(operands.weight[rows, first // 2 : last // 2], scale[rows, first // BLOCK : last // BLOCK])
            total[:, rows] += a[:, first:last] @ tile.T
    return epilogue(total, a_scale_2 * operands.weight_scale_2, operands)


def _require(p: Problem) -> None:
    clause = "120 <= sm and sm < 130 and block_size == 16 and K > 0 and K % 32 == 0 and N > 0 and N % 32 == 0"
    divides = p.K > 0 and p.K % 32 == 0 and p.N > 0 and p.N % 32 == 0
    require(KERNEL, clause, 120 <= p.sm < 130 and p.block_size == BLOCK and divides, p)

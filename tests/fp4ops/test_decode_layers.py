"""One step of decoding: inner dimensions of real models' linear layers, up to 32 rows, few columns to keep it short.

Alone, weighed by the work of a server that mostly reads prompts, this suite shows what it leaves out: docs/weights.md.
"""

from __future__ import annotations

import pytest
import torch

from fp4ops import matmul_nvfp4
from fp4ops.testing import random_call, reference


@pytest.mark.dispatch("decode-mma", kernel="Fp4MmaGemvKernel")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("K", [2048, 4096, 5120, 14336, 17408])
@pytest.mark.parametrize("M", [1, 2, 4, 8, 16, 32])
def test_a_step_of_decoding(M: int, K: int, dtype: torch.dtype) -> None:
    call = random_call(M, 24, K, dtype=dtype, bias=M == 4, seed=K + M)
    reference(call, "Fp4MmaGemvKernel").check(matmul_nvfp4(*call))

from __future__ import annotations

import pytest

from dispatchcov.expr import Value
from dispatchcov.symbols import matches, named
from dispatchcov.table import Kernel
from tests.dispatchcov.build import parsed

FACTS: dict[str, Value] = {"dtype": "bfloat16", "bias": True, "rows": 4}
VEC8 = "void DequantizeNvFp4Vec8Kernel<__nv_bfloat16>(unsigned char const*, __nv_bfloat16*)"


@pytest.mark.parametrize(
    ("pattern", "symbol", "fits"),
    [
        ("DequantizeNvFp4Vec8Kernel<{dtype}", VEC8, True),
        ("DequantizeNvFp4Vec8Kernel<{dtype}>", VEC8, True),
        ("DequantizeNvFp4Vec8Kernel", VEC8, True),
        ("DequantizeNvFp4Vec8Kernel<{dtype}", VEC8.replace("<__nv_bfloat16", "<__half"), False),
        ("DequantizeNvFp4Kernel<{dtype}", VEC8, False),
        ("GemvKernel<{dtype}", "void Fp4MmaGemvKernel<__nv_bfloat16, 8>(...)", False),
        ("Fp4GemvKernel", "void Fp4GemvKernelV2<__nv_bfloat16>(...)", False),
        ("Fp4GemvKernel<{dtype}, {rows}>", "void fp4::Fp4GemvKernel<__nv_bfloat16, 4>(...)", True),
        ("Fp4GemvKernel<{dtype}, {rows}>", "void Fp4GemvKernel<__nv_bfloat16, 40>(...)", False),
        ("Copy<{bias}>", "void Copy<true>(int)", True),
        ("Copy<{bias}>", "void Copy<(bool)0>(int)", False),
        ("nvjet*{dtype} | cutlass*", "nvjet_sm90_tst_f32", False),
        ("nvjet* | cutlass*", "nvjet_sm90_tst_128x64", True),
        ("a.b", "void axb()", False),
        ("", "void anything()", False),
    ],
)
def test_patterns(pattern: str, symbol: str, fits: bool) -> None:
    assert matches(Kernel("k", pattern), FACTS, symbol) is fits


def test_the_kernel_of_a_table_that_was_seen() -> None:
    table = parsed(vec4='symbol = "ScaleVec4<{dtype}"', scalar='symbol = "Scale<{dtype}"')
    facts: dict[str, Value] = {"N": 4, "aligned": True, "dtype": "float32"}
    kernel = named(table, facts, ["Memset", "void Scale<float>(float*)"])
    assert kernel is not None
    assert kernel.name == "Scale"
    assert named(table, facts, ["void Scale<__half>(float*)"]) is None

"""What ``dispatch.toml`` says of the kernels, against the CUDA sources."""

from __future__ import annotations

import pytest

from dispatchcov.symbols import matches
from fp4ops import TABLE
from fp4ops.kernels.cuda.build import SOURCES

SYMBOLS = {kernel.symbol.partition("<")[0]: kernel for kernel in TABLE.kernels if kernel.symbol}


def test_a_symbol_for_each_source_and_a_source_for_each_symbol() -> None:
    assert set(SYMBOLS) == set(SOURCES)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("template", SYMBOLS)
def test_a_symbol_is_that_of_each_instance_and_of_no_other_kernel(template: str, dtype: str) -> None:
    """With any template parameter behind the type, and not with the other type."""
    source = SOURCES[template]
    for parameter in source.parameters or (None,):
        symbol = f"void {source.instance(dtype, parameter)}(void const*, long long)"
        assert [kernel for kernel in TABLE.kernels if matches(kernel, {"dtype": dtype}, symbol)] == [SYMBOLS[template]]
        other = "bfloat16" if dtype == "float16" else "float16"
        assert not matches(SYMBOLS[template], {"dtype": other}, symbol)

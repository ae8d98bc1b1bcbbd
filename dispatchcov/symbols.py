"""Symbols of kernels: does what a profiler showed match the pattern of a table's kernel?

A pattern is the beginning of a demangled name, at a word boundary: ``DequantizeNvFp4Vec8Kernel<{dtype}``.
``{variable}`` stands
for the value of that variable as C++ spells it, ``*`` for anything, ``|`` for another pattern.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from dispatchcov.expr import Value
from dispatchcov.table import Kernel, Table

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "float16": ("__half", "half", "c10::Half", "at::Half", "float16"),
    "bfloat16": ("__nv_bfloat16", "nv_bfloat16", "__bfloat16", "bf16", "c10::BFloat16", "at::BFloat16", "bfloat16"),
    "float32": ("float", "float32"),
    "float64": ("double", "float64"),
    "true": ("true", "1", "(bool)1"),
    "false": ("false", "0", "(bool)0"),
}
PART = re.compile(r"\{(\w+)\}|(\*)|([^{*]+)")


def matches(kernel: Kernel, facts: Mapping[str, Value], symbol: str) -> bool:
    """Is ``symbol`` the kernel that ``kernel`` names, for ``facts``? False for a kernel without a pattern."""
    if not kernel.symbol:
        return False
    words = tuple(sorted((name, _word(value)) for name, value in facts.items() if f"{{{name}}}" in kernel.symbol))
    return _regex(kernel.symbol, words).search(symbol) is not None


def named(table: Table, facts: Mapping[str, Value], symbols: Iterable[str]) -> Kernel | None:
    """The kernel of ``table`` that one of ``symbols`` is, the first in the order of the table."""
    seen = list(symbols)
    return next((kernel for kernel in table.kernels if any(matches(kernel, facts, symbol) for symbol in seen)), None)


def _word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@functools.lru_cache(maxsize=1024)
def _regex(pattern: str, words: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    spelled = dict(words)
    return re.compile("|".join(_alternative(part.strip(), spelled) for part in pattern.split("|")))


def _alternative(pattern: str, words: Mapping[str, str]) -> str:
    text = r"(?<![A-Za-z0-9_])"
    for variable, star, literal in PART.findall(pattern):
        if variable:
            choices = SPELLINGS.get(words[variable], (words[variable],))
            text += "(?:" + "|".join(re.escape(choice) for choice in choices) + r")(?![A-Za-z0-9_])"
        else:
            text += ".*" if star else re.escape(literal)
    return text + (r"(?![A-Za-z0-9_])" if re.search(r"[A-Za-z0-9_]$", pattern) else "")

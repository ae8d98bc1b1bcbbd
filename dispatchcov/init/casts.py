"""Integers of C++ converted to other types: which keep their value, as far as is written."""

from __future__ import annotations

import re

from dispatchcov import expr as ex
from dispatchcov.init.fold import BOOLEAN, TRUTH, UntranslatedError
from dispatchcov.init.names import Names

BITS = {"char": 8, "short": 16, "int": 32, "long": 64, "size_t": 64, "ssize_t": 64, "ptrdiff_t": 64, "index_t": 64} | {
    f"{sign}int{bits}_t": bits for sign in ("", "u") for bits in (8, 16, 32, 64)
}
NEVER_NEGATIVE = re.compile(
    r"\.(shape\[-?\d+\]|sizes?\(\)|dim\(\)|ndim|numel\(\)|NumDimensions\(\)|itemsize|element_size\(\))$"
)


def integer(kind: str) -> tuple[bool, int] | None:
    """Whether the type ``kind`` is signed, and its bits; None if it is no integer."""
    words = set(re.sub(r"\b(const|constexpr|static|inline|volatile|auto)\b|std::|[&]", " ", kind).split())
    if "*" in kind or words & {"float", "double", "bool"}:
        return None
    sizes = [BITS[word] for word in ("char", "short", "long") if word in words]
    sizes += [BITS[word] for word in sorted(words) if word in BITS]
    if not sizes and not words & {"unsigned", "signed"}:
        return None
    return not (words & {"unsigned", "size_t"} or any(word.startswith("uint") for word in words)), [*sizes, 32][0]


def keeps(kind: str, expr: ex.Expr, names: Names) -> bool:
    """Is ``expr`` the same as a ``kind``? Of 32 bits and more with a sign it is taken to be."""
    into = integer(kind)
    return into is None or _fits(expr, *into, names)


def cast(kind: str, expr: ex.Expr, line: int, names: Names) -> ex.Expr:
    """``expr`` cast to ``kind``; raises :class:`UntranslatedError` where that may change it.

    A cast to 32 bits is taken not to, and its facts say so.
    """
    if not keeps(kind, expr, names):
        raise UntranslatedError(f"a cast to {kind} changes what does not fit in it")
    if (into := integer(kind)) is not None and into[1] < 64 and not isinstance(expr, ex.Const):
        for key in ex.names(expr):
            known = integer(names.types.get(key, ""))
            if key not in names.lets and not key.startswith("=") and (known is None or known[1] > into[1]):
                names.note(key, f"cast to {kind} in line {line}: taken to fit")
    return expr


def _fits(expr: ex.Expr, signed: bool, bits: int, names: Names) -> bool:
    if signed and bits >= 32:
        return True
    match expr:
        case ex.Const(value=value):
            low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
            return not isinstance(value, int) or low <= value < high
        case ex.Var(name=name) if name in names.lets:
            return _fits(names.lets[name][1], signed, bits, names)
        case ex.Var(name=name):
            if name.startswith("=") or names.types.get(name, "").split()[-1:] == ["bool"]:
                return True
            known = integer(names.types.get(name, ""))
            if known is None:
                return bits == 64 and NEVER_NEGATIVE.search(name) is not None
            return (known[0] == signed and known[1] <= bits) or (signed and not known[0] and known[1] < bits)
        case ex.Call(name=name) if name == TRUTH:
            return True
        case ex.Bin(op="+" | "*" | "//" | "t/" | "%" | "t%") | ex.Call():
            return bits == 64 and all(_fits(part, signed, bits, names) for part in ex.children(expr))
    return isinstance(expr, BOOLEAN)

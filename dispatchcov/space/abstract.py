"""Expressions over sets of inputs at once: what a predicate can be where integers lie in intervals.

The answer is never too small a set: an outcome that is left out occurs nowhere in the set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.space import boxes

FALSE, TRUE, UNDEFINED = (1 << value for value in (boxes.FALSE, boxes.TRUE, boxes.UNDEFINED))
Bound: TypeAlias = "int | float"
Interval: TypeAlias = tuple[Bound, Bound, bool]
"""Least and greatest value (``-inf`` or ``inf``: no end; none at all if the first is greater), and whether some input
divides by zero.
"""
Domains: TypeAlias = Mapping[str, Any]
"""Of each name its interval, its possible strings, or its possible truth values as :data:`FALSE` and :data:`TRUE`."""
NOTHING: Interval = (math.inf, -math.inf, True)
_Number: TypeAlias = Callable[[Domains], Interval]
_Truth: TypeAlias = Callable[[Domains], int]


def truth(tree: ex.Expr, types: Mapping[str, str]) -> _Truth:
    """The outcomes that ``tree``, a predicate over names of ``types`` (``int``, ``str``, ``bool``), can have."""
    match tree:
        case ex.Const():
            known = TRUE if tree.value else FALSE
            return lambda _: known
        case ex.Var():
            return lambda domains: int(domains[tree.name])
        case ex.Not():
            inner = truth(tree.operand, types)
            return lambda domains: NOT[inner(domains)]
        case ex.And() | ex.Or():
            return _sequence(
                [truth(part, types) for part in tree.operands], stop=FALSE if isinstance(tree, ex.And) else TRUE
            )
        case ex.In():
            return _listed(tree, types)
        case ex.Compare():
            return _compared(tree, types)
    raise TypeError(f"expected a predicate, got {ex.to_text(tree)!r}")


NOT = [(mask & UNDEFINED) | (mask & FALSE) << 1 | (mask & TRUE) >> 1 for mask in range(8)]
"""The outcomes of ``not x``, by those of ``x``."""


def _sequence(parts: list[_Truth], stop: int) -> _Truth:
    go = FALSE + TRUE - stop

    def value(domains: Domains) -> int:
        result = 0
        for part in parts:
            mask = part(domains)
            result |= mask & ~go
            if not mask & go:
                return result
        return result | go

    return value


def _listed(tree: ex.In, types: Mapping[str, str]) -> _Truth:
    kind = ex.check_type(tree.item, types)
    if kind != "int":
        members = _members(tree.item, types)
        return lambda domains: _among(members(domains), tree.values)
    item, values = number(tree.item), sorted(int(value) for value in tree.values)

    def value(domains: Domains) -> int:
        low, high, undefined = item(domains)
        inside = low <= high and any(low <= each <= high for each in values)
        only = low == high and inside
        return (TRUE if inside else 0) | (FALSE if low <= high and not only else 0) | (UNDEFINED if undefined else 0)

    return value


def _compared(tree: ex.Compare, types: Mapping[str, str]) -> _Truth:
    if ex.check_type(tree.left, types) != "int":
        left, right, equal = _members(tree.left, types), _members(tree.right, types), tree.op == "=="

        def same(domains: Domains) -> int:
            mine, theirs = left(domains), right(domains)
            known = [value for value in (*mine, *theirs) if value is not None]
            mask = UNDEFINED if len(known) < len(mine) + len(theirs) else 0
            mask |= TRUE if any(value in theirs for value in mine if value is not None) else 0
            mask |= FALSE if len(set(known)) > 1 else 0
            return mask if equal else NOT[mask]

        return same
    a, b, relation = number(tree.left), number(tree.right), _RELATIONS[tree.op]

    def compared(domains: Domains) -> int:
        one, other = a(domains), b(domains)
        mask = UNDEFINED if one[2] or other[2] else 0
        return (
            mask | relation(one[0], one[1], other[0], other[1]) if one[0] <= one[1] and other[0] <= other[1] else mask
        )

    return compared


def _less(a: Bound, b: Bound, c: Bound, d: Bound) -> int:
    return (TRUE if a < d else 0) | (FALSE if b >= c else 0)


def _equal(a: Bound, b: Bound, c: Bound, d: Bound) -> int:
    return (TRUE if a <= d and c <= b else 0) | (0 if a == b == c == d else FALSE)


_RELATIONS: dict[str, Callable[[Bound, Bound, Bound, Bound], int]] = {
    "<": _less,
    ">=": lambda a, b, c, d: NOT[_less(a, b, c, d)],
    ">": lambda a, b, c, d: _less(c, d, a, b),
    "<=": lambda a, b, c, d: NOT[_less(c, d, a, b)],
    "==": _equal,
    "!=": lambda a, b, c, d: NOT[_equal(a, b, c, d)],
}


def _members(tree: ex.Expr, types: Mapping[str, str]) -> Callable[[Domains], tuple[Value | None, ...]]:
    """The strings or truth values that ``tree`` can have; None among them: it can divide by zero."""
    if isinstance(tree, ex.Const):
        return lambda _: (tree.value,)
    if isinstance(tree, ex.Var) and types[tree.name] == "str":
        return lambda domains: tuple(domains[tree.name])
    mask = truth(tree, types)
    ways: list[tuple[int, Value | None]] = [(FALSE, False), (TRUE, True), (UNDEFINED, None)]
    return lambda domains: tuple(value for bit, value in ways if mask(domains) & bit)


def _among(found: tuple[Value | None, ...], values: tuple[Value, ...]) -> int:
    mask = 0
    for value in found:
        mask |= UNDEFINED if value is None else TRUE if value in values else FALSE
    return mask


def number(tree: ex.Expr) -> _Number:
    """The values that ``tree``, an integer, can have."""
    match tree:
        case ex.Const():
            alone = int(tree.value), int(tree.value), False
            return lambda _: alone
        case ex.Var():
            return lambda domains: domains[tree.name]
        case ex.Neg():
            inner = number(tree.operand)
            return lambda domains: _negative(inner(domains))
        case ex.Bin():
            a, b, operation = number(tree.left), number(tree.right), _OPERATIONS[tree.op]
            return lambda domains: operation(a(domains), b(domains))
        case ex.Call(name="ceildiv"):
            a, b = map(number, tree.args)
            return lambda domains: _negative(_quotient(_negative(a(domains)), b(domains)))
        case ex.Call():
            parts, best = [number(part) for part in tree.args], min if tree.name == "min" else max

            def extreme(domains: Domains) -> Interval:
                found = [part(domains) for part in parts]
                if any(low > high for low, high, _ in found):
                    return NOTHING
                return best(i[0] for i in found), best(i[1] for i in found), any(i[2] for i in found)

            return extreme
    raise TypeError(f"expected an integer, got {ex.to_text(tree)!r}")


def _negative(a: Interval) -> Interval:
    return -a[1], -a[0], a[2]


def _sum(a: Interval, b: Interval) -> Interval:
    return (a[0] + b[0], a[1] + b[1], a[2] or b[2]) if a[0] <= a[1] and b[0] <= b[1] else NOTHING


def _product(a: Interval, b: Interval) -> Interval:
    if a[0] > a[1] or b[0] > b[1]:
        return NOTHING
    if a[0] >= 0 and b[0] >= 0:
        high = a[1] * b[1] if a[1] < math.inf and b[1] < math.inf else _times(a[1], b[1])
        return a[0] * b[0], high, a[2] or b[2]
    corners = [_times(x, y) for x in a[:2] for y in b[:2]]
    return min(corners), max(corners), a[2] or b[2]


def _times(a: Bound, b: Bound) -> Bound:
    if a == 0 or b == 0:
        return 0
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return math.inf if (a > 0) == (b > 0) else -math.inf


def _divided(
    whole: Callable[[Interval, Bound, Bound], tuple[Bound, Bound]],
) -> Callable[[Interval, Interval], Interval]:
    """An operation with a divisor, from what it gives for the positive divisors from one bound to another."""

    def operation(a: Interval, b: Interval) -> Interval:
        if a[0] > a[1] or b[0] > b[1]:
            return NOTHING
        found = []
        if b[1] > 0:
            found.append(whole(a, max(1, b[0]), b[1]))
        if b[0] < 0:
            low, high = whole(_negative(a), max(1, -b[1]), -b[0])
            found.append((low, high) if whole is _floors else (-high, -low))
        undefined = a[2] or b[2] or b[0] <= 0 <= b[1]
        if not found:
            return NOTHING
        return min(low for low, _ in found), max(high for _, high in found), undefined

    return operation


def _floors(a: Interval, low: Bound, high: Bound) -> tuple[Bound, Bound]:
    corners = [_floor(x, y) for x in a[:2] for y in (low, high)]
    return min(corners), max(corners)


def _floor(a: Bound, b: Bound) -> Bound:
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == math.inf:
        return 0 if a >= 0 else -1
    return a


def _rests(a: Interval, low: Bound, high: Bound) -> tuple[Bound, Bound]:
    least, greatest = a[:2]
    if low == high and isinstance(low, int) and isinstance(least, int) and isinstance(greatest, int):
        return (least % low, greatest % low) if least // low == greatest // low else (0, low - 1)
    if least >= 0 and greatest < low:
        return least, greatest
    return 0, min(high - 1, greatest) if least >= 0 else high - 1


_quotient, _rest = _divided(_floors), _divided(_rests)
_OPERATIONS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": _sum,
    "-": lambda a, b: _sum(a, _negative(b)),
    "*": _product,
    "//": _quotient,
    "%": _rest,
}

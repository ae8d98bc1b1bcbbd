"""Predicates as C++ expressions that compute what Python would, or say that they cannot.

Facts are ``std::int64_t``. Each number has an interval that holds its value for all facts, inside their domains or not:
where that fits 64 bits it is computed in 64, where it fits 127 in ``__int128``, and elsewhere in ``__int128`` with a
check that sets ``fault``. Divisions are those of ``dispatchcov::arithmetic``, which round as Python does; by zero they
set ``fault``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dispatchcov.errors import UsageError
from dispatchcov.expr import (
    OPERATORS,
    And,
    Bin,
    Call,
    Compare,
    Const,
    Expr,
    In,
    Neg,
    Not,
    Or,
    Value,
    Var,
    evaluate,
    names,
    to_text,
)
from dispatchcov.table import Variable

NARROW = (1 << 63) - 1
WIDE = (1 << 127) - 1
_HERE = "arithmetic::"
_DIVISIONS = {"//": "floordiv", "%": "modulo", "ceildiv": "ceildiv"}
_CHECKED = {"+": "checked_add", "-": "checked_sub", "*": "checked_mul"}


@dataclass(frozen=True, slots=True)
class Number:
    """C++ text of a number between ``low`` and ``high``; it is a ``wide`` one, an ``int64_t``, or a literal."""

    text: str
    low: int
    high: int
    wide: bool = False
    literal: bool = False

    def typed(self, wide: bool) -> str:
        """The text with the type ``__int128`` or ``std::int64_t``."""
        if wide:
            return self.text if self.wide else f"::dispatchcov::wide{{{self.text}}}"
        return f"std::int64_t{{{self.text}}}" if self.literal else self.text


class Printer:
    """Prints predicates over ``variables``, whose C++ texts are ``fields``; ``enums``: those of their values."""

    def __init__(
        self,
        variables: Iterable[Variable],
        fields: Mapping[str, str],
        enums: Mapping[str, Mapping[Value, str]],
    ) -> None:
        self.kinds = {variable.name: variable.kind for variable in variables}
        self.fields = fields
        self.enums = enums
        self.faulty = False

    def predicate(self, expr: Expr) -> str:
        """C++ text of the predicate ``expr``; :attr:`faulty` then says whether it sets ``fault``."""
        self.faulty = False
        return bare(self._condition(expr))

    # --- conditions -------------------------------------------------------------------------------------------------

    def _condition(self, expr: Expr) -> str:
        if not names(expr):
            return str(bool(evaluate(expr, {}))).lower()
        match expr:
            case Var():
                return self.fields[expr.name]
            case Not():
                return f"!{self._condition(expr.operand)}"
            case And() | Or():
                word = " && " if isinstance(expr, And) else " || "
                return f"({word.join(map(self._condition, expr.operands))})"
            case Compare():
                return self._comparison(expr)
            case In():
                return self._among(expr)
        raise AssertionError(f"{to_text(expr)} is no condition")

    def _comparison(self, expr: Compare) -> str:
        kind = self._kind(expr.left)
        if kind == "int":
            return f"({self._number(expr.left).text} {expr.op} {self._number(expr.right).text})"
        if kind == "bool":
            return f"({self._condition(expr.left)} {expr.op} {self._condition(expr.right)})"
        ways = " || ".join(f"({way})" for way in self._equal(expr.left, expr.right)) or "false"
        return f"({ways})" if expr.op == "==" else f"!({ways})"

    def _equal(self, left: Expr, right: Expr) -> list[str]:
        """The ways in which two strings, not both constant, can be equal."""
        if isinstance(left, Var) and isinstance(right, Var):
            both = [value for value in self.enums[left.name] if value in self.enums[right.name]]
            return [f"{self._is(left.name, value)} && {self._is(right.name, value)}" for value in both]
        variable, constant = (left, right) if isinstance(left, Var) else (right, left)
        assert isinstance(variable, Var)
        assert isinstance(constant, Const)
        known = constant.value in self.enums[variable.name]
        return [self._is(variable.name, constant.value)] if known else []

    def _is(self, name: str, value: Value) -> str:
        return f"{self.fields[name]} == {self.enums[name][value]}"

    def _among(self, expr: In) -> str:
        kind = self._kind(expr.item)
        if kind == "int":
            item = self._number(expr.item).text
            values = [_constant(int(value)).text for value in expr.values]
        elif kind == "bool":
            item = self._condition(expr.item)
            values = [str(value).lower() for value in expr.values]
        else:
            assert isinstance(expr.item, Var)
            own = self.enums[expr.item.name]
            item = self.fields[expr.item.name]
            values = [own[value] for value in expr.values if value in own]
        return f"{_HERE}one_of({', '.join([item, *values])})"

    def _kind(self, expr: Expr) -> str:
        match expr:
            case Var():
                return self.kinds[expr.name]
            case Const():
                return type(expr.value).__name__
            case Neg() | Bin() | Call():
                return "int"
        return "bool"

    # --- numbers ----------------------------------------------------------------------------------------------------

    def _number(self, expr: Expr) -> Number:
        if not names(expr):
            return _constant(int(evaluate(expr, {})))
        match expr:
            case Var():
                return Number(self.fields[expr.name], -NARROW - 1, NARROW)
            case Neg():
                inner = self._number(expr.operand)
                wide = inner.wide or -inner.low > NARROW
                return Number(f"(-{inner.typed(wide)})", -inner.high, -inner.low, wide)
            case Bin(op="//" | "%" as op, left=a, right=b) | Call(name="ceildiv" as op, args=(a, b)):
                return self._quotient(op, self._number(a), self._number(b))
            case Bin(op=op, left=a, right=b):
                return self._sum(op, self._number(a), self._number(b))
            case Call():
                return functools.reduce(functools.partial(_extreme, expr.name), map(self._number, expr.args))
        raise AssertionError(f"{to_text(expr)} is no number")

    def _sum(self, op: str, a: Number, b: Number) -> Number:
        ends = [OPERATORS[op](x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(ends), max(ends)
        wide = a.wide or b.wide or not _fits(low, high, NARROW)
        if _fits(low, high, WIDE):
            return Number(f"({a.typed(wide) if wide else a.text} {op} {b.text})", low, high, wide)
        self.faulty = True
        text = f"{_HERE}{_CHECKED[op]}({a.typed(True)}, {b.typed(True)}, fault)"
        return Number(text, max(low, -WIDE), min(high, WIDE), True)

    def _quotient(self, op: str, a: Number, b: Number) -> Number:
        divisors = {d for d in (b.low, b.high, -1, 1) if d and b.low <= d <= b.high}
        if op == "%":
            ends = [0, *(d - (1 if d > 0 else -1) for d in divisors)]
        else:
            sign = 1 if op == "//" else -1  # rounded up: -(-a // b)
            ends = [0, *(sign * (sign * x // d) for x in (a.low, a.high) for d in divisors)]
        wide = a.wide or b.wide or not _fits(min(ends), max(ends), NARROW)
        texts = [number.typed(True) if wide else number.text for number in (a, b)]
        if b.low <= 0 <= b.high:
            self.faulty = True
            texts.append("fault")
        return Number(f"{_HERE}{_DIVISIONS[op]}({', '.join(texts)})", min(ends), max(ends), wide)


def bare(text: str) -> str:
    """``text`` without parentheses around all of it."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 > 0 and text[0] == "(" else text
    return text


def _fits(low: int, high: int, limit: int) -> bool:
    """May numbers between ``low`` and ``high`` be computed in the type whose greatest number is ``limit``?"""
    return -limit - (limit == NARROW) <= low and high <= limit


def _extreme(name: str, a: Number, b: Number) -> Number:
    pick, function = (min, "least") if name == "min" else (max, "greatest")
    wide = a.wide or b.wide
    text = f"{_HERE}{function}({a.typed(wide)}, {b.typed(wide)})"
    return Number(text, pick(a.low, b.low), pick(a.high, b.high), wide)


def _constant(value: int) -> Number:
    if abs(value) <= NARROW:
        return Number(str(value) if value >= 0 else f"({value})", value, value, literal=True)
    if abs(value) > WIDE:
        raise UsageError(f"expected constants of at most 127 bits, got one of {value.bit_length()}")
    high, low = divmod(value, 1 << 64)
    return Number(f"{_HERE}number({high}, {low}u)", value, value, wide=True)

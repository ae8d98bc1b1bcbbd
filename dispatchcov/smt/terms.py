"""Expressions of the predicate language as z3 terms, with Python's meaning of ``//`` and ``%``.

Integers are z3's unbounded ones or, where all values are bounded and products would stall, bit-vectors wide enough
that nothing overflows. Each term comes with the condition under which Python would divide by zero on its way.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeAlias

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.table import Predicate, Variable

Range: TypeAlias = tuple[int, int]
Term: TypeAlias = tuple[Any, Any]


class Terms:
    """z3 terms over ``variables``; ``width`` is that of the bit-vectors, None for unbounded integers."""

    def __init__(self, variables: tuple[Variable, ...], width: int | None) -> None:
        self.z3: Any = import_module("z3")
        self.width = width
        self.variables = {variable.name: variable for variable in variables}
        self._codes: dict[str, int] = {}
        self._predicates: dict[int, Term] = {}
        self._symbols: dict[str, Any] = {}

    def number(self, value: int) -> Any:
        """The constant ``value``."""
        return self.z3.IntVal(value) if self.width is None else self.z3.BitVecVal(value, self.width)

    def fits(self, value: int) -> bool:
        """Is ``value`` one of the numbers?"""
        return self.width is None or abs(value) < 1 << (self.width - 1)

    def constant(self, value: Value) -> Any:
        """``value`` as a constant; equal strings have equal numbers."""
        if isinstance(value, bool):
            return self.z3.BoolVal(value)
        return self.number(self._codes.setdefault(value, len(self._codes)) if isinstance(value, str) else value)

    def symbol(self, name: str) -> Any:
        """The unknown that stands for a variable."""
        if name not in self._symbols:
            z3 = self.z3
            if self.variables[name].type == "bool":
                self._symbols[name] = z3.Bool(name)
            else:
                self._symbols[name] = z3.Int(name) if self.width is None else z3.BitVec(name, self.width)
        return self._symbols[name]

    def domain(self, name: str) -> list[Any]:
        """What the declared domain says of a variable."""
        variable, x = self.variables[name], self.symbol(name)
        if variable.type == "bool":
            return []
        if variable.values:
            return [self.z3.Or([x == self.constant(value) for value in variable.values])]
        found = [] if variable.min is None else [x >= self.number(variable.min)]
        found += [] if variable.max is None else [x <= self.number(variable.max)]
        return found + ([x % self.number(variable.multiple_of) == self.number(0)] if variable.multiple_of > 1 else [])

    def magnitude(self, name: str) -> Any:
        """The distance of an ``int`` variable from zero."""
        x = self.symbol(name)
        return self.z3.If(x >= self.number(0), x, -x)

    def value(self, model: Any, name: str) -> Value:
        """The value of a variable in ``model``."""
        got = model.evaluate(self.symbol(name), model_completion=True)
        variable = self.variables[name]
        if variable.type == "bool":
            return bool(self.z3.is_true(got))
        number = int(got.as_long() if self.width is None else got.as_signed_long())
        if variable.type == "enum":
            return next(text for text, code in self._codes.items() if code == number)
        return number

    def predicate(self, predicate: Predicate) -> Term:
        """Whether ``predicate`` holds, and whether it divides by zero."""
        if predicate.index not in self._predicates:
            self._predicates[predicate.index] = self.term(predicate.expr)
        return self._predicates[predicate.index]

    def term(self, tree: ex.Expr) -> Term:
        """``tree``, and when its evaluation divides by zero."""
        z3 = self.z3
        match tree:
            case ex.Const():
                return self.constant(tree.value), z3.BoolVal(False)
            case ex.Var():
                return self.symbol(tree.name), z3.BoolVal(False)
            case ex.And() | ex.Or():
                return self._connected(tree)
        parts = [self.term(part) for part in ex.children(tree)]
        values, undefined = [part[0] for part in parts], z3.Or([part[1] for part in parts])
        match tree:
            case ex.Neg():
                return -values[0], undefined
            case ex.Not():
                return z3.Not(values[0]), undefined
            case ex.Compare(op=op):
                return ex.RELATIONS[op](values[0], values[1]), undefined
            case ex.In():
                return z3.Or([values[0] == self.constant(value) for value in tree.values]), undefined
            case ex.Call(name="ceildiv"):
                return -self._floor(-values[0], values[1]), z3.Or(undefined, values[1] == self.number(0))
            case ex.Call(name=name):
                least = name == "min"
                return functools.reduce(lambda a, b: z3.If(a <= b if least else a >= b, a, b), values), undefined
            case ex.Bin(op="//" | "%" as op):
                result = (self._floor if op == "//" else self._modulo)(*values)
                return result, z3.Or(undefined, values[1] == self.number(0))
        assert isinstance(tree, ex.Bin)
        return ex.OPERATORS[tree.op](values[0], values[1]), undefined

    def _connected(self, tree: ex.And | ex.Or) -> Term:
        """Operands are evaluated up to the first that settles it."""
        z3, stop = self.z3, isinstance(tree, ex.Or)
        value, undefined = z3.BoolVal(not stop), z3.BoolVal(False)
        for part in reversed(tree.operands):
            own, broken = self.term(part)
            undefined = z3.Or(broken, z3.And(z3.Not(own) if stop else own, undefined))
            value = z3.Or(own, value) if stop else z3.And(own, value)
        return value, undefined

    def _floor(self, a: Any, b: Any) -> Any:
        if self.width is not None:
            return (a - self._modulo(a, b)) / b
        return self.z3.If(b > 0, a / b, (-a) / (-b))  # z3 leaves a remainder that is never negative

    def _modulo(self, a: Any, b: Any) -> Any:
        if self.width is not None:
            return a % b  # smod: the sign is that of b, as in Python
        return self.z3.If(b > 0, a % b, -((-a) % (-b)))


def bounds(tree: ex.Expr, ranges: Mapping[str, Range]) -> tuple[Range, int]:
    """The least and the greatest value that ``tree`` may have, and the largest magnitude of anything inside it."""
    match tree:
        case ex.Const(value=value):
            number = int(value) if not isinstance(value, str) else 0
            return (number, number), abs(number)
        case ex.Var(name=name):
            low, high = ranges.get(name, (0, 1))
            return (low, high), max(abs(low), abs(high))
    inner = [bounds(part, ranges) for part in ex.children(tree)]
    largest = max((size for _, size in inner), default=0)
    own = _combined(tree, [part for part, _ in inner])
    return own, max(largest, abs(own[0]), abs(own[1]))


def _combined(tree: ex.Expr, parts: list[Range]) -> Range:
    match tree:
        case ex.Neg():
            return -parts[0][1], -parts[0][0]
        case ex.Bin(op="+"):
            return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
        case ex.Bin(op="-"):
            return parts[0][0] - parts[1][1], parts[0][1] - parts[1][0]
        case ex.Bin(op="*"):
            corners = [a * b for a in parts[0] for b in parts[1]]
            return min(corners), max(corners)
        case ex.Bin() | ex.Call(name="ceildiv"):
            # A quotient is not larger than the dividend or 1, a remainder not larger than the divisor.
            size = max(1, *(abs(value) for part in parts for value in part))
            return -size, size
        case ex.Call():
            return min(part[0] for part in parts), max(part[1] for part in parts)
        case ex.In(values=values):
            numbers = [value for value in values if isinstance(value, int)]
            return min((0, *numbers)), max((1, *numbers))
    return 0, 1

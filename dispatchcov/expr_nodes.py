"""The nodes of the predicate language's syntax tree, and how to walk and rebuild it. See :mod:`dispatchcov.expr`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int | str | bool
Facts: TypeAlias = Mapping[str, Value]

MAX_FACT = 1 << 256
"""Integer facts are below it in magnitude: more than any size is, and as much as a record holds."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
FUNCTIONS = ("min", "max", "ceildiv")


@dataclass(frozen=True, slots=True)
class Const:
    value: Value


@dataclass(frozen=True, slots=True)
class Var:
    name: str


@dataclass(frozen=True, slots=True)
class Neg:
    operand: Expr


@dataclass(frozen=True, slots=True)
class Bin:
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class In:
    item: Expr
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expr


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Expr, ...]


Expr: TypeAlias = Const | Var | Neg | Bin | Call | Compare | In | Not | And | Or

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def join(kind: type[And] | type[Or], parts: list[Expr]) -> Expr:
    """``parts`` under one ``and`` or ``or``; parts of the same kind are flattened into it, in order."""
    flat: list[Expr] = []
    for part in parts:
        flat.extend(part.operands if isinstance(part, kind) else [part])
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def negate(operand: Expr) -> Expr:
    """``-operand``, folded for an integer constant."""
    if isinstance(operand, Const) and type(operand.value) is int:
        return Const(-operand.value)
    return Neg(operand)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of ``expr``."""
    match expr:
        case Bin() | Compare():
            return (expr.left, expr.right)
        case Neg() | Not():
            return (expr.operand,)
        case And() | Or():
            return expr.operands
        case Call():
            return expr.args
        case In():
            return (expr.item,)
    return ()


def rebuild(expr: Expr, parts: list[Expr]) -> Expr:
    """``expr`` with its direct operands replaced by ``parts``, as many and in the same order."""
    match expr:
        case Bin() | Compare():
            return type(expr)(expr.op, *parts)
        case Neg():
            return negate(*parts)
        case Not():
            return Not(*parts)
        case And() | Or():
            return join(type(expr), parts)
        case Call():
            return Call(expr.name, tuple(parts))
        case In():
            return In(parts[0], expr.values)
    return expr


def walk(expr: Expr) -> Iterator[Expr]:
    """``expr`` and everything inside it, outermost first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def size(expr: Expr, replaced: Mapping[str, tuple[int, int]] | None = None) -> tuple[int, int]:
    """The number of nodes of ``expr`` and of the levels they are nested in; names in ``replaced`` are of that size."""
    replaced = replaced or {}
    count = deepest = 0
    stack = [(expr, 1)]
    while stack:
        node, depth = stack.pop()
        nodes, levels = replaced.get(node.name, (1, 1)) if isinstance(node, Var) else (1, 1)
        count += nodes
        deepest = max(deepest, depth + levels - 1)
        stack.extend((child, depth + 1) for child in children(node))
    return count, deepest


def names(expr: Expr) -> frozenset[str]:
    """The names that ``expr`` reads."""
    return frozenset(node.name for node in walk(expr) if isinstance(node, Var))


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """``expr`` with each name in ``values`` replaced."""
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    return rebuild(expr, [substitute(part, values) for part in children(expr)])


def divisions(expr: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Each ``//``, ``%`` and ``ceildiv`` of ``expr`` with its divisor, outermost first."""
    for node in walk(expr):
        match node:
            case Bin(op="//" | "%", right=divisor) | Call(name="ceildiv", args=(_, divisor)):
                yield node, divisor


def may_divide_by_zero(tree: Expr) -> bool:
    """Does ``tree`` divide by something that is not a constant?"""
    return any(names(divisor) for _, divisor in divisions(tree))


def multiplies(tree: Expr) -> bool:
    """Are variables multiplied with one another?"""
    return any(
        names(node.left) and names(node.right) for node in walk(tree) if isinstance(node, Bin) and node.op == "*"
    )


def linear(tree: Expr) -> bool:
    """Are there no products of variables and no divisions by one?"""
    return not may_divide_by_zero(tree) and not multiplies(tree)

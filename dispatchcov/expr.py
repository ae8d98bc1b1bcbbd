"""The predicate language: parse, type-check, print, evaluate, compile.

Python's expression syntax over declared names: integers, strings, booleans, ``+ - * // %``, comparisons (chained too),
``in``, ``and``, ``or``, ``not``, ``min``, ``max``, ``ceildiv``. :func:`parse` walks Python's syntax tree and accepts nothing
outside this list, so a table from a stranger cannot run code. Everything means what it means in Python.

A *predicate* is an atomic comparison. ``a <= b <= c`` is read as ``a <= b and b <= c``, ``x not in s`` as ``not x in s``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dispatchcov.errors import ExpressionError, known

Value: TypeAlias = int | str | bool
Facts: TypeAlias = Mapping[str, Value]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
FUNCTIONS = ("min", "max", "ceildiv")
MAX_TEXT = 4000
MAX_DEPTH = 60
MAX_NODES = 4000
INT_LIMIT = 1 << 63


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

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
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
LANGUAGE = "integers, strings, booleans, + - * // %, comparisons, in, and, or, not, min, max, ceildiv"


def parse(text: str) -> Expr:
    """Parse ``text``; raises :class:`ExpressionError` for anything outside the language. Nothing is evaluated."""
    if not isinstance(text, str):
        raise ExpressionError(f"expected an expression in a string, got {type(text).__name__} {text!r}")
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"expected at most {MAX_TEXT} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise ExpressionError(f"expected an expression, got {_short(text)!r}: {reason}") from None
    return _Parser(text.strip()).convert(tree.body, 0)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text

    def fail(self, node: ast.AST, what: str) -> ExpressionError:
        part = ast.get_source_segment(self.text, node) or self.text
        return ExpressionError(f"{what}: {_short(part)!r} in {_short(self.text)!r}; the language has {LANGUAGE}")

    def convert(self, node: ast.expr, depth: int) -> Expr:
        if depth > MAX_DEPTH:
            raise ExpressionError(f"expected at most {MAX_DEPTH} nested levels in {_short(self.text)!r}")
        deeper = depth + 1
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                if not NAME.match(node.id):
                    raise self.fail(node, "a name is letters, digits and _, and begins with a letter")
                return Var(node.id)
            case ast.BoolOp():
                parts = [self.convert(part, deeper) for part in node.values]
                return join(And if isinstance(node.op, ast.And) else Or, parts)
            case ast.UnaryOp(op=ast.Not()):
                return Not(self.convert(node.operand, deeper))
            case ast.UnaryOp(op=ast.USub()):
                return negate(self.convert(node.operand, deeper))
            case ast.BinOp() if type(node.op) in BINARY:
                left, right = self.convert(node.left, deeper), self.convert(node.right, deeper)
                return Bin(BINARY[type(node.op)], left, right)
            case ast.BinOp(op=ast.Div()):
                raise self.fail(node, "'/' gives a fraction; write '//' or '%'")
            case ast.Compare():
                return self.comparison(node, deeper)
            case ast.Call():
                return self.call(node, deeper)
        raise self.fail(node, f"{type(node).__name__} is not in the language")

    def constant(self, node: ast.Constant) -> Const:
        value = node.value
        if isinstance(value, bool | str):
            return Const(value)
        if isinstance(value, int):
            if value >= INT_LIMIT:
                raise self.fail(node, "an integer is below 2**63")
            return Const(value)
        raise self.fail(node, f"a {type(value).__name__} is not in the language")

    def call(self, node: ast.Call, depth: int) -> Expr:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            raise self.fail(node, f"the only calls are {', '.join(FUNCTIONS)}")
        name, count = node.func.id, len(node.args)
        if (name == "ceildiv" and count != 2) or count < 2:
            raise self.fail(node, f"{name} takes {'two' if name == 'ceildiv' else 'two or more'} arguments, got {count}")
        return Call(name, tuple(self.convert(arg, depth) for arg in node.args))

    def comparison(self, node: ast.Compare, depth: int) -> Expr:
        sides = [node.left, *node.comparators]
        links: list[Expr] = []
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(op, ast.In | ast.NotIn):
                member: Expr = In(self.convert(left, depth), self.members(right, depth))
                links.append(Not(member) if isinstance(op, ast.NotIn) else member)
            elif type(op) in COMPARE:
                links.append(Compare(COMPARE[type(op)], self.convert(left, depth), self.convert(right, depth)))
            else:
                raise self.fail(node, "compare with == != < <= > >= in, not in")
        return join(And, links)

    def members(self, node: ast.expr, depth: int) -> tuple[Value, ...]:
        if not isinstance(node, ast.List | ast.Tuple | ast.Set) or not node.elts:
            raise self.fail(node, "'in' is followed by a list of constants, as in [16, 32]")
        values = []
        for element in node.elts:
            item = self.convert(element, depth)
            if not isinstance(item, Const):
                raise self.fail(element, "'in' is followed by constants")
            values.append(item.value)
        return tuple(values)


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


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."


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


def walk(expr: Expr) -> Iterator[Expr]:
    """``expr`` and everything inside it, outermost first."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def names(expr: Expr) -> frozenset[str]:
    """The names that ``expr`` reads."""
    return frozenset(node.name for node in walk(expr) if isinstance(node, Var))


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """``expr`` with each name in ``values`` replaced."""

    def again(node: Expr) -> Expr:
        return substitute(node, values)

    match expr:
        case Var():
            return values.get(expr.name, expr)
        case Bin():
            return Bin(expr.op, again(expr.left), again(expr.right))
        case Compare():
            return Compare(expr.op, again(expr.left), again(expr.right))
        case Neg():
            return negate(again(expr.operand))
        case Not():
            return Not(again(expr.operand))
        case And():
            return join(And, list(map(again, expr.operands)))
        case Or():
            return join(Or, list(map(again, expr.operands)))
        case Call():
            return Call(expr.name, tuple(map(again, expr.args)))
        case In():
            return In(again(expr.item), expr.values)
    return expr


def check_type(expr: Expr, types: Mapping[str, str]) -> str:
    """The type of ``expr``, ``int``, ``str`` or ``bool``, with the types of its names given; errors say what does not fit."""
    match expr:
        case Const():
            return type(expr.value).__name__
        case Var():
            if expr.name not in types:
                raise ExpressionError(f"unknown name {expr.name!r}; {known(expr.name, types)}")
            return types[expr.name]
        case Neg() | Bin() | Call():
            for part in children(expr):
                _expect(part, "int", types, expr)
            if isinstance(expr, Bin) and expr.op in ("//", "%") and expr.right == Const(0):
                raise ExpressionError(f"division by zero in {to_text(expr)!r}")
            if isinstance(expr, Call) and expr.name == "ceildiv" and expr.args[1] == Const(0):
                raise ExpressionError(f"division by zero in {to_text(expr)!r}")
            return "int"
        case Compare():
            left = check_type(expr.left, types)
            _expect(expr.right, left, types, expr)
            if left != "int" and expr.op not in ("==", "!="):
                raise ExpressionError(f"{expr.op!r} orders integers, got {left} in {to_text(expr)!r}")
        case In():
            item = check_type(expr.item, types)
            for value in expr.values:
                _expect(Const(value), item, types, expr)
        case Not() | And() | Or():
            for part in children(expr):
                _expect(part, "bool", types, expr)
    return "bool"


def _expect(part: Expr, wanted: str, types: Mapping[str, str], whole: Expr) -> None:
    got = check_type(part, types)
    if got != wanted:
        raise ExpressionError(f"expected {wanted}, got {got} {to_text(part)!r} in {to_text(whole)!r}")


PRECEDENCE = {"or": 1, "and": 2, "not": 3, "compare": 4, "+": 5, "-": 5, "*": 6, "//": 6, "%": 6, "neg": 7}


def to_text(expr: Expr, level: int = 0) -> str:
    """``expr`` as source text of the language, with the fewest parentheses; :func:`parse` gives ``expr`` back."""
    text, own = _print(expr)
    return f"({text})" if own < level else text


def _print(expr: Expr) -> tuple[str, int]:
    match expr:
        case Const():
            return repr(expr.value), 8 if not isinstance(expr.value, int) or expr.value >= 0 else PRECEDENCE["neg"]
        case Var():
            return expr.name, 8
        case Neg():
            return f"-{to_text(expr.operand, PRECEDENCE['neg'] + 1)}", PRECEDENCE["neg"]
        case Bin():
            own = PRECEDENCE[expr.op]
            return f"{to_text(expr.left, own)} {expr.op} {to_text(expr.right, own + 1)}", own
        case Call():
            return f"{expr.name}({', '.join(to_text(arg) for arg in expr.args)})", 8
        case Compare():
            own = PRECEDENCE["compare"]
            return f"{to_text(expr.left, own + 1)} {expr.op} {to_text(expr.right, own + 1)}", own
        case In():
            own = PRECEDENCE["compare"]
            return f"{to_text(expr.item, own + 1)} in [{', '.join(map(repr, expr.values))}]", own
        case Not():
            return f"not {to_text(expr.operand, PRECEDENCE['not'])}", PRECEDENCE["not"]
        case And() | Or():
            word = "and" if isinstance(expr, And) else "or"
            own = PRECEDENCE[word]
            return f" {word} ".join(to_text(part, own + 1) for part in expr.operands), own


def to_python(expr: Expr) -> str:
    """Python source of ``expr``, safe to compile: it holds only constants, names and the operators of the language."""
    return to_text(_without_ceildiv(expr))


def _without_ceildiv(expr: Expr) -> Expr:
    match expr:
        case Call(name="ceildiv"):
            left, right = map(_without_ceildiv, expr.args)
            return Neg(Bin("//", Neg(left), right))
        case Call():
            return Call(expr.name, tuple(map(_without_ceildiv, expr.args)))
        case Bin():
            return Bin(expr.op, _without_ceildiv(expr.left), _without_ceildiv(expr.right))
        case Compare():
            return Compare(expr.op, _without_ceildiv(expr.left), _without_ceildiv(expr.right))
        case In():
            return In(_without_ceildiv(expr.item), expr.values)
        case Neg():
            return Neg(_without_ceildiv(expr.operand))
        case Not():
            return Not(_without_ceildiv(expr.operand))
        case And():
            return And(tuple(map(_without_ceildiv, expr.operands)))
        case Or():
            return Or(tuple(map(_without_ceildiv, expr.operands)))
    return expr


def evaluate(expr: Expr, facts: Facts) -> Value:
    """The value of ``expr`` for ``facts``; ``ZeroDivisionError`` where Python would raise it."""
    match expr:
        case Const():
            return expr.value
        case Var():
            return facts[expr.name]
        case Neg():
            return -_int(expr.operand, facts)
        case Bin():
            return OPERATORS[expr.op](_int(expr.left, facts), _int(expr.right, facts))
        case Call():
            values = [_int(arg, facts) for arg in expr.args]
            if expr.name == "ceildiv":
                return -(-values[0] // values[1])
            return min(values) if expr.name == "min" else max(values)
        case Compare():
            left, right = evaluate(expr.left, facts), evaluate(expr.right, facts)
            return RELATIONS[expr.op](left, right)  # type: ignore[arg-type]  # check_type gave both sides one type
        case In():
            return evaluate(expr.item, facts) in expr.values
        case Not():
            return not evaluate(expr.operand, facts)
        case And():
            return all(evaluate(part, facts) for part in expr.operands)
        case Or():
            return any(evaluate(part, facts) for part in expr.operands)


def _int(expr: Expr, facts: Facts) -> int:
    return int(evaluate(expr, facts))

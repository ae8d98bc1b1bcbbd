"""The predicate language: parse, type-check, print, evaluate, compile.

Python's expression syntax over declared names: integers, strings, booleans, ``+ - * // %``, comparisons (chained
too), ``in``, ``and``, ``or``, ``not``, ``min``, ``max``, ``ceildiv``. :func:`parse` walks Python's syntax tree and
accepts nothing outside this list, so a table from a stranger cannot run code. Everything means what it means in Python.

A *predicate* is an atomic comparison. ``a <= b <= c`` is read as ``a <= b and b <= c``, ``x not in s`` as ``not x in
s``.
"""

from __future__ import annotations

from collections.abc import Mapping

from dispatchcov.errors import ExpressionError, known
from dispatchcov.expr_nodes import (
    FUNCTIONS,
    MAX_FACT,
    NAME,
    OPERATORS,
    RELATIONS,
    And,
    Bin,
    Call,
    Compare,
    Const,
    Expr,
    Facts,
    In,
    Neg,
    Not,
    Or,
    Value,
    Var,
    children,
    divisions,
    join,
    linear,
    may_divide_by_zero,
    multiplies,
    names,
    negate,
    rebuild,
    size,
    substitute,
    walk,
)
from dispatchcov.expr_parse import INT_LIMIT, LANGUAGE, MAX_DEPTH, MAX_TEXT, parse

__all__ = [
    "FUNCTIONS", "INT_LIMIT", "LANGUAGE", "MAX_DEPTH", "MAX_FACT", "MAX_TEXT", "NAME", "OPERATORS", "RELATIONS",
    "And", "Bin", "Call", "Compare", "Const", "Expr", "Facts", "In", "Neg", "Not", "Or", "Value", "Var",
    "check_divisors", "check_type", "children", "divisions", "evaluate", "join", "linear", "may_divide_by_zero",
    "multiplies", "names", "negate", "parse", "rebuild", "size", "substitute", "to_python", "to_text", "walk",
]  # fmt: skip


def check_type(expr: Expr, types: Mapping[str, str]) -> str:
    """The type of ``expr``, ``int``, ``str`` or ``bool``, given those of its names; errors say what does not fit."""
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


def check_divisors(expr: Expr) -> None:
    """Raises :class:`ExpressionError` if ``expr`` divides by a constant that is zero."""
    for division, divisor in divisions(expr):
        if not names(divisor) and not _nonzero(divisor):
            raise ExpressionError(f"division by zero in {to_text(division)!r}")


def _nonzero(constant: Expr) -> bool:
    try:
        return evaluate(constant, {}) != 0
    except ZeroDivisionError:
        return False


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
    parts = [_without_ceildiv(part) for part in children(expr)]
    if isinstance(expr, Call) and expr.name == "ceildiv":
        left, right = parts
        return Neg(Bin("//", negate(left), right))
    return rebuild(expr, parts)


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

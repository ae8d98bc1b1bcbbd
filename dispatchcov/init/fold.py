"""Conditions put together, with the constants among them computed."""

from __future__ import annotations

from dispatchcov import expr as ex
from dispatchcov.errors import ExpressionError, brief
from dispatchcov.init import syntax as syn
from dispatchcov.loading.variables import MAX_VALUE

BOOLEAN = (ex.Compare, ex.In, ex.Not, ex.And, ex.Or)
TRUTH = "bool"
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class UntranslatedError(Exception):
    """The message is the reason."""


def constant(node: syn.Literal) -> ex.Const:
    """The literal ``node``; strings that a report cannot show and integers of more than 64 bits are not taken."""
    value = node.value
    if isinstance(value, str) and (not value.isprintable() or len(value) > MAX_VALUE):
        raise UntranslatedError(f"expected a printable string of at most {MAX_VALUE} characters, got {brief(value)}")
    if value is None or (type(value) is int and value >= ex.INT_LIMIT):
        raise UntranslatedError("no value of the predicate language")
    return ex.Const(value)


def truth(expr: ex.Expr) -> ex.Expr:
    """``expr`` as a condition by itself."""
    if isinstance(expr, ex.Const):
        return ex.Const(bool(expr.value))
    if isinstance(expr, BOOLEAN) or (isinstance(expr, ex.Call) and expr.name == TRUTH):
        return expr
    return ex.Call(TRUTH, (expr,))


def joined(word: str, parts: list[ex.Expr]) -> ex.Expr:
    """``parts`` under ``and`` or ``or``; constants among them decide or go."""
    deciding = ex.Const(word == "or")
    if deciding in parts:
        return deciding
    rest: list[ex.Expr] = [part for part in parts if not isinstance(part, ex.Const)]
    if not rest:
        return ex.Const(word == "and")
    return ex.join(ex.And if word == "and" else ex.Or, rest)


def negated(expr: ex.Expr) -> ex.Expr:
    """The opposite of the condition ``expr``, in the fewest words."""
    match expr:
        case ex.Const():
            return ex.Const(not expr.value)
        case ex.Not():
            return expr.operand
        case ex.Compare():
            return ex.Compare(OPPOSITE[expr.op], expr.left, expr.right)
    return ex.Not(expr)


def folded(expr: ex.Expr) -> ex.Expr:
    """``expr``, computed if it has constants only."""
    parts = ex.children(expr)
    if not all(isinstance(part, ex.Const) for part in parts):
        return expr
    if isinstance(expr, ex.Bin) and expr.op.startswith("t"):
        return ex.Const(_toward_zero(expr.op, *(part.value for part in parts if isinstance(part, ex.Const))))
    try:
        ex.check_type(expr, {})
        value = ex.evaluate(expr, {})
    except (ExpressionError, ZeroDivisionError) as error:
        raise UntranslatedError(str(error)) from None
    if type(value) is int and abs(value) >= ex.INT_LIMIT:
        raise UntranslatedError("an integer of more than 64 bits")
    return ex.Const(value)


def _toward_zero(op: str, left: ex.Value, right: ex.Value) -> int:
    """A division of constants as C++ computes it."""
    if type(left) is not int or type(right) is not int or right == 0:
        raise UntranslatedError("a division of constants")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "t/" else left - quotient * right

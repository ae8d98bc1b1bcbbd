"""Conditions that stand where a value does: a returned one is a decision, and so is the test of a choice."""

from __future__ import annotations

from dataclasses import replace

from dispatchcov import expr as ex
from dispatchcov.init import syntax as syn
from dispatchcov.init.fold import BOOLEAN
from dispatchcov.init.names import Locals, Names
from dispatchcov.init.syntax import Syntax


def returned(head: syn.Return, names: Names, env: Locals) -> syn.If | None:
    """``return M == 1 and K > 3`` as the two ways on which it returns true and false; None for any other value.

    Of Python, ``bias and gemv(x)`` returns one of its parts.
    """
    value = head.value
    if value is None:
        return None
    if isinstance(value, syn.Logic) and not names.cpp and not _boolean(value, names, env):
        first, rest = value.parts[0], value.parts[1:]
        text = syn.flat(f" {value.op} ".join(part.text for part in rest))
        others: Syntax = rest[0] if len(rest) == 1 else replace(value, text=text, line=rest[0].line, parts=rest)
        ends = (replace(head, value=others), replace(head, value=first))
        if _boolean(first, names, env):
            ends = (ends[0], replace(head, value=syn.Literal(first.line, str(value.op == "or"), value.op == "or")))
        then, orelse = ends if value.op == "and" else ends[::-1]
        return syn.If(first.line, first.text, first, (then,), (orelse,))
    if not _boolean(value, names, env):
        return None
    then, orelse = (
        replace(head, value=syn.Literal(value.line, str(held).lower() if names.cpp else str(held), held))
        for held in (True, False)
    )
    return syn.If(value.line, value.text, value, (then,), (orelse,))


def _boolean(node: Syntax, names: Names, env: Locals) -> bool:
    """Is ``node`` true or false, and nothing else?"""
    match node:
        case syn.Comparison() | syn.Unary(op="not"):
            return True
        case syn.Logic(parts=parts):
            return names.cpp or all(_boolean(part, names, env) for part in parts)
        case syn.Name(id=name) if name in env:
            expr = env[name].expr
            while isinstance(expr, ex.Var) and expr.name in names.lets:
                expr = names.lets[expr.name][1]
            return isinstance(expr, BOOLEAN) or (isinstance(expr, ex.Var) and _declared(expr.name, names))
        case syn.Name(id=name):
            return _declared(name, names)
    return False


def _declared(key: str, names: Names) -> bool:
    return set(names.types.get(key, "").split()) - {"const", "&"} == {"bool"}


def lifted(node: Syntax) -> syn.Choice | None:
    """``a + (b if test else c)`` as ``a + b if test else a + c``; None where ``node`` has no choice in it."""
    match node:
        case syn.Choice():
            return node
        case syn.Unary(op="-" | "+", operand=operand):
            if (inner := lifted(operand)) is not None:
                return replace(
                    inner, then=replace(node, operand=inner.then), orelse=replace(node, operand=inner.orelse)
                )
        case syn.Binary() | syn.Comparison():
            if (inner := lifted(node.left)) is not None:
                return replace(inner, then=replace(node, left=inner.then), orelse=replace(node, left=inner.orelse))
            if (inner := lifted(node.right)) is not None:
                return replace(inner, then=replace(node, right=inner.then), orelse=replace(node, right=inner.orelse))
    return None

"""What the names at the top of a Python module are: constants, and what it imports."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from dispatchcov.init import syntax as syn
from dispatchcov.init.syntax import Syntax

READING = {"get", "keys", "items", "values", "index", "count", "copy", "union", "issubset", "issuperset"}


def constants(tree: ast.Module, expression: Callable[[ast.expr], Syntax]) -> dict[str, Syntax]:
    """Names that the module assigns once, at its top, and nothing declares global."""
    values: dict[str, list[Syntax]] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values.setdefault(name, []).append(expression(value))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                values.setdefault(name, []).append(expression(value))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:  # assigned again, or only on some condition
                for name in assigned([node]):
                    values.setdefault(name, []).append(syn.Other(node.lineno, name))
    for inner in ast.walk(tree):
        if isinstance(inner, ast.Global):
            for name in inner.names:
                values.setdefault(name, []).append(syn.Other(inner.lineno, name))
    fixed = (syn.Literal, syn.Items, syn.Pairs, syn.Unary, syn.Binary)
    changed = _changed(tree)
    return {
        name: found[0]
        for name, found in values.items()
        if len(found) == 1 and isinstance(found[0], fixed) and name not in changed
    }


def imported(tree: ast.Module) -> frozenset[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return frozenset(found)


def _changed(tree: ast.Module) -> set[str]:
    """The names of lists, sets and the like of which an element is assigned or a method called that may change them."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr not in READING:
                found.add(name)
            case ast.AugAssign(target=ast.Name(id=name)):
                found.add(name)
    return found


def assigned(body: Sequence[ast.stmt]) -> set[str]:
    """The names that ``body`` assigns, at any depth."""
    inner = (node for statement in body for node in ast.walk(statement))
    return {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}

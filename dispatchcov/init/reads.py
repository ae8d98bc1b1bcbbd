"""Which names of a function its choices depend on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

from dispatchcov.init import syntax as syn
from dispatchcov.init.syntax import Block


def relevant(body: Block) -> set[str]:
    """The names whose values tests, returns and calls depend on."""
    statements = list(syn.statements(body))
    found: set[str] = set()
    for part in statements:
        match part:
            case syn.If():
                found |= set(names(part.test))
            case syn.Return(value=value) if value is not None:
                found |= set(names(value.of if isinstance(value, syn.Call) and not _gets(value.of) else value))
            case syn.Do(value=syn.Call(of=of)):
                found |= set(names(of))
            case syn.Assign(value=syn.Choice(test=test)):
                found |= set(names(test))
    before = -1
    while before != len(found):
        before = len(found)
        for part in statements:
            if isinstance(part, syn.Assign) and syn.last(part.target) in found:
                found |= set(names(part.value))
    return found


def _gets(node: syn.Node) -> bool:
    """Is ``node`` the method that looks a key up?"""
    return isinstance(node, syn.Attribute) and node.name == "get"


def names(node: syn.Node) -> Iterator[str]:
    """The names in ``node``, and the last parts of its members."""
    if isinstance(node, syn.Name):
        yield node.id
    if isinstance(node, syn.Attribute):
        yield node.name
    if isinstance(node, syn.Other):
        yield from re.findall(r"[A-Za-z_]\w*", node.text)
    for field in fields(node):
        value = getattr(node, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, syn.Node):
                yield from names(part)

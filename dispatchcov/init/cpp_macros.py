"""Macros that run a lambda for one of several types: ``AT_DISPATCH_ALL_TYPES(x.dtype(), "name", [&] { ... })``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dispatchcov.init import syntax as syn
from dispatchcov.init.syntax import Block

RUNS = re.compile(r"\w*(DISPATCH|SWITCH)\w*\Z")


def run(line: int, text: str, name: str, body: Block) -> Iterator[syn.Statement]:
    """``body`` of the lambda where the macro ``name`` stands; for which types it refuses is not known here."""
    if "DISPATCH" in name:
        refused = syn.Raise(line, text, f"refused by {name}")
        yield syn.If(line, text, syn.Other(line, f"refused by {text}"), (refused,))
    yield syn.Scope(line, text, tuple(_left(body)))


def _left(body: Block) -> Iterator[syn.Statement]:
    """``body`` in which ``return`` leaves the lambda, not the function."""
    for part in body:
        match part:
            case syn.Return(value=value):
                if value is not None:
                    yield syn.Do(part.line, part.text, value)
                yield syn.Break(part.line, part.text)
            case syn.If():
                yield replace(part, body=tuple(_left(part.body)), orelse=tuple(_left(part.orelse)))
            case syn.Scope():  # a break in it would leave only the switch
                ends = any(isinstance(inner, syn.Return) for inner in syn.statements(part.body))
                yield syn.Opaque(part.line, part.text, (), True) if ends else part
            case _:
                yield part

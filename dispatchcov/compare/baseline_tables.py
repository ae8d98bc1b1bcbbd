"""What a baseline keeps of a table: variables, derived values and rules, one JSON line each, enough to decide by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from dispatchcov.errors import TableError
from dispatchcov.files.untrusted import refuse, text
from dispatchcov.loading.load import parse_parts
from dispatchcov.parts import Parts, Variable


def lines(parts: Parts) -> Iterator[dict[str, Any]]:
    """The lines of ``parts``, in the order of its declarations."""
    for variable in parts.variables:
        yield {"op": parts.op, "variable": variable.name, **_declared(variable)}
    for name, value in parts.lets:
        yield {"op": parts.op, "let": name, "value": value}
    for rule in parts.rules:
        yield {"op": parts.op, "rule": rule.name, "when": rule.when, "kernel": rule.kernel.name}


def _declared(variable: Variable) -> dict[str, Any]:
    found: dict[str, Any] = {"type": variable.type}
    if variable.values and variable.type != "bool":
        found["values"] = list(variable.values)
    elif variable.type == "int":
        step = variable.multiple_of if variable.multiple_of > 1 else None
        bounds = {"min": variable.min, "max": variable.max, "multiple_of": step}
        found |= {key: value for key, value in bounds.items() if value is not None}
    return found | ({"hardware": True} if variable.hardware else {})


def parse(op: str, values: Iterable[dict[str, Any]], source: str) -> Parts:
    """The table of ``op`` that ``values``, lines of ``source``, declare.

    Raises :class:`~dispatchcov.errors.TableError`, or ``TypeError`` for a line that declares nothing.
    """
    sections: dict[str, list[str]] = {"variables": [], "let": []}
    kernels: dict[str, None] = {}
    rules: list[str] = []
    names: set[tuple[str, str]] = set()
    for value in values:
        for kind in {"variable", "let", "rule"} & set(value):
            if (kind, str(value[kind])) in names:
                raise TableError(f"expected one line of {kind} {value[kind]!r}, got two; a merge left both, keep one")
            names.add((kind, str(value[kind])))
        match value:
            case {"variable": str(name), **rest}:
                pairs = (f"{key} = {_toml(item)}" for key, item in rest.items() if key != "op")
                sections["variables"].append(f"{_toml(name)} = {{ {', '.join(pairs)} }}")
            case {"let": str(name), "value": str(formula)}:
                sections["let"].append(f"{_toml(name)} = {_toml(formula)}")
            case {"rule": str(name), "when": str(when), "kernel": str(kernel)}:
                kernels[kernel] = None
                guard = f"when = {_toml(when)}\n" if when else ""
                rules.append(f"[[rule]]\nname = {_toml(name)}\n{guard}kernel = {_toml(kernel)}\n")
            case _:
                refuse(json.dumps(value))
    document = f"[table]\nop = {_toml(op)}\n"
    document += "".join(f"[{name}]\n" + "".join(f"{line}\n" for line in found) for name, found in sections.items())
    document += "".join(f"[[kernel]]\nname = {_toml(kernel)}\n" for kernel in kernels) + "".join(rules)
    return parse_parts(document, source=source)


def _toml(value: Any) -> str:
    """``value`` as TOML, whose strings are those of JSON but for the character 127."""
    match value:
        case bool() | int():
            return json.dumps(value)
        case list():
            return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(text(value), ensure_ascii=False).replace("\x7f", "\\u007f")

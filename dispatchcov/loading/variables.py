"""The declarations of variables in a table's TOML: types, domains, and names that generated code may use."""

from __future__ import annotations

import json
import keyword

from dispatchcov.errors import brief
from dispatchcov.expr import FUNCTIONS, NAME
from dispatchcov.loading.toml_read import Entry, shown
from dispatchcov.parts import Variable

KEYS = {
    "int": ("min", "max", "multiple_of", "values"),
    "enum": ("values",),
    "bool": (),
}
MAX_NAME = 80
MAX_VALUE = 200
MAX_LISTED = 60


def read_variables(entry: Entry) -> dict[str, Variable]:
    """The variables declared in ``[variables]``."""
    if not entry.values:
        raise entry.fail("expected at least one variable, got none")
    return {name: _variable(entry, name) for name in entry.values}


def check_name(entry: Entry, name: str) -> None:
    """Raises an error unless ``name`` can be declared: a Python name that the language does not use."""
    if not NAME.match(name) or len(name) > MAX_NAME or keyword.iskeyword(name) or name in FUNCTIONS:
        wanted = (
            f"a name of at most {MAX_NAME} letters, digits and _, the first a letter, that is no word of the language"
        )
        raise entry.fail(f"expected {wanted}, got {brief(name)}", name)


def _variable(variables: Entry, name: str) -> Variable:
    check_name(variables, name)
    entry = variables.table(name)
    entry.where = f"variable {name!r}"
    kind = entry.values.get("type")
    if kind not in tuple(KEYS):
        raise entry.fail(f"expected type to be int, enum or bool, got {shown(kind)}", "type")
    for key in ("min", "max", "multiple_of", "values"):
        if key in entry and key not in KEYS[kind]:
            raise entry.fail(f"{key!r} does not go with type {kind}", key)
    entry.only("type", "hardware", *KEYS[kind])
    low, high, step = (entry.integer(key) for key in ("min", "max", "multiple_of"))
    if step is not None and step < 1:
        raise entry.fail(f"expected multiple_of to be at least 1, got {step}", "multiple_of")
    step = step or 1
    if low is not None and high is not None and -(-low // step) * step > high:
        multiple = f" that is a multiple of {step}" if step > 1 else ""
        raise entry.fail(f"expected a value{multiple} between min {low} and max {high}, got none", "max")
    hardware = entry.boolean("hardware", False)
    values = _values(entry, kind)
    if hardware and not values:
        raise entry.fail("expected values, since a hardware variable lists its values", "hardware")
    return Variable(name, kind, low, high, step, values, hardware, entry.line())


def _values(entry: Entry, kind: str) -> tuple[int | str | bool, ...]:
    if kind == "bool":
        return False, True
    _check_kind(entry, kind)
    values = entry.strings("values") if kind == "enum" else entry.integers("values")
    if not values and ("values" in entry or kind == "enum"):
        raise entry.fail(f"expected values to list at least one {'string' if kind == 'enum' else 'integer'}", "values")
    for position, value in enumerate(values):
        if isinstance(value, str) and len(value) > MAX_VALUE:
            wanted = f"a value of at most {MAX_VALUE} characters"
            raise entry.fail(f"expected {wanted}, got {brief(value)}", "values", position)
    for key in ("min", "max", "multiple_of"):
        if values and key in entry:
            raise entry.fail(f"expected either values or {key}, got both", key)
    return tuple(values)


def _check_kind(entry: Entry, kind: str) -> None:
    """Say what to write instead where all values are those of the other type."""
    given = entry.values.get("values")
    found = {type(value) for value in given} if isinstance(given, list) else set()
    other = {"enum": (int, "int", "strings", "integers"), "int": (str, "enum", "integers", "strings")}[kind]
    if found == {other[0]}:
        listed = ", ".join(map(json.dumps, given)) if isinstance(given, list) else ""
        short = listed if len(listed) <= MAX_LISTED else "..."
        raise entry.fail(
            f'expected values of type {kind} to be {other[2]}, got {other[3]}: type = "{other[1]}" with '
            f"values = [{short}]",
            "values",
            0,
        )

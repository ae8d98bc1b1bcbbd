from __future__ import annotations

import pytest

from dispatchcov.errors import TableError
from dispatchcov.expr import Value
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import RecordedDecision
from dispatchcov.table import Variable
from tests.dispatchcov.small_table import SMALL, changed

N = 'N = { type = "int", min = 0 }'
DTYPE = 'dtype = { type = "enum", values = ["float16", "float32"] }'
BIAS = 'bias = { type = "bool" }'
WORDS = "a name of at most 80 letters, digits and _, the first a letter, that is no word of the language"


def test_variables() -> None:
    number, sm, dtype, bias = parse_table(SMALL).variables
    assert number == Variable("N", "int", min=0, line=4)
    assert sm == Variable("sm", "int", values=(80, 90), hardware=True, line=5)
    assert dtype == Variable("dtype", "enum", values=("float16", "float32"), line=6)
    assert bias == Variable("bias", "bool", values=(False, True), line=7)
    assert [variable.kind for variable in (number, sm, dtype, bias)] == ["int", "int", "str", "bool"]


def test_all_of_an_integer() -> None:
    text = changed((N, 'N = { type = "int", min = -9, max = 8, multiple_of = 4 }'))
    assert parse_table(text).variables[0] == Variable("N", "int", min=-9, max=8, multiple_of=4, line=4)


@pytest.mark.parametrize(
    "hardware", ['{ type = "bool", hardware = true }', '{ type = "enum", values = ["a"], hardware = true }']
)
def test_hardware_of_every_type_that_lists_its_values(hardware: str) -> None:
    table = parse_table(changed((BIAS, f"bias = {hardware}")))
    assert table.hardware == ("sm", "bias")


MISTAKES = [
    (N, "N = {}", 4, "expected type to be int, enum or bool, got none"),
    (N, "N.type = 'float'", 4, "expected type to be int, enum or bool, got the string 'float'"),
    (N, "N.type = ['int']", 4, "expected type to be int, enum or bool, got an array ['int']"),
    (N, 'N.type = "int"\nN.mni = 0', 5, "unknown key 'mni'; did you mean 'min'? known: type, hardware, min,"),
    (N, 'N.type = "int"\nN.min = 1.5', 5, "expected min to be an integer below 2**63, got the number 1.5"),
    (N, 'N.type = "int"\nN.max = true', 5, "expected max to be an integer below 2**63, got true"),
    (N, 'N.type = "int"\nN.multiple_of = 0', 5, "expected multiple_of to be at least 1, got 0"),
    (N, 'N.type = "int"\nN.multiple_of = -8', 5, "expected multiple_of to be at least 1, got -8"),
    (N, 'N.type = "int"\nN.min = 3\nN.max = 2', 6, "expected a value between min 3 and max 2, got none"),
    (N, "N = { type = 'int', min = 9, max = 15, multiple_of = 8 }", 4, "expected a value that is a multiple of 8"),
    (N, "N = { type = 'int', values = [] }", 4, "expected values to list at least one integer"),
    (N, "N = { type = 'int', values = [1, 'a'] }", 4, "expected values to be a list of integers below 2**63, got"),
    (N, "N = { type = 'int', values = [1, true] }", 4, "expected values to be a list of integers below 2**63, got"),
    (N, "N = { type = 'int', values = [1, 1] }", 4, "expected each entry of values once, got 1 twice"),
    (N, "N = { type = 'int', values = [1], min = 0 }", 4, "expected either values or min, got both"),
    (N, "N = { type = 'int', hardware = true }", 4, "expected values, since a hardware variable lists its values"),
    (N, "N = { type = 'int', hardware = 1 }", 4, "expected hardware to be true or false, got the integer 1"),
    (DTYPE, "dtype.type = 'enum'", 6, "expected values to list at least one string"),
    (DTYPE, f"dtype = {{ type = 'enum', values = ['{'b' * 201}'] }}", 6, "expected a value of at most 200 characters,"),
    (DTYPE, "dtype = { type = 'enum', values = [] }", 6, "expected values to list at least one string"),
    (DTYPE, "dtype = { type = 'enum', values = [1, 'a'] }", 6, "expected values to be a list of strings, got the"),
    (DTYPE, "dtype = { type = 'enum', values = [16, 32] }", 6, 'expected values of type enum to be strings, got '
        'integers: type = "int" with values = [16, 32]'),
    (N, "N = { type = 'int', values = ['a', 'b'] }", 4, 'expected values of type int to be integers, got strings: '
        'type = "enum" with values = ["a", "b"]'),
    (N, f"N = {{ type = 'int', values = ['{'a' * 70}'] }}", 4, 'expected values of type int to be integers, got '
        'strings: type = "enum" with values = [...]'),
    (DTYPE, "dtype = { type = 'enum', values = ['a'], min = 1 }", 6, "'min' does not go with type enum"),
    (BIAS, "bias = { type = 'bool', values = [true] }", 7, "'values' does not go with type bool"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((old, new)))
    name = old.partition(" ")[0]
    assert str(error.value).startswith(f"<table>:{line}: variable {name!r}: {message}")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (N, 'N = "int"', 4, "[variables]: expected N to be a table, got the string 'int'"),
        (N, 'N = { type = "int",\nmni = 0 }', 4, "expected TOML: "),
        (BIAS, "N = { type = 'bool' }", 7, "expected TOML: Cannot overwrite a value"),
    ],
)
def test_other_mistakes(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((old, new)))
    assert str(error.value).startswith(f"<table>:{line}: {message}")


QUOTES = "\"'"
NAMES = [
    "lambda",
    "None",
    "min",
    "max",
    "ceildiv",
    "_b",
    "9b",
    "'b b'",
    "''",
    "'größe'",
    '"b\\n"',
    "b-b",
    "'b.b'",
    "b" * 81,
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_cannot_be_declared(name: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((BIAS, f"{name} = {{ type = 'bool' }}")))
    assert str(error.value).startswith(f"<table>:7: [variables]: expected {WORDS}, got '{name.strip(QUOTES)}"[:200])


GENERATED = [
    *["v", "cell", "cells", "facts", "bounds", "extremes", "low_N", "high_N", "on", "chain", "decide", "vector"],
    *[
        "hardware",
        "count",
        "counts",
        "note",
        "new",
        "remembered",
        "Decision",
        "decision",
        "extend",
        "record",
        "untotal",
        "rule0",
        "bits_N",
        "outcomes_N",
        "self",
        "cls",
        "args",
    ],
    *["kwargs", "table", "view", "type", "match", "case", "print", "len", "eval", "exec", "ZeroDivisionError"],
    *["FactsError", "Exception", "bool", "int", "str", "compile", "globals", "builtins", "value", "values", "source"],
    *["names", "kernel", "K", "true"],
]


def test_no_name_collides_with_one_of_generated_code() -> None:
    names = GENERATED
    declared = "\n".join(f"{name} = {{ type = 'int', min = 0, max = 9 }}" for name in names)
    guard = " and ".join(f"{name} % (N + 1) == 0" for name in names)
    several = " + ".join(names) + " >= 0"
    table = parse_table(changed((BIAS, f"{BIAS}\n{declared}"), ("N % 4 == 0 and rows > 32", f"{guard} and {several}")))
    facts: dict[str, Value] = {"N": 4, "sm": 80, "dtype": "float16", "bias": True, **dict.fromkeys(names, 5)}
    assert table.decide(**facts).rule == "vec4"
    assert table.decide(**{**facts, names[-1]: 6}).rule == "plain"
    view = table.on("cpu")
    values = tuple(facts.values())
    guards = (1 << len(names) + 1) - 1
    assert view.vector(values) & guards == guards
    assert view.hardware(values) == (80,)

    class Cell:
        def __init__(self) -> None:
            self.bounds = [values[place] for place in view.ranged for _ in range(2)]
            self.plain = True
            self.slot = 2

    cell = Cell()
    cells: dict[tuple[Value, ...], Cell] = {(view.vector(values), 80): cell}
    counts = [0] * 4
    view.bind(cells, counts, RecordedDecision)
    assert view.decide.__globals__["_count"](*values).cell is cell
    assert counts == [0, 0, 1, 0]
    view.unbind()
    extremes = [values] * len(cell.bounds)
    lower = (*values[:-1], 0)
    view.extend(cell.bounds, extremes, lower)
    assert cell.bounds[-2:] == [0, 5]
    assert extremes == [values] * (len(extremes) - 2) + [lower, values]

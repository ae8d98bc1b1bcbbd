from __future__ import annotations

import pytest

from dispatchcov.errors import TableError
from dispatchcov.expr import to_text
from dispatchcov.formula import Every, Formula, Leaf, Opposite, Some
from dispatchcov.loading.load import parse_table
from dispatchcov.table import Table
from tests.dispatchcov.small_table import changed

WHEN = "N % 4 == 0 and rows > 32"


def guarded(guard: str, *lets: str) -> Table:
    return parse_table(changed((WHEN, guard), ('rows = "max(32, N)"', "\n".join(['rows = "max(32, N)"', *lets]))))


@pytest.mark.parametrize(
    ("guard", "formula", "texts"),
    [
        ("bias", Leaf(0), ["bias"]),
        ("bias == True", Leaf(0), ["bias"]),
        ("True == bias", Leaf(0), ["bias"]),
        ("bias != False", Leaf(0), ["bias"]),
        ("bias == False", Opposite(Leaf(0)), ["bias"]),
        ("bias != True", Opposite(Leaf(0)), ["bias"]),
        ("(N > 1) == False", Opposite(Leaf(0)), ["N > 1"]),
        ("bias in [True]", Leaf(0), ["bias in [True]"]),
        ("bias == (N > 1)", Leaf(0), ["bias == (N > 1)"]),
        ("1 < N <= 8", Every((Leaf(0), Leaf(1))), ["1 < N", "N <= 8"]),
        ("N > 1 and (bias and N > 1)", Every((Leaf(0), Leaf(1), Leaf(0))), ["N > 1", "bias"]),
        ("N > 1 or not (bias and sm == 80)", Some((Leaf(0), Opposite(Every((Leaf(1), Leaf(2)))))), ["N > 1", "bias"]),
        ("N not in [1, 2]", Opposite(Leaf(0)), ["N in [1, 2]"]),
        ("not not bias", Opposite(Opposite(Leaf(0))), ["bias"]),
    ],
)  # fmt: skip
def test_guards_become_formulas(guard: str, formula: Formula, texts: list[str]) -> None:
    table = guarded(guard)
    assert table.rules[0].guard == formula
    assert [predicate.text for predicate in table.predicates[: len(texts)]] == texts


def test_derived_values_are_kept_in_the_text_and_replaced_in_the_tree() -> None:
    table = guarded("tiles * 2 > rows", 'tile = "64"', 'tiles = "ceildiv(rows, tile)"')
    predicate = table.predicates[0]
    assert predicate.text == "tiles * 2 > rows"
    assert to_text(predicate.expr) == "ceildiv(max(32, N), 64) * 2 > max(32, N)"
    assert predicate.reads == {"N"}


def test_derived_conditions_are_their_predicates() -> None:
    table = guarded("small and not even", 'small = "bias and 1 < N"', 'even = "(N % 2 == 0) == True"', 'same = "small"')
    assert table.rules[0].guard == Every((Leaf(0), Leaf(1), Opposite(Leaf(2))))
    assert [predicate.text for predicate in table.predicates[:3]] == ["bias", "1 < N", "N % 2 == 0"]
    assert guarded("same == True", 'small = "bias"', 'same = "small"').rules[0].guard == Leaf(0)
    assert guarded("bias == off", 'off = "False"').rules[0].guard == Opposite(Leaf(0))


@pytest.mark.parametrize(
    ("guard", "message"),
    [
        ("N", "expected a condition, got int 'N'"),
        ("rows", "expected a condition, got int 'rows'"),
        ("dtype", "expected a condition, got str 'dtype'"),
        ("Q > 1", "unknown name 'Q'; known: N, sm, dtype, bias, rows, tile, yes, kind"),
        ("N > ", "expected an expression, got 'N > ': invalid syntax"),
        (
            "N > 1.5",
            "a float is not in the language: '1.5' in 'N > 1.5'; the language has integers, strings, booleans, ",
        ),
        ("True", "'True' reads no variable"),
        ("1 < 2", "'1 < 2' reads no variable"),
        ("bias or 16 in [16]", "'16 in [16]' reads no variable"),
        ("tile == 64", "'tile == 64' reads no variable"),
        ("yes", "'True' reads no variable"),
        ("True == yes", "'True' reads no variable"),
        ("dtype == 'float61'", "dtype is never 'float61'; did you mean 'float16'? known: float16, float32"),
        ("'bfloat' != dtype", "dtype is never 'bfloat'; "),
        ("dtype in ['float16', 'int']", "dtype is never 'int'; known: float16, float32"),
        ("kind == 'int'", "dtype is never 'int'; known: float16, float32"),
        ("bias == (dtype == 'int')", "dtype is never 'int'; known: float16, float32"),
        ("dtype == '\\\\ud800'", "dtype is never '\\ud800'; known: float16, float32"),
        ("N % (tile - 64) == 0", "division by zero in 'N % (64 - 64)'"),
        ("dtype < 'float32'", "'<' orders integers, got str in \"dtype < 'float32'\""),
        ("bias + 1 > 1", "expected int, got bool 'bias' in 'bias + 1'"),
        ("N in [16, True]", "expected int, got bool 'True' in 'N in [16, True]'"),
        ("N == bias", "expected int, got bool 'bias' in 'N == bias'"),
    ],
)
def test_mistakes(guard: str, message: str) -> None:
    with pytest.raises(TableError) as error:
        guarded(guard, 'tile = "64"', 'yes = "True"', 'kind = "dtype"')
    assert str(error.value).startswith(f"<table>:21: rule 'vec4': when: {message}")


def test_predicates_are_numbered_by_guards_then_splits_then_contracts_then_partitions() -> None:
    table = parse_table(
        changed(
            (WHEN, "bias"),
            ('splits = ["N >= 1024"]', 'splits = ["sm == 80", "N >= 1024"]'),
            ('requires = "N % 4 == 0', 'requires = "N % 4 == 0 and bias and sm >= 80'),
        )
    )
    assert [predicate.text for predicate in table.predicates] == [
        "bias", "sm == 80", "N >= 1024", "N % 4 == 0", "sm >= 80", "N > 4096", "dtype == 'float16'",
        "dtype == 'float32'",
    ]  # fmt: skip
    assert [split.text for split in table.rules[0].splits] == ["sm == 80", "N >= 1024"]
    assert table.kernels[0].requires == Every((Leaf(3), Leaf(0), Leaf(4)))
    assert [predicate.line for predicate in table.predicates] == [18, 20, 20, 13, 13, 27, 28, 28]

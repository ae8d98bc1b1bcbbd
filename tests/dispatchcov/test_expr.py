from __future__ import annotations

import pytest
from hypothesis import given, settings

from dispatchcov.errors import ExpressionError
from dispatchcov.expr import (
    And,
    Bin,
    Const,
    Expr,
    Facts,
    Neg,
    Not,
    Or,
    Value,
    Var,
    check_divisors,
    check_type,
    children,
    divisions,
    evaluate,
    may_divide_by_zero,
    names,
    parse,
    rebuild,
    size,
    substitute,
    to_python,
    to_text,
    walk,
)
from tests.dispatchcov.expressions import CONDITIONS, EXPRESSIONS, FACTS, NUMBERS, TYPES

ENOUGH = settings(max_examples=120, deadline=None)


def ceildiv(a: int, b: int) -> int:
    quotient, rest = divmod(a, b)
    return quotient + (rest != 0)


def python(text: str, facts: Facts) -> Value:
    value: Value = eval(text, {"__builtins__": {}, "min": min, "max": max, "ceildiv": ceildiv}, dict(facts))
    return value


def result(compute: object, *arguments: object) -> tuple[str, object]:
    try:
        value = compute(*arguments)  # type: ignore[operator]
    except ZeroDivisionError:
        return "ZeroDivisionError", None
    return type(value).__name__, value


@ENOUGH
@given(EXPRESSIONS)
def test_what_is_printed_is_read_back(tree: Expr) -> None:
    text = to_text(tree)
    again = parse(text)
    assert (repr(again), to_text(again)) == (repr(tree), text)


@ENOUGH
@given(EXPRESSIONS, FACTS)
def test_everything_means_what_it_means_in_python(tree: Expr, facts: Facts) -> None:
    wanted = result(python, to_text(tree), facts)
    assert result(evaluate, tree, facts) == wanted
    assert result(python, to_python(tree), facts) == wanted


@pytest.mark.parametrize("dividend", range(-7, 8))
@pytest.mark.parametrize("divisor", [-3, -2, -1, 1, 2, 3])
def test_division_rounds_down_and_ceildiv_up(dividend: int, divisor: int) -> None:
    facts = {"a": dividend, "b": divisor}
    assert evaluate(parse("a // b"), facts) == dividend // divisor
    assert evaluate(parse("a % b"), facts) == dividend % divisor
    exact = -((-dividend) // divisor)
    assert evaluate(parse("ceildiv(a, b)"), facts) == exact
    assert exact * divisor == dividend or (exact - 1 < dividend / divisor < exact)


@pytest.mark.parametrize("text", ["M // N == 0", "M % N == 0", "ceildiv(M, N) == 0", "1 % (N * 2) in [0]"])
def test_division_by_a_variable_that_is_zero(text: str) -> None:
    tree = parse(text)
    assert may_divide_by_zero(tree)
    with pytest.raises(ZeroDivisionError):
        evaluate(tree, {"M": 1, "N": 0})
    assert evaluate(parse(f"N != 0 and {text}"), {"M": 1, "N": 0}) is False


@ENOUGH
@given(EXPRESSIONS)
def test_rebuilding_from_the_children_changes_nothing(tree: Expr) -> None:
    assert repr(rebuild(tree, list(children(tree)))) == repr(tree)
    assert repr(substitute(tree, {})) == repr(tree)


@ENOUGH
@given(CONDITIONS, NUMBERS, CONDITIONS, FACTS)
def test_substitution_is_evaluation_in_other_facts(tree: Expr, number: Expr, condition: Expr, facts: Facts) -> None:
    values = {"M": number, "b": condition}
    try:
        other = {**facts, "M": evaluate(number, facts), "b": evaluate(condition, facts)}
    except ZeroDivisionError:
        return
    replaced = substitute(tree, values)
    assert result(evaluate, replaced, facts) == result(evaluate, tree, other)
    inner = {name: size(value) for name, value in values.items()}
    count, depth = size(replaced)
    predicted, levels = size(tree, inner)
    assert count <= predicted, "flattening and folding only make it smaller"
    assert depth <= levels
    assert (count, depth) == size(tree) or names(tree) & {"M", "b"}


@ENOUGH
@given(EXPRESSIONS)
def test_walk_and_size(tree: Expr) -> None:
    nodes = list(walk(tree))
    count, depth = size(tree)
    assert nodes[0] is tree
    assert count == len(nodes)
    assert depth == 1 + max((size(part)[1] for part in children(tree)), default=0)


@ENOUGH
@given(CONDITIONS)
def test_random_conditions_are_of_type_bool(tree: Expr) -> None:
    assert check_type(tree, TYPES) == "bool"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-M % 3", "int"),
        ("d", "str"),
        ("'x'", "str"),
        ("True", "bool"),
        ("b == True", "bool"),
        ("b == (M > 1)", "bool"),
        ("d in ['x']", "bool"),
        ("d == 'x' and not b", "bool"),
    ],
)
def test_types(text: str, kind: str) -> None:
    assert check_type(parse(text), TYPES) == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q > 1", "unknown name 'Q'; known: M, N, d, b, c"),
        ("dd == 'x'", "unknown name 'dd'; did you mean 'd'? known: M, N, d, b, c"),
        ("M == 'x'", "expected int, got str \"'x'\" in \"M == 'x'\""),
        ("M == True", "expected int, got bool 'True' in 'M == True'"),
        ("d == 1", "expected str, got int '1' in 'd == 1'"),
        ("b == 1", "expected bool, got int '1' in 'b == 1'"),
        ("b + 1 == 2", "expected int, got bool 'b' in 'b + 1'"),
        ("-b == 2", "expected int, got bool 'b' in '-b'"),
        ("-d == 2", "expected int, got str 'd' in '-d'"),
        ("min(M, d) == 2", "expected int, got str 'd' in 'min(M, d)'"),
        ("d < 'x'", "'<' orders integers, got str in \"d < 'x'\""),
        ("b <= c", "'<=' orders integers, got bool in 'b <= c'"),
        ("M in [1, 'x']", "expected int, got str \"'x'\" in \"M in [1, 'x']\""),
        ("M in [1, True]", "expected int, got bool 'True' in 'M in [1, True]'"),
        ("M and b", "expected bool, got int 'M' in 'M and b'"),
        ("b or M % 8", "expected bool, got int 'M % 8' in 'b or M % 8'"),
        ("not M", "expected bool, got int 'M' in 'not M'"),
    ],
)
def test_type_errors(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        check_type(parse(text), TYPES)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "text",
    ["M % 0 == 1", "M // 0 > 1", "ceildiv(M, 0) > 1", "M % (4 - 2 * 2) == 0", "M % (1 // 0) == 0", "M % -0 == 0"],
)
def test_division_by_a_constant_zero(text: str) -> None:
    with pytest.raises(ExpressionError, match="division by zero in "):
        check_divisors(parse(text))


@pytest.mark.parametrize("text", ["M % (0 * M) == 1", "M % 3 == 0", "0 // M == 0", "M % (2 - 4) == 0"])
def test_other_divisors_are_let_through(text: str) -> None:
    check_divisors(parse(text))


def test_divisions() -> None:
    tree = parse("M // (N % 3) == ceildiv(M, 4) * 5")
    assert [to_text(divisor) for _, divisor in divisions(tree)] == ["N % 3", "3", "4"]
    assert may_divide_by_zero(tree)
    assert not may_divide_by_zero(parse("M // (2 + 1) == ceildiv(M, 4) * 5"))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (Bin("-", Var("a"), Bin("-", Var("b"), Const(-1))), "a - (b - -1)"),
        (Bin("*", Bin("+", Var("a"), Const(1)), Neg(Var("b"))), "(a + 1) * -b"),
        (Neg(Bin("%", Var("a"), Const(2))), "-(a % 2)"),
        (Bin("%", Neg(Var("a")), Const(2)), "-a % 2"),
        (Not(And((Var("a"), Or((Var("b"), Var("c")))))), "not (a and (b or c))"),
        (And((Not(Var("a")), Var("b"))), "not a and b"),
    ],
)
def test_parentheses_only_where_needed(tree: Expr, text: str) -> None:
    assert to_text(tree) == text
    assert parse(text) == tree

from __future__ import annotations

import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatchcov.errors import ExpressionError
from dispatchcov.expr import LANGUAGE, MAX_DEPTH, And, Compare, Const, In, Not, Var, parse, to_text

HEAD = "; the language has " + LANGUAGE


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1 <= M <= 8", "1 <= M and M <= 8"),
        ("1 <= M < 8 != N", "1 <= M and M < 8 and 8 != N"),
        ("M not in [1, 2]", "not M in [1, 2]"),
        ("M in (1, 2) and M in {3}", "M in [1, 2] and M in [3]"),
        ("a and (b and c)", "a and b and c"),
        ("(a or b) or c", "a or b or c"),
        ("a or b and c", "a or b and c"),
        ("- 5 + M == 0x1_0", "-5 + M == 16"),
        ("-(-M) == --1", "-(-M) == 1"),
        ("d == 'a' 'b'", "d == 'ab'"),
        ('d == "it\'s"', 'd == "it\'s"'),
        (r"d == 'a\\b\n\x41'", r"d == 'a\\b\nA'"),
        ("d == 'ﬁ'", "d == 'ﬁ'"),
        ("  M <= 8\n  and N > 1  # a remark, don't 5th\n", "M <= 8 and N > 1"),
        ("M <= 8\r\nand N > 1", "M <= 8 and N > 1"),
        ("((M))", "M"),
        ("M == 9_223_372_036_854_775_807", "M == 9223372036854775807"),
    ],
)
def test_reading(text: str, canonical: str) -> None:
    assert to_text(parse(text)) == canonical


def test_trees() -> None:
    assert parse("0 < M != 3") == And((Compare("<", Const(0), Var("M")), Compare("!=", Var("M"), Const(3))))
    assert parse("x not in ['a']") == Not(In(Var("x"), ("a",)))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "open('x')", "M.bit_length()", "M[0] == 1", "lambda: 1", "[x for x in M]", "(x for x in M)",
        "{1: 2}", "M if N else 1", "(M := 3)", "M := 3", "f'{M}' == 'x'", "b'x' == M", "1.5 < M", "1e3 < M", "2j == M",
        "None", "...", "M ** 2 == 4", "M << 1 == 2", "M >> 1 == 2", "M & 1 == 1", "M | 1 == 1", "M ^ 1 == 1", "~M == 1",
        "+M == 1", "M @ N == 1", "M is N", "M is not None", "*M", "M == *N", "(yield)", "(yield M)", "await M", "M, N",
        "(M, N)", "[M] == [N]", "min(M) == 1", "max() == 1", "ceildiv(M) == 1", "ceildiv(M, 2, 3) == 1",
        "min(M, N, key=1) == 1", "min(*M) == 1", "abs(M) == 1", "M in N", "M in []", "M in [N]", "M in [1, [2]]",
        "M in range(3)", "_M == 1", "__class__", "ℳ == 1", "Ⅷ == M", "M_é == 1", "M / 2 == 1",
        "M == 9223372036854775808", "-9223372036854775808 < M", "1 if", "M ==", "== M", "M N", "M; N", "M = 1",
        "import os",
        "print M", "M <> 1",
        "`M`", "$M", "M ! N", "'abc", "M == 1)", "(M == 1", "a) or (b", "a) + (b", "a)(b", "a), (b", ")(", "())",
        "(", "", "   ", "\n", "#", "\\", "M == \\", "'\\", "'\\d' == d", "'\\400' == d", "'\\N{DIGIT ONE}' == d",
        "1and M", "0x",
        "0xg == M", "00017 == M", "1__0 == M", "1_ == M", "M == 5th", "M\x00 == 1", "M \x0c== 1", "M == 1\r",
        "\ufeffM == 1", "M == '\ud800'[0]", "t'x' == M", "print(M)", "True(M)",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ExpressionError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abs(M) == 1", "the only calls are min, max, ceildiv: 'abs(M)' in 'abs(M) == 1'" + HEAD),
        ("2**31", "'**' is not in the language; write the number, as 2147483648 for 2**31: '2**31' in '2**31'" + HEAD),
        ("M / 2 == 1", "'/' gives a fraction; write '//' or '%': 'M / 2' in 'M / 2 == 1'" + HEAD),
        ("M == 1.5", "a float is not in the language: '1.5' in 'M == 1.5'" + HEAD),
        ("M.real == 1", "an attribute is not in the language: 'M.real' in 'M.real == 1'" + HEAD),
        ("M in []", "'in' is followed by a list of constants, as in [16, 32]: '[]' in 'M in []'" + HEAD),
        ("M in [N]", "'in' is followed by constants: 'N' in 'M in [N]'" + HEAD),
        ("M is 1", "compare with == != < <= > >= in, not in: 'M is 1' in 'M is 1'" + HEAD),
        ("ceildiv(M) == 1", "ceildiv takes two arguments, got 1: 'ceildiv(M)' in 'ceildiv(M) == 1'" + HEAD),
        ("min(M) == 1", "min takes two or more arguments, got 1: 'min(M)' in 'min(M) == 1'" + HEAD),
        ("_M == 1", "a name is letters, digits and _, and begins with a letter: '_M' in '_M == 1'" + HEAD),
        ("ℳ == 1", "a name is letters, digits and _, and begins with a letter: 'ℳ' in 'ℳ == 1'" + HEAD),
        (f"M > {2**63}", f"an integer is below 2**63: '{2**63}' in 'M > {2**63}'{HEAD}"),
        ("M ==", "expected an expression, got 'M ==': invalid syntax"),
        ("a) or (b", "expected an expression, got 'a) or (b': unbalanced parentheses"),
        ("  ", "expected an expression, got '  '"),
        ("1and M", "expected an integer, got '1and' in '1and M'"),
        ("d == '\\d'", "expected a backslash to be written \\\\, got '\\d' in \"d == '\\\\d'\""),
        ("M\x07", "expected no control characters, got '\\x07' in 'M\\x07'"),
        ("x" * 4001, "expected at most 4000 characters, got 4001"),
    ],
)  # fmt: skip
def test_messages(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize("value", [7, True, None, ["M == 1"], {"a": 1}])
def test_only_strings_are_read(value: object) -> None:
    with pytest.raises(ExpressionError, match=f"expected an expression in a string, got {type(value).__name__} "):
        parse(value)  # type: ignore[arg-type]


DEEP = [
    "-" * 3000 + "M",
    "not " * 900 + "b",
    "(" * 1900 + "b" + ")" * 1900,
    "M" + "+M" * 1900,
    "[" * 3000,
    "min(" * 900,
]


@pytest.mark.parametrize("text", [*DEEP, "9" * 3999], ids=range(7))
def test_deep_and_long_text_is_an_error_and_no_crash(text: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert len(str(error.value)) < 600


def test_depth() -> None:
    inner = "M"
    for _ in range(MAX_DEPTH - 2):
        inner = f"-({inner})"
    assert to_text(parse(f"{inner} == 1"))
    with pytest.raises(ExpressionError, match=f"expected at most {MAX_DEPTH} nested levels in '-"):
        parse(f"-({inner}) == 1")


def test_no_warning_of_the_python_parser_gets_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in ("1or b", "d == '\\w'", "0x1for b", "d == '\\777'"):
            with pytest.raises(ExpressionError, match=r"expected an integer|expected a backslash"):
                parse(text)


WORDS = [
    *["M", "N", "b", "1", "16", "'x'", "(", ")", "[", "]", ",", "+", "-", "*", "//", "%", "/", "==", "<=", "!=", "<"],
    *["and", "or", "not", "in", "if", "else", "min", "ceildiv", ":", ".", "#", "'", '"', "\\", "\n"],
]
TOKENS = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(st.one_of(TOKENS, st.text(max_size=20)))
@example("'\\\n'")
@example("\r'\n\r")
@example("é'\u2028' == é")
def test_any_text_is_an_expression_or_an_expression_error(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError as mistake:
        message = str(mistake)
    else:
        message = ""
        assert parse(to_text(tree)) == tree
    assert message.isprintable()

"""Random expressions of the predicate language, random facts for them, and tables made of random guards."""

from __future__ import annotations

import functools

from hypothesis import strategies as st

from dispatchcov.errors import ExpressionError
from dispatchcov.expr import (
    And,
    Bin,
    Call,
    Compare,
    Const,
    Expr,
    In,
    Not,
    Or,
    Var,
    check_divisors,
    join,
    names,
    negate,
    to_text,
)
from dispatchcov.loading.load import parse_table
from dispatchcov.table import Table

TYPES = {"M": "int", "N": "int", "d": "str", "b": "bool", "c": "bool"}
ENUM = ("x", "y's", 'a "b"\\', "line\nbreak", "ü")
VARIABLES = """
M = { type = "int" }
N = { type = "int", min = -4, max = 40, multiple_of = 2 }
d = { type = "enum", values = ["x", "y's", 'a "b"\\', "line\\nbreak", "ü"] }
b = { type = "bool" }
c = { type = "bool", hardware = true }
"""
SMALL = st.integers(-6, 9)
RELATIONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
FACTS = st.fixed_dictionaries(
    {"M": SMALL, "N": SMALL, "d": st.sampled_from(ENUM), "b": st.booleans(), "c": st.booleans()}
)


def _numbers(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Bin, st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner),
        inner.map(negate),
        st.builds(Call, st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Call, st.just("ceildiv"), st.tuples(inner, inner)),
    )


NUMBERS = st.recursive(st.one_of(st.sampled_from("MN").map(Var), SMALL.map(Const)), _numbers, max_leaves=6)


READING = NUMBERS.filter(names)


def _comparisons(condition: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    strings = st.sampled_from(ENUM)
    return st.one_of(
        st.builds(Compare, RELATIONS, READING, NUMBERS),
        st.builds(Compare, st.sampled_from(["==", "!="]), st.just(Var("d")), strings.map(Const)),
        st.builds(Compare, st.sampled_from(["==", "!="]), condition, condition),
        st.builds(In, READING, st.lists(SMALL, min_size=1, max_size=3).map(tuple)),
        st.builds(In, st.just(Var("d")), st.lists(strings, min_size=1, max_size=3).map(tuple)),
        st.builds(In, st.just(Var("b")), st.lists(st.booleans(), min_size=1, max_size=2).map(tuple)),
    )


def _conditions(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        several.map(lambda parts: join(And, parts)),
        several.map(lambda parts: join(Or, parts)),
        inner.map(Not),
        _comparisons(inner),
    )


CONDITIONS = st.recursive(
    st.one_of(_comparisons(st.sampled_from("bc").map(Var)), st.sampled_from("bc").map(Var)), _conditions, max_leaves=5
)
EXPRESSIONS = st.one_of(NUMBERS, CONDITIONS, st.booleans().map(Const), st.text(max_size=5).map(Const))


def divides_by_zero_always(tree: Expr) -> bool:
    """Is ``tree`` one that a table may not have?"""
    try:
        check_divisors(tree)
    except ExpressionError:
        return True
    return False


GUARDS = CONDITIONS.filter(lambda tree: not divides_by_zero_always(tree))


def quoted(text: str) -> str:
    """``text`` as a basic string of TOML."""
    plain = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(plain.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'


@functools.cache
@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, list[Expr]]:
    """A table with random guards, and the guards; the last rule has none in half of the tables."""
    guards = draw(st.lists(GUARDS, min_size=1, max_size=4))
    lines = ["[table]", 'op = "random::table"', "[variables]", VARIABLES, "[[kernel]]", 'name = "k"']
    for index, guard in enumerate(guards):
        lines += ["[[rule]]", f'name = "r{index}"', f"when = {quoted(to_text(guard))}", 'kernel = "k"']
    if draw(st.booleans()):
        lines += ["[[rule]]", 'name = "rest"', 'kernel = "k"']
    return parse_table("\n".join(lines)), guards

"""What is said of a set of inputs holds at each of them, and where the set is one input it is exact."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchcov import expr as ex
from dispatchcov.space.abstract import FALSE, TRUE, UNDEFINED, number, truth

TYPES = {"a": "int", "b": "int", "f": "bool", "g": "bool", "s": "str", "t": "str"}
EACH = settings(max_examples=300, deadline=None)
NUMBERS = st.recursive(
    st.one_of(st.sampled_from("ab").map(ex.Var), st.integers(-4, 4).map(ex.Const)),
    lambda inner: st.one_of(
        st.builds(ex.Bin, st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner),
        st.builds(ex.Call, st.sampled_from(["min", "max", "ceildiv"]), st.tuples(inner, inner)),
        st.builds(ex.Neg, inner),
    ),
    max_leaves=6,
)
STRINGS = st.one_of(st.sampled_from("st").map(ex.Var), st.sampled_from(["x", "y"]).map(ex.Const))
ATOMS = st.one_of(
    st.builds(ex.Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), NUMBERS, NUMBERS),
    st.builds(ex.Compare, st.sampled_from(["==", "!="]), STRINGS, STRINGS),
    st.builds(ex.In, NUMBERS, st.lists(st.integers(-4, 4), min_size=1, max_size=3).map(tuple)),
    st.builds(ex.In, STRINGS, st.sampled_from([("x",), ("x", "z")])),
    st.sampled_from("fg").map(ex.Var),
)
PREDICATES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(ex.Not, inner),
        st.builds(ex.Compare, st.sampled_from(["==", "!="]), inner, inner),
        st.builds(ex.And, st.tuples(inner, inner)),
        st.builds(ex.Or, st.tuples(inner, inner)),
        st.builds(ex.In, inner, st.sampled_from([(True,), (False, True)])),
    ),
    max_leaves=4,
)
INTERVALS = st.tuples(st.integers(-6, 6), st.integers(0, 4)).map(lambda pair: (pair[0], pair[0] + pair[1]))
SOME = st.sampled_from([(False,), (True,), (False, True)])
TEXTS = st.sampled_from([("x",), ("y",), ("x", "y")])


def value(tree: ex.Expr, facts: dict[str, Any]) -> Any:
    try:
        return ex.evaluate(tree, facts)
    except ZeroDivisionError:
        return None


@EACH
@given(NUMBERS, INTERVALS, INTERVALS)
def test_every_value_lies_in_the_interval(tree: ex.Expr, a: tuple[int, int], b: tuple[int, int]) -> None:
    low, high, undefined = number(tree)({"a": (*a, False), "b": (*b, False)})
    found = [value(tree, {"a": x, "b": y}) for x, y in itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1))]
    assert all(low <= each <= high for each in found if each is not None)
    assert undefined or None not in found
    if len(found) == 1:
        assert (low, high) == (found[0], found[0]) if found[0] is not None else low > high
        assert undefined is (found[0] is None)


@EACH
@given(NUMBERS, st.integers(-6, 6), st.integers(-6, 6), st.sampled_from([(True, False), (False, True), (True, True)]))
def test_intervals_without_an_end(tree: ex.Expr, a: int, b: int, ends: tuple[bool, bool]) -> None:
    below, above = ends
    left = (-math.inf if below else a, math.inf if above else a, False)
    low, high, undefined = number(tree)({"a": left, "b": (b, math.inf, False)})
    for x, y in itertools.product(
        [a, *([a - 1, a - 97] if below else []), *([a + 1, a + 83] if above else [])], (b, b + 1, b + 59)
    ):
        got = value(tree, {"a": x, "b": y})
        assert undefined if got is None else low <= got <= high


@EACH
@given(PREDICATES, INTERVALS, INTERVALS, SOME, SOME, TEXTS, TEXTS)
def test_every_outcome_is_among_those_said(
    tree: ex.Expr, a: tuple[int, int], b: tuple[int, int], f: Any, g: Any, s: Any, t: Any
) -> None:
    mask = {(False,): FALSE, (True,): TRUE, (False, True): FALSE | TRUE}
    said = truth(tree, TYPES)({"a": (*a, False), "b": (*b, False), "f": mask[f], "g": mask[g], "s": s, "t": t})
    inputs = itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1), f, g, s, t)
    bits = {None: UNDEFINED, True: TRUE, False: FALSE}
    found = [bits[value(tree, dict(zip("abfgst", each, strict=True)))] for each in inputs]
    assert all(said & bit for bit in found)
    if len(found) == 1:
        assert said == found[0]


@pytest.mark.parametrize("tree", [ex.Const("x"), ex.Neg(ex.Const(1))])
def test_what_is_no_predicate(tree: ex.Expr) -> None:
    if isinstance(tree, ex.Neg):
        with pytest.raises(TypeError, match="expected a predicate, got '-1'"):
            truth(tree, TYPES)
    else:
        with pytest.raises(TypeError, match="expected an integer, got 'f and g'"):
            number(ex.And((ex.Var("f"), ex.Var("g"))))

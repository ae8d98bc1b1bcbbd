from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchcov.formula import (
    ALWAYS,
    NEVER,
    Every,
    Formula,
    Leaf,
    Opposite,
    Some,
    alone,
    assign,
    blame,
    every,
    holds,
    leaves,
    pivotal,
    read,
    settle,
    sole_reason,
)

COUNT = 5
VECTORS = range(1 << COUNT)


def _larger(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    several = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(st.builds(Opposite, inner), st.builds(Every, several), st.builds(Some, several))


FORMULAS = st.recursive(st.builds(Leaf, st.integers(0, COUNT - 1)), _larger, max_leaves=7)
EACH = settings(max_examples=80, deadline=None)


def python(formula: Formula, vector: int, log: list[int]) -> bool:
    """``formula`` by Python's own ``all``, ``any`` and ``not``, which stop where short-circuit evaluation does."""
    match formula:
        case Leaf():
            log.append(formula.index)
            return bool(vector & 1 << formula.index)
        case Opposite():
            return not python(formula.operand, vector, log)
        case Every():
            return all(python(part, vector, log) for part in formula.operands)
    return any(python(part, vector, log) for part in formula.operands)


@EACH
@given(FORMULAS)
def test_settle_holds_and_read_are_short_circuit_evaluation(formula: Formula) -> None:
    for vector in VECTORS:
        log: list[int] = []
        value = python(formula, vector, log)
        assert settle(formula, vector) == (value, log[-1] if log else -1)
        assert holds(formula, vector) is value
        assert read(formula, vector) == tuple(dict.fromkeys(log))


@EACH
@given(FORMULAS)
def test_leaves_are_all_that_can_matter(formula: Formula) -> None:
    found = leaves(formula)
    assert len(set(found)) == len(found)
    for vector in VECTORS:
        assert set(read(formula, vector)) <= set(found)
        for index in set(range(COUNT)) - set(found):
            assert holds(formula, vector) == holds(formula, vector ^ 1 << index)


@EACH
@given(FORMULAS, st.integers(0, COUNT - 1), st.booleans())
def test_assign_fixes_one_predicate(formula: Formula, index: int, value: bool) -> None:
    fixed = assign(formula, index, value)
    assert index not in leaves(fixed)
    for vector in VECTORS:
        other = vector | 1 << index if value else vector & ~(1 << index)
        assert holds(fixed, vector) == holds(formula, other)


@EACH
@given(FORMULAS)
def test_the_sole_reason_is_the_only_pivotal_predicate(formula: Formula) -> None:
    for vector in VECTORS:
        only = [index for index in leaves(formula) if pivotal(formula, index, vector)]
        for index in leaves(formula):
            assert holds(sole_reason(formula, index), vector) == (only == [index])
            assert alone(formula, index, vector) == (only == [index])


@EACH
@given(FORMULAS)
def test_pivotal_is_false_and_one_flip_away(formula: Formula) -> None:
    for vector in VECTORS:
        for index in range(COUNT):
            flipped = vector ^ 1 << index
            wanted = not python(formula, vector, []) and python(formula, flipped, [])
            assert pivotal(formula, index, vector) == wanted
            if wanted:
                assert index in blame(formula, vector)


@EACH
@given(FORMULAS)
def test_blame_is_reason_enough(formula: Formula) -> None:
    for vector in VECTORS:
        against = blame(formula, vector)
        kept = sum(1 << index for index in against)
        assert set(against) <= set(leaves(formula))
        for other in VECTORS:
            if other & kept == vector & kept:
                assert holds(formula, other) == holds(formula, vector)


def test_blame_names_all_false_parts_of_a_conjunction() -> None:
    guard = every(Leaf(0), Leaf(1), Some((Leaf(2), Leaf(3))), Opposite(Leaf(4)))
    assert blame(guard, 0b10001) == (1, 2, 3, 4)
    assert settle(guard, 0b10001) == (False, 1)
    assert blame(guard, 0b00111) == (0, 1, 2, 4)
    assert blame(guard, 0b00110) == (0,)


def test_every_flattens() -> None:
    assert every() == ALWAYS
    assert every(Leaf(0)) == Leaf(0)
    assert every(ALWAYS, Leaf(0), Every((Leaf(1), Leaf(2))), ALWAYS) == Every((Leaf(0), Leaf(1), Leaf(2)))
    assert every(NEVER, Leaf(0)) == Every((NEVER, Leaf(0)))


@pytest.mark.parametrize(("formula", "value"), [(ALWAYS, True), (NEVER, False)])
def test_constants(formula: Formula, value: bool) -> None:
    assert settle(formula, 0) == (value, -1)
    assert leaves(formula) == read(formula, 0) == blame(formula, 0) == ()

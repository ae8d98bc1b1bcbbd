from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.space.domain import Class, _points_at_most, bits, classes, rank, rays, size
from dispatchcov.space.pieces import LIMIT, NotAnalysedError, Ray, align, analyse
from dispatchcov.table import Predicate, Variable
from tests.dispatchcov.random_tables import comparisons

BIG = 1 << 62


def predicates(*texts: str) -> list[Predicate]:
    found = []
    for index, text in enumerate(texts):
        tree = ex.parse(text)
        found.append(Predicate(index, text, tree, ex.names(tree)))
    return found


def number(low: int | None = None, high: int | None = None, step: int = 1) -> Variable:
    return Variable("x", "int", low, high, step)


def smallest(variable: Variable, *texts: str) -> dict[str, object]:
    """The smallest value of each class by its outcomes, as a string of t, f and u."""
    found = classes(variable, predicates(*texts))
    assert found.refused == {}
    return {outcomes(item, len(texts)): item.value for item in found.classes}


def outcomes(item: Class, count: int) -> str:
    return "".join("u" if item.undefined >> i & 1 else "ft"[item.true >> i & 1] for i in range(count))


@st.composite
def variables(draw: st.DrawFn) -> Variable:
    low = draw(st.none() | st.integers(-30, 30))
    step = draw(st.sampled_from([1, 1, 2, 3, 5]))
    width = draw(st.none() | st.integers(step, 60))
    return number(low, None if width is None else (low or -20) + width, step)


@settings(max_examples=300, deadline=None)
@given(variables(), st.lists(comparisons("x"), min_size=1, max_size=4))
def test_classes_are_those_of_all_values(variable: Variable, texts: list[str]) -> None:
    given_predicates = predicates(*texts)
    found = classes(variable, given_predicates)
    assert found.refused == {}
    near = sorted(filter(variable.contains, range(-600, 601)), key=lambda value: rank(variable, value))
    expected: dict[tuple[int, int], Value] = {}
    for value in near:
        expected.setdefault(bits(given_predicates, {"x": value}), value)
    got = {(item.true, item.undefined): item.value for item in found.classes}
    assert {key: got[key] for key in expected} == expected
    for key, first in got.items():
        assert variable.contains(first)
        assert bits(given_predicates, {"x": first}) == key


@settings(max_examples=150, deadline=None)
@given(st.lists(comparisons("x", products=True), min_size=1, max_size=3))
def test_bounded_products_are_listed(texts: list[str]) -> None:
    variable, given_predicates = number(-9, 12), predicates(*texts)
    found = classes(variable, given_predicates)
    assert found.refused == {}
    expected = {bits(given_predicates, {"x": value}) for value in range(-9, 13)}
    assert {(item.true, item.undefined) for item in found.classes} == expected


def test_thresholds_and_moduli() -> None:
    assert smallest(number(0), "x <= 8", "x % 32 == 0") == {"tt": 0, "tf": 1, "ff": 9, "ft": 32}
    assert smallest(number(0, None, 2), "x % 128 == 0", "x % 8 == 0") == {"tt": 0, "ff": 2, "ft": 8}
    assert smallest(number(1), "ceildiv(x, 128) == 3", "x // 128 == 2") == {"ff": 1, "tt": 257, "ft": 256, "tf": 384}
    assert smallest(number(), "min(x, 4) * 2 + max(x, -3) in [13, -11]") == {"f": 0, "t": -4}
    assert smallest(number(1), "max(32, x) <= 16") == {"f": 1}


def test_the_nearest_to_zero_is_the_smallest_and_positive_comes_first() -> None:
    assert smallest(number(), "x % 7 == 4") == {"f": 0, "t": -3}
    assert smallest(number(), "x in [-5, 5]") == {"f": 0, "t": 5}
    assert smallest(number(-40, -3, 8), "x <= -20") == {"f": -8, "t": -24}
    assert smallest(number(3, None, 8), "x == 8") == {"t": 8, "f": 16}
    assert smallest(number(-40, 30, 8), "x == 8", "x < 0") == {"ff": 0, "tf": 8, "ft": -8}


def test_a_division_by_zero_is_its_own_outcome() -> None:
    assert smallest(number(0), "64 % x == 0", "64 // x >= 4") == {"uu": 0, "tt": 1, "ft": 3, "tf": 32, "ff": 17}
    assert smallest(number(), "x // (x % 3) >= 1") == {"u": 0, "t": 1, "f": -1}
    assert smallest(number(-3, 3), "(x > 1) == (1 // x == 1)") == {"u": 0, "f": 1, "t": -1}
    assert smallest(number(), "-7 % x == -7") == {"u": 0, "f": 1, "t": -8}


def test_short_circuit_evaluation_inside_a_predicate() -> None:
    assert smallest(number(0), "(x != 0 and 12 % x == 0) == True") == {"f": 0, "t": 1}
    assert smallest(number(0), "(x == 0 or 12 % x == 0) == True") == {"t": 0, "f": 5}
    assert smallest(number(0), "(12 % x == 0 or x == 0) == True") == {"u": 0, "t": 1, "f": 5}


def test_huge_constants() -> None:
    text = [f"x <= {BIG}", f"x == {BIG - 1}", "x * 3 > 9223372036854775807", "x % 2 == 1"]
    found = smallest(number(-BIG, None), *text)
    assert found["tttt"] == BIG - 1
    assert found["fftt"] == BIG + 1
    assert found["fftf"] == BIG + 2
    assert found["tftf"] == 3074457345618258604
    assert smallest(number(BIG, BIG + 1), f"x > {BIG}") == {"f": BIG, "t": BIG + 1}
    assert smallest(number(None, -BIG), f"x < {-BIG}") == {"f": -BIG, "t": -BIG - 1}


def test_outcomes_that_no_value_has() -> None:
    assert smallest(number(), "x < 3", "x > 5") == {"tf": 0, "ff": 3, "ft": 6}
    assert smallest(number(10, 20), "x < 3") == {"f": 10}
    assert smallest(number(0), "x % 8 == 0", "x % 8 == 1") == {"tf": 0, "ft": 1, "ff": 2}


def test_without_predicates_one_class() -> None:
    assert classes(number(7, 9), []).classes == (Class(0, 0, 7),)
    assert classes(number(None, -2, 5), []).classes == (Class(0, 0, -5),)


def test_listed_values() -> None:
    sm = Variable("x", "int", values=(120, 75, 90, -75))
    found = classes(sm, predicates("x >= 80")).classes
    assert found == (Class(0, 0, 75, (75, -75)), Class(1, 0, 90, (120, 90)))
    apart = classes(sm, predicates("x >= 80"), apart=True).classes
    assert [item.members for item in apart] == [(75,), (-75,), (90,), (120,)]
    enum = Variable("x", "enum", values=("b", "a"))
    assert [item.value for item in classes(enum, predicates("x == 'a'")).classes] == ["b", "a"]
    boolean = Variable("x", "bool", values=(False, True))
    assert classes(boolean, predicates("x")).classes == (Class(0, 0, False, (False,)), Class(1, 0, True, (True,)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x * x <= 100", "'x * x' is not affine over an open range"),
        ("x // x == 1", "'x // x' is not affine over an open range"),
        ("x % 1000003 == 0", f"'x % 1000003' needs more than {LIMIT} values to be told apart"),
        ("10000019 % x == 0", f"'10000019 % x' needs more than {LIMIT} values to be told apart"),
    ],
)
def test_refused_with_the_reason(text: str, reason: str) -> None:
    found = classes(number(0), predicates(text, "x <= 8"))
    assert found.refused == {0: reason}
    assert [(item.true, item.value) for item in found.classes] == [(2, 0), (0, 9)]


def test_what_is_too_much_together_is_refused_and_the_rest_kept() -> None:
    found = classes(number(0), predicates("x % 1009 == 0", "x % 1013 == 0", "x <= 8"))
    assert found.refused == {1: f"'x % 1013 == 0' and others need more than {LIMIT} values to be told apart"}
    assert [(item.true, item.value) for item in found.classes] == [(5, 0), (4, 1), (0, 9), (1, 1009)]


def test_the_bound_that_spares_an_alignment_is_none_too_low() -> None:
    """Many predicates are not aligned one after another if the bound says that all fit: it may say too many."""
    ray = Ray(0, 1, None)
    for texts in (["x % 6 == 0", "x % 4 == 1"], ["x < 9", "x % 3 == 0", "x == 20"], ["x // 5 % 7 == 2", "x in (3, 4)"]):
        shapes = [analyse(ex.parse(text), ray) for text in texts]
        assert sum(span.count for span in align(shapes)) <= _points_at_most(shapes)
    assert _points_at_most([analyse(ex.parse("x % 6 == 0"), ray), analyse(ex.parse("x % 4 == 1"), ray)]) == 12


def test_a_large_alignment_is_analysed() -> None:
    assert smallest(number(0), "x % 65536 == 0", "x <= 8") == {"tt": 0, "ft": 1, "ff": 9, "tf": 65536}
    assert smallest(number(0, None, 4096), "x % 268435456 == 0") == {"t": 0, "f": 4096}
    assert smallest(number(0), "x * 65536 % 4294967296 == 65536") == {"f": 0, "t": 1}


def test_rays_lead_away_from_zero() -> None:
    assert rays(number()) == [Ray(0, 1, None), Ray(-1, -1, None)]
    assert rays(number(-10, 10, 4)) == [Ray(0, 4, 3), Ray(-4, -4, 2)]
    assert rays(number(5, None, 4)) == [Ray(8, 4, None)]
    assert rays(number(None, -5, 4)) == [Ray(-8, -4, None)]
    assert rays(number(1, 3, 4)) == []


def test_pieces_agree_with_evaluation_where_they_are_cut() -> None:
    tree = ex.parse("max(ceildiv(x, 3) * 4 - x, 7) % 5")
    shape = analyse(tree, Ray(2, 3, None))
    assert shape[0].start == 0
    assert shape[-1].end is None
    for piece, after in zip(shape, [*shape[1:], None], strict=True):
        assert after is None or piece.end == after.start
        for k in range(piece.start, piece.end or piece.start + 100):
            assert piece.at(k) == ex.evaluate(tree, {"x": 2 + 3 * k})
    with pytest.raises(NotAnalysedError, match="not affine"):
        analyse(ex.parse("x * x"), Ray(0, 1, None))


def test_size_orders_inputs() -> None:
    given_variables = [number(), Variable("d", "enum", values=("b", "a")), Variable("y", "int")]
    order: list[dict[str, Value]] = [
        {"x": 0, "d": "a", "y": 0},
        {"x": 0, "d": "b", "y": 1},
        {"x": 0, "d": "b", "y": -1},
    ]
    order += [{"x": 0, "d": "a", "y": 1}, {"x": 1, "d": "b", "y": 0}, {"x": -2, "d": "b", "y": 0}]
    keys = [size(given_variables, facts) for facts in order]
    assert keys == sorted(set(keys))

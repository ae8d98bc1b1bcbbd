"""Predicates over several variables by intervals alone: what they find is the smallest, what they prove is so."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, note, settings

from dispatchcov.regions import Space
from dispatchcov.space import cases, intervals
from dispatchcov.space.domain import Run
from dispatchcov.space.line import Line
from dispatchcov.space.variants import Effort, Variant
from dispatchcov.table import Table
from tests.dispatchcov.random_tables import tables, tried
from tests.dispatchcov.space.test_cases import table
from tests.dispatchcov.test_regions import answers, groups

OPEN = "\n".join(f"{name} = {{ type = 'int', min = 1 }}" for name in "abcd")
NO_CASES = mock.patch.object(cases, "MAX_CASES", 0)


@settings(max_examples=8, deadline=None)
@given(tables(shared=True))
def test_the_answers_are_those_of_trying_every_input(of: Table) -> None:
    note(of.text)
    condition = of.partitions[0].condition
    expected = tried(of, lambda outcomes: groups(of, condition, outcomes))
    with NO_CASES:
        space = Space(of, solving=False)
        assert space.notes == ()
        for question, answer in answers(space, condition):
            best = expected.get(question)
            assert (answer.witness, answer.reason) == (best.witness if best else None, ""), question


@pytest.mark.parametrize(
    ("guard", "witness"),
    [
        ("a * b > 20480", (133, 154, 1, 1)),
        ("a * b * c * d > 20480", (11, 12, 12, 13)),
        ("a * b >= 2**32 and a == 3 * b", (113514, 37838, 1, 1)),
        ("a * b == 35 and a > 5", (7, 5, 1, 1)),
        ("a * b == 37 and a > 1 and b > 1", None),
        (
            "a * b < 2**31 and a * b * c > 2**31 and c > 9 and d == 5 * c and b % 8 == 0 and a < 100",
            (99, 11304, 1919, 9595),
        ),
        ("a % b == 3 and a // b == 7 and b > 100", (710, 101, 1, 1)),
        ("ceildiv(a * b, 128) * 128 > 2**20 and a <= b // 4", (512, 2049, 1, 1)),
    ],
)
def test_what_no_case_split_tells(guard: str, witness: tuple[int, ...] | None) -> None:
    of = table(OPEN, guard.replace("2**20", str(2**20)).replace("2**31", str(2**31)).replace("2**32", str(2**32)), "")
    answer = Space(of, solving=False).answer([0])
    found = tuple((answer.witness or {}).values()) or None
    assert (found, answer.reason) == (witness, "")


def test_groups_that_share_no_variable_are_told_apart() -> None:
    of = table(OPEN, "a * b > 20480 and c * d > 20480", "")
    answer = Space(of, solving=False).answer([0])
    assert (answer.witness, answer.reason) == ({"a": 133, "b": 154, "c": 133, "d": 154}, "")


def test_opposite_comparisons_of_the_same_contradict_each_other() -> None:
    of = table(OPEN, "a < b * c", "a >= b * c", "a % b == c", "not (a % b != c)", "")
    space = Space(of, solving=False)
    assert [space.answer([rule]).state for rule in range(4)] == ["feasible", "feasible", "unreachable", "unreachable"]
    assert Space(table(OPEN, "a * b == c and a * b != c", ""), solving=False).answer([0]).state == "unreachable"


def test_a_table_has_a_budget_that_its_variants_share(monkeypatch: pytest.MonkeyPatch) -> None:
    of = table(OPEN, "a * b * c * d > 20480", "a * b == c and a * b == c + 1", "")
    assert Space(of, solving=False).answer([0]).reason == ""
    assert Effort.of(of).steps == 0
    monkeypatch.setattr(intervals, "STEPS", 1500)
    assert Space(of, solving=False).answer([1]).state == "unknown"
    assert Effort.of(of).steps > 1000
    assert Effort.of(Variant(of).build()) is Effort.of(of)
    monkeypatch.setattr(intervals, "BUDGET", 1000)
    monkeypatch.setattr(intervals, "FEW", 5)
    assert Space(of, solving=False).answer([0]).reason == ""  # told before
    Effort.of(of).told.clear()
    assert Space(of, solving=False).answer([0]).reason


def test_past_the_limit_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    of = table(OPEN, "a < b and b < a", "")
    assert Space(of, solving=False).answer([0]).state == "unknown"
    monkeypatch.setattr(intervals, "STEPS", 5)
    answer = Space(table(OPEN, "a * b * c * d > 20480", ""), solving=False).answer([0])
    assert answer.reason


def test_numbers_beyond_any_float_beside_one_without_end() -> None:
    of = table(OPEN, f"a * {' * '.join([str(2**62)] * 17)} + b > c + d * 2 and a > b", "")
    assert Space(of, solving=False).answer([0]).state in ("feasible", "unknown")


def test_the_next_value_up_and_down() -> None:
    line = Line([Run(3, 4, 3), Run(-5, -5, None), Run(40, 10, None)])
    values = [-15, -10, -5, 3, 7, 11, 40, 50, 60]
    for at in range(-15, 61):
        assert line.up(at) == min(value for value in values if value >= at)
        assert line.down(at) == max(value for value in values if value <= at)
    assert (line.up(float("-inf")), line.down(float("inf"))) == (float("-inf"), float("inf"))
    finite = Line([Run(3, 4, 3)])
    assert (finite.up(12), finite.down(2)) == (float("inf"), float("-inf"))

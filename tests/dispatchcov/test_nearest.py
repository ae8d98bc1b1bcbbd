"""The fewest predicates to flip, against trying every set of them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dispatchcov import decide, nearest
from dispatchcov.decide import View
from dispatchcov.loading.load import parse_table
from dispatchcov.table import Table
from tests.dispatchcov.build import SMALL
from tests.dispatchcov.random_tables import tables

TABLE = parse_table(SMALL)


def vector(table: Table, **facts: int | str | bool) -> int:
    return View.of(table, "cpu").vector(tuple(facts[name] for name in table.names))


def brute(table: Table, start: int, kernel: str) -> set[tuple[int, ...]]:
    """All sets of the least size whose flips select ``kernel``."""
    rules = {rule.index for rule in table.rules if rule.kernel.name == kernel}
    for size in range(len(table.predicates) + 1):
        found = {
            flipped
            for flipped in combinations(range(len(table.predicates)), size)
            if decide.select(table, start ^ sum(1 << index for index in flipped)) in rules
        }
        if found:
            return found
    return set()


@given(tables(), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_all_sets_of_the_least_size_and_no_other(table: Table, data: st.DataObject) -> None:
    assume(len(table.predicates) <= 10)
    start = data.draw(st.integers(0, (1 << len(table.predicates)) - 1))
    for kernel in {rule.kernel.name for rule in table.rules}:
        found = nearest.flips(table, start, kernel)
        assert len(found) == len(set(found))
        assert set(found) == brute(table, start, kernel)


def test_one_predicate_explains_it() -> None:
    start = vector(TABLE, N=3, aligned=True, dtype="float16")
    assert nearest.nearest(TABLE, start, "ScaleVec4") == "N % 4 == 0 would have to be true"


def test_several_ways_of_the_same_size_are_all_named() -> None:
    start = vector(TABLE, N=4, aligned=True, dtype="float16")
    text = "N % 4 == 0 would have to be false, or aligned would have to be false"
    assert nearest.nearest(TABLE, start, "Scale") == text


def test_several_predicates_at_once() -> None:
    start = vector(TABLE, N=3, aligned=False, dtype="float16")
    text = "N % 4 == 0 would have to be true and aligned would have to be true"
    assert nearest.nearest(TABLE, start, "ScaleVec4") == text


def test_a_kernel_of_no_rule_and_the_selected_one_are_explained_by_nothing() -> None:
    start = vector(TABLE, N=4, aligned=True, dtype="float16")
    assert nearest.nearest(TABLE, start, "void other()") == ""
    assert nearest.nearest(TABLE, start, "ScaleVec4") == ""


def test_a_search_that_is_given_up_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "LIMIT", 1)
    start = vector(TABLE, N=3, aligned=False, dtype="float16")
    assert nearest.flips(TABLE, start, "ScaleVec4") == ()


def test_more_ways_than_are_shown_are_counted() -> None:
    guard = " and ".join(f"N % {k} == 0" for k in (2, 3, 5, 7, 11))
    table = parse_table(SMALL.replace("N % 4 == 0 and aligned", guard).replace('requires = "N % 4 == 0"', ""))
    start = vector(table, N=2310, aligned=True, dtype="float16")
    assert nearest.nearest(table, start, "Scale").endswith("N % 5 == 0 would have to be false, or 2 other ways")

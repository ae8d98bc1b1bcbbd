"""Predicates over several variables, told exactly where all but one have few values."""

from __future__ import annotations

from unittest import mock

import pytest

from dispatchcov import parse_table
from dispatchcov.formula import Leaf
from dispatchcov.regions import Space
from dispatchcov.space import cases, intervals
from dispatchcov.table import Table


def table(variables: str, *guards: str) -> Table:
    whens = [f'when = "{guard}"' if guard else "" for guard in guards]
    rules = "".join(f"[[rule]]\nname = 'r{i}'\nkernel = 'k'\n{when}\n" for i, when in enumerate(whens))
    return parse_table(f"[table]\nop = 'x::y'\n[variables]\n{variables}\n[[kernel]]\nname = 'k'\n{rules}")


@pytest.fixture(autouse=True)
def case_by_case_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "STEPS", 0)
    monkeypatch.setattr(intervals, "FEW", 0)


OPEN = "N = { type = 'int', min = 1 }\nK = { type = 'int', min = 1 }"
TILES = OPEN + "\ntile = { type = 'int', values = [64, 16, 48] }"


def test_a_tile_of_few_values_that_divides_an_open_range() -> None:
    of = table(TILES, "N % tile == 0 and N % 16 != 0", "N % tile == 0 and N > 100 and tile != 64", "N % tile != 0")
    space = Space(of)
    assert [region.rule for region in space.regions] == [1, 2, None, None]
    assert space.notes == ()
    assert space.answer([0]).state == "unreachable"
    assert space.answer([1]).witness == {"N": 112, "K": 1, "tile": 16}
    assert space.answer([2]).witness == {"N": 1, "K": 1, "tile": 16}
    assert {region.answer.reason for region in space.regions} == {""}


def test_few_values_only_because_of_the_guard() -> None:
    of = table(OPEN, "8 <= K <= 12 and N % K == K - 1 and N > 1000", "K <= 4 and N * K == 1009", "")
    space = Space(of)
    assert space.answer([0]).witness == {"N": 1007, "K": 8}
    assert space.answer([1]).witness == {"N": 1009, "K": 1}


def test_booleans_and_strings_are_few_values() -> None:
    variables = OPEN + "\nflag = { type = 'bool' }\nd = { type = 'enum', values = ['a', 'b'] }"
    of = table(variables, "(N % 6 == 5) == flag and N > 7 and (d == 'b') == flag and flag", "")
    assert Space(of).answer([0]).witness == {"N": 11, "K": 1, "flag": True, "d": "b"}


def test_two_open_variables_each_beside_a_few_values() -> None:
    of = table(TILES, "N % tile == 1 and K % tile == 2 and N > 1", "")
    assert Space(of).answer([0]).witness == {"N": 17, "K": 2, "tile": 16}


def test_blocks_of_a_bounded_size() -> None:
    variables = "K = { type = 'int', min = 1 }\nblock_size = { type = 'int', min = 1, max = 64 }"
    of = table(variables, "ceildiv(K, block_size) > 4 and K <= 4 * block_size", "ceildiv(K, block_size) == 5", "")
    space = Space(of)
    assert space.answer([0]).state == "unreachable"
    assert space.answer([1]).witness == {"K": 5, "block_size": 1}
    assert space.answer([1], Leaf(space.table.predicates[0].index)).witness == {"K": 5, "block_size": 1}


@pytest.mark.parametrize("limit", ["MAX_CASES", "MAX_VALUES"])
def test_too_many_cases_are_not_tried(limit: str) -> None:
    of = table(TILES.replace("[64, 16, 48]", str(list(range(2, 40)))), "N % tile == 0 and K % tile == 1 and N < K", "")
    with mock.patch.object(cases, limit, 4):
        space = Space(of, solving=False)
        assert space.answer([0]).reason or space.answer([0]).state == "unknown"


CLAMPED = "min(128, max(16, K))"


def test_a_tile_that_follows_from_an_open_range_has_few_values() -> None:
    space = Space(table(OPEN, f"N % {CLAMPED} == 0 and N % 16 != 0 and N > 1000", ""), solving=False)
    assert (space.answer([0]).witness, space.answer([0]).reason) == ({"N": 1003, "K": 17}, "")
    of = table(OPEN, f"N % (2 * {CLAMPED}) == 0 and K > 40 and N % {CLAMPED} != 0", "")
    assert Space(of, solving=False).answer([0]).state == "unreachable"


def test_a_part_that_grows_without_end_is_not_split() -> None:
    space = Space(table(OPEN, "N % (K // 4 + 3) == 0 and N % 16 != 0 and N > 1000", ""), solving=False)
    assert space.notes
    bounded = OPEN.replace("K = { type = 'int', min = 1", "K = { type = 'int', min = 1, max = 800")
    space = Space(table(bounded, "N % (K // 4 + 3) == 0 and N % 8 != 0 and N > 1000", ""), solving=False)
    assert (space.answer([0]).witness, space.notes) == ({"N": 1002, "K": 1}, ())


def test_a_product_of_two_open_ranges_cannot_be_split() -> None:
    space = Space(table(OPEN, "N * K == 35 and N > 5", ""), solving=False)
    assert space.notes == ("N * K == 35 not analysed: it reads several variables, N, K",)

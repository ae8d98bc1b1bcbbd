"""Sizes of regions, counted without enumerating them, and the listing that shows them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, note, settings

from dispatchcov.cli import main
from dispatchcov.decide import path
from dispatchcov.regions import Space
from dispatchcov.space.sizes import Size, size
from dispatchcov.table import Table
from tests.dispatchcov.random_tables import decisions, tables
from tests.dispatchcov.space.test_boundaries import table


@settings(max_examples=30, deadline=None)
@given(tables())
def test_sizes_agree_with_counting_all_inputs(of: Table) -> None:
    note(of.text)
    counts = Counter(path(of, vector) for _, vector in decisions(of))
    for region in Space.of(of).regions:
        assert size(region) == Size(counts[region.rule, region.settled])


def test_size_classes() -> None:
    of = table("M <= 8 and K % 32 == 0 and K < 64", "M <= 8", "M * K == 9", "")
    found = {region.name.split(" ")[0]: size(region) for region in Space.of(of).regions}
    assert found["r0"] == Size(9 * 2 * 2 * 3)
    assert found["r1"] == Size(None, ("K",))
    assert found["r3"] == Size(None, ("M", "K"), False)
    assert [s.label for s in (Size(1), Size(108), Size(1 << 40), Size(9, (), False), Size(None, ("M", "K")))] == [
        "1 input", "108 inputs", "about 10^12 inputs", "at most 9 inputs", "unbounded in M, K",
    ]  # fmt: skip


def test_the_listing_has_size_and_splits(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[1] / "cases" / "vec8-even-block.toml"
    assert main(["regions", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[:5] == [
        "case::vec8_even_block: 3 regions",
        "   0  vec8",
        "      M=9 K=8 block_size=2",
        "      unbounded in M, K, block_size",
        "      split block_size % 8 == 0 true: M=9 K=8 block_size=8",
    ]
    assert main(["regions", str(file), "--format", "json"]) == 0
    first = json.loads(capsys.readouterr().out)["regions"][0]
    assert first["size"]["class"] == "unbounded in M, K, block_size"
    assert first["splits"][0]["false"] == {"M": 9, "K": 8, "block_size": 2}

"""Drawn inputs are where they were asked to be, shrink to the smallest witness, and reach every region."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, note, settings
from hypothesis import strategies as st

from dispatchcov import load_table
from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.errors import UsageError
from dispatchcov.expr import Value
from dispatchcov.formula import Some, every, holds
from dispatchcov.regions import Space
from dispatchcov.strategies import covering, inputs
from dispatchcov.table import Table
from tests.dispatchcov.random_tables import tables
from tests.dispatchcov.space.test_boundaries import table

FP4 = load_table(Path(__file__).parent / "tables" / "fp4.toml")
FEW = settings(max_examples=60, deadline=None)
DRAWN = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])


def vector(of: Table, facts: dict[str, Value]) -> int:
    assert of.facts(facts) == facts
    return View.of(of, DEFAULT_MACHINE).vector(tuple(facts.values()))


@FEW
@given(st.data())
def test_inputs_of_partitions_of_the_fp4_table(data: st.DataObject) -> None:
    partition = data.draw(st.sampled_from(FP4.partitions))
    facts = data.draw(inputs(FP4, partition=partition.name))
    condition = every(partition.condition, Some(tuple(bin.condition for bin in partition.bins)))
    outcomes = vector(FP4, facts)
    assert path(FP4, outcomes)[0] in partition.rules
    assert holds(condition, outcomes)


@FEW
@given(st.data())
def test_inputs_of_rules_and_regions_of_the_fp4_table(data: st.DataObject) -> None:
    region = data.draw(st.sampled_from(Space.of(FP4).regions))
    facts = data.draw(inputs(FP4, region=region.name))
    assert path(FP4, vector(FP4, facts)) == (region.rule, region.settled)
    assert region.rule is not None
    facts = data.draw(inputs(FP4, rule=FP4.rules[region.rule].name))
    assert path(FP4, vector(FP4, facts))[0] == region.rule


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(shared=True), st.data())
def test_inputs_of_random_tables(of: Table, data: st.DataObject) -> None:
    note(of.text)
    for region in Space.of(of).regions:
        facts = data.draw(inputs(of, region=region))
        assert path(of, vector(of, facts)) == (region.rule, region.settled)


@pytest.mark.parametrize("partition", FP4.partitions, ids=lambda partition: partition.name)
def test_they_shrink_to_the_smallest_witness(partition: Any) -> None:
    condition = every(partition.condition, Some(tuple(bin.condition for bin in partition.bins)))
    smallest = Space.of(FP4).answer(partition.rules, condition).witness
    assert find(inputs(FP4, partition=partition.name), lambda facts: True) == smallest


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("above", "smallest"), [(100, 104), (4000, 4008)])
def test_shrinking_keeps_what_is_asked(above: int, smallest: int, seed: int) -> None:
    of = table("M % 8 == 0 and M > 4", "")
    found = find(inputs(of, rule="r0"), lambda facts: int(facts["M"]) > above, random=random.Random(seed))
    assert found["M"] == smallest


def test_boundary_values_come_often() -> None:
    of = table("M <= 1000", "", variables="M = { type = 'int', min = 0 }")
    seen: Counter[Value] = Counter()

    @settings(max_examples=200, deadline=None, phases=[Phase.generate], database=None, derandomize=True)
    @given(inputs(of, rule="r0"))
    def draw(facts: dict[str, Value]) -> None:
        seen[facts["M"]] += 1

    draw()
    assert seen[1000] > 5  # of 200 draws from 1001 values
    assert seen[0] > 5
    assert len(seen) > 20


@pytest.mark.parametrize("beside", [{}, {"seed": st.integers(0, 2**32)}], ids=["alone", "beside-a-seed"])
def test_covering_draws_all_regions_evenly(beside: dict[str, Any]) -> None:
    seen: Counter[Any] = Counter()
    regions = len(Space.of(FP4).regions)

    @settings(max_examples=10 * regions, deadline=None, phases=[Phase.generate], database=None, derandomize=True)
    @given(facts=covering(FP4), **beside)
    def draw(facts: dict[str, Value], **_: Any) -> None:
        seen[path(FP4, vector(FP4, facts))] += 1

    draw()
    assert len(seen) == regions
    assert max(seen.values()) < 30  # of counts with mean 10, drawn independently, one in a million is


def test_large_values_are_bounded() -> None:
    of = table("M <= 8", "", variables="M = { type = 'int' }\nK = { type = 'int', min = 100000 }")
    facts = find(inputs(of, rule="r1", largest={"M": 50}), lambda facts: int(facts["M"]) > 40)
    assert facts["K"] == 100000
    assert 40 < int(facts["M"]) <= 50
    with pytest.raises(Exception, match=r"(?i)no.?such|not found|examples"):
        find(inputs(of, rule="r1", largest=50), lambda facts: int(facts["M"]) > 50, settings=DRAWN)


def test_an_event_names_the_region(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", small=FP4.text)
    pytester.makepyfile(
        "import dispatchcov\nfrom dispatchcov.strategies import covering\nfrom hypothesis import given, settings\n"
        "table = dispatchcov.load_table('small.toml')\n"
        "@settings(deadline=None)\n@given(covering(table))\ndef test(facts): table.decide(**facts)\n"
    )
    result = pytester.runpytest_subprocess("--hypothesis-show-statistics")
    result.stdout.fnmatch_lines(["*Events:*", f"*%, {FP4.op}: empty*"])


def test_names_that_are_not_there() -> None:
    with pytest.raises(UsageError, match="unknown partition 'decod'; did you mean 'decode'"):
        inputs(FP4, partition="decod")
    with pytest.raises(UsageError, match="unknown rule"):
        inputs(FP4, rule="decode-mm")
    with pytest.raises(UsageError, match="unknown region"):
        inputs(FP4, region="nowhere")
    with pytest.raises(UsageError, match="got several"):
        inputs(FP4, rule="empty", partition="empty")
    with pytest.raises(UsageError, match="no input"):
        inputs(table("M < 0", ""), rule="r0")

"""Totals follow from the table and the hardware of a run, whatever inputs it had and in whatever order sets are."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from dispatchcov import load_table
from dispatchcov.items import MEASURES, Item
from dispatchcov.regions import Space
from dispatchcov.results import Results, TableResults
from dispatchcov.table import Table
from tests.dispatchcov.build import data, row
from tests.dispatchcov.random_tables import decisions, tables
from tests.dispatchcov.space.test_boundaries import table as small

ROOT = Path(__file__).parents[3]
CASES = Path(__file__).parents[1] / "cases"
FP4 = load_table(Path(__file__).parents[1] / "tables" / "fp4.toml")
Facts = dict[str, Any]


def measured(table: Table, inputs: Iterable[Facts]) -> TableResults:
    return Results.of(data(table, *(row(table, **facts) for facts in inputs))).tables[0]


def items(results: TableResults) -> list[tuple[str, Item]]:
    return [(name, item) for name in MEASURES for item in getattr(results, name)]


@settings(max_examples=12, deadline=None)
@given(tables(contracts=True), st.data())
def test_totals_do_not_depend_on_the_inputs_of_a_run(table: Table, drawn: st.DataObject) -> None:
    """All inputs on some hardware hit all that counts; any few of them give the same totals."""
    note(table.text)
    every: dict[tuple[object, ...], list[Facts]] = {}
    for facts, _ in decisions(table):
        with contextlib.suppress(ZeroDivisionError):  # no decision, so nothing to record
            table.on("any").vector(tuple(facts[name] for name in table.names))
            every.setdefault(tuple(facts[name] for name in table.hardware), []).append(facts)
    assume(every)
    chosen = drawn.draw(st.lists(st.sampled_from(sorted(every, key=repr)), min_size=1, max_size=3, unique=True))
    whole = measured(table, (facts for hardware in chosen for facts in every[hardware]))
    part = measured(table, (drawn.draw(st.sampled_from(every[hardware])) for hardware in chosen))
    for (name, item), (_, again) in zip(items(whole), items(part), strict=True):
        assert item.label == again.label
        assert item.state in ("hit", "elsewhere", "unreachable") or item.reachable == "unknown", (name, item.label)
        assert item.counts == again.counts, (name, item.label, item.state, again.state)


@pytest.mark.parametrize("machines", [(120,), (80, 90), (75, 103, 120)])
def test_totals_of_the_fp4_table_on_given_hardware(machines: Sequence[int]) -> None:
    """A run with one input of each machine, and one that goes everywhere, count the same items."""
    witnesses = [region.witness for region in Space.of(FP4).regions if region.witness]
    first = measured(FP4, ({**witnesses[0], "sm": sm} for sm in machines))
    again = measured(FP4, ({**facts, "sm": sm} for facts in witnesses for sm in machines))
    more = [item.witness for _, item in items(again) if item.state == "missed" and item.witness]
    assert {facts["sm"] for facts in more} <= set(machines)
    assert more
    third = measured(FP4, [*({**facts, "sm": sm} for facts in witnesses for sm in machines), *more])
    totals = [{name: total.total for name, total in each.totals.items()} for each in (first, again, third)]
    assert totals[0] == totals[1] == totals[2]


def test_a_mutant_counts_where_any_of_the_inputs_that_notice_it_can_be_on() -> None:
    """``sm >= 90`` negated loses inputs of one machine and wins those of another."""
    of = small("sm >= 90 and M > 3", "")
    for sm in (80, 90):
        found = {i.detail: i for i in measured(of, [{"M": 0, "K": 0, "flag": False, "sm": sm}]).mutants}
        item = found["sm >= 90 -> not (sm >= 90)"]
        assert (item.state, item.witness) == ("missed", {"M": 4, "K": 0, "flag": False, "sm": sm})


def test_a_pair_of_two_machines_counts_where_both_took_part() -> None:
    of = small("sm >= 90 and M > 3", "")
    high, low = ({"M": 4, "K": 0, "flag": False, "sm": sm} for sm in (90, 80))
    states = {
        name: [measured(of, given).mcdc[0].state, [item.state for item in measured(of, given).boundaries[:2]]]
        for name, given in {"high": [high], "low": [low], "both": [high, low]}.items()
    }
    assert states == {
        "high": ["elsewhere", ["hit", "elsewhere"]], "low": ["elsewhere", ["elsewhere", "hit"]],
        "both": ["hit", ["hit", "hit"]],
    }  # fmt: skip
    idle = measured(of, [{**high, "M": 0}, {**low, "M": 0}])
    assert (idle.mcdc[0].state, [item.state for item in idle.boundaries[:2]]) == ("missed", ["missed", "missed"])


def test_a_boundary_is_shown_with_hardware_of_the_run_only_where_that_lies_beside_it() -> None:
    of = small("sm >= 90 and M > 3", "")
    given = [{"M": 0, "K": 0, "flag": False, "sm": sm} for sm in (120, 90)]
    found = measured(of, given).boundaries
    assert [item.witness["sm"] for item in found if item.witness and item.state == "missed"] == [90, 90, 90]


def test_nothing_depends_on_the_order_of_sets() -> None:
    """Findings, items and suggestions are the same whatever seed strings are hashed with."""
    code = (
        "from dispatchcov import load_table; from dispatchcov.check.faults import check\n"
        "from dispatchcov.results import Results; from dispatchcov.suggest import suggest\n"
        "from tests.dispatchcov.build import data, row\n"
        f"of = load_table({str(ROOT / 'fp4ops' / 'dispatch.toml')!r})\n"
        "facts = dict(M=1, N=1, K=32, block_size=16, dtype='float16', bias=True, native=False, dequantize='flat')\n"
        "kept = data(of, *(row(of, sm=sm, **facts) for sm in (80, 90)))\n"
        "results = Results.of(kept).tables[0]\n"
        "print(results, suggest(results, kept, ['partitions', 'boundaries']))\n"
        f"print([check(load_table(file)) for file in {sorted(map(str, CASES.glob('[!e]*.toml')))!r}])"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
        ) for seed in ("0", "1", "2")
    ]  # fmt: skip
    assert done[0].stdout == done[1].stdout == done[2].stdout
    assert "Finding(kind='contract'" in done[0].stdout

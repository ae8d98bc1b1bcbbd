from __future__ import annotations

import datetime
from typing import Any

import pytest

from dispatchcov.errors import DataError, DigestError
from dispatchcov.items import Item, Totals
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data
from dispatchcov.results import Results, TableResults
from tests.dispatchcov.build import SMALL, data, row

TABLE = parse_table(SMALL, source="small.toml")
HALF: dict[str, Any] = {"aligned": True, "dtype": "float16"}


def measured(records: Data, **options: object) -> TableResults:
    (table,) = Results.of(records, **options).tables  # type: ignore[arg-type]
    return table


def items(results: Results) -> list[tuple[Item, ...]]:
    return [(*table.partitions, *table.rules, *table.fallbacks, *table.regions) for table in results.tables]


def states(results: TableResults) -> dict[str, str]:
    return {item.label: item.state for item in results.partitions}


def test_a_hit_needs_a_passing_test() -> None:
    hit = row(TABLE, N=4, **HALF)
    assert states(measured(data(TABLE, hit)))["vec4 [dtype=float16]"] == "hit"
    for outcome in ("failed", "skipped", "xfailed", "xpassed"):
        results = measured(data(TABLE, hit, outcomes={hit.test: outcome}))
        assert states(results)["vec4 [dtype=float16]"] == "missed"
        assert results.partitions[0].reach.apart == ((outcome, 1),)


@pytest.mark.parametrize("phase", ["setup", "teardown", "warm-up", "collect", "session"])
def test_other_phases_are_kept_apart(phase: str) -> None:
    results = measured(data(TABLE, row(TABLE, N=4, phase=phase, selected=3, **HALF)))
    assert results.partitions[0].state == "missed"
    assert results.partitions[0].reach.apart == ((phase, 3),)


def test_a_program_outside_tests_counts() -> None:
    results = measured(data(TABLE, row(TABLE, test="", phase="run", N=4, **HALF)))
    assert results.partitions[0].state == "hit"
    assert results.partitions[0].reach.tests == ()


def test_a_test_whose_end_is_unknown_is_in_progress() -> None:
    records = data(TABLE, row(TABLE, N=4, **HALF))
    results = measured(Data(records.tables, records.shards, records.rows, ()))
    assert results.partitions[0].reach.apart == (("in progress", 1),)


def test_the_outcome_of_a_forked_child_is_that_of_its_test() -> None:
    parent, child = row(TABLE, N=3, **HALF), row(TABLE, N=4, shard="s2", **HALF)
    results = measured(data(TABLE, parent, child))
    assert states(results) == {"vec4 [dtype=float16]": "hit", "vec4 [dtype=float32]": "missed", "ragged": "hit"}


def test_evidence_asked_of_every_hit() -> None:
    records = data(TABLE, row(TABLE, N=4, selected=5, launched=5, checked=2, **HALF))
    assert measured(records, evidence=["launched"]).partitions[0].reach.hits == 5
    checked = measured(records, evidence=["launched", "checked"]).partitions[0]
    assert (checked.state, checked.reach.hits, checked.needs) == ("hit", 2, ("launched", "checked"))
    observed = measured(records, evidence=["observed"]).partitions[0]
    assert (observed.state, observed.reach.apart) == ("missed", (("without observed", 5),))


def test_evidence_and_number_asked_by_the_partition() -> None:
    text = SMALL.replace('name = "ragged"', 'name = "ragged"\nat_least = 3\nevidence = ["checked"]')
    table = parse_table(text)
    for checked, state in ((2, "missed"), (3, "hit")):
        records = data(table, row(table, N=3, selected=9, checked=checked, **HALF))
        assert states(measured(records))["ragged"] == state


def test_fallbacks_want_each_predicate_as_the_sole_reason() -> None:
    both_fail = row(TABLE, N=3, aligned=False, dtype="float16")
    unaligned = row(TABLE, N=4, aligned=False, dtype="float16")
    found = {item.detail: item.state for item in measured(data(TABLE, both_fail, unaligned)).fallbacks}
    assert found == {"N % 4 == 0": "missed", "aligned": "hit"}


def test_splits_want_both_sides_inside_the_kernel() -> None:
    results = measured(data(TABLE, row(TABLE, N=4, **HALF), row(TABLE, N=2048, aligned=False, dtype="float16")))
    assert {item.detail: item.state for item in results.splits} == {
        "N >= 1024: true": "missed",
        "N >= 1024: false": "hit",
    }


def test_regions_are_paths() -> None:
    results = measured(data(TABLE, row(TABLE, N=3, aligned=False, dtype="float16")))
    assert [item.state for item in results.regions].count("hit") == 1
    assert results.totals["regions"] == Totals(1, 3)


def test_predicates_count_what_short_circuit_evaluation_read() -> None:
    results = measured(data(TABLE, row(TABLE, N=3, selected=7, aligned=False, dtype="float16")))
    assert [(side.text, side.true, side.false) for side in results.predicates] == [
        ("N % 4 == 0", 0, 7),
        ("aligned", 0, 0),
    ]


def test_absence_in_a_partial_run_is_not_run() -> None:
    results = measured(data(TABLE, row(TABLE, N=4, **HALF), partial=("tests were deselected",)))
    assert states(results) == {"vec4 [dtype=float16]": "hit", "vec4 [dtype=float32]": "not-run", "ragged": "not-run"}


HARDWARE = SMALL.replace("[[kernel]]", 'sm = { type = "int", values = [80, 90, 120], hardware = true }\n[[kernel]]', 1)
HARDWARE = HARDWARE.replace("N % 4 == 0 and aligned", "N % 4 == 0 and aligned and sm >= 120")


def test_elsewhere_needs_hardware_that_no_run_had() -> None:
    table = parse_table(HARDWARE)
    records = data(table, row(table, N=3, sm=90, **HALF))
    assert states(measured(records))["vec4 [dtype=float16]"] == "elsewhere"
    more = data(table, row(table, N=3, sm=90, **HALF), row(table, N=3, sm=120, **HALF))
    assert states(measured(more))["vec4 [dtype=float16]"] == "missed"


def test_without_any_decision_nothing_is_elsewhere() -> None:
    table = parse_table(HARDWARE)
    assert set(states(measured(data(table))).values()) == {"missed"}


def test_what_no_input_reaches_is_unreachable_and_not_counted() -> None:
    table = parse_table(SMALL.replace('where = "N % 4 != 0"', 'where = "N < 0"'))
    results = measured(data(table))
    assert states(results)["ragged"] == "unreachable"
    assert results.totals["partitions"] == Totals(0, 2)


def test_a_waiver_holds_until_its_date() -> None:
    text = SMALL + '[[waiver]]\npartition = "ragged"\nreason = "no such layer yet"\nexpires = 2026-06-30\n'
    table = parse_table(text)
    for day, state in (((2026, 6, 30), "waived"), ((2026, 7, 1), "missed")):
        assert states(measured(data(table), today=datetime.date(*day)))["ragged"] == state


def test_mismatches() -> None:
    wrong = row(TABLE, N=4, kernel="Scale", **HALF)
    right = row(TABLE, N=8, kernel="ScaleVec4", **HALF)
    outside = row(TABLE, test="t.py::outside", N=-4, **HALF)
    found = measured(data(TABLE, wrong, right, outside)).mismatches
    assert [(m.kind, m.rule, m.expected, m.got, m.tests) for m in found] == [
        ("kernel", "vec4", "ScaleVec4", "Scale", ("t.py::test",)),
        ("domain", "vec4", "N an integer >= 0", "N=-4", ("t.py::outside",)),
    ]


def test_a_contract_violated_by_a_real_input_is_a_mismatch() -> None:
    table = parse_table(SMALL.replace('when = "N % 4 == 0 and aligned"', 'when = "aligned"'))
    (found,) = measured(data(table, row(table, N=3, **HALF))).mismatches
    assert (found.kind, found.expected, found.facts["N"]) == ("contract", "N % 4 == 0", 3)


def test_an_input_that_no_rule_takes_is_a_mismatch() -> None:
    table = parse_table(SMALL.replace('name = "scalar"\nkernel', 'name = "scalar"\nwhen = "N > 4"\nkernel'))
    (found,) = measured(data(table, row(table, N=3, **HALF))).mismatches
    assert (found.kind, found.facts["N"]) == ("untotal", 3)


def test_kernels_by_the_account_of_code_that_decides_itself() -> None:
    results = measured(data(TABLE, row(TABLE, N=4, kernel="Scale", **HALF)))
    assert {item.name: item.reach.hits for item in results.kernels} == {"ScaleVec4": 0, "Scale": 1}


def test_another_version_of_a_table_is_refused() -> None:
    changed = parse_table(SMALL.replace("N % 4 == 0 and", "N % 8 == 0 and"), source="changed.toml")
    with pytest.raises(DigestError, match=r"demo::scale: changed.toml has digest .*, the records were made with"):
        Results.of(data(TABLE, row(TABLE, N=4, **HALF)), [changed])
    with pytest.raises(DataError, match="expected one version of each table"):
        Results.of(Data(), [TABLE, changed])


def test_results_add_up_and_are_frozen() -> None:
    first = Results.of(data(TABLE, row(TABLE, N=4, **HALF)))
    second = Results.of(data(TABLE, row(TABLE, N=3, shard="s2", **HALF)))
    both = first + second
    assert (both.decisions, states(both.tables[0])["ragged"], states(both.tables[0])["vec4 [dtype=float16]"]) == (
        2,
        "hit",
        "hit",
    )
    assert items(second + first) == items(both)
    assert items(first + first) == items(first)
    with pytest.raises(AttributeError):
        first.tables = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("covered", "total", "percent"),
    [(0, 0, 100), (0, 9, 0), (9, 9, 100), (1, 3, 33.33), (1, 10**6, 0.01), (10**6 - 1, 10**6, 99.99)],
)
def test_percentages_never_round_to_none_or_all(covered: int, total: int, percent: float) -> None:
    assert Totals(covered, total).percent == percent

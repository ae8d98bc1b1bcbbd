from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import pytest

from dispatchcov.compare.moved import compare, ignored
from dispatchcov.compare.sides import Reached, of_data
from dispatchcov.drift import Drift, Move
from dispatchcov.expr import Value
from dispatchcov.loading.load import parse_table
from dispatchcov.records import VARIES, Data, Outcome
from dispatchcov.table import Table
from tests.dispatchcov.build import data, row

TEXT = """
[table]
op = "demo::mm"
[variables]
M = { type = "int", min = 0 }
K = { type = "int", min = 0 }
bias = { type = "bool" }
sm = { type = "int", values = [80, 90], hardware = true }
[[kernel]]
name = "Mma"
[[kernel]]
name = "Gemv"
[[kernel]]
name = "Gemm"
[[rule]]
name = "mma"
when = "M <= 8 and K % 128 == 0"
kernel = "Mma"
[[rule]]
name = "gemv"
when = "M <= 8 and K % 32 == 0 and not bias"
kernel = "Gemv"
[[rule]]
name = "gemm"
kernel = "Gemm"
"""
TABLE = parse_table(TEXT, source="mm.toml")
Facts: TypeAlias = dict[str, Value]
MMA: Facts = {"M": 4, "K": 128, "bias": False, "sm": 90}
GEMV: Facts = {"M": 4, "K": 32, "bias": False, "sm": 90}
GEMM: Facts = {"M": 40, "K": 128, "bias": False, "sm": 90}
RAGGED: Facts = {"M": 4, "K": 30, "bias": False, "sm": 90}


def table(*changes: tuple[str, str]) -> Table:
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return parse_table(text, source="mm.toml")


def side(
    inputs: Mapping[str, list[Facts]],
    by: Table = TABLE,
    *,
    outcomes: Mapping[str, str] | None = None,
    varies: tuple[str, ...] = (),
    partial: tuple[str, ...] = (),
    **given: str,
) -> Reached:
    """What was reached by tests with these ``inputs``; tests without inputs only passed."""
    rows = [row(by, test, **facts, **given) for test, many in inputs.items() for facts in many]
    records = data(by, *rows, outcomes={**dict.fromkeys(inputs, "passed"), **(outcomes or {})}, partial=partial)
    said = tuple(Outcome("s1", VARIES + test, "passed") for test in varies)
    return of_data("base", replace(records, outcomes=records.outcomes + said), [by])


def only(drift: Drift) -> Move:
    (move,) = drift.moves
    return move


def places(move: Move) -> tuple[str, str]:
    return move.old.label if move.old else "", move.new.label if move.new else ""


def test_equal_sides_do_not_drift_and_unchanged_tests_are_only_counted() -> None:
    reached = side({"t.py::a": [MMA, GEMV], "t.py::b": [GEMM]})
    assert compare(reached, reached) == Drift("base", unchanged=2)


def test_a_threshold_that_moves_a_test_is_named_with_the_values_it_saw() -> None:
    now = table(("M <= 8 and K % 128 == 0", "M <= 32 and K % 128 == 0"))
    inputs = {"t.py::moved": [{**GEMM, "M": 16}], "t.py::stays": [{**GEMM, "M": 64}], "t.py::gemv": [GEMV]}
    drift = compare(side(inputs), side(inputs, now))
    move = only(drift)
    assert (move.test, drift.unchanged) == ("t.py::moved", 2)
    assert places(move) == ("gemm [mma, gemv: not M <= 8] -> Gemm", "mma -> Mma")
    assert move.cause is not None
    assert move.cause.text == "mma: M <= 8 was false, is now M <= 32, true (M=16)"
    assert (move.cause.kind, move.cause.before, move.cause.after) == ("table", "M <= 8", "M <= 32")
    assert [(c.rule, c.before, c.after) for c in drift.rules] == [
        ("mma", "M <= 8 and K % 128 == 0 -> Mma", "M <= 32 and K % 128 == 0 -> Mma")
    ]


def test_an_input_that_changed_is_told_from_a_table_that_changed() -> None:
    move = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [{**MMA, "K": 96}]})))
    assert places(move) == ("mma -> Mma", "gemv [mma: not K % 128 == 0] -> Gemv")
    assert move.cause is not None
    assert (move.cause.kind, move.cause.text) == ("input", "mma: K % 128 == 0 was true (K=128), is false (K=96)")


def test_of_several_predicates_that_changed_the_one_that_settled_it_is_named() -> None:
    move = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [{**RAGGED, "M": 40}]})))
    assert move.seen == "mma: M <= 8 was true (M=4), is false (M=40)"
    back = only(compare(side({"t.py::a": [{**RAGGED, "M": 40}]}), side({"t.py::a": [MMA]})))
    assert back.seen == "mma: M <= 8 was false (M=40), is true (M=4)"


def test_both_changed() -> None:
    now = table(("M <= 8 and K % 128 == 0", "M <= 6 and K % 128 == 0"))
    move = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [{**MMA, "M": 7}]}, now)))
    assert move.cause is not None
    assert (move.cause.kind, move.cause.text) == ("both", "mma: M <= 8 was true (M=4), is now M <= 6, false (M=7)")


def test_another_reason_for_the_same_kernel_is_another_region() -> None:
    move = only(compare(side({"t.py::a": [RAGGED]}), side({"t.py::a": [{**RAGGED, "K": 32, "bias": True}]})))
    assert places(move) == (
        "gemm [mma: not K % 128 == 0; gemv: not K % 32 == 0] -> Gemm",
        "gemm [mma: not K % 128 == 0; gemv: bias] -> Gemm",
    )
    assert move.cause is not None
    assert move.cause.text == "gemv: K % 32 == 0 was false (K=30), is true (K=32)"


def test_a_predicate_that_is_new_or_gone() -> None:
    now = table(("M <= 8 and K % 128 == 0", "M <= 8 and K % 128 == 0 and bias"))
    added = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [MMA]}, now)))
    assert added.cause is not None
    assert (added.cause.text, added.cause.before) == ("mma: bias, new, is false (bias=false)", "")
    dropped = only(compare(side({"t.py::a": [MMA]}, now), side({"t.py::a": [MMA]})))
    assert dropped.cause is not None
    assert dropped.cause.text == "mma: bias, which was false, is no longer asked (bias=false)"


def test_a_rule_that_is_new_moves_only_what_it_takes() -> None:
    rule = '[[rule]]\nname = "big"\nwhen = "M >= 32 and bias"\nkernel = "Mma"\n[[rule]]\nname = "mma"'
    now = table(('[[rule]]\nname = "mma"', rule))
    inputs = {"t.py::taken": [{**GEMM, "bias": True}], "t.py::a": [GEMM], "t.py::b": [GEMV]}
    there = compare(side(inputs), side(inputs, now))
    assert only(there).seen == "big: a new rule, M >= 32 and bias (M=40 K=128 bias=true sm=90)"
    assert there.unchanged == 2
    back = only(compare(side(inputs, now), side(inputs)))
    assert (back.test, back.seen) == ("t.py::taken", "big: the table has no such rule any more")


def test_rules_in_another_order() -> None:
    mma = TEXT[TEXT.index('[[rule]]\nname = "mma"') : TEXT.index('[[rule]]\nname = "gemv"')]
    gemv = TEXT[TEXT.index('[[rule]]\nname = "gemv"') : TEXT.index('[[rule]]\nname = "gemm"')]
    now = parse_table(TEXT.replace(mma + gemv, gemv + mma), source="mm.toml")
    move = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [MMA]}, now)))
    assert (places(move)[1], move.seen) == ("gemv -> Gemv", "gemv: comes before mma now")


def test_a_guard_with_the_same_predicates_joined_otherwise() -> None:
    now = table(("M <= 8 and K % 128 == 0", "M <= 8 or K % 128 == 0"))
    move = only(compare(side({"t.py::a": [GEMM]}), side({"t.py::a": [GEMM]}, now)))
    assert move.seen.startswith("mma: its guard was M <= 8 and K % 128 == 0, is now M <= 8 or K % 128 == 0")


def test_a_kernel_by_the_codes_own_account() -> None:
    move = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [MMA]}, kernel="Gemm")))
    assert move.cause is not None
    assert (move.cause.kind, move.seen) == ("kernel", "mma: ran Mma, now Gemm")
    told = side({"t.py::a": [MMA]}, kernel="Gemm", varies=("t.py::a",))
    assert compare(told, told).unchanged == 1


def test_a_test_with_many_regions_lists_only_those_that_differ() -> None:
    now = table(("M <= 8 and K % 32 == 0", "M <= 8 and K % 64 == 0"))
    inputs = {"t.py::a": [MMA, GEMV, GEMM, RAGGED]}
    assert places(only(compare(side(inputs), side(inputs, now)))) == (
        "gemv [mma: not K % 128 == 0] -> Gemv",
        "gemm [mma: not K % 128 == 0; gemv: not K % 64 == 0] -> Gemm",
    )


def test_a_larger_input_of_a_region_that_the_table_takes_out_of_it() -> None:
    now = table(("M <= 8 and K % 128 == 0", "M <= 6 and K % 128 == 0"))
    inputs = {"t.py::a": [MMA, {**MMA, "M": 8}]}
    move = only(compare(side(inputs), side(inputs, now)))
    assert places(move) == ("mma -> Mma", "gemv [mma: not M <= 6] -> Gemv")
    assert move.seen == "mma: M <= 8 was true, is now M <= 6, false (M=8)"


def test_one_decision_more_and_one_less() -> None:
    more = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [MMA, GEMM]})))
    assert (places(more), more.seen) == (("", "gemm [mma, gemv: not M <= 8] -> Gemm"), "a further input")
    less = only(compare(side({"t.py::a": [MMA, GEMM]}), side({"t.py::a": [MMA]})))
    assert less.new is None
    assert less.seen == "no decision of the test goes there any more"
    none = only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": []})))
    assert (none.new, none.old and none.old.rule) == (None, "mma")


OTHER = parse_table(TEXT.replace("demo::mm", "demo::other"), source="other.toml")


def test_two_operators_of_one_test_drift_apart() -> None:
    def both(mm: dict[str, Value], other: Facts) -> Reached:
        rows = [row(TABLE, "t.py::a", **mm), row(OTHER, "t.py::a", **other)]
        first, second = data(TABLE, rows[0]), data(OTHER, rows[1])
        joined = Data((*first.tables, *second.tables), first.shards, (*first.rows, *second.rows), first.outcomes)
        return of_data("base", joined, [TABLE, OTHER])

    move = only(compare(both(MMA, MMA), both(MMA, GEMM)))
    assert (move.op, places(move)[0]) == ("demo::other", "mma -> Mma")
    without = compare(both(MMA, MMA), side({"t.py::a": [MMA]}))
    assert [(m.op, m.new) for m in without.moves] == [("demo::other", None)]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_records_does_not_matter(seed: int) -> None:
    rows = [
        row(TABLE, f"t.py::{name}", shard=f"s{shard}", **{**MMA, "M": m})
        for shard, name in enumerate("abc")
        for m in (3, 9, 5)
    ]
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert of_data("x", data(TABLE, *shuffled), [TABLE]).entries == of_data("x", data(TABLE, *rows), [TABLE]).entries
    facts = [entry.facts for entry in of_data("x", data(TABLE, *shuffled), [TABLE]).entries]
    assert facts == [entry.facts for entry in of_data("x", data(TABLE, *rows), [TABLE]).entries]
    assert dict(facts[1])["M"] == 3


def test_new_and_gone_tests_are_not_moves() -> None:
    before = side({"t.py::old_name": [MMA], "t.py::stays": [GEMM]})
    now = side({"t.py::new_name": [MMA], "t.py::stays": [GEMM]})
    drift = compare(before, now)
    assert (drift.moves, drift.new, drift.gone, drift.unchanged) == ((), ("t.py::new_name",), ("t.py::old_name",), 1)


def test_a_test_that_did_not_run_is_not_gone() -> None:
    before = side({"t.py::a": [MMA], "t.py::b": [GEMM], "other.py::c": [GEMM]})
    partial = compare(before, side({"t.py::a": [MMA]}, partial=("tests were deselected",)))
    assert (partial.gone, partial.not_run) == ((), ("other.py::c", "t.py::b"))
    one_file = compare(before, side({"t.py::a": [MMA]}))
    assert (one_file.gone, one_file.not_run) == (("t.py::b",), ("other.py::c",))
    removed = compare(before, side({"t.py::a": [MMA]}), exists=lambda file: file != "other.py")
    assert removed.gone == ("other.py::c", "t.py::b")


def test_a_process_that_did_not_end_leaves_nothing_gone() -> None:
    records = data(TABLE, row(TABLE, "t.py::a", **MMA))
    crashed = replace(records, shards=tuple(replace(shard, ended=False) for shard in records.shards))
    before = side({"t.py::a": [MMA], "t.py::b": [GEMM]})
    assert compare(before, of_data("now", crashed, [TABLE])).not_run == ("t.py::b",)


def test_failed_and_skipped_tests_are_apart() -> None:
    before = side({"t.py::a": [MMA], "t.py::b": [GEMM], "t.py::c": [GEMV]})
    outcomes = {"t.py::a": "failed", "t.py::b": "skipped"}
    drift = compare(before, side({"t.py::a": [GEMM], "t.py::b": [], "t.py::c": [GEMV]}, outcomes=outcomes))
    assert (drift.moves, drift.apart) == ((), (("t.py::a", "failed"), ("t.py::b", "skipped")))
    back = compare(side({"t.py::a": [GEMM]}, outcomes=outcomes), side({"t.py::a": [MMA]}))
    assert (back.moves, back.apart) == ((), (("t.py::a", "failed before"),))


def test_setup_does_not_count_as_reached() -> None:
    assert only(compare(side({"t.py::a": [MMA]}), side({"t.py::a": [MMA]}, phase="setup"))).new is None


def test_drawn_inputs_drift_only_by_the_table() -> None:
    before = side({"t.py::a": [MMA, GEMM]}, varies=("t.py::a",))
    assert (dict(before.outcomes), set(before.files)) == ({"t.py::a": "passed"}, {"t.py"})
    other = side({"t.py::a": [GEMV, RAGGED]}, varies=("t.py::a",))
    assert compare(before, other) == Drift("base", unchanged=1)
    now = table(("M <= 8 and K % 128 == 0", "M <= 3 and K % 128 == 0"))
    move = only(compare(before, side({"t.py::a": [GEMM]}, now, varies=("t.py::a",))))
    assert places(move) == ("mma -> Mma", "gemv [mma: not M <= 3] -> Gemv")
    assert move.seen == "mma: M <= 8 was true, is now M <= 3, false (M=4)"
    assert compare(before, side({"t.py::a": []}, varies=("t.py::a",))).moved == ("t.py::a",)


def test_another_machine_is_not_drift() -> None:
    other = {**GEMM, "sm": 80}
    drift = compare(side({"t.py::a": [MMA]}), side({"t.py::a": [other]}))
    assert (drift.moves, drift.elsewhere, drift.unchanged) == ((), ("t.py::a",), 0)
    both = compare(side({"t.py::a": [MMA, other]}), side({"t.py::a": [{**GEMV, "sm": 80}]}))
    assert [places(move)[1] for move in both.moves] == ["gemv [mma: not K % 128 == 0] -> Gemv"]
    assert compare(side({"t.py::a": [MMA]}, machine="cpu"), side({"t.py::a": [MMA]}, machine="H200")).unchanged == 1


def test_patterns_of_ids_with_brackets() -> None:
    fits = ignored(["t.py::a[*]", "slow/*"])
    assert fits("t.py::a[1-2]")
    assert fits("slow/t.py::b")
    assert not fits("t.py::a")
    assert not fits("t.py::a1")
    assert not ignored([])("")
    drift = compare(side({"t.py::a[x]": [MMA]}), side({"t.py::a[x]": [GEMM]}), ignore=["*a[x]"])
    assert drift == Drift("base")


def test_a_variable_that_the_table_lost_or_got() -> None:
    now = table(('bias = { type = "bool" }\n', ""), (" and not bias", ""))
    fewer = {name: value for name, value in GEMM.items() if name != "bias"}
    assert compare(side({"t.py::a": [GEMM]}), side({"t.py::a": [fewer]}, now)).unchanged == 1
    move = only(compare(side({"t.py::a": [{**fewer, "M": 4}]}, now), side({"t.py::a": [GEMM]})))
    assert places(move) == ("mma -> Mma", "gemm [mma, gemv: not M <= 8] -> Gemm")

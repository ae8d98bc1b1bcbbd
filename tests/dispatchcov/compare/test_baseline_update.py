from __future__ import annotations

from collections.abc import Sequence

from dispatchcov.compare.baseline import Baseline, Entry
from dispatchcov.compare.baseline_update import updated
from dispatchcov.compare.moved import compare, ignored
from dispatchcov.compare.sides import Reached, of_baseline
from tests.dispatchcov.compare.test_moved import GEMM, GEMV, MMA, RAGGED, TABLE, side, table


def base(reached: Reached) -> Baseline:
    return Baseline({op: table.parts for op, table in reached.tables.items()}, reached.entries)


def update(before: Reached, now: Reached, ignore: Sequence[str] = ()) -> Baseline:
    drift = compare(of_baseline("base", base(before)), now, ignore=ignore)
    return updated(base(before), now, drift.gone, ignored(ignore))


def kernels(found: Baseline) -> list[tuple[str, str]]:
    return [(entry.test.removeprefix("t.py::"), entry.kernel) for entry in found.entries]


def test_what_moved_is_replaced_what_is_new_is_added_and_what_is_gone_goes() -> None:
    found = update(
        side({"t.py::a": [MMA], "t.py::b": [GEMM], "t.py::c": [GEMM]}),
        side({"t.py::a": [GEMV, RAGGED], "t.py::b": [GEMM], "t.py::d": [MMA]}),
    )
    assert kernels(found) == [("a", "Gemm"), ("a", "Gemv"), ("b", "Gemm"), ("d", "Mma")]


def test_what_did_not_pass_or_did_not_run_stays() -> None:
    before = side({"t.py::a": [MMA], "t.py::b": [GEMM], "t.py::c": [GEMM], "u.py::d": [GEMM]})
    partial = side({"t.py::a": [GEMV]}, partial=("tests were deselected",))
    assert kernels(update(before, partial)) == [("a", "Gemv"), ("b", "Gemm"), ("c", "Gemm"), ("u.py::d", "Gemm")]
    failed = side(
        {"t.py::a": [GEMV], "t.py::b": [], "t.py::c": [MMA]}, outcomes={"t.py::a": "failed", "t.py::b": "skipped"}
    )
    assert kernels(update(before, failed)) == [("a", "Mma"), ("b", "Gemm"), ("c", "Mma"), ("u.py::d", "Gemm")]


def test_a_second_update_changes_nothing() -> None:
    reached = side({"t.py::a": [MMA, GEMV], "t.py::b": [GEMM]})
    assert update(reached, reached) == base(reached)
    assert not compare(of_baseline("base", update(side({}), reached)), reached).moves


def test_other_hardware_stays() -> None:
    found = update(side({"t.py::a": [MMA]}), side({"t.py::a": [{**GEMM, "sm": 80}]}))
    assert [(dict(e.facts)["sm"], e.kernel) for e in found.entries] == [(80, "Gemm"), (90, "Mma")]


def test_ignored_tests_are_not_kept() -> None:
    reached = side({"t.py::a": [MMA], "t.py::b": [GEMM]})
    assert kernels(update(reached, reached, ["*::b"])) == [("a", "Mma")]


def test_a_test_that_no_longer_dispatches_goes_and_its_table_with_it() -> None:
    assert update(side({"t.py::a": [MMA]}), side({"t.py::a": []})) == Baseline({}, ())


def facts(found: Baseline) -> list[tuple[str, object, bool]]:
    def key(entry: Entry) -> tuple[str, object, bool]:
        return entry.rule, dict(entry.facts)["K"], entry.varies

    return [key(entry) for entry in found.entries]


def test_drawn_inputs_that_are_there_stay_so_that_the_file_is_steady() -> None:
    varies = ("t.py::a",)
    before = side({"t.py::a": [MMA, GEMM]}, varies=varies)
    now = side({"t.py::a": [{**MMA, "K": 256}, GEMV]}, varies=varies)
    found = update(before, now)
    assert facts(found) == [("gemm", 128, True), ("gemv", 32, True), ("mma", 128, True)]
    moved = table(("M <= 8 and K % 128 == 0", "M <= 8 and K % 256 == 0"))
    found = update(before, side({"t.py::a": [GEMM]}, moved, varies=varies))
    assert facts(found) == [("gemm", 128, True), ("gemv", 128, True)]
    assert not compare(of_baseline("base", found), side({"t.py::a": [GEMM]}, moved, varies=varies)).moves


def test_the_table_of_the_run_is_kept() -> None:
    now = table(("M <= 8 and K % 128 == 0", "M <= 32 and K % 128 == 0"))
    before = side({"t.py::a": [MMA], "t.py::b": [{**GEMM, "M": 16}]})
    found = update(before, side({"t.py::a": [MMA]}, now, partial=("tests were deselected",)))
    assert found.tables["demo::mm"].rules[0].when == "M <= 32 and K % 128 == 0"
    again = compare(of_baseline("base", found), side({"t.py::a": [MMA], "t.py::b": [{**GEMM, "M": 16}]}, now))
    (move,) = again.moves
    assert (move.test, move.seen) == ("t.py::b", "mma: K % 128 == 0 is true now (K=128)")
    assert TABLE.rules[0].when == "M <= 8 and K % 128 == 0"

from __future__ import annotations

import datetime

import pytest

from dispatchcov.errors import UsageError
from dispatchcov.gate import SPARED, Limits, Verdict, judge
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data, Shard
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, data, row

TABLE = parse_table(SMALL, source="small.toml")
ALL = [
    row(TABLE, N=4, aligned=True, dtype="float16"),
    row(TABLE, N=4, aligned=True, dtype="float32"),
    row(TABLE, N=3, aligned=True, dtype="float16"),
]


def verdict(records: Data, *, limits: Limits | None = None, today: datetime.date | None = None) -> Verdict:
    return judge(Results.of(records, today=today), limits or Limits())


def test_all_required_partitions_hit() -> None:
    assert verdict(data(TABLE, *ALL)) == Verdict(())


def test_each_missed_bin_is_a_failure() -> None:
    assert verdict(data(TABLE, ALL[0])).failures == (
        "demo::scale: required partition vec4 [dtype=float32] was not hit",
        "demo::scale: required partition ragged was not hit",
    )


def test_hits_that_do_not_count_are_named() -> None:
    (failure,) = verdict(
        data(TABLE, ALL[0], ALL[1], row(TABLE, phase="setup", N=3, aligned=True, dtype="float16"))
    ).failures
    assert failure == "demo::scale: required partition ragged was not hit (not counted: 1 setup)"


def test_no_table_is_no_pass() -> None:
    result = verdict(Data())
    assert not result.ok
    assert result.no_data


@pytest.mark.parametrize("partial", [(), ("interrupted",)])
def test_without_a_table_the_notes_of_the_run_are_told_too(partial: tuple[str, ...]) -> None:
    told = "calls are not observed"
    shard = Shard("a.jsonl", "run", "host", 2, "2026-01-01T00:00:00+00:00", 3, partial, notes=(told,))
    assert told in judge(Results.of(Data(shards=(shard,)))).notes


def test_no_decision_is_no_pass() -> None:
    optional = parse_table(SMALL + "required = false\n").text.replace('cross = ["dtype"]', "required = false")
    result = verdict(data(parse_table(optional)))
    assert result.failures == ("demo::scale: no decision was recorded",)
    assert result.no_data


@pytest.mark.parametrize("reason", ["--gtest_filter left tests out", "sharded: other processes run other tests"])
def test_where_a_runner_starts_a_process_for_some_tests_the_notes_say_how_to_judge_them_together(reason: str) -> None:
    notes = verdict(data(TABLE, ALL[0], partial=(reason,))).notes
    assert "`dispatchcov report --complete` judges them" in notes[1]
    assert not any("--complete" in note for note in verdict(data(TABLE, ALL[0], partial=("interrupted",))).notes)


def test_a_partial_run_is_not_judged_missed_but_what_it_requires_is() -> None:
    records = data(TABLE, ALL[0], partial=("tests were deselected",))
    result = verdict(records, limits=Limits(fail_under=100))
    assert result.partial
    assert (result.failures, result.notes) == ((), (f"partial run (tests were deselected): {SPARED}",))
    (failure,) = verdict(records, limits=Limits(require=("ragged",))).failures
    assert failure == "demo::scale: required partition ragged was not hit"
    assert verdict(records, limits=Limits(require=("vec4",))).failures == (
        "demo::scale: required partition vec4 [dtype=float32] was not hit",
    )


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(
        UsageError, match=r"unknown partition 'raged'; did you mean 'ragged'\? known: vec4, ragged, scalar"
    ):
        verdict(data(TABLE, *ALL), limits=Limits(require=("raged",)))


def test_a_rule_can_be_required_by_name() -> None:
    assert verdict(data(TABLE, *ALL), limits=Limits(require=("scalar",))).ok


@pytest.mark.parametrize(("limit", "ok"), [(66.66, True), (66.67, True), (66.68, False), (100, False)])
def test_fail_under(limit: float, ok: bool) -> None:
    optional = SMALL + "required = true\n"
    table = parse_table(optional)
    records = data(table, *[row(table, N=4, aligned=True, dtype=dtype) for dtype in ("float16", "float32")])
    reasons = [reason for reason in verdict(records, limits=Limits(fail_under=limit)).failures if "covered" in reason]
    assert (not reasons) == ok


def test_fail_under_of_nothing_is_a_failure() -> None:
    table = parse_table(
        SMALL.replace('where = "N % 4 != 0"', "required = false").replace('cross = ["dtype"]', "required = false")
    )
    records = data(table, row(table, N=4, aligned=True, dtype="float16"))
    assert verdict(records).ok
    (failure,) = verdict(records, limits=Limits(fail_under=50)).failures
    assert "nothing was judged" in failure


def test_an_illegal_partition_must_not_be_hit() -> None:
    table = parse_table(SMALL + "illegal = true\n")
    rows = [row(table, N=n, aligned=True, dtype=dtype) for n in (4, 3) for dtype in ("float16", "float32")]
    (failure,) = verdict(data(table, *rows)).failures
    assert failure == "demo::scale: illegal partition ragged was hit by t.py::test"
    assert verdict(data(table, *rows[:2])).ok


def test_a_required_partition_that_no_input_reaches_is_a_failure() -> None:
    table = parse_table(SMALL.replace('where = "N % 4 != 0"', 'where = "N % 4 == 2 and N % 4 == 3"'))
    rows = [row(table, N=4, aligned=True, dtype=dtype) for dtype in ("float16", "float32")]
    (failure,) = verdict(data(table, *rows)).failures
    assert "required partition ragged can be reached by no input, which was proved" in failure


def test_a_mismatch_is_a_failure() -> None:
    (failure,) = verdict(data(TABLE, *ALL, row(TABLE, N=8, aligned=True, dtype="float16", kernel="Scale"))).failures
    assert failure == (
        "demo::scale: kernel mismatch in rule vec4: expected ScaleVec4, got Scale for "
        "N=8 aligned=true dtype=float16 in t.py::test; N % 4 == 0 would have to be false, or aligned would have to "
        "be false"
    )


WAIVED = parse_table(SMALL + '[[waiver]]\npartition = "ragged"\nreason = "later"\nexpires = 2026-06-30\n')


def test_waivers() -> None:
    rows = [row(WAIVED, N=4, aligned=True, dtype=dtype) for dtype in ("float16", "float32")]
    early, late = datetime.date(2026, 6, 1), datetime.date(2026, 8, 1)
    assert verdict(data(WAIVED, *rows), today=early).ok
    assert verdict(data(WAIVED, *rows), today=late).failures == (
        "demo::scale: required partition ragged was not hit",
        "demo::scale: the waiver of ragged expired on 2026-06-30",
    )
    hit = row(WAIVED, N=3, aligned=True, dtype="float16")
    assert verdict(data(WAIVED, *rows, hit), today=early).failures == (
        "demo::scale: the waiver of ragged is not needed any more: it is hit",
    )


@pytest.mark.parametrize(
    ("keys", "covers"),
    [
        ("", True),
        ('rule = "vec4"\n', True),
        ('rule = "scalar"\n', False),
        ('kernel = "void oth*"\n', True),
        ('kernel = "other"\n', False),
        ('rule = "vec4"\nkernel = "void other()"\n', True),
    ],
)
def test_a_mismatch_fails_nothing_while_it_is_waived(keys: str, covers: bool) -> None:
    waiver = f'[[waiver]]\nmismatch = "kernel"\n{keys}reason = "issue 7"\nexpires = 2026-06-30\n'
    table = parse_table(SMALL + waiver)
    rows = [row(table, N=n, aligned=True, dtype=d) for n, d in ((4, "float16"), (4, "float32"), (3, "float16"))]
    records = data(table, *rows, row(table, N=8, aligned=True, dtype="float16", kernel="void other()"))
    mismatch = (
        "kernel mismatch in rule vec4: expected ScaleVec4, got void other() for "
        "N=8 aligned=true dtype=float16 in t.py::test"
    )
    early = verdict(records, today=datetime.date(2026, 6, 30))
    late = verdict(records, today=datetime.date(2026, 7, 1))
    assert late.failures == (f"demo::scale: {mismatch}", f"demo::scale: {table.waivers[0]} expired on 2026-06-30")
    assert late.notes == ()
    assert early.ok == covers
    if covers:
        assert early.notes == (f"demo::scale: waived, issue 7 (until 2026-06-30): {mismatch}",)
    (vec4,) = [item for item in Results.of(records).tables[0].partitions if item.detail == "dtype=float16"]
    assert (vec4.reach.hits, vec4.reach.apart) == (1, (("with another kernel", 1),))


def test_a_waiver_of_another_kind_of_mismatch_covers_nothing() -> None:
    table = parse_table(SMALL + '[[waiver]]\nmismatch = "domain"\nreason = "x"\nexpires = 2026-06-30\n')
    rows = [row(table, N=n, aligned=True, dtype=d) for n, d in ((4, "float16"), (4, "float32"), (3, "float16"))]
    records = data(table, *rows, row(table, N=8, aligned=True, dtype="float16", kernel="Scale"))
    assert not verdict(records, today=datetime.date(2026, 6, 1)).ok


def test_damaged_records_are_a_failure() -> None:
    records = data(TABLE, *ALL)
    bad = Shard("bad.jsonl", "run", "host", 2, "2026-01-01T00:00:00+00:00", 3, problems=("line 3: not JSON",))
    result = verdict(Data(records.tables, (*records.shards, bad), records.rows, records.outcomes))
    assert result.failures == ("records are damaged: bad.jsonl: line 3: not JSON",)


@pytest.mark.parametrize("partial", [(), ("interrupted",)])
def test_damaged_records_without_a_table_are_a_failure(partial: tuple[str, ...]) -> None:
    bad = Shard("bad.jsonl", "run", "host", 2, "2026-01-01T00:00:00+00:00", 3, partial, problems=("line 2: not JSON",))
    assert "records are damaged: bad.jsonl: line 2: not JSON" in verdict(Data(shards=(bad,))).failures

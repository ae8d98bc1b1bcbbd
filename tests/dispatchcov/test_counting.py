from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dispatchcov import decide, generate, store
from dispatchcov.errors import FactsError
from dispatchcov.files.shard import SLOTS
from dispatchcov.generate import MAX_REMEMBERED
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import OBSERVED, RecordedDecision, Recorder
from dispatchcov.recording import checked, record
from dispatchcov.table import Table
from tests.dispatchcov.recording import TEXT, demo, facts, recorded, totals


def test_decisions_are_counted_by_test_phase_and_vector(data_file: str) -> None:
    table = demo()
    with Recorder(data_file, run="r1") as recorder:
        table.decide(**facts(N=4))
        recorder.enter("t.py::a", "setup")
        table.decide(**facts(N=8))
        recorder.enter("t.py::a", "call")
        for n in (8, 12, 4, 7, 8):
            with table.decide(**facts(N=n)).launch():
                pass
        checked()
        recorder.enter("t.py::a", "teardown")
        recorder.outcome("t.py::a", "passed")
        recorder.partial("interrupted")
    data = recorded(data_file)
    assert totals(data.rows) == {
        ("", "run"): (1, 0, 0, 0),
        ("t.py::a", "setup"): (1, 0, 0, 0),
        ("t.py::a", "call"): (5, 5, 0, 5),
    }
    wide, narrow = [row for row in data.rows if row.phase == "call"]
    assert (wide.selected, narrow.selected) == (4, 1)
    assert wide.inputs == ((8, True, "float16", 90), (4, True, "float16", 90), (12, True, "float16", 90))
    assert (wide.hardware, wide.kernel, wide.machine) == ((90,), "", decide.DEFAULT_MACHINE)
    assert decide.select(table, wide.vector) == 0
    assert decide.select(table, narrow.vector) == 1
    assert [(o.test, o.outcome) for o in data.outcomes] == [("t.py::a", "passed")]
    (shard,) = data.shards
    assert (shard.run, shard.partial, shard.ended) == ("r1", ("interrupted",), True)
    assert [(t.op, t.digest, t.text) for t in data.tables] == [(table.op, table.digest, TEXT)]


def test_a_context_entered_twice_gives_one_row(data_file: str) -> None:
    table = demo()
    with Recorder(data_file) as recorder:
        for n in (8, 80, 4):
            recorder.enter("t", "call")
            table.decide(**facts(N=n))
            recorder.enter("", "session")
    (row,) = recorded(data_file).rows
    assert (row.selected, row.finished) == (3, True)
    assert [values[0] for values in row.inputs] == [8, 4, 80]


def test_a_failing_launch_attests_nothing(data_file: str) -> None:
    with Recorder(data_file), pytest.raises(ZeroDivisionError), demo().decide(**facts()).launch():
        raise ZeroDivisionError
    assert totals(recorded(data_file).rows) == {("", "run"): (1, 0, 0, 0)}


def test_checked_counts_the_decisions_before_it_only(data_file: str) -> None:
    table = demo()
    with Recorder(data_file):
        table.decide(**facts())
        checked()
        checked()
        table.decide(**facts())
    assert totals(recorded(data_file).rows) == {("", "run"): (2, 0, 0, 1)}


@pytest.mark.parametrize("file", [True, False])
def test_a_launch_that_returns_after_its_test_counts_for_the_test_that_is_on(data_file: str, file: bool) -> None:
    table = demo()
    with Recorder(data_file if file else None) as recorder:
        recorder.enter("a", "call")
        decision = table.decide(**facts())
        launch = decision.launch()
        launch.__enter__()
        recorder.enter("b", "call")
        launch.__exit__(None, None, None)
        assert isinstance(decision, RecordedDecision)
        recorder.attest(decision, OBSERVED)
        assert decision.counts == (0, 1, 1, 0)
        if file:
            assert totals(recorded(data_file).rows)["b", "call"] == (0, 1, 1, 0)
        recorder.enter("", "session")
        assert decision.counts == (0, 1, 1, 0)
    if file:
        assert totals(recorded(data_file).rows) == {("a", "call"): (1, 0, 0, 0), ("b", "call"): (0, 1, 1, 0)}


def test_a_cell_is_checked_again_after_it_was_checked(data_file: str) -> None:
    table = demo()
    with Recorder(data_file):
        for _ in range(3):
            for _ in range(4):
                table.decide(**facts())
            checked()
        table.decide(**facts())
    assert totals(recorded(data_file).rows) == {("", "run"): (13, 0, 0, 12)}


def test_decisions_are_listed_from_the_moment_on_that_someone_asks(data_file: str) -> None:
    table = demo()
    decisions: list[decide.Decision] = []
    with Recorder(data_file) as recorder:
        for _ in range(4):
            table.decide(**facts())
        recorder.list_in(decisions)
        for n in (8, 16, 8):
            table.decide(**facts(N=n))
        recorder.enter("t", "call")
        table.decide(**facts())
    assert [decision.facts for decision in decisions] == [facts(), facts(N=16), facts()]


@pytest.mark.parametrize("alone", [True, False], ids=["without a lock", "under the lock"])
def test_known_facts_do_not_reach_the_recorder(data_file: str, monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    monkeypatch.setattr(generate, "ONE_AT_A_TIME", alone)
    noted = []
    note = Recorder.note

    def noting(recorder: Recorder, view: decide.View, values: tuple[Any, ...]) -> RecordedDecision:
        noted.append(values)
        return note(recorder, view, values)

    monkeypatch.setattr(Recorder, "note", noting)
    table = demo()
    with Recorder(data_file):
        for n in (400, 4, 1000, 8, 8, 2000, 2000, 12):
            table.decide(**facts(N=n))
    new = [400, 4, 1000, 8, 2000, 12]
    # 8 and 12 are inside the bounds, but their predicates have not been evaluated before
    assert [values[0] for values in noted] == (new if alone else [400, 4, 1000, 8, 8, 2000, 2000, 12])
    assert sum(row.selected for row in recorded(data_file).rows) == 8
    inputs = {values[0] for row in recorded(data_file).rows for values in row.inputs}
    assert inputs == {400, 4, 1000, 2000}


def test_a_launch_that_returns_after_the_recorder_stopped_is_not_counted(data_file: str) -> None:
    with Recorder(data_file):
        decision = demo().decide(**facts())
    with decision.launch():
        pass
    with Recorder(data_file), decision.launch():
        pass
    assert totals(recorded(data_file).rows) == {("", "run"): (1, 0, 0, 0)}


def test_more_different_facts_than_are_remembered(data_file: str) -> None:
    table = demo()
    numbers = range(0, 4 * (MAX_REMEMBERED + 1000), 4)
    with Recorder(data_file):
        for n in (*numbers, *numbers):
            table.decide(**facts(N=n))
    rows = {row.inputs: row.selected for row in recorded(data_file).rows}
    small = ((0, True, "float16", 90), (1020, True, "float16", 90))
    large = ((1024, True, "float16", 90), (numbers[-1], True, "float16", 90))
    assert rows == {small: 2 * 256, large: 2 * (len(numbers) - 256)}


def test_more_cells_than_slots_in_one_context(data_file: str) -> None:
    table = demo()
    kinds = 2 * SLOTS + 5
    with Recorder(data_file) as recorder:
        for _ in range(2):
            for sm in range(kinds):
                table.decide(**facts(sm=sm))
        assert recorder.shard is not None
        assert recorder.shard.mapped
        recorder.enter("after", "call")
        table.decide(**facts())
    rows = recorded(data_file).rows
    assert len(rows) == kinds + 1
    assert {row.selected for row in rows if not row.test} == {2}
    assert {row.hardware for row in rows if not row.test} == {(sm,) for sm in range(kinds)}


def test_what_kernels_took_adds_up_by_row(data_file: str) -> None:
    table = demo()
    with Recorder(data_file) as recorder:
        recorder.enter("t", "call")
        wide, rest = table.decide(**facts()), table.decide(**facts(N=3))
        assert isinstance(wide, RecordedDecision)
        assert isinstance(rest, RecordedDecision)
        recorder.took([(wide, 1000), (wide, 500), (rest, 7)])
        recorder.took([(wide, 30)])
        in_progress = {row.inputs[0][0]: row.nanoseconds for row in store.load(data_file).rows}
        recorder.enter("t", "call")
        table.decide(**facts())
    assert in_progress == {8: 1530, 3: 7}
    data = recorded(data_file)
    assert {row.inputs[0][0]: (row.selected, row.nanoseconds) for row in data.rows} == {8: (2, 1530), 3: (1, 7)}
    store.combine(data_file, remove=True)
    assert store.load(data_file).rows == data.rows


def test_facts_that_someone_wants_are_kept_besides_the_extreme_ones(data_file: str) -> None:
    asked = []

    def keep(table: Table) -> Callable[..., list[Any]]:
        def odd(kept: list[Any], others: list[Any]) -> list[Any]:
            asked.append((table.op, [values[0] for values in kept], [values[0] for values in others]))
            return [values for values in others if values[0] % 3 == 0]

        return odd

    table = demo()
    with Recorder(data_file, keep=keep) as recorder:
        recorder.enter("t", "call")
        for n in (40, 4, 400, 12, 20, 24, 12):
            table.decide(**facts(N=n))
        recorder.enter("few", "call")
        table.decide(**facts(N=40))
        table.decide(**facts(N=44))
        recorder.enter("many", "call")
        for n in range(4, 404, 4):
            table.decide(**facts(N=n))
    kept = {row.test: [values[0] for values in row.inputs] for row in recorded(data_file).rows}
    assert kept["t"] == [40, 4, 400, 12, 24]
    assert kept["few"] == [40, 44]
    assert kept["many"] == [4, 400, *range(12, 4 * 16 + 1, 12)]  # of the first 16
    assert asked[0] == ("demo::record", [40, 4, 400], [12, 20, 24])
    assert len(asked) == 2  # where all facts are kept anyway nothing is asked


# --- what is decided elsewhere, and facts that do not fit -------------------------------------------------------------


def test_record_keeps_what_other_code_says_it_ran(data_file: str) -> None:
    table = demo()
    assert record(table, facts(), kernel="Wide") is None
    with Recorder(data_file) as recorder:
        recorder.enter("t", "call")
        first = record(table, facts(N=8), kernel="Narrow", machine="NVIDIA H200")
        record(table, facts(N=16), kernel="Narrow", machine="NVIDIA H200")
        record(table, facts(N=8), kernel="Wide")
        table.decide(**facts(N=8))
        assert first is not None
        assert (first.rule, first.kernel, first.machine) == ("wide", "Narrow", "NVIDIA H200")
    counted = {(row.kernel, row.machine): (row.selected, row.launched) for row in recorded(data_file).rows}
    assert counted == {
        ("Narrow", "NVIDIA H200"): (2, 2),
        ("Wide", decide.DEFAULT_MACHINE): (1, 1),
        ("", decide.DEFAULT_MACHINE): (1, 0),
    }


@pytest.mark.parametrize("kernel", ["", None, 3])
def test_record_needs_a_kernel(kernel: Any) -> None:
    with pytest.raises(FactsError, match="expected the name of the kernel that ran, got"):
        record(demo(), facts(), kernel=kernel)


def test_record_checks_the_facts(data_file: str) -> None:
    with Recorder(data_file), pytest.raises(FactsError, match=r"unknown variable 'M'"):
        record(demo(), {"M": 3}, kernel="Wide")
    assert recorded(data_file).rows == ()


def test_facts_outside_the_domain_are_recorded_as_such(data_file: str) -> None:
    table = demo()
    with Recorder(data_file):
        assert table.decide(**facts(N=-4)).rule == "wide"
        table.decide(**facts(N=4))
    outside = {row.inputs[0][0]: decide.outside(table, row.vector) for row in recorded(data_file).rows}
    assert outside == {-4: True, 4: False}


def test_an_input_that_no_rule_takes_is_recorded_and_raises(data_file: str) -> None:
    table = parse_table(TEXT.replace('name = "rest"\n', 'name = "rest"\nwhen = "aligned"\n'))
    with Recorder(data_file):
        for _ in range(2):
            with pytest.raises(FactsError, match="no rule takes N=3"):
                table.decide(**facts(N=3, aligned=False))
        assert table.decide(**facts(N=3)).rule == "rest"
    rows = recorded(data_file).rows
    assert [(decide.select(table, row.vector), row.selected) for row in rows] == [(None, 2), (1, 1)]


@pytest.mark.parametrize("wrong", [{"N": "8"}, {"N": None}, {"N": 8.5}, {"N": [8]}, {"aligned": 1}, {"dtype": 16}])
def test_facts_of_a_wrong_type_are_refused_and_nothing_wrong_is_written(data_file: str, wrong: dict[str, Any]) -> None:
    table = demo()
    with Recorder(data_file), pytest.raises(FactsError, match=r"expected \w+ to be "):
        table.decide(**(facts() | wrong))
    assert store.load(data_file).rows == ()


def test_a_float_among_integers_never_reaches_the_file(data_file: str) -> None:
    table = demo()
    with Recorder(data_file):
        table.decide(**facts(N=8))
        with pytest.raises(FactsError, match="expected N to be an integer"):
            table.decide(**facts(N=100.0))  # type: ignore[arg-type]
    (row,) = recorded(data_file).rows
    assert row.inputs == ((8, True, "float16", 90),)


class Symbolic:
    """An integer as tracers have them: it has a value but no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_integers_without_a_hash_are_counted_by_their_value(data_file: str) -> None:
    table = demo()
    with Recorder(data_file):
        for n in (8, 12):
            table.decide(**facts(N=Symbolic(n)))  # type: ignore[arg-type]
        table.decide(**facts(N=8))
    (row,) = recorded(data_file).rows
    assert (row.selected, [values[0] for values in row.inputs]) == (3, [8, 12])


def test_numpy_values_are_written_as_plain_ones(data_file: str) -> None:
    numpy = pytest.importorskip("numpy")
    with Recorder(data_file):
        demo().decide(N=numpy.int64(8), aligned=numpy.bool_(True), dtype=numpy.str_("float16"), sm=numpy.int32(90))
    (row,) = recorded(data_file).rows
    assert row.inputs == ((8, True, "float16", 90),)
    assert list(map(type, row.inputs[0])) == [int, bool, str, int]

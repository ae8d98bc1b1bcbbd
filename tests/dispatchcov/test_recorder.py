from __future__ import annotations

import errno
import gc
import json
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dispatchcov import decide, generate, store
from dispatchcov.cells import Cell
from dispatchcov.errors import DataError, FactsError, UsageError
from dispatchcov.files.shard import COUNTS, SLOTS, WIDTH
from dispatchcov.files.shard_read import read_shard
from dispatchcov.generate import MAX_REMEMBERED
from dispatchcov.journal import Journal
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import OBSERVED, RecordedDecision, Recorder, active
from dispatchcov.recording import checked, record
from dispatchcov.table import Table
from tests.dispatchcov.recording import TEXT, demo, facts, recorded, run_script, totals


@pytest.fixture
def data_file(tmp_path: Path) -> str:
    return str(tmp_path / ".dispatchcov")


@pytest.fixture(autouse=True)
def _nothing_left_on() -> Iterator[None]:
    before = decide.active()
    yield
    assert decide.active() is before
    assert not Recorder(None).lock._is_owned()  # type: ignore[attr-defined]  # the next thread would wait for ever


# --- counting ---------------------------------------------------------------------------------------------------------


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


# --- recorders on and off ---------------------------------------------------------------------------------------------


def test_a_recorder_inside_another_takes_its_place(data_file: str, tmp_path: Path) -> None:
    table = demo()
    inner_file = str(tmp_path / "inner")
    with Recorder(data_file) as outer:
        outer.enter("t", "call")
        before = table.decide(**facts())
        with Recorder(inner_file):
            table.decide(**facts())
            with before.launch():
                pass
        table.decide(**facts())
    assert totals(recorded(data_file).rows) == {("t", "call"): (2, 1, 0, 0)}
    assert totals(recorded(inner_file).rows) == {("", "run"): (1, 0, 0, 0)}


def test_recorders_stopped_out_of_order(data_file: str, tmp_path: Path) -> None:
    table = demo()
    inner_file = str(tmp_path / "inner")
    outer, inner = Recorder(data_file).start(), Recorder(inner_file).start()
    table.decide(**facts())
    outer.stop()
    table.decide(**facts())
    inner.stop()
    assert active() is None
    assert type(table.decide(**facts())) is decide.Decision
    assert totals(recorded(inner_file).rows) == {("", "run"): (2, 0, 0, 0)}
    assert recorded(data_file).rows == ()


def test_a_recorder_starts_once_and_again_after_it_stopped(data_file: str) -> None:
    table = demo()
    recorder = Recorder(data_file).start()
    with pytest.raises(UsageError, match="expected a recorder that is off"):
        recorder.start()
    table.decide(**facts())
    recorder.stop()
    recorder.stop()
    with recorder:
        table.decide(**facts())
    data = recorded(data_file)
    assert len(data.shards) == 2
    assert totals(data.rows) == {("", "run"): (2, 0, 0, 0)}


def test_a_decision_that_comes_late_is_decided_but_not_written(data_file: str) -> None:
    table = demo()
    with Recorder(data_file) as recorder:
        late: Callable[..., Any] = table.on("m").decide.__globals__["_record"]
    assert late(8, True, "float16", 90).rule == "wide"
    assert recorded(data_file).rows == ()
    assert len(store.shards_beside(data_file)) == 1
    assert recorder.lost == ""


def test_memory_does_not_grow_with_decisions_tests_and_facts() -> None:
    table = demo()
    with Recorder(None) as recorder:
        view = table.on("m")

        def work(tests: range) -> int:
            for test in tests:
                recorder.enter(f"t{test}", "call")
                for n in range(0, 6000, 8):
                    view.decide(**facts(N=n + test))
            recorder.enter("", "session")
            gc.collect()
            return len(gc.get_objects())

        first = work(range(4))
        assert work(range(4, 24)) - first < 300


# --- threads and processes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [True, False], ids=["without a lock", "under the lock"])
def test_threads_count_exactly(data_file: str, monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    monkeypatch.setattr(generate, "ONE_AT_A_TIME", alone)
    table = demo()
    threads, each = 8, 4000
    interval = sys.getswitchinterval()

    def work(seed: int) -> None:
        for i in range(each):
            decision = table.decide(**facts(N=(i * 7 + seed) % 9000, aligned=i % 3 == 0, sm=80 + seed % 2))
            if i % 2:
                with decision.launch():
                    pass

    sys.setswitchinterval(1e-5)
    try:
        with Recorder(data_file) as recorder:
            workers = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
            for worker in workers:
                worker.start()
            tests = 0
            while any(worker.is_alive() for worker in workers):
                recorder.enter(f"t{tests}", "call")
                tests += 1
    finally:
        sys.setswitchinterval(interval)
    rows = recorded(data_file).rows
    assert sum(row.selected for row in rows) == threads * each
    assert sum(row.launched for row in rows) == threads * each // 2
    table_rule: Counter[int | None] = Counter()
    for row in rows:
        table_rule[decide.select(table, row.vector)] += row.selected
    wide = sum((i * 7 + seed) % 9000 % 4 == 0 and i % 3 == 0 for seed in range(threads) for i in range(each))
    assert table_rule == {0: wide, 1: threads * each - wide}
    assert tests > 1


@pytest.mark.parametrize("file", [True, False], ids=["mapped", "in memory"])
def test_a_decision_while_the_array_grows_is_counted(
    data_file: str, monkeypatch: pytest.MonkeyPatch, file: bool
) -> None:
    """Another thread decides after the array has been replaced and before the recorder lets go of its lock."""
    table = demo()
    grown, decided = threading.Event(), threading.Event()
    place = Journal.place

    def slow(journal: Journal, cell: Cell) -> None:
        before = len(journal.counts)
        place(journal, cell)
        if len(journal.counts) != before and not grown.is_set():
            grown.set()
            decided.wait(0.3)

    def work() -> None:
        grown.wait()
        table.decide(**facts())
        decided.set()

    monkeypatch.setattr(Journal, "place", slow)
    with Recorder(data_file if file else None) as recorder:
        worker = threading.Thread(target=work)
        worker.start()
        for sm in range(90, 91 + SLOTS):
            table.decide(**facts(sm=sm))
        table.decide(**facts())
        grown.set()
        worker.join()
        kept = {cell.hardware[0]: recorder.counts[cell.slot] for cell in recorder.context.cells}
    assert kept == {**dict.fromkeys(range(91, 91 + SLOTS), 1), 90: 3}


def test_two_recorders_in_two_threads_do_not_mix(data_file: str, tmp_path: Path) -> None:
    """The views are shared: a late launch of one recorder must not lead the other to its cells."""
    table = demo()
    other_file = str(tmp_path / "other")
    outer = Recorder(data_file).start()
    outer.enter("a", "call")
    decision = table.decide(**facts())
    outer.enter("b", "call")
    stop = threading.Event()
    late = 0

    def launch() -> None:
        nonlocal late
        while not stop.is_set() or not late:
            outer.enter("b", "call")
            with decision.launch():
                pass
            late += 1

    with Recorder(other_file):
        worker = threading.Thread(target=launch)
        worker.start()
        for n in range(20000):
            table.decide(**facts(N=n % 50))
        stop.set()
        worker.join()
    outer.stop()
    assert totals(recorded(other_file).rows) == {("", "run"): (20000, 0, 0, 0)}
    assert totals(recorded(data_file).rows) == {("a", "call"): (1, 0, 0, 0), ("b", "call"): (0, late, 0, 0)}


FORK = """
table = demo()
os.chdir(sys.argv[1])
with Recorder(".dispatchcov", run="r") as recorder:
    recorder.enter("t", "call")
    for _ in range(4):
        table.decide(**facts())
    kept = table.decide(**facts(N=3))
    os.mkdir("elsewhere")
    os.chdir("elsewhere")
    idle = os.fork()
    if idle == 0:
        os._exit(0)
    os.waitpid(idle, 0)
    with table.decide(**facts()).launch():
        child = os.fork()
    if child == 0:
        for _ in range(5):
            table.decide(**facts())
        with kept.launch():
            pass
        table.decide(**facts(aligned=False))
        grandchild = os.fork()
        if grandchild == 0:
            table.decide(**facts(N=3))
            recorder.enter("u", "call")
            table.decide(**facts(N=3))
            recorder.stop()
            os._exit(0)
        os.waitpid(grandchild, 0)
        os._exit(0)
    os.waitpid(child, 0)
    table.decide(**facts())
"""


def test_a_forked_child_counts_for_itself(tmp_path: Path) -> None:
    """The child enters the test of the parent, in a shard of its own; what was counted before the fork counts once."""
    run_script(FORK, tmp_path)
    assert not list((tmp_path / "elsewhere").iterdir())
    data = recorded(tmp_path / ".dispatchcov")
    assert {shard.run for shard in data.shards} == {"r"}
    found = {}
    for shard in data.shards:
        rows = [row for row in data.rows if row.shard == shard.name]
        finished = {row.finished for row in rows}
        found[shard.ended, len({row.test for row in rows})] = (finished, [row[8:12] for row in rows])
    assert found == {
        (True, 1): ({True}, [(6, 1, 0, 0), (1, 0, 0, 0)]),
        # The launch that it was born in, and that of a decision which the parent took:
        (False, 1): ({False}, [(5, 1, 0, 0), (0, 1, 0, 0), (1, 0, 0, 0)]),
        (True, 2): ({True}, [(1, 0, 0, 0), (1, 0, 0, 0)]),
    }


FORK_UNDER_THREADS = """
table = demo()
stop = threading.Event()
done = [0] * 4
def work(i):
    while not stop.is_set():
        table.decide(**facts(N=i))
        done[i] += 1
with Recorder(sys.argv[1]) as recorder:
    recorder.enter("t", "call")
    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    children = []
    for _ in range(20):
        child = os.fork()
        if child == 0:
            for n in range(50):
                table.decide(**facts(N=n))
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for worker in workers:
        worker.join()
print(sum(done))
"""


def test_forks_while_threads_decide(data_file: str) -> None:
    done = int(run_script("import warnings\nwarnings.simplefilter('ignore')\n" + FORK_UNDER_THREADS, data_file))
    data = recorded(data_file)
    assert len(data.shards) == 21
    assert totals(row for row in data.rows if row.finished) == {("t", "call"): (done, 0, 0, 0)}
    assert totals(row for row in data.rows if not row.finished) == {("t", "call"): (20 * 50, 0, 0, 0)}


DIE = """
table = demo()
recorder = Recorder(sys.argv[1]).start()
for test in range(3):
    recorder.enter(f"t{test}", "call")
    for n in range(100 + test):
        with table.decide(**facts(N=n)).launch():
            pass
    recorder.enter(f"t{test}", "teardown")
    recorder.outcome(f"t{test}", "passed")
recorder.enter("last", "call")
for n in range(1234):
    table.decide(**facts(N=n, sm=n % 5))
checked()
table.decide(**facts())
if sys.argv[2] == "exit":
    os._exit(9)
if sys.argv[2] == "fault":
    import ctypes, resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("how", "status"), [("exit", 9), ("kill", -signal.SIGKILL), ("fault", -signal.SIGSEGV)])
def test_a_process_that_dies_leaves_exact_counts(data_file: str, how: str, status: int) -> None:
    run_script(DIE, data_file, how, status=status)
    data = recorded(data_file)
    expected = {(f"t{test}", "call"): (100 + test, 100 + test, 0, 0) for test in range(3)}
    assert totals(row for row in data.rows if row.finished) == expected
    assert totals(row for row in data.rows if not row.finished) == {("last", "call"): (1235, 0, 0, 1234)}
    assert [o.outcome for o in data.outcomes] == ["passed"] * 3
    assert [shard.ended for shard in data.shards] == [False]


KILL_AT_RANDOM = """
import mmap, struct
table = demo()
def child(path, progress):
    recorder = Recorder(path).start()
    rnd = random.Random(path)
    for test in range(100000):
        recorder.enter(f"t{test}", "call")
        size = rnd.choice((1, 2, 30, 300))
        for n in range(size):
            progress[16:24] = struct.pack("q", n + 1)
            table.decide(**facts(N=n, sm=n % 7))
            progress[8:16] = struct.pack("q", n + 1)
        recorder.enter(f"t{test}", "teardown")
        recorder.outcome(f"t{test}", str(size))
        progress[:24] = struct.pack("3q", test + 1, 0, 0)
report = []
for number in range(int(sys.argv[2])):
    path = os.path.join(sys.argv[1], f"run{number}")
    progress = mmap.mmap(-1, 24)
    pid = os.fork()
    if pid == 0:
        child(path, progress)
    # A kill at any time of a fast machine, or soon after some tests, however slow the machine is.
    goal = random.choice((0, 0, 1, 2, 5, 9))
    deadline = time.monotonic() + 60
    while struct.unpack("q", progress[:8])[0] < goal and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(random.uniform(0, 0.005 if goal else 0.05))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    report.append((path, goal, *struct.unpack("3q", progress[:24])))
print(json.dumps(report))
"""


def test_killed_at_random_points_no_finished_test_is_lost(tmp_path: Path) -> None:
    report = json.loads(run_script(KILL_AT_RANDOM, tmp_path, 200))
    for path, goal, tests, done, started in report:
        assert tests >= goal
        if not any(os.path.getsize(shard) for shard in store.shards_beside(path)):
            assert tests == done == 0
            continue
        data = recorded(path)
        sizes = {f"t{i}": 0 for i in range(tests)}
        sizes |= {o.test: int(o.outcome) for o in data.outcomes if o.test in sizes}
        assert 0 not in sizes.values()
        counted = {test: selected for (test, _), (selected, *_) in totals(data.rows).items()}
        assert {test: counted.get(test) for test in sizes} == sizes
        assert all(row.finished for row in data.rows if row.test in sizes)
        left = counted.get(f"t{tests}", 0)
        assert done <= left <= max(started, 300 if not done and not started else 0)


def at_each_line(action: Callable[[], object], visit: Callable[[], None]) -> None:
    """Call ``visit`` before each line of recorder and shard that ``action`` runs."""
    files = {sys.modules[f"dispatchcov.{name}"].__file__ for name in ("cells", "files.shard", "journal", "recorder")}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            visit()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)


def test_killed_at_any_line_between_two_tests_counts_stay_exact(data_file: str, tmp_path: Path) -> None:
    """What a kill would leave, copied before each line that ends a test and uses its slots again for the next."""
    table = demo()
    seen = []
    with Recorder(data_file) as recorder:
        assert recorder.shard is not None
        path = recorder.shard.path
        copy = tmp_path / "copy.jsonl"

        def visit() -> None:
            shutil.copy(path, copy)
            with open(path + COUNTS, "rb") as array:
                (tmp_path / (os.path.basename(path) + COUNTS)).write_bytes(array.read())
            data = read_shard(copy)
            assert [shard.problems for shard in data.shards] == [()]
            seen.append({row.test: row.selected for row in data.rows})

        (tmp_path / "copies").mkdir()
        copy = tmp_path / "copies" / "copy.jsonl"
        tmp_path = tmp_path / "copies"
        recorder.enter("a", "call")
        for _ in range(7):
            table.decide(**facts())
        slot = recorder.context.cells[0].slot
        at_each_line(lambda: recorder.enter("b", "call"), visit)
        at_each_line(lambda: table.decide(**facts(N=3)), visit)
        assert recorder.context.cells[0].slot == slot
        for _ in range(2):
            table.decide(**facts(N=3))
        visit()
    assert len(seen) > 60
    assert {counted["a"] for counted in seen} == {7}
    assert [counted.get("b") for counted in seen if counted.get("b") != 1][-1] == 3
    assert {counted.get("b") for counted in seen} == {None, 1, 3}


def test_interrupted_at_any_line_between_two_tests_nothing_is_lost(data_file: str) -> None:
    """Ctrl-C and time-outs raise anywhere; the recorder goes on, and every count is written once, under its test."""
    table = demo()
    lines = 0

    class Interrupt(BaseException):
        pass

    def scenario(at: int) -> dict[tuple[str, str], tuple[int, int, int, int]]:
        path = f"{data_file}{at}"
        count = 0

        def visit() -> None:
            nonlocal count, lines
            count += 1
            lines = max(lines, count)
            if count == at:
                raise Interrupt

        with Recorder(path) as recorder:
            for test in ("a", "b", "c"):
                try:
                    at_each_line(lambda test=test: recorder.enter(test, "call"), visit)  # type: ignore[misc]
                except Interrupt:
                    # A tracer can raise as a "with" is left, before the lock is released; a signal cannot.
                    while recorder.lock._is_owned():  # type: ignore[attr-defined]
                        recorder.lock.release()
                    recorder.enter(test, "call")
                table.decide(**facts())
                table.decide(**facts(N=5))
                table.decide(**facts())
        return totals(recorded(path).rows)

    expected = {(test, "call"): (3, 0, 0, 0) for test in "abc"}
    assert scenario(0) == expected
    for at in range(1, lines + 1):
        assert scenario(at) == expected, at
    assert lines > 60


# --- when the disk is full or the place cannot be written -------------------------------------------------------------


def test_a_place_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"expected to write records into .*file: Not a directory"):
        Recorder(str(tmp_path / "file" / "data")).start()
    with pytest.raises(DataError, match=r"expected to write records into .*none: No such file or directory"):
        Recorder(str(tmp_path / "none" / "data")).start()
    assert active() is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_an_error_at_the_start(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(DataError, match="Permission denied"):
            Recorder(str(tmp_path / "data")).start()
    finally:
        tmp_path.chmod(0o755)


def test_a_full_disk_that_recovers_loses_nothing(data_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = demo()
    real = os.write
    room = [None]

    def write(fd: int, data: bytes) -> int:
        if room[0] is None:
            return real(fd, data)
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    with Recorder(data_file) as recorder:
        recorder.enter("before", "call")
        table.decide(**facts())
        room[0] = 30  # type: ignore[call-overload]  # a line is cut in the middle
        for test in range(50):
            recorder.enter(f"full{test}", "call")
            for n in range(test + 1):
                with table.decide(**facts(N=n)).launch():
                    pass
            recorder.outcome(f"full{test}", "passed")
        assert "No space left on device" in recorder.lost
        room[0] = None
        recorder.enter("after", "call")
        table.decide(**facts())
        assert recorder.lost == ""
        assert len(recorder.journal.free) > SLOTS - 3
    expected = {(f"full{test}", "call"): (test + 1, test + 1, 0, 0) for test in range(50)}
    expected |= {("before", "call"): (1, 0, 0, 0), ("after", "call"): (1, 0, 0, 0)}
    data = recorded(data_file)
    assert totals(data.rows) == expected
    assert len(data.outcomes) == 50
    assert all(row.finished for row in data.rows)


FULL = """
import resource
table = demo()
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
recorder = Recorder(sys.argv[1]).start()
recorder.enter("before", "call")
for _ in range(5):
    table.decide(**facts())
size = os.path.getsize(recorder.shard.path)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
for _ in range(5):
    table.decide(**facts())
recorder.enter("during", "call")
for _ in range(5):
    table.decide(**facts())
assert "File too large" in recorder.lost, recorder.lost
if sys.argv[2] == "recovers":
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    recorder.outcome("during", "passed")
    assert not recorder.lost
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("then", ["stays", "recovers"])
def test_killed_on_a_full_disk_the_array_still_has_the_counts(data_file: str, then: str) -> None:
    run_script(FULL, data_file, then, status=-signal.SIGKILL)
    found = totals(recorded(data_file).rows)
    if then == "stays":  # of "during" not even its name could be written
        assert found == {("before", "call"): (10, 0, 0, 0)}
    else:
        assert found == {("before", "call"): (10, 0, 0, 0), ("during", "call"): (5, 0, 0, 0)}


def test_what_never_could_be_written_is_said(data_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    recorder = Recorder(data_file).start()
    demo().decide(**facts())
    monkeypatch.setattr(os, "write", write)
    recorder.stop()
    monkeypatch.undo()
    assert recorder.lost == "records could not be written: [Errno 28] No space left on device"
    (row,) = recorded(data_file).rows
    assert (row.selected, row.finished) == (1, False)


CHILD_WITHOUT_A_PLACE = """
import shutil
table = demo()
path = os.path.join(sys.argv[1], "sub", "data")
os.mkdir(os.path.dirname(path))
recorder = Recorder(path).start()
recorder.enter("t", "call")
shutil.rmtree(os.path.dirname(path))
child = os.fork()
if child == 0:
    table.decide(**facts())
    table.decide(**facts())
    assert "No such file" in recorder.lost, recorder.lost
    os.mkdir(os.path.dirname(path))
    recorder.enter("t", "teardown")
    assert not recorder.lost, recorder.lost
    table.decide(**facts(N=3))
    recorder.stop()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_that_cannot_open_its_shard_decides_all_the_same_and_tries_again(tmp_path: Path) -> None:
    run_script(CHILD_WITHOUT_A_PLACE, tmp_path)
    rows = recorded(tmp_path / "sub" / "data").rows
    assert totals(rows) == {("t", "call"): (2, 0, 0, 0), ("t", "teardown"): (1, 0, 0, 0)}


# --- where the array cannot be mapped ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", ["function", "support"])
def test_without_fallocate_zeros_are_written(data_file: str, monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    if lacking == "function":
        monkeypatch.delattr(os, "posix_fallocate")
    else:
        monkeypatch.setattr(os, "posix_fallocate", _failing(errno.EOPNOTSUPP))
    table = demo()
    with Recorder(data_file) as recorder:
        assert recorder.shard is not None
        assert recorder.shard.mapped
        assert os.stat(recorder.shard.path + COUNTS).st_blocks * 512 >= SLOTS * WIDTH * 8
        for sm in range(SLOTS + 10):
            table.decide(**facts(sm=sm))
        assert recorder.shard.mapped
        assert totals(read_shard(recorder.shard.path).rows) == {("", "run"): (SLOTS + 10, 0, 0, 0)}
    assert totals(recorded(data_file).rows) == {("", "run"): (SLOTS + 10, 0, 0, 0)}


def _failing(number: int) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_without_room_for_the_array_counts_in_progress_are_at_least_counts(
    data_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", _failing(errno.ENOSPC))
    table = demo()
    with Recorder(data_file) as recorder:
        assert recorder.shard is not None
        assert not os.path.exists(recorder.shard.path + COUNTS)
        recorder.enter("t", "call")
        said = []
        for _ in range(100):
            table.decide(**facts())
            (row,) = read_shard(recorder.shard.path).rows
            said.append(row.selected)
        assert said == [1] * 7 + [8] * 56 + [64] * 37
        assert not row.finished
    assert totals(recorded(data_file).rows) == {("t", "call"): (100, 0, 0, 0)}


def test_when_the_array_cannot_grow_counts_are_kept_all_the_same(
    data_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = demo()
    with Recorder(data_file) as recorder:
        assert recorder.shard is not None
        recorder.enter("t", "call")
        for _ in range(100):
            table.decide(**facts(sm=0))
        monkeypatch.setattr(os, "posix_fallocate", _failing(errno.ENOSPC))
        for sm in range(SLOTS + 10):
            table.decide(**facts(sm=sm))
        assert not recorder.shard.mapped
        in_progress = {row.hardware[0]: row.selected for row in read_shard(recorder.shard.path).rows}
        assert in_progress == {sm: 101 if sm == 0 else 1 for sm in range(SLOTS + 10)}
        for _ in range(100):
            table.decide(**facts(sm=0))
        in_progress = {row.hardware[0]: row.selected for row in read_shard(recorder.shard.path).rows}
        assert 101 < in_progress[0] <= 201
        recorder.enter("u", "call")
        table.decide(**facts(sm=0))
    assert totals(recorded(data_file).rows) == {("t", "call"): (SLOTS + 210, 0, 0, 0), ("u", "call"): (1, 0, 0, 0)}

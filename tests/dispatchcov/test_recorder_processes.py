"""Recorders in threads, forked children and processes that die: no decision is lost or counted twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dispatchcov import decide, generate, store
from dispatchcov.cells import Cell
from dispatchcov.files.shard import COUNTS, SLOTS
from dispatchcov.files.shard_read import read_shard
from dispatchcov.journal import Journal
from dispatchcov.recorder import Recorder
from tests.dispatchcov.recording import demo, facts, recorded, run_script, totals


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

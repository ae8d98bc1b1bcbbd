from __future__ import annotations

import threading
from array import array
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dispatchcov import generate
from dispatchcov.files.shard import COMPANIONS
from dispatchcov.flight import (
    BEGUN,
    ENTRIES,
    ENTRY,
    FACTS,
    RAISED,
    RETURNED,
    SIZE,
    STATE,
    WORDS,
    Flight,
    launches,
)
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.records import UNENDED
from dispatchcov.store import combine, erase, load, shards_beside
from dispatchcov.table import Table
from tests.dispatchcov.recording import demo, facts, run_script

INPUT = (8, True, "float16", 90)


@pytest.fixture
def flight(tmp_path: Path) -> Flight:
    return Flight(str(tmp_path / "ring"))


def numbered(launch: int) -> int:
    """The number of the first, second ... launch of a process."""
    return STATE + launch * ENTRY


def words(flight: Flight) -> array[int]:
    return array("q", Path(flight.path).read_bytes())


def enter(table: Table, flight: Flight, cell: int, values: tuple[object, ...]) -> None:
    """A launch of ``cell`` begins, as the function says that was generated for ``table``."""
    recorder = SimpleNamespace(flight=flight, observer=None)
    launch = SimpleNamespace(cell=SimpleNamespace(id=cell, context=SimpleNamespace(recorder=recorder)), values=values)
    assert table.on("m").enter(launch) is launch


def end(launch: AbstractContextManager[object], error: type[BaseException] | None = None) -> None:
    launch.__exit__(error, error() if error else None, None)


def test_the_ring_holds_the_last_launches_in_order(tmp_path: Path) -> None:
    with Recorder(str(tmp_path / "data")) as recorder:
        for number in range(1, ENTRIES + 11):
            launch = demo().decide(**facts(N=number, dtype="float32", sm=80)).launch()
            launch.__enter__()
            if number <= ENTRIES + 9:
                end(launch, KeyError if number == ENTRIES + 8 else None)
        assert recorder.flight is not None
        kept = recorder.flight.last()
        assert kept == launches(words(recorder.flight))
    assert [launch.number for launch in kept] == [numbered(n) for n in range(11, ENTRIES + 11)]
    assert [launch.state for launch in kept] == [RETURNED] * (ENTRIES - 3) + [RAISED, RETURNED, BEGUN]
    assert kept[1].named(demo()) == {"N": 12, "aligned": True, "dtype": "float32", "sm": 80}


@pytest.mark.parametrize("alone", [True, False], ids=["without a lock", "one number a call"])
def test_a_launch_in_flight_keeps_its_entry_however_many_come_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setattr(generate, "ONE_AT_A_TIME", alone)
    table = demo()
    with Recorder(str(tmp_path / "data")) as recorder:
        slow = [table.decide(**facts(N=number)).launch() for number in (5, 6)]
        for launch in slow:
            launch.__enter__()
        for number in range(3 * ENTRIES):
            with table.decide(**facts(N=number + 100)).launch():
                pass
        assert recorder.flight is not None
        kept = recorder.flight.last()
        assert [(one.facts[0], one.state) for one in kept[:2]] == [(5, BEGUN), (6, BEGUN)]
        assert [one.facts[0] for one in kept[2:]] == list(range(102 + 2 * ENTRIES, 100 + 3 * ENTRIES))
        for launch in slow:
            end(launch)
        assert {one.state for one in recorder.flight.last()} == {RETURNED}


def test_a_launch_for_which_there_is_no_entry_touches_none(tmp_path: Path) -> None:
    with Recorder(str(tmp_path / "data")) as recorder:
        begun = [demo().decide(**facts(N=number)).launch() for number in range(ENTRIES + 2)]
        for launch in begun:
            launch.__enter__()
        assert recorder.flight is not None
        before = recorder.flight.last()
        assert [(one.facts[0], one.state) for one in before] == [(n, BEGUN) for n in range(ENTRIES)]
        end(begun[-1])
        end(begun[-2], KeyError)
        assert recorder.flight.last() == before
        end(begun[7])
        with demo().decide(**facts(N=1000)).launch():
            assert (1000, BEGUN) in [(one.facts[0], one.state) for one in recorder.flight.last()]
    assert sum(row.launched for row in load(tmp_path / "data").rows) == 3


def test_facts_that_do_not_fit_are_left_out_and_the_launch_is_kept(flight: Flight) -> None:
    enter(demo(), flight, 1, (1 << 63, True, "float16", 90))
    enter(demo(), flight, 2, (8.5, True, "float16", 90))
    enter(demo(), flight, 3, (-(1 << 63), False, "int4", 90))
    first, second, third = flight.last()
    assert (first.cell, first.facts, second.cell, second.facts) == (1, (), 2, ())
    with pytest.raises(ValueError, match="left out"):
        first.named(demo())
    assert third.named(demo()) == {"N": -(1 << 63), "aligned": False, "dtype": "?", "sm": 90}


def test_a_table_with_more_variables_than_an_entry_has_room_for(flight: Flight) -> None:
    names = [f"x{i}" for i in range(FACTS + 5)]
    variables = "".join(f'{name} = {{ type = "int" }}\n' for name in names)
    table = parse_table(
        f'[table]\nop = "wide"\n[variables]\n{variables}[[kernel]]\nname = "k"\n[[rule]]\nname = "r"\nkernel = "k"\n'
    )
    for _ in range(ENTRIES + 1):
        enter(table, flight, 7, tuple(range(len(names))))
    assert {launch.facts for launch in flight.last()} == {tuple(range(FACTS))}
    assert flight.last()[0].named(table) == {name: i for i, name in enumerate(names[:FACTS])}


def test_what_is_no_entry_is_left_out() -> None:
    good = [5, 2, BEGUN, 1, 9] + [0] * (WORDS - 5)
    bad = [[-1, 2, 1, 0], [1, -2, 1, 0], [1, 2, 4, 0], [1, 2, 0, 0], [1, 2, 1, FACTS + 1], [1, 2, 1, -1]]
    ring = array("q", good + [word for entry in bad for word in [*entry, *[0] * (WORDS - 4)]])
    assert [(launch.number, launch.facts) for launch in launches(ring)] == [(5, (9,))]
    assert launches(array("q")) == []
    assert launches(ring[: WORDS + 2]) == launches(ring[:WORDS])


def test_a_ring_that_was_closed_by_another_thread_takes_no_more(tmp_path: Path) -> None:
    with Recorder(str(tmp_path / "data")) as recorder:
        decision = demo().decide(**facts()).launch()
        decision.__enter__()
        ring = recorder.flight
        assert ring is not None
        ring.close()
        before = words(ring)
        end(decision)
        enter(demo(), ring, 2, INPUT)
        enter(demo(), ring, 2, (1 << 70, *INPUT[1:]))
        assert words(ring) == before
        assert [launch.state for launch in launches(before)] == [BEGUN]
    assert sum(row.launched for row in load(tmp_path / "data").rows) == 1


@pytest.mark.parametrize("alone", [True, False], ids=["without a lock", "one number a call"])
def test_threads_do_not_share_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    monkeypatch.setattr(generate, "ONE_AT_A_TIME", alone)
    table = demo()

    def work() -> None:
        for _ in range(8):
            with table.decide(**facts()).launch():
                pass

    with Recorder(str(tmp_path / "data")) as recorder:
        threads = [threading.Thread(target=work) for _ in range(ENTRIES // 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert recorder.flight is not None
        last = recorder.flight.last()
    assert [(launch.number, launch.state) for launch in last] == [
        (numbered(n), RETURNED) for n in range(1, ENTRIES + 1)
    ]


def test_no_room_for_the_ring_costs_the_ring_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dispatchcov.flight.reserve", full)
    with Recorder(str(tmp_path / "data")) as recorder:
        assert recorder.flight is None
        with demo().decide(**facts()).launch():
            pass
    assert sum(row.launched for row in load(tmp_path / "data").rows) == 1
    assert not list(tmp_path.glob("*.flight"))


# --- processes that die in a launch -----------------------------------------------------------------------------------

DIES = """
table = demo()
recorder = Recorder(sys.argv[1]).start()
recorder.enter("tests/test_x.py::test_before", "call")
with table.decide(**facts(N=16)).launch():
    pass
recorder.enter("tests/test_x.py::test_dies[1]", "call")
try:
    with table.decide(**facts(N=32)).launch():
        raise ValueError
except ValueError:
    pass
for n in (64, 4096):
    table.decide(**facts(N=n))
with table.decide(**facts(N=2048, sm=80)).launch():
    """

WAYS = {
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    "os._exit": ("os._exit(7)", 7),
    "a segfault": ("import ctypes; ctypes.string_at(0)", -11),
    "an abort": ("os.abort()", -6),
}
TOLD = "in tests/test_x.py::test_dies[1] (call): demo::record: wide -> Wide (N=2048 aligned=true dtype=float16 sm=80)"


@pytest.mark.parametrize("how", WAYS)
def test_the_launch_in_flight_is_told_after(tmp_path: Path, how: str) -> None:
    code, status = WAYS[how]
    path = str(tmp_path / "data")
    run_script(DIES + code, path, status=status)
    (shard,) = load(path).shards
    assert shard.notes == (f"in flight when process {shard.pid} ended without a word {TOLD}",)
    assert combine(path, remove=True).shards[0].notes == shard.notes
    assert [file.name for file in tmp_path.iterdir()] == ["data"]
    assert load(path).shards[0].notes == shard.notes


def test_a_run_that_dies_between_launches_tells_the_last_one(tmp_path: Path) -> None:
    """As after a fault of the GPU, which comes when the launch has returned."""
    path = str(tmp_path / "data")
    run_script(DIES + f"pass\nrecorder.partial({UNENDED!r}); os.abort()", path, status=-6)
    (shard,) = load(path).shards
    told = f"no launch was in flight when process {shard.pid} ended without a word; the last one, which returned, was"
    assert shard.notes == (f"{told} {TOLD}",)


def test_a_process_of_a_run_that_goes_on_may_end_without_a_word(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    run_script(DIES + "pass\nos._exit(0)", path)
    assert load(path).shards[0].notes == ()


@pytest.mark.parametrize(("begun", "more"), [(16, ""), (17, "1 more launches"), (70, "more launches than were kept")])
def test_all_launches_in_flight_are_told_or_how_many_more(tmp_path: Path, begun: int, more: str) -> None:
    path = str(tmp_path / "data")
    many = f"pass\nfor n in range({begun}):\n    table.decide(**facts(N=4 * n)).launch().__enter__()\nos._exit(3)"
    run_script(DIES + many, path, status=3)
    (shard,) = load(path).shards
    head = f"in flight when process {shard.pid} ended without a word"
    assert [f"N={4 * n} " in note for n, note in zip(range(16), shard.notes, strict=False)] == [True] * 16
    assert shard.notes[16:] == ((f"{head}: {more}",) if more else ())


def test_a_run_that_ends_in_order_has_nothing_in_flight_and_leaves_no_ring(tmp_path: Path) -> None:
    with Recorder(str(tmp_path / "data")):
        demo().decide(**facts()).launch().__enter__()
        assert len(list(tmp_path.glob("*.flight"))) == 1
    assert load(tmp_path / "data").shards[0].notes == ()
    assert not list(tmp_path.glob("*.flight"))


def test_a_launch_whose_test_is_over_is_told_with_that_test(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    run_script(DIES + "recorder.enter('later', 'call'); os._exit(3)", path, status=3)
    (shard,) = load(path).shards
    assert shard.notes == (f"in flight when process {shard.pid} ended without a word {TOLD}",)


@pytest.mark.parametrize("change", [b"", b"\xff" * SIZE, b"\x01\0\0\0\0\0\0\0" * (SIZE // 8), b"abc"])
def test_a_ring_from_a_stranger_does_no_harm(tmp_path: Path, change: bytes) -> None:
    path = str(tmp_path / "data")
    run_script(DIES + "os._exit(3)", path, status=3)
    (ring,) = tmp_path.glob("*.flight")
    ring.write_bytes(change)
    assert all(note.startswith("in flight when process") for note in load(path).shards[0].notes)
    assert sum(row.selected for row in load(path).rows) == 5


def test_a_link_in_place_of_the_ring_is_not_followed(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    run_script(DIES + "os._exit(3)", path, status=3)
    (ring,) = tmp_path.glob("*.flight")
    ring.rename(tmp_path / "elsewhere")
    ring.symlink_to(tmp_path / "elsewhere")
    assert load(path).shards[0].notes == ()


def test_erasing_takes_the_ring_along(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    run_script(DIES + "os._exit(3)", path, status=3)
    assert erase(path) == 1 + len(COMPANIONS)
    assert list(tmp_path.iterdir()) == []
    assert shards_beside(path) == []

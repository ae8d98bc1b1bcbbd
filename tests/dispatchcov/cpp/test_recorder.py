"""What a C++ program records is what Python records of the same decisions, however the program ends."""

from __future__ import annotations

import functools
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchcov import store
from dispatchcov.decide import DEFAULT_MACHINE, View
from dispatchcov.recorder import Recorder
from dispatchcov.recording import checked, record, warm_up
from dispatchcov.records import EARLIER_TRY, Data
from dispatchcov.results import Results
from tests.dispatchcov.cpp import build as cpp_build
from tests.dispatchcov.recording import demo, recorded, totals

pytestmark = cpp_build.needs_gxx


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``recorder.cpp``, compiled."""
    folder = tmp_path_factory.mktemp("recorder")
    cpp_build.write_header(folder, "demo.hpp", demo(), "demo")
    return cpp_build.build(folder / "recorder", cpp_build.HERE / "recorder.cpp")


def obey(program: Path, data: Path, *lines: str, extra: dict[str, str] | None = None) -> int:
    """Have the program do what ``lines`` say; its exit status."""
    done = cpp_build.run(program, data=data, stdin="\n".join(lines) + "\n", extra=extra)
    assert not done.stderr
    return done.returncode


def mirror(data: Path, lines: Iterable[str]) -> None:
    """Have Python's recorder do what ``lines`` say."""
    table = demo()
    last: Any = None
    warm: Any = None
    with Recorder(str(data), run="cpp") as recorder:
        for line in lines:
            word, _, rest = line.partition(" ")
            if word in ("decide", "record"):
                ran, _, values = rest.partition(" ") if word == "record" else ("", "", rest)
                n, aligned, dtype, sm, *machine = values.split(" ", 4)
                facts = {"N": int(n), "aligned": aligned == "1", "dtype": dtype, "sm": int(sm)}
                if word == "record":
                    record(table, facts, kernel=ran)
                else:
                    last = (table.on(machine[0]) if machine else table).decide(**facts)
            elif word == "enter":
                phase, _, test = rest.partition(" ")
                recorder.enter(test, phase)
            elif word == "launch" and last is not None:
                with last.launch():
                    pass
            elif word == "raise" and last is not None:
                with pytest.raises(RuntimeError), last.launch():
                    raise RuntimeError
            elif word == "checked":
                checked()
            elif word == "outcome":
                outcome, _, test = rest.partition(" ")
                recorder.outcome(test, outcome)
            elif word == "warm":
                warm = warm_up()
                warm.__enter__()
            elif word == "cold":
                warm.__exit__(None, None, None)
            elif word in ("retry", "partial", "remark"):
                getattr(recorder, word)(rest)


def rows(data: Data, *, inputs: bool) -> dict[tuple[Any, ...], list[int]]:
    """The counts of ``data`` by all that does not tell one process, or an end of it, from another."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for row in data.rows:
        key = (*row[1:8], row.inputs if inputs else ())
        sums[key] = [a + b for a, b in zip(sums.get(key, [0] * 4), row[8:12], strict=True)]
    return sums


def alike(program: Path, folder: Path, lines: list[str], status: int = 0) -> Data:
    """What C++ recorded of ``lines``, which is what Python records of them."""
    end = [line for line in lines if line.startswith("end ")]
    assert obey(program, folder / "cpp", *lines) == status
    mirror(folder / "python", (line for line in lines if line not in end))
    ours, theirs = recorded(folder / "cpp"), recorded(folder / "python")
    in_order = end in ([], ["end exit"])  # else the last inputs of a test in progress are not in the file
    assert rows(ours, inputs=in_order) == rows(theirs, inputs=in_order)
    assert [o[1:] for o in ours.outcomes] == [o[1:] for o in theirs.outcomes]
    (shard,), (other,) = ours.shards, theirs.shards
    assert shard.partial == other.partial
    assert [(table.digest, table.op, table.source, table.text) for table in ours.tables] == [
        (table.digest, table.op, table.source, table.text) for table in theirs.tables
    ]
    return ours


FACTS = st.builds(
    "{} {} {} {}".format,
    st.sampled_from([-1, 0, 4, 8, 9, 12, 16, 20, 1023, 1024, 2_000_000]),
    st.sampled_from([1, 1, 0]),
    st.sampled_from(["float16", "float32"]),
    st.sampled_from([90, 90, 90, 80, 70]),
)
COMMANDS = st.one_of(
    FACTS.map("decide {}".format),
    FACTS.map("decide {}".format),
    FACTS.map("decide {} NVIDIA H200".format),
    FACTS.map("decide {}".format),
    st.sampled_from(["launch", "launch", "raise", "checked"]),
    st.builds("record {} {}".format, st.sampled_from(["Wide", "Narrow", "Other<4>"]), FACTS),
    st.builds("enter {} {}".format, st.sampled_from(["setup", "call", "teardown"]), st.sampled_from(["a", 'b["ü"]'])),
    st.just("enter session "),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(COMMANDS, min_size=4, max_size=40), how=st.sampled_from(["exit", "_exit"]))
def test_python_records_the_same(
    program: Path, tmp_path_factory: pytest.TempPathFactory, lines: list[str], how: str
) -> None:
    alike(program, tmp_path_factory.mktemp("same"), ["decide 8 1 float16 90", *lines, f"end {how}"])


STORY = [
    "decide 3 1 float16 90", "enter setup t", "decide 8 1 float16 90", "launch",
    "enter call t", "decide 8 1 float16 90", "launch", "checked", "decide 12 0 float32 80", "raise",
    "warm", "decide 16 1 float16 90", "cold", "launch", "outcome t passed",
    "enter call u", "decide 1024 1 float16 90", "enter session ", "retry u",
    "enter call u", "decide 4 1 float16 90", "outcome u failed", "partial for a reason", "remark something to know",
    "enter call v", "decide 8 1 float16 90", "launch", "decide 12 1 float16 90", "checked", "decide 16 1 float16 90",
]  # fmt: skip


@pytest.mark.parametrize(
    ("how", "status"),
    [("exit", 0), ("_exit", 0), ("kill", -signal.SIGKILL), ("abort", -signal.SIGABRT), ("segv", -signal.SIGSEGV)],
)
def test_nothing_is_lost_however_the_program_ends(program: Path, tmp_path: Path, how: str, status: int) -> None:
    data = alike(program, tmp_path, [*STORY, f"end {how}"], status)
    (shard,) = data.shards
    assert shard.ended == (how == "exit")
    assert "something to know" in shard.notes
    companions = [path.name for path in tmp_path.glob("cpp.*") if not path.name.endswith(".jsonl")]
    assert bool(companions) == (how != "exit")


def test_a_test_that_begins_again_counts_by_its_last_try(program: Path, tmp_path: Path) -> None:
    lines = ["enter call t", "decide 8 1 float16 90", "retry t", "decide 9 1 float16 90", "outcome t passed"]
    assert obey(program, tmp_path / "d", *lines) == 0
    assert {phase: counts[0] for (_, phase), counts in totals(recorded(tmp_path / "d").rows).items()} == {
        EARLIER_TRY: 1,
        "call": 1,
    }


def test_nothing_is_recorded_unless_asked_for(program: Path) -> None:
    assert cpp_build.run(program, data=None, stdin="decide 8 1 float16 90\nlaunch\n").returncode == 0
    assert not [path for path in program.parent.iterdir() if "jsonl" in path.name]


def test_a_program_that_decides_nothing_leaves_nothing(program: Path, tmp_path: Path) -> None:
    assert obey(program, tmp_path / "d", "end exit") == 0
    assert not list(tmp_path.iterdir())


def test_a_test_of_pytest_that_starts_a_program_has_its_decisions(program: Path, tmp_path: Path) -> None:
    extra = {"PYTEST_CURRENT_TEST": "tests/test_it.py::test[a (b)] (call)"}
    assert obey(program, tmp_path / "d", "decide 8 1 float16 90", extra=extra) == 0
    (row,) = recorded(tmp_path / "d").rows
    assert (row.test, row.phase) == ("tests/test_it.py::test[a (b)]", "call")


def test_a_value_that_is_not_declared_is_outside_the_domain(program: Path, tmp_path: Path) -> None:
    assert obey(program, tmp_path / "d", "decide 8 1 bfloat16 90") == 0
    (row,) = recorded(tmp_path / "d").rows
    table = demo()
    assert row.vector >> len(table.predicates) & 1
    assert row.inputs == ((8, True, "?", 90),)


def test_text_that_is_no_utf_8_spoils_no_line(program: Path, tmp_path: Path) -> None:
    script = b'enter call \xff\xc3\xbc\xed\xa0\x80\xf0\x9f\x98\x80\x01"\\\ndecide 8 1 float16 90\n'
    subprocess.run([program], input=script, env=cpp_build.environment(tmp_path / "d"), check=True)
    (row,) = recorded(tmp_path / "d").rows
    assert row.test == '?ü???😀\x01"\\'


# --- threads, forks, many cells ---------------------------------------------------------------------------------------


def test_threads_lose_no_count_while_tests_begin_and_end(program: Path, tmp_path: Path) -> None:
    assert cpp_build.run(program, "threads", 4, 150_000, data=tmp_path / "d").returncode == 0
    data = recorded(tmp_path / "d")
    assert sum(row.selected for row in data.rows) == 600_000
    assert sum(row.launched for row in data.rows) == 600_000
    assert len({row.test for row in data.rows}) > 2
    found, expected = Counter[int](), Counter[int]()
    vector = functools.cache(View.of(demo(), DEFAULT_MACHINE).vector)
    for row in data.rows:
        found[row.vector] += row.selected
    for i in range(150_000):
        expected[vector((i % 64, True, "float16", 80 if i % 2 else 90))] += 4
    assert found == expected


@pytest.mark.parametrize("how", ["exit", "_exit", "kill"])
def test_a_forked_child_counts_for_itself(program: Path, tmp_path: Path, how: str) -> None:
    assert cpp_build.run(program, "forks", how, data=tmp_path / "d").returncode == 0
    data = recorded(tmp_path / "d")
    pids = {shard.name: shard.pid for shard in data.shards}
    assert len(data.shards) == len(set(pids.values())) == 6
    assert {(row.test, row.phase) for row in data.rows} == {("forking", "call")}
    selected, launched = Counter[str](), Counter[str]()
    for row in data.rows:
        selected[row.shard] += row.selected
        launched[row.shard] += row.launched
    children = [shard.name for shard in data.shards if selected[shard.name] == 2]
    assert len(children) == 5
    assert [*launched.values()] == [1] * 6
    assert [shard.ended for shard in data.shards if shard.name in children] == [how == "exit"] * 5
    (parent,) = (shard for shard in data.shards if shard.name not in children)
    assert parent.ended


def test_more_cells_than_a_piece_of_the_array_holds(program: Path, tmp_path: Path) -> None:
    done = cpp_build.run(program, "cells", 3, 5000, data=tmp_path / "d")
    assert done.returncode == 0
    assert totals(recorded(tmp_path / "d").rows) == {
        (f"context {c}", "call"): ((c + 1) * 5000, 0, 0, 0) for c in range(3)
    }


def test_decisions_after_the_end_are_kept(program: Path, tmp_path: Path) -> None:
    assert cpp_build.run(program, "late", data=tmp_path / "d").returncode == 0
    data = recorded(tmp_path / "d")
    assert sum(row.selected for row in data.rows) == 2
    assert sorted(shard.ended for shard in data.shards) == [False, True]


@pytest.mark.parametrize("later", [0, 500])
def test_the_launch_in_flight_is_named_after_a_crash(program: Path, tmp_path: Path, later: int) -> None:
    assert cpp_build.run(program, "crash", str(later), data=tmp_path / "d").returncode == -signal.SIGSEGV
    (shard,) = store.load(tmp_path / "d").shards
    (note,) = shard.notes
    assert re.fullmatch(
        rf"in flight when process {shard.pid} ended without a word in crashing \(call\): "
        r"demo::record: rest -> Narrow \(N=7 aligned=false dtype=float32 sm=80\)",
        note,
    )


# --- what cannot be written -------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_what_was_counted_before_stays(program: Path, tmp_path: Path) -> None:
    done = cpp_build.run(program, "full", data=tmp_path / "d")
    assert done.returncode == 0
    assert done.stderr.count("records could not be written: File too large") == 1
    data = recorded(tmp_path / "d")
    assert data.rows[0].selected == 1


def test_a_place_that_cannot_be_written_is_told(program: Path, tmp_path: Path) -> None:
    done = cpp_build.run(program, "threads", 2, 100, data=tmp_path / "none" / "d")
    assert done.returncode == 0
    assert done.stderr.count("records could not be written: No such file or directory") == 1


def test_counts_that_cannot_be_mapped_are_written_as_they_grow(program: Path, tmp_path: Path) -> None:
    limited = [
        "bash",
        "-c",
        f"trap '' XFSZ; ulimit -f 100; exec {program}",
    ]  # blocks of 1024 bytes: lines fit, the array does not
    lines = ["enter call t", *["decide 8 1 float16 90"] * 70, "end kill"]
    done = subprocess.run(
        limited, input="\n".join(lines), text=True, env=cpp_build.environment(tmp_path / "d"), check=False
    )
    assert done.returncode == -signal.SIGKILL
    (row,) = recorded(tmp_path / "d").rows
    assert row.selected == 64  # at least that many: said again at 1, 8 and 64
    assert Results.of(store.load(tmp_path / "d")).tables

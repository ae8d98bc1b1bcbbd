from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchcov.errors import DataError
from dispatchcov.record import Recorder
from dispatchcov.records import Data
from dispatchcov.shard import COUNTS, SLOTS, WIDTH, ShardWriter, shard_name
from dispatchcov.shard_read import MAX_PROBLEMS, read_shard
from tests.dispatchcov.recording import TEXT, demo, facts, run_script

NAME = ".dispatchcov.host.12.0123456789ab.jsonl"
HEAD = {
    "k": "shard", "format": 1, "name": NAME, "run": "r", "host": "host", "pid": 12,
    "started": "2026-01-01T00:00:00+00:00", "counts": f"{NAME}{COUNTS}",
}  # fmt: skip
TABLE = {"k": "table", "digest": "d" * 64, "op": "demo::record", "source": "demo.toml", "text": TEXT}
VIEW = {"k": "view", "id": 1, "digest": "d" * 64, "machine": "cpu"}
INPUT = [8, True, "float16", 90]
CONTEXT = {"k": "context", "id": 2, "test": "t.py::t", "phase": "call"}
ROW = {
    "k": "row", "context": 2, "id": 1, "view": 1, "vector": "3", "hardware": [90], "kernel": "", "inputs": [INPUT],
    "slot": 0,
}  # fmt: skip
FINAL = [1, 1, "3", [90], "", [INPUT], 5, 4, 3, 2]
CLOSE = {"k": "close", "context": 2, "test": "t.py::t", "phase": "call", "rows": [FINAL]}
OUTCOME = {"k": "outcome", "test": "t.py::t", "outcome": "passed"}
PARTIAL = {"k": "partial", "reason": "interrupted"}
END = {"k": "end"}
WHOLE = [HEAD, TABLE, VIEW, CONTEXT, ROW, CLOSE, OUTCOME, PARTIAL, END]

Read = Callable[..., Data]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read lines, each an object or text, as a shard beside an array of ``counts``."""

    def reader(*lines: Any, counts: list[int] | bytes | None = None) -> Data:
        texts = [line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
        path = tmp_path / NAME
        path.write_bytes("".join(texts).encode("utf-8", "surrogateescape"))
        if counts is not None:
            array = counts if isinstance(counts, bytes) else memoryview(bytearray(8 * len(counts)))
            if not isinstance(array, bytes):
                view = array.cast("q")
                view[:] = memoryview(bytearray(8 * len(counts))).cast("q")
                for place, count in enumerate(counts):
                    view[place] = count
            (tmp_path / (NAME + COUNTS)).write_bytes(array)
        return read_shard(path)

    return reader


def counted(data: Data) -> list[tuple[int, ...]]:
    return [row[8:12] for row in data.rows]


def problem(data: Data) -> str:
    """The one problem of the one shard of ``data``."""
    (shard,) = data.shards
    (only,) = shard.problems
    return only


# --- writing ----------------------------------------------------------------------------------------------------------


def test_the_name_of_a_shard_tells_host_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "gpu.node_7é/..")
    name = shard_name("/data/.dispatchcov")
    assert re.fullmatch(rf"/data/\.dispatchcov\.gpu-node-7----\.{os.getpid()}\.[0-9a-f]{{12}}\.jsonl", name) or re.fullmatch(
        rf"/data/\.dispatchcov\.[-a-z0-9]+\.{os.getpid()}\.[0-9a-f]{{12}}\.jsonl", name
    )
    assert shard_name("/data/.dispatchcov") != name


def test_a_shard_that_ends_in_order_leaves_no_array(tmp_path: Path) -> None:
    writer = ShardWriter(str(tmp_path / "data"), "r")
    assert os.path.getsize(writer.path + COUNTS) == SLOTS * WIDTH * 8
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == [os.path.basename(writer.path)]
    (shard,) = read_shard(writer.path).shards
    assert (shard.name, shard.run, shard.lines, shard.ended) == (os.path.basename(writer.path), "r", 2, True)


def test_growing_keeps_counts_and_places(tmp_path: Path) -> None:
    writer = ShardWriter(str(tmp_path / "data"), "r")
    writer.counts[5] = 17
    writer.grow()
    assert writer.mapped
    assert (len(writer.counts), writer.counts[5], writer.counts[len(writer.counts) - 1]) == (2 * SLOTS * WIDTH, 17, 0)
    assert os.path.getsize(writer.path + COUNTS) == len(writer.counts) * 8
    writer.close()


def test_writes_that_fail_are_tried_again_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = ShardWriter(str(tmp_path / "data"), "r")
    real, broken = os.write, True

    def write(fd: int, data: bytes) -> int:
        if broken:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, data[:5])

    monkeypatch.setattr(os, "write", write)
    writer.write([PARTIAL])
    assert writer.error is not None
    assert writer.error.errno == errno.EIO
    broken = False
    writer.write([OUTCOME])
    assert writer.error is None
    writer.close()
    data = read_shard(writer.path)
    assert (data.shards[0].partial, len(data.outcomes), data.shards[0].lines) == (("interrupted",), 1, 4)


def test_a_released_writer_writes_into_no_other_file(tmp_path: Path) -> None:
    writer = ShardWriter(str(tmp_path / "data"), "r")
    writer.release()
    with open(tmp_path / "other", "wb", buffering=0):
        writer.write([PARTIAL])
    assert (tmp_path / "other").read_bytes() == b""
    assert writer.error is not None


def test_what_the_recorder_writes_is_json_of_the_documented_kinds(tmp_path: Path) -> None:
    with Recorder(str(tmp_path / "data")) as recorder:
        recorder.enter("t", "call")
        demo().decide(**facts())
        recorder.outcome("t", "passed")
        recorder.partial("why")
        assert recorder.shard is not None
        path = recorder.shard.path
    with open(path, encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    kinds = [line["k"] for line in lines]
    assert kinds == ["shard", "context", "table", "view", "row", "outcome", "partial", "close", "end"]
    samples = {line["k"]: line for line in (HEAD, TABLE, VIEW, CONTEXT, ROW, CLOSE, OUTCOME, PARTIAL, END)}
    assert {line["k"]: list(line) for line in lines} == {kind: list(sample) for kind, sample in samples.items()}


# --- reading what is in order -----------------------------------------------------------------------------------------


def test_a_whole_shard(read: Read) -> None:
    data = read(*WHOLE)
    (shard,), (table,), (row,), (outcome,) = data.shards, data.tables, data.rows, data.outcomes
    assert (shard.name, shard.run, shard.host, shard.pid, shard.lines) == (NAME, "r", "host", 12, len(WHOLE))
    assert (shard.partial, shard.ended, shard.problems) == (("interrupted",), True, ())
    assert (table.digest, table.op, table.source, table.text) == ("d" * 64, "demo::record", "demo.toml", TEXT)
    assert row == (
        NAME, "d" * 64, "cpu", "t.py::t", "call", 3, (90,), "", 5, 4, 3, 2, ((8, True, "float16", 90),), True,
    )  # fmt: skip
    assert outcome == (NAME, "t.py::t", "passed")


def test_a_copy_keeps_the_name(read: Read, tmp_path: Path) -> None:
    data = read(*WHOLE)
    os.rename(tmp_path / NAME, tmp_path / "artifact (1).txt")
    assert read_shard(tmp_path / "artifact (1).txt") == data


def test_a_vector_may_exceed_64_bits(read: Read) -> None:
    (row,) = read(HEAD, TABLE, VIEW, CLOSE | {"rows": [FINAL[:2] + ["f" * 40] + FINAL[3:]]}).rows
    assert row.vector == 2**160 - 1


def test_rows_in_progress_take_their_counts_from_the_array(read: Read) -> None:
    other = ROW | {"id": 2, "slot": 1, "vector": "1"}
    data = read(HEAD, TABLE, VIEW, CONTEXT, ROW, other, counts=[7, 6, 0, 1, 0, 2, 0, 0])
    assert counted(data) == [(7, 6, 0, 1), (0, 2, 0, 0)]
    assert [row.finished for row in data.rows] == [False, False]
    assert not data.shards[0].ended


@pytest.mark.parametrize("counts", [None, b"", b"1234567", [0, 0, 0, 0], [1, 0]])
def test_a_row_that_the_array_does_not_know_was_selected_once(read: Read, counts: Any) -> None:
    data = read(HEAD, TABLE, VIEW, CONTEXT, ROW | {"slot": 3}, counts=counts)
    assert counted(data) == [(1, 0, 0, 0)]


def test_rows_in_progress_may_say_their_counts_themselves(read: Read) -> None:
    later = {key: value for key, value in ROW.items() if key != "slot"} | {"counts": [8, 7, 0, 0]}
    data = read(HEAD, TABLE, VIEW, CONTEXT, ROW, later, counts=[9, 9, 9, 9])
    assert counted(data) == [(8, 7, 0, 0)]


def test_the_slot_of_a_closed_context_is_not_looked_at(read: Read) -> None:
    """After the close line the slot may count for another row."""
    again = [CONTEXT | {"id": 3, "test": "u"}, ROW | {"context": 3, "id": 2}]
    data = read(HEAD, TABLE, VIEW, CONTEXT, ROW, CLOSE, *again, counts=[70, 0, 0, 0])
    assert [(row.test, row.selected, row.finished) for row in data.rows] == [("t.py::t", 5, True), ("u", 70, False)]
    data = read(HEAD, TABLE, VIEW, CONTEXT, ROW, CLOSE | {"rows": []}, *again, counts=[70, 0, 0, 0])
    assert [(row.test, row.selected, row.finished) for row in data.rows] == [("u", 70, False)]


def test_lines_written_twice_count_once(read: Read) -> None:
    """A write that was interrupted after it reached the file is done again."""
    data = read(HEAD, *(line for line in WHOLE[1:-1] for _ in range(2)), END)
    assert data.shards[0].problems == ()
    assert (counted(data), len(data.outcomes), data.shards[0].partial) == ([(5, 4, 3, 2)], 1, ("interrupted",))
    more = [CLOSE | {"rows": [[2, 1, "1", *FINAL[3:]]]}, OUTCOME | {"outcome": "failed"}]
    data = read(*WHOLE[:-1], *more, END)
    assert ([row.vector for row in data.rows], data.outcomes[0].outcome) == ([3, 1], "failed")


def test_rows_without_counts_are_left_out(read: Read) -> None:
    nothing = [2, 1, "1", *FINAL[3:6], 0, 0, 0, 0]
    launched = [3, 1, "2", *FINAL[3:6], 0, 1, 0, 0]
    data = read(HEAD, TABLE, VIEW, CLOSE | {"rows": [nothing, FINAL, launched]}, END)
    assert counted(data) == [(5, 4, 3, 2), (0, 1, 0, 0)]


def test_two_contexts_of_one_test_and_phase_add_up(read: Read) -> None:
    inputs = [[[20, True, "float16", 90], [4, False, "float32", 90]], [[8, True, "float16", 90], [40, True, "a", 90]]]
    rows = [[i + 1, 1, "3", [90], "", inputs[i], 2**63 - 5 if i else 4, i, 0, 0] for i in range(2)]
    closes = [CLOSE | {"context": i, "rows": [rows[i]]} for i in range(2)]
    (row,) = read(HEAD, TABLE, VIEW, *closes, END).rows
    assert row[8:12] == (2**63 - 1, 1, 0, 0)
    assert [values[0] for values in row.inputs] == [20, 4, 40]


def test_a_shard_whose_process_still_runs_is_read_again_if_it_grew(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the lines and the array a context may be closed and its slot used again: then the lines have grown."""
    import dispatchcov.shard_read as module

    read(HEAD, TABLE, VIEW, CONTEXT, ROW, counts=[5, 0, 0, 0])
    real, calls = module._array, []

    def array(path: str, name: str) -> Any:
        if not calls:
            with open(path, "a", encoding="utf-8") as stream:
                for line in (CLOSE, CONTEXT | {"id": 3, "test": "u"}, ROW | {"context": 3, "id": 2}):
                    stream.write(json.dumps(line, separators=(",", ":")) + "\n")
            Path(path + COUNTS).write_bytes((9).to_bytes(8, "little") + bytes(24))
        calls.append(name)
        return real(path, name)

    monkeypatch.setattr(module, "_array", array)
    path = next(path for path in Path(str(monkeypatch) and os.environ["PYTEST_TMP"]).iterdir())
    assert path

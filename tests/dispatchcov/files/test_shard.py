from __future__ import annotations

import errno
import json
import os
import re
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchcov import store
from dispatchcov.errors import DataError
from dispatchcov.files import shard_read, untrusted
from dispatchcov.files.flight_read import beside
from dispatchcov.files.shard import COUNTS, SLOTS, WIDTH, ShardWriter, shard_name
from dispatchcov.files.shard_lines import MAX_PROBLEMS, ShardLines
from dispatchcov.files.shard_read import read_shard
from dispatchcov.flight import FLIGHT
from dispatchcov.recorder import Recorder
from dispatchcov.records import Data
from tests.dispatchcov.recording import TEXT, demo, facts, run_script

NAME = ".dispatchcov.host.12.0123456789ab.jsonl"
HEAD = {
    "k": "shard", "format": 1, "name": NAME, "run": "r", "host": "host", "pid": 12,
    "started": "2026-01-01T00:00:00+00:00", "counts": f"{NAME}{COUNTS}",
    "flight": f"{NAME}{FLIGHT}",
}  # fmt: skip
TABLE = {"k": "table", "digest": "d" * 64, "op": "demo::record", "source": "demo.toml", "text": TEXT}
VIEW = {"k": "view", "id": 1, "digest": "d" * 64, "machine": "cpu"}
INPUT = [8, True, "float16", 90]
ROW = {
    "k": "row", "context": 2, "test": "t.py::t", "phase": "call", "id": 1, "view": 1, "vector": "3", "hardware": [90],
    "kernel": "", "inputs": [INPUT], "slot": 0,
}  # fmt: skip
FINAL = [1, 1, "3", [90], "", [INPUT], 5, 4, 3, 2]
CLOSE = {"k": "close", "context": 2, "test": "t.py::t", "phase": "call", "rows": [FINAL]}
OUTCOME = {"k": "outcome", "test": "t.py::t", "outcome": "passed"}
PARTIAL = {"k": "partial", "reason": "interrupted"}
NOTE = {"k": "note", "text": "no CUDA device"}
END = {"k": "end"}
WHOLE: list[dict[str, Any]] = [HEAD, TABLE, VIEW, ROW, CLOSE, OUTCOME, PARTIAL, NOTE, END]

Read = Callable[..., Data]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read lines, each an object or text, as a shard beside an array of ``counts``."""

    def reader(*lines: Any, counts: list[int] | bytes | None = None) -> Data:
        texts = [line if isinstance(line, str) else json.dumps(line, separators=(",", ":")) + "\n" for line in lines]
        path = tmp_path / NAME
        path.write_bytes("".join(texts).encode("utf-8", "surrogateescape"))
        if counts is not None:
            content = counts if isinstance(counts, bytes) else array("q", counts).tobytes()
            (tmp_path / (NAME + COUNTS)).write_bytes(content)
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
    assert re.fullmatch(rf"/data/\.dispatchcov\.gpu-node-7----\.{os.getpid()}\.[0-9a-f]{{12}}\.jsonl", name)
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
        recorder.remark("what")
        assert recorder.shard is not None
        path = recorder.shard.path
    with open(path, encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    kinds = [line["k"] for line in lines]
    assert kinds == ["shard", "table", "view", "row", "outcome", "partial", "note", "close", "end"]
    samples = {line["k"]: line for line in WHOLE}
    assert {line["k"]: list(line) for line in lines} == {kind: list(sample) for kind, sample in samples.items()}


# --- reading what is in order -----------------------------------------------------------------------------------------


def test_a_whole_shard(read: Read) -> None:
    data = read(*WHOLE)
    (shard,), (table,), (row,), (outcome,) = data.shards, data.tables, data.rows, data.outcomes
    assert (shard.name, shard.run, shard.host, shard.pid, shard.lines) == (NAME, "r", "host", 12, len(WHOLE))
    assert (shard.partial, shard.ended, shard.problems) == (("interrupted",), True, ())
    assert shard.notes == ("no CUDA device",)
    assert (table.digest, table.op, table.source, table.text) == ("d" * 64, "demo::record", "demo.toml", TEXT)
    assert row == (
        NAME, "d" * 64, "cpu", "t.py::t", "call", 3, (90,), "", 5, 4, 3, 2, ((8, True, "float16", 90),), True, 0,
    )  # fmt: skip
    assert outcome == (NAME, "t.py::t", "passed")


def test_a_copy_keeps_the_name(read: Read, tmp_path: Path) -> None:
    data = read(*WHOLE)
    os.rename(tmp_path / NAME, tmp_path / "artifact (1).txt")
    assert read_shard(tmp_path / "artifact (1).txt") == data


def test_a_vector_may_exceed_64_bits(read: Read) -> None:
    (row,) = read(HEAD, TABLE, VIEW, CLOSE | {"rows": [[1, 1, "f" * 40, *FINAL[3:]]]}).rows
    assert row.vector == 2**160 - 1


def test_rows_in_progress_take_their_counts_from_the_array(read: Read) -> None:
    other = ROW | {"id": 2, "slot": 1, "vector": "1"}
    data = read(HEAD, TABLE, VIEW, ROW, other, counts=[7, 6, 0, 1, 0, 2, 0, 0])
    assert counted(data) == [(7, 6, 0, 1), (0, 2, 0, 0)]
    assert [row.finished for row in data.rows] == [False, False]
    assert not data.shards[0].ended


@pytest.mark.parametrize("counts", [None, b"", b"1234567", [0, 0, 0, 0], [1, 0]])
def test_a_row_that_the_array_does_not_know_was_selected_once(read: Read, counts: Any) -> None:
    data = read(HEAD, TABLE, VIEW, ROW | {"slot": 3}, counts=counts)
    assert counted(data) == [(1, 0, 0, 0)]


@pytest.mark.parametrize(("counts", "lost"), [(None, 1), (b"", 1), ([0, 0, 0, 0], 0)])
def test_counts_that_are_not_beside_their_shard_are_told(read: Read, counts: Any, lost: int) -> None:
    (shard,) = read(HEAD, TABLE, VIEW, ROW, counts=counts).shards
    told = f"the counts of process 12 are lost: {NAME}{COUNTS} is not beside its shard"
    assert shard.partial == (told,) * lost
    assert shard.notes == (f"{told}; 1 rows count what was written before, or 1",) * lost
    (ended,) = read(HEAD, TABLE, VIEW, ROW, CLOSE, END, counts=None).shards
    assert (ended.partial, ended.notes) == ((), ())


def test_rows_in_progress_may_say_their_counts_themselves(read: Read) -> None:
    later = {key: value for key, value in ROW.items() if key != "slot"} | {"counts": [8, 7, 0, 0]}
    data = read(HEAD, TABLE, VIEW, ROW, later, counts=[9, 9, 9, 9])
    assert counted(data) == [(8, 7, 0, 0)]


def test_the_slot_of_a_closed_context_is_not_looked_at(read: Read) -> None:
    """After the close line the slot may count for another row."""
    again = [ROW | {"context": 3, "test": "u", "id": 2}]
    data = read(HEAD, TABLE, VIEW, ROW, CLOSE, *again, counts=[70, 0, 0, 0])
    assert [(row.test, row.selected, row.finished) for row in data.rows] == [("t.py::t", 5, True), ("u", 70, False)]
    data = read(HEAD, TABLE, VIEW, ROW, CLOSE | {"rows": []}, *again, counts=[70, 0, 0, 0])
    assert [(row.test, row.selected, row.finished) for row in data.rows] == [("u", 70, False)]


def test_a_row_of_a_closed_context_does_not_count_however_it_is_written(read: Read) -> None:
    turned = {"k": "row", **dict(reversed(ROW.items()))}
    assert list(turned)[-1] == "context"
    data = read(HEAD, TABLE, VIEW, turned, json.dumps(ROW) + "\n", CLOSE, counts=[70, 0, 0, 0])
    assert counted(data) == [(5, 4, 3, 2)]


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
    rows = [[i + 1, 1, "3", [90], "", inputs[i], 2**63 - 1 if i else 4, i, 0, 0] for i in range(2)]
    closes = [CLOSE | {"context": i, "rows": [rows[i]]} for i in range(2)]
    (row,) = read(HEAD, TABLE, VIEW, *closes, END).rows
    assert row[8:12] == (2**63 - 1, 1, 0, 0)
    assert [values[0] for values in row.inputs] == [20, 4, 40, 8]


def test_a_shard_that_grew_while_it_was_read_is_read_again(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between lines and array a context may be closed and its slot used again, but then there are more lines."""
    read(HEAD, TABLE, VIEW, ROW, counts=[5, 0, 0, 0])
    real = beside
    calls: list[str] = []

    def grow(path: str, name: str, most: int) -> Any:
        if not calls and name:
            later = (CLOSE, ROW | {"context": 3, "test": "u", "id": 2})
            with open(path, "a", encoding="utf-8") as stream:
                stream.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in later)
            Path(path + COUNTS).write_bytes((9).to_bytes(8, sys.byteorder) + bytes(24))
        calls.append(name)
        return real(path, name, most)

    monkeypatch.setattr(shard_read, "beside", grow)
    data = read_shard(tmp_path / NAME)
    assert [(row.test, row.selected, row.finished) for row in data.rows] == [("t.py::t", 5, True), ("u", 9, False)]
    assert len(calls) == 2


# --- reading what is not ----------------------------------------------------------------------------------------------


def test_cut_anywhere_the_whole_lines_are_read(read: Read, tmp_path: Path) -> None:
    read(*WHOLE)
    whole = (tmp_path / NAME).read_bytes()
    ends = [place + i for place, byte in enumerate(whole) if byte == 10 for i in (-1, 0, 1)]
    for size in sorted({*range(0, len(whole), 7), *ends}):
        (tmp_path / NAME).write_bytes(whole[:size])
        data = read_shard(tmp_path / NAME)
        lines = whole[:size].count(b"\n") + (whole[size : size + 1] == b"\n")
        assert [shard.problems for shard in data.shards] == [()] * (lines > 0)
        assert [shard.lines for shard in data.shards] == [lines] * (lines > 0)
        assert counted(data) == [(5, 4, 3, 2)] * (lines > 4) + [(1, 0, 0, 0)] * (lines == 4)
        assert len(data.outcomes) == (lines > 5)


def test_an_empty_file_is_a_shard_without_records(read: Read) -> None:
    assert read() == Data()


@pytest.mark.parametrize(
    "content",
    ["hello", "hello\n", "{}\n", "[]\n", "\n", "null\n", '{"k":"end"}\n', "\0" * 500, "SQLite format 3\0", "\udcff\n"],
)
def test_a_foreign_file_is_refused(read: Read, tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError) as caught:
        read(content)
    wanted = f'{tmp_path / NAME}:1: expected a shard, whose first line is {{"k":"shard",...}}, got '
    assert str(caught.value).startswith(wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "expected shard format 1, got 2; a later version of dispatchcov wrote it"),
        ({"format": 0}, "expected shard format 1, got 0"),
        ({"format": "1"}, 'expected shard format 1, got "1"'),
        ({"format": True}, "expected shard format 1, got true"),
        ({"pid": "12"}, "expected a line 'shard' with name, run, host, started, counts, flight (text) and pid"),
        ({"pid": -1}, "expected a line 'shard' with"),
        ({"run": 7}, "expected a line 'shard' with"),
        ({"counts": None}, "expected a line 'shard' with"),
        ({"flight": None}, "expected a line 'shard' with"),
    ],
)
def test_a_first_line_of_another_kind_is_refused(read: Read, tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(f'{tmp_path / NAME}:1: {message}')}"):
        read(HEAD | change, END)


@pytest.mark.parametrize("kind", ["none", "directory", "fifo", "large"])
def test_what_is_no_file_of_bounded_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    path = tmp_path / NAME
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "large":
        path.write_text("x" * 100)
        monkeypatch.setattr(shard_read, "MAX_BYTES", 99)
    wanted = {
        "none": "cannot read it: No such file or directory",
        "directory": "a regular file of at most 1073741824 bytes, got something else than a regular file",
        "fifo": "got something else than a regular file",
        "large": "a regular file of at most 99 bytes, got 100 bytes",
    }
    with pytest.raises(DataError, match=re.escape(wanted[kind])):
        read_shard(path)
    with pytest.raises(DataError, match="null"):
        read_shard("a\0b")


NOT_LINES = [
    "nonsense", "[1]", "3", "null", '"row"', "{}", '{"k":3}', '{"k":["row"]}', '{"k":"other"}', '{"k":"end"', "NaN",
    "[" * 100_000, '{"k":"end"}{"k":"end"}', '{"k":"outcome","test":"t","outcome":1e3}', "\udcff", "\0\0", "",
    '{"k":"outcome","test":"t","outcome":NaN}', "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("line", NOT_LINES, ids=lambda line: ascii(line[:20]))
def test_a_line_that_is_none_is_named_and_the_rest_kept(read: Read, line: str) -> None:
    data = read(*WHOLE[:4], line + "\n", *WHOLE[4:])
    assert counted(data) == [(5, 4, 3, 2)]
    assert re.match(r"line 5: expected a JSON object whose \"k\" is one of table, view, .*, got ", problem(data))
    assert len(problem(data)) < 300
    assert data.shards[0].ended
    assert data.shards[0].lines == len(WHOLE) + 1


WRONG_LINES: list[dict[str, Any]] = [
    {"k": "table"}, OUTCOME | {"test": None},
    TABLE | {"text": None}, TABLE | {"digest": ["d"]}, VIEW | {"id": "1"}, VIEW | {"digest": "e"},
    VIEW | {"digest": []}, VIEW | {"machine": 3}, OUTCOME | {"test": 3}, OUTCOME | {"outcome": {}}, {"k": "outcome"},
    PARTIAL | {"reason": None}, {"k": "partial"},
    NOTE | {"text": 3}, CLOSE | {"rows": 3}, CLOSE | {"rows": {}}, CLOSE | {"rows": "abc"},
    CLOSE | {"test": 1}, CLOSE | {"context": "2"}, CLOSE | {"context": None}, {"k": "close"}, {"k": "shard"},
]  # fmt: skip


@pytest.mark.parametrize("line", WRONG_LINES, ids=lambda line: ascii(line)[:40])
def test_a_line_with_wrong_fields_is_named_with_what_was_expected(read: Read, line: dict[str, Any]) -> None:
    data = read(*WHOLE[:5], line, *WHOLE[5:])
    assert counted(data) == [(5, 4, 3, 2)]
    kind = "a JSON object whose" if line["k"] == "shard" else f"a line '{line['k']}' with "
    assert problem(data).startswith(f"line 6: expected {kind}")


WRONG_VALUES: list[tuple[int, Any]] = [
    (0, "1"), (0, None), (0, True), (1, 7), (1, None), (1, [1]), (2, 3), (2, ""), (2, "0x1"), (2, "A"), (2, "1 "),
    (2, "-1"), (2, "1_0"), (2, None), (2, ["3"]), (2, "f" * 4097), (3, 90), (3, None), (3, [[90]]), (3, [None]),
    (3, {"a": 1}), (3, [10**80]), (4, None), (4, 3), (5, []), (5, {}), (5, None), (5, [8]), (5, [INPUT, [8]]),
    (5, [[None]]), (5, [[[8]]]), (5, ["abcd"]), (5, "ab"), (5, [[10**77 * 5]]), (5, [[{}]]), (6, -1), (6, 2**63),
    (6, "5"), (6, True), (6, None), (9, -1), (9, 10**4000), (9, [1]),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value"), WRONG_VALUES, ids=lambda value: ascii(value)[:20])
def test_a_row_with_a_wrong_value_is_named_and_the_others_kept(read: Read, place: int, value: Any) -> None:
    wrong = [*FINAL[:place], value, *FINAL[place + 1 :]]
    others = [[2, *FINAL[1:]], [3, 1, "1", *FINAL[3:]]]
    data = read(HEAD, TABLE, VIEW, CLOSE | {"rows": [others[0], wrong, others[1]]}, END)
    assert counted(data) == [(5, 4, 3, 2)] * 2
    wanted = "line 4: expected a line 'close' with context (integer), test, phase (text), rows (lists of id, view"
    assert problem(data).startswith(wanted)


@pytest.mark.parametrize("row", [[], [1], FINAL[:-1], [*FINAL, 1], None, 3, "abcdefghij", {"id": 1}], ids=ascii)
def test_a_row_of_a_wrong_length_or_kind_is_named_and_the_others_kept(read: Read, row: Any) -> None:
    data = read(HEAD, TABLE, VIEW, CLOSE | {"rows": [row, [2, *FINAL[1:]]]}, END)
    assert counted(data) == [(5, 4, 3, 2)]
    assert problem(data).startswith("line 4: expected a line 'close' with ")


@pytest.mark.parametrize(
    "change",
    [
        {"id": "1"}, {"context": "2"}, {"test": 1}, {"phase": None}, {"view": 3}, {"vector": 3},
        {"hardware": 90}, {"kernel": None},
        {"inputs": []}, {"slot": "0"}, {"slot": -1}, {"slot": None}, {"counts": [1]}, {"counts": [1, 2, 3, -4]},
        {"counts": 3}, {"counts": ["a", 0, 0, 0]},
    ],
    ids=ascii,
)  # fmt: skip
def test_a_wrong_row_in_progress_is_named_and_the_others_kept(read: Read, change: dict[str, Any]) -> None:
    data = read(HEAD, TABLE, VIEW, ROW | {"id": 5}, ROW | change, counts=[7, 0, 0, 0])
    assert counted(data) == [(7, 0, 0, 0)]
    assert problem(data).startswith("line 5: expected a line 'row' with context (integer), test, phase (text), id")


@pytest.mark.parametrize("missing", [key for key in ROW if key != "k"])
def test_a_row_in_progress_without_a_field_is_named(read: Read, missing: str) -> None:
    data = read(HEAD, TABLE, VIEW, {key: value for key, value in ROW.items() if key != missing})
    assert data.rows == ()
    assert problem(data).startswith("line 4: expected a line 'row' with ")


def test_a_line_that_names_two_kinds_is_of_the_second(read: Read) -> None:
    data = read(HEAD, TABLE, VIEW, '{"k":"row","k":"close","context":7}\n', '{"k":"row","k":"end"}\n')
    assert problem(data).startswith("line 4: expected a line 'close' with ")
    assert data.shards[0].ended


def test_without_its_close_line_a_context_falls_back_to_its_rows_in_progress(read: Read) -> None:
    data = read(HEAD, TABLE, VIEW, ROW, "damaged\n", OUTCOME, END)
    assert [(row.selected, row.finished) for row in data.rows] == [(1, False)]
    assert problem(data).startswith("line 5: ")


def test_negative_counts_in_the_array_are_a_problem(read: Read) -> None:
    data = read(HEAD, TABLE, VIEW, ROW, counts=[5, -1, 0, 0])
    assert data.rows == ()
    assert problem(data).startswith("line 4: ")


def test_lines_after_the_end_are_a_problem(read: Read) -> None:
    for more in (OUTCOME, "garbage", '{"k":"par'):
        assert problem(read(*WHOLE, more)).startswith("line 10: expected nothing after the line 'end', got ")


def test_problems_are_listed_up_to_a_limit(read: Read) -> None:
    (shard,) = read(HEAD, *["x\n"] * 1000, *WHOLE[1:]).shards
    assert len(shard.problems) == MAX_PROBLEMS + 1
    assert shard.problems[-1] == "and more"
    assert shard.lines == 1000 + len(WHOLE)


def test_halves_of_surrogate_pairs_are_written_out(read: Read) -> None:
    """Neither a terminal nor SQLite takes them, and paths that are not UTF-8 have them."""
    data = read(HEAD, TABLE | {"source": "\udcff.toml"}, VIEW, CLOSE | {"test": "t[\U0001f600\ud800]"}, END)
    assert data.tables[0].source == "\\udcff.toml"
    assert data.rows[0].test == "t[\U0001f600\\ud800]"


@pytest.mark.parametrize("where", ["../secret", "/etc/passwd", "sub/array", "..", ".", "a\0b", "link", "fifo", "none"])
def test_no_array_is_opened_but_a_plain_file_beside_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    seven = (7).to_bytes(8, sys.byteorder) * 4
    for path in (tmp_path / "secret", folder / "sub" / "array"):
        path.write_bytes(seven)
    (folder / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "fifo")
    lines = [HEAD | {"counts": where}, TABLE, VIEW, ROW]
    (folder / NAME).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    assert counted(read_shard(folder / NAME)) == [(1, 0, 0, 0)]
    monkeypatch.chdir(folder)
    assert counted(read_shard(NAME)) == [(1, 0, 0, 0)]
    (folder / where.replace("/", "_")).unlink(missing_ok=True) if where in ("link", "fifo") else None
    if where == "none":
        (folder / where).write_bytes(seven)
        assert counted(read_shard(NAME)) == [(7, 7, 7, 7)]


ATOMS = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.integers(), st.text(max_size=3), st.floats())
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A shard with some lines changed in a field, some bytes changed, and an end anywhere."""
    lines: list[dict[str, Any]] = [{**line} for line in WHOLE]
    for _ in range(draw(st.integers(0, 3))):
        line = draw(st.sampled_from(lines))
        key = draw(st.sampled_from(sorted(line)))
        if key == "rows" and draw(st.booleans()):
            row = list(FINAL)
            row[draw(st.integers(0, len(row) - 1))] = draw(VALUES)
            line[key] = [row, [2, *FINAL[1:]]]
        else:
            line[key] = draw(VALUES)
    order = draw(st.permutations(lines[1:])) if draw(st.booleans()) else lines[1:]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (lines[0], *order))
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.integers(0, 3))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.integers(0, len(content)))] if draw(st.booleans()) else content)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=damaged(), counts=st.binary(max_size=40))
def test_from_damaged_shards_comes_data_that_can_be_kept_or_a_data_error(
    tmp_path: Path, content: bytes, counts: bytes
) -> None:
    path = tmp_path / NAME
    path.write_bytes(content)
    (tmp_path / (NAME + COUNTS)).write_bytes(counts)
    try:
        data = read_shard(path)
    except DataError:
        return
    assert store.merge(data, data) == store.merge(data)
    store.save(tmp_path / "kept", data)
    assert store.load(tmp_path / "kept", shards=False) == store.merge(data) if data.shards else True


def finals() -> st.SearchStrategy[list[list[Any]]]:
    fact = st.one_of(st.integers(0, 3), st.booleans(), st.sampled_from(["a", "é"]))
    count = st.integers(0, 2)
    row = st.tuples(
        st.integers(0, 9), st.just(1), st.sampled_from(["0", "1", "ff"]), st.lists(fact, max_size=1), st.just("k"),
        st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(fact, min_size=n, max_size=n), min_size=1, max_size=3)),
        count, count, count, count,
    )  # fmt: skip
    return st.lists(row.map(list), max_size=8)


@settings(max_examples=200, deadline=None)
@given(rows=finals())
def test_rows_read_all_at_once_are_those_read_one_by_one(rows: list[list[Any]]) -> None:
    readers = []
    for _ in range(2):
        lines = ShardLines("x")
        lines.first(HEAD)
        lines.take(enumerate([TABLE, VIEW, CLOSE | {"rows": rows}], 2))
        lines._check()
        readers.append(shard_read._Rows(lines, NAME))
    at_once = readers[0].final_rows()
    one_by_one = readers[1].each(readers[1].final_entries())
    assert at_once is None or at_once == one_by_one
    assert (at_once is None) == (len({row[0] for row in rows}) < len(rows))
    assert readers[1].lines.problems == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to mount a small file system")
def test_on_a_disk_that_is_really_full_nothing_is_lost_that_fitted(tmp_path: Path) -> None:
    script = """
import subprocess
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", sys.argv[1]], capture_output=True).returncode:
    print("no mount")
    sys.exit()
try:
    table = demo()
    with Recorder(os.path.join(sys.argv[1], "data")) as recorder:
        for test in range(30):
            recorder.enter(f"t{test}", "call")
            table.decide(**facts())
        filler = open(os.path.join(sys.argv[1], "filler"), "wb", buffering=0)
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
        for test in range(30, 60):
            recorder.enter(f"t{test}", "call")
            for sm in range(300):
                table.decide(**facts(sm=sm))
        assert "No space left" in recorder.lost, recorder.lost
        filler.truncate(0)
    from tests.dispatchcov.recording import recorded, totals
    assert not recorder.lost
    found = totals(recorded(os.path.join(sys.argv[1], "data")).rows)
    assert found == {(f"t{test}", "call"): (1 if test < 30 else 300, 0, 0, 0) for test in range(60)}, found
    print("fine")
finally:
    filler.close()
    subprocess.run(["umount", sys.argv[1]], check=True)
"""
    said = run_script(script, tmp_path).strip()
    if said == "no mount":
        pytest.skip("cannot mount here")
    assert said == "fine"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(damaged(), max_size=4), known=st.sampled_from([0, 5, 1000]))
def test_shards_read_together_are_as_read_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contents: list[bytes], known: int
) -> None:
    """Together, equal lines are parsed once."""
    monkeypatch.setattr(untrusted, "MAX_KNOWN", known)
    paths, alone = [], []
    for number, content in enumerate(contents):
        paths.append(str(tmp_path / f"{number}"))
        Path(paths[-1]).write_bytes(content)
        try:
            alone.append(read_shard(paths[-1]))
        except DataError:
            paths.pop()
    together = shard_read.read_shards(paths * 2)
    assert [data if data.rows or "is empty" not in str(data.shards) else Data() for data in together] == alone * 2


def test_a_shard_without_a_whole_line_says_so_among_others(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"k":"sha')
    (data,) = shard_read.read_shards([str(tmp_path / NAME)])
    (shard,) = data.shards
    told = f"{NAME} is empty: its process was killed as it began, or the disk was full"
    assert (shard.name, shard.partial, shard.notes, data.rows) == (NAME, (told,), (told,), ())

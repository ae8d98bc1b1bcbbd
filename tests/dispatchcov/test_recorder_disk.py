"""Recorders where there is no room: a full disk, a read-only folder, an array that cannot be mapped."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatchcov.errors import DataError
from dispatchcov.files.shard import COUNTS, SLOTS, WIDTH
from dispatchcov.files.shard_read import read_shard
from dispatchcov.recorder import Recorder, active
from tests.dispatchcov.recording import demo, facts, recorded, run_script, totals

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

"""Files from a stranger: whatever is in them, reading them gives data with problems or a DispatchcovError."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchcov import store
from dispatchcov.errors import DispatchcovError
from dispatchcov.files.checksum import AT
from dispatchcov.files.shard import COUNTS
from dispatchcov.flight import FLIGHT
from dispatchcov.gate import judge
from dispatchcov.records import Data
from dispatchcov.report import render
from dispatchcov.results import Results
from tests.dispatchcov.recording import resealed, run_script

FUZZ = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
INTERESTING = st.sampled_from(
    [b"", b"\x00", b"\xff" * 8, b"\n", b"{", b"}", b"[[[[", b'"', b"\\u0000", b"\\ud800", b"-1", b"9" * 40, b"1e999",
     b"NaN", b"null", b"true", b'{"k":"close"}', b'{"k":"end"}\n', b'"k"', b"../../x", b"\xed\xa0\x80"]
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.one_of(INTERESTING, st.binary(max_size=12))),
    min_size=1,
    max_size=5,
)
SCRIPT = """
table = demo()
recorder = Recorder(sys.argv[1], run="r").start()
for test in range(3):
    recorder.enter(f"t.py::test_{test}", "call")
    for n in (4, 8, 3):
        with table.decide(**facts(N=n)).launch():
            pass
    checked()
    recorder.outcome(f"t.py::test_{test}", "passed")
recorder.enter("t.py::test_last", "call")
table.decide(**facts()).launch().__enter__()
os._exit(3)
"""


@functools.cache
def files() -> tuple[str, dict[str, bytes], bytes]:
    """The name of a shard of a process that died, its files, and the data file that they make."""
    with tempfile.TemporaryDirectory() as folder:
        run_script(SCRIPT, os.path.join(folder, "data"), status=3)
        (shard,) = store.shards_beside(os.path.join(folder, "data"))
        kept = {end: Path(shard + end).read_bytes() for end in ("", COUNTS, FLIGHT)}
        store.combine(os.path.join(folder, "data"))
        return os.path.basename(shard), kept, Path(folder, "data").read_bytes()


def edited(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    """``content`` with some bytes, at a share of its length, replaced by others."""
    for where, length, new in edits:
        start = int(where * len(content))
        content = content[:start] + new + content[start + length :]
    return content


def used(data: Data) -> None:
    """All that a report does with data."""
    results = Results.of(data)
    verdict = judge(results)
    for kind in ("term-missing", "json", "markdown"):
        render(kind, results, verdict)


@FUZZ
@given(st.sampled_from(["", "", "", COUNTS, FLIGHT]), EDITS)
def test_shards(tmp_path: Path, end: str, edits: list[tuple[float, int, bytes]]) -> None:
    name, kept, _ = files()
    for each, content in kept.items():
        (tmp_path / f"{name}{each}").write_bytes(edited(content, edits) if each == end else content)
    try:
        used(store.load(tmp_path / "data"))
    except DispatchcovError:
        pass
    finally:
        assert {path.name for path in tmp_path.iterdir()} == {f"{name}{each}" for each in kept}


@FUZZ
@given(EDITS, st.booleans())
def test_data_files(tmp_path: Path, edits: list[tuple[float, int, bytes]], sealed: bool) -> None:
    path = tmp_path / "data"
    path.write_bytes(edited(files()[2], edits))
    if sealed and path.stat().st_size > AT:
        resealed(path)
    try:
        used(store.load(path))
        store.combine(path)
    except DispatchcovError:
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("kind", ["shard", "data file"])
def test_what_is_not_edited_is_read_whole(tmp_path: Path, kind: str) -> None:
    """The files that the tests above edit do hold records."""
    name, kept, data_file = files()
    if kind == "shard":
        for each, content in kept.items():
            (tmp_path / f"{name}{each}").write_bytes(content)
    else:
        (tmp_path / "data").write_bytes(data_file)
    data = store.load(tmp_path / "data")
    assert sum(row.selected for row in data.rows) == 10
    assert len(data.outcomes) == 3
    assert "in flight" in data.shards[0].notes[0]
    used(data)

"""A data file with another content than was written is refused; files from before there was a checksum are read."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.cli import main
from dispatchcov.errors import DataError
from dispatchcov.files import checksum
from dispatchcov.files.data_file import FORMAT
from dispatchcov.recorder import Recorder
from dispatchcov.records import Data
from tests.dispatchcov.recording import demo, facts, resealed

EARLIER = sorted((Path(__file__).parents[3] / "reports" / "h200").glob("*.dispatchcov"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with Recorder(str(path), run="r") as recorder:
        for test in range(30):
            recorder.enter(f"t.py::test_{test}", "call")
            demo().decide(**facts(N=test))
            recorder.outcome(f"t.py::test_{test}", "passed")
    store.combine(path, remove=True)
    return path


def test_no_single_bit_can_change(path: Path) -> None:
    whole = path.read_bytes()
    rnd = random.Random(7)
    bits = [*range(8 * 100), *range(8 * checksum.AT, 8 * (checksum.AT + 32))]
    for bit in bits + rnd.sample(range(8 * len(whole)), 600):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"expected a data file|expected data file format|expected the tables of"):
            store.load(path)
    path.write_bytes(whole)
    assert len(store.load(path).rows) == 30


def test_a_changed_file_is_named(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE outcomes SET outcome = 'passe$'")
    connection.close()
    for command in (["report"], ["combine"], ["combine", "--data", "other", str(path)]):
        assert main([*command, *(["--data", str(path)] if len(command) == 1 else [])]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"dispatchcov: {path}: expected a data file whose content has the SHA-256 ")
        assert said.endswith("...; the file is damaged or was changed\n")
    resealed(path)
    assert {outcome.outcome for outcome in store.load(path).outcomes} == {"passe$"}


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_the_checksum_is_in_its_table_and_the_file_is_sqlite(path: Path, rows: int) -> None:
    """Whatever the file holds, the checksum has the place that is computed for it."""
    data = store.load(path)
    many = tuple(row._replace(test=f"t.py::{i}") for i, row in enumerate((data.rows * 200)[:rows]))
    store.save(path, Data(data.tables, data.shards, many, data.outcomes) if rows else Data())
    content = path.read_bytes()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA user_version").fetchall() == [(FORMAT,)]
        ((kept,),) = connection.execute("SELECT sha256 FROM checksum")
    connection.close()
    assert content[checksum.AT : checksum.AT + 32] == kept != checksum.UNKNOWN
    assert path.read_bytes() == content
    assert len(store.load(path).rows) == rows


def test_a_file_that_would_have_no_place_for_it_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    monkeypatch.setattr(checksum, "AT", checksum.AT + 1)
    with pytest.raises(DataError, match=r"cannot write the data file: expected the place of the checksum at byte 8161"):
        store.save(path, Data())
    assert path.read_bytes() == before


@pytest.mark.parametrize("file", EARLIER, ids=lambda file: str(file.name))
def test_files_from_before_there_was_one_are_read(tmp_path: Path, file: Path) -> None:
    shutil.copy(file, tmp_path / "old")
    old = store.load(tmp_path / "old")
    assert int.from_bytes(file.read_bytes()[60:64], "big") == 2
    assert store.combine(tmp_path / "new", [tmp_path / "old"]) == store.load(tmp_path / "new") == old
    assert int.from_bytes((tmp_path / "new").read_bytes()[60:64], "big") == FORMAT
    assert (tmp_path / "old").read_bytes() == file.read_bytes()

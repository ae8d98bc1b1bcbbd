from __future__ import annotations

import os
from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.errors import DataError
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.records import Data
from dispatchcov.stale import brought_in, source_digests
from dispatchcov.table import Table
from tests.dispatchcov.build import SMALL

TEXT = SMALL.replace('name = "ScaleVec4"', 'name = "ScaleVec4"\nsources = ["vec4.cu", "common.cuh"]')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(TEXT)
    (tmp_path / "vec4.cu").write_text("kernel")
    (tmp_path / "common.cuh").write_text("common")
    return tmp_path


def recorded(table: Table, path: Path, machine: str) -> Data:
    with Recorder(str(path)):
        for n in (4, 3):
            table.on(machine).decide(N=n, aligned=True, dtype="float16")
    return store.combine(str(path), remove=True)


def kernels(data: Data, table: Table) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in data.rows:
        rule = "vec4" if row.inputs[0][0] == 4 else "scalar"
        found.setdefault(row.machine, set()).add(rule)
    return found


def test_fresh_records_of_another_machine_are_brought_in(folder: Path) -> None:
    table = load_table(folder / "small.toml")
    recorded(table, folder / "gpu", "H200")
    data = brought_in([str(folder / "gpu")], [], recorded(table, folder / "cpu", "cpu"))
    assert kernels(data, table) == {"cpu": {"vec4", "scalar"}, "H200": {"vec4", "scalar"}}
    notes = {note for shard in data.shards for note in shard.notes}
    assert notes == {f"2 decisions of H200 were brought in from {folder / 'gpu'}"}


@pytest.mark.parametrize("given", [True, False])
def test_a_changed_source_makes_its_kernel_stale_and_only_it(folder: Path, given: bool) -> None:
    recorded(load_table(folder / "small.toml"), folder / "gpu", "H200")
    (folder / "common.cuh").write_text("changed")
    table = load_table(folder / "small.toml")
    data = brought_in([str(folder / "gpu")], [table] if given else [], recorded(table, folder / "cpu", "cpu"))
    assert kernels(data, table) == {"cpu": {"vec4", "scalar"}, "H200": {"scalar"}}
    notes = {note for shard in data.shards for note in shard.notes}
    (came,) = (note for note in notes if "brought in" in note)
    assert came.startswith("1 decision of H200 was brought in from")
    (note,) = notes - {came}
    assert note.endswith("1 decisions count for nothing: demo::scale: the sources of ScaleVec4 have changed")


def test_a_changed_table_makes_all_of_it_stale(folder: Path) -> None:
    recorded(load_table(folder / "small.toml"), folder / "gpu", "H200")
    (folder / "small.toml").write_text(TEXT.replace("N % 4 == 0 and", "N % 8 == 0 and"))
    table = load_table(folder / "small.toml")
    data = brought_in([str(folder / "gpu")], [], recorded(table, folder / "cpu", "cpu"))
    assert set(kernels(data, table)) == {"cpu"}
    assert any("made with table digest" in note for shard in data.shards for note in shard.notes)


def test_a_file_that_is_not_there_is_an_error(folder: Path) -> None:
    with pytest.raises(DataError, match=r"none: expected a data file to bring in, got none"):
        brought_in([str(folder / "none")], [], Data())


def test_sources_are_read_below_the_table_and_nowhere_else(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for source in ("../secret", "/dev/zero", "pipe", "none.cu", "."):
        (folder / "small.toml").write_text(TEXT.replace("vec4.cu", source))
        assert source_digests(load_table(folder / "small.toml")) == {}
    assert source_digests(parse_table(TEXT, source=str(folder / "small.toml"))) == {}
    (folder / "small.toml").write_text(TEXT)
    assert set(source_digests(load_table(folder / "small.toml"))) == {"ScaleVec4"}

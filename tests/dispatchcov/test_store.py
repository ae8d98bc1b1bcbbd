from __future__ import annotations

import dataclasses
import os
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchcov import store
from dispatchcov.errors import DataError, DigestError
from dispatchcov.files import data_file, data_file_read
from dispatchcov.files.shard import COUNTS
from dispatchcov.flight import FLIGHT
from dispatchcov.recorder import Recorder
from dispatchcov.records import UNENDED, Data, Outcome, Row, Shard, TableText
from dispatchcov.store import combine, erase, load, merge, save, shards_beside
from tests.dispatchcov.recording import demo, facts, resealed, run_script, totals

TABLES = (TableText("d1", "op::a", "a.toml", "text a"), TableText("d2", "op::b", "b.toml", "text b"))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / ".dispatchcov")


def record_run(path: str, run: str = "r", decisions: int = 3) -> None:
    """A shard beside ``path`` with two tests."""
    with Recorder(path, run=run) as recorder:
        for test in ("t.py::a", "t.py::b"):
            recorder.enter(test, "call")
            for n in range(decisions):
                demo().decide(**facts(N=n))
            recorder.outcome(test, "passed")


def shard(name: str = "s1", lines: int = 5, **changes: Any) -> Shard:
    return dataclasses.replace(Shard(name, "r", "h", 1, "2026-01-01T00:00:00+00:00", lines), **changes)


def row(name: str = "s1", **changes: Any) -> Row:
    return Row(name, "d1", "cpu", "t", "call", 1, (90,), "", 1, 0, 0, 0, ((8, True, "a"),))._replace(**changes)


# --- merging ----------------------------------------------------------------------------------------------------------


@st.composite
def copies(draw: st.DrawFn) -> Data:
    """What one reader may know of shards ``s0`` to ``s2``: longer or shorter copies, with rows of two tables."""
    tables, shards, rows, outcomes = [], [], [], []
    for name in draw(st.lists(st.sampled_from(["s0", "s1", "s2"]), unique=True)):
        shards.append(shard(name, draw(st.integers(1, 3)), ended=draw(st.booleans())))
        for test in draw(st.lists(st.sampled_from("tuv"), unique=True, max_size=2)):
            digest = draw(st.sampled_from(["d1", "d2"]))
            counts = draw(st.tuples(*[st.integers(0, 2)] * 4).filter(any))
            values = dict(zip(("selected", "launched", "observed", "checked"), counts, strict=True))
            rows.append(row(name, test=test, digest=digest, finished=draw(st.booleans()), **values))
            outcomes.append(Outcome(name, test, draw(st.sampled_from(["passed", "failed"]))))
    for table in TABLES:
        if draw(st.booleans()) or any(r.digest == table.digest for r in rows):
            tables.append(dataclasses.replace(table, source=draw(st.sampled_from(["a.toml", "z.toml"]))))
    return Data(tuple(tables), tuple(shards), tuple(rows), tuple(outcomes))


@settings(max_examples=200, deadline=None)
@given(a=copies(), b=copies(), c=copies())
def test_merging_is_associative_commutative_and_idempotent(a: Data, b: Data, c: Data) -> None:
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c)) == merge(c, b, a)
    assert merge(a, a) == merge(a) == merge(merge(a)) == merge(a, Data())
    assert merge(merge(a, b), b) == merge(a, b)


@settings(max_examples=100, deadline=None)
@given(a=copies(), b=copies())
def test_merging_takes_each_shard_whole_from_its_later_copy(a: Data, b: Data) -> None:
    merged = merge(a, b)
    for one in merged.shards:
        known = [copy for data in (a, b) for copy in data.shards if copy.name == one.name]
        assert (one.lines, one.ended) == max((copy.lines, copy.ended) for copy in known)
        rows = [r for r in merged.rows if r.shard == one.name]
        assert rows in [[r for r in data.rows if r.shard == one.name] for data in (a, b)]
    assert [one.name for one in merged.shards] == sorted({one.name for data in (a, b) for one in data.shards})


def test_two_runs_add_up_and_one_run_twice_does_not() -> None:
    first = Data(TABLES[:1], (shard("s1"),), (row("s1", selected=3),))
    second = Data(TABLES[:1], (shard("s2"),), (row("s2", selected=3),))
    assert totals(merge(first, second).rows) == {("t", "call"): (6, 0, 0, 0)}
    assert totals(merge(first, second, first).rows) == {("t", "call"): (6, 0, 0, 0)}


def test_exact_counts_hold_over_at_least_counts_of_a_copy_without_the_array() -> None:
    exact = Data(TABLES[:1], (shard(),), (row(selected=70, finished=False),))
    least = Data(TABLES[:1], (shard(),), (row(selected=1, finished=False),))
    assert merge(least, exact) == merge(exact, least) == exact


def test_merging_nothing_gives_nothing() -> None:
    assert merge() == Data()


def test_two_versions_of_a_table_are_refused_by_name() -> None:
    old = Data((TableText("d" * 64, "op::a", "old.toml", ""),), (shard("s1"),), (row("s1", digest="d" * 64),))
    new = Data((TableText("e" * 64, "op::a", "new.toml", ""),), (shard("s2"),), (row("s2", digest="e" * 64),))
    message = r"op::a: expected records of one version of the table, got dddddddddddd \(s1, old\.toml\) and "
    with pytest.raises(DigestError, match=message + r"eeeeeeeeeeee \(s2, new\.toml\)"):
        merge(new, old)
    many = [Data(new.tables, (shard(f"x{i}"),), (row(f"x{i}", digest="e" * 64),)) for i in range(9)]
    with pytest.raises(DigestError, match=r"\(x0, x1, x2 and 6 more, new\.toml\)"):
        merge(old, *many)
    with pytest.raises(DigestError, match=r"eeeeeeeeeeee \(new\.toml\)"):
        merge(old, Data(new.tables))


# --- the data file ----------------------------------------------------------------------------------------------------


KINDS: dict[type, st.SearchStrategy[Any]] = {
    bool: st.booleans(), int: st.one_of(st.integers(0, 3), st.integers(-(2**255), 2**255)), str: st.text(max_size=4)
}  # fmt: skip
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


@st.composite
def any_data(draw: st.DrawFn) -> Data:
    """Data with all values that may occur; within one table the types of inputs are fixed."""
    shards = tuple(
        shard(name, draw(st.integers(0, 2**62)), ended=draw(st.booleans()), partial=(draw(TEXTS),), notes=("n",))
        for name in sorted(draw(st.sets(TEXTS, max_size=3)))
    )
    some = st.sampled_from([True, 1, "x"])
    shapes = {table.digest: (draw(some), draw(some)) for table in TABLES}
    rows = []
    for one in shards:
        for _ in range(draw(st.integers(0, 3))):
            digest = draw(st.sampled_from(["d1", "d2"]))
            same = [KINDS[type(shape)] for shape in shapes[digest]]
            inputs = tuple(draw(st.lists(st.tuples(*same), min_size=1, max_size=3, unique=True)))
            counts = [draw(st.integers(0, 2**63 - 1)) for _ in range(4)]
            texts = [draw(TEXTS) for _ in range(3)]
            what = (draw(st.integers(0, 2**200)), inputs[0][:1], draw(TEXTS))
            time = draw(st.integers(0, 2**63 - 1))
            rows.append(Row._make((one.name, digest, *texts, *what, *counts, inputs, draw(st.booleans()), time)))
    outcomes = tuple(Outcome(one.name, draw(TEXTS), draw(TEXTS)) for one in shards)
    return Data(TABLES, shards, tuple(rows), outcomes)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=any_data())
def test_what_is_saved_is_loaded(tmp_path: Path, data: Data) -> None:
    save(tmp_path / "kept", data)
    again = load(tmp_path / "kept", shards=False) if data.shards or data.tables else data
    assert again == merge(data)
    facts_of = [[list(map(type, values)) for values in r.inputs] for r in merge(data).rows]
    assert [[list(map(type, values)) for values in r.inputs] for r in again.rows] == facts_of
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_one_and_true_stay_apart_between_tables(path: str) -> None:
    rows = (row(digest="d1", inputs=((1,),), hardware=(1,)), row(digest="d2", inputs=((True,),), hardware=(True,)))
    save(path, Data(TABLES, (shard(),), rows))
    found = load(path).rows
    assert [(type(r.inputs[0][0]), type(r.hardware[0])) for r in found] == [(int, int), (bool, bool)]


NAMES = ["a?b", "a#b", "a%41b", "a b", "a&mode=rwc", "é", "file:x", ":memory:", "-x", "'\"", "\udcff"]


@pytest.mark.parametrize("name", NAMES)
def test_any_file_name_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = Data(TABLES[:1], (shard(),), (row(),))
    folder = tmp_path / name
    folder.mkdir()
    for place in (folder / name, tmp_path / f"{name}.data"):
        save(place, data)
        assert load(place) == data
    monkeypatch.chdir(folder)
    record_run(name)
    assert len(shards_beside(name)) == 1
    assert len(combine(name, remove=True).shards) == 2
    assert os.listdir(folder) == [name]
    assert erase(name) == 1
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}.data"])


def test_the_schema_is_documented_column_by_column(path: str) -> None:
    save(path, Data())
    with sqlite3.connect(path) as connection:
        for name, columns in data_file.TABLES.items():
            info = connection.execute(f"PRAGMA table_info({name})").fetchall()
            assert len(info) == columns
            for _, column, *_ in info:
                assert f" {column} " in data_file.SCHEMA
    connection.close()


def test_a_data_file_is_replaced_whole_or_not_at_all(
    path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = Data(TABLES[:1], (shard(),), (row(),))
    save(path, first)

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, fail)
            with pytest.raises(DataError, match=r"dispatchcov: cannot write the data file: No space left on device"):
                save(path, Data())
    with pytest.raises(DataError, match="expected the shard and the table of each row, got none called 's1'"):
        save(path, Data(TABLES, (), (row(),)))
    with pytest.raises(DataError, match=r"cannot write the data file: .*surrogates not allowed"):
        save(path, Data((dataclasses.replace(TABLES[0], source="\udcff"),)))
    assert os.listdir(tmp_path) == [".dispatchcov"]
    assert load(path) == first


def test_a_data_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none/data: cannot write the data file: No such file or directory"):
        save(tmp_path / "none" / "data", Data())
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="folder: cannot write the data file: Is a directory"):
        save(tmp_path / "folder", Data())
    assert os.listdir(tmp_path) == ["folder"]


KILLED_WHILE_SAVING = """
from dispatchcov import store
data = store.load(sys.argv[1])
rows = tuple(row._replace(shard=shard.name) for shard in data.shards for row in data.rows for _ in range(2000))
os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
store.save(sys.argv[1], type(data)(data.tables, data.shards, rows, data.outcomes))
"""


def test_killed_while_saving_the_old_data_file_is_there(path: str, tmp_path: Path) -> None:
    record_run(path)
    before = combine(path, remove=True)
    run_script(KILLED_WHILE_SAVING, path, status=-9)
    assert load(path) == before
    assert len(os.listdir(tmp_path)) == 2
    assert erase(path) == 2
    assert os.listdir(tmp_path) == []


# --- data files of others ---------------------------------------------------------------------------------------------


def sqlite_file(path: str, *statements: str) -> None:
    with sqlite3.connect(path, isolation_level=None) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


FOREIGN: dict[str, tuple[Callable[[str], Any], str]] = {
    "empty": (lambda p: Path(p).write_bytes(b""), "a data file of dispatchcov, got an empty file"),
    "text": (lambda p: Path(p).write_text("hello" * 99), "got a file that begins with b'hellohellohelloh'"),
    "sqlite": (lambda p: sqlite_file(p, "CREATE TABLE rows (x)"), "got another program's SQLite file"),
    "directory": (os.mkdir, "got something else than a regular file"),
    "fifo": (os.mkfifo, "got something else than a regular file"),
    "link to nothing": (lambda p: os.symlink("nowhere", p), "cannot read it: No such file or directory"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_and_left_alone(path: str, tmp_path: Path, kind: str) -> None:
    make, message = FOREIGN[kind]
    make(path)
    record_run(path)
    for action in (load, combine):
        with pytest.raises(DataError) as caught:
            action(path)
        assert str(caught.value).startswith(f"{path}: expected a data file")
        assert message in str(caught.value)
    with pytest.raises(DataError, match="expected a data file of dispatchcov, got another file; it is not removed"):
        erase(path)
    assert len(os.listdir(tmp_path)) == 2


CHANGES = {
    "later": ("PRAGMA user_version=4", "data file format 3, got 4; a later version of dispatchcov wrote it"),
    "earlier": ("PRAGMA user_version=1", "expected data file format 3, got 1"),
    "no checksum": ("PRAGMA user_version=2", "the tables of data file format 2, got a difference in 'CREATE TABLE ch"),
    "view": ("CREATE VIEW more AS SELECT 1", "the tables of data file format 3, got a difference in 'CREATE VIEW"),
    "trigger": ("CREATE TRIGGER t AFTER INSERT ON rows BEGIN SELECT 1; END", "got a difference in 'CREATE TRIGGER"),
    "column": ("ALTER TABLE rows ADD COLUMN more", "got a difference in"),
    "no table": ("DROP TABLE outcomes", "got a difference in 'CREATE TABLE outcomes"),
    "text for a count": ("UPDATE rows SET selected = 'x'", "into table rows, got others"),
    "fraction": ("UPDATE rows SET selected = 1.5", "into table rows, got others"),
    "negative": ("UPDATE rows SET checked = -1", "into table rows, got others"),
    "null": ("UPDATE rows SET finished = NULL", "into table rows, got others"),
    "neither": ("UPDATE rows SET finished = 2", "into table rows, got others"),
    "no context": ("UPDATE rows SET context = 999", "into table rows, got others"),
    "no decision": ("UPDATE rows SET decision = NULL", "into table rows, got others"),
    "no test": ("UPDATE contexts SET test = 999", "into table contexts, got others"),
    "phase": ("UPDATE contexts SET phase = x'00'", "into table contexts, got others"),
    "no shard": ("UPDATE rows SET shard = 999", "into table rows, got others"),
    "no digest": ("UPDATE decisions SET digest = 'd1'", "into table decisions, got others"),
    "machine": ("UPDATE decisions SET machine = NULL", "into table decisions, got others"),
    "vector": ("UPDATE decisions SET vector = kernel", "into table decisions, got others"),
    "inputs": ("UPDATE decisions SET inputs = '[[1, 2], [1, 2, 3]]'", "into table decisions, got others"),
    "hardware": ("UPDATE decisions SET hardware = inputs", "into table decisions, got others"),
    "json": ("UPDATE decisions SET inputs = '[[NaN]]'", "into table decisions, got others"),
    "deep": ("UPDATE decisions SET inputs = printf('%.*c', 90000, '[')", "into table decisions, got others"),
    "long": ("UPDATE decisions SET hardware = replace(hex(zeroblob(90)), '0', '9')", "into table decisions"),
    "bytes": ("UPDATE tests SET test = x'ff'", "into table tests, got others"),
    "not utf-8": ("UPDATE tests SET test = CAST(x'ff' AS TEXT)", "a data file, cannot read it: Could not decode"),
    "name": ("UPDATE shards SET name = NULL", "into table shards, got others"),
    "partial": ("UPDATE shards SET partial = '[1]'", "into table shards, got others"),
    "notes": ("UPDATE shards SET notes = '\"a\"'", "into table shards, got others"),
    "problems": ("UPDATE shards SET problems = '{}'", "into table shards, got others"),
    "pid": ("UPDATE shards SET pid = 'x'", "into table shards, got others"),
    "table": ("UPDATE tables SET text = x'00'", "into table tables, got others"),
    "outcome": ("UPDATE outcomes SET outcome = NULL", "into table outcomes, got others"),
    "huge": ("INSERT INTO tests VALUES (777, zeroblob(600000))", "cannot read it: string or blob too big"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_data_file_with_other_contents_is_refused(path: str, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    statement, message = CHANGES[change]
    record_run(path)
    combine(path, remove=True)
    sqlite_file(path, statement)
    resealed(path)
    monkeypatch.setattr(data_file_read, "MAX_TEXT", 500_000)
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: expected ")
    assert message in str(caught.value)


def test_a_cut_data_file_is_refused(path: str) -> None:
    record_run(path)
    combine(path, remove=True)
    whole = Path(path).read_bytes()
    for size in (0, 99, 100, 4096, len(whole) // 2 // 4096 * 4096, len(whole) - 1):
        Path(path).write_bytes(whole[:size])
        with pytest.raises(DataError, match="expected a data file"):
            load(path)


def test_from_damaged_data_files_comes_data_or_a_data_error(path: str) -> None:
    record_run(path, decisions=40)
    combine(path, remove=True)
    whole = Path(path).read_bytes()
    rnd = random.Random(1)
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(rnd.choice((1, 3, 30))):
            content[rnd.randrange(100, len(content))] = rnd.randrange(256)
        Path(path).write_bytes(content)
        with pytest.raises(DataError):
            load(path)
        resealed(path)
        try:
            data = load(path)
        except DataError:
            continue
        assert merge(data, data) == data


def test_reading_leaves_nothing_beside_the_file_and_looks_at_no_journal(path: str, tmp_path: Path) -> None:
    data = Data(TABLES[:1], (shard(),), (row(),))
    save(path, data)
    for suffix in ("-journal", "-wal", "-shm"):
        Path(path + suffix).write_bytes(b"x" * 5000)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    assert load(path) == data
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


# --- shards and data files together -----------------------------------------------------------------------------------


def test_shards_beside_are_those_of_that_data_file(tmp_path: Path) -> None:
    ours = [".dispatchcov.host.12.0123456789ab.jsonl", ".dispatchcov.a-b.7.ffffffffffff.jsonl"]
    others = [
        ".dispatchcov", ".dispatchcov.host.12.0123456789ab.jsonl.counts", ".dispatchcov.jsonl",
        ".dispatchcov.cpu.host.12.0123456789ab.jsonl", ".dispatchcov.host.x.0123456789ab.jsonl",
        ".dispatchcov.host.12.0123456789AB.jsonl", "x.dispatchcov.h.1.0123456789ab.jsonl",
        ".dispatchcov.host.12.0123456789ab.jsonl~",
    ]  # fmt: skip
    for name in (*ours, *others):
        (tmp_path / name).write_text("")
    (tmp_path / ".dispatchcov.dir.12.0123456789ab.jsonl").mkdir()
    assert shards_beside(tmp_path / ".dispatchcov") == [str(tmp_path / name) for name in sorted(ours)]
    assert shards_beside(tmp_path / "none" / ".dispatchcov") == []


def test_load_merges_the_data_file_and_the_shards_beside_it(path: str) -> None:
    record_run(path, "r1")
    combine(path, remove=True)
    record_run(path, "r2", decisions=5)
    assert totals(load(path).rows) == {(f"t.py::{t}", "call"): (8, 0, 0, 0) for t in "ab"}
    assert totals(load(path, shards=False).rows) == {(f"t.py::{t}", "call"): (3, 0, 0, 0) for t in "ab"}
    assert {one.run for one in load(path).shards} == {"r1", "r2"}


def test_without_data_load_and_combine_say_so(path: str) -> None:
    with pytest.raises(DataError, match=r"cov: no data: expected a data file or shards beside it, got neither"):
        load(path)
    with pytest.raises(DataError, match="no data: expected a data file, got none; `pytest --disp"):
        load(path, shards=False)
    with pytest.raises(DataError, match="no data: expected a data file, shards beside it or paths with some, got none"):
        combine(path)
    assert not os.path.exists(path)


def test_combining_twice_changes_nothing(path: str) -> None:
    record_run(path)
    record_run(path)
    first = combine(path)
    assert len(shards_beside(path)) == 2
    assert combine(path) == combine(path, [path]) == combine(path, shards_beside(path) * 2) == first
    assert totals(first.rows) == {(f"t.py::{t}", "call"): (6, 0, 0, 0) for t in "ab"}


def test_combine_takes_shards_data_files_and_directories(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        record_run(str(tmp_path / name / ".dispatchcov"), name)
    combine(tmp_path / "two" / ".dispatchcov", remove=True)
    shutil.copy(tmp_path / "two" / ".dispatchcov", tmp_path / "three" / "renamed")
    (tmp_path / "three" / "notes.txt").write_text("hello")
    (shard_path,) = shards_beside(tmp_path / "one" / ".dispatchcov")
    given: list[str | Path] = [shard_path, tmp_path / "two" / ".dispatchcov", tmp_path / "three"]
    data = combine(tmp_path / "all", given)
    assert sorted(one.run for one in data.shards) == ["one", "three", "two"]
    assert totals(data.rows) == {(f"t.py::{t}", "call"): (9, 0, 0, 0) for t in "ab"}
    assert load(tmp_path / "all") == data
    assert all(os.path.exists(path) for path in given)
    assert combine(tmp_path / "all", given, remove=True) == data
    left = sorted(str(entry.relative_to(tmp_path)) for entry in tmp_path.rglob("*") if entry.is_file())
    assert left == ["all", "three/notes.txt"]


def test_combine_into_a_directory_of_its_own_data_file_keeps_it(path: str, tmp_path: Path) -> None:
    record_run(path)
    combine(path, [tmp_path], remove=True)
    assert os.listdir(tmp_path) == [".dispatchcov"]
    assert combine(path, [tmp_path], remove=True).shards
    assert os.listdir(tmp_path) == [".dispatchcov"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "expected a shard, a data file or a directory that holds some, got none"),
        (lambda p: p.mkdir(), "no data: expected shards or data files in the directory, got none"),
        (lambda p: p.write_text(""), "expected a shard or a data file, got an empty file"),
        (lambda p: p.write_text("hello\n"), "expected a shard, whose first line is"),
        (lambda p: sqlite_file(str(p), "CREATE TABLE t (x)"), "got another program's SQLite file"),
    ],
)
def test_what_cannot_be_combined_changes_nothing(path: str, tmp_path: Path, make: Any, message: str) -> None:
    record_run(path)
    make(tmp_path / "given")
    with pytest.raises(DataError, match="given:") as caught:
        combine(path, [*shards_beside(path), tmp_path / "given"], remove=True)
    assert message in str(caught.value)
    assert len(shards_beside(path)) == 1
    assert not os.path.exists(path)


def test_an_empty_file_is_no_input_unless_it_is_a_shard_just_begun(path: str, tmp_path: Path) -> None:
    begun = tmp_path / "other.host.1.000000000000.jsonl"
    begun.write_text("")
    empty = tmp_path / "empty"
    empty.write_text("")
    with pytest.raises(DataError, match=r"empty: expected a shard or a data file, got an empty file"):
        combine(path, [empty])
    with pytest.raises(DataError, match="no data: expected a data file, shards beside it or paths with some, got none"):
        combine(path, [begun])
    record_run(path)
    data = combine(path, [*shards_beside(path), begun])
    assert sorted(bool(shard.lines) for shard in data.shards) == [False, True]
    with pytest.raises(DataError, match=r"empty: expected a shard or a data file, got an empty file"):
        combine(path, [empty])
    assert load(path) == data


IN_PROGRESS = """
recorder = Recorder(sys.argv[1]).start()
recorder.enter("t", "call")
for n in range(70):
    demo().decide(**facts(N=8))
os._exit(0)
"""


def test_what_is_kept_beside_a_shard_may_be_named_with_it_or_for_it(path: str, tmp_path: Path) -> None:
    run_script(IN_PROGRESS, path)
    (shard_path,) = shards_beside(path)
    every = sorted(map(str, tmp_path.iterdir()))
    assert len(every) == 3
    wanted = load(path)
    assert totals(wanted.rows) == {("t", "call"): (70, 0, 0, 0)}
    for number, names in enumerate((every, [shard_path + COUNTS], [shard_path + FLIGHT, shard_path])):
        assert combine(tmp_path / f"all{number}", names) == wanted
    os.rename(shard_path, tmp_path / "moved")
    for companion in (COUNTS, FLIGHT):
        with pytest.raises(DataError) as caught:
            combine(path, [tmp_path / "moved", shard_path + companion])
        name = os.path.basename(shard_path)
        message = f"{shard_path}{companion}: expected the shard that it belongs to beside it, {name}, got none"
        assert str(caught.value) == message
    with pytest.raises(DataError, match="counts: expected a shard, a data file or a directory that holds some, got"):
        combine(path, [tmp_path / "none.host.1.000000000000.jsonl.counts"])
    os.rename(tmp_path / "moved", shard_path)
    assert combine(path, every, remove=True) == wanted
    assert sorted(os.listdir(tmp_path)) == [".dispatchcov", "all0", "all1", "all2"]


def test_a_shard_with_a_problem_is_combined_but_not_removed(path: str) -> None:
    record_run(path)
    (name,) = shards_beside(path)
    with open(name, "a", encoding="utf-8") as stream:
        stream.write("damaged\n")
    data = combine(path, remove=True)
    assert totals(data.rows) == {(f"t.py::{t}", "call"): (3, 0, 0, 0) for t in "ab"}
    assert len(data.shards[0].problems) == 1
    assert shards_beside(path) == [name]
    assert load(path) == data


BROKEN = [
    (b"\0" * 100, r"line 1: expected a shard, whose first line is .*"),
    (b'{"k":"shard","format":9}\n', r"line 1: expected shard format 1, got 9; a later version of dispatchcov wrote it"),
    (None, r"expected a shard, cannot read it: No such file or directory"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_a_shard_that_cannot_be_read_is_named_and_the_others_are_kept(
    path: str, content: bytes | None, message: str
) -> None:
    record_run(path)
    bad = Path(f"{path}.host.1.000000000000.jsonl")
    if content is None:
        bad.symlink_to("nowhere")
    else:
        bad.write_bytes(content)
    for data in (load(path), combine(path, remove=True), load(path)):
        assert totals(data.rows) == {(f"t.py::{t}", "call"): (3, 0, 0, 0) for t in "ab"}
        problems = {one.name: one.problems for one in data.shards if one.problems}
        assert list(problems) == [bad.name]
        assert re.fullmatch(f"nothing of it is kept: {message}", problems[bad.name][0])
    assert shards_beside(path) == [str(bad)]
    bad.unlink()
    assert load(path) == data


def test_a_shard_that_cannot_be_read_in_a_directory_does_not_keep_others_out(path: str, tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    record_run(str(tmp_path / "machine" / ".dispatchcov"))
    (tmp_path / "machine" / ".dispatchcov.host.1.000000000000.jsonl").write_bytes(b"no\n")
    data = combine(path, [tmp_path / "machine"])
    assert totals(data.rows) == {(f"t.py::{t}", "call"): (3, 0, 0, 0) for t in "ab"}
    assert sum(len(one.problems) for one in data.shards) == 1


def test_a_run_that_did_not_end_is_partial_and_one_that_ended_is_not(path: str) -> None:
    with Recorder(path) as recorder:
        recorder.partial(UNENDED)
        recorder.partial("tests were deselected")
        assert set(load(path).shards[0].partial) == {UNENDED, "tests were deselected"}
    assert load(path).shards[0].partial == ("tests were deselected",)


def test_a_shard_whose_process_still_runs_is_combined_but_not_removed(path: str) -> None:
    with Recorder(path) as recorder:
        recorder.enter("t", "call")
        demo().decide(**facts())
        assert totals(combine(path, remove=True).rows) == {("t", "call"): (1, 0, 0, 0)}
        demo().decide(**facts())
        assert len(shards_beside(path)) == 1
    data = combine(path, remove=True)
    assert totals(data.rows) == {("t", "call"): (2, 0, 0, 0)}
    assert [(one.ended, row.finished) for one, row in zip(data.shards, data.rows, strict=True)] == [(True, True)]
    assert os.listdir(os.path.dirname(path)) == [".dispatchcov"]


def test_the_shard_of_a_process_that_died_is_removed_with_its_array(path: str) -> None:
    run_script("Recorder(sys.argv[1]).start()\nrecord(demo(), facts(), kernel='Wide')\nos._exit(0)", path)
    assert len(os.listdir(os.path.dirname(path))) == 3
    assert totals(combine(path, remove=True).rows) == {("", "run"): (1, 1, 0, 0)}
    assert os.listdir(os.path.dirname(path)) == [".dispatchcov"]


def test_another_version_of_a_table_is_refused_and_nothing_changes(path: str) -> None:
    save(path, Data((dataclasses.replace(TABLES[0], op="demo::record"),), (shard(),), (row(),)))
    before = Path(path).read_bytes()
    record_run(path)
    (name,) = shards_beside(path)
    for action in (load, lambda p: combine(p, remove=True)):
        with pytest.raises(DigestError, match="demo::record: expected records of one version of the table") as caught:
            action(path)
        assert os.path.basename(name) in str(caught.value)
        assert "d1 (s1, a.toml)" in str(caught.value)
        assert demo().digest[:12] in str(caught.value)
    assert Path(path).read_bytes() == before
    assert shards_beside(path) == [name]


def test_processes_that_combine_at_once_lose_nothing(path: str) -> None:
    for run in range(12):
        record_run(path, f"r{run}")
    script = "import sys\nfrom dispatchcov import store\nstore.combine(sys.argv[1], [sys.argv[2]], remove=True)"
    commands = [[sys.executable, "-c", script, path, name] for name in shards_beside(path)[:4]]
    running = [subprocess.Popen(command) for command in commands]
    assert [process.wait(60) for process in running] == [0] * 4
    assert len(load(path).shards) == 12
    assert len(shards_beside(path)) == 8


def test_erase_removes_what_is_ours_and_nothing_else(path: str, tmp_path: Path) -> None:
    record_run(path)
    combine(path)
    ours = shards_beside(path)
    orphan = f"{path}.host.1.0123456789ab.jsonl{COUNTS}"
    others = [f"{path}.cpu", f"{path}.notes.jsonl", "x.jsonl", f"{path}.cpu.host.1.0123456789ab.jsonl"]
    for name in (orphan, *(os.path.join(tmp_path, other) for other in others)):
        Path(name).write_text("")
    assert erase(path) == 2 + len(ours)
    assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(other) for other in others)
    assert erase(path) == 0


# --- size -------------------------------------------------------------------------------------------------------------


def test_the_data_file_does_not_grow_with_decisions(tmp_path: Path) -> None:
    """A million decisions are 100 tests of 10,000; here each test makes 200 and then 2,000."""
    table = demo()
    sizes = []
    for each in (200, 2000):
        path = str(tmp_path / f"data{each}")
        rnd = random.Random(0)
        with Recorder(path) as recorder:
            for test in range(100):
                recorder.enter(f"tests/test_model.py::test_{test}", "call")
                for _ in range(each):
                    table.decide(**facts(N=rnd.randrange(100_000), aligned=rnd.random() < 0.5))
        data = combine(path, remove=True)
        assert sum(one.selected for one in data.rows) == 100 * each
        sizes.append(os.path.getsize(path))
    assert sizes[1] < 1.4 * sizes[0] < 200_000  # more extreme inputs are seen, at most ten a row


def test_a_thousand_shards_are_combined_exactly(path: str) -> None:
    record_run(path, "r0")
    (name,) = shards_beside(path)
    text = Path(name).read_text(encoding="utf-8")
    for i in range(999):
        other = f"{path}.host.{i}.{i:012x}.jsonl"
        Path(other).write_text(text.replace(os.path.basename(name), os.path.basename(other)), encoding="utf-8")
    data = combine(path)
    assert totals(data.rows) == {(f"t.py::{t}", "call"): (3000, 0, 0, 0) for t in "ab"}
    assert len(data.shards) == len(data.outcomes) // 2 == 1000
    assert load(path, shards=False) == data


def test_the_collector_of_garbage_is_on_again_after_an_error(path: str) -> None:
    import gc

    with pytest.raises(DataError):
        load(path)
    assert gc.isenabled()


def test_a_process_is_said_to_run_only_on_this_host() -> None:
    assert store._runs(shard(pid=os.getpid(), host=socket.gethostname()))
    assert not store._runs(shard(pid=os.getpid(), host="elsewhere"))
    assert not store._runs(shard(pid=2**31 + 7, host=socket.gethostname()))

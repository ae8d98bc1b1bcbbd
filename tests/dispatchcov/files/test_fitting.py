"""Rows that do not fit their tables: of shards they are left out, with a problem, of data files they are an error."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatchcov import store
from dispatchcov.cli import main
from dispatchcov.errors import DataError
from dispatchcov.files import fitting
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.records import Data, Row
from dispatchcov.results import Results
from dispatchcov.weights import weigh
from tests.dispatchcov.recording import TEXT, demo, facts

OTHER = parse_table(TEXT.replace("demo::record", "demo::other").replace("sm = ", "sm2 = "), source="other.toml")
INPUTS = "expected inputs with N (int), aligned (bool), dtype (str), sm (int), got "
UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "no hardware": ({"hardware": ()}, "expected hardware with sm (int), got []"),
    "more hardware": ({"hardware": (90, 90)}, "expected hardware with sm (int), got [90, 90]"),
    "a text of hardware": ({"hardware": ("90",)}, 'expected hardware with sm (int), got ["90"]'),
    "short": ({"inputs": ((1,),)}, f"{INPUTS}[[1]]"),
    "long": ({"inputs": ((8, True, "a", 90, 1),)}, f'{INPUTS}[[8, true, "a", 90, 1]]'),
    "one for a truth": ({"inputs": ((8, 1, "a", 90),)}, f'{INPUTS}[[8, 1, "a", 90]]'),
    "a truth for one": ({"inputs": ((True, True, "a", 90),)}, f'{INPUTS}[[true, true, "a", 90]]'),
    "a text for a number": ({"inputs": (("8", True, "a", 90),)}, f'{INPUTS}[["8", true, "a", 90]]'),
    "the second input": ({"inputs": ((8, True, "a", 90), (8,))}, f'{INPUTS}[[8, true, "a", 90], [8]]'),
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A data file beside which is one shard with rows of two tables."""
    path = str(tmp_path / "data")
    with Recorder(path, run="r") as recorder:
        recorder.enter("t.py::a", "call")
        for n in (8, 3):
            demo().decide(**facts(N=n))
        OTHER.decide(N=8, aligned=True, dtype="float16", sm2=80)
        recorder.outcome("t.py::a", "passed")
    return path


def with_row(data: Data, changes: dict[str, Any]) -> Data:
    """``data`` with another first row of ``demo::record``."""
    first = next(row for row in data.rows if row.digest == demo().digest)
    return dataclasses.replace(data, rows=tuple(row._replace(**changes) if row is first else row for row in data.rows))


@pytest.mark.parametrize("kind", [kind for kind in UNFIT if kind != "the second input"])  # no column is that short
def test_a_data_file_with_a_row_that_does_not_fit_is_refused(path: str, kind: str) -> None:
    changes, message = UNFIT[kind]
    whole = store.load(path)
    store.save(path, with_row(whole, changes))
    with pytest.raises(DataError, match=f"^{re.escape(f'{path}: a decision of demo::record: {message}; the file is')}"):
        store.load(path, shards=False)
    store.save(path, whole)
    assert store.load(path) == whole


@pytest.mark.parametrize("kind", UNFIT)
def test_of_a_shard_only_the_rows_that_do_not_fit_are_left_out(path: str, kind: str) -> None:
    changes, message = UNFIT[kind]
    data = with_row(store.load(path), changes)
    kept = fitting.kept(data)
    assert [row.selected for row in kept.rows] == [1, 1]
    assert kept.shards[0].problems == (f"a row of demo::record left out: {message}",)
    assert fitting.kept(kept) == kept


def test_all_that_does_not_fit_is_counted(path: str) -> None:
    data = store.load(path)
    every = dataclasses.replace(data, rows=tuple(row._replace(hardware=()) for row in data.rows))
    assert fitting.kept(every).rows == ()
    assert fitting.kept(every).shards[0].problems == (
        "a row of demo::other left out: expected hardware with sm2 (int), got []",
        "2 rows of demo::record left out: expected hardware with sm (int), got []",
    )


def test_a_decision_of_another_table_does_not_fit(path: str) -> None:
    data = store.load(path)
    fewer = parse_table(TEXT.replace('dtype = { type = "enum", values = ["float16", "float32"] }', ""), source="f.toml")
    table = dataclasses.replace(data.tables[1], digest=fewer.digest, text=fewer.text)
    rows = tuple(row._replace(digest=fewer.digest) for row in data.rows if row.digest == demo().digest)
    store.save(path, Data((table,), data.shards, rows))
    with pytest.raises(DataError, match=r"expected inputs with N \(int\), aligned \(bool\), sm \(int\), got"):
        store.load(path, shards=False)


@pytest.mark.parametrize(
    ("command", "status"), [("report", 2), ("json", 2), ("combine", 0), ("mutate", 0), ("suggest", 0)]
)
def test_a_changed_shard_is_damage_and_no_traceback(
    path: str, command: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (shard,) = map(Path, store.shards_beside(path))
    shard.write_text(shard.read_text().replace("[90]", "[]"))
    assert main([command, "--data", path]) == status
    said = capsys.readouterr()
    told = "left out: expected hardware with sm (int), got []" in said.out + said.err
    assert told == (command in ("report", "json", "combine"))


Judged = Callable[[Data], object]


@pytest.mark.parametrize(
    "judged", [lambda data: Results.of(data, [demo()]), lambda data: weigh(Results.of(Data(), [demo()]), data, "w")]
)
def test_rows_of_a_table_whose_text_was_lost_are_checked_where_they_are_judged(path: str, judged: Judged) -> None:
    data = store.load(path)
    rows: tuple[Row, ...] = tuple(row for row in data.rows if row.digest == demo().digest)
    lost = Data((dataclasses.replace(data.tables[1], text="lost"),), data.shards, rows, data.outcomes)
    assert fitting.kept(with_row(lost, {"inputs": ((1,),)})).rows[0].inputs == ((1,),)
    judged(lost)
    with pytest.raises(DataError, match=r"^demo::record: records are damaged: expected inputs with N \(int\), .* got"):
        judged(with_row(lost, {"inputs": ((1,),)}))

"""Libraries that decide, opened and closed while the program runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data
from dispatchcov.table import Table
from tests.dispatchcov.cpp import build as cpp_build
from tests.dispatchcov.recording import demo, recorded

pytestmark = cpp_build.needs_gxx
LIBRARY = ("-shared", "-fPIC", "-fvisibility=hidden")


def other() -> Table:
    """A table of another operator that decides as ``demo`` does."""
    return parse_table(demo().text.replace("demo::", "other::"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``plugins.cpp``, compiled, and three libraries for it: ``b.so`` is as ``a.so``, ``c.so`` has another table."""
    folder = tmp_path_factory.mktemp("plugins")
    for name, table in (("a", demo()), ("b", demo()), ("c", other())):
        cpp_build.write_header(folder, f"{name}.hpp", table, "demo")
        flags = (*LIBRARY, f'-DHEADER="{name}.hpp"')
        cpp_build.build(folder / f"{name}.so", cpp_build.HERE / "plugin.cpp", flags=flags)
    cpp_build.build(folder / "plugins", cpp_build.HERE / "plugins.cpp", libraries=("dl",))
    return folder


def ran(folder: Path, data: Path, *steps: str) -> Data:
    """What the program recorded when it did ``steps``: a word, a library, how often it decides or on which ``sm``."""
    words: list[object] = []
    for step in steps:
        what, library, *number = step.split()
        words += [what, folder / f"{library}.so", *(number or ["0"])]
    done = cpp_build.run(folder / "plugins", *words, data=data)
    assert (done.returncode, done.stderr) == (0, "")
    return recorded(data)


def test_what_an_unloaded_library_decided_is_kept(folder: Path, tmp_path: Path) -> None:
    steps = ["open a", "decide a 10", "close a", "open b", "decide b 10", "close b"]
    data = ran(folder, tmp_path / "d", *steps)
    (row,) = data.rows
    assert (row.selected, row.launched, row.inputs) == (20, 20, ((8, True, "float16", 90),))
    assert [(table.op, table.text) for table in data.tables] == [(demo().op, demo().text)]
    assert [shard.ended for shard in data.shards] == [True]


def test_a_table_in_the_place_of_an_unloaded_one_has_its_own_decisions(folder: Path, tmp_path: Path) -> None:
    steps = ["open a", "decide a 1"]
    for _ in range(3):
        steps += ["open b", "decide b 10", "close b", "open c", "decide c 100", "close c"]
    data = ran(folder, tmp_path / "d", *steps)
    assert {row.digest: row.selected for row in data.rows} == {demo().digest: 31, other().digest: 300}


def test_tables_that_decide_alike_are_told_apart(folder: Path, tmp_path: Path) -> None:
    each = [f"on {library} {sm}" for sm in range(2000) for library in "abc"]
    data = ran(folder, tmp_path / "d", "open a", "open b", "open c", *each)
    assert {(row.digest, row.hardware): row.selected for row in data.rows} == {
        (table.digest, (sm,)): count for table, count in ((demo(), 2), (other(), 1)) for sm in range(2000)
    }


def test_the_library_that_decided_first_may_be_closed_first(folder: Path, tmp_path: Path) -> None:
    steps = ["open a", "open b", "thread b 3", "close b", "decide a 4", "fork a 5", "decide a 6"]
    data = ran(folder, tmp_path / "d", *steps)
    assert sorted(row.selected for row in data.rows) == [5, 13]
    assert [shard.ended for shard in data.shards] == [True, True]
    assert len({shard.pid for shard in data.shards}) == 2

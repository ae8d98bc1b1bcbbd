"""What the tests of recorder and shards share: a table, totals of what was recorded, and scripts run in a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import dispatchcov
from dispatchcov import store
from dispatchcov.files import checksum
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data, Row
from dispatchcov.table import Table

TEXT = """
[table]
op = "demo::record"
[variables]
N = { type = "int", min = 0, max = 1000000 }
aligned = { type = "bool" }
dtype = { type = "enum", values = ["float16", "float32"] }
sm = { type = "int", values = [80, 90], hardware = true }
[[kernel]]
name = "Wide"
[[kernel]]
name = "Narrow"
[[rule]]
name = "wide"
when = "N % 4 == 0 and aligned"
kernel = "Wide"
splits = ["N >= 1024"]
[[rule]]
name = "rest"
kernel = "Narrow"
"""

PRELUDE = """
import json, os, random, signal, sys, threading, time
from dispatchcov.recorder import Recorder
from dispatchcov.recording import record, checked
from tests.dispatchcov.recording import demo, facts
"""


def demo() -> Table:
    """The table of these tests."""
    return parse_table(TEXT, source="demo.toml")


def facts(N: int = 8, aligned: bool = True, dtype: str = "float16", sm: int = 90) -> dict[str, int | bool | str]:
    """An input of :func:`demo`; the default takes rule ``wide``."""
    return {"N": N, "aligned": aligned, "dtype": dtype, "sm": sm}


def totals(rows: Iterable[Row]) -> dict[tuple[str, str], tuple[int, int, int, int]]:
    """Selected, launched, observed and checked by test and phase."""
    sums: dict[tuple[str, str], tuple[int, int, int, int]] = {}
    for row in rows:
        a, b, c, d = sums.get((row.test, row.phase), (0, 0, 0, 0))
        sums[row.test, row.phase] = (a + row.selected, b + row.launched, c + row.observed, d + row.checked)
    return sums


def resealed(data_file: str | os.PathLike[str]) -> None:
    """Give ``data_file``, which was changed, the checksum of what it holds now: then what else is checked is seen."""
    content = bytearray(Path(data_file).read_bytes())
    content[checksum.AT : checksum.AT + len(checksum.UNKNOWN)] = checksum.UNKNOWN
    Path(data_file).write_bytes(content)
    checksum.seal(os.fspath(data_file))


def recorded(data_file: str | os.PathLike[str]) -> Data:
    """What the shards beside ``data_file`` hold, none of them with a problem."""
    data = store.load(data_file)
    assert [shard.problems for shard in data.shards] == [()] * len(data.shards)
    return data


def run_script(script: str, *arguments: object, status: int = 0, limit: float = 60) -> str:
    """Run ``script`` in a process of its own and return what it prints."""
    root = Path(dispatchcov.__file__).resolve().parent.parent
    clean = {key: value for key, value in os.environ.items() if not key.startswith("DISPATCHCOV_")}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script, *map(str, arguments)],
        cwd=root,
        env={**clean, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert status or not done.stderr, done.stderr
    return done.stdout

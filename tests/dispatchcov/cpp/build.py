"""C++ programs for tests: headers made from tables, compiled with g++, run with recording on or off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dispatchcov.cpp import header as cpp
from dispatchcov.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
EXAMPLE = ROOT / "examples" / "cpp"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wswitch-enum"]

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++, a C++17 compiler")


def has_gtest() -> bool:
    """Can g++ find GoogleTest?"""
    if shutil.which("g++") is None:
        return False
    command = ["g++", "-x", "c++", "-E", "-", "-o", os.devnull]
    return subprocess.run(command, input=b"#include <gtest/gtest.h>", capture_output=True, check=False).returncode == 0


def needs_gtest() -> None:
    """Skip the test that asks if there is no g++ or no GoogleTest."""
    if not has_gtest():
        pytest.skip("needs g++ and GoogleTest (Debian: g++ libgtest-dev)")


def write_header(folder: Path, name: str, table: Table, namespace: str = "") -> Path:
    """The header ``name`` of ``table`` in ``folder``."""
    path = folder / name
    path.write_text(cpp.header(table, namespace), encoding="utf-8")
    return path


def build(program: Path, *sources: Path, flags: tuple[str, ...] = (), libraries: tuple[str, ...] = ()) -> Path:
    """``sources`` compiled into ``program``, without a warning; headers are looked for beside the program too."""
    command = ["g++", "-std=c++17", "-pthread", *WARNINGS, "-Werror", *flags, f"-I{cpp.INCLUDE}", f"-I{program.parent}"]
    command += [*map(str, sources), "-o", str(program), *(f"-l{library}" for library in libraries)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:8000]
    return program


def environment(data: Path | None, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program that records into ``data``, or of one that does not."""
    unset = ("PYTEST_", "DISPATCHCOV_", "GTEST_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    on = {"DISPATCHCOV_RUN": "cpp", "DISPATCHCOV_DATA": str(data)} if data is not None else {}
    return {**clean, **on, **(extra or {})}


def run(
    program: Path, *arguments: object, data: Path | None, stdin: str = "", extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """``program`` as it ended; a negative status is the signal that ended it."""
    return subprocess.run(
        [str(program), *map(str, arguments)],
        input=stdin,
        env=environment(data, extra),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=program.parent,
    )


def command(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """``dispatchcov`` with ``words``, in ``folder``."""
    line = [sys.executable, "-m", "dispatchcov.cli", *map(str, words)]
    off = environment(None, {"PYTHONPATH": str(ROOT)})
    return subprocess.run(line, cwd=folder, env=off, capture_output=True, text=True, check=False)


def report(path: Path) -> dict[str, Any]:
    """A JSON report without what tells one run of a suite, or the name of a test, from another."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del found["meta"]["timestamp"]

    def counted(value: Any) -> Iterator[None]:
        if isinstance(value, dict):
            if "tests" in value:
                value["tests"] = len(value["tests"])
            for item in value.values():
                yield from counted(item)
        elif isinstance(value, list):
            for item in value:
                yield from counted(item)

    assert not list(counted(found))
    return found

"""Whole pytest runs inside this process put back what was imported before them: ours must not be imported twice."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import dispatchcov
from dispatchcov import decide
from dispatchcov.recorder import Recorder

for found in pkgutil.walk_packages(dispatchcov.__path__, "dispatchcov."):
    importlib.import_module(found.name)
with contextlib.suppress(ImportError):  # a second import of torch ends in a segmentation fault
    importlib.import_module("torch")


@pytest.fixture
def data_file(tmp_path: Path) -> str:
    return str(tmp_path / ".dispatchcov")


@pytest.fixture(autouse=True)
def nothing_left_on() -> Iterator[None]:
    before = decide.active()
    yield
    assert decide.active() is before
    assert not Recorder(None).lock._is_owned()  # type: ignore[attr-defined]  # the next thread would wait for ever

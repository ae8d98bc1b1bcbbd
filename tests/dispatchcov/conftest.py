"""Whole pytest runs inside this process put back what was imported before them: ours must not be imported twice."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil

import dispatchcov

for found in pkgutil.walk_packages(dispatchcov.__path__, "dispatchcov."):
    importlib.import_module(found.name)
with contextlib.suppress(ImportError):  # a second import of torch ends in a segmentation fault
    importlib.import_module("torch")

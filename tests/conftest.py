"""What the tests start prints the same everywhere: pytest and others print more, or in colour, where these are set."""

from __future__ import annotations

import os

pytest_plugins = ["pytester"]

for name in (
    "CI",
    "BUILD_NUMBER",
    "COLUMNS",
    "FORCE_COLOR",
    "NO_COLOR",
    "PY_COLORS",
    "PYTEST_ADDOPTS",
    "PYTHONWARNINGS",
):
    os.environ.pop(name, None)

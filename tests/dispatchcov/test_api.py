from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import dispatchcov


def test_every_public_name_is_what_it_says_also_when_all_modules_are_loaded() -> None:
    for module in pkgutil.walk_packages(dispatchcov.__path__, "dispatchcov."):
        importlib.import_module(module.name)
    for name in dispatchcov.__all__:
        assert not isinstance(getattr(dispatchcov, name), ModuleType), name
    assert callable(dispatchcov.record)
    assert callable(dispatchcov.observe)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'dispatchcov' has no attribute 'no_such_name'"):
        dispatchcov.no_such_name  # noqa: B018


def test_importing_the_package_imports_nothing_of_it() -> None:
    loaded = "[m for m in sys.modules if m.startswith('dispatchcov.')]"
    code = f"import sys, dispatchcov; print({loaded}, dir(dispatchcov)[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", sorted(dispatchcov.__all__)[0]]

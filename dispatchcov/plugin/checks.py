"""Seeing that a test compared a result: the comparison functions of PyTorch, NumPy and pytest call :func:`checked`.

Nothing is imported for it. A module that is there is wrapped now, one that is imported later right after its
import, before
anyone can take a reference to the functions.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from dispatchcov.recording import checked

COMPARISONS = {
    "torch.testing": ("assert_close", "assert_allclose"),
    "numpy.testing": (
        "assert_allclose",
        "assert_almost_equal",
        "assert_approx_equal",
        "assert_array_almost_equal",
        "assert_array_almost_equal_nulp",
        "assert_array_equal",
        "assert_array_less",
        "assert_array_max_ulp",
        "assert_equal",
    ),
}
MARK = "_dispatchcov_checked"


def install() -> Callable[[], None]:
    """Wrap the comparison functions; returns the function that undoes it."""
    undo: list[Callable[[], None]] = [_wrap_approx()]
    finder = _Finder(undo)
    for name in COMPARISONS:
        module = sys.modules.get(name)
        if module is not None:
            undo.append(_wrap(module))
    sys.meta_path.insert(0, finder)

    def uninstall() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        while undo:
            undo.pop()()

    return uninstall


def _checking(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def compare(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = function(*args, **kwargs)
        checked()
        return result

    setattr(compare, MARK, True)
    return compare


def _wrap(module: ModuleType) -> Callable[[], None]:
    replaced = {}
    for name in COMPARISONS[module.__name__]:
        function = getattr(module, name, None)
        if callable(function) and not hasattr(function, MARK):
            replaced[name] = function
            setattr(module, name, _checking(function))

    def undo() -> None:
        for name, function in replaced.items():
            setattr(module, name, function)

    return undo


def _wrap_approx() -> Callable[[], None]:
    """``value == pytest.approx(...)`` counts where it is true; the classes are found through what ``approx``
    returns.
    """
    import pytest

    # The base class has had several names and places; it is the last of pytest's own among the ancestors.
    ancestors = type(pytest.approx(1.0)).__mro__
    base = [kind for kind in ancestors if kind.__module__.split(".")[0] in ("pytest", "_pytest")][-1]
    replaced = []
    for kind in _with_subclasses(base):
        equals = kind.__dict__.get("__eq__")
        if equals is not None and not hasattr(equals, MARK):
            replaced.append((kind, equals))
            kind.__eq__ = _checking_equal(equals)

    def undo() -> None:
        for kind, equals in replaced:
            kind.__eq__ = equals

    return undo


def _checking_equal(equals: Callable[[Any, object], bool]) -> Any:
    @functools.wraps(equals)
    def compare(self: Any, other: object) -> bool:
        result = equals(self, other)
        if result is True:
            checked()
        return result

    setattr(compare, MARK, True)
    return compare


def _with_subclasses(kind: Any) -> list[Any]:
    return [kind, *(found for child in kind.__subclasses__() for found in _with_subclasses(child))]


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps the comparison functions of a module when it is imported."""

    def __init__(self, undo: list[Callable[[], None]]) -> None:
        self.undo = undo

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in COMPARISONS:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self.undo)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, undo: list[Callable[[], None]]) -> None:
        self.loader = loader
        self.undo = undo

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self.loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.undo.append(_wrap(module))

"""What may decide without being an ``if`` is read, or left with its line: tables against their sources when run."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dispatchcov.init import first_table as init
from dispatchcov.init.render import Draft, render
from dispatchcov.loading.load import parse_table

VALUES = (-200, -9, -3, -1, 0, 1, 2, 3, 4, 5, 6, 8, 9, 16, 32, 33, 64, 100, 128, 200, 256, 300, 1000)
REFUSED = ("raise ", "throw ", "refused by ")
HEAD = r"""
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <utility>
[[noreturn]] inline void refused(int = 0) { throw std::runtime_error("refused"); }
namespace std { using ::refused; }
"""
"""Before the sources, in no file that is read."""

PYTHON: dict[str, str] = {
    "a returned condition": "    if n > 40: return m == 3 or n < 50\n    small = n < 4\n    if m > 5: return small\n"
    "    return not m",
    "a returned part": "    if n > 5: return m > 3 and 'big'\n    return m > 3 or 'none'",
    "None so far": "    best = None\n    if n > 4: best = 'x'\n    if best is None: best = 'y' if m > 4 else 'z'\n"
    "    return best if best is not None else 'never'",
    "a choice in a comparison": "    if n <= (32 if m % 128 == 0 else 8): return 'a'\n"
    "    if (m if m > 0 else -m) + 1 == 2 * (n if n > m else 3): return 'b'\n    return 'c'",
}
CPP: dict[str, str] = {
    "a choice in a comparison": 'if (n <= (m % 128 == 0 ? 32 : 8)) return "a";'
    'return -(m > 3 ? n : 9) < -40 ? "b" : "c";',
    "nullptr so far": 'const char* k = nullptr; if (n > 3) k = "x"; if (k == nullptr) return "n"; return k;',
}
BOOLEAN: dict[str, str] = {
    "a returned condition": "if (n > 40) return m == 3 && n < 50; if (n > 30) return !m; bool b = n == 3; return b;",
}


def agrees(draft: Draft, function: Callable[[int, int], str]) -> set[str]:
    """The kernels that ``function`` gives; the table gives the same."""
    table = parse_table(render(draft))
    seen = set()
    for n in VALUES:
        for m in VALUES:
            facts: Mapping[str, Any] = {"n": n, "m": m}
            expected = function(n, m)
            made = str(table.decide(**{name: facts[name] for name in table.names}).kernel)
            assert ("raise" if made.startswith(REFUSED) else made) == expected, (facts, render(draft))
            seen.add(expected)
    return seen


def run(function: Callable[[int, int], object]) -> Callable[[int, int], str]:
    def call(n: int, m: int) -> str:
        try:
            return str(function(n, m))
        except (Exception, SystemExit):
            return "raise"

    return call


def python(body: str, folder: Path) -> tuple[Draft, Callable[[int, int], str]]:
    text = f"import os, sys\n{body if 'def pick' in body else f'def pick(n, m):{chr(10)}{body}'}\n"
    (folder / "pick.py").write_text(text)
    space: dict[str, Any] = {}
    exec(text, space)
    return init.draft(f"{folder}/pick.py:pick"), run(space["pick"])


@pytest.mark.parametrize("body", PYTHON.values(), ids=PYTHON)
def test_python_that_is_read_decides_as_it_does_when_run(body: str, tmp_path: Path) -> None:
    draft, function = python(body, tmp_path)
    assert draft.left == ()
    assert len(agrees(draft, function)) > 1


def cpp(sources: Mapping[str, str], kind: str, head: str, folder: Path) -> dict[str, Callable[[int, int], str]]:
    """Each of ``sources`` as a file ``pick0.cc``, and what it does when it is run."""
    shown = 'found ? "true" : "false"' if kind == "bool" else "found"
    parts = [HEAD, head]
    for i, text in enumerate(sources.values()):
        own = f"{kind} pick{i}(int64_t n, int64_t m) {{\n{text}\n}}\n" if "pick(" not in text else text
        own = own.replace(" pick(", f" pick{i}(")
        (folder / f"pick{i}.cc").write_text(own)
        parts.append(
            f"namespace own{i} {{\n{own}}}\n"
            f'extern "C" const char* call{i}(long long n, long long m) {{ try {{ auto found = own{i}::pick{i}(n, m);'
            f' return {shown}; }} catch (...) {{ return "raise"; }} }}\n'
        )
    (folder / "all.cc").write_text("".join(parts))
    command = [
        "g++",
        "-std=c++17",
        "-O0",
        "-w",
        "-shared",
        "-fPIC",
        "-o",
        str(folder / "all.so"),
        str(folder / "all.cc"),
    ]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "all.so"))
    return {name: called(library, i) for i, name in enumerate(sources)}


def called(library: ctypes.CDLL, number: int) -> Callable[[int, int], str]:
    function = library[f"call{number}"]
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_longlong] * 2
    return lambda n, m: bytes(function(n, m)).decode()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++, to know what the C++ does")
@pytest.mark.parametrize(("sources", "kind"), [(CPP, "const char*"), (BOOLEAN, "bool")], ids=["text", "bool"])
def test_cpp_that_is_read_decides_as_it_does_when_run(sources: Mapping[str, str], kind: str, tmp_path: Path) -> None:
    for i, function in enumerate(cpp(sources, kind, "", tmp_path).values()):
        draft = init.draft(f"{tmp_path}/pick{i}.cc:pick{i}")
        assert draft.left == (), render(draft)
        assert len(agrees(draft, function)) > 1

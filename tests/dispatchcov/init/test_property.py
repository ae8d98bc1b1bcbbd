"""Tables read from random functions decide as the functions do, which are run: Python itself, C++ compiled."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchcov import expr as ex
from dispatchcov.errors import UsageError
from dispatchcov.expr import Value
from dispatchcov.init import first_table as init
from dispatchcov.init.render import Draft, render
from dispatchcov.loading.load import parse_table
from dispatchcov.table import Table
from tests.dispatchcov.init.programs import PARAMETERS, TEXTS, Program
from tests.dispatchcov.random_tables import conditions

PROGRAMS = 80
INPUTS = 60


def kernel(table: Table, facts: Mapping[str, Value]) -> str | None:
    """What ``table`` chooses; None where ``facts`` lie outside its domain."""
    known: dict[str, Value] = {}
    for variable in table.variables:
        value = facts[variable.name]
        known[variable.name] = "other" if variable.type == "enum" and value not in variable.values else value
    return None if table.outside(known) else table.decide(**known).kernel


def inputs(draw: random.Random) -> dict[str, Value]:
    numbers = {name: draw.choice([draw.randint(-9, 20), draw.randint(0, 4)]) for name in "abc"}
    return {**numbers, "e": draw.choice([*TEXTS, "w"]), "flag": draw.random() < 0.5}


def compare(draft: Draft, function: Callable[..., str | None], draw: random.Random) -> int:
    """How many random inputs lay in the table's domain; on each, table and function agree."""
    assert draft.left == ()
    table = parse_table(render(draft))
    compared = 0
    for _ in range(INPUTS):
        facts = inputs(draw)
        try:
            expected = function(**facts) or "nothing"
        except ZeroDivisionError:
            continue
        chosen = kernel(table, facts)
        compared += chosen is not None
        assert chosen in (expected, None), (facts, expected, render(draft))
    return compared


def python(text: str) -> Callable[..., str | None]:
    space: dict[str, Any] = {}
    exec(text, space)
    function: Callable[..., str | None] = space["pick"]
    return function


def refused(error: UsageError, text: str) -> None:
    """The program does not choose by its inputs, or in too many ways; ``text`` is shown if it was anything else."""
    assert re.search("nothing to translate|one way|at most 500 ways", str(error)), text


def test_random_python(tmp_path: Path) -> None:
    path = tmp_path / "pick.py"
    read = compared = 0
    for seed in range(PROGRAMS):
        text = Program(seed, cpp=False).text()
        path.write_text(text)
        try:
            draft = init.draft(f"{path}:pick")
        except UsageError as error:
            refused(error, text)
            continue
        read += 1
        compared += compare(draft, python(text), random.Random(seed))
    assert read > PROGRAMS * 0.9
    assert compared == read * INPUTS


@given(st.lists(conditions(shared=True), min_size=1, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_chains_of_random_tables(
    tmp_path_factory: pytest.TempPathFactory, guards: list[str], draw: random.Random
) -> None:
    lines = [f"def pick({', '.join(PARAMETERS)}):"]
    for i, guard in enumerate(guards):
        word = "elif" if i and draw.random() < 0.5 else "if"
        lines += [f"    {word} {ex.to_python(ex.parse(guard))}:", f"        return 'r{i}'"]
    lines.append("    return 'rest'")
    path = tmp_path_factory.getbasetemp() / "chain.py"
    path.write_text("\n".join(lines))
    compare(init.draft(str(path)), python("\n".join(lines)), draw)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++, to know what the C++ does")
def test_random_cpp(tmp_path: Path) -> None:
    names = [f"pick{seed}" for seed in range(PROGRAMS)]
    texts = [Program(seed, cpp=True).text(name) for seed, name in enumerate(names)]
    head = "#include <algorithm>\n#include <cstdint>\n#include <string_view>\n#include <tuple>\n"
    for name, text in zip(names, texts, strict=True):
        (tmp_path / f"{name}.cc").write_text(text)
    calls = [
        f'extern "C" const char* call_{name}(long long a, long long b, long long c, const char* e, bool flag) '
        f"{{ return {name}(a, b, c, e, flag); }}"
        for name in names
    ]
    calling, library = tmp_path / "calls.cc", tmp_path / "pick.so"
    calling.write_text(head + "\n".join([*texts, *calls]))
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-shared", "-fPIC", "-o", library, calling], check=True)
    loaded = ctypes.CDLL(str(library))
    read = compared = 0
    for seed, name in enumerate(names):
        try:
            draft = init.draft(str(tmp_path / f"{name}.cc"))
        except UsageError as error:
            refused(error, texts[seed])
            continue
        read += 1
        compared += compare(draft, called(loaded, name), random.Random(seed))
    assert read > PROGRAMS * 0.9
    assert compared > read * INPUTS / 3


def called(library: ctypes.CDLL, name: str) -> Callable[..., str | None]:
    function = library[f"call_{name}"]
    function.restype = ctypes.c_char_p
    function.argtypes = [ctypes.c_longlong] * 3 + [ctypes.c_char_p, ctypes.c_bool]

    def call(**facts: Any) -> str | None:
        found: bytes | None = function(facts["a"], facts["b"], facts["c"], facts["e"].encode(), facts["flag"])
        return found.decode() if found is not None else None

    return call

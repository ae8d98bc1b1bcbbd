"""Suggestions as the text of a test module."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from dispatchcov.errors import UsageError
from dispatchcov.items import MEASURES
from dispatchcov.suggest import Suggestion
from dispatchcov.table import Table, show

CALL = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


def render(table: Table, suggestions: Sequence[Suggestion], call: str = "", folder: str | None = None) -> str:
    """The text of a test module that calls ``call``, ``MODULE:FUNCTION`` taking the facts as keywords.

    Without ``call`` the table, as found from ``folder`` (None: the working directory, and the text says so), decides
    and nothing is launched. Raises :class:`UsageError`.
    """
    head = ['"""Inputs that the recorded tests lack, found by ``dispatchcov suggest``."""', "", "import pytest", ""]
    if call:
        module, function = called(call)
        head += [f"from {module} import {function}"]
        run = f"{function}(**facts)"
    else:
        path, loaded = _table(table.source, folder)
        head[2:3] = [*path, "import pytest"]
        head += ["import dispatchcov", "", *loaded]
        run = "TABLE.decide(**facts)  # in its place: call the operator and compare the result"
    lines = [*head, "", "", "@pytest.mark.parametrize(", '    "facts",', "    ["]
    times: Counter[str] = Counter()
    for suggestion in suggestions:
        name = f"{suggestion.rule} {show(suggestion.facts)}"
        times[name] += 1
        lines += _parameter(suggestion, name if times[name] == 1 else f"{name} again {times[name]}")
    lines += ["    ],", ")", "def test_dispatch(facts):", f"    {run}"]
    return "\n".join(lines) + "\n"


def called(call: str) -> tuple[str, str]:
    """Module and function of ``MODULE:FUNCTION``; raises :class:`UsageError`."""
    match = CALL.fullmatch(call)
    if match is None:
        raise UsageError(f"--call: expected MODULE:FUNCTION, got {call!r}")
    return match[1], match[2]


def _table(source: str, folder: str | None) -> tuple[list[str], list[str]]:
    """The imports and the lines that load the table ``source`` for a module in ``folder``."""
    if not os.path.isfile(source):
        gone = f"# Recorded as {source!r}, which was not there when this was written: say where the table is."
        return [], [gone, f"TABLE = dispatchcov.load_table({source!r})"]
    try:
        path = PurePath(os.path.relpath(source, folder or ".")).as_posix()
    except ValueError:  # another drive
        path = PurePath(os.path.abspath(source)).as_posix()
    said = [] if folder else ["# From the folder of this file: right for a file in the folder in which suggest ran."]
    where = f"Path(__file__).parent / {path!r}" if "/" in path else f"Path(__file__).with_name({path!r})"
    return ["from pathlib import Path", ""], [*said, f"TABLE = dispatchcov.load_table({where})"]


def _parameter(suggestion: Suggestion, name: str) -> Iterator[str]:
    for measure in MEASURES:
        labels = [label for name, label in suggestion.covers if name == measure]
        if labels:
            more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
            text = f"{measure}: {'; '.join(labels[:3])}{more}"
            yield f"        # {text if len(text) < 108 else text[:105] + '...'}".replace("\n", " ")
    arguments = [repr(name) for name in suggestion.partitions] + [f"kernel={suggestion.kernel!r}"]
    if suggestion.fallback:
        arguments.append(f"fallback={dict(suggestion.fallback)!r}")
    yield "        pytest.param("
    yield f"            {suggestion.facts!r},"
    yield f"            marks=pytest.mark.dispatch({', '.join(arguments)}),"
    yield f"            id={name!r},"
    yield "        ),"

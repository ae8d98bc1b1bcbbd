"""Suggestions as the text of a test module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from dispatchcov.errors import UsageError
from dispatchcov.results import MEASURES
from dispatchcov.suggest import Suggestion
from dispatchcov.table import Table, show

CALL = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")


def render(table: Table, suggestions: Sequence[Suggestion], call: str = "") -> str:
    """The text of a test module that calls ``call``, ``MODULE:FUNCTION`` taking the facts as keywords.

    Without ``call`` the table decides and nothing is launched. Raises :class:`UsageError`.
    """
    head = ['"""Inputs that the recorded tests lack, found by ``dispatchcov suggest``."""', "", "import pytest", ""]
    if call:
        match = CALL.fullmatch(call)
        if match is None:
            raise UsageError(f"--call: expected MODULE:FUNCTION, got {call!r}")
        head += [f"from {match[1]} import {match[2]}"]
        run = f"{match[2]}(**facts)"
    else:
        head += ["import dispatchcov", "", f"TABLE = dispatchcov.load_table({table.source!r})"]
        run = "TABLE.decide(**facts)  # in its place: call the operator and compare the result"
    lines = [*head, "", "", "@pytest.mark.parametrize(", '    "facts",', "    ["]
    times: Counter[str] = Counter()
    for suggestion in suggestions:
        name = f"{suggestion.rule} {show(suggestion.facts)}"
        times[name] += 1
        lines += _parameter(suggestion, name if times[name] == 1 else f"{name} again {times[name]}")
    lines += ["    ],", ")", "def test_dispatch(facts):", f"    {run}"]
    return "\n".join(lines) + "\n"


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

"""Drift as text, Markdown and JSON: moves that one change made stand together, what is unchanged is only counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from dispatchcov.drift import Drift, Move, Place, counted, shown
from dispatchcov.table import show

SHOWN = 5
LISTED = 12


def summary(drift: Drift) -> str:
    """What drifted, in one line."""
    parts = [f"{counted(len(drift.moved))} moved"] if drift.moves else ["nothing moved"]
    parts += [f"{len(tests)} {word}" for word, tests in (("new", drift.new), ("gone", drift.gone)) if tests]
    return f"drift from {drift.base}: {', '.join([*parts, f'{drift.unchanged} unchanged'])}"


def lines(drift: Drift) -> Iterator[str]:
    """The section of the text report."""
    yield summary(drift)
    for change in drift.rules:
        yield f"    table {change.op}, rule {change.rule}"
        yield f"        was {change.before or '(none)'}"
        yield f"        is  {change.after or '(none)'}"
    for moves in drift.groups:
        yield from _group(moves)
    yield from _tests("new", drift.new)
    yield from _tests("gone", drift.gone)
    yield from (f"    not compared: {text}" for text in not_compared(drift))
    if drift.update:
        yield f"    baseline {drift.update}"


def _group(moves: Sequence[Move]) -> Iterator[str]:
    first = moves[0]
    yield f"    {first.op}: {counted(len({move.test for move in moves}))} moved"
    yield f"        was {_label(first.old, 'not there')}"
    yield f"        is  {_label(first.new, 'not there')}"
    if first.cause:
        yield f"        {first.cause.summary}"
    for move in islice(moves, SHOWN):
        yield f"            {shown(move.test)}  {inputs(move)}"
    if len(moves) > SHOWN:
        yield f"            ... and {len(moves) - SHOWN} more (the JSON and HTML reports have all)"


def _label(place: Place | None, otherwise: str) -> str:
    return place.label if place else otherwise


def inputs(move: Move) -> str:
    """The input of a move; both where they differ."""
    old, new = (show(place.input) if place else "" for place in (move.old, move.new))
    return f"{old}  now {new}" if old and new and old != new else old or new


def _tests(word: str, tests: Sequence[str]) -> Iterator[str]:
    if tests:
        yield f"    {word}: {counted(len(tests))}"
        yield from (f"        {shown(test)}" for test in tests[:LISTED])
        if len(tests) > LISTED:
            yield f"        ... and {len(tests) - LISTED} more (the JSON and HTML reports have all)"


def not_compared(drift: Drift) -> Iterator[str]:
    """What was not compared, and why."""
    counts: dict[str, int] = {}
    for _, outcome in drift.apart:
        counts[outcome] = counts.get(outcome, 0) + 1
    yield from (f"{counted(count)} {outcome}" for outcome, count in sorted(counts.items()))
    if drift.not_run:
        yield f"{counted(len(drift.not_run))} not run"
    if drift.elsewhere:
        yield f"{counted(len(drift.elsewhere))} on hardware that one side does not have"


def text(drift: Drift) -> str:
    """The report of ``dispatchcov compare``."""
    return "\n".join(lines(drift))


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(drift: Drift) -> str:
    """The report as Markdown, for the summary of a job or a comment."""
    return "\n".join(markdown_lines(drift))


def markdown_lines(drift: Drift) -> Iterator[str]:
    """The section of the Markdown report."""
    yield "### Dispatch drift"
    yield ""
    yield _code_free(summary(drift))
    yield ""
    for change in drift.rules:
        yield f"- rule {_code(change.rule)} of {_code(change.op)}: {_code(change.before)} became {_code(change.after)}"
    if drift.rules:
        yield ""
    if drift.moves:
        yield "| tests | was | is | because |"
        yield "| :-- | :-- | :-- | :-- |"
    for moves in drift.groups:
        first = moves[0]
        names = [_code(shown(move.test)) for move in moves[:SHOWN]]
        names += [f"and {len(moves) - SHOWN} more"] if len(moves) > SHOWN else []
        places = (_code(place.label) if place else "" for place in (first.old, first.new))
        yield f"| {'<br>'.join(names)} | {' | '.join(places)} | {_code(first.seen)} |"
    if drift.moves:
        yield ""
    for word, tests in (("new", drift.new), ("gone", drift.gone)):
        more = f" and {len(tests) - LISTED} more" if len(tests) > LISTED else ""
        if tests:
            yield f"- {word}: {', '.join(_code(shown(test)) for test in tests[:LISTED])}{more}"
    yield from (f"- not compared: {_code_free(text)}" for text in not_compared(drift))
    if drift.update:
        yield f"- baseline {_code_free(drift.update)}"


def _code(text: str) -> str:
    """``text`` as code inside a table, whatever characters it has."""
    if not text:
        return "(none)"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}".replace("|", "\\|")


def _code_free(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~$&])", r"\\\1", " ".join(text.split()))


# --- JSON -------------------------------------------------------------------------------------------------------------


def document(drift: Drift) -> dict[str, Any]:
    """The value of ``drift`` in the JSON report."""
    return {
        "base": drift.base,
        "moved": [_move(move) for move in drift.moves],
        "new": list(drift.new),
        "gone": list(drift.gone),
        "apart": [{"test": test, "outcome": outcome} for test, outcome in drift.apart],
        "not_run": list(drift.not_run),
        "elsewhere": list(drift.elsewhere),
        "unchanged": drift.unchanged,
        "rules": [{"op": c.op, "rule": c.rule, "before": c.before, "after": c.after} for c in drift.rules],
        "update": drift.update,
    }


def _move(move: Move) -> dict[str, Any]:
    cause = move.cause
    return {
        "test": move.test,
        "op": move.op,
        "old": _place(move.old),
        "new": _place(move.new),
        "because": move.seen,
        "cause": cause
        and {"kind": cause.kind, "rule": cause.rule, "before": cause.before, "after": cause.after, "text": cause.text},
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {"rule": place.rule, "kernel": place.kernel, "region": place.region, "input": dict(place.input)}

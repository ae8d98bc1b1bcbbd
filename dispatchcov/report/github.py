"""Annotations for a pull request on GitHub: each reason why the gate failed, at the line of the table it is about.

GitHub shows ten errors of a step; the last line, a notice, says how many more there are, and the totals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dispatchcov.gate import Verdict
from dispatchcov.items import Item
from dispatchcov.places import Place, Places, from_root
from dispatchcov.report import weights as weights_report
from dispatchcov.report.text import plural, totals_lines
from dispatchcov.results import Results, TableResults
from dispatchcov.table import show
from dispatchcov.workflow_commands import command

SHOWN = 10
FOUND = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d+): ")


def render(results: Results, verdict: Verdict) -> str:
    """At most ten ``::error`` commands, then a ``::notice`` with the totals."""
    known = [about for table in results.tables for about in _abouts(table)]
    lines = [_error(failure, known) for failure in verdict.failures[:SHOWN]]
    left = len(verdict.failures) - len(lines)
    state = "not judged, the run was partial" if verdict.partial and verdict.ok else "passed"
    if not verdict.ok:
        state = f"FAILED, {plural(len(verdict.failures), 'reason')}{f', {left} of them not annotated' if left else ''}"
    said = [state, *totals_lines(results)]
    if results.weights is not None:
        said.append(weights_report.reached(results.weights))
    return "\n".join([*lines, command("notice", "; ".join(said), title="dispatch gate")])


def _error(failure: str, known: list[tuple[str, Place, str]]) -> str:
    """``failure`` where it belongs: the gate's reasons begin with what they are about."""
    found = FOUND.match(failure)
    if found:
        return command("error", failure[found.end() :], file=from_root(found["file"]), line=found["line"], title=TITLE)
    about = max((about for about in known if failure.startswith(about[0])), key=lambda a: len(a[0]), default=None)
    if about is None:
        return command("error", failure, title=TITLE)
    _, place, more = about
    return command("error", f"{failure}{more}", file=from_root(place.file), line=place.line, title=TITLE)


TITLE = "dispatch coverage"


def _abouts(results: TableResults) -> Iterator[tuple[str, Place, str]]:
    """What reasons of one table begin with, the place that each is about, and what to add to it."""
    table, places = results.table, Places(results.table)
    yield f"{table.op}: ", places.rule(0), ""
    for item in results.rules:
        rule = places.rule(table.rule(item.name).index)
        yield f"{table.op}: required partition {item.label} ", rule, _reached(item)
        for kind in ("kernel", "contract", "domain", "untotal"):
            yield f"{table.op}: {kind} mismatch in rule {item.name}: ", rule, ""
    for waiver, place in places.waivers():
        yield f"{table.op}: {waiver} is not needed", place, ""
        yield f"{table.op}: {waiver} expired", place, ""
    for item in results.partitions:
        place = places.partition(item.name)
        yield f"{table.op}: required partition {item.label} ", place, _reached(item)
        yield f"{table.op}: required partition {item.name} can be reached by no input", place, ""
        yield f"{table.op}: illegal partition {item.label} ", place, ""


def _reached(item: Item) -> str:
    return f"\nreached by {show(item.witness)}\nwould take {item.decision}" if item.witness is not None else ""

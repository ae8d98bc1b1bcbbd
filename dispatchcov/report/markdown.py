"""The report as GitHub-flavoured Markdown: the summary of a job, or a comment on a pull request.

What is read first stands first, because a summary has at most 1 MiB: the gate, totals, a workload, partitions, what is
missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dispatchcov.gate import Verdict
from dispatchcov.items import Item, Weights
from dispatchcov.report import drift as drift_report
from dispatchcov.report import weights as weights_report
from dispatchcov.report.text import evidence_text, near, plural, state_text
from dispatchcov.results import Results, TableResults
from dispatchcov.table import show

LIMIT = 1_000_000
"""Bytes at most: GitHub drops a summary of more than 1 MiB, and the step may have written to it too."""

LISTED = 50
SIGNS = {"hit": "✅", "missed": "❌", "waived": "⏸️", "elsewhere": "➖", "unreachable": "➖", "not-run": "❔"}
MEASURED = ("rules", "splits", "fallbacks", "regions", "boundaries", "mcdc", "mutants")
SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
FIRST = re.compile(r"^(\d*)([-+#=.)])")


def render(results: Results, verdict: Verdict) -> str:
    """The report, cut with a note at :data:`LIMIT` bytes."""
    return _cut(list(_lines(results, verdict)))


def _lines(results: Results, verdict: Verdict) -> Iterator[str]:
    yield f"## {_title(verdict)}"
    yield ""
    yield from _listed(verdict.failures)
    yield from _totals(results)
    if results.weights is not None:
        yield from _weights(results.weights)
    for table in results.tables:
        yield from _table(table)
    for table in results.tables:
        yield from _missed(table)
    if results.drift is not None:
        yield from (*drift_report.markdown_lines(results.drift), "")
    if verdict.notes:
        yield from _details("Notes", _listed(verdict.notes))


def _title(verdict: Verdict) -> str:
    if not verdict.ok:
        return f"❌ Dispatch gate: FAILED, {plural(len(verdict.failures), 'reason')}"
    return "❔ Dispatch gate: not judged, the run was partial" if verdict.partial else "✅ Dispatch gate: passed"


def _listed(texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield from (f"- {escape(text)}" for text in texts[:LISTED])
        if len(texts) > LISTED:
            yield f"- and {len(texts) - LISTED} more (the JSON and HTML reports have all)"
        yield ""


def _totals(results: Results) -> Iterator[str]:
    rows = []
    for name, totals in results.totals.items():
        share = f"{totals.percent:g} %" if totals.total else "none to cover"
        rows.append((name, f"{totals.covered}/{totals.total}", share))
    yield from _rows(("measure", "covered", ""), rows, ":--", "--:", "--:")


def _weights(weights: Weights) -> Iterator[str]:
    """What a workload weighs: the share that tests reach, and the heaviest paths that none does."""
    yield f"**{escape(weights_report.reached(weights))}**"
    yield ""
    yield from _listed((weights_report.evidence(weights), *weights.notes))
    rows = [(f"{weights.share(region):.1f} %", weights_report.path(region), show(region.input))
            for region in weights.unreached]  # fmt: skip
    if rows:
        yield f"{weights_report.HEAVIEST}:"
        yield ""
        yield from _rows(("share", "path", "input"), rows[: weights_report.SHOWN], "--:", ":--", ":--")
    if more := rows[weights_report.SHOWN :]:
        yield from _listed([f"and {len(more)} more (the JSON and HTML reports have all)"])


def _table(results: TableResults) -> Iterator[str]:
    table = results.table
    yield f"### {escape(table.op)}"
    yield ""
    machines = escape("; ".join(results.machines) or "none")
    source = escape(near(table.source))
    yield f"{plural(results.decisions, 'decision')} on {machines}; table {source}, digest {table.digest[:12]}"
    yield ""
    rows = ((i.name, i.detail, _state(i), str(i.reach.hits), str(len(i.reach.tests)), evidence_text(i)) for i in
            results.partitions)  # fmt: skip
    yield from _rows(
        ("partition", "bin", "state", "hits", "tests", "evidence"), rows, ":--", ":--", ":--", "--:", "--:", ":--"
    )


def _state(item: Item) -> str:
    sign = "❌" if item.illegal and item.reach.hits else SIGNS["hit" if item.illegal else item.state]
    return f"{sign} {state_text(item)}"


def _missed(results: TableResults) -> Iterator[str]:
    """What is missed, a section for each measure, with an input that reaches it and what that would take."""
    for measure in ("partitions", *MEASURED):
        items = [i for i in getattr(results, measure) if i.state in ("missed", "not-run") and not i.illegal]
        if items:
            title = f"{_html(results.table.op)}: {measure} missed, {len(items)}"
            rows = ((i.label, show(i.witness) if i.witness is not None else "no input known", i.decision)
                    for i in items)  # fmt: skip
            yield from _details(title, _rows((measure, "reached by", "would take"), rows, ":--", ":--", ":--"))


def _details(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield "<details>"
    yield f"<summary>{title}</summary>"
    yield ""
    yield from lines
    yield "</details>"
    yield ""


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]], *sides: str) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join(sides)} |"
    for row in rows:
        yield f"| {' | '.join(map(escape, row))} |"
    yield ""


def escape(text: str) -> str:
    """``text``, perhaps a stranger's, as itself in a line or a cell: no markup, no HTML, no link, no mention."""
    line = FIRST.sub(r"\1\\\2", SPECIAL.sub(r"\\\1", _html(text).strip()))
    return line.replace("://", ":&#47;&#47;").replace("www.", "www&#46;").replace("@", "&#64;")


def _html(text: str) -> str:
    """``text`` as itself in HTML, on one line."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(lines: Sequence[str]) -> str:
    kept: list[str] = []
    room, depth = LIMIT - 200, 0
    for line in lines:
        room -= len(line.encode("utf-8")) + 1
        if room < 0:
            kept += ["", *["</details>"] * depth, ""]
            kept.append(f"**Cut here: {plural(len(lines) - len(kept), 'more line')}, the JSON report has all.**")
            break
        kept.append(line)
        depth += (line == "<details>") - (line == "</details>")
    return "\n".join(kept).rstrip("\n") + "\n"

"""The report for a terminal: partitions with their states, what is uncovered with an input that reaches it,
totals, the gate.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from dispatchcov.gate import Verdict
from dispatchcov.items import Item, Totals, emulated
from dispatchcov.report import drift as drift_report
from dispatchcov.report import weights as weights_report
from dispatchcov.results import Results, TableResults
from dispatchcov.table import EVIDENCE, show

SHOWN = 12
LISTED = 4
WIDTH = 240
OUTSIDE = ": kernels outside every launch: "
UNMATCHED = ": kernels that no pattern matches: "
WORDS = {
    "kernel": "another kernel ran",
    "contract": "contract violated",
    "domain": "facts outside the declared domain",
    "untotal": "no rule takes the input",
}


def render(results: Results, verdict: Verdict, *, missing: bool = True) -> str:
    """The whole report; ``missing`` adds, under each item that is not covered, a witness and the decision it
    would take.
    """
    lines: list[str] = []
    for table in results.tables:
        lines += _table(table, missing)
        lines.append("")
    lines += drift_lines(results)
    lines += totals_lines(results)
    lines += weights_report.lines(results.weights) if results.weights is not None else []
    lines += verdict_lines(verdict)
    return "\n".join(map(printable, lines))


def render_short(results: Results, verdict: Verdict) -> str:
    """The report without what is missing."""
    return render(results, verdict, missing=False)


def _table(results: TableResults, missing: bool) -> Iterator[str]:
    table = results.table
    machines = "; ".join(results.machines) or "none"
    yield f"{table.op}  {plural(results.decisions, 'decision')}  machine: {machines}"
    yield f"table {near(table.source)}  digest {table.digest[:12]}"
    yield ""
    yield from _partitions(results.partitions, missing)
    yield ""
    if missing and (lines := list(machines_lines(results))):
        yield from [*lines, ""]
    reached = [item.name for item in results.rules if item.state == "hit"]
    yield f"rules reached: {', '.join(reached) or 'none'}"
    if missing:
        yield from _uncovered("rules never selected", results.rules)
        yield from _uncovered("sides of splits never taken", results.splits)
        yield from _uncovered("predicates never the sole reason of a fallback", results.fallbacks)
        yield from _uncovered("regions never entered", results.regions)
        yield from _uncovered("sides of boundaries never met", results.boundaries)
        yield from _uncovered("predicates never shown to decide alone (MC/DC)", results.mcdc)
        yield from _uncovered("mutants of guards that no decision notices", results.mutants)
        yield from _grades(results.mutants)
    dead = [item.name for item in results.rules if item.state == "unreachable"]
    if dead:
        yield f"rules that no input reaches, which was proved: {', '.join(dead)}"
    for mismatch in results.mismatches:
        seen = f"expected {mismatch.expected}, got {mismatch.got}"
        where = f" in rule {mismatch.rule}" if mismatch.rule else ""
        yield f"MISMATCH: {WORDS[mismatch.kind]}{where}: {seen} for {show(mismatch.facts)}"
        if mismatch.nearest:
            yield f"    nearest: {mismatch.nearest}"
        if mismatch.waiver:
            yield f"    waived: {mismatch.waiver}"


def printable(line: str) -> str:
    """``line`` with what a terminal, or the log of a job, would not print but obey as an escape: ``\\n``, ``\\x1b``."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)


def plural(count: int, noun: str) -> str:
    """``1 decision``, ``2 decisions``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def near(path: str) -> str:
    """``path`` from the working directory, if it lies in it."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative


def state_text(item: Item) -> str:
    """The state of a partition; ``MISSED`` where that counts, ``MISSED?`` where no input is known."""
    if item.illegal:
        return "ILLEGAL" if item.reach.hits else "illegal, not hit"
    if item.state == "missed" and item.reachable == "unknown":
        return "MISSED?"
    text = "MISSED" if item.state == "missed" and item.required else item.state
    return text if item.required else f"{text} (optional)"


def _hits(item: Item) -> str:
    return f"{item.reach.hits}/{item.at_least}" if item.at_least > 1 else str(item.reach.hits)


def evidence_text(item: Item) -> str:
    """What attests a partition, what is kept apart, and its waiver if that is why it need not be hit."""
    parts = [", ".join(item.reach.evidence)] if item.reach.evidence else []
    if item.reach.apart:
        parts.append("apart: " + ", ".join(f"{count} {reason}" for reason, count in item.reach.apart))
    if item.state == "waived":
        parts.append(f"waived: {item.waiver}")
    return "; ".join(parts)


def _partitions(items: Sequence[Item], missing: bool) -> Iterator[str]:
    head = ("partition", "bin", "state", "hits", "tests", "evidence")
    rows = [(i.name, i.detail, state_text(i), _hits(i), str(len(i.reach.tests)), evidence_text(i)) for i in items]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head) - 1)]

    def line(row: Sequence[str]) -> str:
        aligned = "<<<>>"
        cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, aligned, widths, strict=False)]
        return "  ".join([*cells, row[-1]]).rstrip()

    yield line(head)
    yield "  ".join("-" * width for width in [*widths, len(head[-1])])
    for row, item in zip(rows, items, strict=True):
        yield line(row)
        if missing and item.state in ("missed", "not-run", "elsewhere") and not item.illegal:
            yield from _witness(item, "    ")


def machines_lines(results: TableResults) -> Iterator[str]:
    """Partitions by machine, where more than one decided: hits, and the first letters of their evidence."""
    seen = sorted({each.machine for item in results.partitions for each in item.reach.by_machine}, key=_real_first)
    if len(seen) < 2:
        return
    yield "by machine: hits and evidence (s selected, l launched, o observed, c checked)"
    marks = {machine: chr(ord("A") + place) for place, machine in enumerate(seen[:26])}
    yield from (f"  {mark}  {machine}" for machine, mark in marks.items())
    rows = [[item.label, *(_mark(item, machine) for machine in marks)] for item in results.partitions]
    rows.insert(0, ["partition", *marks.values()])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield from ("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _real_first(machine: str) -> tuple[bool, str]:
    return emulated(machine), machine


def _mark(item: Item, machine: str) -> str:
    seen = [each for each in item.reach.by_machine if each.machine == machine]
    evidence = {evidence for each in seen for evidence in each.evidence}
    letters = "".join(each[0] for each in EVIDENCE if each in evidence)
    return f"{sum(each.hits for each in seen)} {letters}" if seen else "-"


def _witness(item: Item, indent: str) -> Iterator[str]:
    """An input that reaches ``item`` and the decision it would take."""
    if item.witness is None:
        yield f"{indent}no input known: whether one exists was not analysed"
        return
    yield f"{indent}reached by  {show(item.witness)}"
    yield f"{indent}would take  {item.decision}"


def _uncovered(title: str, items: Sequence[Item]) -> Iterator[str]:
    missed = [item for item in items if item.state in ("missed", "not-run")]
    elsewhere = [item for item in items if item.state == "elsewhere"]
    if elsewhere:
        yield f"{title}, need other hardware: {len(elsewhere)}"
    if not missed:
        return
    yield f"{title}: {len(missed)} of {sum(item.counts for item in items)}"
    for item in missed[:LISTED]:
        witness = show(item.witness) if item.witness is not None else "no input known"
        yield f"    {item.label}:  {witness}"
    if len(missed) > LISTED:
        yield f"    ... and {len(missed) - LISTED} more (the JSON and HTML reports have all)"


def _grades(mutants: Sequence[Item]) -> Iterator[str]:
    counts = Counter(item.grade for item in mutants)
    if any(item.state in ("missed", "not-run") for item in mutants):
        noticed = counts["caught"] + counts["noticed"]
        caught = f"{counts['caught']} by a test that asserts"
        yield f"mutants noticed: {noticed}, of which {caught}; equivalent: {counts['equivalent']}"


def drift_lines(results: Results) -> Iterator[str]:
    """What drifted, if there was a baseline to compare with, and an empty line."""
    if results.drift is not None:
        yield from map(printable, drift_report.lines(results.drift))
        yield ""


def totals_lines(results: Results) -> Iterator[str]:
    yield "covered: " + ", ".join(f"{name} {totals_text(totals)}" for name, totals in results.totals.items())


def totals_text(totals: Totals) -> str:
    """``9/15 (60 %)``; of nothing, ``none to cover``."""
    return f"{totals.covered}/{totals.total} ({totals.percent:g} %)" if totals.total else "none to cover"


def _together(notes: Sequence[str]) -> Iterator[str]:
    """``notes``, those of one kind on kernels that a test ran as one: a suite that calls a library has many."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for note in notes:
        kind = next((kind for kind in (UNMATCHED, OUTSIDE) if kind in note), "")
        if not kind:
            yield note
            continue
        where, _, symbols = note.partition(kind)
        test, between, op = where.rpartition(": ") if kind == UNMATCHED else (where, "", "")
        kinds.setdefault(between + op + kind, []).append((test, symbols))
    for kind, found in kinds.items():
        who = f"{len(found)} tests, {found[0][0]} and others" if len(found) > 1 else found[0][0]
        yield f"{who}{kind}{'; '.join(dict.fromkeys(symbols for _, symbols in found))}"


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    yield from map(printable, _verdict(verdict))


def _verdict(verdict: Verdict) -> Iterator[str]:
    notes = list(_together(verdict.notes))
    for note in notes[:SHOWN]:
        yield f"note: {note if len(note) <= WIDTH else note[: WIDTH - 4] + ' ...'}"
    if len(notes) > SHOWN:
        yield f"note: and {len(notes) - SHOWN} more (the JSON and HTML reports have all)"
    if verdict.ok:
        yield "dispatch gate: not judged, the run was partial" if verdict.partial else "dispatch gate: passed"
        return
    yield f"dispatch gate: FAILED, {plural(len(verdict.failures), 'reason')}"
    for failure in verdict.failures:
        yield f"  - {failure}"

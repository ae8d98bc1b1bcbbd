"""What ``dispatchcov check`` finds, and how it is printed: for a terminal, as JSON, as annotations on GitHub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dispatchcov.expr import Value
from dispatchcov.parts import show
from dispatchcov.table import Table
from dispatchcov.workflow_commands import command

FORMAT = 1
KINDS = ("contract", "dead", "untotal", "narrow", "redundant", "duplicate", "unknown")
NOTES = ("narrow", "redundant")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a table. ``input`` is the smallest one that shows it, None where none can.

    ``kind``: ``contract`` (an input reaches a kernel whose ``requires`` it violates), ``dead`` (no input reaches the
    rule or partition), ``untotal`` (no rule takes the input), ``narrow`` (the input fits the contract of an earlier
    kernel, whose guard sends it on), ``redundant`` (the predicate never decides its guard, or the
    split never divides its rule), ``duplicate`` (two
    partitions ask for the same inputs), ``unknown`` (not proved either way: never to be read as fine).
    """

    kind: str
    op: str
    file: str
    line: int
    message: str
    rule: str | None = None
    kernel: str | None = None
    partition: str | None = None
    predicate: str | None = None
    input: dict[str, Value] | None = None

    @property
    def severity(self) -> str:
        """``error``, or ``note`` for what is slow or needless but not wrong."""
        return "note" if self.kind in NOTES else "error"

    @property
    def where(self) -> str:
        """File, from the working directory if it lies in it, and line."""
        relative = os.path.relpath(self.file) if os.path.isabs(self.file) else self.file
        return f"{self.file if relative.startswith('..') else relative}:{self.line}"

    def __str__(self) -> str:
        shown = f"\n    input  {show(self.input)}" if self.input is not None else ""
        return f"{self.where}: {self.severity}: {self.kind}: {self.message}{shown}"


def text(tables: Sequence[Table], findings: Sequence[Finding]) -> str:
    """Each finding with its place and input, and how many there are."""
    notes = sum(finding.severity == "note" for finding in findings)
    ops = ", ".join(table.op for table in tables)
    total = f"{_count(len(findings) - notes, 'error')}, {_count(notes, 'note')}" if findings else "no findings"
    return "\n".join([*map(str, findings), f"{ops}: {total}"])


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def as_json(tables: Sequence[Table], findings: Iterable[Finding]) -> str:
    """Format 1; ``tables`` maps each operator to its file. What does not apply to a finding is null."""
    keys = ("kind", "severity", "op", "rule", "kernel", "partition", "predicate", "input", "line", "message")
    document = {
        "format": FORMAT,
        "tables": {table.op: table.source for table in tables},
        "findings": [{key: getattr(finding, key) for key in keys} for finding in findings],
    }
    return json.dumps(document, indent=2)


def github(tables: Sequence[Table], findings: Iterable[Finding]) -> str:
    """Workflow commands that annotate the lines of a pull request, then the text's last line."""
    del tables
    lines = []
    for finding in findings:
        level = "error" if finding.severity == "error" else "notice"
        file, _, line = finding.where.rpartition(":")
        shown = f" (input: {show(finding.input)})" if finding.input is not None else ""
        title = f"dispatchcov {finding.kind}"
        lines.append(command(level, finding.message + shown, file=file, line=line, title=title))
    return "\n".join(lines)


RENDER = {"text": text, "json": as_json, "github": github}

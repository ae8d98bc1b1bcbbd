"""The command that writes a first table from code that dispatches. It returns the exit status."""

from __future__ import annotations

import argparse
import os
import sys

from dispatchcov.check import findings
from dispatchcov.check.faults import check
from dispatchcov.commands.tables import BELOW, FINE, write
from dispatchcov.errors import TableError, UsageError
from dispatchcov.init import first_table as reader
from dispatchcov.init.render import Draft, render
from dispatchcov.loading.load import parse_table


def init(options: argparse.Namespace) -> int:
    """Write the table of a function; 2 if a condition was left or the table has a fault."""
    draft = reader.draft(options.source, op=options.op or "", define=options.define or ())
    text = render(draft)
    target = options.output or "<stdout>"
    if options.output and os.path.exists(options.output):
        raise UsageError(f"init: expected a new file, {options.output} is there already")
    try:
        table = parse_table(text, source=target)
    except TableError as error:
        raise UsageError(f"init: the table of {draft.function} does not load: {error}") from None
    write(options.output, text)
    found = check(table)
    # The table itself may go to standard output, as for a pipe; then what is said of it does not.
    print("\n".join([summary(draft), findings.text([table], found)]), file=sys.stdout if options.output else sys.stderr)
    faulty = any(finding.severity == "error" for finding in found)
    return BELOW if draft.left or faulty else FINE


def summary(draft: Draft) -> str:
    """What was read and what was left, with the lines."""
    counts = [_count(len(draft.live), "rule"), _count(len(draft.facts), "variable")]
    counts += [_count(len(draft.lets), "derived value")] if draft.lets else []
    lines = [f"{draft.function}, {draft.file}:{draft.line}: {', '.join(counts)}"]
    if draft.left:
        rules = _count(len(draft.rules) - len(draft.live), "rule")
        lines.append(f"not translated: {_count(len(draft.left), 'condition')}; {rules} written as comments")
        lines += [f"    {draft.file}:{part.line}: {part.text}  ({part.reason})" for part in draft.left]
    else:
        lines.append("not translated: nothing")
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

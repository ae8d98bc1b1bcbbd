"""The commands that are about a table: its faults and its regions. Each returns the exit status."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dispatchcov import config
from dispatchcov.errors import UsageError
from dispatchcov.table import Table, show

if TYPE_CHECKING:
    from dispatchcov.space.answers import Split
    from dispatchcov.space.sizes import Size

FINE, ERROR, BELOW = 0, 1, 2


def check(options: argparse.Namespace) -> int:
    """Static faults of tables; 2 if one of them is an error."""
    from dispatchcov.check import findings
    from dispatchcov.check.faults import check as search

    tables = config.tables(tuple(options.tables))
    found = [finding for table in tables for finding in search(table)]
    write(options.output, findings.RENDER[options.format](tables, found))
    return BELOW if any(finding.severity == "error" for finding in found) else FINE


def regions(options: argparse.Namespace) -> int:
    """List the regions of a table."""
    from dispatchcov.regions import Space
    from dispatchcov.space.sizes import size

    table = config.table(options.table)
    space = Space.of(table)
    if options.format == "json":
        document = {
            "format": 1,
            "op": table.op,
            "digest": table.digest,
            "regions": [
                {
                    "index": region.index,
                    "name": region.name,
                    "rule": table.rules[region.rule].name if region.rule is not None else None,
                    "kernel": table.rules[region.rule].kernel.name if region.rule is not None else None,
                    "settled": [table.predicates[index].text if index >= 0 else None for index in region.settled],
                    "state": region.state,
                    "witness": region.witness,
                    "reason": region.answer.reason,
                    "size": _size(size(region)),
                    "splits": [_split(table, split) for split in region.splits],
                }
                for region in space.regions
            ],
            "notes": list(space.notes),
        }
        return write(options.output, json.dumps(document, indent=2))
    lines = [f"{table.op}: {len(space.regions)} regions"]
    for region in space.regions:
        witness = show(region.witness) if region.witness is not None else f"no input known ({region.state})"
        extent = size(region)
        lines.append(f"{region.index:4}  {region.name}\n      {witness}")
        lines += [f"      {region.answer.reason}"] if region.answer.reason else []
        lines += [f"      {extent.label}"] if extent else []
        lines += [f"      split {line}" for split in region.splits for line in _sides(table, split)]
    return write(options.output, "\n".join([*lines, *(f"note: {note}" for note in space.notes)]))


def _size(found: Size | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {"class": found.label, "count": found.count, "unbounded": list(found.unbounded), "exact": found.exact}


def _split(table: Table, split: Split) -> dict[str, object]:
    sides = {"true": split.true.witness, "false": split.false.witness}
    return {"predicate": table.predicates[split.predicate].text, **sides}


def _sides(table: Table, split: Split) -> Iterator[str]:
    for name, answer in (("true", split.true), ("false", split.false)):
        witness = show(answer.witness) if answer.witness is not None else answer.state
        witness += f" ({answer.reason})" if answer.reason else ""
        yield f"{table.predicates[split.predicate].text} {name}: {witness}"


def write(path: str | None, text: str) -> int:
    """``text`` to the file ``path``, or printed; raises :class:`UsageError` if it cannot be written.

    A table is not overwritten by what is told of it.
    """
    if path is None:
        if text:
            print(text.rstrip("\n"))
        return FINE
    if path.endswith(".toml") and os.path.exists(path):
        raise UsageError(f"-o: expected a file that may be overwritten, got {path}, a TOML file that is there already")
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text.rstrip("\n") + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    return FINE

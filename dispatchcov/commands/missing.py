"""The commands that say what the recorded tests lack: ``mutate`` and ``suggest``. Each returns the exit status."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterator

from dispatchcov import config, store
from dispatchcov.commands.tables import BELOW, ERROR, FINE, write
from dispatchcov.errors import UsageError
from dispatchcov.items import Item
from dispatchcov.report.json import mutant as mutant_entry
from dispatchcov.report.text import totals_text
from dispatchcov.results import Results, TableResults
from dispatchcov.stale import brought_in
from dispatchcov.table import show

GRADES = ("noticed", "survived", "unknown", "elsewhere", "equivalent")


def mutate(options: argparse.Namespace) -> int:
    """List the mutants that the records do not notice; 2 below ``--fail-under`` percent noticed."""
    settings, results = measured(options)
    if options.format == "json":
        tables = {t.table.op: {"mutants": [mutant_entry(item) for item in t.mutants]} for t in results.tables}
        write(options.output, json.dumps({"format": 1, "tables": tables}, indent=2))
    else:
        write(options.output, "\n".join(line for table in results.tables for line in _survivors(table)))
    if not results.decisions:
        return ERROR
    below = settings.fail_under is not None and results.totals["mutants"].percent < settings.fail_under
    return BELOW if below else FINE


def _grade(item: Item) -> str:
    """The one of :data:`GRADES` that a mutant adds to: a caught one is noticed, and ``elsewhere`` lacks hardware."""
    if item.state == "elsewhere":
        return item.state
    return "noticed" if item.grade == "caught" else item.grade


def _survivors(results: TableResults) -> Iterator[str]:
    grades = Counter(map(_grade, results.mutants))
    parts = [f"{grade} {grades[grade]}" for grade in GRADES if grades[grade]]
    caught = sum(item.grade == "caught" for item in results.mutants)
    yield f"{results.table.op}: mutants noticed {totals_text(results.totals['mutants'])}"
    yield f"  of {len(results.mutants)}: {', '.join(parts)}; caught by a test that asserts {caught}"
    yield from (f"note: {note}" for note in results.notes if note.startswith("mutants: "))
    for item in results.mutants:
        if item.grade in ("survived", "unknown"):
            word = item.grade if item.state in ("missed", "not-run") else f"{item.grade}, {item.state}"
            yield f"{word}: {item.name}: {item.detail}"
            if item.witness is not None:
                yield f"    add  {show(item.witness)}"
                yield f"         {item.decision}"


def suggest(options: argparse.Namespace) -> int:
    """Write a test module for what is missed."""
    from dispatchcov import suggest as search
    from dispatchcov.items import MEASURES
    from dispatchcov.suggest_render import called, render

    if options.call and not callable(config.imported(*called(options.call), f"--call {options.call}")):
        raise UsageError(f"--call {options.call}: expected a function, got what cannot be called")
    _, results = measured(options)
    if not results.decisions and not results.tables:
        raise UsageError("suggest: expected records or a table, got neither; run tests with --dispatch-report first")
    wanted = [part.strip() for part in (options.of or "").split(",") if part.strip()] or MEASURES
    folder = os.path.dirname(os.path.abspath(options.output)) if options.output else None
    texts = []
    for table in results.tables:
        found = search.suggest(table, results.data, wanted)
        nothing = f"# {table.table.op}: nothing is missed\n"
        texts.append(render(table.table, found, options.call, folder) if found else nothing)
    return write(options.output, "\n\n".join(texts))


def measured(options: argparse.Namespace) -> tuple[config.Settings, Results]:
    """The settings and the measures of the records that ``options`` name."""
    names = ("table", "fail_under", "evidence", "data", "stored")
    settings = config.read(os.getcwd(), {name: getattr(options, name, None) for name in names})
    tables = config.tables(settings.table)
    data = brought_in(settings.stored, tables, store.load(os.path.abspath(settings.data)))
    return settings, Results.of(data, tables, evidence=config.evidence(settings.evidence, "--evidence"))

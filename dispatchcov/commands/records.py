"""What each command does; each takes the parsed options and returns the exit status."""

from __future__ import annotations

import argparse
import errno
import os
import platform
import shutil
import subprocess
import sys
import uuid
from dataclasses import replace
from typing import Any

import dispatchcov
from dispatchcov import config, store
from dispatchcov.commands.tables import BELOW, ERROR, FINE, write
from dispatchcov.config import Settings
from dispatchcov.errors import FactsError, UsageError, known
from dispatchcov.expr import Value
from dispatchcov.gate import Limits, judge
from dispatchcov.plugin.destinations import apart, look, writable
from dispatchcov.report import FORMATS, REPORTS, ready, render
from dispatchcov.report import text as text_report
from dispatchcov.report import write as write_report
from dispatchcov.report.text import plural
from dispatchcov.results import Results
from dispatchcov.stale import brought_in
from dispatchcov.table import Table, Variable
from dispatchcov.weights import weighed


def run(options: argparse.Namespace) -> int:
    """Run a command with recording on in it and in all that it starts, then report."""
    if not options.command:
        raise UsageError("run: expected a command after --, as in: dispatchcov run -- python train.py")
    ready(FORMATS[options.format])
    settings = _settings(options)
    data = os.path.abspath(settings.data)
    settings = replace(settings, append=options.append or settings.append)
    if options.weights is None and os.path.realpath(settings.weights) == os.path.realpath(settings.data):
        settings = replace(settings, weights="")  # the workload of the project is what is recorded here
    look(settings, (), "--")
    _output_apart(options, settings)
    _startable(options.command[0])
    if not settings.append:
        store.erase(data)
    environment = {**os.environ, config.RUN: uuid.uuid4().hex, config.DATA: data}
    if settings.table:  # what judges: it may have partitions of its own
        environment[config.TABLE] = config.tables_for_others(settings.table)
    environment.pop("PYTEST_CURRENT_TEST", None)  # a test that runs this command is none of the new run's
    try:
        code = subprocess.run(options.command, env=environment, check=False).returncode
    except OSError as error:
        raise UsageError(f"run: cannot start {options.command[0]!r}: {error.strerror or error}") from None
    status = code if code >= 0 else 128 - code  # as a shell says that a signal ended it
    if not store.shards_beside(data) and not os.path.exists(data):
        why = f"it ended with status {status}" if status else "it loaded no dispatch table"
        print(f"dispatchcov: {options.command[0]} recorded nothing: {why}", file=sys.stderr)
        return status or ERROR
    store.combine(data, remove=True)
    judged = _report(options, settings, options.format)
    return status or judged


def _startable(program: str) -> None:
    """Raise :class:`UsageError` if there is no such program: the records of the last run stay."""
    if shutil.which(program) is None:
        reason = errno.EACCES if os.path.exists(program) else errno.ENOENT
        raise UsageError(f"run: cannot start {program!r}: {os.strerror(reason)}")


def report(options: argparse.Namespace) -> int:
    """Report on the records."""
    return _report(options, _settings(options), options.format)


def written(options: argparse.Namespace) -> int:
    """Write the report of the type that the command is named after."""
    return _report(options, _settings(options), options.kind)


def combine(options: argparse.Namespace) -> int:
    """Merge shards and data files."""
    settings = _settings(options)
    data = store.combine(os.path.abspath(settings.data), options.paths, remove=options.remove)
    for problem in (f"{shard.name}: {problem}" for shard in data.shards for problem in shard.problems):
        print(f"dispatchcov: records are damaged: {problem}", file=sys.stderr)
    if not options.quiet:
        runs = len({shard.run for shard in data.shards})
        decisions = sum(row.selected for row in data.rows)
        shards = f"{plural(len(data.shards), 'shard')} of {plural(runs, 'run')}"
        print(f"{settings.data}: {shards}, {plural(decisions, 'decision')}")
    return FINE


def erase(options: argparse.Namespace) -> int:
    """Remove the records."""
    settings = _settings(options)
    count = store.erase(os.path.abspath(settings.data))
    if not options.quiet:
        print(f"{settings.data}: {plural(count, 'file')} removed")
    return FINE


def explain(options: argparse.Namespace) -> int:
    """Show one decision."""
    table = config.table(options.table)
    print(table.explain(**_facts(table, options.facts)))
    return FINE


def debug(options: argparse.Namespace) -> int:
    """Show what dispatchcov sees."""
    settings = _settings(options)
    data = os.path.abspath(settings.data)
    print(f"dispatchcov {dispatchcov.__version__}, Python {platform.python_version()}, {platform.platform()}")
    for name in Settings.__dataclass_fields__:
        print(f"setting {name}: {getattr(settings, name)!r}")
    for name, value in sorted(os.environ.items()):
        if name.startswith("DISPATCHCOV_"):
            print(f"environment {name}={value}")
    print(f"data file {data}: {'there' if os.path.exists(data) else 'not there'}")
    for path in store.shards_beside(data):
        print(f"shard {path}")
    for spec in settings.table:
        print(f"configured table {config.table(spec)!r}")
    if os.path.exists(data) or store.shards_beside(data):
        records = store.load(data)
        for table in records.tables:
            print(f"recorded table {table.op} {table.digest[:12]} from {table.source}")
        for shard in records.shards:
            end = "ended" if shard.ended else "did not end in order"
            print(f"process {shard.host} {shard.pid} of run {shard.run[:8]}: {shard.lines} lines, {end}")
    return FINE


def bench(options: argparse.Namespace) -> int:
    """Measure what recording costs."""
    from dispatchcov import bench as benchmark

    for option, path in (("-o", options.output), ("--plot", options.plot)):
        writable(path or "", f"bench {option}")
    return benchmark.main(quick=options.quick, output=options.output, plot=options.plot)


def _settings(options: argparse.Namespace) -> Settings:
    names = ("table", "require", "fail_under", "evidence", "data", "stored", "weights")
    given = {name: getattr(options, name, None) for name in names}
    return config.read(os.getcwd(), given)


def _output_apart(options: argparse.Namespace, settings: Settings) -> None:
    """Raise :class:`UsageError` if the report would take the place of the records or of a table."""
    others = [("--data", settings.data), *(("--stored", file) for file in settings.stored)]
    others += [("--table", spec) for spec in settings.table if spec.endswith(".toml")]
    others += [("--weights", settings.weights)] if settings.weights else []
    apart([("-o", options.output)] if options.output else [], others)


def _report(options: argparse.Namespace, settings: Settings, kind: str) -> int:
    _output_apart(options, settings)
    tables = config.tables(settings.table)
    data = brought_in(settings.stored, tables, store.load(os.path.abspath(settings.data)))
    evidence = config.evidence(settings.evidence, "--evidence")
    if options.complete:
        data = replace(data, shards=tuple(replace(shard, partial=()) for shard in data.shards))
    results = weighed(Results.of(data, tables, evidence=evidence), settings.weights)
    verdict = judge(results, Limits(settings.fail_under, settings.require))
    folder = REPORTS[FORMATS[kind]].file and (options.output or REPORTS[FORMATS[kind]].destination)
    silent = options.quiet and not folder and not options.output
    text = "" if silent else render(FORMATS[kind], results, verdict)
    if folder:
        path = write_report(kind, folder, text)
        if not options.quiet:
            print(path)
    elif not silent:
        write(options.output, text)
    if options.quiet and not verdict.ok:
        print("\n".join(text_report.verdict_lines(verdict)), file=sys.stderr)
    if verdict.no_data:
        return ERROR
    return FINE if verdict.ok else BELOW


def _facts(table: Table, pairs: list[str]) -> dict[str, Value]:
    facts: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"explain: expected VAR=VALUE, got {pair!r}")
        if name not in table.names:
            raise FactsError(f"{table.op}: unknown variable {name!r}; {known(name, table.names)}")
        if name in facts:
            raise UsageError(f"explain: expected one value for {name}, got two")
        facts[name] = _value(table, table.variable(name), text)
    return facts


def _value(table: Table, variable: Variable, text: str) -> Value:
    words: dict[str, Any] = {"true": True, "1": True, "false": False, "0": False}
    if variable.type == "enum":
        return text
    if variable.type == "bool" and text.lower() in words:
        return bool(words[text.lower()])
    if variable.type == "int":
        try:
            return int(text)
        except ValueError:
            pass
    raise FactsError(f"{table.op}: expected {variable.name} to be {variable.domain()}, got {text!r}")

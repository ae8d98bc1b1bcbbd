"""The baseline: a file in version control that says which test reaches which region and kernel.

JSON lines, UTF-8. The first says what the file is; then come the variables, derived values and rules of each table,
in their order, and then the entries, sorted, one line a test, operator, region and kernel. An entry names, of each
earlier rule that could fail in several ways, the variables of the predicate that settled it, and not its text: so a
threshold that changes in the table changes one line here, and besides it only the lines of tests that it moves. The
input of an entry is what lets a change of the table be told from a change of the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dispatchcov.compare import baseline_tables
from dispatchcov.errors import DataError, TableError, UsageError
from dispatchcov.expr import Value
from dispatchcov.files.untrusted import are_facts, open_regular, parse_lines, reason, refuse, show, text
from dispatchcov.parts import Parts

FORMAT = 1
MAX_BYTES = 1 << 28
ABOUT = "which test reaches which region and kernel; written by pytest --dispatch-update-baseline"
HEADER = {"dispatchcov": "baseline", "format": FORMAT, "about": ABOUT}
Facts: TypeAlias = tuple[tuple[str, Value], ...]
KEYS = ("test", "op", "rule", "kernel", "not", "input")


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """``test`` reaches a region of ``op``: ``rule`` ("": none) selected, ``settled`` what kept the others from it.

    ``settled`` pairs each earlier rule that could fail in several ways with the variables of the predicate that settled
    it. ``facts`` is an input that goes there, by name. ``varies``: the test draws other inputs in each run.
    """

    test: str
    op: str
    rule: str
    kernel: str
    settled: tuple[tuple[str, str], ...] = ()
    facts: Facts = field(default=(), compare=False)
    varies: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Entries, sorted, each once, and the tables, by operator, in force when the file was written."""

    tables: Mapping[str, Parts]
    entries: tuple[Entry, ...]


def read(path: str) -> Baseline:
    """The baseline file ``path``; raises :class:`UsageError` for any other file."""
    try:
        with open_regular(path, "a baseline", MAX_BYTES) as stream:
            content = stream.read()
    except DataError as error:
        if not os.path.lexists(path):
            raise UsageError(
                f"{path}: expected a baseline, got no file; pytest --dispatch-baseline={path} "
                "--dispatch-update-baseline writes it"
            ) from None
        raise UsageError(str(error)) from None
    return parse(content, path)


def is_baseline(head: bytes) -> bool:
    """Does a file that begins with ``head`` say that it is a baseline, of whatever format?"""
    return head.startswith(b'{"dispatchcov": "baseline"')


def parse(content: bytes, source: str) -> Baseline:
    """The baseline that ``content``, of ``source``, is; raises :class:`UsageError`."""
    lines = content.replace(b"\r\n", b"\n").split(b"\n")
    _check_header(lines[0], source)
    declared: dict[str, dict[bytes, dict[str, Any]]] = {}
    entries: dict[Entry, Entry] = {}
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if number > 1 and line.strip()]
    for (number, line), value in zip(numbered, parse_lines([line for _, line in numbered]), strict=True):
        if type(value) is not dict:
            raise UsageError(f"{source}:{number}: expected a JSON object, got {show(line)}{_hint(line)}")
        try:
            if "test" in value:
                entry = _entry(value)
                entries[entry] = min(entries.get(entry, entry), entry, key=lambda e: repr(e.facts))
            else:
                declared.setdefault(text(value.get("op")), {})[line] = value  # a union merge may leave it twice
        except TypeError:
            wanted = f"an entry with {', '.join(KEYS)}, or a line of a table with op"
            raise UsageError(f"{source}:{number}: expected {wanted}, got {show(value)}") from None
    tables = {}
    for op, values in declared.items():
        try:
            tables[op] = baseline_tables.parse(op, values.values(), source)
        except (TypeError, TableError) as error:
            why = error.message if isinstance(error, TableError) else f"a line that is none of a table: {error}"
            raise UsageError(f"{source}: expected the table of {op} as dispatchcov writes it: {why}") from None
    return Baseline(tables, tuple(sorted(entries.values())))


def _check_header(line: bytes, source: str) -> None:
    (value,) = parse_lines([line])
    if type(value) is not dict or value.get("dispatchcov") != "baseline":
        raise UsageError(f"{source}:1: expected a baseline of dispatchcov, got another file: {show(line)}{_hint(line)}")
    if value.get("format") != FORMAT:
        raise UsageError(
            f"{source}: expected a baseline of format {FORMAT}, got format {show(value.get('format'))}; "
            "it was written by another version of dispatchcov"
        )


def _hint(line: bytes) -> str:
    return "; a merge was not finished" if line.startswith((b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")) else ""


def _entry(value: dict[str, Any]) -> Entry:
    test, op, rule, kernel, settled, facts = (value.get(key) for key in KEYS)
    varies = value.get("varies", False)
    if set(value) - {*KEYS, "varies"} or type(settled) is not dict or type(facts) is not dict:
        refuse(value)
    if type(varies) is not bool or not are_facts(facts.values()):
        refuse(value)
    reasons = tuple((text(name), text(label)) for name, label in settled.items())
    return Entry(text(test), text(op), text(rule), text(kernel), reasons, tuple(facts.items()), varies)


def render(baseline: Baseline) -> bytes:
    """``baseline`` as the content of its file."""
    lines: list[Mapping[str, Any]] = [HEADER]
    for _, parts in sorted(baseline.tables.items()):
        lines += baseline_tables.lines(parts)
    lines += map(_line, sorted(baseline.entries))
    texts = (json.dumps(line, ensure_ascii=False) for line in lines)
    return "".join(f"{line}\n" for line in texts).encode("utf-8", "backslashreplace")


def _line(entry: Entry) -> dict[str, Any]:
    values = (entry.test, entry.op, entry.rule, entry.kernel, dict(entry.settled), dict(entry.facts))
    return dict(zip(KEYS, values, strict=True)) | ({"varies": True} if entry.varies else {})


def write(path: str, baseline: Baseline) -> bool:
    """Make ``path`` hold ``baseline``, as a whole or not at all; false if it did already. :class:`UsageError`."""
    content = render(baseline)
    target = os.path.realpath(path)
    beside = f"{target}.{secrets.token_hex(6)}.tmp"
    try:
        with contextlib.suppress(FileNotFoundError), open(target, "rb") as stream:
            if stream.read() == content:
                return False
        with open(beside, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(beside, os.stat(target).st_mode & 0o777)
        os.replace(beside, target)
    except OSError as error:
        raise UsageError(f"{path}: cannot write the baseline: {reason(error)}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
    return True


def by_test(entries: Iterable[Entry]) -> dict[str, dict[str, list[Entry]]]:
    """``entries`` by test and operator."""
    found: dict[str, dict[str, list[Entry]]] = {}
    for entry in entries:
        found.setdefault(entry.test, {}).setdefault(entry.op, []).append(entry)
    return found

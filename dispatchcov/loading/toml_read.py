"""A table's TOML as typed values: every mistake is a :class:`TableError` with file, line, expected and got.

:class:`Entry` is one TOML table of the file; its methods read a key of one type each. Sizes are bounded before anything
is parsed, so that a file from a stranger cannot keep a reader busy.
"""

from __future__ import annotations

import datetime
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from dispatchcov.errors import TableError, brief, known
from dispatchcov.expr import INT_LIMIT
from dispatchcov.loading.toml_lines import Path, scan

MAX_BYTES = 1 << 20
MAX_ENTRIES = 1000
MAX_NAME = 200


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of the TOML file ``path``, UTF-8 of at most 1 MiB; a byte order mark is left out."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TableError(f"expected a readable TOML file: {reason}", file=name) from None
    if len(data) > MAX_BYTES:
        raise TableError(f"expected at most {MAX_BYTES} bytes, got more", file=name)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TableError(f"expected UTF-8, got byte {data[error.start]:#04x}", file=name, line=line) from None


class Document:
    """The TOML ``text`` of one file, called ``source`` in messages."""

    def __init__(self, text: str, source: str) -> None:
        self.source = PurePath(source).as_posix()
        self.text = text
        if len(text) > MAX_BYTES:
            raise TableError(f"expected at most {MAX_BYTES} characters, got {len(text)}", file=self.source)
        self.lines = scan(text)
        if self.lines.refused:
            line, message = self.lines.refused
            raise TableError(message, file=self.source, line=line)
        try:
            values = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            at = re.search(r"at line (\d+)", str(error))
            line = int(at[1]) if at else text.count("\n") + 1 if "end of document" in str(error) else 0
            raise TableError(f"expected TOML: {error}", file=self.source, line=line) from None
        self.root = Entry(self, "the table file", values, ())

    def fail(self, message: str, line: int = 0) -> TableError:
        """The error for a mistake in ``line``."""
        return TableError(message, file=self.source, line=line)


class Entry:
    """One TOML table: ``where`` names it in messages, ``path`` says where it stands."""

    def __init__(self, document: Document, where: str, values: Mapping[str, Any], path: Path) -> None:
        self.document = document
        self.where = where
        self.values = values
        self.path = path

    def line(self, *path: str | int) -> int:
        """The line of a key, or of an element of its list; without arguments that of the table itself."""
        return self.document.lines.of(*self.path, *path)

    def fail(self, message: str, *path: str | int) -> TableError:
        """The error for a mistake in the table, in the line of ``path``."""
        return self.document.fail(f"{self.where}: {message}", self.line(*path))

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def only(self, *allowed: str) -> Entry:
        """This entry; an error if it has another key."""
        for key in self.values:
            if key not in allowed:
                raise self.fail(f"unknown key {brief(key)}; {known(key, allowed)}", key)
        return self

    def table(self, key: str) -> Entry:
        """The table under ``key``, empty if there is none."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.fail(f"expected {key} to be a table, got {shown(value)}", key)
        if len(value) > MAX_ENTRIES:
            raise self.fail(f"expected at most {MAX_ENTRIES} entries in {key}, got {len(value)}", key)
        return Entry(self.document, f"[{key}]", value, (*self.path, key))

    def tables(self, key: str) -> list[Entry]:
        """The elements of the array of tables under ``key``."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.fail(f"expected [[{key}]], an array of tables, got {shown(value)}", key)
        if len(value) > MAX_ENTRIES:
            raise self.fail(f"expected at most {MAX_ENTRIES} of [[{key}]], got {len(value)}", key)
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.fail(f"expected [[{key}]], an array of tables, got {shown(item)} in it", key, index)
        return [Entry(self.document, f"[[{key}]]", item, (*self.path, key, i)) for i, item in enumerate(value)]

    def string(self, key: str) -> str:
        """A string that says something."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(f"expected {key} to be a string that is not empty, got {shown(value)}", key)
        return value

    def name(self, key: str) -> str:
        """A string that can stand in a line of a report."""
        value = self.string(key)
        if value != value.strip() or not value.isprintable() or len(value) > MAX_NAME:
            wanted = f"at most {MAX_NAME} printable characters without space around them"
            raise self.fail(f"expected {key} to be {wanted}, got {brief(value)}", key)
        return value

    def integer(self, key: str) -> int | None:
        """An integer of 64 bits, or None."""
        value = self.values.get(key)
        if value is not None and not _is_integer(value):
            raise self.fail(f"expected {key} to be an integer below 2**63, got {shown(value)}", key)
        return value

    def boolean(self, key: str, default: bool) -> bool:
        """True or false, ``default`` if not said."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(f"expected {key} to be true or false, got {shown(value)}", key)
        return value

    def strings(self, key: str) -> list[str]:
        """A list of strings, each once; empty if not said."""
        return self._list(key, "strings", lambda item: isinstance(item, str))

    def integers(self, key: str) -> list[int]:
        """A list of integers of 64 bits, each once; empty if not said."""
        return self._list(key, "integers below 2**63", _is_integer)

    def _list(self, key: str, wanted: str, fits: Any) -> list[Any]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.fail(f"expected {key} to be a list of {wanted}, got {shown(value)}", key)
        if len(value) > MAX_ENTRIES:
            raise self.fail(f"expected at most {MAX_ENTRIES} entries in {key}, got {len(value)}", key)
        seen = set()
        for index, item in enumerate(value):
            if not fits(item):
                raise self.fail(f"expected {key} to be a list of {wanted}, got {shown(item)} in it", key, index)
            if item in seen:
                raise self.fail(f"expected each entry of {key} once, got {brief(item)} twice", key, index)
            seen.add(item)
        return value

    def choices(self, key: str, names: Iterable[str], what: str) -> list[str]:
        """A list of ``names``, each once; ``what`` is what they name."""
        chosen = self.strings(key)
        allowed = list(names)
        for index, item in enumerate(chosen):
            if item not in allowed:
                raise self.fail(f"unknown {what} {brief(item)} in {key}; {known(item, allowed)}", key, index)
        return chosen

    def date(self, key: str) -> datetime.date:
        """A date, as TOML has it or as a string."""
        value = self.values.get(key)
        if isinstance(value, str):
            try:
                return datetime.date.fromisoformat(value)
            except ValueError:
                value = self.values[key]
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value
        raise self.fail(f"expected {key} to be a date such as 2027-01-31, got {shown(value)}", key)


def _is_integer(value: object) -> bool:
    return type(value) is int and abs(value) < INT_LIMIT


def shown(value: object) -> str:
    """A TOML value, with its kind, for the end of a message."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return f"{'a table' if isinstance(value, dict) else 'an array'} {brief(value)}"
    kind = {str: "the string", int: "the integer", float: "the number"}.get(type(value), type(value).__name__)
    return f"{kind} {brief(value)}"

"""Tables that extend another: the rules of the file that ``[table] extends`` names, with requirements of their own.

A project that uses an operator of another asks of its own tests what matters to it; the rules stay in one file. Only a
file can extend another: a text from elsewhere makes nobody read files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from dispatchcov.errors import TableError
from dispatchcov.loading.toml_read import Document, Entry, read_text

REQUIREMENTS = ("partition", "waiver")
ESCAPES = {'"': '\\"', "\\": "\\\\"}


@dataclass(frozen=True, slots=True)
class Extension:
    """What an extending file comes to: its base and its own requirements."""

    base: Document
    requirements: Entry

    def text(self) -> str:
        """A whole table that says both; only for requirements that have been read without an error."""
        entries = [entry for kind in REQUIREMENTS for entry in self.requirements.tables(kind)]
        return "\n".join([_without_requirements(self.base), *map(_section, entries), ""])


def read_extension(document: Document) -> Extension:
    """The base that ``document`` extends and its requirements; raises :class:`TableError`."""
    root = document.root.only("table", *REQUIREMENTS)
    head = root.table("table").only("extends")
    path = os.path.join(os.path.dirname(document.source), head.string("extends"))
    try:
        text = read_text(path)
    except TableError as error:
        raise head.fail(f"expected a table to extend: {error}", "extends") from None
    base = Document(text, path)
    if "extends" in base.root.table("table"):
        raise head.fail(f"expected the file of a whole table, got {path!r}, which extends another", "extends")
    if not root.tables("partition"):
        raise document.fail("expected at least one [[partition]], got none")
    return Extension(base, root)


def _without_requirements(document: Document) -> str:
    """The text up to the requirements, so that all else keeps its line; they must stand at the end of a base."""
    places = document.lines.places.items()
    first = min((line for path, line in places if path[0] in REQUIREMENTS), default=0)
    if not first:
        return document.text
    for path, line in places:
        if path[0] not in REQUIREMENTS and line >= first:
            wanted = "partitions and waivers to be the last sections of a table that is extended"
            raise document.fail(f"expected {wanted}, got {path[0]} after one in line {first}", line)
    return "\n".join(document.text.split("\n")[: first - 1])


def _section(entry: Entry) -> str:
    return "\n".join([f"[[{entry.path[0]}]]", *(f"{key} = {_toml(value)}" for key, value in entry.values.items())])


def _toml(value: object) -> str:
    """A value of a requirement as TOML: a string, a list of strings, an integer, a boolean or a date."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return '"' + "".join(ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in value) + '"'
    return str(value).lower()

"""Where things stand in a TOML file: the standard library's parser gives values without their lines.

:func:`scan` finds the line of each table header and each key by reading lines, skipping comments and multi-line strings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_\-.\"' ]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"\s*([A-Za-z0-9_\-]+|\"[^\"]*\"|'[^']*')\s*=")


@dataclass
class Section:
    """One ``[name]`` or ``[[name]]``: its line and the lines of its keys."""

    name: str
    line: int
    keys: dict[str, int] = field(default_factory=dict)


@dataclass
class Lines:
    sections: list[Section]

    def of(self, name: str, index: int = 0, key: str | None = None) -> int:
        """The line of the ``index``-th section called ``name``, or of ``key`` in it; 0 if it is not written as a section."""
        matching = [section for section in self.sections if section.name == name]
        if index >= len(matching):
            return self.of("", 0, name) if name else 0
        section = matching[index]
        return section.keys.get(key, section.line) if key else section.line


def scan(text: str) -> Lines:
    """The sections and keys of ``text`` with their line numbers, from 1."""
    current = Section("", 0)
    sections = [current]
    quote = ""
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not quote and depth == 0:
            if header := HEADER.match(line):
                current = Section(header[2].strip("\"' "), number)
                sections.append(current)
                continue
            if key := KEY.match(line):
                current.keys.setdefault(key[1].strip("\"'"), number)
        quote, depth = _advance(line, quote, depth)
    return Lines(sections)


def _advance(line: str, quote: str, depth: int) -> tuple[str, int]:
    """The open multi-line quote and the bracket depth after ``line``."""
    position = 0
    while position < len(line):
        if quote:
            end = _closing(line, quote, position)
            if end < 0:
                return (quote if len(quote) == 3 else ""), depth
            position, quote = end + len(quote), ""
            continue
        char = line[position]
        if char == "#":
            break
        if char in "\"'":
            quote = char * 3 if line.startswith(char * 3, position) else char
            position += len(quote)
            continue
        depth += (char in "[{") - (char in "]}")
        position += 1
    return (quote if len(quote) == 3 else ""), max(depth, 0)


def _closing(line: str, quote: str, start: int) -> int:
    position = start
    while (position := line.find(quote, position)) >= 0:
        backslashes = 0
        while quote[0] == '"' and position - backslashes > start and line[position - backslashes - 1] == "\\":
            backslashes += 1
        if backslashes % 2 == 0:
            return position
        position += 1
    return -1

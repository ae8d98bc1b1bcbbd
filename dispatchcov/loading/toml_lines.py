"""Where things stand in a TOML file: the standard library's parser gives values without their lines.

:func:`scan` walks the text of TOML 1.0 without building values and notes the line of everything that has a name or a
place: ``("rule", 2, "splits", 0)`` is the first split of the third rule. What is not TOML ends the walk; the parser
says why.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

MAX_PARTS = 8
MAX_NESTING = 16
BLANK = re.compile(r"[ \t]*")
SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*+")
REST = re.compile(r"[ \t]*(?:#[^\n]*)?")
PART = re.compile(r"""([A-Za-z0-9_-]+)|("[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")|'([^'\n]*)'""")
VALUE = re.compile(
    r'''
      """ [^"\\]*+ (?: (?: \\. | "(?!"") ) [^"\\]*+ )*+ """ "{0,2}
    | " [^"\\\n]*+ (?: \\. [^"\\\n]*+ )*+ "
    '''
    r"""
    | ''' .*? ''' '{0,2}
    | ' [^'\n]* '
    | [^\s,\[\]{}\#"'] [^,\[\]{}\#\n]*
    """,
    re.S | re.X,
)


@dataclass
class Lines:
    """The line, from 1, of each table, key and list element; and what ``scan`` refused to walk through."""

    places: dict[Path, int] = field(default_factory=dict)
    refused: tuple[int, str] | None = None

    def of(self, *path: str | int) -> int:
        """The line of ``path``, or of the nearest thing around it; 0 if nothing of it is written."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, 0)


def scan(text: str) -> Lines:
    """The lines of everything in ``text``. Takes time linear in it; refuses keys and values nested too deeply."""
    scanner = _Scanner(text)
    try:
        scanner.document()
    except _StopError as stop:
        if stop.args:
            scanner.lines.refused = scanner.line(), stop.args[0]
    return scanner.lines


class _StopError(Exception):
    """The text is not TOML from here on or, with a message, more deeply nested than any table needs."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.lines = Lines()
        self.lengths: dict[Path, int] = {}

    def line(self) -> int:
        return bisect_right(self.starts, self.at)

    def note(self, path: Path) -> None:
        line = self.line()
        for length in range(1, len(path) + 1):
            self.lines.places.setdefault(path[:length], line)

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _StopError
        self.at = match.end()
        return match[0]

    def take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        self.at += len(token) * found
        return found

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise _StopError

    def document(self) -> None:
        table: Path = ()
        while True:
            self.skip(SPACE)
            if self.at == len(self.text):
                return
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.pair(table, 0)
            self.skip(REST)
            if self.at < len(self.text) and not (self.take("\r\n") or self.take("\n")):
                raise _StopError

    def header(self) -> Path:
        """``[a.b]`` or ``[[a.b]]``: the path of its table, with the index of the last element of arrays before it."""
        close = "]]" if self.take("[[") else "]"
        if close == "]":
            self.expect("[")
        parts = self.key()
        path: Path = ()
        for part in parts[:-1]:
            path = (*path, part)
            if path in self.lengths:
                path = (*path, self.lengths[path] - 1)
        path = (*path, parts[-1])
        if close == "]]":
            index = self.lengths.get(path, 0)
            self.lengths[path] = index + 1
            path = (*path, index)
        self.note(path)
        self.expect(close)
        return path

    def key(self) -> list[str]:
        parts = []
        while True:
            self.skip(BLANK)
            match = PART.match(self.text, self.at)
            if match is None:
                raise _StopError
            bare, basic, literal = match.groups()
            parts.append(bare if bare is not None else literal if literal is not None else _unescaped(basic))
            if len(parts) > MAX_PARTS:
                raise _StopError(f"expected a key of at most {MAX_PARTS} parts")
            self.at = match.end()
            self.skip(BLANK)
            if not self.take("."):
                return parts

    def pair(self, table: Path, depth: int) -> None:
        start = self.at
        path = (*table, *self.key())
        end, self.at = self.at, start
        self.note(path)
        self.at = end
        self.expect("=")
        self.skip(BLANK)
        self.value(path, depth)

    def value(self, path: Path, depth: int) -> None:
        if depth > MAX_NESTING:
            raise _StopError(f"expected values nested at most {MAX_NESTING} deep")
        if self.take("["):
            self.array(path, depth + 1)
        elif self.take("{"):
            self.inline(path, depth + 1)
        else:
            self.skip(VALUE)

    def array(self, path: Path, depth: int) -> None:
        index = 0
        while True:
            self.skip(SPACE)
            if self.take("]"):
                return
            self.note((*path, index))
            self.value((*path, index), depth)
            index += 1
            self.skip(SPACE)
            if not self.take(","):
                self.expect("]")
                return

    def inline(self, path: Path, depth: int) -> None:
        self.skip(BLANK)
        if self.take("}"):
            return
        while True:
            self.skip(BLANK)
            self.pair(path, depth)
            self.skip(BLANK)
            if not self.take(","):
                self.expect("}")
                return


def _unescaped(basic: str) -> str:
    """A quoted key. JSON's escapes are TOML's but for ``\\U``, with which a key is merely not found by its name."""
    try:
        return str(json.loads(basic))
    except ValueError:
        return basic

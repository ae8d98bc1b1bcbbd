"""C++ source as tokens: comments gone, one token for each preprocessor line."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from dispatchcov.init import syntax as syn

TOKEN = re.compile(
    r"""
      (?P<space> [ \t\r\n\f\v]+ | \\\r?\n | //(?:[^\n\\]|\\.|\\\n)* | /\*.*?\*/ )
    | (?P<line> \#(?:[^\n\\/]|\\\r?\n|\\.|/\*.*?\*/|/(?![/*]))* )
    | (?P<string> (?:u8|[uUL])? (?: R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)" | "(?:[^"\\\n]|\\.)*" ) (?:sv|s)? )
    | (?P<character> (?:u8|[uUL])? '(?:[^'\\\n]|\\.)+' )
    | (?P<number> \.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z]|[0-9A-Za-z_.])* )
    | (?P<name> [A-Za-z_]\w* )
    | (?P<sign> <<<|>>>|<=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||[=!<>+\-*/%&|^]=|<<|\#\#|. )
    """,
    re.S | re.X,
)
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)[uUlLzZ]*\Z")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'"}
PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Token:
    """``kind``: ``line`` (of the preprocessor), ``string``, ``character``, ``number``, ``name``, ``sign``, ``end``."""

    kind: str
    text: str
    line: int
    start: int
    end: int


class Tokens:
    """The tokens of ``text``; :attr:`partner` has, for each opening bracket, where it is closed."""

    def __init__(self, text: str) -> None:
        starts = [0, *(match.end() for match in re.finditer("\n", text))]
        clean = list(text)
        self.tokens: list[Token] = []
        for match in TOKEN.finditer(text):
            kind = str(match.lastgroup if match.lastgroup != "fence" else "string")
            if kind == "space":
                clean[match.start() : match.end()] = [" "] * (match.end() - match.start())
                continue
            if kind == "line" and text[starts[bisect_right(starts, match.start()) - 1] : match.start()].strip():
                kind = "sign"  # not at the start of a line: not of the preprocessor
            line = bisect_right(starts, match.start())
            self.tokens.append(Token(kind, match[0], line, match.start(), match.end()))
        self.tokens.append(Token("end", "", len(starts), len(text), len(text)))
        self.clean = "".join(clean)
        self.partner = self._pairs()

    def _pairs(self) -> dict[int, int]:
        found: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in PAIRS:
                opened.append(at)
            elif token.text in PAIRS.values():
                while opened and PAIRS[self.tokens[opened[-1]].text] != token.text:
                    opened.pop()
                if opened:
                    found[opened.pop()] = at
        return found

    def text(self, start: int, end: int) -> str:
        """The source of tokens ``start`` to ``end``, which is not in it, on one line."""
        if start >= end:
            return ""
        return syn.flat(self.clean[self.tokens[start].start : self.tokens[end - 1].end])


def integer(text: str) -> int | None:
    """The value of an integer literal; None for any other number."""
    match = INTEGER.match(text.replace("'", ""))
    if match is None:
        return None
    digits = match[1]
    if digits[:2].lower() in ("0x", "0b"):
        return int(digits, 0)
    return int(digits, 8 if digits.startswith("0") else 10)


def string(text: str) -> str | None:
    """The value of a string literal; None where it has an escape that is not read."""
    body = text[text.index('"') :]
    if "R" in text[: text.index('"')]:
        return body[body.index("(") + 1 : body.rindex(")")]
    body = body[1 : body.rindex('"')]
    if re.search(r"\\(?![ntr0\\\"'])|\\0[0-7]", body):
        return None
    return re.sub(r"\\(.)", lambda match: ESCAPES[match[1]], body)

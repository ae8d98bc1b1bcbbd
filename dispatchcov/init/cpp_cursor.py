"""A place among the tokens of C++, and the smallest things read there: operators, qualified names, casts."""

from __future__ import annotations

from dispatchcov.init.tokens import Token, Tokens

INTEGERS = {"int", "long", "short", "unsigned", "signed", "size_t", "ssize_t", "ptrdiff_t", "char"} | {
    f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
BUILTIN = INTEGERS | {"bool", "float", "double", "const", "std", "::"}
WORDS = {"and": "&&", "or": "||", "not": "!", "not_eq": "!="}


class NotReadError(Exception):
    """The tokens are no expression that is read here."""


class Cursor:
    """A place in ``source``: token :attr:`at` is next. :attr:`assigned` gathers names that expressions assign."""

    def __init__(self, source: Tokens) -> None:
        self.source = source
        self.tokens = source.tokens
        self.at = 0
        self.depth = 0
        self.assigned: list[str] = []

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def sign(self) -> str:
        """The text of the token if it is an operator or bracket, else ``""``; ``>>`` may be two tokens."""
        token = self.token
        if token.kind == "name":
            return WORDS.get(token.text, "")
        if token.kind != "sign":
            return ""
        pair = self.tokens[self.at + 1] if token.text == ">" else token
        return ">>" if token.text == ">" == pair.text and pair.start == token.end else token.text

    def take(self, *signs: str) -> bool:
        found = self.sign() in signs
        self.at += found * (2 if found and self.sign() == ">>" and self.token.text == ">" else 1)
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise NotReadError

    def text(self, start: int) -> str:
        return self.source.text(start, self.at)

    def close(self) -> int:
        close = self.source.partner.get(self.at)
        if close is None:
            raise NotReadError
        return close + 1

    def cast(self) -> str:
        """The type of a cast ``(int64_t)x`` to a type of the language or its library; then the parentheses are read."""
        close = self.source.partner.get(self.at)
        if close is None or close == self.at + 1:
            return ""
        inner = self.tokens[self.at + 1 : close]
        follows = self.tokens[close + 1]
        if not all(token.text in BUILTIN for token in inner) or inner[-1].text in ("const", "std", "::"):
            return ""
        if follows.kind not in ("name", "number") and follows.text not in ("(", "-"):
            return ""
        kind = self.source.text(self.at + 1, close)
        self.at = close + 1
        return kind

    def qualified(self) -> str:
        """A name with qualifiers and template arguments, without spaces but after commas."""
        parts: list[str] = []
        self.take("::")
        while True:
            if self.token.kind != "name":
                raise NotReadError
            parts.append(self.token.text)
            self.at += 1
            if self.sign() == "<" and (end := self.template()):
                text = self.source.text(self.at, end)
                parts.append(text.replace(" ", "").replace(",", ", "))
                self.at = end
            if self.sign() != "::":
                return "".join(parts)
            self.take("::")
            parts.append("::")

    def template(self) -> int:
        """Where the template arguments that begin at ``<`` end, 0 if it is a comparison."""
        depth, at = 0, self.at
        while True:
            token = self.tokens[at]
            if token.kind in ("line", "end", "string") or token.text in ("&&", "||", ";", "{", "}", "?", "=", "!"):
                return 0
            if token.kind == "sign" and set(token.text) <= {"<"}:
                depth += len(token.text)
            elif token.kind == "sign" and set(token.text) <= {">"}:
                depth -= len(token.text)
                if depth < 0:
                    return 0
            elif token.text == "(":
                at = self.source.partner.get(at, at)
            elif token.text in (")", "]"):
                return 0
            at += 1
            if depth == 0:
                follows = self.tokens[at].text
                return at if follows in ("(", "::", "{", "<<<", ")", ";", ",", "}", ":") else 0

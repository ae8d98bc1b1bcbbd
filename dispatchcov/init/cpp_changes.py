"""Which names a piece of C++ may change: assignments, addresses, references, lambdas that capture by reference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dispatchcov.init.cpp_cursor import Cursor
from dispatchcov.init.tokens import Tokens

ASSIGNING = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
BY_REFERENCE: Mapping[str, frozenset[int]] = {"swap": frozenset({0, 1}), "exchange": frozenset({0})}
"""For each function the arguments that it may change."""
BEFORE_VALUES = {"return", "else", "do", "case", "co_return", "throw", "and", "or", "not"}
MACRO = re.compile(r"#\s*define\s+(\w+)(\([^)]*\))?(.*)", re.S)


class Changes(Cursor):
    """Looks at tokens without reading them. :attr:`lost` gathers names whose values are not known afterwards.

    Each with what changes it, and whether that may happen at any time from there on. :attr:`leaving` has the macros of
    the file that may return, :attr:`refusing` the lambdas that may refuse, :attr:`end` is where the function ends.
    """

    def __init__(self, source: Tokens) -> None:
        super().__init__(source)
        self.by_reference: dict[str, frozenset[int]] = dict(BY_REFERENCE)
        self.leaving: set[str] = set()
        self.refusing: set[str] = set()
        self.lost: list[tuple[str, str, bool]] = []
        self.end = len(self.tokens) - 1
        self._opening = {close: at for at, close in source.partner.items()}

    def changed(self, start: int, end: int) -> list[str]:
        """The names and members that these tokens may assign, as ``n`` and ``params.M``, each once."""
        found: list[str] = []
        for at in range(start, end):
            text, token = self.tokens[at].text, self.tokens[at]
            if text in ASSIGNING and at > start:
                found.append(self.path_back(at - 1, start))
            elif text in ("++", "--"):
                found += [self.path_back(at - 1, start), self.path(at + 1, end)]
            elif text in ("&", ":") and self.refers(at):
                found.append(self.path(at + 1, end))
            elif token.kind == "name" and text in self.by_reference:
                found += self.arguments(at, self.by_reference[text])
        return [name for name in dict.fromkeys(found) if name]

    def refers(self, at: int) -> bool:
        """Is the name after token ``at`` one whose address is taken, or that ``for (auto& size : sizes)`` goes over?"""
        if self.tokens[at].text == ":":
            return self.tokens[at - 2].text in ("&", "&&")
        return self.tokens[at - 1].kind != "name" and self.tokens[at - 1].text not in (")", "]", ">")

    def path_back(self, at: int, start: int) -> str:
        """The name, or members of it, whose last token is ``at``; of an element the whole."""
        parts: list[str] = []
        while at >= start:
            token = self.tokens[at]
            if token.text == "]" and at in self._opening:
                at, parts = self._opening[at] - 1, []
                continue
            if token.kind != "name":
                break
            parts.insert(0, token.text)
            if self.tokens[at - 1].text not in (".", "->"):
                break
            at -= 2
        return ".".join(parts).removeprefix("this.")

    def path(self, at: int, end: int) -> str:
        """The name, or members of it, that begins at token ``at``."""
        parts: list[str] = []
        while at < end and self.tokens[at].kind == "name":
            parts.append(self.tokens[at].text)
            if self.tokens[at + 1].text not in (".", "->"):
                break
            at += 2
        return ".".join(parts).removeprefix("this.")

    def arguments(self, at: int, places: frozenset[int]) -> Iterator[str]:
        """The arguments at ``places`` of the call of the function that is named at token ``at``."""
        at += 1
        if self.tokens[at].text == "<":
            here, self.at = self.at, at
            at, self.at = self.template() or at, here
        close = self.source.partner.get(at)
        if self.tokens[at].text != "(" or close is None:
            return
        place, at = 0, at + 1
        while at < close:
            if place in places:
                yield self.path(at, close)
            while at < close and self.tokens[at].text != ",":
                at = self.source.partner.get(at, at) + 1
            place, at = place + 1, at + 1

    def lose(self, names: Iterator[str] | list[str], why: str, for_good: bool = True) -> None:
        self.lost += [(name, why, for_good) for name in names if name]

    def captured(self, start: int, brace: int, end: int) -> None:
        """What the lambda at token ``start``, whose body is at ``brace``, may change when it is called."""
        close = self.source.partner[start]
        if not any(self.tokens[at].text in ("&", "this") for at in range(start, close)):
            return
        own = {
            self.path_back(at - 1, close) for at in range(close + 1, brace + 1) if self.tokens[at].text in (",", ")")
        }
        own |= {self.tokens[at].text for at in range(brace, end) if self.declares(at)}
        names = [name for name in self.changed(brace, end) if name.partition(".")[0] not in own]
        names += [self.path(at + 1, close) for at in range(start, close) if self.tokens[at].text == "="]
        self.lose(names, "a lambda that captures it by reference")

    def declares(self, at: int) -> bool:
        """Is the name at token ``at`` declared there, with a value?"""
        before = self.tokens[at - 1]
        typed = before.text in ("*", "&", "&&", ">") or (before.kind == "name" and before.text not in BEFORE_VALUES)
        return self.tokens[at].kind == "name" and self.tokens[at + 1].text in ("=", "{") and typed

    def aliased(self, names: list[str], of: list[str], constant: bool) -> None:
        """References ``names`` to something in ``of``: either of them changed from here on, neither is known."""
        roots = {name.partition(".")[0] for name in self.changed(self.at, self.end)}
        why = f"{', '.join(names)}, a reference to it or from it"
        if not constant and roots & set(names):
            self.lose([*names, *of], why)
        elif roots & {name.partition(".")[0] for name in of}:
            self.lose(names, why)

    def macros(self) -> None:
        """What the macros that the file defines do: those that leave the function, those that change arguments."""
        for token in self.tokens:
            match = MACRO.match(token.text) if token.kind == "line" else None
            if match is None:
                continue
            inner = Changes(Tokens(match[3].replace("\\\n", " ")))
            if {part.text for part in inner.tokens} & {"return", "goto", "break", "continue", "co_return"}:
                self.leaving.add(match[1])
            if match[2] and inner.changed(0, len(inner.tokens) - 1):
                self.by_reference[match[1]] = frozenset(range(len(match[2].split(","))))

"""C++ and CUDA source as the syntax of :mod:`dispatchcov.init.syntax`, without a compiler: functions and constants.

Nothing is included, no macro is expanded: what depends on them is not read, and said to be so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dispatchcov.init import syntax as syn
from dispatchcov.init.cpp_body import Body
from dispatchcov.init.cpp_cursor import NotReadError
from dispatchcov.init.syntax import Syntax
from dispatchcov.init.tokens import Tokens

NO_FUNCTION = {"if", "for", "while", "switch", "catch", "return", "sizeof", "decltype", "alignas", "__attribute__"} | {
    "__launch_bounds__", "requires", "noexcept", "explicit"
}  # fmt: skip
CONSTANT = {"constexpr", "const"}
DEFINE = re.compile(r"#\s*define\s+(\w+)[ \t]+(.+)", re.S)


def read(text: str, file: str) -> syn.Source:
    """The functions that the C++ source ``text`` defines, and its constants."""
    reader = _File(Tokens(text))
    reader.scan(0, len(reader.tokens) - 1, "")
    if reader.changing:  # known before the functions that call them are read
        again = _File(reader.source)
        again.by_reference |= reader.changing
        again.scan(0, len(again.tokens) - 1, "")
        reader = again
    constants = {
        name: values[0] for name, values in reader.constants.items() if len({value.text for value in values}) == 1
    }
    return syn.Source(file, "c++", tuple(reader.functions), constants, frozenset(), reader.enumerations)


class _File(Body):
    def __init__(self, source: Tokens) -> None:
        super().__init__(source)
        self.functions: list[syn.Function] = []
        self.constants: dict[str, list[Syntax]] = {}
        self.enumerations: dict[str, tuple[str, ...]] = {}
        self.changing: dict[str, frozenset[int]] = {}
        self.listed = (0, 0)
        self.named_at = 0
        self.macros()

    def scan(self, start: int, end: int, prefix: str) -> None:
        """Everything defined between two tokens; ``prefix`` is the namespace or class around it."""
        at = statement = start
        while at < end:
            token = self.tokens[at]
            if token.kind == "line":
                self.define(token.text, token.line)
                statement = at + 1
            elif token.text == "{":
                close = self.source.partner.get(at, end)
                self.braces(statement, at, min(close, end), prefix)
                at = close
                statement = at + 1
            elif token.text in (";", ":") and not (token.text == ":" and self.is_initialiser(statement, at)):
                self.constant(statement, at)
                if (header := self.header(statement, at)) is not None:  # declared, and defined later or elsewhere
                    self.references(header[0])
                statement = at + 1
            elif token.text in ("(", "["):
                at = self.source.partner.get(at, at)
            at += 1

    def is_initialiser(self, start: int, colon: int) -> bool:
        """Is the ``:`` the one of a constructor or a base class, not of ``public:``?"""
        return any(self.tokens[at].text in ("(", "struct", "class", "enum") for at in range(start, colon))

    def braces(self, start: int, brace: int, close: int, prefix: str) -> None:
        """What the braces that open at ``brace`` are, after the tokens from ``start`` on."""
        words = [self.tokens[at].text for at in range(start, brace)]
        if "enum" in words:
            self.enumeration(start, brace, close)
        elif (header := self.header(start, brace)) is not None:
            name, parameters = header
            self.references(name)
            self.at, self.end, self.refusing = brace + 1, close, set()
            returns = f"{self.source.text(start, self.named_at)} {self.source.text(self.listed[1] + 1, brace)}"
            body = self.block(close)
            line, last = self.tokens[start].line, self.tokens[close].line
            self.functions.append(syn.Function(prefix + name, line, last, parameters, body, returns))
        elif "=" in words:
            self.constant(start, close + 1)
        else:
            self.scan(brace + 1, close, prefix + self.named(words))

    @staticmethod
    def named(words: list[str]) -> str:
        """The prefix that a namespace, class or struct adds; ``""`` for ``extern "C"`` and what has no name."""
        kind = next((i for i, word in enumerate(words) if word in ("class", "struct", "namespace", "union")), None)
        if kind is None or ("<" in words[:kind] and "template" not in words):
            return ""
        names = []
        for word in words[kind + 1 :]:
            if word in (":", "final", "<"):
                break
            if re.match(r"\w", word):
                names.append(word)
        return f"{'::'.join(names) if words[kind] == 'namespace' else names[-1]}::" if names else ""

    def header(self, start: int, brace: int) -> tuple[str, dict[str, str]] | None:
        """The name and the parameters, if the braces are the body of a function."""
        at = start
        template: dict[str, str] = {}
        while at < brace:
            if self.tokens[at].text == "template" and self.tokens[at + 1].text == "<":
                end = self.angle(at + 1)
                values = self.parameters(at + 2, end - 1)
                template |= {name: kind for name, kind in values.items() if kind not in ("typename", "class")}
                at = end
                continue
            if self.tokens[at].text == "=":
                return None
            if self.tokens[at].text == "(":
                name = self.name_before(start, at)
                close = self.source.partner.get(at, brace)
                if name and name not in NO_FUNCTION and close < brace:
                    self.listed = (at + 1, close)
                    return name, template | self.parameters(at + 1, close)
                at = close
            at += 1
        return None

    def references(self, name: str) -> None:
        """Notes which arguments the function ``name``, whose header was read last, may change."""
        places = set()
        for i, part in enumerate(self.parts(*self.listed)):
            words = {self.tokens[at].text for at in range(*part)}
            places |= {i} if "&" in words and "const" not in words else set()
        if places:
            plain = syn.last(name)
            self.changing[plain] = self.changing.get(plain, frozenset()) | places

    def angle(self, at: int) -> int:
        """Past the template parameters that begin at token ``at``."""
        depth = 0
        while at < len(self.tokens) - 1:
            text = self.tokens[at].text
            depth += text.count("<") * (set(text) == {"<"}) - text.count(">") * (set(text) == {">"})
            at = self.source.partner.get(at, at) + 1
            if depth <= 0:
                break
        return at

    def name_before(self, start: int, at: int) -> str:
        """The qualified name that ends before token ``at``, without the template arguments of its qualifiers."""
        parts: list[str] = []
        while at > start:
            token = self.tokens[at - 1]
            if parts[:1] == ["::"] and token.text == ">":
                at = self.angle_back(start, at - 1)
                continue
            if token.text != "::" and (token.kind != "name" or (parts and parts[0] != "::")):
                break
            parts.insert(0, token.text)
            at -= 1
        self.named_at = at
        return "".join(parts).removeprefix("::")

    def angle_back(self, start: int, at: int) -> int:
        """The ``<`` of the ``>`` at token ``at``."""
        depth = 0
        while at > start:
            depth += (self.tokens[at].text == ">") - (self.tokens[at].text == "<")
            if depth == 0:
                break
            at -= 1
        return at

    def parameters(self, start: int, close: int) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in self.parts(start, close):
            end = self.found("=", *part) or part[1]
            names = [at for at in range(part[0], end) if self.tokens[at].kind == "name"]
            if len(names) > 1 or (names and names[0] > part[0]):
                found[self.tokens[names[-1]].text] = self.source.text(part[0], names[-1])
        return found

    def parts(self, start: int, close: int) -> Iterator[tuple[int, int]]:
        """The ranges between the commas of a list."""
        first = at = start
        depth = 0
        while at < close:
            text = self.tokens[at].text
            depth += (text == "<") - (text == ">")
            if text == "," and depth == 0:
                yield first, at
                first = at + 1
            at = self.source.partner.get(at, at) + 1
        if first < close:
            yield first, close

    # --- constants --------------------------------------------------------------------------------------------------

    def define(self, text: str, line: int) -> None:
        if match := DEFINE.match(text):
            inner = Body(Tokens(match[2]))
            value = inner.whole(0, len(inner.tokens) - 1)
            self.constants.setdefault(match[1], []).append(_at(value, line))

    def constant(self, start: int, end: int) -> None:
        """``constexpr int64_t kRows = 8``, if the tokens from ``start`` to ``end`` are such a thing."""
        at = self.found("=", start, end)
        words = {self.tokens[i].text for i in range(start, end if at is None else at)}
        if at is None or not words & CONSTANT or "operator" in words:
            return
        name = at - 1
        if self.tokens[name].text == "]":
            name = next((i for i in range(name, start, -1) if self.tokens[i].text == "["), name) - 1
        if self.tokens[name].kind == "name":
            self.constants.setdefault(self.tokens[name].text, []).append(self.whole(at + 1, end))

    def enumeration(self, start: int, brace: int, close: int) -> None:
        """The enumerators, and those values that follow from numbers."""
        words = [self.tokens[at].text for at in range(start, brace)]
        after = words[words.index("enum") + 1 :]
        after = after[: after.index(":")] if ":" in after else after
        scoped = bool(after) and after[0] in ("class", "struct")
        names = []
        value: int | None = 0
        for first, end in self.parts(brace + 1, close):
            token = self.tokens[first]
            names.append(token.text)
            if end > first + 1:
                try:
                    self.at = first + 2
                    node = self.expression()
                    value = node.value if isinstance(node, syn.Literal) and isinstance(node.value, int) else None
                except NotReadError:
                    value = None
            if value is not None and not scoped:
                self.constants.setdefault(token.text, []).append(syn.Literal(token.line, str(value), value))
                value += 1
        self.enumerations[after[-1] if after and after[-1] not in ("class", "struct") else ""] = tuple(names)


def _at(value: Syntax, line: int) -> Syntax:
    return syn.Literal(line, value.text, value.value) if isinstance(value, syn.Literal) else value

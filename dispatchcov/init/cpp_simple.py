"""Statements of C++ without others in them: declarations, assignments, calls."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dispatchcov.init import syntax as syn
from dispatchcov.init.cpp_changes import ASSIGNING
from dispatchcov.init.cpp_cursor import NotReadError
from dispatchcov.init.cpp_expr import Expressions
from dispatchcov.init.reads import names as read
from dispatchcov.init.refusals import effect, may_end, of_value
from dispatchcov.init.syntax import Syntax
from dispatchcov.init.unpack import Place, Target, Unpacking, enclosed

SPECIFIERS = {
    "const",
    "constexpr",
    "static",
    "auto",
    "volatile",
    "register",
    "typename",
    "struct",
    "inline",
    "thread_local",
}
MULTIWORD = {"unsigned", "signed", "long", "short", "int", "char", "double"}
MADE = re.compile(r"(std::)?(make_)?(pair|tuple)\Z")


class Simple(Expressions):
    """Reads one such statement."""

    def noted(self, line: int) -> Iterator[syn.Statement]:
        """What an expression assigns on the way, as facts of their own."""
        for name in self.assigned:
            yield syn.Assign(line, name, name, syn.Other(line, f"{name}, assigned in an expression"))
        self.assigned = []
        for name, why, for_good in dict.fromkeys(self.lost):
            yield syn.Lost(line, why, name, for_good)
        self.lost = []

    def plain(self) -> Iterator[syn.Statement]:
        start, line = self.at, self.token.line
        if (kind := self.declared_name()) is not None:
            yield from self.declaration(kind)
            return
        node = self.choice()
        op = self.sign()
        if self.take(*ASSIGNING):
            value = self.expression()
            self.expect(";")
            self.pointed(value)
            yield from of_value(value, cpp=True)
            yield from self.noted(line)
            target = syn.dotted(node)
            if op == "=" and isinstance(node, syn.Call) and syn.dotted(node.of) in ("tie", "std::tie"):
                yield from UNPACKING.assigned([(tuple(map(_place, node.args)), value)])
            elif target is None:
                yield syn.Do(line, self.text(start), value)
                if isinstance(place := _place(node), Place):
                    yield from UNPACKING.assigned([(place, value)])
            else:
                changed = syn.Binary(line, self.text(start), op[:-1], node, value)
                yield syn.Assign(line, self.text(start), target, value if op == "=" else changed)
            return
        self.expect(";")
        if isinstance(node, syn.Call) and syn.dotted(node.of) in ("swap", "std::swap") and len(node.args) == 2:
            self.lost = []
            swapped = syn.Items(line, node.text, node.args[::-1])
            yield from UNPACKING.assigned([(tuple(map(_place, node.args)), swapped)])
            return
        yield from self.noted(line)
        yield from self.effect(node)

    def pointed(self, value: Syntax) -> None:
        """What ``value`` points to may be changed from here on."""
        if isinstance(value, syn.Unary) and value.op == "&":
            self.lose([syn.dotted(value.operand) or ""], f"a pointer to it, {value.text}")

    def effect(self, node: Syntax) -> Iterator[syn.Statement]:
        """An expression statement: a check, or a call, without the macro around it that looks at its status."""
        if isinstance(node, syn.Call) and syn.dotted(node.of) in self.refusing:
            yield syn.Opaque(node.line, node.text, (), True)
        yield from effect(node, cpp=True)
        for part in (
            node.args if isinstance(node, syn.Call) and isinstance(node.of, syn.Name) else ()
        ):  # a local whose address goes to a call is set by it
            if isinstance(part, syn.Unary) and part.op == "&" and isinstance(part.operand, syn.Name):
                yield syn.Assign(node.line, node.text, part.operand.id, syn.Other(node.line, f"set by {node.text}"))

    def declared_name(self) -> str | None:
        """The type, if a declaration begins here; then the first name declared is next. Else nothing is read."""
        start = self.at
        kind = self.type_name()
        names = self.token.kind == "name" or (self.sign() == "[" and kind is not None and "auto" in kind)
        follows = self.tokens[self.at + 1].text
        if kind is not None and names and (follows in ("=", ";", "{", "(", ",", "[", ":") or self.sign() == "["):
            return kind
        self.at = start
        return None

    def type_name(self) -> str | None:
        start = self.at
        named = False
        while self.token.kind == "name" and self.token.text not in ("and", "or", "not"):
            word = self.token.text
            if word in MULTIWORD or word == "auto":
                named = True
                self.at += 1
            elif word in SPECIFIERS:
                self.at += 1
            elif named:
                break
            else:
                try:
                    self.qualified()
                except NotReadError:
                    return None
                named = True
        text = self.text(start)
        while (named and self.sign() in ("*", "&", "&&")) or self.token.text == "const":
            text += self.token.text
            self.at += 1
        return text if named else None

    def declaration(self, kind: str) -> Iterator[syn.Statement]:
        words = set(kind.split())
        while True:
            line, start = self.token.line, self.at
            if self.sign() == "[":  # auto [a, b] = ...
                names = [part.text for part in self.items("]")]
                self.expect("=")
                whole = self.expression()
                for name in names:
                    yield syn.Assign(line, name, name, syn.Other(line, f"{name}, of {whole.text}"), kind, True)
                yield from UNPACKING.assigned([(tuple(Place(line, name) for name in names), whole)])
                if "&" in kind:
                    self.aliased(names, list(read(whole)), "const" in words)
            else:
                name = self.token.text
                self.at += 1
                value: Syntax = syn.Other(line, f"{kind} {name}, declared without a value")
                if self.take("="):
                    value = self.expression()
                elif self.sign() in ("(", "{"):
                    items = self.items(")" if self.sign() == "(" else "}")
                    value = items[0] if len(items) == 1 else syn.Other(line, self.text(start))
                elif self.sign() == "[":
                    self.at = self.close()
                    value = self.expression() if self.take("=") else value
                if words & {"static", "thread_local"} and not words & {"const", "constexpr"}:
                    value = syn.Other(line, f"{kind} {name}, kept from call to call")
                self.pointed(value)
                yield from of_value(value, cpp=True)
                if value.text.startswith("["):
                    inner = {token.text for token in self.tokens[start : self.at]}
                    self.refusing |= {name} if may_end(inner - {"return"}) else set()
                if "&" in kind or "*" in kind:
                    self.aliased([name], list(read(value)), "const" in words)
                yield syn.Assign(line, value.text, name, value, kind, True)
            yield from self.noted(line)
            if not self.take(","):
                self.expect(";")
                return


def _place(node: Syntax) -> Target:
    """What an assignment to ``node`` changes: nothing that is followed, if it is no name, member or element of one."""
    whole = node
    while isinstance(whole, syn.Index) or (isinstance(whole, syn.Unary) and whole.op == "*"):
        whole = whole.of if isinstance(whole, syn.Index) else whole.operand
    path = syn.dotted(whole)
    return () if path is None else Place(node.line, path, "" if whole is node else node.text)


def _items(value: Syntax) -> tuple[Syntax, ...] | None:
    """``std::make_pair(1, 2)``, ``std::tuple<int, bool>{1, true}``, ``{1, 2}``."""
    if isinstance(value, syn.Call) and MADE.match(syn.bare(syn.dotted(value.of) or "")):
        return value.args
    return value.items if isinstance(value, syn.Items) else None


def _part(value: Syntax, place: int) -> Syntax:
    return syn.Other(value.line, f"{enclosed(value)}, part {place}")


UNPACKING = Unpacking(_items, _part)

"""Statements of C++: the body of one function as the syntax of :mod:`dispatchcov.init.syntax`.

A statement that is not read is an :class:`~dispatchcov.init.syntax.Opaque` and ends at its ``;`` or ``}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dispatchcov.init import cpp_macros
from dispatchcov.init import syntax as syn
from dispatchcov.init.cpp_cursor import NotReadError
from dispatchcov.init.cpp_simple import Simple
from dispatchcov.init.refusals import may_end
from dispatchcov.init.syntax import Block, Syntax

SKIPPED = {"using", "static_assert", "typedef", "public", "private", "friend", "template"}


class Body(Simple):
    """Reads statements."""

    def block(self, end: int) -> Block:
        """The statements up to token ``end``, which is not read."""
        found: list[syn.Statement] = []
        while self.at < end:
            found += self.recovered(end)
        self.at = end
        return tuple(found)

    def recovered(self, end: int) -> list[syn.Statement]:
        start = self.at
        self.assigned, self.lost = [], []
        try:
            return list(self.statement(end))
        except NotReadError:
            self.at = start
            self.lost = []
            made = self.opaque(start, self.skip(end))
            self.lambdas(start, self.at)
            return [made, *self.noted(made.line)]

    def lambdas(self, start: int, end: int) -> None:
        """What the lambdas in statements that are not read may change later."""
        for at in range(start, end):
            if self.tokens[at].text == "[" and self.tokens[at - 1].text in ("=", "(", ",", "return"):
                brace = self.found("{", at, end)
                if brace is not None:
                    self.captured(at, brace, self.source.partner.get(brace, end))

    def skip(self, end: int) -> int:
        """Past the statement that begins here: its ``;``, or the ``}`` of its block."""
        while self.at < end:
            token = self.token
            self.at = self.source.partner.get(self.at, self.at) + 1
            if token.text == "{" and self.sign() not in (";", ",", ")", "."):
                break
            if token.text == ";" or (token.kind == "line" and self.at - 1 == end):
                break
        return min(self.at, end)

    def opaque(self, start: int, end: int) -> syn.Opaque:
        words = {token.text for token in self.tokens[start:end]}
        ends = may_end(words) or bool(words & self.leaving)
        header = next((i for i in range(start, end) if self.tokens[i].text == "{"), end)
        return syn.Opaque(
            self.tokens[start].line, self.source.text(start, header), tuple(self.changed(start, end)), ends
        )

    def one(self, end: int) -> Block:
        """The statement that an ``if`` governs."""
        found = self.recovered(end)
        match found:
            case [syn.If(test=syn.Literal(value=True), body=body, orelse=())]:
                return body
        return tuple(found)

    def statement(self, end: int) -> Iterator[syn.Statement]:
        token = self.token
        while self.sign() == "[" and self.tokens[self.at + 1].text == "[":  # [[likely]]
            self.at = self.close()
            token = self.token
        if token.kind == "line":
            yield from self.directive(end)
        elif self.take(";"):
            return
        elif token.text == "{":
            close = self.close() - 1
            self.at += 1
            yield _always(token.line, self.block(close))
            self.at = close + 1
        elif token.text == "if":
            parts = tuple(self.branch(end))
            yield from parts if len(parts) == 1 else (_always(token.line, parts),)
        elif token.text == "switch":
            yield from self.switch()
        elif token.text == "try":
            yield from self.attempt(end)
        elif token.text in ("for", "while", "do"):
            yield self.loop(end)
        elif token.text in ("goto", "continue", "asm", "case", "default", "else"):
            raise NotReadError
        elif token.text in SKIPPED:
            self.skip(end)
        elif token.text in ("return", "co_return", "throw", "break"):
            yield self.leave(token.text)
        elif cpp_macros.RUNS.match(token.text) and (at := self.lambda_of(self.at + 1)):
            yield from self.macro(at)
        else:
            yield from self.plain()

    def lambda_of(self, at: int) -> int:
        """Where the lambda begins that is the last argument between the parentheses at token ``at``; 0 without one."""
        close = self.source.partner.get(at)
        found, at = 0, at + 1
        while close is not None and at < close:
            if self.tokens[at].text == "[" and self.tokens[at - 1].text == ",":
                found = at
            at = self.source.partner.get(at, at) + 1
        return found

    def macro(self, at: int) -> Iterator[syn.Statement]:
        start, end = self.at, self.source.partner[self.at + 1]
        text = f"{self.source.text(start, at).rstrip(' ,')})"
        brace = self.found("{", at, end)
        if brace is None or self.source.partner.get(brace) != end - 1:
            raise NotReadError
        self.at = brace + 1
        body = self.block(end - 1)
        self.at = end + 1
        self.take(";")
        yield from cpp_macros.run(self.tokens[start].line, text, self.tokens[start].text, body)

    # --- control ----------------------------------------------------------------------------------------------------

    def branch(self, end: int) -> Iterator[syn.Statement]:
        line = self.token.line
        self.at += 1
        if self.token.text == "constexpr":
            self.at += 1
        if self.sign() != "(":
            raise NotReadError
        close = self.close() - 1
        self.at += 1
        semicolon = self.found(";", self.at, close)
        if semicolon is not None:
            yield from self.block(semicolon + 1)
        declares = self.declared_name() is not None
        test: Syntax = syn.Other(line, self.source.text(self.at, close))
        if not declares:
            test = self.whole(self.at, close)
        yield from self.noted(line)
        self.at = close + 1
        body = self.one(end)
        orelse: Block = ()
        if self.token.text == "else" and self.at < end:
            self.at += 1
            orelse = self.one(end)
        yield syn.If(line, test.text, test, body, orelse)

    def found(self, text: str, start: int, end: int) -> int | None:
        at = start
        while at < end:
            if self.tokens[at].text == text:
                return at
            at = self.source.partner.get(at, at) + 1
        return None

    def loop(self, end: int) -> syn.Opaque:
        """``for``, ``while``, ``do``: not read, whatever statement it governs."""
        start = self.at
        word = self.token.text
        self.at += 1
        if self.sign() == "(":
            self.at = self.close()
        governed = self.at
        body = self.one(end)
        if word == "do":
            self.skip(end)
        made = self.opaque(start, self.at)
        header = self.source.text(start, governed) if word != "do" else "do"
        return syn.Opaque(made.line, header, made.assigned, made.ends, syn.effects(body))

    def attempt(self, end: int) -> Iterator[syn.Statement]:
        self.at += 1
        body = self.one(end)
        handlers = []
        while self.token.text == "catch" and self.at < end:
            start = self.at
            self.at += 1
            self.at = self.close()
            self.at = self.close()
            handlers.append(self.opaque(start, self.at))
        yield from (replace(handler, assigned=()) for handler in handlers)
        yield from body
        yield from (replace(handler, ends=False) for handler in handlers)

    def directive(self, end: int) -> Iterator[syn.Statement]:
        """``#if`` … ``#endif`` in a body: which side is compiled is not known here."""
        token = self.token
        self.at += 1
        word = re.match(r"#\s*(\w*)", token.text)
        if word is None or word[1] not in ("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"):
            return  # a stray #else is read as the end of its #if, below
        text = syn.flat(token.text)
        test: Syntax = syn.Other(token.line, text)
        if plain := re.match(r"#\s*(?:el)?if\s+([01])\s*\Z", token.text):
            test = syn.Literal(token.line, text, plain[1] == "1")
        body = self.section(end)
        orelse: Block = ()
        if re.match(r"#\s*el", self.token.text):
            if re.match(r"#\s*else", self.token.text):
                self.at += 1
                orelse = self.section(end)
            else:
                orelse = tuple(self.directive(end))
                yield syn.If(token.line, text, test, body, orelse)
                return
        if self.token.kind == "line":
            self.at += 1
        yield syn.If(token.line, text, test, body, orelse)

    def section(self, end: int) -> Block:
        found: list[syn.Statement] = []
        while self.at < end and not re.match(r"#\s*(el|endif)", self.token.text):
            found += self.recovered(end)
        return tuple(found)

    def switch(self) -> Iterator[syn.Statement]:
        """A chain of ifs in a scope that ``break`` leaves; a case without ``break`` goes on with the next."""
        line = self.token.line
        self.at += 1
        subject = self.whole(self.at + 1, self.close() - 1)
        self.at += 1
        yield from self.noted(line)
        if self.sign() != "{":
            raise NotReadError
        end = self.close() - 1
        self.at += 1
        groups: list[tuple[list[Syntax | None], Block]] = []
        while self.at < end:
            labels = list(self.labels(subject, end))
            if not labels:
                raise NotReadError
            body: list[syn.Statement] = []
            while self.at < end and self.token.text not in ("case", "default"):
                body += self.recovered(end)
            groups.append((labels, tuple(body)))
        self.at = end + 1
        yield syn.Scope(line, f"switch ({subject.text})", _chain(groups))

    def labels(self, subject: Syntax, end: int) -> Iterator[Syntax | None]:
        """The tests of the labels that stand here; None for ``default``."""
        while self.token.text in ("case", "default"):
            token = self.token
            self.at += 1
            colon = self.found(":", self.at, end)
            if colon is None:
                raise NotReadError
            if token.text == "default":
                yield None
            else:
                value = self.whole(self.at, colon)
                text = syn.flat(f"{subject.text} == {value.text}")
                yield syn.Comparison(token.line, text, "==", subject, value)
            self.at = colon + 1

    def leave(self, word: str) -> syn.Statement:
        start, line = self.at, self.token.line
        self.at += 1
        value = None if self.sign() == ";" else self.expression()
        text = self.text(start)
        self.expect(";")
        if word == "break":
            return syn.Break(line, text)
        if word == "throw":
            what = value.of if isinstance(value, syn.Call) else value
            return syn.Raise(line, text, f"throw {what.text}" if what else "throw")
        return syn.Return(line, text, value)


def _always(line: int, body: Block) -> syn.If:
    """``body`` as a block of its own, at whose end its locals are gone."""
    return syn.If(line, "{", syn.Literal(line, "true", True), body)


def _chain(groups: list[tuple[list[Syntax | None], Block]]) -> Block:
    whole: list[Block] = []
    going: Block = ()
    for _, body in reversed(groups):
        stops = body and isinstance(body[-1], syn.Return | syn.Raise | syn.Break)
        going = body if stops else body + going
        whole.insert(0, going)
    rest: Block = next((body for (labels, _), body in zip(groups, whole, strict=True) if None in labels), ())
    for (labels, _), body in reversed(list(zip(groups, whole, strict=True))):
        tests = tuple(test for test in labels if test is not None)
        if None in labels or not tests:
            continue  # its values go where the others do, to the default
        text = " || ".join(test.text for test in tests)
        test = tests[0] if len(tests) == 1 else syn.Logic(tests[0].line, syn.flat(text), "or", tests)
        rest = (syn.If(test.line, test.text, test, body, rest),)
    return rest

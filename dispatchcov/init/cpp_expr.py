"""Expressions of C++ by recursive descent; what is not read becomes ``Other``, with its text."""

from __future__ import annotations

from dispatchcov.init import syntax as syn
from dispatchcov.init.cpp_changes import ASSIGNING, Changes
from dispatchcov.init.cpp_cursor import NotReadError
from dispatchcov.init.syntax import Syntax
from dispatchcov.init.tokens import integer, string

LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
MAX_DEPTH = 60
MUTATING = {"swap", "push_back", "emplace_back", "pop_back", "clear", "resize", "insert", "erase", "assign", "reset"}


class Expressions(Changes):
    """Reads expressions from token :attr:`at` on."""

    def whole(self, start: int, end: int) -> Syntax:
        """The expression that the tokens ``start`` to ``end`` are."""
        self.at = start
        try:
            node = self.expression()
            if self.at == end:
                return node
        except NotReadError:
            pass
        self.at = end
        return syn.Other(self.tokens[start].line, self.source.text(start, end))

    def expression(self) -> Syntax:
        """An expression without a comma, assignments included."""
        start = self.at
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotReadError
        try:
            node = self.choice()
        finally:
            self.depth -= 1
        if self.take(*ASSIGNING):
            self.note(node)
            self.expression()
            return syn.Other(self.tokens[start].line, self.text(start))
        return node

    def note(self, node: Syntax) -> None:
        if (name := syn.dotted(node)) is not None:
            self.assigned.append(name)

    def choice(self) -> Syntax:
        start = self.at
        test = self.level(0)
        if not self.take("?"):
            return test
        then = self.expression()
        self.expect(":")
        orelse = self.expression()
        return syn.Choice(self.tokens[start].line, self.text(start), test, then, orelse)

    def level(self, level: int) -> Syntax:
        if level == len(LEVELS):
            return self.unary()
        start = self.at
        node = self.level(level + 1)
        while (op := self.sign()) in LEVELS[level]:
            self.take(op)
            right = self.level(level + 1)
            line, text = self.tokens[start].line, self.text(start)
            if op in ("||", "&&"):
                word = "or" if op == "||" else "and"
                left = node.parts if isinstance(node, syn.Logic) and node.op == word else (node,)
                node = syn.Logic(line, text, word, (*left, right))
            elif op in ("==", "!=", "<", ">", "<=", ">="):
                node = syn.Comparison(line, text, op, node, right)
            else:
                node = syn.Binary(line, text, op, node, right)
        return node

    def unary(self) -> Syntax:
        start = self.at
        line = self.token.line
        if (op := self.sign()) in ("!", "-", "+", "*", "&"):
            self.take(op)
            operand = self.nested_unary()
            if op == "&":  # whoever gets the address may assign
                self.note(operand)
            return syn.Unary(line, self.text(start), "not" if op == "!" else op, operand)
        if self.take("++", "--"):
            self.note(self.nested_unary())
            return syn.Other(line, self.text(start))
        if self.sign() == "(" and (kind := self.cast()):
            operand = self.nested_unary()
            name = syn.Name(line, kind, f"static_cast<{kind}>")
            return syn.Call(line, self.text(start), name, (operand,))
        return self.postfix(self.primary())

    def nested_unary(self) -> Syntax:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotReadError
        try:
            return self.unary()
        finally:
            self.depth -= 1

    def postfix(self, node: Syntax) -> Syntax:
        line = node.line
        while True:
            if self.sign() == "(":
                node = syn.Call(line, f"{node.text}{self.source.text(self.at, self.close())}", node, self.items(")"))
                self.passed(node)
            elif self.take("."):
                node = syn.Attribute(line, f"{node.text}.{self.token.text}", node, self.member())
            elif self.take("->"):
                node = syn.Attribute(line, f"{node.text}->{self.token.text}", node, self.member())
            elif self.sign() == "[":
                text = f"{node.text}{self.source.text(self.at, self.close())}"
                items = self.items("]")
                if len(items) != 1:
                    raise NotReadError
                node = syn.Index(line, text, node, items[0])
            elif self.sign() == "{" and isinstance(node, syn.Name):
                node = syn.Call(line, f"{node.text}{self.source.text(self.at, self.close())}", node, self.items("}"))
            elif self.sign() == "<<<":
                while self.sign() != ">>>":  # how many blocks and threads
                    self.at = self.source.partner.get(self.at, self.at) + 1
                    if self.token.kind == "end" or self.sign() in (";", "}"):
                        raise NotReadError
                self.take(">>>")
            elif self.take("++", "--"):
                self.note(node)
                node = syn.Other(line, f"{node.text}{self.text(self.at - 1)}")
            else:
                return node

    def passed(self, node: syn.Call) -> None:
        """What the call ``node`` is given by reference, and may change."""
        places = self.by_reference.get(syn.bare(syn.last(syn.dotted(node.of) or "")), frozenset())
        given = [syn.dotted(arg) or "" for i, arg in enumerate(node.args) if i in places]
        if isinstance(node.of, syn.Attribute) and node.of.name in MUTATING:
            given.append(syn.dotted(node.of.of) or "")
        self.lose(given, node.text, for_good=False)

    def items(self, closing: str) -> tuple[Syntax, ...]:
        """The elements between two brackets, the first of which is next."""
        end = self.close() - 1
        found: list[Syntax] = []
        self.at += 1
        while self.at < end:
            found.append(self.element(end))
            self.take(",")
        self.expect(closing)
        return tuple(found)

    def element(self, end: int) -> Syntax:
        """One expression of a list that ends at token ``end``; what is not read goes to the next comma."""
        start = self.at
        try:
            node = self.expression()
            if self.at == end or self.sign() == ",":
                return node
        except NotReadError:
            pass
        self.at = start
        while self.at < end and self.sign() != ",":
            self.at = self.source.partner.get(self.at, self.at) + 1
        return syn.Other(self.tokens[start].line, self.text(start))

    def member(self) -> str:
        if self.token.kind == "name" and self.token.text == "template":
            self.at += 1
        if self.token.kind != "name":
            raise NotReadError
        return self.qualified()

    def primary(self) -> Syntax:
        token, start = self.token, self.at
        if token.kind == "number":
            self.at += 1
            value = integer(token.text)
            return syn.Other(token.line, token.text) if value is None else syn.Literal(token.line, token.text, value)
        if token.kind == "string":
            parts = []
            while self.token.kind == "string":
                parts.append(string(self.token.text))
                self.at += 1
            if None in parts:
                return syn.Other(token.line, self.text(start))
            return syn.Literal(token.line, self.text(start), "".join(map(str, parts)))
        if token.kind == "character":
            self.at += 1
            return syn.Other(token.line, token.text)
        if self.take("("):
            node = self.expression()
            self.expect(")")
            return node
        if token.text == "{":
            close = self.close()
            return syn.Items(token.line, self.source.text(start, close), self.items("}"))
        if token.text == "[":
            return self.closure()
        if token.kind == "name" or token.text == "::":
            return self.word()
        raise NotReadError

    def closure(self) -> Syntax:
        """A lambda, which is not read."""
        start = self.at
        self.at = self.close()
        while self.token.text != "{":
            if self.token.kind == "end" or self.token.text in (";", ",", ")", "}"):
                raise NotReadError
            self.at = self.source.partner.get(self.at, self.at) + 1
        brace, self.at = self.at, self.close()
        self.captured(start, brace, self.at)
        return syn.Other(self.tokens[start].line, self.text(start))

    def word(self) -> Syntax:
        token, start = self.token, self.at
        constants: dict[str, bool | None] = {"true": True, "false": False, "nullptr": None, "NULL": None}
        if token.text in constants:
            self.at += 1
            return syn.Literal(token.line, token.text, constants[token.text])
        if token.text in ("new", "delete", "sizeof", "alignof", "throw", "co_await", "typeid", "decltype", "operator"):
            raise NotReadError
        if token.text in self.leaving:
            raise NotReadError
        name = self.qualified()
        return syn.Name(token.line, self.text(start), name)

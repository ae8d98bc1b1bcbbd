"""Python source as the syntax of :mod:`dispatchcov.init.syntax`, by ``ast``: nothing is imported or executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dispatchcov.errors import UsageError
from dispatchcov.init import syntax as syn
from dispatchcov.init.python_names import assigned, constants, imported
from dispatchcov.init.refusals import effect, of_value, refusing, terminates
from dispatchcov.init.syntax import Block, Syntax
from dispatchcov.init.unpack import Place, Target, Unpacking, enclosed

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
UNARY: dict[type[ast.unaryop], str] = {ast.Not: "not", ast.USub: "-", ast.UAdd: "+"}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip

MUTATING = {
    "append", "extend", "insert", "pop", "popitem", "remove", "clear", "add", "discard", "update", "setdefault",
    "resize_", "squeeze_", "unsqueeze_", "transpose_", "t_", "set_",
}  # fmt: skip


def read(text: str, file: str) -> syn.Source:
    """The functions of the Python source ``text``, methods and inner ones too; raises :class:`UsageError`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise UsageError(f"{file}{line}: expected Python: {reason}") from None
    reader = _Reader(text)
    functions = tuple(reader.functions(tree.body, ""))
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return syn.Source(file, "python", functions, constants(tree, reader.expression), imported(tree) | classes)


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.encode().splitlines(keepends=True)

    def text(self, node: ast.AST) -> str:
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if not first or not last:
            return ""
        start, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", 0)
        rows = [*self.lines[first - 1 : last]]
        rows[-1] = rows[-1][:end]
        rows[0] = rows[0][start:]
        return syn.flat(b"".join(rows).decode(errors="replace"))

    # --- the file ---------------------------------------------------------------------------------------------------

    def functions(self, body: Sequence[ast.stmt], prefix: str) -> Iterator[syn.Function]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                parameters = {a.arg: self.text(a.annotation) if a.annotation else "" for a in arguments}
                block = self.block(node.body)
                name = prefix + node.name
                yield syn.Function(name, node.lineno, node.end_lineno or node.lineno, parameters, block)
                yield from self.functions(node.body, f"{name}.")
            elif isinstance(node, ast.ClassDef):
                yield from self.functions(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try):
                yield from self.functions([*node.body, *node.orelse], prefix)

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> Block:
        return tuple(statement for node in body for statement in self.statement(node))

    def statement(self, node: ast.stmt) -> Iterator[syn.Statement]:
        line = node.lineno
        match node:
            case ast.If():
                yield from self.walruses(node.test)
                yield self.branch(node)
            case ast.Assert():
                refuse = syn.Raise(line, self.text(node), "raise AssertionError")
                test = self.expression(node.test)
                yield from self.walruses(node.test)
                yield syn.If(line, test.text, syn.Unary(test.line, f"not ({test.text})", "not", test), (refuse,))
            case ast.Return():
                yield syn.Return(line, self.text(node), self.expression(node.value) if node.value else None)
            case ast.Raise():
                what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                yield syn.Raise(line, self.text(node), f"raise {self.text(what)}" if what else "raise")
            case ast.Assign():
                yield from self.walruses(node.value)
                yield from of_value(self.expression(node.value), cpp=False)
                yield from self.mutated(node.value)
                for target in node.targets:
                    yield from self.assign(target, self.expression(node.value))
            case ast.AnnAssign(value=ast.expr() as value):
                yield from self.assign(node.target, self.expression(value))
            case ast.AugAssign():
                op = BINARY.get(type(node.op), "?")
                left, right = self.expression(node.target), self.expression(node.value)
                yield from self.assign(node.target, syn.Binary(line, self.text(node), op, left, right))
            case ast.Expr():
                yield from self.walruses(node.value)
                yield from self.mutated(node.value)
                yield from effect(self.expression(node.value), cpp=False)
            case _:
                yield from self.compound(node)

    def compound(self, node: ast.stmt) -> Iterator[syn.Statement]:
        match node:
            case ast.With() if "suppress" in (word for item in node.items for word in self.words(item.context_expr)):
                yield self.opaque(node, [node])
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        value = syn.Other(node.lineno, self.text(item.context_expr))
                        yield from self.assign(item.optional_vars, value)
                yield from self.block(node.body)
            case ast.Try() | ast.TryStar():
                handlers = [self.opaque(handler, handler.body) for handler in node.handlers]
                yield from (replace(handler, assigned=()) for handler in handlers)
                if (last := self.opaque(node, node.finalbody)).ends:  # whatever was returned before
                    yield replace(last, assigned=(), calls=())
                yield from self.block([*node.body, *node.orelse])
                yield from (replace(handler, ends=False) for handler in handlers)
                yield from self.block(node.finalbody)
            case ast.For() | ast.AsyncFor() | ast.While():
                yield self.opaque(node, [node])
                yield from self.captured(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from self.captured(node)
            case ast.Match():
                yield from self.match(node)

    def words(self, node: ast.expr) -> Iterator[str]:
        """The last part of the name that ``node`` calls."""
        if isinstance(node, ast.Call):
            yield syn.last(syn.dotted(self.expression(node.func)) or "")

    def mutated(self, node: ast.expr) -> Iterator[syn.Statement]:
        """What methods change that are called in ``node``."""
        for inner in ast.walk(node):
            match inner:
                case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in MUTATING:
                    path = syn.dotted(self.expression(of))
                    yield from () if path is None else (syn.Lost(inner.lineno, self.text(inner), path, False),)

    def captured(self, node: ast.stmt) -> Iterator[syn.Statement]:
        """What the functions defined in ``node`` may change when they are called."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Nonlocal):
                for name in inner.names:
                    yield syn.Lost(node.lineno, f"nonlocal {name}", name, True)

    def branch(self, node: ast.If) -> syn.If:
        test = self.expression(node.test)
        return syn.If(node.lineno, test.text, test, self.block(node.body), self.block(node.orelse))

    def walruses(self, node: ast.expr) -> Iterator[syn.Statement]:
        """The names that ``node`` assigns on the way, as facts of their own."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                yield from self.assign(inner.target, syn.Other(inner.lineno, self.text(inner.value)))

    def opaque(self, node: ast.AST, body: Sequence[ast.stmt]) -> syn.Opaque:
        inner = [part for statement in body for part in ast.walk(statement)]
        calls = (self.expression(part) for part in inner if isinstance(part, ast.Call))
        ends = any(isinstance(part, ast.Return | ast.Raise | ast.Assert) for part in inner) or any(map(_refuses, calls))
        line = getattr(node, "lineno", 0)
        first = self.lines[line - 1].decode(errors="replace")
        called = syn.effects(self.block([s for part in body for s in getattr(part, "body", [part])]))
        return syn.Opaque(line, syn.flat(first), tuple(sorted(assigned(body))), ends, called)

    def assign(self, target: ast.expr, value: Syntax) -> Iterator[syn.Statement]:
        yield from UNPACKING.assigned(list(self.pairs(target, value)))

    def pairs(self, target: ast.expr, value: Syntax) -> Iterator[tuple[Target, Syntax]]:
        """``target`` and ``value``; a target with a star is taken apart here."""
        star = -1
        if isinstance(target, ast.Tuple | ast.List):
            star = next((i for i, part in enumerate(target.elts) if isinstance(part, ast.Starred)), -1)
        if not isinstance(target, ast.Tuple | ast.List) or star < 0:
            yield self.target(target), value
            return
        for i, part in enumerate(target.elts):
            if i == star:
                yield self.target(part), syn.Other(value.line, value.text)
            else:
                yield from self.pairs(part, _element(value, i if i < star else i - len(target.elts)))

    def target(self, node: ast.expr) -> Target:
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(map(self.target, parts))
            case ast.Starred(value=value):
                return self.target(value)
        whole: ast.expr = node
        while isinstance(whole, ast.Subscript):
            whole = whole.value
        path = syn.dotted(self.expression(whole))
        return () if path is None else Place(node.lineno, path, "" if whole is node else self.text(node))

    def match(self, node: ast.Match) -> Iterator[syn.Statement]:
        """``match`` over values as a chain of ifs; other patterns are tests that are left."""
        subject = self.expression(node.subject)
        yield from self.walruses(node.subject)
        rest: Block = ()
        for case in reversed(node.cases):
            captured: list[syn.Statement] = []
            test, body = self.pattern(case.pattern, subject, captured), self.block(case.body)
            if case.guard is not None:
                guard = self.expression(case.guard)
                if captured:  # what is captured is known to the guard, and to nothing else if the pattern fails
                    body = (syn.If(guard.line, guard.text, guard, body, rest),)
                else:
                    test = syn.Logic(guard.line, f"{test.text} and {guard.text}", "and", (test, guard))
            rest = (syn.If(test.line, test.text, test, (*captured, *body), rest),)
        yield from rest

    def pattern(self, pattern: ast.pattern, subject: Syntax, captured: list[syn.Statement]) -> Syntax:
        """The test that ``pattern`` is for ``subject``; the names that it sets go to ``captured``."""
        line, text = pattern.lineno, f"match {subject.text}: case {self.text(pattern)}"
        match pattern:
            case ast.MatchValue():
                return syn.Comparison(line, text, "==", subject, self.expression(pattern.value))
            case ast.MatchSingleton():
                return syn.Comparison(line, text, "is", subject, syn.Literal(line, text, pattern.value))
            case ast.MatchOr() if not any(isinstance(part, ast.MatchAs) and part.name for part in ast.walk(pattern)):
                parts = tuple(self.pattern(part, subject, captured) for part in pattern.patterns)
                return syn.Logic(line, text, "or", parts)
            case ast.MatchAs(pattern=inner, name=name):
                test = syn.Literal(line, text, True) if inner is None else self.pattern(inner, subject, captured)
                captured += [syn.Assign(line, subject.text, name, subject)] if name else []
                return test
            case ast.MatchSequence(patterns=listed) if isinstance(subject, syn.Items):
                if not any(isinstance(part, ast.MatchStar) for part in listed):
                    if len(listed) != len(subject.items):
                        return syn.Literal(line, text, False)
                    pairs = zip(listed, subject.items, strict=True)
                    return syn.Logic(line, text, "and", tuple(self.pattern(*pair, captured) for pair in pairs))
        for part in ast.walk(pattern):
            name = getattr(part, "name", None) or getattr(part, "rest", None)
            captured += [syn.Assign(line, text, name, syn.Other(line, text))] if name else []
        return syn.Other(line, text)

    # --- expressions ------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Syntax:
        line, text = node.lineno, self.text(node)
        match node:
            case ast.Name():
                return syn.Name(line, text, node.id)
            case ast.Constant(value=bool() | int() | str() | None as value):
                return syn.Literal(line, text, value)
            case ast.Attribute():
                return syn.Attribute(line, text, self.expression(node.value), node.attr)
            case ast.Subscript() if not isinstance(node.slice, ast.Slice):
                return syn.Index(line, text, self.expression(node.value), self.expression(node.slice))
            case ast.Call():
                args = tuple(self.expression(arg) for arg in node.args)
                named = tuple(syn.Other(line, self.text(keyword)) for keyword in node.keywords)
                return syn.Call(line, text, self.expression(node.func), args + named)
            case ast.UnaryOp() if type(node.op) in UNARY:
                return syn.Unary(line, text, UNARY[type(node.op)], self.expression(node.operand))
            case ast.BinOp() if type(node.op) in BINARY:
                left, right = self.expression(node.left), self.expression(node.right)
                return syn.Binary(line, text, BINARY[type(node.op)], left, right)
            case ast.BoolOp():
                op = "and" if isinstance(node.op, ast.And) else "or"
                return syn.Logic(line, text, op, tuple(map(self.expression, node.values)))
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                parts = [self.expression(part) for part in (node.test, node.body, node.orelse)]
                return syn.Choice(line, text, *parts)
            case ast.Tuple() | ast.List() | ast.Set():
                return syn.Items(line, text, tuple(map(self.expression, node.elts)))
            case ast.Dict(keys=keys, values=values) if None not in keys:
                listed = tuple(self.expression(key) for key in keys if key is not None)
                return syn.Pairs(line, text, listed, tuple(map(self.expression, values)))
            case ast.JoinedStr(values=pieces):
                return syn.Text(line, text, tuple(map(self.piece, pieces)))
            case ast.Await():
                return self.expression(node.value)
        return syn.Other(line, text)

    def piece(self, node: ast.expr) -> Syntax:
        """A piece of an f-string; one that is formatted is not read."""
        if isinstance(node, ast.FormattedValue):
            plain = node.conversion == -1 and node.format_spec is None
            return self.expression(node.value) if plain else syn.Other(node.lineno, self.text(node.value))
        return self.expression(node)

    def comparison(self, node: ast.Compare) -> Syntax:
        sides = [self.expression(side) for side in (node.left, *node.comparators)]
        links: list[Syntax] = []
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            sign = COMPARE[type(op)]
            text = f"{left.text} {sign} {right.text}" if len(sides) > 2 else self.text(node)
            links.append(syn.Comparison(left.line, syn.flat(text), sign, left, right))
        if len(links) == 1:
            return links[0]
        return syn.Logic(node.lineno, self.text(node), "and", tuple(links))


def _refuses(node: Syntax) -> bool:
    """Is ``node`` a call that may refuse, as its name says?"""
    if not isinstance(node, syn.Call):
        return False
    return terminates(node, cpp=False) or refusing(syn.last(syn.dotted(node.of) or node.of.text))


def _items(value: Syntax) -> tuple[Syntax, ...] | None:
    return value.items if isinstance(value, syn.Items) else None


def _element(value: Syntax, place: int) -> Syntax:
    index = syn.Literal(value.line, str(place), place)
    return syn.Index(value.line, f"{enclosed(value)}[{place}]", value, index)


UNPACKING = Unpacking(_items, _element)

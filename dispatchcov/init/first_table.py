"""A first dispatch table from the code that dispatches today: ``dispatchcov init``.

The source is read, never imported, compiled or executed. What has no exact translation is left, with its line, and
the rule that needs it is written as a comment.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dispatchcov import expr as ex
from dispatchcov.errors import ExpressionError, UsageError, known
from dispatchcov.init import cpp as init_cpp
from dispatchcov.init import python as init_python
from dispatchcov.init import syntax as syn
from dispatchcov.init.endings import Way, kernels
from dispatchcov.init.fold import UntranslatedError
from dispatchcov.init.names import LOCAL, Names
from dispatchcov.init.render import Draft, DraftRule, Fact, expression, quoted, rule_names, variable_names
from dispatchcov.init.syntax import Syntax
from dispatchcov.init.translate import Condition, Translator
from dispatchcov.init.types import Types
from dispatchcov.init.walk import Walker
from dispatchcov.loading.toml_read import MAX_BYTES

PYTHON = (".py", ".pyw", ".pyi")
CPP = (".cc", ".cpp", ".cxx", ".c", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ipp")
SPEC = re.compile(r"(?P<file>.*?\.\w+)(?::(?P<function>[^/\\]+))?\Z", re.S)
LEVELS = 20_000


def draft(spec: str, *, op: str = "", define: Sequence[str] = ()) -> Draft:
    """The table of ``FILE[:FUNCTION]``, where FUNCTION may also be a line in it; raises :class:`UsageError`.

    ``define``: ``NAME=VALUE``, constants whose value is in another file.
    """
    match = SPEC.match(spec)
    if match is None or not match["file"].endswith((*PYTHON, *CPP)):
        wanted = ", ".join((*PYTHON, *CPP))
        raise UsageError(f"init: expected FILE[:FUNCTION], a FILE that ends in one of {wanted}; got {spec!r}")
    with _deep(spec):
        source = read(match["file"])
        function = _function(source, match["function"])
        stem = os.path.splitext(os.path.basename(source.file))[0]
        given = dict(_defined(text) for text in define)
        return _Draft(source, function, given).make(op or f"{stem}::{syn.last(function.name)}")


def read(file: str) -> syn.Source:
    """The functions of the source ``file``, by its suffix Python or C++."""
    try:
        with open(file, "rb") as stream:
            data = stream.read(4 * MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"init: cannot read {file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"init: {file}: expected UTF-8, got byte {error.object[error.start]:#04x}") from None
    if len(data) > 4 * MAX_BYTES:
        raise UsageError(f"init: {file}: expected at most {4 * MAX_BYTES} bytes, got more")
    return init_python.read(text, file) if file.endswith(PYTHON) else init_cpp.read(text, file)


@contextmanager
def _deep(spec: str) -> Iterator[None]:
    """Room for long chains of ``else if``, which are nested for the reader."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, LEVELS))
    try:
        yield
    except RecursionError:
        raise UsageError(f"init: {spec}: nested too deeply to be read") from None
    finally:
        sys.setrecursionlimit(limit)


def _defined(text: str) -> tuple[str, Syntax]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"init: -D: expected NAME=VALUE, got {text!r}")
    number = re.fullmatch(r"\s*-?[0-9]+\s*", value)
    return name.strip(), syn.Literal(0, value, int(value) if number else value.strip())


def _function(source: syn.Source, wanted: str | None) -> syn.Function:
    """The function called ``wanted``, or at that line; without it, the only one that chooses."""
    choosing = [function for function in source.functions if any(syn.branches(function.body))]
    names = list(dict.fromkeys(function.name for function in choosing))
    if wanted is None:
        if len(choosing) == 1:
            return choosing[0]
        have = f"several have one: {', '.join(names)}" if choosing else "no function has one"
        raise UsageError(f"init: {source.file}: expected FILE:FUNCTION, a function with an if-chain; {have}")
    if wanted.isdigit():
        line = int(wanted)
        found = [function for function in source.functions if function.line <= line <= function.last][-1:]
    else:
        ends = (f".{wanted}", f"::{wanted}")
        found = [function for function in source.functions if function.name == wanted]
        found = found or [function for function in source.functions if function.name.endswith(ends)]
    chosen = [function for function in found if any(syn.branches(function.body))]
    if len(chosen) == 1:
        return chosen[0]
    if len(chosen) > 1:
        lines = ", ".join(f"{source.file}:{function.line}" for function in chosen)
        raise UsageError(f"init: {source.file}: {wanted!r} is defined several times; expected one of {lines}")
    what = "has no if-chain" if found else "is no function there"
    raise UsageError(f"init: {source.file}: {wanted!r} {what}; with an if-chain, {known(wanted, names)}")


class _Draft:
    """From one function to a draft."""

    def __init__(self, source: syn.Source, function: syn.Function, given: Mapping[str, Syntax]) -> None:
        self.source = source
        self.function = function
        self.names = Names(source, function, given)
        self.ways = Walker(Translator(self.names), function).ways()
        conditions = [part.expr for way in self.ways for part in way.guard if part.expr is not None]
        self.types = Types(self.names, conditions)
        self.lets: dict[str, ex.Expr] = {}
        self.bad = dict(self.names.unknown)
        for key, (_, value) in self.names.lets.items():
            try:
                self.lets[key] = self._resolved(value)
            except UntranslatedError as error:
                self.bad[key] = str(error)

    def make(self, op: str) -> Draft:
        if len(self.ways) < 2:
            raise UsageError(f"init: {self._where()}: expected a choice between kernels, got one way through it")
        guards = [self._guard(way) for way in self.ways]
        kept = [
            guard if way.read and all(part.expr for part in guard) else None
            for way, guard in zip(self.ways, guards, strict=True)
        ]
        used = self._used([part.expr for guard in kept for part in guard or () if part.expr is not None])
        if not any(key not in self.lets for key in used):
            lines = "".join(
                f"\n    {self.source.file}:{part.line}: {part.text}: {part.reason}" for part in _left(guards)
            )
            raise UsageError(f"init: {self._where()}: nothing to translate is left of its conditions:{lines}")
        names = variable_names({key: self._called(key) for key in used})
        conditions = [part.expr for guard in guards for part in guard if part.expr is not None]
        beside = [key for key in self._used(conditions) if key not in names]  # what only the comments read
        names |= variable_names({key: self._called(key) for key in beside}, names.values())
        chosen = kernels(self.ways)
        rules = tuple(
            self._rule(*parts, names) for parts in zip(self.ways, guards, rule_names(chosen), chosen, strict=True)
        )
        where = (self.source.file, self.function.name, self.function.line)
        return Draft(op, *where, rules, *self._declared(used, names), *self._declared(beside, names))

    def _declared(
        self, keys: Sequence[str], names: Mapping[str, str]
    ) -> tuple[tuple[Fact, ...], tuple[tuple[str, str], ...]]:
        """The facts and the derived values among ``keys``."""
        facts = tuple(self._fact(key, names[key]) for key in keys if key not in self.lets)
        return facts, tuple((names[key], expression(self.lets[key], names)) for key in keys if key in self.lets)

    def _where(self) -> str:
        return f"{self.source.file}:{self.function.line}: {self.function.name}"

    def _resolved(self, expr: ex.Expr) -> ex.Expr:
        for name in ex.names(expr):
            if name in self.bad:
                raise UntranslatedError(self.bad[name])
        done = self.types.resolve(expr)
        try:
            text = ex.to_text(ex.substitute(done, {name: ex.Var("x" * 40) for name in ex.names(done)}))
            ex.parse(text)
        except ExpressionError as error:
            raise UntranslatedError(str(error)) from None
        return done

    def _guard(self, way: Way) -> tuple[Condition, ...]:
        """The conditions of ``way`` in the language, each once."""
        found: dict[tuple[str, object], Condition] = {}
        for part in way.guard:
            done = part
            if part.expr is not None:
                try:
                    expr = self._resolved(part.expr)
                    if not ex.names(expr):
                        raise UntranslatedError("it reads no fact")
                    done = Condition(part.line, part.text, expr)
                except UntranslatedError as error:
                    done = Condition(part.line, part.text, None, str(error))
            found.setdefault(("" if done.expr else part.text, done.expr), done)
        return tuple(found.values())

    def _used(self, conditions: Sequence[ex.Expr]) -> list[str]:
        """The keys that the rules read: parameters in their order, then by where they are read; lets in theirs."""
        seen: dict[str, None] = {}
        todo = list(conditions)
        for expr in todo:
            for node in ex.walk(expr):
                if isinstance(node, ex.Var) and node.name not in seen:
                    seen[node.name] = None
                    if node.name in self.lets:
                        todo.append(self.lets[node.name])
        parameters = list(self.function.parameters)
        facts = [key for key in seen if key not in self.lets]
        facts.sort(key=lambda key: parameters.index(key) if key in parameters else len(parameters))
        return facts + [key for key in self.lets if key in seen]

    def _called(self, key: str) -> tuple[str, ...]:
        """Names for ``key``, the best first: what locals call it, its last part, all of it."""
        if key in self.lets:
            return (self.names.lets[key][0],)
        plain = key.removeprefix("self.")
        if "@" not in key and re.fullmatch(r"[\w.:]+", plain):
            called = self.names.called.get(key, ())
            return (plain,) if plain.isidentifier() else (*called, syn.last(plain), plain)
        return (*self.names.called.get(key, ()), LOCAL.sub(r"\1", plain))

    def _fact(self, key: str, name: str) -> Fact:
        kind = self.types.kind(ex.Var(key)) or "int"
        read = self.names.about.get(key, key)
        about = [*([syn.flat(read)] if read != name else []), *self.names.notes.get(key, [])]
        values: tuple[str, ...] = ()
        if kind == "str":
            values = tuple(self.types.values.get(key, ()))
            listed = next((names for names in self.source.enumerations.values() if set(values) <= set(names)), None)
            if listed is not None:
                values = listed
            elif key not in self.types.listed:
                rest = next(word for word in ("other", "any other", "none of these") if word not in values)
                values = (*values, rest)
                about.append(f"{quoted(rest)}: what the code does not name")
        least = 0 if kind == "int" and key in self.types.nonnegative else None
        if least is not None and key not in self.types.unsigned:
            about.append("divided as C++ does: taken to be never negative")
        return Fact(name, "enum" if kind == "str" else kind, values, least, "; ".join(about))

    def _rule(
        self, way: Way, guard: tuple[Condition, ...], name: str, kernel: str, names: Mapping[str, str]
    ) -> DraftRule:
        level = 2 if len(guard) > 1 else 0
        texts = tuple(f"<{part.text}>" if part.expr is None else expression(part.expr, names, level) for part in guard)
        left = tuple(part for part in guard if part.expr is None)
        return DraftRule(name, kernel, texts, guard[-1].line if guard else way.line, left)


def _left(guards: Sequence[tuple[Condition, ...]]) -> list[Condition]:
    found = {(part.line, part.text): part for guard in guards for part in guard if part.expr is None}
    return list(found.values())

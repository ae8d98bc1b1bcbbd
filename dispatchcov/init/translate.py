"""Conditions of Python and C++ in the predicate language, exactly or not at all.

Two forms stand in for what types decide later: ``bool(e)``, that ``e`` holds as a condition by itself, and the
operators ``t/`` and ``t%`` of C++, which round toward zero. :mod:`dispatchcov.init.types` replaces them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dispatchcov import expr as ex
from dispatchcov.init import syntax as syn
from dispatchcov.init.casts import cast, integer, keeps
from dispatchcov.init.cpp_cursor import INTEGERS
from dispatchcov.init.decided import lifted
from dispatchcov.init.fold import TRUTH, UntranslatedError, constant, folded, joined, negated, truth
from dispatchcov.init.names import Bound, Locals, Names, written
from dispatchcov.init.reads import names
from dispatchcov.init.syntax import Syntax

MAX_INLINED = 8
FRACTIONS = {"float", "double"}
SYMBOL = "\0"
UNSIGNED = {"unsigned", "size_t", "std::size_t"} | {
    f"{space}uint{n}_t" for space in ("", "std::") for n in (8, 16, 32, 64)
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One conjunct of a test: ``expr`` is None where it was left, and ``reason`` says why."""

    line: int
    text: str
    expr: ex.Expr | None
    reason: str = ""


class Translator:
    """Translates the expressions of one function; ``env`` has what its locals hold at that point."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.cpp = names.cpp
        self._inlined = 0

    def conjuncts(self, node: Syntax, env: Locals) -> tuple[Condition, ...]:
        """The parts of a test that all must hold."""
        if isinstance(node, syn.Logic) and node.op == "and":
            return tuple(part for inner in node.parts for part in self.conjuncts(inner, env))
        try:
            return (Condition(node.line, node.text, self.condition(node, env)),)
        except UntranslatedError as error:
            return (Condition(node.line, node.text, None, str(error)),)

    def bound(self, target: str, node: Syntax, env: Locals, kind: str = "") -> Bound:
        """What the local ``target`` holds after ``target = node``."""
        words = set(re.sub(r"[&*]", " ", kind).split())
        if not self.names.symbolic(node, env) and (path := self.names.path(node, env)) is not None:
            known = env.get(node.id) if isinstance(node, syn.Name) else None
            held = ex.Var(path)
            if self.cpp and "bool" in words and integer(self.names.types.get(path, "")) is not None:
                return self.names.bind(target, truth(held))
            if self.cpp and (words & FRACTIONS or not keeps(kind, held, self.names)):
                return self.names.fact(target, node, kind)
            self.names.called.setdefault(path, []).append(written(target))
            return known or Bound(ex.Var(path), path)
        if isinstance(node, syn.Name) and node.id in env and not (self.cpp and (words & {"bool"} or integer(kind))):
            return env[node.id]
        if isinstance(node, syn.Literal) and node.value is None:
            return self.names.none(target, node)
        callee = ""
        if isinstance(node, syn.Binary) and isinstance(node.left, syn.Name) and node.left.id in env:
            callee = env[node.left.id].callee  # out += bias: still what the call gave
        try:
            value = self.value(node, env)
        except UntranslatedError:
            return self.names.fact(target, node, kind, callee)
        if self.cpp and "bool" in words:
            value = truth(value)
        wraps = words & UNSIGNED and any(
            isinstance(p, ex.Neg) or (isinstance(p, ex.Bin) and p.op == "-") for p in ex.walk(value)
        )
        if words & FRACTIONS or wraps or (self.cpp and not keeps(kind, value, self.names)):
            return self.names.fact(target, node, kind)
        return replace(self.names.bind(target, value), callee=callee)

    # --- conditions -------------------------------------------------------------------------------------------------

    def condition(self, node: Syntax, env: Locals) -> ex.Expr:
        """``node`` as something that holds or not; raises :class:`UntranslatedError`."""
        match node:
            case syn.Logic():
                return joined(node.op, [self.condition(part, env) for part in node.parts])
            case syn.Unary(op="not"):
                return negated(self.condition(node.operand, env))
            case syn.Comparison():
                return self.comparison(node, env)
            case syn.Choice():
                test, then, orelse = (self.condition(part, env) for part in (node.test, node.then, node.orelse))
                return joined("or", [joined("and", [test, then]), joined("and", [negated(test), orelse])])
        if self.names.symbolic(node, env) and (path := self.names.path(node, env)) is not None:
            return ex.Call(TRUTH, (ex.Var(path),))
        return truth(self.value(node, env))

    def comparison(self, node: syn.Comparison, env: Locals) -> ex.Expr:
        if (choice := lifted(node)) is not None:
            return self.condition(choice, env)
        left, right, op = node.left, node.right, node.op
        if isinstance(left, syn.Literal) and left.value is None:
            left, right = right, left
        if isinstance(right, syn.Literal) and right.value is None and op in ("is", "is not", "==", "!="):
            return self.given(left, op in ("is not", "!="), env)
        if op in ("is", "is not"):
            if not (isinstance(right, syn.Literal) and isinstance(right.value, bool)):
                raise UntranslatedError("identity of objects")
            op = "==" if op == "is" else "!="
        if op in ("in", "not in"):
            member = self.member(left, right, env)
            return negated(member) if op == "not in" else member
        if isinstance(left, syn.Call) and (texts := self.strcmp(left, right, env)) is not None:
            return ex.Compare(op, *texts)
        return folded(ex.Compare(op, self.value(left, env), self.value(right, env)))

    def given(self, node: Syntax, wanted: bool, env: Locals) -> ex.Expr:
        """Is there something, not ``None`` or ``nullptr``? A fact of its own, but of what a local surely holds."""
        path = self.names.path(node, env)
        if path in self.names.nothing:
            return ex.Const(not wanted)
        held = env[node.id].expr if path is None and isinstance(node, syn.Name) and node.id in env else None
        if isinstance(held, ex.Const) or (isinstance(held, ex.Var) and held.name in self.names.lets):
            return ex.Const(wanted)
        if path is None:
            raise UntranslatedError("compared with nothing")
        key = f"{path} given"
        self.names.about[key] = f"{self.names.about.get(path, path)} {'!= nullptr' if self.cpp else 'is not None'}"
        fact = ex.Call(TRUTH, (ex.Var(key),))
        return fact if wanted else negated(fact)

    def member(self, left: Syntax, right: Syntax, env: Locals) -> ex.Expr:
        item = self.value(left, env)
        listed = right if syn.dotted(right) in env else self.names.constant(right) or right
        match listed:
            case syn.Items(items=items) | syn.Pairs(keys=items) if items:
                values = [self.value(part, env) for part in items]
            case syn.Call(of=syn.Name(id="range"), args=[_] | [_, _]):
                ends = [self.value(part, env) for part in listed.args]
                low = ends[0] if len(ends) == 2 else ex.Const(0)
                return joined("and", [folded(ex.Compare("<=", low, item)), folded(ex.Compare("<", item, ends[-1]))])
            case _:
                raise UntranslatedError("'in' something that is not listed here")
        listed_values = [_listed(value) for value in values]
        if None not in listed_values and not isinstance(item, ex.Const):
            return ex.In(item, tuple(dict.fromkeys(value for value in listed_values if value is not None)))
        return joined("or", [folded(ex.Compare("==", item, value)) for value in values])

    def strcmp(self, left: syn.Call, right: Syntax, env: Locals) -> tuple[ex.Expr, ex.Expr] | None:
        """The two texts of ``strcmp(a, b) == 0``."""
        zero = isinstance(right, syn.Literal) and right.value == 0 and not isinstance(right.value, bool)
        if isinstance(left.of, syn.Name) and left.of.id in ("strcmp", "std::strcmp") and zero and len(left.args) == 2:
            return self.value(left.args[0], env), self.value(left.args[1], env)
        return None

    # --- values -----------------------------------------------------------------------------------------------------

    def value(self, node: Syntax, env: Locals) -> ex.Expr:
        """``node`` as an expression; raises :class:`UntranslatedError`."""
        match node:
            case syn.Literal():
                return constant(node)
            case syn.Logic(parts=parts) if not self.cpp and not all(self.boolean(part, env) for part in parts):
                raise UntranslatedError(f"{node.op!r} of values that are no conditions")
            case syn.Logic() | syn.Comparison() | syn.Unary(op="not"):
                return self.condition(node, env)
            case syn.Unary(op="-"):
                return ex.negate(self.value(node.operand, env))
            case syn.Unary(op="+"):
                return self.value(node.operand, env)
            case syn.Binary():
                return folded(self.binary(node, env))
            case syn.Name() if node.id in env:
                return env[node.id].expr
            case syn.Text():
                return constant(syn.Literal(node.line, node.text, self.written(node, env, whole=True)))
        if (fixed := self.names.constant(node)) is not None and not isinstance(node, syn.Call):
            return self.value(fixed, {})
        if self.names.symbolic(node, env):
            return ex.Var(f"={syn.dotted(node)}")
        if (path := self.names.path(node, env)) is not None:
            return ex.Var(path)
        if (name := syn.dotted(node)) is not None and name in env:
            return env[name].expr
        if isinstance(node, syn.Call):
            return self.call(node, env)
        raise UntranslatedError(self.why(node, env) or "not in the predicate language")

    def boolean(self, node: Syntax, env: Locals) -> bool:
        """May ``node`` be true or false, as far as it is written? ``M or 16`` is a number in Python."""
        value = self.condition(node, env) if isinstance(node, syn.Logic) else self.value(node, env)
        number = isinstance(value, ex.Bin | ex.Neg) or (isinstance(value, ex.Call) and value.name != TRUTH)
        return not number and not (isinstance(value, ex.Const) and not isinstance(value.value, bool))

    def written(self, node: syn.Text, env: Locals, whole: bool = False) -> str:
        """The string that ``node`` gives; what is not fixed stays in braces, or fails where the ``whole`` is needed."""
        found = []
        for piece in node.pieces:
            try:
                value = self.value(piece, env)
            except UntranslatedError:
                value = ex.Var("")
            if isinstance(value, ex.Const):
                found.append(str(value.value))
            elif whole:
                raise UntranslatedError(f"a string with {piece.text} in it")
            else:
                found.append(f"{{{piece.text}}}")
        return "".join(found)

    def binary(self, node: syn.Binary, env: Locals) -> ex.Expr:
        left, right = self.value(node.left, env), self.value(node.right, env)
        number = right.value if isinstance(right, ex.Const) and type(right.value) is int else None
        match node.op, left, right:
            case "+", ex.Const(value=str() as first), ex.Const(value=str() as second):
                return ex.Const(first + second)
        match node.op:
            case "+" | "-" | "*":
                return ex.Bin(node.op, left, right)
            case "//" | "%" if not self.cpp:
                return ex.Bin(node.op, left, right)
            case "/" | "%" if self.cpp and not self.fraction(left) and not self.fraction(right):
                return ex.Bin(f"t{node.op}", left, right)
            case "&" if number is not None and number >= 0 and not number & (number + 1):
                return ex.Bin("%", left, ex.Const(number + 1))
            case "<<" if number is not None and 0 <= number < 63:
                return ex.Bin("*", left, ex.Const(1 << number))
            case ">>" if number is not None and 0 <= number < 63:
                return ex.Bin("//", left, ex.Const(1 << number))
        what = "'/' gives a fraction" if node.op == "/" else f"the operator {node.op}"
        raise UntranslatedError(what)

    def fraction(self, value: ex.Expr) -> bool:
        """Does ``value`` read what is declared a number with a fraction?"""
        return any(FRACTIONS & set(re.findall(r"\w+", self.names.types.get(key, ""))) for key in ex.names(value))

    def call(self, node: syn.Call, env: Locals) -> ex.Expr:
        name = syn.dotted(node.of)
        plain, args = syn.bare(name or ""), node.args
        if len(args) == 1 and isinstance(args[0], syn.Items):
            args = args[0].items
        if plain in (("std::min", "std::max") if self.cpp else ("min", "max")) and len(args) >= 2:
            return folded(ex.Call(syn.last(plain), tuple(self.value(arg, env) for arg in args)))
        if plain == "triton.cdiv" and len(args) == 2:
            return folded(ex.Call("ceildiv", tuple(self.value(arg, env) for arg in args)))
        kind = name[len("static_cast<") : -1] if name and plain in ("static_cast", "safe_cast") else plain
        if len(args) == 1 and (self.cpp or kind in ("int", "bool")) and plain not in env:
            words = set(kind.replace("std::", "").replace("const", "").split())
            if words and words <= INTEGERS:
                value = self.value(args[0], env)
                return cast(kind, value, node.line, self.names) if self.cpp else value
            if kind == "bool":
                return self.condition(args[0], env)
            if kind in ("std::string", "std::string_view") and isinstance(args[0], syn.Literal):
                return self.value(args[0], env)
        if name is not None and (inlined := self.inlined(plain, args, env)) is not None:
            return inlined
        raise UntranslatedError(self.why(node, env) or (f"a call of {name}" if name else "a call"))

    def why(self, node: Syntax, env: Locals) -> str:
        """What of ``node`` is not followed any more; "" if nothing is."""
        held = [env[name].expr for name in names(node) if name in env]
        keys = [expr.name for expr in held if isinstance(expr, ex.Var)]
        return next((self.names.unknown[key] for key in keys if key in self.names.unknown), "")

    def inlined(self, name: str, args: tuple[Syntax, ...], env: Locals) -> ex.Expr | None:
        """A call of a function of the same file that only returns an expression, written out."""
        every = self.names.source.functions
        plain = [f for f in every if (syn.last(f.name) if self.cpp else f.name) == syn.last(name)]
        hidden = name in env or name in self.names.function.parameters or "." in name  # another function, a method
        hidden = hidden or any(f.name == f"{self.names.function.name}.{name}" for f in every)
        if len(plain) != 1 or hidden or len(plain[0].parameters) != len(args):
            return None
        body = plain[0].body
        if len(body) != 1 or not isinstance(body[0], syn.Return) or body[0].value is None:
            return None
        here = {*env, *self.names.function.parameters}.difference(plain[0].parameters)
        if here.intersection(names(body[0].value)):
            return None  # what it calls so is not what is called so here
        if self._inlined == MAX_INLINED:
            raise UntranslatedError("calls nested too deeply")
        bound: Mapping[str, Bound] = {
            parameter: self.argument(arg, env, kind)
            for (parameter, kind), arg in zip(plain[0].parameters.items(), args, strict=True)
        }
        self._inlined += 1
        try:
            return self.converted(self.value(body[0].value, bound), plain[0].returns)
        finally:
            self._inlined -= 1

    def argument(self, node: Syntax, env: Locals, kind: str) -> Bound:
        if not self.names.symbolic(node, env) and (path := self.names.path(node, env)) is not None:
            held = self.converted(ex.Var(path), kind)
            return Bound(held, path if held == ex.Var(path) else "")
        return Bound(self.converted(self.value(node, env), kind))

    def converted(self, value: ex.Expr, kind: str) -> ex.Expr:
        """``value`` as the function of C++ takes or returns it that declares it a ``kind``."""
        if not self.cpp:
            return value
        if "bool" in kind.split():
            return truth(value)
        if not keeps(kind, value, self.names):
            raise UntranslatedError(f"a conversion to {kind.strip()} changes what does not fit in it")
        return value


def _listed(value: ex.Expr) -> ex.Value | None:
    """``value`` in the list of an ``in``; a symbolic constant with a mark before it."""
    if isinstance(value, ex.Var) and value.name.startswith("="):
        return SYMBOL + value.name[1:]
    return value.value if isinstance(value, ex.Const) else None

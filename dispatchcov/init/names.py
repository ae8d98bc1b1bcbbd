"""What the names of a function stand for: facts that are read, locals that hold something else, constants.

In expressions a fact is a :class:`~dispatchcov.expr.Var` named by its *key*, the text that reads it with locals written
out: ``a.shape[0]``. A symbolic constant is ``=torch.float16``, a derived value ``let rows``. They get the names of the
table at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dispatchcov import expr as ex
from dispatchcov.init import syntax as syn
from dispatchcov.init.syntax import Syntax

GETTERS = re.compile(
    r"(size|sizes|shape|stride|strides|dim|ndim|ndimension|numel|rank|rows|cols|length|empty|has_value|value|defined"
    r"|dtype|scalar_type|element_size|itemsize|device|get_device|device_type|is_[a-z_]+|has_[a-z_]+|Is[A-Z]\w*|Has[A-Z]\w*"
    r"|Shape|NumDimensions|SizeInBytes|Size)\Z"
)
SIZES = re.compile(r"\.(?:size\((-?\d+)\)|sizes\(\)\[(-?\d+)\]|shape\((-?\d+)\)|shape\(\)\[(-?\d+)\])")

LOCAL = re.compile(r"([\w.]+)@\d+(?:_\d+)?")


@dataclass(frozen=True, slots=True)
class Bound:
    """What a local holds: ``expr`` over keys; ``path`` is its key if it is one fact, ``callee`` the function called."""

    expr: ex.Expr
    path: str = ""
    callee: str = ""


Locals = Mapping[str, Bound]


class Names:
    """The facts met so far: :attr:`about` says what a key stands for, :attr:`called` how the code calls it.

    :attr:`nothing` has the keys that are ``None``, :attr:`unknown` those of what is not followed, to the reason.
    """

    def __init__(self, source: syn.Source, function: syn.Function, given: Mapping[str, Syntax]) -> None:
        self.source = source
        self.function = function
        self.given = given
        self.cpp = source.language == "c++"
        self.about: dict[str, str] = {}
        self.called: dict[str, list[str]] = {}
        self.types: dict[str, str] = dict(function.parameters)
        self.lets: dict[str, tuple[str, ex.Expr]] = {}
        self.nothing: set[str] = set()
        self.unknown: dict[str, str] = {}
        self.notes: dict[str, list[str]] = {}
        self.declared: dict[str, str] = dict(function.parameters)
        self.for_good: set[str] = set()
        self._enumerators = {name for kind, names in source.enumerations.items() if kind for name in names}

    def path(self, node: Syntax, env: Locals) -> str | None:
        """The key of the fact that ``node`` reads; None where it is no name, member, element or getter of one."""
        if (written := syn.dotted(node)) is not None and written in env:
            return env[written].path or None
        key = self._path(node, env)
        if key is None:
            return None
        key = SIZES.sub(lambda found: f".shape[{next(filter(None, found.groups()))}]", key)
        self.about.setdefault(key, self._text(key, node))
        return key

    def _text(self, key: str, node: Syntax) -> str:
        """What ``node`` reads, with what gave the local of which it is a part."""
        local = LOCAL.search(key)
        if local is None or local[0] not in self.about:
            return node.text
        return f"{node.text}, where {local[1]} is {self.about[local[0]]}"

    def _path(self, node: Syntax, env: Locals) -> str | None:
        match node:
            case syn.Name():
                return None if self.constant(node) is not None else node.id
            case syn.Attribute():
                inner = self.path(node.of, env)
                if inner == "this":
                    return node.name
                return None if inner is None else f"{inner}.{node.name}"
            case syn.Index(index=syn.Literal(value=int() | str() as value)):
                inner = self.path(node.of, env)
                return None if inner is None else f"{inner}[{value!r}]"
            case syn.Index(index=syn.Unary(op="-", operand=syn.Literal(value=int() as value))):
                inner = self.path(node.of, env)
                return None if inner is None else f"{inner}[-{value}]"
            case syn.Unary(op="*") if self.cpp:
                inner = self.path(node.operand, env)
                return None if inner is None else f"*{inner}"
            case syn.Call():
                return self._getter(node, env)
        return None

    def _getter(self, node: syn.Call, env: Locals) -> str | None:
        """``x.size(0)``, ``x.is_contiguous()``, ``len(x)``, ``torch.is_grad_enabled()`` is none."""
        places = [_place(arg) for arg in node.args]
        match node.of:
            case syn.Attribute(of=of, name=name) if GETTERS.match(name) and None not in places:
                inner = self.path(of, env)
                if inner is not None and not self.symbolic(of, env):
                    return f"{inner}.{name}({', '.join(map(str, places))})"
            case syn.Name(id="len") if len(node.args) == 1 and not self.cpp:
                inner = self.path(node.args[0], env)
                return None if inner is None else f"len({inner})"
        return None

    def constant(self, node: Syntax) -> Syntax | None:
        """What the name ``node`` is fixed to: by ``-D``, or in the file where it is not a parameter."""
        name = syn.dotted(node)
        if name is None:
            return None
        if name in self.given:
            return self.given[name]
        if name in self.function.parameters or (self.cpp and not isinstance(node, syn.Name)):
            return None
        if syn.last(name) in self._enumerators:
            return None
        return self.source.constants.get(syn.last(name) if self.cpp else name)

    def numbers(self) -> dict[str, int]:
        """The enumerators whose values are known, for where they are used as numbers."""
        found = {}
        for name in self._enumerators:
            match self.source.constants.get(name):
                case syn.Literal(value=int() as value):
                    found[name] = value
        return found

    def symbolic(self, node: Syntax, env: Locals) -> bool:
        """Is ``node`` a constant whose value is elsewhere, ``torch.float16``, ``at::kHalf``?"""
        name = syn.dotted(node)
        if name is None or name in self.given:
            return False
        root = re.split(r"::|\.", name)[0]
        if root in env or root in self.function.parameters:
            return False
        if not self.cpp:
            return root in self.source.imported
        capital = re.match(r"k[A-Z]\w*\Z|[A-Z][A-Z0-9_]{2,}\Z", name)
        return isinstance(node, syn.Name) and ("::" in name or capital is not None or name in self._enumerators)

    def bind(self, target: str, expr: ex.Expr) -> Bound:
        """``target`` holds ``expr``: as a derived value, unless it is a constant or one fact."""
        if isinstance(expr, ex.Const | ex.Var):
            return Bound(expr)
        name = written(target)
        for key, let in self.lets.items():
            if let == (name, expr):
                return Bound(ex.Var(key))
        key = f"let {name}#{len(self.lets)}"
        self.lets[key] = (name, expr)
        return Bound(ex.Var(key))

    def fact(self, target: str, value: Syntax, kind: str, callee: str = "") -> Bound:
        """``target`` holds something that is not translated: a fact of its own."""
        about, key = f"{value.text}, line {value.line}", f"{written(target)}@{value.line}"
        number = 2
        while self.about.get(key, about) != about:  # two of them on one line
            key = f"{written(target)}@{value.line}_{number}"
            number += 1
        self.about[key] = about
        self.called.setdefault(key, []).append(syn.last(written(target)))
        self.types.setdefault(key, kind)
        return Bound(ex.Var(key), key, value.of.text if isinstance(value, syn.Call) else callee)

    def note(self, key: str, text: str) -> None:
        """What the table says beside the fact ``key``."""
        if text not in self.notes.setdefault(key, []):
            self.notes[key].append(text)

    def lost(self, head: syn.Lost) -> Bound:
        """What ``head`` says is not known: what reads it is left."""
        key = f"{head.name}@{head.line} lost"
        self.unknown.setdefault(key, f"{head.name} may be changed in line {head.line}: {head.text}")
        if head.for_good:
            self.for_good.add(key)
        return Bound(ex.Var(key))

    def stays_lost(self, target: str, env: Locals) -> bool:
        """Does nothing that is assigned to ``target`` tell what it holds?"""
        path = target
        while path:
            match env.get(path):
                case Bound(expr=ex.Var(name=key)) if key in self.for_good and key.startswith(f"{path}@"):
                    return True
            path = path.rpartition(".")[0]
        return False

    def none(self, target: str, value: Syntax) -> Bound:
        """``target`` holds ``None`` or ``nullptr``."""
        bound = self.fact(target, value, "")
        self.nothing.add(bound.path)
        return bound


def written(target: str) -> str:
    """What the code calls the local ``target``, which may be a value kept aside while others are assigned."""
    return target.partition("$")[0]


def _place(node: Syntax) -> int | None:
    match node:
        case syn.Literal(value=int() as value):
            return value
        case syn.Unary(op="-", operand=syn.Literal(value=int() as value)):
            return -value
    return None

"""Types of the facts, from how conditions use them, and the conditions in the language once these are known.

Compared with strings or with constants of an enumeration: ``enum`` with the values seen. A condition by itself:
``bool``. Else ``int``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from dispatchcov import expr as ex
from dispatchcov.errors import ExpressionError
from dispatchcov.init import syntax as syn
from dispatchcov.init.fold import TRUTH, UntranslatedError, folded, negated
from dispatchcov.init.names import Names
from dispatchcov.init.translate import SYMBOL, UNSIGNED

ORDER = ("<", "<=", ">", ">=")
SIGNED = {"int", "long", "short", "signed", "ssize_t", "ptrdiff_t", "index_t"} | {
    f"int{bits}_t" for bits in (8, 16, 32, 64)
}
TENSOR = re.compile(
    r"\.(shape\[-?\d+\]|dim\(\)|ndim|numel\(\)|stride\(-?\d+\)|NumDimensions\(\))$"
)  # int64_t in ATen and the like
ROUNDING = {"t/": "//", "t%": "%"}


class Types:
    """Types of the names in ``conditions``; :meth:`resolve` gives a condition as the table has it."""

    def __init__(self, names: Names, conditions: Iterable[ex.Expr]) -> None:
        self.lets = {key: value for key, (_, value) in names.lets.items()}
        self.numbers = names.numbers()
        self.kinds: dict[str, str] = {}
        self.unsigned: set[str] = set()
        self.signed: set[str] | None = set() if names.cpp else None  # of None nothing wraps around
        self.nonnegative: set[str] = set()
        self.listed: set[str] = set()
        self.values: dict[str, list[str]] = {}
        trees = [*conditions, *self.lets.values()]
        for key, written in names.types.items():
            self._declare(key, written)
        self._learn(trees)
        for tree in trees:
            for node in ex.walk(tree):
                if isinstance(node, ex.Call) and node.name == TRUTH:
                    self._want(node.args[0], "bool")
        self._learn(trees)
        everything = [node for tree in trees for node in ex.walk(tree)]
        symbols = {node.name[1:] for node in everything if isinstance(node, ex.Var) and node.name.startswith("=")}
        listed = [value for node in everything if isinstance(node, ex.In) for value in node.values]
        symbols |= {value[1:] for value in listed if isinstance(value, str) and value.startswith(SYMBOL)}
        short = [syn.last(symbol) for symbol in symbols]
        self.texts = {s: syn.last(s) if short.count(syn.last(s)) == 1 else s for s in symbols}
        self._gather(everything)

    def _declare(self, key: str, written: str) -> None:
        plain = re.sub(r"\b(const|constexpr)\b|std::|[&\s]+", " ", written).strip()
        words = set(plain.split())
        if words & UNSIGNED:
            self.unsigned.add(key)
            self.nonnegative.add(key)
        elif self.signed is not None and words & SIGNED:
            self.signed.add(key)
        if "*" in plain and plain not in ("char *", "char*"):
            return
        if plain in ("bool", "int", "str"):
            self.kinds[key] = plain
        elif plain in ("string", "string_view", "char*", "char *"):
            self.kinds[key] = "str"
        elif (words and words <= {"long", "short", "unsigned", "signed", "int", "size_t"} | UNSIGNED) or re.fullmatch(
            r"u?int\d+_t", plain
        ):
            self.kinds[key] = "int"
        elif match := re.fullmatch(r"(?:typing\.)?Literal\[(.*)\]", written.strip()):
            listed = re.findall(r"""'([^']*)'|"([^"]*)\"""", match[1])
            if listed:
                self.kinds[key] = "str"
                self.values[key] = [one or other for one, other in listed]
                self.listed.add(key)

    # --- learning ---------------------------------------------------------------------------------------------------

    def kind(self, expr: ex.Expr) -> str | None:
        """The type of ``expr``, as far as it is known."""
        match expr:
            case ex.Const():
                return type(expr.value).__name__
            case ex.Var(name=name) if name in self.lets:
                return self.kind(self.lets[name])
            case ex.Var(name=name):
                return "str" if name.startswith("=") else self.kinds.get(name)
            case ex.Bin() | ex.Neg():
                return "int"
            case ex.Call():
                return "bool" if expr.name == TRUTH else "int"
        return "bool"

    def _learn(self, trees: list[ex.Expr]) -> None:
        before = -1
        while before != len(self.kinds):
            before = len(self.kinds)
            for tree in trees:
                for node in ex.walk(tree):
                    self._use(node)

    def _use(self, node: ex.Expr) -> None:
        match node:
            case ex.Bin() | ex.Neg():
                wanted: str | None = "int"
            case ex.Call(name=name) if name != TRUTH:
                wanted = "int"
            case ex.Compare(op=op, left=left, right=right):
                wanted = "int" if op in ORDER else self.kind(left) or self.kind(right)
            case ex.In(values=values):
                wanted = type(values[0]).__name__
            case _:
                return
        if wanted:
            for part in ex.children(node):
                self._want(part, wanted)

    def _want(self, expr: ex.Expr, kind: str) -> None:
        if not isinstance(expr, ex.Var) or expr.name.startswith("="):
            return
        if expr.name in self.lets:
            self._want(self.lets[expr.name], kind)
        elif expr.name not in self.kinds:
            self.kinds[expr.name] = kind

    def _gather(self, nodes: list[ex.Expr]) -> None:
        """The values that each enum is compared with, also through another one."""
        links = []
        for node in nodes:
            match node:
                case ex.Compare(op="==" | "!=", left=left, right=right):
                    for one, other in ((left, right), (right, left)):
                        self._see(one, self._texts([other]))
                    links.append((self._plain(left), self._plain(right)))
                case ex.In(item=item, values=values):
                    self._see(item, [self._shown(value) for value in values if isinstance(value, str)])
        for _ in links:
            for left, right in links:
                self._see(left, self.values.get(right.name, []) if isinstance(right, ex.Var) else [])
                self._see(right, self.values.get(left.name, []) if isinstance(left, ex.Var) else [])

    def _texts(self, sides: list[ex.Expr]) -> list[str]:
        found = []
        for side in map(self._plain, sides):
            if isinstance(side, ex.Const) and isinstance(side.value, str):
                found.append(side.value)
            elif isinstance(side, ex.Var) and side.name.startswith("="):
                found.append(self.texts[side.name[1:]])
        return found

    def _shown(self, value: str) -> str:
        return self.texts[value[1:]] if value.startswith(SYMBOL) else value

    def _plain(self, expr: ex.Expr) -> ex.Expr:
        while isinstance(expr, ex.Var) and expr.name in self.lets:
            expr = self.lets[expr.name]
        return expr

    def _see(self, expr: ex.Expr, texts: list[str]) -> None:
        plain = self._plain(expr)
        if isinstance(plain, ex.Var) and not plain.name.startswith("=") and self.kind(plain) == "str":
            seen = self.values.setdefault(plain.name, [])
            seen += [text for text in dict.fromkeys(texts) if text not in seen]

    # --- the language -----------------------------------------------------------------------------------------------

    def known(self) -> Mapping[str, str]:
        """The type of each name, for :func:`~dispatchcov.expr.check_type`; what is not known is an ``int``."""
        return _Default(self)

    def resolve(self, expr: ex.Expr) -> ex.Expr:
        """``expr`` without stand-ins, of the right types; raises :class:`UntranslatedError`."""
        done = self._replace(expr)
        try:
            ex.check_type(done, self.known())
            ex.check_divisors(done)
        except ExpressionError as error:
            raise UntranslatedError(str(error)) from None
        return done

    def _replace(self, expr: ex.Expr) -> ex.Expr:
        match expr:
            case ex.Var(name=name) if name.startswith("="):
                return ex.Const(self._number(name[1:]))
            case ex.Call(name=name, args=(inner,)) if name == TRUTH:
                return self._truth(inner)
            case ex.In(item=item, values=values) if any(str(value).startswith(SYMBOL) for value in values):
                if self.kind(item) == "str":
                    texts = [self._shown(value) if isinstance(value, str) else value for value in values]
                    return ex.In(self._replace(item), tuple(texts))
                numbers = [self._number(value[1:]) if isinstance(value, str) else value for value in values]
                return ex.In(self._replace(item), tuple(numbers))
            case ex.Not(operand=operand):
                return negated(self._replace(operand))
            case ex.Compare(op="==" | "!=", left=left, right=right) if self._by_text(left, right):
                return ex.Compare(expr.op, self._text_side(left), self._text_side(right))
            case ex.Compare(op="==" | "!=" as op, left=ex.Bin(op="t%") as left, right=ex.Const(value=0)):
                return ex.Compare(op, ex.Bin("%", self._replace(left.left), self._replace(left.right)), ex.Const(0))
            case ex.Bin(op="t/" | "t%"):
                return self._rounding(expr)
            case ex.Bin(op="-") | ex.Neg() if unsure := self._may_wrap(expr):
                raise UntranslatedError(unsure)
        return ex.rebuild(expr, [self._replace(part) for part in ex.children(expr)])

    def _may_wrap(self, expr: ex.Expr) -> str:
        """Why ``expr``, a difference or an opposite, may wrap around; "" if it does not."""
        read = _deep(expr, self.lets)
        if self.unsigned & read:
            return "a difference of unsigned integers wraps around"
        if self.signed is None:
            return ""
        unknown = sorted(key for key in read - self.signed - self.lets.keys() if not TENSOR.search(key))
        return (
            f"a difference with {unknown[0]}, whose type is not seen: unsigned integers wrap around" if unknown else ""
        )

    def _number(self, symbol: str) -> int:
        if syn.last(symbol) in self.numbers:
            return self.numbers[syn.last(symbol)]
        raise UntranslatedError(f"the value of {symbol} is not in this file; -D {symbol}=VALUE gives it")

    def _truth(self, inner: ex.Expr) -> ex.Expr:
        kind = self.kind(inner) or "int"
        if kind == "str":
            raise UntranslatedError("a string as a condition by itself")
        if kind == "bool":
            return self._replace(inner)
        return self._replace(ex.Compare("!=", inner, ex.Const(0)))

    def _by_text(self, left: ex.Expr, right: ex.Expr) -> bool:
        symbols = [side for side in (left, right) if isinstance(side, ex.Var) and side.name.startswith("=")]
        others = [side for side in (left, right) if side not in symbols]
        return len(symbols) == 1 and len(others) == 1 and self.kind(others[0]) == "str"

    def _text_side(self, side: ex.Expr) -> ex.Expr:
        if isinstance(side, ex.Var) and side.name.startswith("="):
            return ex.Const(self.texts[side.name[1:]])
        return self._replace(side)

    def _rounding(self, expr: ex.Bin) -> ex.Expr:
        """A division of C++: Python's where nothing is negative; with a dividend that may be, in two halves."""
        left, right, op = self._replace(expr.left), self._replace(expr.right), ROUNDING[expr.op]
        positive = isinstance(right, ex.Const) and type(right.value) is int and right.value > 0
        if not positive and not self._grows(right):
            raise UntranslatedError("a division by what may be negative")
        if self._grows(left):
            self.nonnegative |= {name for part in (left, right) for name in _deep(part, self.lets)}
            return ex.Bin(op, left, right)
        if not positive:
            raise UntranslatedError("a division of what may be negative")
        zero = ex.Const(0)
        above, below = ex.Call("max", (left, zero)), ex.Call("max", (folded(ex.negate(left)), zero))
        return ex.Bin("-", ex.Bin(op, above, right), ex.Bin(op, below, right))

    def _grows(self, expr: ex.Expr) -> bool:
        """Is ``expr`` never negative where no variable is?"""
        match expr:
            case ex.Const(value=value):
                return type(value) is int and value >= 0
            case ex.Var(name=name):
                return self._grows(self.lets[name]) if name in self.lets else self.kinds.get(name, "int") == "int"
            case ex.Bin(op="+" | "*" | "//" | "t/" | "t%") | ex.Call(name="min" | "max" | "ceildiv"):
                return all(self._grows(part) for part in ex.children(expr))
            case ex.Bin(op="%", right=right):
                return isinstance(right, ex.Const) and self._grows(right)
        return False


class _Default(dict[str, str]):
    def __init__(self, types: Types) -> None:
        super().__init__()
        self.types = types

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return self.types.kind(ex.Var(name)) or "int"


def _deep(expr: ex.Expr, lets: Mapping[str, ex.Expr]) -> set[str]:
    """The facts that ``expr`` reads, also through derived values."""
    return set(_reads(expr, lets))


def _reads(expr: ex.Expr, lets: Mapping[str, ex.Expr]) -> Iterator[str]:
    for name in ex.names(expr):
        if name in lets:
            yield from _reads(lets[name], lets)
        else:
            yield name

"""The expressions of one table: derived values, and conditions as formulas over predicates, which are numbered here.

A predicate is known by its text, so that two rules that ask the same share it and one bit of the vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dispatchcov import expr as ex
from dispatchcov.errors import ExpressionError, brief, known
from dispatchcov.formula import ALWAYS, Formula, Leaf, Opposite, Some, every
from dispatchcov.loading.toml_read import Entry
from dispatchcov.parts import Predicate, Variable

MAX_NODES = 4000
MAX_TOTAL = 20_000
MAX_PREDICATES = 2000


class Conditions:
    """Expressions over ``variables``; :attr:`predicates` grows with each condition read."""

    def __init__(self, variables: Mapping[str, Variable]) -> None:
        self.variables = variables
        self.types = {variable.name: variable.kind for variable in variables.values()}
        self.lets: dict[str, ex.Expr] = {}
        self.predicates: list[Predicate] = []
        self._numbers: dict[str, int] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._total = 0

    def let(self, entry: Entry, name: str) -> str:
        """Declare the derived value under ``name``, over what is declared before it; its text."""
        tree = self._read(entry, name)
        self._sizes[name] = ex.size(tree, self._sizes)
        self.types[name] = ex.check_type(tree, self.types)
        self.lets[name] = ex.substitute(tree, self.lets)
        return ex.to_text(tree)

    def condition(self, entry: Entry, key: str) -> Formula:
        """The condition under ``key``; without one, all inputs."""
        return self._formula(entry, key) if key in entry else ALWAYS

    def splits(self, entry: Entry) -> tuple[Predicate, ...]:
        """The splits of a rule, each one predicate."""
        found: dict[int, Predicate] = {}
        for position, text in enumerate(entry.strings("splits")):
            formula = self._formula(entry, "splits", position)
            if not isinstance(formula, Leaf):
                raise entry.fail(f"expected a split to be one predicate, got {brief(text)}", "splits", position)
            if formula.index in found:
                raise entry.fail(f"expected each split once, got {brief(text)} twice", "splits", position)
            found[formula.index] = self.predicates[formula.index]
        return tuple(found.values())

    def equals(self, variable: Variable, value: ex.Value, line: int) -> Formula:
        """The condition that ``variable`` is ``value``."""
        if variable.type == "bool":
            leaf = self._leaf(ex.Var(variable.name), line)
            return leaf if value else Opposite(leaf)
        return self._leaf(ex.Compare("==", ex.Var(variable.name), ex.Const(value)), line)

    # --- from text to tree ------------------------------------------------------------------------------------------

    def _read(self, entry: Entry, *path: str | int) -> ex.Expr:
        """The tree of the expression under ``path``, of known names and types and a size that can be afforded."""
        text = entry.values[str(path[0])]
        for step in path[1:]:
            text = text[step]
        try:
            tree = ex.parse(text)
            ex.check_type(tree, self.types)
            count, depth = ex.size(tree, self._sizes)
            self._total += count
            if count > MAX_NODES:
                raise ExpressionError(
                    f"expected at most {MAX_NODES} terms with derived values written out, got {count}"
                )
            if depth > ex.MAX_DEPTH:
                limit = f"at most {ex.MAX_DEPTH} nested levels with derived values written out"
                raise ExpressionError(f"expected {limit}, got {depth}")
            if self._total > MAX_TOTAL:
                raise ExpressionError(f"expected at most {MAX_TOTAL} terms in the table, derived values written out")
            whole = ex.substitute(tree, self.lets)
            ex.check_divisors(whole)
            self._check_values(whole)
        except ExpressionError as error:
            raise entry.fail(f"{path[0]}: {error}", *path) from None
        return tree

    def _check_values(self, whole: ex.Expr) -> None:
        """An enum compared with a string that is none of its values is a typing mistake that would never hold."""
        for node in ex.walk(whole):
            compared: Sequence[ex.Value] = ()
            match node:
                case ex.Compare(left=ex.Var(name=name), right=ex.Const(value=value)):
                    compared = [value]
                case ex.Compare(left=ex.Const(value=value), right=ex.Var(name=name)):
                    compared = [value]
                case ex.In(item=ex.Var(name=name), values=compared):
                    pass
                case _:
                    continue
            variable = self.variables[name]
            for value in compared:
                if variable.type == "enum" and value not in variable.values:
                    raise ExpressionError(
                        f"{name} is never {brief(value)}; {known(str(value), map(str, variable.values))}"
                    )

    # --- from tree to formula ---------------------------------------------------------------------------------------

    def _formula(self, entry: Entry, *path: str | int) -> Formula:
        tree = self._read(entry, *path)
        got = ex.check_type(tree, self.types)
        if got != "bool":
            raise entry.fail(f"{path[0]}: expected a condition, got {got} {ex.to_text(tree)!r}", *path)
        try:
            return self._lower(tree, entry.line(*path))
        except ExpressionError as error:
            raise entry.fail(f"{path[0]}: {error}", *path) from None

    def _lower(self, tree: ex.Expr, line: int) -> Formula:
        match tree:
            case ex.And():
                return every(*(self._lower(part, line) for part in tree.operands))
            case ex.Or():
                return Some(tuple(self._lower(part, line) for part in tree.operands))
            case ex.Not():
                return Opposite(self._lower(tree.operand, line))
            case ex.Var() if tree.name in self.lets:
                return self._lower(self.lets[tree.name], line)
            case ex.Compare(op="==" | "!="):
                # "bias == True" is "bias": the same predicate, not another one.
                for side, other in ((tree.left, tree.right), (tree.right, tree.left)):
                    constant = self.lets.get(side.name, side) if isinstance(side, ex.Var) else side
                    if isinstance(constant, ex.Const) and isinstance(constant.value, bool):
                        formula = self._lower(other, line)
                        return formula if constant.value == (tree.op == "==") else Opposite(formula)
        return self._leaf(tree, line)

    def _leaf(self, tree: ex.Expr, line: int) -> Leaf:
        text = ex.to_text(tree)
        if text not in self._numbers:
            whole = ex.substitute(tree, self.lets)
            reads = ex.names(whole)
            if not reads:
                raise ExpressionError(f"{text!r} reads no variable")
            if len(self.predicates) == MAX_PREDICATES:
                raise ExpressionError(f"expected at most {MAX_PREDICATES} predicates in the table, got {text!r} too")
            self._numbers[text] = len(self.predicates)
            self.predicates.append(Predicate(len(self.predicates), text, whole, reads, line))
        return Leaf(self._numbers[text])

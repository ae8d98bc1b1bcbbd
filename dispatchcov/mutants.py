"""One-change mutants of the guards of a table: the mistakes that one makes when writing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.formula import ALWAYS, Every, Formula, Leaf, Opposite, Some, flipped, leaves
from dispatchcov.space.variants import Variant
from dispatchcov.table import Predicate, Rule, Table, Variable

OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "!=", "!=": "=="}
NEAR = {"<", "<=", ">", ">="}
OTHERS = 4
"""So many other constants are tried in a predicate: with all, a table of 200 rules would have 40000 mutants."""

_T = TypeVar("_T")
Kind: TypeAlias = tuple[frozenset[str], ex.Expr]
Alike: TypeAlias = Mapping[Kind, Sequence[Predicate]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """``rule`` with ``guard`` in place of its own or, if ``swapped``, with its place exchanged with the next rule's.

    ``kind``: ``off-by-one``, ``comparison``, ``dropped``, ``negated``, ``modulus``, ``constant``, ``order``.
    ``change`` says it in the words of the table, ``M <= 8 -> M <= 9``.
    """

    rule: Rule
    kind: str
    change: str
    guard: Formula
    swapped: bool = False


def mutants(table: Table, more: Variant) -> Iterator[Mutant]:
    """Every mutant, in guard order; the predicates they need are added to ``more``."""
    alike = _alike(table)
    for rule in table.rules:
        for index in leaves(rule.guard):
            predicate = table.predicates[index]
            seen = {ex.to_text(predicate.expr)}
            for kind, tree in _changes(table, predicate, alike):
                text = ex.to_text(tree)
                if text not in seen:
                    seen.add(text)
                    guard = _replaced(rule.guard, index, more.leaf(tree, predicate.line))
                    yield Mutant(rule, kind, f"{predicate.text} -> {text}", guard)
            yield Mutant(rule, "negated", f"{predicate.text} -> not ({predicate.text})", flipped(rule.guard, index))
            yield Mutant(rule, "dropped", f"{predicate.text} dropped", _without(rule.guard, index) or ALWAYS)
        if rule.index + 1 < len(table.rules):
            after = table.rules[rule.index + 1]
            yield Mutant(rule, "order", f"rules {rule.name} and {after.name} swapped", rule.guard, True)


def _replaced(formula: Formula, index: int, by: Formula) -> Formula:
    match formula:
        case Leaf():
            return by if formula.index == index else formula
        case Opposite():
            return Opposite(_replaced(formula.operand, index, by))
        case Every():
            return Every(tuple(_replaced(part, index, by) for part in formula.operands))
        case Some():
            return Some(tuple(_replaced(part, index, by) for part in formula.operands))


def _without(formula: Formula, index: int) -> Formula | None:
    """``formula`` without predicate ``index``, as if it had not been written; None if nothing is left."""
    match formula:
        case Leaf():
            return None if formula.index == index else formula
        case Opposite():
            inner = _without(formula.operand, index)
            return None if inner is None else Opposite(inner)
    parts = tuple(part for part in (_without(part, index) for part in formula.operands) if part is not None)
    return type(formula)(parts) if parts else None


def _changes(table: Table, predicate: Predicate, alike: Alike) -> Iterator[tuple[str, ex.Expr]]:
    tree = predicate.expr
    match tree:
        case ex.Compare(op=op, left=left, right=right):
            if op in NEAR:
                yield from _beside(table, tree)
                yield "comparison", ex.Compare(OPPOSITE[op], left, right)
            elif op == "==":
                yield from _beside(table, tree)
        case ex.In(item=item, values=values):
            for value in values:
                rest = tuple(other for other in values if other != value)
                if rest:
                    yield "constant", ex.In(item, rest)
    yield from _moduli(tree)
    yield from (("constant", other.expr) for other in _beside_it(alike[_kind(predicate)], predicate))


def _beside(table: Table, tree: ex.Compare) -> Iterator[tuple[str, ex.Expr]]:
    """The bound one step, or one listed value, further up and down."""
    at_right = not ex.names(tree.right) or bool(ex.names(tree.left))
    bound, other = (tree.right, tree.left) if at_right else (tree.left, tree.right)
    variable = table.variable(other.name) if isinstance(other, ex.Var) else None
    if isinstance(bound, ex.Const) and variable is not None and variable.values:
        for value in _next(variable, bound.value):
            yield "constant", _bounded(tree, ex.Const(value), at_right)
        return
    if isinstance(bound, ex.Const) and type(bound.value) is not int:
        return
    if tree.op == "==" and any(isinstance(node, ex.Bin) and node.op == "%" for node in ex.walk(other)):
        return  # another remainder is no off-by-one: the modulus is changed instead
    step = variable.multiple_of if variable is not None else 1
    for shift in (-step, step):
        if isinstance(bound, ex.Const):
            moved: ex.Expr = ex.Const(int(bound.value) + shift)
        else:
            moved = ex.Bin("+" if shift > 0 else "-", bound, ex.Const(step))
        yield "off-by-one", _bounded(tree, moved, at_right)


def _bounded(tree: ex.Compare, bound: ex.Expr, at_right: bool) -> ex.Expr:
    return ex.Compare(tree.op, tree.left, bound) if at_right else ex.Compare(tree.op, bound, tree.right)


def _next(variable: Variable, value: Value) -> Iterator[Value]:
    """The listed values next to ``value``."""
    values = sorted(variable.values, key=int) if variable.type == "int" else list(variable.values)
    if variable.type != "int":
        near = _near(values, values.index(value)) if value in values else values[:OTHERS]
        yield from (other for other in near if other != value)
        return
    below = [other for other in values if int(other) < int(value)]
    above = [other for other in values if int(other) > int(value)]
    yield from below[-1:]
    yield from above[:1]


def _moduli(tree: ex.Expr) -> Iterator[tuple[str, ex.Expr]]:
    """``tree`` with one constant modulus halved (or divided by its least factor), and doubled."""
    for node in ex.walk(tree):
        match node:
            case ex.Bin(op="%", left=left, right=ex.Const(value=int(modulus))) if modulus > 1:
                least = next(factor for factor in range(2, modulus + 1) if modulus % factor == 0)
                for other in (modulus // least, modulus * 2):
                    if other > 1:
                        yield "modulus", _put(tree, node, ex.Bin("%", left, ex.Const(other)))


def _put(tree: ex.Expr, old: ex.Expr, new: ex.Expr) -> ex.Expr:
    return new if tree is old else ex.rebuild(tree, [_put(part, old, new) for part in ex.children(tree)])


def left_out(table: Table) -> tuple[str, ...]:
    """Which mutants are not made, because there would be too many."""
    many = [(f"predicates like {min(alike, key=lambda each: each.index).text}", len(alike))
            for alike in _alike(table).values()]  # fmt: skip
    many += [(f"values of {variable.name}", len(variable.values)) for variable in table.variables
             if variable.type == "enum"]  # fmt: skip
    return tuple(
        f"mutants: of {number} {what} only the {OTHERS} next to a predicate's own constant are put in its place"
        for what, number in many
        if number > OTHERS + 1
    )


def _alike(table: Table) -> Alike:
    """The predicates of ``table`` that differ in nothing but constants, in the order of these."""
    found: dict[Kind, dict[str, Predicate]] = {}
    for predicate in table.predicates:
        found.setdefault(_kind(predicate), {}).setdefault(ex.to_text(predicate.expr), predicate)
    return {kind: sorted(alike.values(), key=_constants) for kind, alike in found.items()}


def _beside_it(alike: Sequence[Predicate], predicate: Predicate) -> list[Predicate]:
    """Those next to ``predicate``, in the order of the table: their constants mean something in it."""
    text = ex.to_text(predicate.expr)
    place = next(place for place, other in enumerate(alike) if ex.to_text(other.expr) == text)
    return sorted(_near(alike, place), key=lambda other: other.index)


def _near(of: Sequence[_T], place: int) -> Sequence[_T]:
    """What is at ``place`` of a sorted sequence, and the :data:`OTHERS` next to it."""
    first = max(0, min(place - OTHERS // 2, len(of) - OTHERS - 1))
    return of[first : first + OTHERS + 1]


def _kind(predicate: Predicate) -> Kind:
    return predicate.reads, _form(predicate.expr)


def _constants(predicate: Predicate) -> list[tuple[str, Value]]:
    """The constants of ``predicate``, so that they can be compared."""
    found: list[Value] = []
    for node in ex.walk(predicate.expr):
        found += [node.value] if isinstance(node, ex.Const) else node.values if isinstance(node, ex.In) else ()
    return [(type(value).__name__, value) for value in found]


def _form(tree: ex.Expr) -> ex.Expr:
    """``tree`` with every constant blanked out."""
    match tree:
        case ex.Const(value=value):
            return ex.Const(type(value)())
        case ex.In(item=item):
            return ex.In(_form(item), ())
    return ex.rebuild(tree, [_form(part) for part in ex.children(tree)])

"""Guards as boolean formulas over numbered predicates.

A decision is summarised by one integer, its *vector*: bit ``i`` is the outcome of predicate ``i``. Whether a guard
held, which predicate settled it and which predicate was the sole reason all follow from the vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Leaf:
    index: int


@dataclass(frozen=True, slots=True)
class Opposite:
    operand: Formula


@dataclass(frozen=True, slots=True)
class Every:
    operands: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    operands: tuple[Formula, ...]


Formula: TypeAlias = Leaf | Opposite | Every | Some

ALWAYS = Every(())
NEVER = Some(())


def every(*operands: Formula) -> Formula:
    """The conjunction of ``operands``, flattened."""
    flat: list[Formula] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, Every) else [operand])
    return flat[0] if len(flat) == 1 else Every(tuple(flat))


def settle(formula: Formula, vector: int) -> tuple[bool, int]:
    """The value of ``formula`` and the predicate that short-circuit evaluation reads last (-1: none)."""
    match formula:
        case Leaf():
            return bool(vector >> formula.index & 1), formula.index
        case Opposite():
            value, last = settle(formula.operand, vector)
            return not value, last
    stop = isinstance(formula, Some)
    last = -1
    for operand in formula.operands:
        value, inner = settle(operand, vector)
        last = inner if inner >= 0 else last
        if value == stop:
            return value, last
    return not stop, last


def holds(formula: Formula, vector: int) -> bool:
    """The value of ``formula`` for ``vector``."""
    return settle(formula, vector)[0]


def leaves(formula: Formula) -> tuple[int, ...]:
    """The predicates of ``formula`` in the order in which they are written, each once."""
    found: dict[int, None] = {}

    def visit(node: Formula) -> None:
        match node:
            case Leaf():
                found.setdefault(node.index)
            case Opposite():
                visit(node.operand)
            case Every() | Some():
                for operand in node.operands:
                    visit(operand)

    visit(formula)
    return tuple(found)


def read(formula: Formula, vector: int) -> tuple[int, ...]:
    """The predicates that short-circuit evaluation of ``formula`` reads for ``vector``, in order, each once."""
    seen: dict[int, None] = {}

    def visit(node: Formula) -> bool:
        match node:
            case Leaf():
                seen.setdefault(node.index)
                return bool(vector >> node.index & 1)
            case Opposite():
                return not visit(node.operand)
        stop = isinstance(node, Some)
        for operand in node.operands:
            if visit(operand) == stop:
                return stop
        return not stop

    visit(formula)
    return tuple(seen)


def assign(formula: Formula, index: int, value: bool) -> Formula:
    """``formula`` with predicate ``index`` fixed to ``value``."""
    match formula:
        case Leaf():
            return (ALWAYS if value else NEVER) if formula.index == index else formula
        case Opposite():
            return Opposite(assign(formula.operand, index, value))
        case Every():
            return Every(tuple(assign(part, index, value) for part in formula.operands))
        case Some():
            return Some(tuple(assign(part, index, value) for part in formula.operands))


def flipped(formula: Formula, index: int) -> Formula:
    """``formula`` with predicate ``index`` read the other way."""
    match formula:
        case Leaf():
            return Opposite(formula) if formula.index == index else formula
        case Opposite():
            return Opposite(flipped(formula.operand, index))
        case Every():
            return Every(tuple(flipped(part, index) for part in formula.operands))
        case Some():
            return Some(tuple(flipped(part, index) for part in formula.operands))


def sole_reason(formula: Formula, index: int) -> Formula:
    """``formula`` is false, and of all its predicates ``index`` is the only one that alone would make it hold."""
    others = (Opposite(flipped(formula, other)) for other in leaves(formula) if other != index)
    return every(Opposite(formula), flipped(formula, index), *others)


def alone(formula: Formula, index: int, vector: int) -> bool:
    """Is predicate ``index`` the :func:`sole_reason` of ``formula`` for ``vector``?"""
    others = (other for other in leaves(formula) if other != index)
    return pivotal(formula, index, vector) and not any(pivotal(formula, other, vector) for other in others)


def pivotal(formula: Formula, index: int, vector: int) -> bool:
    """Is ``formula`` false for ``vector`` and would it hold, were only predicate ``index`` the other way?"""
    return not holds(formula, vector) and holds(formula, vector ^ (1 << index))


def blame(formula: Formula, vector: int) -> tuple[int, ...]:
    """The predicates whose outcome makes ``formula`` what it is for ``vector``, in the order they are written.

    Of a false conjunction these are all its false parts, not only the one that settled it.
    """
    found: dict[int, None] = {}

    def visit(node: Formula) -> None:
        match node:
            case Leaf():
                found.setdefault(node.index)
            case Opposite():
                visit(node.operand)
            case Every() | Some():
                value = holds(node, vector)
                for operand in node.operands:
                    if holds(operand, vector) == value:
                        visit(operand)

    visit(formula)
    return tuple(found)

"""A table with more predicates, for questions about it that its own predicates cannot ask.

A variant shares rules, kernels and partitions with its table. No decision is taken by it and nothing is recorded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dispatchcov import expr as ex
from dispatchcov.formula import ALWAYS, NEVER, Formula, Leaf
from dispatchcov.parts import Predicate
from dispatchcov.table import Table

_T = TypeVar("_T")


def once(table: Table, make: Callable[[Table], _T]) -> _T:
    """``make(table)``, made once and kept as long as ``table``."""
    kept: dict[Any, _T] = vars(table).setdefault("_once", {})
    if make not in kept:
        kept[make] = make(table)
    return kept[make]


@dataclass
class Effort:
    """What a table and its variants have cost so far: ``boxes`` looked at and ``steps`` of intervals in vain,
    ``unknown`` answers of z3; and what intervals have ``told`` of questions that they share.
    """

    boxes: int = 0
    steps: int = 0
    unknown: int = 0
    told: dict[Any, Any] = field(default_factory=dict)

    @staticmethod
    def of(table: Table) -> Effort:
        """That of ``table``, which the variants made of it from now on share."""
        effort: Effort = vars(table).setdefault("_effort", Effort())
        return effort


class Variant:
    """``table`` grows by each predicate asked of :meth:`leaf`; :meth:`build` gives the table as it is then."""

    def __init__(self, table: Table) -> None:
        self.base = table
        self.predicates = list(table.predicates)
        self._known = {ex.to_text(predicate.expr): predicate.index for predicate in reversed(table.predicates)}

    def leaf(self, tree: ex.Expr, line: int = 0) -> Formula:
        """The predicate ``tree``, whose derived values are written out: a leaf, or its value if it reads nothing."""
        if not ex.names(tree):
            try:
                return ALWAYS if ex.evaluate(tree, {}) else NEVER
            except ZeroDivisionError:
                return NEVER
        text = ex.to_text(tree)
        if text not in self._known:
            index = self._known[text] = len(self.predicates)
            self.predicates.append(Predicate(index, text, tree, ex.names(tree), line))
        return Leaf(self._known[text])

    def build(self) -> Table:
        """The table with all predicates so far."""
        return variant(self.base, self.predicates)


def variant(table: Table, predicates: Iterable[Predicate]) -> Table:
    """``table`` with other ``predicates``, of which the first are its own."""
    made = copy.copy(table)
    made.predicates = tuple(predicates)
    made.views = {}
    made.code = None
    for kept in ("_spaces", "_once"):
        vars(made).pop(kept, None)
    return made

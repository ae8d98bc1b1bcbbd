"""Guards that divide by zero: where they do, and the ``untotal`` findings, since no rule takes such an input."""

from __future__ import annotations

from collections.abc import Iterator

from dispatchcov import expr as ex
from dispatchcov.check.ask import Inquiry
from dispatchcov.check.findings import Finding
from dispatchcov.formula import ALWAYS, NEVER, Formula, Leaf, Opposite, Some, every, leaves
from dispatchcov.space.variants import Variant
from dispatchcov.table import Rule


class Divisions:
    """The inputs for which guards divide by zero, as formulas over more predicates; ``space`` answers about them.

    ``at[rule][predicate]`` holds where the guard of a rule divides by zero in that predicate, if an evaluation comes to
    it: short-circuit, and no earlier predicate of the guard divides by zero.
    """

    def __init__(self, ask: Inquiry) -> None:
        more = Variant(ask.table)
        self.at: dict[int, dict[int, Formula]] = {rule.index: {} for rule in ask.table.rules}
        for rule in ask.table.rules:
            earlier: list[Formula] = []
            for index in leaves(rule.guard):
                divisors = [d for _, d in ex.divisions(ask.table.predicates[index].expr) if ex.names(d)]
                if divisors:
                    zero = Some(tuple(more.leaf(ex.Compare("==", divisor, ex.Const(0))) for divisor in divisors))
                    at = every(_reading(rule.guard, index), zero)
                    self.at[rule.index][index] = every(at, *(Opposite(other) for other in earlier))
                    earlier.append(at)
        self.space = ask.engine(more.build()) if any(self.at.values()) else ask.space

    def raised(self, rule: Rule) -> Formula:
        """The guard of ``rule``, if it is evaluated, divides by zero."""
        found = tuple(self.at[rule.index].values())
        return Some(found) if found else NEVER

    def held(self, rule: Rule) -> Formula:
        """The guard of ``rule``, if it is evaluated, holds: a predicate that divides by zero is not just false."""
        return every(rule.guard, Opposite(self.raised(rule))) if self.at[rule.index] else rule.guard

    def never(self, *parts: Formula) -> bool:
        """Is it proved that no input fulfils all of ``parts``, whatever rules say of it?"""
        return self.space.possible(every(*parts)) == "unreachable"


def undefined(ask: Inquiry, divisions: Divisions) -> Iterator[Finding]:
    """Guards that divide by zero take no input at which they do, and no later rule sees it."""
    for rule in ask.table.rules:
        for index, condition in divisions.at[rule.index].items():
            answer = divisions.space.left(rule.index, condition)
            if answer.state == "unreachable":
                continue
            text = ask.text(index)
            if answer.witness is not None:
                message = f"the guard of rule {rule.name} divides by zero in {text}: no rule takes the input"
                yield ask.finding("untotal", message, answer, rule=rule, predicate=text)
            else:
                yield ask.unknown(f"the guard of rule {rule.name} divides by zero in {text}", answer, rule)
            break


def _reading(formula: Formula, index: int) -> Formula:
    """When does short-circuit evaluation of ``formula`` read predicate ``index``?"""
    match formula:
        case Leaf():
            return ALWAYS if formula.index == index else NEVER
        case Opposite():
            return _reading(formula.operand, index)
    stop = isinstance(formula, Some)
    ways = []
    for number, part in enumerate(formula.operands):
        before = [Opposite(other) if stop else other for other in formula.operands[:number]]
        ways.append(every(*before, _reading(part, index)))
    return Some(tuple(ways))

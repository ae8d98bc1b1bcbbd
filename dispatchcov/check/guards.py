"""Guards that are longer or narrower than they need to be: ``redundant`` and ``narrow`` findings."""

from __future__ import annotations

from collections.abc import Iterator

from dispatchcov import expr as ex
from dispatchcov.check.ask import Inquiry
from dispatchcov.check.divide import Divisions
from dispatchcov.check.findings import Finding
from dispatchcov.formula import NEVER, Every, Formula, Leaf, Opposite, assign, every, flipped, holds, leaves
from dispatchcov.table import Rule


def redundant(ask: Inquiry, divisions: Divisions, rule: Rule) -> Iterator[Finding]:
    """Predicates that never decide, whatever earlier rules take; the last ones first, each without those found.

    A predicate over listed values that is the same for all of them guards against values to come: it is meant. One
    that divides by zero decides that no rule takes the input.
    """
    guard, found = rule.guard, []
    for index in reversed(leaves(rule.guard)):
        without = next((g for g in (assign(guard, index, v) for v in (True, False)) if _equal(ask, g, guard)), None)
        divides = not divisions.never(divisions.at[rule.index].get(index, NEVER))
        if without is not None and not divides and not _meant(ask, index) and not _protects(ask, rule, index):
            guard = without
            found.append(index)
    for index in reversed(found):
        message = f"{ask.text(index)} never decides: the guard of rule {rule.name} is the same without it"
        yield ask.finding("redundant", message, rule=rule, predicate=ask.text(index))


def undivided(ask: Inquiry, rule: Rule) -> Iterator[Finding]:
    """Splits of which one side cannot happen inside their rule, so that nothing is to be covered there.

    As of guards, one that is the same for all listed values is meant.
    """
    for split in rule.splits:
        if _meant(ask, split.index):
            continue
        for literal, word in ((Leaf(split.index), "false"), (Opposite(Leaf(split.index)), "true")):
            if ask.space.answer([rule.index], literal).state == "unreachable":
                message = f"split {split.text} divides nothing: it is always {word} inside rule {rule.name}"
                yield ask.finding("redundant", message, rule=rule, predicate=split.text)
                break


def _equal(ask: Inquiry, a: Formula, b: Formula) -> bool:
    """Do ``a`` and ``b`` hold for the same inputs, whatever rules say of them?"""
    return ask.never(a, Opposite(b)) and ask.never(b, Opposite(a))


def _protects(ask: Inquiry, rule: Rule, index: int) -> bool:
    """May predicate ``index`` keep what is read after it from a division by zero?"""
    order = leaves(rule.guard)
    later = order[order.index(index) + 1 :]
    return any(ex.may_divide_by_zero(ask.table.predicates[i].expr) for i in later)


def _meant(ask: Inquiry, index: int) -> bool:
    reads = ask.table.predicates[index].reads
    listed = all(ask.table.variable(name).values for name in reads)
    sides = (Leaf(index), Opposite(Leaf(index)))
    return listed and any(ask.never(side) for side in sides)


def narrow(ask: Inquiry, rule: Rule) -> Iterator[Finding]:
    """Predicates of a guard that ask more than the contract does of the same variables."""
    clauses = _clauses(rule.kernel.requires)
    later = [r.index for r in ask.table.rules[rule.index + 1 :] if r.kernel.name != rule.kernel.name]
    for index in leaves(rule.guard):
        for wanted in (Leaf(index), Opposite(Leaf(index))):
            if not later or not any(_stricter(ask, index, wanted, clause) for clause in clauses):
                continue
            alone = every(Opposite(wanted), flipped(rule.guard, index), rule.kernel.requires)
            answer = ask.space.answer(later, alone)
            if answer.witness is None:
                continue
            taken = next(r for r in ask.table.rules if holds(r.guard, ask.outcomes(answer.witness)))
            text = ask.text(index) if isinstance(wanted, Leaf) else f"not {ask.text(index)}"
            message = (
                f"kernel {rule.kernel.name} could take an input that rule {rule.name} sends on to {taken.name}: "
                f"its guard demands {text}, its contract less"
            )
            yield ask.finding("narrow", message, answer, rule=rule, predicate=ask.text(index))


def _stricter(ask: Inquiry, index: int, wanted: Formula, clause: Formula) -> bool:
    """Does ``wanted`` imply ``clause``, of the same variables, but not the other way round?"""
    predicates = ask.table.predicates
    if {name for i in leaves(clause) for name in predicates[i].reads} != predicates[index].reads:
        return False
    implies = ask.never(wanted, Opposite(clause))
    return implies and not ask.never(clause, Opposite(wanted)) and not ask.never(Opposite(clause))


def _clauses(requires: Formula) -> tuple[Formula, ...]:
    return requires.operands if isinstance(requires, Every) else (requires,)

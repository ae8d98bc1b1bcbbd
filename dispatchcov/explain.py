"""A decision as a person reads it: each rule, each predicate with its outcome and values, and the kernel selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dispatchcov.expr import Compare, Const, Expr, Facts, In, Var, evaluate, to_text
from dispatchcov.formula import Formula, Leaf, Opposite, Some, blame, leaves, read
from dispatchcov.parts import Rule, plain, show

if TYPE_CHECKING:
    from dispatchcov.table import Table

Outcome: TypeAlias = bool | None
WORDS = {True: "true", False: "false", None: "undefined"}


def explain(table: Table, given: Mapping[str, object]) -> str:
    """Each rule up to the selected one, its predicates with outcomes and values; raises :class:`FactsError`.

    A guard that divides by zero ends the text, as it ends the decision.
    """
    facts = table.facts(given)
    outcomes = [_outcome(predicate.expr, facts) for predicate in table.predicates]
    lines = [f"{table.op}  {show(facts)}"]
    for rule in table.rules:
        value, last = _settle(rule.guard, outcomes)
        why = "".join(f", {table.predicates[i].text} is {WORDS[outcomes[i]]}" for i in _settling(rule, outcomes))
        if value is None:
            why = f" decision, {table.predicates[last].text} divides by zero: ZeroDivisionError"
        lines.append(f"  {rule.name}: " + (f"selected, kernel {rule.kernel.name}" if value else f"no{why}"))
        lines += _predicate_lines(table, leaves(rule.guard), outcomes, facts)
        if value:
            lines += _predicate_lines(table, [split.index for split in rule.splits], outcomes, facts, "split ")
            later = ", ".join(other.name for other in table.rules[rule.index + 1 :])
            return "\n".join([*lines, f"  not asked: {later}"] if later else lines)
        if value is None:
            return "\n".join(lines)
    return "\n".join([*lines, "  no rule takes this input"])


def _outcome(tree: Expr, facts: Facts) -> Outcome:
    try:
        return bool(evaluate(tree, facts))
    except ZeroDivisionError:
        return None


def _settle(formula: Formula, outcomes: Sequence[Outcome]) -> tuple[Outcome, int]:
    """The value of ``formula``, None if its evaluation divides by zero, and the predicate read last (-1: none)."""
    match formula:
        case Leaf():
            return outcomes[formula.index], formula.index
        case Opposite():
            value, last = _settle(formula.operand, outcomes)
            return None if value is None else not value, last
    stop = isinstance(formula, Some)
    last = -1
    for operand in formula.operands:
        value, inner = _settle(operand, outcomes)
        last = inner if inner >= 0 else last
        if value is None or value == stop:
            return value, last
    return not stop, last


def _settling(rule: Rule, outcomes: Sequence[Outcome]) -> Iterator[int]:
    """The predicates that are read and make the guard of ``rule`` what it is: both sides of a false ``or``."""
    vector = sum(1 << index for index, outcome in enumerate(outcomes) if outcome)
    yield from (index for index in read(rule.guard, vector) if index in blame(rule.guard, vector))


def _predicate_lines(
    table: Table, indices: Iterable[int], outcomes: Sequence[Outcome], facts: Facts, kind: str = ""
) -> list[str]:
    chosen = [table.predicates[index] for index in indices]
    width = max((len(predicate.text) for predicate in chosen), default=0)
    words = {predicate.index: WORDS[outcomes[predicate.index]] for predicate in chosen}
    word_width = max(5, *map(len, words.values())) if words else 0
    lines = []
    for predicate in chosen:
        seen = show({name: facts[name] for name in table.names if name in predicate.reads})
        word = words[predicate.index]
        lines.append(
            f"    {kind}{word:<{word_width}}  {predicate.text:<{width}}  {seen}{_sides(predicate.expr, facts)}"
        )
    return lines


def _sides(tree: Expr, facts: Facts) -> str:
    """The values of what is compared where it is more than a name: ``, K % 128 = 112``."""
    compared: tuple[Expr, ...] = ()
    match tree:
        case Compare():
            compared = (tree.left, tree.right)
        case In():
            compared = (tree.item,)
    return "".join(f", {_value(side, facts)}" for side in compared if not isinstance(side, Var | Const))


def _value(side: Expr, facts: Facts) -> str:
    try:
        return f"{to_text(side)} = {plain(evaluate(side, facts))}"
    except ZeroDivisionError:
        return f"{to_text(side)} divides by zero"

"""Static faults of a table, found before any test runs: each with the smallest input that shows it.

Every finding is a question to :class:`~dispatchcov.regions.Space`; where it has no proof, the finding is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterator

from dispatchcov.check.ask import Inquiry
from dispatchcov.check.dead import dead_rules
from dispatchcov.check.divide import Divisions, undefined
from dispatchcov.check.findings import KINDS, Finding
from dispatchcov.check.guards import narrow, redundant, undivided
from dispatchcov.check.partitions import dead_partitions, duplicates
from dispatchcov.formula import ALWAYS, Formula, Leaf, Opposite, Some, blame, holds
from dispatchcov.regions import Space
from dispatchcov.table import Table


def check(table: Table, engine: type[Space] = Space) -> tuple[Finding, ...]:
    """The findings of ``table``, in the order of :data:`~dispatchcov.check.findings.KINDS`, then of lines.

    ``engine`` answers the questions: the exact one, or :class:`~dispatchcov.smt.space.SmtSpace` to compare with it.
    """
    return tuple(sorted(_all(Inquiry(table, engine)), key=lambda finding: (KINDS.index(finding.kind), finding.line)))


def _all(ask: Inquiry) -> Iterator[Finding]:
    rules = ask.table.rules
    divisions = Divisions(ask)
    yield from dead_rules(ask, divisions)
    yield from _contracts(ask)
    yield from _untotal(ask)
    yield from undefined(ask, divisions)
    for rule in rules:
        if rule.index not in ask.dead:
            yield from redundant(ask, divisions, rule)
            yield from undivided(ask, rule)
            yield from narrow(ask, rule)
    # A table without partitions has one of each rule, which says nothing of its own.
    of_rules = {(rule.name, rule.line) for rule in rules}
    declared = [partition for partition in ask.table.partitions if (partition.name, partition.line) not in of_rules]
    yield from dead_partitions(ask, divisions, declared)
    yield from duplicates(ask, declared)


def _contracts(ask: Inquiry) -> Iterator[Finding]:
    for rule in ask.table.rules:
        kernel = rule.kernel
        if kernel.requires == ALWAYS or rule.index in ask.dead:
            continue
        answer = ask.space.answer([rule.index], Opposite(kernel.requires))
        if answer.witness is not None:
            vector = ask.outcomes(answer.witness)
            message = (
                f"rule {rule.name} sends an input to kernel {kernel.name} that violates its contract: "
                f"{_lacking(ask, kernel.requires, vector)} is required and does not hold"
            )
            broken = blame(kernel.requires, vector)
            yield ask.finding("contract", message, answer, rule=rule, predicate=ask.text(broken[0]) if broken else None)
        elif answer.state == "unknown":
            yield ask.unknown(f"rule {rule.name} keeps the contract of kernel {kernel.name}", answer, rule)


def _untotal(ask: Inquiry) -> Iterator[Finding]:
    count = len(ask.table.rules)
    answer = ask.space.reaching(count)
    if answer.witness is not None:
        message = "no rule takes this input; the last rule should have no 'when'"
        yield ask.finding("untotal", message, answer)
    elif answer.state == "unknown":
        yield ask.unknown("some input is taken by no rule", answer)


def _lacking(ask: Inquiry, requires: Formula, vector: int, wanted: bool = True) -> str:
    """What ``requires`` asks for and ``vector`` is not, as one writes it; ``wanted`` is false inside a ``not``."""
    match requires:
        case Leaf(index=index):
            return ask.text(index) if wanted else f"not ({ask.text(index)})"
        case Opposite(operand=operand):
            return _lacking(ask, operand, vector, not wanted)
    lacking = [part for part in requires.operands if holds(part, vector) != wanted]
    texts = [_lacking(ask, part, vector, wanted) for part in lacking]
    if isinstance(requires, Some) == wanted and len(texts) > 1:
        return f"({' or '.join(texts)})"
    return " and ".join(texts) or str(not wanted)

"""Partitions that ask for nothing, or for what another one asks for: ``dead`` and ``duplicate`` findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dispatchcov.check.ask import Inquiry
from dispatchcov.check.dead import shadowed
from dispatchcov.check.divide import Divisions
from dispatchcov.check.findings import Finding
from dispatchcov.formula import Formula, Opposite, Some, every, holds
from dispatchcov.space.answers import Answer
from dispatchcov.table import Partition


def dead_partitions(ask: Inquiry, divisions: Divisions, partitions: Iterable[Partition]) -> Iterator[Finding]:
    """Partitions that no input reaches, other than by rules that are dead themselves."""
    for partition in partitions:
        rules = [ask.table.rules[i] for i in partition.rules if i not in ask.dead]
        if partition.illegal or not rules:
            continue
        answer = ask.space.answer(partition.rules, _within(partition))
        if answer.state == "unreachable":
            why = shadowed(ask, divisions, rules, _within(partition))
            message = f"no input reaches partition {partition.name}: {why}"
            yield ask.finding("dead", message, partition=partition)
        elif answer.state == "unknown":
            yield ask.unknown(f"an input reaches partition {partition.name}", answer, partition=partition)


def duplicates(ask: Inquiry, partitions: Sequence[Partition]) -> Iterator[Finding]:
    """Partitions with the same inputs and bins as an earlier one."""
    reached = {p.name: ask.space.answer(p.rules, _within(p)) for p in partitions}
    for number, second in enumerate(partitions):
        first = next((p for p in partitions[:number] if _same(ask, p, second, reached)), None)
        if first is not None:
            message = f"partition {second.name} asks for the same inputs as {first.name} (line {first.line})"
            yield ask.finding("duplicate", message, reached[second.name], partition=second)


def _same(ask: Inquiry, a: Partition, b: Partition, reached: dict[str, Answer]) -> bool:
    labels = [[bin.label for bin in partition.bins] for partition in (a, b)]
    if labels[0] != labels[1] or a.illegal != b.illegal:
        return False
    return all(_covers(ask, *pair, reached) for pair in ((a, b), (b, a)))


def _covers(ask: Inquiry, a: Partition, b: Partition, reached: dict[str, Answer]) -> bool:
    """Is every input of ``b`` one of ``a``? The smallest of ``b`` is tried first."""
    witness = reached[b.name].witness
    if witness is None or not holds(_within(a), ask.outcomes(witness)):
        return False
    shared = [i for i in b.rules if i in a.rules]
    apart = [i for i in b.rules if i not in a.rules]
    outside = every(_within(b), Opposite(_within(a)))
    return ask.space.possible(outside, shared) == ask.space.possible(_within(b), apart) == "unreachable"


def _within(partition: Partition) -> Formula:
    return every(partition.condition, Some(tuple(bin.condition for bin in partition.bins)))

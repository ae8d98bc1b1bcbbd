"""Static faults of a table, found before any test runs: each with the smallest input that shows it.

Every finding is a question to :class:`~dispatchcov.regions.Space`; where it has no proof, the finding is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dispatchcov import expr as ex
from dispatchcov.answers import Answer
from dispatchcov.domain import bits
from dispatchcov.expr import Value
from dispatchcov.findings import KINDS, Finding
from dispatchcov.formula import (
    ALWAYS,
    Every,
    Formula,
    Leaf,
    Opposite,
    Some,
    assign,
    blame,
    every,
    flipped,
    holds,
    leaves,
)
from dispatchcov.regions import Space
from dispatchcov.table import Partition, Rule, Table
from dispatchcov.variants import Variant


def check(table: Table, engine: type[Space] = Space) -> tuple[Finding, ...]:
    """The findings of ``table``, in the order of :data:`~dispatchcov.findings.KINDS`, then of lines.

    ``engine`` answers the questions: the exact one, or :class:`~dispatchcov.smt_space.SmtSpace` to compare with it.
    """
    found = list(_Check(table, engine).all())
    return tuple(sorted(found, key=lambda finding: (KINDS.index(finding.kind), finding.line)))


class _Check:
    def __init__(self, table: Table, engine: type[Space]) -> None:
        self.table = table
        self.engine = engine
        self.space = engine.of(table)
        self.dead: set[int] = set()

    def all(self) -> Iterator[Finding]:
        yield from self.dead_rules()
        yield from self.contracts()
        yield from self.untotal()
        for rule in self.table.rules:
            if rule.index not in self.dead:
                yield from self.redundant(rule)
                yield from self.narrow(rule)
        declared = [p for p in self.table.partitions if not self.stands_for_a_rule(p)]
        yield from self.dead_partitions(declared)
        yield from self.duplicates(declared)

    def stands_for_a_rule(self, partition: Partition) -> bool:
        """A table without partitions has one of each rule, which says nothing of its own."""
        return any(rule.name == partition.name and rule.line == partition.line for rule in self.table.rules)

    # --- what makes a finding -----------------------------------------------------------------------------------------

    def finding(
        self,
        kind: str,
        message: str,
        answer: Answer | None = None,
        *,
        rule: Rule | None = None,
        partition: Partition | None = None,
        predicate: str | None = None,
    ) -> Finding:
        """A finding about ``rule`` or ``partition``; the witness of ``answer`` shows it, its reason is a doubt."""
        place = rule or partition or self.table.rules[-1]
        return Finding(
            kind,
            self.table.op,
            self.table.source,
            place.line,
            f"{message} ({answer.reason})" if answer and answer.reason else message,
            rule=rule.name if rule else None,
            kernel=rule.kernel.name if rule else None,
            partition=partition.name if partition else None,
            predicate=predicate,
            input=answer.witness if answer else None,
        )

    def unknown(
        self, question: str, answer: Answer, rule: Rule | None = None, partition: Partition | None = None
    ) -> Finding:
        return self.finding(
            "unknown", f"whether {question} could not be decided", answer, rule=rule, partition=partition
        )

    def text(self, index: int) -> str:
        return self.table.predicates[index].text

    def outcomes(self, facts: dict[str, Value]) -> int:
        return bits(self.table.predicates, facts)[0]

    # --- the kinds ----------------------------------------------------------------------------------------------------

    def contracts(self) -> Iterator[Finding]:
        for rule in self.table.rules:
            kernel = rule.kernel
            if kernel.requires == ALWAYS or rule.index in self.dead:
                continue
            answer = self.space.answer([rule.index], Opposite(kernel.requires))
            if answer.witness is not None:
                broken = [self.text(i) for i in blame(kernel.requires, self.outcomes(answer.witness))]
                message = (
                    f"rule {rule.name} sends an input to kernel {kernel.name} that violates its contract: "
                    f"{' and '.join(broken)} is required and does not hold"
                )
                yield self.finding("contract", message, answer, rule=rule, predicate=broken[0])
            elif answer.state == "unknown":
                yield self.unknown(f"rule {rule.name} keeps the contract of kernel {kernel.name}", answer, rule)

    def untotal(self) -> Iterator[Finding]:
        count = len(self.table.rules)
        answer = self.space.reaching(count)
        if answer.witness is not None:
            message = "no rule takes this input; the last rule should have no 'when'"
            yield self.finding("untotal", message, answer)
        elif answer.state == "unknown":
            yield self.unknown("some input is taken by no rule", answer)
        yield from self.undefined()

    def undefined(self) -> Iterator[Finding]:
        """Guards that divide by zero take no input at which they do, and no later rule sees it."""
        more = Variant(self.table)
        asked: list[tuple[Rule, int, Formula]] = []
        for rule in self.table.rules:
            for index in leaves(rule.guard):
                divisors = [d for _, d in ex.divisions(self.table.predicates[index].expr) if ex.names(d)]
                zero = [more.leaf(ex.Compare("==", divisor, ex.Const(0))) for divisor in divisors]
                if zero:
                    asked.append((rule, index, every(_reading(rule.guard, index), Some(tuple(zero)))))
        space = self.engine(more.build()) if asked else self.space
        for rule, index, condition in asked:
            answer = space.left(rule.index, condition)
            if answer.witness is not None:
                message = (
                    f"the guard of rule {rule.name} divides by zero in {self.text(index)}: no rule takes the input"
                )
                yield self.finding("untotal", message, answer, rule=rule, predicate=self.text(index))
                return

    def dead_rules(self) -> Iterator[Finding]:
        for rule in self.table.rules:
            answer = self.space.answer([rule.index])
            if answer.state == "unreachable":
                self.dead.add(rule.index)
                why = self.shadowed(rule.guard, range(rule.index))
                yield self.finding("dead", f"no input reaches rule {rule.name}: {why}", rule=rule)
            elif answer.state == "unknown":
                yield self.unknown(f"an input reaches rule {rule.name}", answer, rule)

    def dead_partitions(self, partitions: Iterable[Partition]) -> Iterator[Finding]:
        for partition in partitions:
            rules = [self.table.rules[i] for i in partition.rules if i not in self.dead]
            if partition.illegal or not rules:
                continue
            answer = self.space.answer(partition.rules, self.within(partition))
            if answer.state == "unreachable":
                taken = every(Some(tuple(rule.guard for rule in rules)), self.within(partition))
                others = [i for i in range(rules[-1].index) if i not in partition.rules]
                message = f"no input reaches partition {partition.name}: {self.shadowed(taken, others)}"
                yield self.finding("dead", message, partition=partition)
            elif answer.state == "unknown" and partition.required:
                yield self.unknown(f"an input reaches partition {partition.name}", answer, partition=partition)

    def within(self, partition: Partition) -> Formula:
        return every(partition.condition, Some(tuple(bin.condition for bin in partition.bins)))

    def shadowed(self, taken: Formula, others: Iterable[int]) -> str:
        """Why nothing that fulfils ``taken`` is left by the rules ``others``: the fewest of them that take all."""

        def left(indices: Sequence[int]) -> bool:
            passed = (Opposite(self.table.rules[i].guard) for i in indices)
            return self.space.possible(every(taken, *passed)) != "unreachable"

        if not left(()):
            return "its condition never holds"
        needed = list(others)
        for index in list(needed):
            fewer = [i for i in needed if i != index]
            if not left(fewer):
                needed = fewer
        names = [self.table.rules[i].name for i in needed]
        return f"all that it could take is taken before by {' and '.join(names)}"

    def redundant(self, rule: Rule) -> Iterator[Finding]:
        """Predicates that never decide, whatever earlier rules take; the last ones first, each without those found.

        A predicate over listed values that is the same for all of them guards against values to come: it is meant.
        """
        guard, found = rule.guard, []
        for index in reversed(leaves(rule.guard)):
            without = next((g for g in (assign(guard, index, v) for v in (True, False)) if self.equal(g, guard)), None)
            if without is not None and not self.meant(index) and not self.protects(rule, index):
                guard = without
                found.append(index)
        for index in reversed(found):
            message = f"{self.text(index)} never decides: the guard of rule {rule.name} is the same without it"
            yield self.finding("redundant", message, rule=rule, predicate=self.text(index))

    def equal(self, a: Formula, b: Formula) -> bool:
        """Do ``a`` and ``b`` hold for the same inputs, whatever rules say of them?"""
        differ = Some((every(a, Opposite(b)), every(b, Opposite(a))))
        return self.space.possible(differ) == "unreachable"

    def protects(self, rule: Rule, index: int) -> bool:
        """May predicate ``index`` keep what is read after it from a division by zero?"""
        order = leaves(rule.guard)
        later = order[order.index(index) + 1 :]
        return any(ex.may_divide_by_zero(self.table.predicates[i].expr) for i in later)

    def meant(self, index: int) -> bool:
        reads = self.table.predicates[index].reads
        listed = all(self.table.variable(name).values for name in reads)
        sides = (Leaf(index), Opposite(Leaf(index)))
        return listed and any(self.space.possible(side) == "unreachable" for side in sides)

    def narrow(self, rule: Rule) -> Iterator[Finding]:
        """Predicates of a guard that ask more than the contract does of the same variables."""
        clauses = _clauses(rule.kernel.requires)
        later = [r.index for r in self.table.rules[rule.index + 1 :] if r.kernel.name != rule.kernel.name]
        for index in leaves(rule.guard):
            for wanted in (Leaf(index), Opposite(Leaf(index))):
                if not later or not any(self.stricter(index, wanted, clause) for clause in clauses):
                    continue
                alone = every(Opposite(wanted), flipped(rule.guard, index), rule.kernel.requires)
                answer = self.space.answer(later, alone)
                if answer.witness is None:
                    continue
                taken = next(r for r in self.table.rules if holds(r.guard, self.outcomes(answer.witness)))
                text = self.text(index) if isinstance(wanted, Leaf) else f"not {self.text(index)}"
                message = (
                    f"kernel {rule.kernel.name} could take an input that rule {rule.name} sends on to {taken.name}: "
                    f"its guard demands {text}, its contract less"
                )
                yield self.finding("narrow", message, answer, rule=rule, predicate=self.text(index))

    def stricter(self, index: int, wanted: Formula, clause: Formula) -> bool:
        """Does ``wanted`` imply ``clause``, of the same variables, but not the other way round?"""
        predicates = self.table.predicates
        if {name for i in leaves(clause) for name in predicates[i].reads} != predicates[index].reads:
            return False

        def never(*parts: Formula) -> bool:
            return self.space.possible(every(*parts)) == "unreachable"

        implies = never(wanted, Opposite(clause))
        return implies and not never(clause, Opposite(wanted)) and not never(Opposite(clause))

    def duplicates(self, partitions: Sequence[Partition]) -> Iterator[Finding]:
        reached = {p.name: self.space.answer(p.rules, self.within(p)) for p in partitions}
        for number, second in enumerate(partitions):
            first = next((p for p in partitions[:number] if self.same(p, second, reached)), None)
            if first is not None:
                message = f"partition {second.name} asks for the same inputs as {first.name} (line {first.line})"
                yield self.finding("duplicate", message, reached[second.name], partition=second)

    def same(self, a: Partition, b: Partition, reached: dict[str, Answer]) -> bool:
        labels = [[bin.label for bin in partition.bins] for partition in (a, b)]
        if labels[0] != labels[1] or a.illegal != b.illegal:
            return False
        return all(self.covers(*pair, reached) for pair in ((a, b), (b, a)))

    def covers(self, a: Partition, b: Partition, reached: dict[str, Answer]) -> bool:
        """Is every input of ``b`` one of ``a``? The smallest of ``b`` is tried first."""
        witness = reached[b.name].witness
        if witness is None or not holds(self.within(a), self.outcomes(witness)):
            return False
        shared = [i for i in b.rules if i in a.rules]
        apart = [i for i in b.rules if i not in a.rules]
        outside = every(self.within(b), Opposite(self.within(a)))
        return self.space.possible(outside, shared) == self.space.possible(self.within(b), apart) == "unreachable"


def _clauses(requires: Formula) -> tuple[Formula, ...]:
    return requires.operands if isinstance(requires, Every) else (requires,)


def _reading(formula: Formula, index: int) -> Formula:
    """When does short-circuit evaluation of ``formula`` read predicate ``index``?"""
    match formula:
        case Leaf():
            return ALWAYS if formula.index == index else Some(())
        case Opposite():
            return _reading(formula.operand, index)
    stop = isinstance(formula, Some)
    ways = []
    for number, part in enumerate(formula.operands):
        before = [Opposite(other) if stop else other for other in formula.operands[:number]]
        ways.append(every(*before, _reading(part, index)))
    return Some(tuple(ways))

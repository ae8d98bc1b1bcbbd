"""One table measured: every item that can be covered, with what reached it and its state."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from dispatchcov import decide, measure_mutants, measure_pairs
from dispatchcov.decide import View
from dispatchcov.expr import Value
from dispatchcov.formula import Leaf, Opposite, alone, every, holds, leaves, read
from dispatchcov.paths import region_name
from dispatchcov.records import ASSERTS, COUNTED, Data, Row
from dispatchcov.regions import Answer, Space
from dispatchcov.results import Item, Mismatch, Reach, Side, TableResults
from dispatchcov.table import EVIDENCE, Bin, Partition, Rule, Table, Waiver


@dataclass
class Group:
    """The rows that agree in vector and kernel; ``rule`` is what the vector selects, ``before`` the number of
    rules passed.
    """

    vector: int
    kernel: str
    rule: int | None
    path: tuple[int | None, tuple[int, ...]]
    counted: list[Row] = field(default_factory=list)
    apart: list[tuple[str, Row]] = field(default_factory=list)
    wrong: str = ""

    @property
    def passed(self) -> int:
        return len(self.path[1])


def measure(table: Table, data: Data, needed: frozenset[str], today: datetime.date, partial: bool) -> TableResults:
    """Measure ``table`` on ``data``; ``needed`` is the evidence that every hit needs, ``partial`` means
    absence proves nothing.
    """
    rows = [row for row in data.rows if row.digest == table.digest]
    worker = Measure(table, _groups(table, data, rows), rows, needed, today, partial, _asserting(data))
    return TableResults(
        table,
        sum(row.selected for row in rows),
        tuple(sorted({row.machine for row in rows})),
        tuple(worker.bin(partition, bin) for partition in table.partitions for bin in partition.bins),
        tuple(worker.rule(rule) for rule in table.rules),
        worker.kernels(),
        tuple(worker.fallback(rule, index) for rule in table.rules for index in leaves(rule.guard)),
        tuple(worker.split(rule, s.index, side) for rule in table.rules for s in rule.splits for side in (True, False)),
        worker.regions(),
        worker.sides(),
        worker.mismatches(),
        Space.of(table).notes,
        measure_pairs.boundaries(worker),
        measure_pairs.mcdc(worker),
        measure_mutants.mutants(worker),
    )


def _groups(table: Table, data: Data, rows: Sequence[Row]) -> list[Group]:
    run_of = {shard.name: shard.run for shard in data.shards}
    own = {(outcome.shard, outcome.test): outcome.outcome for outcome in data.outcomes}
    shared = {(run_of.get(outcome.shard, ""), outcome.test): outcome.outcome for outcome in data.outcomes}
    groups: dict[tuple[int, str], Group] = {}
    for row in rows:
        group = groups.get((row.vector, row.kernel))
        if group is None:
            path = decide.path(table, row.vector)
            group = groups[row.vector, row.kernel] = Group(row.vector, row.kernel, path[0], path)
            expected = table.rules[path[0]].kernel.name if path[0] is not None else ""
            if decide.outside(table, row.vector):
                group.wrong = "outside the domain"
            elif row.kernel and row.kernel != expected:
                group.wrong = "with another kernel"
        outcome = own.get((row.shard, row.test)) or shared.get((run_of.get(row.shard, ""), row.test), "in progress")
        if row.phase not in COUNTED:
            group.apart.append((row.phase, row))
        elif row.test and outcome != "passed":
            group.apart.append((outcome, row))
        else:
            group.counted.append(row)
    return list(groups.values())


def _asserting(data: Data) -> frozenset[tuple[str, str]]:
    """The tests, with the shards that have rows of them, that asserted where their decisions went."""
    run_of = {shard.name: shard.run for shard in data.shards}
    said = {(run_of.get(o.shard, ""), o.test[len(ASSERTS) :]) for o in data.outcomes if o.test.startswith(ASSERTS)}
    return frozenset((shard, test) for shard, run in run_of.items() for own, test in said if own == run)


def _counts(row: Row) -> dict[str, int]:
    return {"selected": row.selected, "launched": row.launched, "observed": row.observed, "checked": row.checked}


class Measure:
    def __init__(
        self,
        table: Table,
        groups: list[Group],
        rows: Sequence[Row],
        needed: frozenset[str],
        today: datetime.date,
        partial: bool,
        asserting: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.table = table
        self.space = Space.of(table)
        self.groups = groups
        self.needed = needed
        self.today = today
        self.partial = partial
        self.hardware = {row.hardware for row in rows}
        self.asserting = asserting

    def asserts(self, row: Row) -> bool:
        """Did the test of ``row`` assert its partition or its kernel?"""
        return (row.shard, row.test) in self.asserting

    # --- what reached an item, and its state --------------------------------------------------------------------------

    def reach(
        self,
        matches: Callable[[Group], bool],
        needs: Iterable[str],
        *,
        of_kernel: bool = False,
        seen: Callable[[Row], bool] = lambda row: True,
    ) -> Reach:
        """What attests the groups that match, and of them the rows that are ``seen``; those where something went wrong
        only attest the kernel that ran.
        """
        wanted = {"selected", *needs}
        hits, tests, machines = 0, set(), set()
        evidence: set[str] = set()
        apart: dict[str, int] = defaultdict(int)
        for group in self.groups:
            if not matches(group):
                continue
            for row in filter(seen, group.counted):
                counts = _counts(row)
                if group.wrong and not of_kernel:
                    apart[group.wrong] += row.selected
                elif enough := min(counts[item] for item in wanted):
                    hits += enough
                    tests.add(row.test)
                    machines.add(row.machine)
                    evidence |= {item for item, number in counts.items() if number}
                elif row.selected:
                    apart["without " + " and ".join(sorted(e for e in wanted if not counts[e]))] += row.selected
            for reason, row in group.apart:
                if seen(row):
                    apart[reason] += row.selected
        order = tuple(item for item in EVIDENCE if item in evidence)
        named = tuple(sorted(tests - {""}))
        return Reach(hits, named, order, tuple(sorted(machines)), tuple(sorted((k, n) for k, n in apart.items() if n)))

    def state(self, reach: Reach, answer: Answer, at_least: int = 1, waiver: Waiver | None = None) -> str:
        if reach.hits >= at_least:
            return "hit"
        if answer.state == "unreachable":
            return "unreachable"
        if self.hardware and answer.hardware and not answer.hardware & self.hardware:
            return "elsewhere"
        if waiver is not None and waiver.expires >= self.today:
            return "waived"
        return "not-run" if self.partial else "missed"

    def item(
        self,
        name: str,
        detail: str,
        rules: Iterable[Rule],
        answer: Answer,
        matches: Callable[[Group], bool],
        line: int,
        partition: Partition | None = None,
        of_kernel: bool = False,
        seen: Callable[[Row], bool] = lambda row: True,
        fixed: bool = False,
    ) -> Item:
        """The item that decisions reach by ``matches`` and ``seen``; its witness moves to a machine's hardware unless
        ``fixed``.
        """
        needs = self.needed | (partition.evidence if partition else frozenset())
        reach = self.reach(matches, needs, of_kernel=of_kernel, seen=seen)
        waiver = next((w for w in self.table.waivers if partition and w.partition == partition.name), None)
        state = self.state(reach, answer, partition.at_least if partition else 1, waiver)
        return Item(
            name,
            detail,
            tuple(rule.name for rule in rules),
            state,
            reach,
            "feasible" if reach.hits else answer.state,
            witness := answer.witness if fixed else self.witness(answer, matches),
            self.decision(witness) if witness is not None else "",
            line,
            partition.required if partition else True,
            partition.illegal if partition else False,
            partition.at_least if partition else 1,
            tuple(item for item in EVIDENCE if item in needs),
            f"{waiver.reason} (until {waiver.expires})" if waiver else "",
        )

    def also(self, item: Item, others: Iterable[Answer]) -> Item:
        """``item`` with further inputs that it needs besides its witness."""
        return replace(item, also=tuple(answer.witness for answer in others if answer.witness is not None))

    def witness(self, answer: Answer, matches: Callable[[Group], bool]) -> dict[str, Value] | None:
        """The witness of ``answer``, with the hardware of a machine that decided where that reaches the item too."""
        table = self.table
        if answer.witness is None:
            return None
        view = View.of(table, decide.DEFAULT_MACHINE)
        for hardware in sorted(self.hardware & answer.hardware, key=repr):
            facts = answer.witness | dict(zip(table.hardware, hardware, strict=True))
            vector = view.vector(tuple(facts[name] for name in table.names))
            path = decide.path(table, vector)
            if matches(Group(vector, "", path[0], path)):
                return facts
        return answer.witness

    def decision(self, witness: dict[str, Value]) -> str:
        """What ``witness`` would select, with what settled that the rule before it was not selected."""
        table = self.table
        vector = View.of(table, decide.DEFAULT_MACHINE).vector(tuple(witness[name] for name in table.names))
        index, settled = decide.path(table, vector)
        if index is None:
            return "no rule"
        chosen = f"{table.rules[index].name} -> {table.rules[index].kernel.name}"
        if not settled or settled[-1] < 0:
            return chosen
        predicate = table.predicates[settled[-1]]
        outcome = str(bool(vector >> predicate.index & 1)).lower()
        return f"{chosen} (not {table.rules[index - 1].name}: {predicate.text} is {outcome})"

    # --- the items ----------------------------------------------------------------------------------------------------

    def bin(self, partition: Partition, bin: Bin) -> Item:
        condition = every(partition.condition, bin.condition)
        rules = [self.table.rules[index] for index in partition.rules]

        def matches(group: Group) -> bool:
            return group.rule in partition.rules and holds(condition, group.vector)

        answer = self.space.answer(partition.rules, condition)
        return self.item(partition.name, bin.label, rules, answer, matches, partition.line, partition)

    def rule(self, rule: Rule) -> Item:
        answer = self.space.answer((rule.index,))
        return self.item(rule.name, "", [rule], answer, lambda group: group.rule == rule.index, rule.line)

    def kernels(self) -> tuple[Item, ...]:
        items = []
        for kernel in self.table.kernels:
            rules = [rule for rule in self.table.rules if rule.kernel.name == kernel.name]
            indices = tuple(rule.index for rule in rules)
            answer = self.space.answer(indices) if indices else Answer("unreachable", None, frozenset())

            def matches(group: Group, name: str = kernel.name, indices: tuple[int, ...] = indices) -> bool:
                return group.kernel == name if group.kernel else group.rule in indices

            items.append(self.item(kernel.name, "", rules, answer, matches, kernel.line, of_kernel=True))
        return tuple(items)

    def fallback(self, rule: Rule, index: int) -> Item:
        def matches(group: Group) -> bool:
            return group.passed > rule.index and alone(rule.guard, index, group.vector)

        predicate = self.table.predicates[index]
        return self.item(rule.name, predicate.text, [rule], self.space.sole(rule.index, index), matches, rule.line)

    def split(self, rule: Rule, index: int, side: bool) -> Item:
        literal = Leaf(index) if side else Opposite(Leaf(index))

        def matches(group: Group) -> bool:
            return group.rule == rule.index and holds(literal, group.vector)

        detail = f"{self.table.predicates[index].text}: {str(side).lower()}"
        answer = self.space.answer((rule.index,), literal)
        return self.item(rule.name, detail, [rule], answer, matches, rule.line)

    def regions(self) -> tuple[Item, ...]:
        """The listed regions; where the table has too many to list, also those that were entered."""
        listed = {(region.rule, region.settled): (region.name, region.answer) for region in self.space.regions}
        for group in self.groups:
            if group.path not in listed and not self.space.complete:
                listed[group.path] = (region_name(self.table, *group.path), self.space.region(*group.path))
        return tuple(self.region(path, name, answer) for path, (name, answer) in listed.items())

    def region(self, path: tuple[int | None, tuple[int, ...]], name: str, answer: Answer) -> Item:
        rules = [self.table.rules[path[0]]] if path[0] is not None else []
        rule, line = (rules[0].name, rules[0].line) if rules else ("no rule", 0)
        detail = name.removeprefix(rule).strip(" []")
        return self.item(rule, detail, rules, answer, lambda group: group.path == path, line)

    def sides(self) -> tuple[Side, ...]:
        found = {index: [0, 0] for rule in self.table.rules for index in leaves(rule.guard)}
        for group in self.groups:
            hits = sum(row.selected for row in group.counted)
            seen: set[int] = set()
            for rule in self.table.rules[: group.passed + 1]:
                seen.update(read(rule.guard, group.vector))
            for index in seen:
                found[index][group.vector >> index & 1] += hits
        predicates = self.table.predicates
        return tuple(Side(predicates[i].text, predicates[i].line, n[1], n[0]) for i, n in sorted(found.items()))

    def mismatches(self) -> tuple[Mismatch, ...]:
        found = []
        for group in self.groups:
            rule = self.table.rules[group.rule] if group.rule is not None else None
            expected = rule.kernel.name if rule else "no kernel"
            if group.kernel and group.kernel != expected:
                found.append(self.mismatch("kernel", group, rule, expected, group.kernel))
            if decide.outside(self.table, group.vector):
                found.append(self.mismatch("domain", group, rule, *self.domain(group)))
            if rule is None:
                found.append(self.mismatch("untotal", group, rule, "a rule", "none"))
            elif not holds(rule.kernel.requires, group.vector):
                got = f"an input outside the contract of {expected}"
                found.append(self.mismatch("contract", group, rule, rule.kernel.requires_text, got))
        return tuple(found)

    def mismatch(self, kind: str, group: Group, rule: Rule | None, expected: str, got: str) -> Mismatch:
        rows = [*group.counted, *(row for _, row in group.apart)]
        facts = dict(zip(self.table.names, rows[0].inputs[0], strict=True))
        tests = tuple(sorted({row.test for row in rows} - {""}))
        decisions = sum(row.selected or row.observed for row in rows)
        return Mismatch(kind, rule.name if rule else "", expected, got, facts, decisions, tests)

    def domain(self, group: Group) -> tuple[str, str]:
        row = next(iter([*group.counted, *(row for _, row in group.apart)]))
        facts = dict(zip(self.table.names, row.inputs[0], strict=True))
        names = self.table.outside(facts)
        wanted = "; ".join(f"{name} {self.table.variable(name).domain()}" for name in names)
        return wanted, decide.show({name: facts[name] for name in names})

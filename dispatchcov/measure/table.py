"""One table measured: every item that can be covered, with what reached it and its state."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from dispatchcov.expr import Value
from dispatchcov.formula import Leaf, Opposite, alone, every, holds, leaves
from dispatchcov.items import Item, Reach, Seen, emulated
from dispatchcov.measure import mutants as measure_mutants
from dispatchcov.measure import pairs as measure_pairs
from dispatchcov.measure.groups import Group, Paths, asserting, evidence_of, grouped, sides
from dispatchcov.measure.mismatches import mismatches
from dispatchcov.measure.waivers import unneeded
from dispatchcov.mutants import left_out
from dispatchcov.records import Data, Machine, Row
from dispatchcov.regions import Space
from dispatchcov.results import TableResults
from dispatchcov.space.answers import Answer
from dispatchcov.space.domain import size
from dispatchcov.space.paths import region_name
from dispatchcov.space.variants import once
from dispatchcov.table import EVIDENCE, Bin, Partition, Rule, Table, Waiver

Values: TypeAlias = tuple[Value, ...]


def measure(
    table: Table,
    data: Data,
    needed: frozenset[str],
    today: datetime.date,
    partial: bool,
    machines: Collection[Machine] = (),
) -> TableResults:
    """Measure ``table`` on ``data``; ``needed`` is the evidence that every hit needs, ``partial`` means
    absence proves nothing, ``machines`` decided in other runs.
    """
    rows = [row for row in data.rows if row.digest == table.digest]
    worker = Measure(table, grouped(table, data, rows), rows, needed, today, partial, asserting(data))
    worker.had(each for each in machines if each.op == table.op and len(each.hardware) == len(table.hardware))
    wrong = mismatches(table, worker.groups, today)
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
        sides(table, worker.groups),
        wrong,
        (*Space.of(table).notes, *left_out(table)),
        measure_pairs.boundaries(worker),
        measure_pairs.mcdc(worker),
        measure_mutants.mutants(worker),
        unneeded(worker, wrong),
    )


def ordered(evidence: Collection[str]) -> tuple[str, ...]:
    """``evidence`` from the weakest to the strongest."""
    return tuple(item for item in EVIDENCE if item in evidence)


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
        self.paths = once(table, Paths)
        self.groups = groups
        self.needed = needed
        self.today = today
        self.partial = partial
        self.hardware = {row.hardware for row in rows}
        self.real = {row.hardware for row in rows if not emulated(row.machine)}
        self.asserting = asserting

    def had(self, machines: Iterable[Machine]) -> None:
        """There were ``machines`` too, of this table."""
        for machine in machines:
            self.hardware.add(machine.hardware)
            if not emulated(machine.label):
                self.real.add(machine.hardware)

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
        hits, tests = 0, set()
        machines: dict[tuple[str, Values], tuple[int, set[tuple[str, ...]]]] = {}
        evidence: set[str] = set()
        apart: dict[str, int] = defaultdict(int)
        for group in self.groups:
            if not matches(group):
                continue
            for row in filter(seen, group.counted):
                counts = evidence_of(row)
                if group.wrong and not of_kernel:
                    apart[group.wrong] += row.selected
                elif enough := min(counts[item] for item in wanted):
                    hits += enough
                    tests.add(row.test)
                    found = ordered({item for item, number in counts.items() if number})
                    evidence.update(found)
                    before, also = machines.get((row.machine, row.hardware), (0, set()))
                    machines[row.machine, row.hardware] = before + enough, also | {found}
                elif row.selected:
                    apart["without " + " and ".join(sorted(e for e in wanted if not counts[e]))] += row.selected
            for reason, row in group.apart:
                if seen(row):
                    apart[reason] += row.selected
        named = tuple(sorted(tests - {""}))
        labels = tuple(sorted({machine for machine, _ in machines}))
        kept = tuple(sorted((k, n) for k, n in apart.items() if n))
        return Reach(hits, named, ordered(evidence), labels, kept, self.by_machine(machines))

    def by_machine(self, machines: Mapping[tuple[str, Values], tuple[int, set[tuple[str, ...]]]]) -> tuple[Seen, ...]:
        names = self.table.hardware
        return tuple(
            Seen(machine, tuple(zip(names, hardware, strict=True)), hits, ordered({*chain(*sets)}), tuple(sorted(sets)))
            for (machine, hardware), (hits, sets) in sorted(machines.items(), key=lambda each: repr(each[0]))
        )

    def state(
        self,
        reach: Reach,
        answer: Answer,
        at_least: int = 1,
        waiver: Waiver | None = None,
        needs: Collection[str] = (),
    ) -> str:
        if reach.hits >= at_least:
            return "hit"
        if answer.state == "unreachable":
            return "unreachable"
        if not self.here(answer, "observed" in needs):
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
        told: Callable[[Values], bool] | None = None,
    ) -> Item:
        """The item that decisions reach by ``matches`` and ``seen``. ``told`` says whether an input does, where that
        does not follow from ``matches``: the witness moves to a machine's hardware if it does so there too.
        """
        needs = self.needed | (partition.evidence if partition else frozenset())
        reach = self.reach(matches, needs, of_kernel=of_kernel, seen=seen)
        waiver = next((w for w in self.table.waivers if partition and w.partition == partition.name), None)
        state = self.state(reach, answer, partition.at_least if partition else 1, waiver, needs)
        return Item(
            name,
            detail,
            tuple(rule.name for rule in rules),
            state,
            reach,
            "feasible" if reach.hits else answer.state,
            witness := self.witness(answer, told or (lambda values: matches(self.paths.group(values)))),
            self.paths.decision(witness) if witness is not None else "",
            line,
            partition.required if partition else True,
            partition.illegal if partition else False,
            partition.at_least if partition else 1,
            ordered(needs),
            f"{waiver.reason} (until {waiver.expires})" if waiver else "",
        )

    def here(self, answer: Answer, observed: bool = False) -> bool:
        """Has this run hardware that ``answer`` holds on? So too where it had none, or where that does not matter. What
        must be ``observed`` needs the real hardware, if the run had any that is real.
        """
        hardware = self.real if observed and self.real else self.hardware
        return not (hardware and answer.hardware) or bool(answer.hardware & hardware)

    def witness(self, answer: Answer, told: Callable[[Values], bool]) -> dict[str, Value] | None:
        """The witness of ``answer``, with the hardware of a machine that decided where that reaches the item too."""
        table = self.table
        if answer.witness is None:
            return None
        shared = (dict(zip(table.hardware, values, strict=True)) for values in self.hardware & answer.hardware)
        moved = sorted((answer.witness | given for given in shared), key=lambda facts: size(table.variables, facts))
        return next((facts for facts in moved if told(tuple(facts[n] for n in table.names))), answer.witness)

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

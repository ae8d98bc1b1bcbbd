"""The space of decisions of a table: every feasible region with its smallest witness, and what can be reached at all.

Exact wherever each predicate reads one variable, and no input is enumerated: the values of each variable fall into
classes (:mod:`dispatchcov.space.domain`), inputs into boxes of classes (:mod:`dispatchcov.space.boxes`). Predicates
over several variables are taken as free: what is unreachable even so is proved to be; of the rest a real input is
looked for (:mod:`dispatchcov.space.realise`: case by case, by intervals, by z3), or the proof that there is none; what
is neither is ``unknown``.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Any, Self, cast

from dispatchcov.decide import path
from dispatchcov.expr import Value, may_divide_by_zero
from dispatchcov.formula import ALWAYS, Formula, Leaf, Opposite, Some, every, leaves, sole_reason
from dispatchcov.space.answers import Answer, Region, Settled, Split, State
from dispatchcov.space.boxes import TRUE, Boxes
from dispatchcov.space.found import Found
from dispatchcov.space.paths import settling
from dispatchcov.space.search import Query, Search
from dispatchcov.table import Table

MAX_REGIONS = 20_000
MAX_STEPS = 250_000


class Space:
    """What is reachable in a table; :meth:`of` makes it once for each table. Without ``solving`` z3 is not asked."""

    def __init__(self, table: Table, *, solving: bool = True) -> None:
        self.table = table
        self._boxes = Boxes(table)
        self._search = Search(self._boxes, solving=solving)
        self._asked: dict[tuple[Query, ...], Answer] = {}
        self._boxes_of: dict[tuple[int | None, Settled], tuple[int, ...]] = {}
        guards = {index for rule in table.rules for index in leaves(rule.guard)}
        self._partial = any(may_divide_by_zero(table.predicates[index].expr) for index in guards)

    @classmethod
    def of(cls, table: Table) -> Self:
        """The space of ``table``."""
        spaces: dict[type[Space], Any] = vars(table).setdefault("_spaces", {})
        found = spaces.get(cls)
        if found is None:
            found = spaces[cls] = cls(table)
        return cast("Self", found)

    @property
    def complete(self) -> bool:
        """Are all regions listed? If not, a note says why, and :attr:`regions` has one of each rule."""
        return self._listed[1]

    @property
    def regions(self) -> tuple[Region, ...]:
        """Every region that is feasible or unknown, by selected rule (no rule last) and guard order."""
        return self._listed[0]

    @property
    def notes(self) -> tuple[str, ...]:
        """The predicates that were not analysed and whatever else is not exact, each with the reason."""
        predicates = self.table.predicates
        complete, doubted = self.complete, self._search.realiser.doubted
        whys = sorted(self._boxes.notes.items())
        notes = [f"{predicates[i].text} not analysed: {why}" for i, why in whys if i in doubted]
        if not complete:
            notes.append(
                f"more than {MAX_REGIONS} regions or ways into them: listed is that of each rule's smallest input"
            )
        return tuple(notes)

    def answer(self, rules: Collection[int] | None, condition: Formula = ALWAYS) -> Answer:
        """Is there an input that one of ``rules`` (None: any rule) takes and for which ``condition`` holds?

        In ``condition`` a predicate that divides by zero is false.
        """
        every_rule = range(len(self.table.rules))
        if rules is None and not self._partial:
            taken = Some(tuple(rule.guard for rule in self.table.rules))
            return self._ask([Query(0, False, every(condition, taken))])
        return self._ask([Query(rule, True, condition) for rule in (every_rule if rules is None else sorted(rules))])

    def reaching(self, rule: int, condition: Formula = ALWAYS) -> Answer:
        """Is there an input with a decision that no rule before ``rule`` takes and for which ``condition`` holds?

        ``rule`` may be the number of rules: inputs that no rule takes.
        """
        count = len(self.table.rules)
        if not self._partial:
            return self._ask([Query(rule, False, condition)])
        later = [Query(index, True, condition) for index in range(rule, count)]
        return self._ask([*later, Query(count, False, condition)])

    def left(self, rule: int, condition: Formula = ALWAYS) -> Answer:
        """As :meth:`reaching`, of all inputs, also those whose decision divides by zero in ``rule`` or a later one."""
        return self._ask([Query(rule, False, condition)])

    def possible(self, condition: Formula, rules: Collection[int] | None = None) -> State:
        """Is there an input for which ``condition`` holds and, if ``rules`` are given, that one of them takes?

        No input is looked for that would be the smallest: this is for questions to which none has to be shown.
        """
        wanted = [Query(0, False, condition)] if rules is None else [Query(rule, True, condition) for rule in rules]
        return self._state(wanted)

    def _state(self, queries: Iterable[Query]) -> State:
        unknown = False
        for query in queries:
            found = self._search.find(query, self._boxes.full, smallest=False)
            if found.facts is not None:
                return "feasible"
            unknown = unknown or bool(found.reason)
        return "unknown" if unknown else "unreachable"

    def sole(self, rule: int, predicate: int) -> Answer:
        """Is there an input that no rule up to ``rule`` takes, ``predicate`` being the sole reason for ``rule``?"""
        return self.reaching(rule, sole_reason(self.table.rules[rule].guard, predicate))

    def region(self, rule: int | None, settled: Settled, condition: Formula = ALWAYS) -> Answer:
        """Is there an input of the region ``(rule, settled)``, listed or not, for which ``condition`` holds?"""
        guards = zip(self.table.rules, settled, strict=False)
        condition = every(condition, *(settling(earlier.guard, False, index) for earlier, index in guards))
        number = len(self.table.rules) if rule is None else rule
        return self._ask([Query(number, rule is not None, condition)])

    def _ask(self, queries: Iterable[Query]) -> Answer:
        key = tuple(queries)
        if key not in self._asked:
            self._asked[key] = self._search_for(key)
        return self._asked[key]

    def _search_for(self, queries: tuple[Query, ...]) -> Answer:
        best = Found(None)
        for query in queries:
            best = best.better(self._search.find(query, self._boxes.full))
        if best.facts is None:
            return Answer("unknown" if best.reason else "unreachable", reason=best.reason)
        return Answer("feasible", best.facts, self._search.hardware(list(queries), best.facts), best.reason)

    def real(self, box: int) -> dict[str, Value] | None:
        """An input of a box of :class:`~dispatchcov.space.boxes.Boxes` of this table, the smallest known, if any is."""
        return self._search.realiser.real(box).facts

    def boxes_of(self, region: Region) -> tuple[int, ...]:
        """The boxes, of which no two share an input, that make a listed region; empty if it was not listed."""
        return self._boxes_of.get((region.rule, region.settled), ()) if self.regions else ()

    def _summary(self, boxes: list[int]) -> Answer:
        """The answer for the union of ``boxes``, whose inputs are those asked for."""
        if not boxes:
            return Answer("unreachable")
        found = [self._search.realiser.real(box) for box in boxes]
        best = functools.reduce(Found.better, found)
        if best.facts is None:
            return Answer("unknown" if best.reason else "unreachable", reason=best.reason)
        hardware: set[tuple[Value, ...]] = set()
        for box in boxes:
            for part, values in self._boxes.hardware_parts(box):
                if not values <= hardware and self._search.realiser.exists(part):
                    hardware |= values
        return Answer("feasible", best.facts, frozenset(hardware), best.reason)

    def _splits(self, rule: int | None, boxes: list[int]) -> tuple[Split, ...]:
        narrow = self._boxes.narrow
        sides = []
        for predicate in self.table.rules[rule].splits if rule is not None else ():
            false = [part for box in boxes if (part := narrow(box, predicate.index, TRUE, other=True))]
            true = [part for box in boxes if (part := narrow(box, predicate.index, TRUE))]
            sides.append(Split(predicate.index, self._summary(false), self._summary(true)))
        return tuple(sides)

    def _one_of_each(self) -> tuple[Region, ...]:
        """The region of the smallest input of each rule and of those that no rule takes."""
        found: list[Region] = []
        for number in range(len(self.table.rules) + 1):
            rule = number if number < len(self.table.rules) else None
            best = self._ask([Query(number, rule is not None)])
            if best.witness is None:
                continue
            _, settled = path(self.table, self._search.outcomes(best.witness)[0])
            splits = []
            for predicate in self.table.rules[rule].splits if rule is not None else ():
                sides = (
                    self.region(rule, settled, side)
                    for side in (Opposite(Leaf(predicate.index)), Leaf(predicate.index))
                )
                splits.append(Split(predicate.index, *sides))
            found.append(Region(len(found), rule, settled, self.region(rule, settled), tuple(splits), self.table))
        return tuple(found)

    @functools.cached_property
    def _listed(self) -> tuple[tuple[Region, ...], bool]:
        paths = self._paths()
        if paths is None:
            return self._one_of_each(), False
        ordered = sorted(paths, key=lambda item: len(self.table.rules) if item[0] is None else item[0])
        found = ((rule, settled, boxes, self._summary(boxes)) for rule, settled, boxes in ordered)
        reached = [each for each in found if each[-1].state != "unreachable"]
        self._boxes_of = {(rule, settled): tuple(boxes) for rule, settled, boxes, _ in reached}
        return tuple(
            Region(index, rule, settled, answer, self._splits(rule, boxes), self.table)
            for index, (rule, settled, boxes, answer) in enumerate(reached)
        ), True

    def _paths(self) -> list[tuple[int | None, Settled, list[int]]] | None:
        """Each path with its boxes, in guard order; None if there are too many."""
        rules = self.table.rules
        found: list[tuple[int | None, Settled, list[int]]] = []
        stack: list[tuple[Settled, list[int]]] = [((), [self._boxes.full])] if self._boxes.full else []
        steps = 0
        while stack:
            settled, boxes = stack.pop()
            if len(settled) == len(rules):
                found.append((None, settled, boxes))
                continue
            rule = rules[len(settled)]
            taken: dict[int, None] = {}
            passed: dict[int, dict[int, None]] = {index: {} for index in (*leaves(rule.guard), -1)}
            for box in boxes:
                for part, value, last in self._boxes.walk(rule.guard, box):
                    (taken if value else passed[last])[part] = None
                    steps += 1
                    if steps > MAX_STEPS or len(found) > MAX_REGIONS:
                        return None
            if taken:
                found.append((rule.index, settled, list(taken)))
            stack += [((*settled, last), list(parts)) for last, parts in reversed(passed.items()) if parts]
        return found

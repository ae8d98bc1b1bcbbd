"""Drift: which tests reach other regions or kernels than they did, and what moved each.

Two decisions are the same if they select the same rule and kernel and, of the rules that both tables have, the
predicate on the same variables settled each earlier one: a threshold that changed moves only what it sends elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dispatchcov.compare.baseline import Entry, Facts, by_test
from dispatchcov.compare.causes import cause
from dispatchcov.compare.paths import Decided, decided
from dispatchcov.compare.sides import Reached, file_of
from dispatchcov.drift import Cause, Drift, Move, Place, RuleChange
from dispatchcov.expr import Value
from dispatchcov.table import Table, show


def compare(
    before: Reached, now: Reached, *, ignore: Iterable[str] = (), exists: Callable[[str], bool] = lambda file: True
) -> Drift:
    """What drifted between ``before`` and ``now``.

    ``ignore`` are patterns of test ids in which ``*`` stands for anything. ``exists`` says whether a test file of which
    nothing ran is still there: if so, its tests did not run, else they are gone.
    """
    return _Comparison(before, now, ignored(ignore), exists).drift()


def ignored(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Is a test id like one of ``patterns``? Only ``*`` is special: ids are full of brackets."""
    parts = ["[^\0]*".join(map(re.escape, pattern.split("*"))) for pattern in patterns]
    expression = re.compile("|".join(parts) or r"(?!)")
    return lambda test: expression.fullmatch(test) is not None


def same(a: Entry, b: Entry) -> bool:
    """Do both go the same way, as far as their tables have the same rules?"""
    if (a.rule, a.kernel) != (b.rule, b.kernel):
        return False
    theirs = dict(b.settled)
    return a.settled == b.settled or all(theirs.get(rule, label) == label for rule, label in a.settled)


def _without(entries: Sequence[Entry], others: Sequence[Entry]) -> list[Entry]:
    """Those of ``entries`` that go as none of ``others`` does; most are equal to one."""
    known = set(others)
    return [entry for entry in entries if entry not in known and not any(same(entry, other) for other in others)]


def hardware(table: Table | None, entry: Entry) -> tuple[Value | None, ...]:
    """The values of the hardware variables of ``table`` in ``entry``."""
    facts = dict(entry.facts)
    return tuple(facts.get(name) for name in (table.hardware if table else ()))


@dataclass
class _Comparison:
    before: Reached
    now: Reached
    ignored: Callable[[str], bool]
    exists: Callable[[str], bool]
    known: dict[tuple[int, str, Facts], Decided | None] = field(default_factory=dict)  # tests share many inputs

    def drift(self) -> Drift:
        before, now = by_test(self.before.entries), by_test(self.now.entries)
        moves: list[Move] = []
        found: dict[str, list[str]] = {name: [] for name in ("new", "gone", "not_run", "elsewhere")}
        apart: list[tuple[str, str]] = []
        unchanged = 0
        for test in sorted({*before, *now, *(t for t in self.now.outcomes if t in before)}):
            if self.ignored(test):
                continue
            then, outcome = self.before.outcomes.get(test), self.now.outcomes.get(test)
            if outcome is None:
                found["gone" if self.gone(test) else "not_run"].append(test)
            elif outcome != "passed":
                apart.append((test, outcome))
            elif then is None:
                found["not_run" if self.before.partial else "new"].append(test)
            elif then != "passed":
                apart.append((test, f"{then} before"))
            else:
                moved, elsewhere = self.test(test, before.get(test, {}), now.get(test, {}))
                moves += moved
                found["elsewhere"] += [test] if elsewhere else []
                unchanged += not moved and not elsewhere
        new, gone, not_run, other = map(tuple, found.values())
        name = self.before.name
        return Drift(name, tuple(moves), new, gone, tuple(apart), not_run, other, unchanged, self.rules())

    def gone(self, test: str) -> bool:
        """Was ``test`` removed? Absence proves it where the run was whole and took other tests of its file."""
        file = file_of(test)
        return not self.now.partial and (file in self.now.files or not self.exists(file))

    def rules(self) -> tuple[RuleChange, ...]:
        """The rules that differ between the tables of one operator."""
        found: list[RuleChange] = []
        for op in sorted({*self.before.tables} & {*self.now.tables}):
            sides = [{rule.name: rule for rule in side.tables[op].rules} for side in (self.before, self.now)]
            for name in dict.fromkeys([*sides[0], *sides[1]]):
                texts = [f"{s[name].when or 'the rest'} -> {s[name].kernel.name}" if name in s else "" for s in sides]
                if texts[0] != texts[1]:
                    found.append(RuleChange(op, name, *texts))
        return tuple(found)

    def test(
        self, test: str, before: Mapping[str, list[Entry]], now: Mapping[str, list[Entry]]
    ) -> tuple[list[Move], bool]:
        """The moves of ``test``, and whether it decided only on hardware that the other side does not have."""
        moves: list[Move] = []
        elsewhere = False
        for op in sorted({*before, *now}):
            old, new = before.get(op, []), now.get(op, [])
            table = self.now.tables.get(op)
            if old and new:
                shared = {hardware(table, entry) for entry in old} & {hardware(table, entry) for entry in new}
                elsewhere = elsewhere or not shared
                old, new = ([e for e in side if hardware(table, e) in shared] for side in (old, new))
            varies = test in self.now.varies or test in self.before.varies
            moves += self.drawn(old, new) if varies else self.moves(old, new)
        return moves, elsewhere and not moves

    def drawn(self, old: Sequence[Entry], new: Sequence[Entry]) -> Iterator[Move]:
        """Moves of a test that draws its inputs: of the inputs in the base, as the table decides them now."""
        for entry in old:
            there = self.by_table(entry, self.now, self.before)
            if not new or (there is not None and not same(entry, there)):
                yield self.move(entry, there if new else None)

    def by_table(self, entry: Entry, of: Reached, other: Reached) -> Entry | None:
        """Where the table of side ``of`` sends the input of ``entry``, of the ``other``; None if it cannot tell."""
        found = self.decide(of, entry)
        if found is None or found.rule is None:
            return None
        table = other.tables.get(entry.op)
        kernels = {rule.name: rule.kernel.name for rule in table.rules} if table else {}
        kernel = found.table.rules[found.rule].kernel.name
        if found.name == entry.rule and kernels.get(found.name) == kernel:
            kernel = entry.kernel  # by its own account, perhaps
        return replace(entry, rule=found.name, kernel=kernel, settled=found.labels)

    def moves(self, old: Sequence[Entry], new: Sequence[Entry]) -> Iterator[Move]:
        """Moves of a test with the same inputs in each run: what is lost, paired with what is gained for it."""
        lost, gained = _without(old, new), _without(new, old)
        unpaired = list(gained)
        rest = []
        for entry in lost:
            there = self.by_table(entry, self.now, self.before)
            if there is not None and not same(entry, there) and any(same(there, other) for other in new):
                unpaired = [other for other in unpaired if not same(there, other)]
                yield self.move(entry, there)
            else:
                rest.append(entry)
        for entry in rest:
            near = min(unpaired or gained, key=lambda other: _differences(entry, other), default=None)
            unpaired = [other for other in unpaired if other != near]
            yield self.move(entry, near)
        for entry in unpaired:
            there = self.by_table(entry, self.before, self.now)
            moved = there is not None and not same(there, entry) and any(same(other, there) for other in old)
            yield self.move(there if moved else None, entry)

    def move(self, old: Entry | None, new: Entry | None) -> Move:
        some = old or new
        assert some is not None
        was = self.decide(self.before, old) if old else None
        now = self.decide(self.now, new) if new else None
        places = (_place(old, was) if old else None, _place(new, now) if new else None)
        return Move(some.test, some.op, *places, self.cause(old, new, was, now) if old and new else None)

    def cause(self, old: Entry, new: Entry, was: Decided | None, now: Decided | None) -> Cause | None:
        if was is not None and (was.name, was.labels) != (old.rule, old.settled):
            return _unkept(old, now)  # recorded by yet another table: a merge, or an update by a partial run
        found = cause(was, now) if was is not None and now is not None else None
        if found is None and old.kernel != new.kernel:
            text = f"{new.rule or 'no rule'}: ran {old.kernel or 'no kernel'}, now {new.kernel or 'no kernel'}"
            return Cause("kernel", new.rule, old.kernel, new.kernel, text, text)
        return found

    def decide(self, side: Reached, entry: Entry) -> Decided | None:
        key = (id(side), entry.op, entry.facts)
        if key not in self.known:
            table = side.tables.get(entry.op)
            self.known[key] = decided(table, dict(entry.facts)) if table is not None and entry.facts else None
        return self.known[key]


def _unkept(old: Entry, now: Decided | None) -> Cause | None:
    """The cause where the table by which ``old`` was recorded was not kept: what the table of now says."""
    if now is None:
        return None
    ours = dict(old.settled)
    for name, label in [*now.labels, (now.name, "")]:
        step = now.steps.get(name)
        if step is None or (ours.get(name, label) == label and not step.held):
            continue
        if step.last < 0:
            text = f"{name}: takes it now"
            return Cause("table", name, "", "", text, f"{text} ({show(now.facts)})")
        predicate = now.table.predicates[step.last]
        values = {name: now.facts[name] for name in now.table.names if name in predicate.reads}
        text = f"{name}: {predicate.text} is {str(bool(now.vector >> step.last & 1)).lower()} now"
        return Cause("table", name, "", predicate.text, text, f"{text} ({show(values)})")
    return None


def _place(entry: Entry, by: Decided | None) -> Place:
    """Where ``entry`` goes; in the words of its table where that agrees."""
    if by is not None and (by.name, by.labels) == (entry.rule, entry.settled):
        region = by.region
    else:
        reasons = "; ".join(f"{rule}: by {label}" for rule, label in entry.settled)
        region = f"{entry.rule or 'no rule'} [{reasons}]" if reasons else entry.rule or "no rule"
    return Place(entry.rule, entry.kernel, region, dict(entry.facts))


def _differences(a: Entry, b: Entry) -> tuple[int, int]:
    """How far apart two inputs are: variables that differ, then by how much."""
    ours, theirs = dict(a.facts), dict(b.facts)
    pairs = [(ours.get(name), theirs.get(name)) for name in {**ours, **theirs}]
    distance = sum(abs(x - y) for x, y in pairs if isinstance(x, int) and isinstance(y, int))
    return sum(x != y for x, y in pairs), distance

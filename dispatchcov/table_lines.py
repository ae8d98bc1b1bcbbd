"""Dispatch coverage by line of the table's files, for tools that show the coverage of source text.

``[[rule]]`` has as hits how often the rule was selected, its ``when`` how often the guard was evaluated, with both
outcomes of each predicate as branches; a split has its two sides, ``[[kernel]]`` how often it was selected,
``[[partition]]`` its hits, with its bins as branches. What is unreachable (proved), elsewhere or waived is not counted,
and neither is a partition that is illegal or not required: with nothing else on its line, that line is *spared*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dispatchcov.items import Item
from dispatchcov.measure.outcomes import Guard, guards
from dispatchcov.places import Place, Places
from dispatchcov.results import Results, TableResults


@dataclass(frozen=True, slots=True)
class Branch:
    """One outcome of something on a line, ``hits`` times; outcomes of one predicate share a ``block`` of the line."""

    block: int
    number: int
    text: str
    hits: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line that counts. ``complete``: all that stands there was hit; ``tests`` did that."""

    number: int
    hits: int
    branches: tuple[Branch, ...]
    complete: bool
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A rule or a kernel, as tools show functions: ``name`` says which of the two it is."""

    line: int
    name: str
    hits: int


@dataclass(frozen=True, slots=True)
class Jump:
    """What followed the evaluation of a guard: from its line to that of its rule or, ``passed``, to the next one's.

    ``end`` is negative where no rule is left.
    """

    start: int
    end: int
    text: str
    hits: int
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileLines:
    """What counts in one file: ``path`` as it was found, ``here`` if it was. ``spared`` maps lines to states."""

    path: str
    here: bool
    lines: tuple[Line, ...]
    functions: tuple[Function, ...]
    jumps: tuple[Jump, ...]
    spared: dict[int, str]


def files(results: Results) -> tuple[FileLines, ...]:
    """The files of all tables, by path."""
    found: dict[str, _File] = {}
    for table in results.tables:
        places = Places(table.table)
        _Table(results, table, places, found).add()
    return tuple(found[path].close() for path in sorted(found))


class _File:
    """Collects what stands on each line of one file."""

    def __init__(self, path: str, here: bool) -> None:
        self.path = path
        self.here = here
        self.items: dict[int, list[tuple[str, int, tuple[str, ...]]]] = defaultdict(list)
        self.blocks: dict[int, list[list[Branch]]] = defaultdict(list)
        self.functions: list[Function] = []
        self.jumps: list[Jump] = []
        self.spared: dict[int, str] = {}

    def item(self, line: int, item: Item, text: str = "") -> None:
        """``item`` stands on ``line``; it was hit only if its state says so."""
        if item.counts and item.required:
            hits = item.reach.hits if item.state == "hit" else 0
            self.items[line].append((text or item.label, hits, item.reach.tests if hits else ()))
        else:
            self.spared[line] = "not required" if item.counts else "illegal" if item.illegal else item.state

    def pair(self, line: int, sides: Iterable[Item]) -> None:
        """The two sides of a predicate on ``line``, true first; a side that does not count leaves its number out."""
        block = len(self.blocks[line])
        branches = [Branch(block, n, side.detail, side.reach.hits) for n, side in enumerate(sides) if side.counts]
        self.blocks[line].append(branches)

    def close(self) -> FileLines:
        lines = tuple(self._line(number) for number in sorted(self.items))
        spared = {number: state for number, state in self.spared.items() if number not in self.items}
        return FileLines(self.path, self.here, lines, tuple(self.functions), tuple(self.jumps), spared)

    def _line(self, number: int) -> Line:
        items = self.items[number]
        branches = [branch for block in self.blocks[number] for branch in block]
        if len(items) > 1:
            block = len(self.blocks[number])
            branches += [Branch(block, place, text, hits) for place, (text, hits, _) in enumerate(items)]
        complete = all(hits for _, hits, _ in items)
        tests = sorted({test for _, _, tests in items for test in tests})
        return Line(number, sum(hits for _, hits, _ in items), tuple(branches), complete, tuple(tests))


class _Table:
    """Puts what was measured of one table on the lines of its files."""

    def __init__(self, results: Results, table: TableResults, places: Places, found: dict[str, _File]) -> None:
        self.table = table
        self.guards = guards(results, table)
        self.places = places
        self.found = found

    def file(self, place: Place) -> _File:
        return self.found.setdefault(place.file, _File(place.file, self.places.found))

    def add(self) -> None:
        splits = iter(self.table.splits)
        for guard in self.guards:
            self._rule(guard, splits)
        for kernel in self.table.kernels:
            self._whole(self.places.kernel(kernel.name), kernel, "kernel")
        if self.places.requirements.root.tables("partition"):
            for item in self.table.partitions:
                place = self.places.partition(item.name)
                self.file(place).item(place.line, item)

    def _whole(self, place: Place, item: Item, kind: str) -> None:
        self.file(place).item(place.line, item, f"{kind} {item.name}")
        if item.counts:
            self.file(place).functions.append(Function(place.line, f"{kind} {item.name}", item.reach.hits))

    def _rule(self, guard: Guard, splits: Iterator[Item]) -> None:
        rule = guard.rule
        place = self.places.rule(rule.index)
        file = self.file(place)
        self._whole(place, guard.taken, "rule")
        if guard.predicates:
            self._when(guard, file)
        for index in range(len(rule.splits)):
            line = self.places.rule(rule.index, "splits", index).line
            file.item(line, guard.taken, f"rule {rule.name}")
            file.pair(line, (next(splits), next(splits)))

    def _when(self, guard: Guard, file: _File) -> None:
        rule = guard.rule
        line = self.places.rule(rule.index, "when").line
        if not any(side.counts for sides in guard.predicates for side in sides):
            file.spared.setdefault(line, guard.taken.state)
            return
        tests = sorted({test for side in guard.predicates[0] for test in side.reach.tests})
        file.items[line].append((f"guard of {rule.name}", guard.evaluated, tuple(tests)))
        for sides in guard.predicates:
            file.pair(line, sides)
        for item, end, text in (
            (guard.taken, self.places.rule(rule.index).line, f"rule {rule.name} was selected"),
            (guard.passed, self._next(rule.index), f"rule {rule.name} was passed over"),
        ):
            if item.counts and end != line:
                file.jumps.append(Jump(line, end, text, item.reach.hits, item.reach.tests))

    def _next(self, index: int) -> int:
        """The line of the guard after that of rule ``index``, or of a rule that has none."""
        following = self.table.table.rules[index + 1 :]
        if not following:
            return -self.places.rule(index).line
        key = ("when",) if following[0].when else ()
        return self.places.rule(following[0].index, *key).line

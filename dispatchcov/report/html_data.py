"""What the HTML report's page computes with: tables with their trees, and every item, as compact JSON.

A tree of the predicate language or of a guard becomes nested lists, the name of each node's class first and then its
fields: ``["Compare", "<=", ["Var", "M"], ["Const", 8]]``. Test ids stand in one list; a set of tests is the gaps
between their indices or, where that is shorter, a bitmap in base64, and equal sets are stored once. A field of an item
that has its default is left out.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from dispatchcov.items import MEASURES, Item, Mismatch, Reach
from dispatchcov.results import Results, TableResults
from dispatchcov.table import EVIDENCE, Table

SAFE = (1 << 53) - 1
"""The largest integer that JavaScript's numbers hold exactly."""

LISTS = (*MEASURES, "kernels")
"""The lists of items that a table's results have."""


def text(results: Results) -> str:
    """:func:`document` as JSON that may stand inside a script element: ASCII without ``<``, ``>`` and ``&``."""
    dumped = json.dumps(document(results), separators=(",", ":"))
    return dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def document(results: Results) -> dict[str, Any]:
    """All that the page's scripts read, as plain dictionaries and lists."""
    lists = [items for table in results.tables for items in map(table.__getattribute__, LISTS)]
    named = {test for items in lists for item in items for test in item.reach.tests}
    named |= {test for table in results.tables for mismatch in table.mismatches for test in mismatch.tests}
    packer = Packer(sorted(named), results.machines)
    tables = [packer.table(table) for table in results.tables]
    return {
        "tests": packer.tests,
        "sets": packer.sets,
        "machines": list(results.machines),
        "evidence": list(EVIDENCE),
        "partial": list(results.partial),
        "tables": tables,
    }


def scalar(value: object) -> Any:
    """``value`` as JSON; an integer that JavaScript's numbers cannot hold is hexadecimal text in ``{"int": ...}``."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE:
        return {"int": hex(value)}
    return value


def tree(node: object) -> Any:
    """A frozen tree of dataclasses, tuples and plain values as nested lists."""
    if dataclasses.is_dataclass(node):
        return [type(node).__name__, *(tree(getattr(node, field.name)) for field in dataclasses.fields(node))]
    if isinstance(node, tuple):
        return [tree(part) for part in node]
    return scalar(node)


def by_machine(reach: Reach, machine: str) -> tuple[int, list[int]]:
    """The hits on ``machine``, whatever its hardware, and the numbers of their evidence."""
    seen = [each for each in reach.by_machine if each.machine == machine]
    evidence = {name for each in seen for name in each.evidence}
    return sum(each.hits for each in seen), [index for index, name in enumerate(EVIDENCE) if name in evidence]


def guard_predicates(table: Table) -> list[int]:
    """The predicates that some guard has, in their order: those that :attr:`TableResults.predicates` is about."""
    found: set[int] = set()
    stack = [tree(rule.guard) for rule in table.rules]
    while stack:
        node = stack.pop()
        if node[0] == "Leaf":
            found.add(node[1])
        else:
            stack.extend([node[1]] if node[0] == "Opposite" else node[1])
    return sorted(found)


def decided(table: Table) -> dict[str, Any]:
    """What the page decides with: variables, predicates, kernels, rules and partitions of ``table``."""
    kernels = [kernel.name for kernel in table.kernels]
    return {
        "op": table.op,
        "variables": [_variable(table, name) for name in table.names],
        "predicates": [
            {"text": p.text, "tree": tree(p.expr), "reads": [name for name in table.names if name in p.reads]}
            for p in table.predicates
        ],
        "kernels": [
            {"name": k.name, "requires": tree(k.requires), "requires_text": k.requires_text} for k in table.kernels
        ],
        "rules": [
            {"name": r.name, "guard": tree(r.guard), "kernel": kernels.index(r.kernel.name)}
            | {"splits": [split.index for split in r.splits]}
            for r in table.rules
        ],
        "partitions": [
            {"name": p.name, "rules": list(p.rules), "condition": tree(p.condition)}
            | {"bins": [{"label": bin.label, "condition": tree(bin.condition)} for bin in p.bins]}
            for p in table.partitions
        ],
    }


class Packer:
    """Writes items with indices in place of test ids and machines; ``sets`` grows as it does."""

    def __init__(self, tests: list[str], machines: Iterable[str]) -> None:
        self.tests = tests
        self.sets: list[list[int] | str] = []
        self._tests = {test: index for index, test in enumerate(tests)}
        self._machines = {machine: index for index, machine in enumerate(machines)}
        self._sets: dict[tuple[str, ...], int] = {}

    def table(self, results: TableResults) -> dict[str, Any]:
        table = results.table
        sides = zip(guard_predicates(table), results.predicates, strict=True)
        return decided(table) | {
            "counts": {index: [side.true, side.false] for index, side in sides},
            "items": {name: [self.item(table, item) for item in getattr(results, name)] for name in LISTS},
            "mismatches": [self.mismatch(table, mismatch) for mismatch in results.mismatches],
        }

    def item(self, table: Table, item: Item) -> dict[str, Any]:
        rules = [rule.name for rule in table.rules]
        reach = item.reach
        optional: dict[str, Any] = {
            "detail": item.detail,
            "rules": [rules.index(name) for name in item.rules],
            "hits": reach.hits,
            "tests": self.set(reach.tests),
            "evidence": [EVIDENCE.index(name) for name in reach.evidence],
            "machines": [[self._machines[name], *by_machine(reach, name)] for name in reach.machines],
            "apart": dict(reach.apart),
            "witness": _facts(table, item.witness),
            "decision": item.decision,
            "line": item.line,
            "unknown": item.reachable == "unknown",
            "optional": not item.required,
            "illegal": item.illegal,
            "at_least": item.at_least if item.at_least > 1 else 0,
            "needs": [EVIDENCE.index(name) for name in item.needs],
            "waiver": item.waiver,
            "also": [_facts(table, facts) for facts in item.also],
            "grade": item.grade,
        }
        return {"name": item.name, "state": item.state} | {key: value for key, value in optional.items() if value}

    def mismatch(self, table: Table, mismatch: Mismatch) -> dict[str, Any]:
        return {
            "kind": mismatch.kind,
            "rule": mismatch.rule,
            "expected": mismatch.expected,
            "got": mismatch.got,
            "facts": _facts(table, mismatch.facts),
            "decisions": mismatch.decisions,
            "tests": self.set(mismatch.tests),
        }

    def set(self, tests: tuple[str, ...]) -> int:
        """The number of the set of ``tests``, from 1 on; 0 for none."""
        if not tests:
            return 0
        if tests not in self._sets:
            self.sets.append(packed([self._tests[test] for test in tests]))
            self._sets[tests] = len(self.sets)
        return self._sets[tests]


def packed(indices: Iterable[int]) -> list[int] | str:
    """``indices`` as the first and the gaps to each next one, or as a bitmap in base64, whichever is shorter."""
    chosen = sorted(indices)
    gaps = [index - before for index, before in zip(chosen, [0, *chosen], strict=False)]
    bits = sum(1 << index for index in chosen)
    bitmap = base64.b64encode(bits.to_bytes(chosen[-1] // 8 + 1, "little")).decode()
    return gaps if len(",".join(map(str, gaps))) <= len(bitmap) else bitmap


def _variable(table: Table, name: str) -> dict[str, Any]:
    variable = table.variable(name)
    return {
        "name": name,
        "type": variable.type,
        "min": scalar(variable.min),
        "max": scalar(variable.max),
        "step": scalar(variable.multiple_of),
        "values": [scalar(value) for value in variable.values],
        "hardware": variable.hardware,
        "domain": variable.domain(),
    }


def _facts(table: Table, facts: Mapping[str, object] | None) -> list[Any]:
    """The values of ``facts`` in the table's order; empty without facts."""
    return [scalar(facts[name]) for name in table.names] if facts is not None else []

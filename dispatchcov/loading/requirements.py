"""The partitions and waivers of a table's TOML: what tests must reach, and what they need not until a date."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from dispatchcov.errors import brief, known
from dispatchcov.formula import every
from dispatchcov.loading.conditions import Conditions
from dispatchcov.loading.toml_read import Entry
from dispatchcov.parts import EVIDENCE, Bin, Partition, Rule, Variable, Waiver, plain

MAX_BINS = 4096
MISMATCHES = ("kernel", "contract", "domain", "untotal")


class Requirements:
    """Reads partitions over ``rules``; bins are counted over the whole table."""

    def __init__(self, conditions: Conditions, rules: Mapping[str, Rule]) -> None:
        self.conditions = conditions
        self.rules = rules
        self._bins = 0

    def partition(self, entry: Entry) -> Partition:
        """One ``[[partition]]``."""
        name = entry.name("name")
        entry.where = f"partition {name!r}"
        entry.only("name", "rule", "where", "cross", "required", "at_least", "illegal", "evidence")
        rules = tuple(sorted({self.rules[rule].index for rule in self._rules(entry)}))
        illegal = entry.boolean("illegal", False)
        required = entry.boolean("required", not illegal)
        if illegal and required:
            raise entry.fail("expected either illegal or required, got both", "required")
        at_least = entry.integer("at_least")
        if at_least is not None and (at_least < 1 or illegal):
            wanted = "no at_least, since the partition is illegal" if illegal else "at_least to be at least 1"
            raise entry.fail(f"expected {wanted}, got {at_least}", "at_least")
        evidence = entry.choices("evidence", EVIDENCE, "evidence")
        condition = self.conditions.condition(entry, "where")
        return Partition(
            name,
            rules,
            condition,
            str(entry.values.get("where", "")),
            self._cross(entry),
            required,
            at_least or 1,
            illegal,
            frozenset(evidence),
            entry.line(),
        )

    def _rules(self, entry: Entry) -> list[str]:
        given = entry.values.get("rule")
        if isinstance(given, str):
            if given not in self.rules:
                raise entry.fail(f"unknown rule {brief(given)}; {known(given, self.rules)}", "rule")
            return [given]
        chosen = entry.choices("rule", self.rules, "rule")
        if not chosen:
            raise entry.fail(f"expected rule, a name or a list of names, got none; {known('', self.rules)}", "rule")
        return chosen

    def _cross(self, entry: Entry) -> tuple[Bin, ...]:
        variables = self.conditions.variables
        crossed = [variables[name] for name in entry.choices("cross", variables, "variable")]
        for position, variable in enumerate(crossed):
            if not variable.values:
                what = f"cross needs a variable that lists its values, got {variable.name!r}, {variable.domain()}"
                raise entry.fail(what, "cross", position)
        self._bins += math.prod(len(variable.values) for variable in crossed)
        if self._bins > MAX_BINS:
            raise entry.fail(f"expected at most {MAX_BINS} bins in the table, got {self._bins}", "cross")
        return tuple(
            self._bin(crossed, values, entry.line("cross"))
            for values in itertools.product(*(variable.values for variable in crossed))
        )

    def _bin(self, crossed: list[Variable], values: tuple[int | str | bool, ...], line: int) -> Bin:
        pairs = list(zip(crossed, values, strict=True))
        condition = every(*(self.conditions.equals(variable, value, line) for variable, value in pairs))
        label = ", ".join(f"{variable.name}={plain(value)}" for variable, value in pairs)
        return Bin(label, tuple((variable.name, value) for variable, value in pairs), condition)


def read_waivers(
    entries: list[Entry], partitions: Mapping[str, Partition], rules: Mapping[str, Rule]
) -> tuple[Waiver, ...]:
    """The ``[[waiver]]`` of ``partitions``, at most one of each, and of mismatches."""
    found: dict[str, Waiver] = {}
    for entry in entries:
        if "mismatch" in entry:
            waiver = _mismatch(entry, rules)
            if str(waiver) in found:
                raise entry.fail(f"expected one waiver, got another at line {found[str(waiver)].line}", "mismatch")
            found[str(waiver)] = waiver
            continue
        name = entry.string("partition")
        if name not in partitions:
            raise entry.fail(f"unknown partition {brief(name)}; {known(name, partitions)}", "partition")
        entry.where = f"waiver of {name!r}"
        if partitions[name].illegal:
            raise entry.fail(
                "expected a partition that must be hit, got one that is illegal: nothing to waive", "partition"
            )
        entry.only("partition", "reason", "expires")
        waiver = Waiver(name, entry.name("reason"), entry.date("expires"), entry.line())
        if str(waiver) in found:
            raise entry.fail(f"expected one waiver, got another at line {found[str(waiver)].line}", "partition")
        found[str(waiver)] = waiver
    return tuple(found.values())


def _mismatch(entry: Entry, rules: Mapping[str, Rule]) -> Waiver:
    entry.where = "waiver of mismatches"
    entry.only("mismatch", "rule", "kernel", "reason", "expires")
    kind = entry.string("mismatch")
    if kind not in MISMATCHES:
        raise entry.fail(f"unknown mismatch {brief(kind)}; {known(kind, MISMATCHES)}", "mismatch")
    rule = entry.string("rule") if "rule" in entry else ""
    if rule and rule not in rules:
        raise entry.fail(f"unknown rule {brief(rule)}; {known(rule, rules)}", "rule")
    if rule and kind == "untotal":
        raise entry.fail(f"expected no rule, since none takes what it waives, got {brief(rule)}", "rule")
    kernel = entry.name("kernel") if "kernel" in entry else ""
    if kernel and kind != "kernel":
        raise entry.fail(f"expected no kernel, since it waives {kind} mismatches, got {brief(kernel)}", "kernel")
    return Waiver("", entry.name("reason"), entry.date("expires"), entry.line(), kind, rule, kernel)

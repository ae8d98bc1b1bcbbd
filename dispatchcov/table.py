"""The dispatch table of one operator: variables, kernels, ordered rules, partitions.

:func:`dispatchcov.loading.load.load_table` reads one from TOML. A table is immutable; :attr:`Table.decide` is its
compiled first-match function.
"""

from __future__ import annotations

import operator
import os
import weakref
from collections.abc import Callable, Mapping
from types import CodeType

from dispatchcov.decide import DEFAULT_MACHINE, Decision, View
from dispatchcov.digest import digest, rules_digest
from dispatchcov.errors import FactsError, brief, known
from dispatchcov.explain import explain
from dispatchcov.expr import MAX_FACT, Value
from dispatchcov.parts import (
    EVIDENCE,
    Bin,
    Kernel,
    Partition,
    Parts,
    Predicate,
    Rule,
    Variable,
    Waiver,
    plain,
    show,
)

EMULATES = ", emulates "

__all__ = [
    "EVIDENCE", "Bin", "Kernel", "Partition", "Parts", "Predicate", "Rule", "Table", "Variable", "Waiver",
    "known_tables", "plain", "show",
]  # fmt: skip

# Not a WeakSet: its copy could be disturbed by a thread that makes a table.
_tables: weakref.WeakValueDictionary[int, Table] = weakref.WeakValueDictionary()


def known_tables() -> tuple[Table, ...]:
    """The tables that are loaded in this process, by operator."""
    tables = [table for ref in _tables.valuerefs() if (table := ref()) is not None]
    return tuple(sorted(tables, key=lambda table: (table.op, table.digest)))


class Table:
    """An operator's dispatch table; see :class:`Parts` for its fields, all of which are attributes here."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.op = parts.op
        self.variables = parts.variables
        self.predicates = parts.predicates
        self.kernels = parts.kernels
        self.rules = parts.rules
        self.partitions = parts.partitions
        self.waivers = parts.waivers
        self.source = parts.source
        self.text = parts.text
        self.folder = parts.folder
        self.names = tuple(variable.name for variable in parts.variables)
        self.hardware = tuple(variable.name for variable in parts.variables if variable.hardware)
        self.digest = digest(parts)
        self.rules_digest = rules_digest(parts)
        self.views: dict[str, View] = {}
        self.code: CodeType | None = None
        self.decide: Callable[..., Decision] = View.of(self, DEFAULT_MACHINE).decide
        _tables[id(self)] = self
        if "DISPATCHCOV_RUN" in os.environ:
            from dispatchcov.recording import autostart

            autostart()

    def __repr__(self) -> str:
        return f"<Table {self.op} {self.digest[:12]} from {self.source}>"

    def on(self, machine: str, *, emulates: str | None = None) -> View:
        """The same table with a machine label, e.g. ``on("NVIDIA H200")`` or ``on("cpu", emulates="sm_90")``."""
        label = f"{machine}{EMULATES}{emulates}" if emulates else machine
        view = self.views.get(label)
        return view if view is not None else View.of(self, label)

    def explain(self, **facts: Value) -> str:
        """The decision for ``facts`` as a person reads it; raises :class:`FactsError`."""
        return explain(self, facts)

    def variable(self, name: str) -> Variable:
        """The variable called ``name``; ``KeyError`` with the known names otherwise."""
        for variable in self.variables:
            if variable.name == name:
                return variable
        raise KeyError(f"no variable {name!r} in {self.op}; {known(name, self.names)}")

    def rule(self, name: str) -> Rule:
        """The rule called ``name``; ``KeyError`` with the known names otherwise."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(f"no rule {name!r} in {self.op}; {known(name, (rule.name for rule in self.rules))}")

    def partition(self, name: str) -> Partition | None:
        """The partition called ``name``, or the one that stands for the rule of that name; ``None`` without either."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        for rule in self.rules:
            if rule.name == name:
                return Partition(name, (rule.index,), required=False, line=rule.line)
        return None

    def facts(self, given: Mapping[str, object], *, domain: bool = True) -> dict[str, Value]:
        """``given`` as facts: complete, typed and, with ``domain``, inside the domains; else :class:`FactsError`."""
        if not isinstance(given, Mapping):
            raise FactsError(f"{self.op}: expected facts by name, {', '.join(self.names)}, got {brief(given)}")
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise FactsError(f"{self.op}: unknown variable {unknown[0]!r}; {known(unknown[0], self.names)}")
        missing = [name for name in self.names if name not in given]
        if missing:
            needed = ", ".join(self.names)
            raise FactsError(f"{self.op}: expected a value for each of {needed}; missing {', '.join(missing)}")
        facts = {variable.name: _typed(self.op, variable, given[variable.name]) for variable in self.variables}
        outside = self.outside(facts) if domain else ()
        if outside:
            variable = self.variable(outside[0])
            value = facts[variable.name]
            got = brief(value) if isinstance(value, str) and len(value) > 100 else plain(value)
            raise FactsError(f"{self.op}: expected {variable.name} to be {variable.domain()}, got {got}")
        return facts

    def outside(self, facts: Mapping[str, Value]) -> tuple[str, ...]:
        """The variables whose value in ``facts`` lies outside the declared domain."""
        return tuple(variable.name for variable in self.variables if not variable.contains(facts[variable.name]))


def _typed(op: str, variable: Variable, value: object) -> Value:
    if variable.type == "bool" and (isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")):
        return bool(value)
    if variable.type == "enum" and isinstance(value, str):
        return str.__str__(value)  # str() of a member of an Enum of strings is not its value
    if variable.type == "int" and not isinstance(value, bool):
        try:
            number = operator.index(value)  # type: ignore[arg-type]  # that it has no index is what is asked
        except (TypeError, ValueError):
            pass
        else:
            if abs(number) < MAX_FACT:
                return number
            raise FactsError(
                f"{op}: expected {variable.name} to be an integer of at most 256 bits, got {brief(number)}"
            )
    got = f"{type(value).__name__} {brief(value)}"
    raise FactsError(f"{op}: expected {variable.name} to be {variable.domain()}, got {got}")

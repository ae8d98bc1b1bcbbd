"""The dispatch table of one operator: variables, kernels, ordered rules, partitions.

:func:`dispatchcov.load.load_table` reads one from TOML. A table is immutable; :attr:`Table.decide` is its compiled
first-match function.
"""

from __future__ import annotations

import datetime
import operator
import os
import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING

from dispatchcov.errors import FactsError, brief, known
from dispatchcov.expr import Expr, Value
from dispatchcov.formula import ALWAYS, Formula

if TYPE_CHECKING:
    from dispatchcov.decide import Decision, View

EVIDENCE = ("selected", "launched", "observed", "checked")


PLAIN = re.compile(r"[^\s\"'\\=,]+")


def plain(value: Value) -> str:
    """A fact as a person reads it: ``4``, ``true``, ``float16``; a string that would be misread, in quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) and value.isprintable() else repr(value)
    return brief(value)


def show(facts: Mapping[str, Value]) -> str:
    """``facts`` on one line: ``M=4 K=4080 dtype=bfloat16 bias=true``."""
    return " ".join(f"{name}={plain(value)}" for name, value in facts.items())


@dataclass(frozen=True, slots=True)
class Variable:
    """A fact that dispatch may read. ``type``: ``int``, ``enum`` or ``bool``; ``values`` is empty for a range."""

    name: str
    type: str
    min: int | None = None
    max: int | None = None
    multiple_of: int = 1
    values: tuple[Value, ...] = ()
    hardware: bool = False
    line: int = 0

    @property
    def kind(self) -> str:
        """The type in the predicate language: ``int``, ``str`` or ``bool``."""
        return "str" if self.type == "enum" else self.type

    def domain(self) -> str:
        """The values that the variable may have, as a person reads them."""
        if self.values:
            return "one of " + ", ".join(map(plain, self.values))
        low = "" if self.min is None else f" >= {self.min}"
        high = "" if self.max is None else f" <= {self.max}"
        step = f", a multiple of {self.multiple_of}" if self.multiple_of > 1 else ""
        return f"an integer{low}{' and' if low and high else ''}{high}{step}"

    def contains(self, value: Value) -> bool:
        """Is ``value``, of the right type, in the declared domain?"""
        if self.values:
            return value in self.values
        number = int(value)
        return (
            (self.min is None or number >= self.min)
            and (self.max is None or number <= self.max)
            and number % self.multiple_of == 0
        )


@dataclass(frozen=True, slots=True)
class Predicate:
    """An atomic comparison. ``text`` is as written (``let`` names kept), ``expr`` has them replaced."""

    index: int
    text: str
    expr: Expr
    reads: frozenset[str]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Kernel:
    """``symbol`` is what a profiler must show; ``requires`` is the contract, what an input must satisfy."""

    name: str
    symbol: str = ""
    requires: Formula = ALWAYS
    requires_text: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """``guard`` chooses ``kernel``; ``splits`` are predicates that matter inside it."""

    index: int
    name: str
    guard: Formula
    when: str
    kernel: Kernel
    splits: tuple[Predicate, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Bin:
    """One combination of the values that a partition is crossed with; ``label`` is empty for an uncrossed partition."""

    label: str
    values: tuple[tuple[str, Value], ...]
    condition: Formula


@dataclass(frozen=True, slots=True)
class Partition:
    """A named requirement over the inputs of ``rules`` (indices) for which ``condition`` holds, one per bin."""

    name: str
    rules: tuple[int, ...]
    condition: Formula = ALWAYS
    where: str = ""
    bins: tuple[Bin, ...] = (Bin("", (), ALWAYS),)
    required: bool = True
    at_least: int = 1
    illegal: bool = False
    evidence: frozenset[str] = frozenset()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Waiver:
    """``partition`` need not be hit until the end of ``expires``, because of ``reason``."""

    partition: str
    reason: str
    expires: datetime.date
    line: int = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a table is made of; the constructor of :class:`Table` takes it whole."""

    op: str
    variables: tuple[Variable, ...]
    lets: tuple[tuple[str, str], ...]
    predicates: tuple[Predicate, ...]
    kernels: tuple[Kernel, ...]
    rules: tuple[Rule, ...]
    partitions: tuple[Partition, ...]
    waivers: tuple[Waiver, ...] = ()
    source: str = "<table>"
    text: str = field(default="", repr=False)


# Not a WeakSet: its copy could be disturbed by a thread that makes a table.
_tables: weakref.WeakValueDictionary[int, Table] = weakref.WeakValueDictionary()


def known_tables() -> tuple[Table, ...]:
    """The tables that are loaded in this process, by operator."""
    tables = [table for ref in _tables.valuerefs() if (table := ref()) is not None]
    return tuple(sorted(tables, key=lambda table: (table.op, table.digest)))


class Table:
    """An operator's dispatch table; see :class:`Parts` for its fields, all of which are attributes here."""

    def __init__(self, parts: Parts) -> None:
        from dispatchcov.decide import DEFAULT_MACHINE, View
        from dispatchcov.digest import digest, rules_digest

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
        self.names = tuple(variable.name for variable in parts.variables)
        self.hardware = tuple(variable.name for variable in parts.variables if variable.hardware)
        self.digest = digest(parts)
        self.rules_digest = rules_digest(parts)
        self.views: dict[str, View] = {}
        self.code: CodeType | None = None
        _tables[id(self)] = self
        self.decide: Callable[..., Decision] = View.of(self, DEFAULT_MACHINE).decide
        if "DISPATCHCOV_RUN" in os.environ:
            from dispatchcov.record import autostart

            autostart()

    def __repr__(self) -> str:
        return f"<Table {self.op} {self.digest[:12]} from {self.source}>"

    def on(self, machine: str, *, emulates: str | None = None) -> View:
        """The same table with a machine label, e.g. ``on("NVIDIA H200")`` or ``on("cpu", emulates="sm_90")``."""
        label = f"{machine}, emulates {emulates}" if emulates else machine
        view = self.views.get(label)
        if view is None:
            from dispatchcov.decide import View

            view = View.of(self, label)
        return view

    def explain(self, **facts: Value) -> str:
        """The decision for ``facts`` as a person reads it; raises :class:`FactsError`."""
        from dispatchcov.explain import explain

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
            return operator.index(value)  # type: ignore[arg-type]  # that it has no index is what is asked
        except (TypeError, ValueError):
            pass
    got = f"{type(value).__name__} {brief(value)}"
    raise FactsError(f"{op}: expected {variable.name} to be {variable.domain()}, got {got}")

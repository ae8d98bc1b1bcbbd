"""The dispatch table of one operator: variables, kernels, ordered rules, partitions.

:func:`dispatchcov.load.load_table` reads one from TOML. A table is immutable; :attr:`Table.decide` is its compiled
first-match function.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dispatchcov.errors import FactsError, known
from dispatchcov.expr import Expr, Value, to_text
from dispatchcov.formula import ALWAYS, Formula, Leaf, Opposite

if TYPE_CHECKING:
    from dispatchcov.decide import Decision, View

EVIDENCE = ("selected", "launched", "observed", "checked")


@dataclass(frozen=True, slots=True)
class Variable:
    """A fact that dispatch may read. ``type`` is ``int``, ``enum`` or ``bool``; ``values`` is empty for an open range."""

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
            return "one of " + ", ".join(map(_plain, self.values))
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


class Table:
    """An operator's dispatch table; see :class:`Parts` for its fields, all of which are attributes here."""

    def __init__(self, parts: Parts) -> None:
        from dispatchcov.decide import DEFAULT_MACHINE, View

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
        self._views: dict[str, View] = {}
        self.decide: Callable[..., Decision] = View.of(self, DEFAULT_MACHINE).decide

    def __repr__(self) -> str:
        return f"<Table {self.op} {self.digest[:12]} from {self.source}>"

    def on(self, machine: str, *, emulates: str | None = None) -> View:
        """The same table with a machine label, e.g. ``on("NVIDIA H200")`` or ``on("cpu", emulates="sm_90")``."""
        from dispatchcov.decide import View

        return View.of(self, f"{machine}, emulates {emulates}" if emulates else machine)

    def explain(self, **facts: Value) -> str:
        """The decision for ``facts`` as a person reads it; raises :class:`FactsError`."""
        from dispatchcov.decide import explain

        return explain(self, facts)

    def variable(self, name: str) -> Variable:
        """The variable called ``name``."""
        return self.variables[self.names.index(name)]

    def rule(self, name: str) -> Rule:
        """The rule called ``name``; ``KeyError`` with the known names otherwise."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        raise KeyError(f"no rule {name!r} in {self.op}; {known(name, (rule.name for rule in self.rules))}")

    def partition(self, name: str) -> Partition | None:
        """The partition called ``name``, or the one that stands for the rule of that name; ``None`` if neither exists."""
        for partition in self.partitions:
            if partition.name == name:
                return partition
        for rule in self.rules:
            if rule.name == name:
                return Partition(name, (rule.index,), required=False, line=rule.line)
        return None

    def facts(self, given: Mapping[str, object], *, domain: bool = True) -> dict[str, Value]:
        """``given`` as facts, complete, typed and, with ``domain``, inside the declared domains; else :class:`FactsError`."""
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
            got = _plain(facts[variable.name])
            raise FactsError(f"{self.op}: expected {variable.name} to be {variable.domain()}, got {got}")
        return facts

    def outside(self, facts: Mapping[str, Value]) -> tuple[str, ...]:
        """The variables whose value in ``facts`` lies outside the declared domain."""
        return tuple(variable.name for variable in self.variables if not variable.contains(facts[variable.name]))


def _typed(op: str, variable: Variable, value: object) -> Value:
    if variable.type == "bool" and (isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")):
        return bool(value)
    if variable.type == "enum" and isinstance(value, str):
        return str(value)
    if variable.type == "int" and not isinstance(value, bool | float) and hasattr(value, "__index__"):
        return value.__index__()  # type: ignore[no-any-return]
    raise FactsError(f"{op}: expected {variable.name} to be {variable.domain()}, got {type(value).__name__} {value!r}")


def _plain(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def formula_text(formula: Formula, predicates: tuple[Predicate, ...], level: int = 0) -> str:
    """``formula`` with the texts of its predicates."""
    match formula:
        case Leaf():
            return predicates[formula.index].text
        case Opposite():
            return f"not {formula_text(formula.operand, predicates, 2)}"
    if not formula.operands:
        return "true" if formula == ALWAYS else "false"
    word, own = (" and ", 1) if type(formula) is type(ALWAYS) else (" or ", 0)
    text = word.join(formula_text(part, predicates, own + 1) for part in formula.operands)
    return f"({text})" if own < level else text


def digest(parts: Parts) -> str:
    """SHA-256 of all that decides, counts or judges; comments, layout, line numbers and waivers do not change it."""
    texts = parts.predicates
    content = {
        "op": parts.op,
        "variables": [
            [v.name, v.type, v.min, v.max, v.multiple_of, list(v.values), v.hardware] for v in parts.variables
        ],
        "predicates": [to_text(predicate.expr) for predicate in texts],
        "kernels": [[k.name, k.symbol, formula_text(k.requires, texts)] for k in parts.kernels],
        "rules": [
            [r.name, formula_text(r.guard, texts), r.kernel.name, [s.index for s in r.splits]] for r in parts.rules
        ],
        "partitions": [
            [
                p.name,
                list(p.rules),
                formula_text(p.condition, texts),
                [b.label for b in p.bins],
                p.required,
                p.at_least,
                p.illegal,
                sorted(p.evidence),
            ]
            for p in parts.partitions
        ],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

"""What a table is made of: variables, predicates, kernels, rules, partitions, waivers; all frozen."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatchcov.errors import brief
from dispatchcov.expr import Expr, Value
from dispatchcov.formula import ALWAYS, Formula

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
    sources: tuple[str, ...] = ()
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
    """Until the end of ``expires``, because of ``reason``: ``partition`` need not be hit or, where that is ``""``,
    mismatches of the kind ``mismatch`` fail nothing; only those in ``rule`` and with ``kernel``, in which ``*`` stands
    for anything, where these are given.
    """

    partition: str
    reason: str
    expires: datetime.date
    line: int = 0
    mismatch: str = ""
    rule: str = ""
    kernel: str = ""

    def __str__(self) -> str:
        if self.partition:
            return f"the waiver of {self.partition}"
        rule = f" in rule {self.rule}" if self.rule else ""
        return f"the waiver of {self.mismatch} mismatches{rule}{f' with {self.kernel}' if self.kernel else ''}"


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
    folder: str = ""

"""Decisions: a table compiled to one first-match function, and what a decision says about itself.

:attr:`View.decide` is generated source over the facts. With no recorder on it is an if-chain that returns a ready-made
:class:`Decision`; with one on, it hands the facts to the recorder. The flag is a global of the generated function, so a
reference to ``table.decide`` kept from before stays right.
"""

from __future__ import annotations

import contextlib
import platform
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from dispatchcov import expr as ex
from dispatchcov.errors import FactsError
from dispatchcov.expr import Value
from dispatchcov.formula import Every, Formula, Leaf, Opposite, blame, holds, leaves, settle

if TYPE_CHECKING:
    from dispatchcov.table import Table

DEFAULT_MACHINE = f"{platform.system()} {platform.machine()}".strip() or "unknown"


@dataclass(frozen=True, slots=True)
class FallbackReason:
    """An earlier ``rule`` that was not selected: the predicates that ``failed`` (as they count against it) and their values."""

    rule: str
    failed: tuple[str, ...]
    values: Mapping[str, Value]
    sole: str | None = None

    def __str__(self) -> str:
        return f"{self.rule}: not {' and '.join(self.failed)} ({show(self.values)})"


class Decision:
    """One evaluation of a table. ``rule`` and ``kernel`` are always there; the rest needs a recorder (``facts`` is None without)."""

    __slots__ = ("__weakref__", "facts", "kernel", "machine", "rule", "table", "vector")

    def __init__(self, table: Table, rule: int | None, facts: tuple[Value, ...] | None = None, vector: int = 0) -> None:
        chosen = table.rules[rule] if rule is not None else None
        self.table = table
        self.rule = chosen.name if chosen else ""
        self.kernel = chosen.kernel.name if chosen else ""
        self.vector = vector
        self.machine = ""
        self.facts = dict(zip(table.names, facts, strict=True)) if facts is not None else None

    def launch(self) -> contextlib.AbstractContextManager[object]:
        """A context for the launch of the kernel; leaving it without an exception attests ``launched``."""
        return self

    def __enter__(self) -> Decision:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    @property
    def fallbacks(self) -> tuple[FallbackReason, ...]:
        """Why each earlier rule was not selected, in rule order; raises :class:`FactsError` if not recorded."""
        if self.facts is None:
            raise FactsError(f"{self.table.op}: fallback reasons need a recorder; use table.explain(...) without one")
        return fallbacks(self.table, self.facts, self.vector)

    def __repr__(self) -> str:
        facts = f" {show(self.facts)}" if self.facts is not None else ""
        return f"<Decision {self.rule or 'no rule'} -> {self.kernel or 'no kernel'}{facts}>"


class Recording(Protocol):
    """What a view needs of a recorder."""

    def note(self, view: View, facts: tuple[Value, ...]) -> Decision: ...


_views: weakref.WeakSet[View] = weakref.WeakSet()
_active: Recording | None = None


def activate(recorder: Recording | None) -> Recording | None:
    """Send all decisions to ``recorder`` from now on, or to none; returns the one before."""
    global _active
    before, _active = _active, recorder
    for view in list(_views):
        view.namespace["_on"] = recorder is not None
    return before


def active() -> Recording | None:
    """The recorder that is on, if any."""
    return _active


class View:
    """A table as decided on one machine: its compiled functions and, while recording, what the recorder keeps for it."""

    def __init__(self, table: Table, machine: str) -> None:
        self.table = table
        self.machine = machine
        self.namespace: dict[str, Any] = {
            "_on": _active is not None,
            "_record": self._record,
            "_untotal": self._untotal,
            "__name__": "dispatchcov.generated",
        }
        for rule in table.rules:
            self.namespace[f"_d{rule.index}"] = Decision(table, rule.index)
        source = _source(table)
        exec(compile(source, f"<dispatchcov {table.op}>", "exec"), self.namespace)  # generated from a whitelisted tree
        self.decide: Callable[..., Decision] = self.namespace["decide"]
        self.decide.__qualname__ = self.decide.__name__ = f"decide[{table.op}]"
        self.vector: Callable[[tuple[Value, ...]], int] = self.namespace["vector"]
        self.extend: Callable[[list[Any], list[Any], tuple[Value, ...]], None] = self.namespace["extend"]
        self.memo: dict[tuple[Value, ...], Any] = {}
        self.context: object = None
        _views.add(self)

    @staticmethod
    def of(table: Table, machine: str) -> View:
        """The view of ``table`` on ``machine``, made once."""
        view = table._views.get(machine)
        if view is None:
            view = table._views.setdefault(machine, View(table, machine))
        return view

    def _record(self, facts: tuple[Value, ...]) -> Decision:
        recorder = _active
        if recorder is None:
            return self.plain(facts)
        decision = recorder.note(self, facts)
        if not decision.rule:
            raise self._untotal(facts)
        return decision

    def plain(self, facts: tuple[Value, ...]) -> Decision:
        """The decision for ``facts`` without recording it."""
        decision: Decision = self.namespace["chain"](*facts)
        return decision

    def _untotal(self, facts: tuple[Value, ...]) -> FactsError:
        named = dict(zip(self.table.names, facts, strict=True))
        return FactsError(f"{self.table.op}: no rule takes {show(named)}; the last rule should have no 'when'")


def _source(table: Table) -> str:
    """Python source of ``decide`` (keyword facts), ``chain`` (positional), ``vector`` and ``extend``."""
    names = ", ".join(table.names)
    facts = f"({names},)"
    rules = []
    total = False
    for rule in table.rules:
        guard = _python(rule.guard, table)
        rules.append(f"    if {guard}: return _d{rule.index}" if guard != "True" else f"    return _d{rule.index}")
        if guard == "True":
            total = True
            break
    chain = [*rules] if total else [*rules, f"    raise _untotal({facts})"]
    decide = [f"def decide(*, {names}):", f"    if _on: return _record({facts})", *chain]
    plain = [f"def chain({names}):", *chain]
    vector = ["def vector(facts):", f"    {names}, = facts", "    v = 0"]
    partial = [predicate for predicate in table.predicates if may_divide_by_zero(predicate.expr)]
    if partial:
        vector.append("    chain(*facts)" if total else "    try: chain(*facts)\n    except _Untotal: pass")
    for predicate in table.predicates:
        test = f"if {ex.to_python(predicate.expr)}: v |= {1 << predicate.index}"
        if predicate in partial:
            vector += [f"    try:\n        {test}", "    except ZeroDivisionError: pass"]
        else:
            vector.append(f"    {test}")
    vector.append("    return v")
    extend = ["def extend(low, high, facts):", f"    {names}, = facts"]
    for position, variable in enumerate(v for v in table.variables if v.type == "int" and not v.values):
        place = table.names.index(variable.name)
        for side, sign in (("low", "<"), ("high", ">")):
            extend.append(f"    if {variable.name} {sign} {side}[{position}][{place}]: {side}[{position}] = facts")
    extend.append("    return None")
    untotal = ["from dispatchcov.errors import FactsError as _Untotal"]
    return "\n".join([*untotal, *decide, *plain, *vector, *extend]) + "\n"


def _python(formula: Formula, table: Table) -> str:
    match formula:
        case Leaf():
            return ex.to_python(table.predicates[formula.index].expr)
        case Opposite():
            return f"not ({_python(formula.operand, table)})"
    word = " and " if isinstance(formula, Every) else " or "
    return word.join(f"({_python(part, table)})" for part in formula.operands) or str(word == " and ")


def may_divide_by_zero(tree: ex.Expr) -> bool:
    """Does ``tree`` divide by something that is not a constant?"""
    for node in ex.walk(tree):
        match node:
            case ex.Bin(op="//" | "%", right=right) if not isinstance(right, ex.Const):
                return True
            case ex.Call(name="ceildiv", args=(_, right)) if not isinstance(right, ex.Const):
                return True
    return False


def select(table: Table, vector: int) -> int | None:
    """The index of the rule that ``vector`` selects."""
    for rule in table.rules:
        if holds(rule.guard, vector):
            return rule.index
    return None


def path(table: Table, vector: int) -> tuple[int | None, tuple[int, ...]]:
    """The selected rule and, for each earlier one, the predicate that settled that it was not: the region's identity."""
    settled = []
    for rule in table.rules:
        value, last = settle(rule.guard, vector)
        if value:
            return rule.index, tuple(settled)
        settled.append(last)
    return None, tuple(settled)


def fallbacks(table: Table, facts: Mapping[str, Value], vector: int) -> tuple[FallbackReason, ...]:
    """Why each rule before the selected one was not selected."""
    reasons = []
    for rule in table.rules:
        if holds(rule.guard, vector):
            break
        against = blame(rule.guard, vector)
        single = [i for i in leaves(rule.guard) if holds(rule.guard, vector ^ (1 << i))]
        failed = tuple(_failed(table, i, vector) for i in against)
        read = sorted({name for i in against for name in table.predicates[i].reads}, key=table.names.index)
        sole = table.predicates[single[0]].text if len(single) == 1 else None
        reasons.append(FallbackReason(rule.name, failed, {name: facts[name] for name in read}, sole))
    return tuple(reasons)


def _failed(table: Table, index: int, vector: int) -> str:
    text = table.predicates[index].text
    return text if not vector >> index & 1 else f"not ({text})"


def show(facts: Mapping[str, Value]) -> str:
    """``facts`` on one line: ``M=4 K=4080 dtype=bfloat16 bias=true``."""
    return " ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in facts.items())


def explain(table: Table, given: Mapping[str, object]) -> str:
    """Each rule, each predicate with its outcome and values, and the kernel selected."""
    facts = table.facts(given)
    values = tuple(facts.values())
    vector = View.of(table, DEFAULT_MACHINE).vector(values)
    lines = [f"{table.op}  {show(facts)}"]
    for rule in table.rules:
        value, last = settle(rule.guard, vector)
        if value:
            lines.append(f"  {rule.name}: selected, kernel {rule.kernel.name}")
        else:
            outcome = "true" if vector >> last & 1 else "false"
            lines.append(f"  {rule.name}: no, {table.predicates[last].text} is {outcome}" if last >= 0 else f"  {rule.name}: no")
        lines += _predicate_lines(table, leaves(rule.guard), vector, facts)
        if value:
            lines += _predicate_lines(table, tuple(split.index for split in rule.splits), vector, facts, "split ")
            return "\n".join(lines)
    return "\n".join([*lines, "  no rule takes this input"])


def _predicate_lines(
    table: Table, indices: tuple[int, ...], vector: int, facts: Mapping[str, Value], kind: str = ""
) -> list[str]:
    width = max((len(table.predicates[i].text) for i in indices), default=0)
    lines = []
    for i in indices:
        predicate = table.predicates[i]
        outcome = "true " if vector >> i & 1 else "false"
        seen = show({name: facts[name] for name in table.names if name in predicate.reads})
        lines.append(f"    {kind}{outcome}  {predicate.text:<{width}}  {seen}{_left_value(predicate.expr, facts)}")
    return lines


def _left_value(tree: ex.Expr, facts: Mapping[str, Value]) -> str:
    """The value of a compared expression that is more than a name: ``, K % 128 = 112``."""
    if isinstance(tree, ex.Compare) and not isinstance(tree.left, ex.Var | ex.Const):
        try:
            return f", {ex.to_text(tree.left)} = {ex.evaluate(tree.left, facts)}"
        except ZeroDivisionError:
            return f", {ex.to_text(tree.left)} divides by zero"
    return ""

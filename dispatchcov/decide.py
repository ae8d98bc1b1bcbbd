"""Decisions: a table compiled to one first-match function, and what a decision says about itself.

:attr:`View.decide` is generated source over the facts (:mod:`dispatchcov.generate`). With no recorder on it is an
if-chain that returns a ready-made :class:`Decision`; with one on, it hands the facts to the recorder. The flag is a
global of the generated function, so a reference to ``table.decide`` kept from before stays right.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from dispatchcov import generate
from dispatchcov.errors import FactsError, UndefinedError, UntotalError
from dispatchcov.explain import explain
from dispatchcov.expr import Value, evaluate, may_divide_by_zero
from dispatchcov.formula import blame, holds, leaves, settle
from dispatchcov.parts import Predicate, Rule, show

if TYPE_CHECKING:
    from dispatchcov.table import Table

__all__ = [
    "DEFAULT_MACHINE", "Decision", "FallbackReason", "Recording", "View", "activate", "active", "explain", "fallbacks",
    "may_divide_by_zero", "outside", "path", "select", "show",
]  # fmt: skip

COMPILED = "a decision is made, and recorded, each time that the code runs, not when it is compiled"
DEFAULT_MACHINE = f"{platform.system()} {platform.machine()}".strip() or "unknown"


@dataclass(frozen=True, slots=True)
class FallbackReason:
    """An earlier ``rule`` that was not selected, and why.

    ``failed`` are its predicates that count against it, each as it would have to be (``not (...)`` if false), and
    ``values`` what they read. ``sole`` is the predicate that alone kept the rule from being selected, if one did.
    """

    rule: str
    failed: tuple[str, ...]
    values: Mapping[str, Value]
    sole: str | None = None

    def __str__(self) -> str:
        outcomes = (f"{text[5:-1]} is true" if text.startswith("not (") else f"{text} is false" for text in self.failed)
        return f"{self.rule}: {', '.join(outcomes)} ({show(self.values)})"


class Decision:
    """One evaluation of a table. ``rule`` and ``kernel`` are always there; the rest needs a recorder.

    ``values`` are the facts in the order of the table's variables (None without a recorder), ``vector`` the outcome of
    every predicate as bits.
    """

    __slots__ = ("kernel", "machine", "rule", "table", "values", "vector")

    def __init__(self, table: Table, rule: Rule | None) -> None:
        self.table = table
        self.rule = rule.name if rule else ""
        self.kernel = rule.kernel.name if rule else ""
        self.vector = 0
        self.machine = ""
        self.values: tuple[Value, ...] | None = None

    @property
    def facts(self) -> dict[str, Value] | None:
        """The facts by name; None if no recorder was on."""
        return dict(zip(self.table.names, self.values, strict=True)) if self.values is not None else None

    def launch(self) -> contextlib.AbstractContextManager[object]:
        """A context for the launch of the kernel; leaving it without an exception attests ``launched``."""
        return self

    def __enter__(self) -> Decision:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @property
    def fallbacks(self) -> tuple[FallbackReason, ...]:
        """Why each earlier rule was not selected, in rule order; raises :class:`FactsError` if not recorded."""
        facts = self.facts
        if facts is None:
            raise FactsError(f"{self.table.op}: fallback reasons need a recorder; use table.explain(...) without one")
        return fallbacks(self.table, facts, self.vector)

    def __repr__(self) -> str:
        named = self.facts
        facts = f" {show(named)}" if named is not None else ""
        return f"<Decision {self.rule or 'no rule'} -> {self.kernel or 'no kernel'}{facts}>"


class Recording(Protocol):
    """What a view needs of a recorder."""

    def note(self, view: View, facts: tuple[Value, ...]) -> Decision: ...
    def judged(self, view: View) -> View: ...


_views: weakref.WeakSet[View] = weakref.WeakSet()
_active: Recording | None = None
_lock = threading.RLock()


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def activate(recorder: Recording | None) -> Recording | None:
    """Send all decisions to ``recorder`` from now on, or to none; returns the one before."""
    global _active
    with _lock:
        before, _active = _active, recorder
        for view in list(_views):
            view.send(recorder)
    return before


def active() -> Recording | None:
    """The recorder that is on, if any."""
    return _active


class View:
    """A table as decided on one machine: its compiled functions and, while recording, what the recorder keeps for it.

    :meth:`of` makes it, under the lock of :func:`activate`: a view knows which recorder is on from its first decision.
    ``vector`` gives the outcomes of all predicates for facts in the order of the table's variables, ``hardware`` those
    of them that are hardware, ``enter`` begins the launch of a recorded decision, ``extend`` widens bounds; ``ranged``
    are the positions of the integers that do not list their values, ``kind`` is the class of recorded decisions, once
    there are any. A view that is bound counts decisions for known cells by itself, all others through the recorder.
    """

    def __init__(self, table: Table, machine: str) -> None:
        self.table = table
        self.machine = machine
        decisions = [Decision(table, rule) for rule in table.rules]
        self._names = names = generate.namespace(table, decisions, self.untotal, self.wrong)
        if table.code is None:
            table.code = generate.compiled(table)
        exec(table.code, names)  # generated from a whitelisted tree
        self.decide: Callable[..., Decision] = names["_decide"]
        self.decide.__name__ = f"decide[{table.op}]"
        self.decide.__qualname__ = f"decide[{table.op}: {', '.join(table.names)}]"  # what a TypeError for a call says
        vars(self.decide).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=COMPILED)
        self.vector: Callable[[tuple[Value, ...]], int] = names["_vector"]
        self.hardware: Callable[[tuple[Value, ...]], tuple[Value, ...]] = names["_hardware"]
        self.enter: Callable[[Any], Any] = names["_enter"]
        self.extend: Callable[[list[Any], list[Any], tuple[Value, ...]], None] = names["_extend"]
        self.ranged = tuple(table.names.index(name) for name in generate.ranged(table))
        self.recorder: Recording | None = None
        self.kind: type[Any] | None = None
        names["_Decision"] = Decision
        _views.add(self)
        self.send(_active)

    def send(self, recorder: Recording | None) -> None:
        """Hand every decision to ``recorder`` from now on, or to none."""
        names = self._names
        self.unbind()
        self.recorder = recorder
        if recorder is None:
            names["_record"], names["_note"] = names["_chain"], names["_unrecorded"]
        else:
            view = recorder.judged(self)
            names["_note"] = functools.partial(recorder.note, self)
            names["_record"] = view._names["_count"] if generate.ONE_AT_A_TIME else view.note
        names["_on"] = recorder is not None

    def bind(self, cells: Mapping[tuple[Value, ...], Any], counts: Sequence[int], kind: type[Decision]) -> None:
        """Count decisions for plain ``cells`` in ``counts`` from now on, each a ``kind``, and hand on the rest."""
        self._names["_counts"] = counts
        self._names["_Decision"] = kind
        self._names["_cells"] = cells

    def unbind(self) -> None:
        """Count nothing without the recorder."""
        self._names["_cells"] = {}

    def note(self, *facts: Value) -> Decision:
        """Have the recorder count a decision for ``facts``."""
        decision: Decision = self._names["_note"](facts)
        return decision

    @staticmethod
    def of(table: Table, machine: str) -> View:
        """The view of ``table`` on ``machine``, made once."""
        with _lock:
            view = table.views.get(machine)
            if view is None:
                view = table.views[machine] = View(table, machine)
        return view

    @staticmethod
    def apart(table: Table) -> View:
        """A view that no recorder ever sees, for questions about ``table``."""
        view = View(table, DEFAULT_MACHINE)
        with _lock:
            _views.discard(view)
            view.send(None)
        return view

    def outcomes(self, facts: tuple[Value, ...]) -> int:
        """``vector`` for what other code decided: a predicate that divides by zero does not hold, and the facts are
        outside the domain.
        """
        try:
            return self.vector(facts)
        except UndefinedError:
            table = self.table
            named = dict(zip(table.names, facts, strict=True))
            held = (p.index for p in table.predicates if not _divides_by_zero(p, named) and evaluate(p.expr, named))
            return sum(1 << index for index in held) | 1 << len(table.predicates)

    def untotal(self, facts: tuple[Value, ...]) -> UntotalError:
        """The error for facts that no rule takes."""
        named = dict(zip(self.table.names, facts, strict=True))
        return UntotalError(f"{self.table.op}: no rule takes {show(named)}; the last rule should have no 'when'")

    def wrong(self, facts: tuple[Value, ...], error: Exception) -> Exception:
        """The error for ``facts`` of which evaluating a predicate raised ``error``."""
        table = self.table
        try:
            named = table.facts(dict(zip(table.names, facts, strict=True)), domain=False)
        except FactsError as mistyped:
            return mistyped
        zero = [p.text for p in table.predicates if may_divide_by_zero(p.expr) and _divides_by_zero(p, named)]
        if not isinstance(error, ZeroDivisionError) or not zero:
            return error
        return UndefinedError(f"{table.op}: {' and '.join(zero)} divides by zero for {show(named)}")


def _divides_by_zero(predicate: Predicate, facts: Mapping[str, Value]) -> bool:
    try:
        evaluate(predicate.expr, facts)
    except ZeroDivisionError:
        return True
    return False


def outside(table: Table, vector: int) -> bool:
    """Were the facts of ``vector`` outside the declared domains? That is its bit after those of the predicates."""
    return bool(vector >> len(table.predicates) & 1)


def undefined(table: Table, vector: int, values: Iterable[Value]) -> bool:
    """Are the facts of ``vector`` outside, though each of ``values`` is inside? Then a predicate divides by zero."""
    return outside(table, vector) and not table.outside(dict(zip(table.names, values, strict=True)))


def select(table: Table, vector: int) -> int | None:
    """The index of the rule that ``vector`` selects."""
    for rule in table.rules:
        if holds(rule.guard, vector):
            return rule.index
    return None


def path(table: Table, vector: int) -> tuple[int | None, tuple[int, ...]]:
    """The selected rule and, for each earlier one, the predicate that settled that it was not: what a region is."""
    settled: list[int] = []
    for rule in table.rules:
        value, last = settle(rule.guard, vector)
        if value:
            return rule.index, tuple(settled)
        settled.append(last)
    return None, tuple(settled)


def fallbacks(table: Table, facts: Mapping[str, Value], vector: int) -> tuple[FallbackReason, ...]:
    """Why each rule before the selected one was not selected."""
    reasons: list[FallbackReason] = []
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

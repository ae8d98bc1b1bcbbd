"""Calls of code that decides by itself: what the table says of one, what a profiler saw in it, and how they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatchcov import decide
from dispatchcov.decide import Decision, View
from dispatchcov.expr import Value
from dispatchcov.nearest import nearest
from dispatchcov.recorder import OBSERVED, RecordedDecision, Recorder
from dispatchcov.symbols import matches, named
from dispatchcov.table import Kernel, Rule

MAX_SYMBOL = 200


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a profiler saw: its ``facts``, the ``rule`` and the kernel ``expected`` that the table selects for
    them (``""``: no rule takes them), and what ``ran``: a kernel of the table, else a symbol, ``""`` if nothing did.

    ``rules`` are those of the kernel that ran: the rule of the library, if it is only one. ``symbols`` were seen, of
    which no pattern matches those ``unmatched``. ``nearest`` are the predicates that would explain a mismatch.
    ``matched`` are the kernels whose patterns match, each with the first symbol that does; ``proved`` is false where
    what was seen shows the kernel that ran, or was said to, no more than another of them.
    """

    op: str
    facts: Mapping[str, Value]
    rule: str
    expected: str
    ran: str
    rules: tuple[str, ...]
    symbols: tuple[str, ...]
    unmatched: tuple[str, ...]
    nearest: str = ""
    matched: tuple[tuple[str, str], ...] = ()
    proved: bool = True

    @property
    def mismatch(self) -> bool:
        """Did another kernel run than the table's?"""
        return bool(self.ran) and self.ran != self.expected


class Called(Decision):
    """What a table says of a call before it runs. Nothing is counted of it until it is known what ran.

    ``said`` holds what the code under it recorded by itself.
    """

    __slots__ = ("said", "view")

    def __init__(self, view: View, values: tuple[Value, ...]) -> None:
        vector = view.outcomes(values)
        index = decide.select(view.table, vector) if not decide.undefined(view.table, vector, values) else None
        super().__init__(view.table, view.table.rules[index] if index is not None else None)
        self.view = view
        self.values = values
        self.vector = vector
        self.machine = view.machine
        self.said: list[Decision | None] = []

    @classmethod
    def of(cls, view: View, facts: Mapping[str, object]) -> Called:
        """The call for ``facts``; raises :class:`FactsError` if they do not fit the table."""
        return cls(view, tuple(view.table.facts(facts, domain=False).values()))

    @property
    def selected(self) -> Rule | None:
        """The rule that the table selects."""
        return next((rule for rule in self.table.rules if rule.name == self.rule), None)


def seen(called: Called, symbols: Sequence[str], *, kernels_only: bool = True) -> Call:
    """What ``symbols``, seen in ``called``, say of it. Where not all of them are kernels (``kernels_only`` false),
    those without a pattern are told only if none has one.
    """
    table, facts = called.table, called.facts or {}
    matched = [kernel for kernel in table.kernels if any(matches(kernel, facts, symbol) for symbol in symbols)]
    unmatched = tuple(s for s in dict.fromkeys(symbols) if not any(matches(k, facts, s) for k in table.kernels))
    if matched and not kernels_only:
        unmatched = ()
    ran = _ran(called.selected, matched, symbols)
    rules = tuple(rule.name for rule in table.rules if rule.kernel.name == ran)
    near = nearest(table, called.vector, ran) if ran != called.kernel else ""
    pairs = tuple((k.name, next(s for s in symbols if matches(k, facts, s))) for k in matched)
    said = next((decision.kernel for decision in called.said if decision is not None), ran)
    proved = _proved(said, matched, called, symbols, kernels_only)
    return Call(table.op, facts, called.rule, called.kernel, ran, rules, tuple(symbols), unmatched, near, pairs, proved)


def _proved(name: str, matched: Sequence[Kernel], called: Called, symbols: Sequence[str], kernels_only: bool) -> bool:
    """Do ``symbols`` show that kernel ``name`` ran, and not only that it or another of ``matched`` did?

    A library may launch two kernels of a table in one call: each symbol that is of one of them alone proves it.
    Operators enclose one another: which of two was chosen, and which only ran in it, cannot be seen.
    """
    others = [kernel for kernel in matched if kernel.name != name]
    kernel = next((kernel for kernel in matched if kernel.name == name), None)
    if kernel is None or not others:
        return True
    facts = called.facts or {}
    own = (s for s in symbols if matches(kernel, facts, s) and not any(matches(other, facts, s) for other in others))
    return kernels_only and any(own)


def _ran(selected: Rule | None, matched: Sequence[Kernel], symbols: Sequence[str]) -> str:
    """The kernel that ran: the selected one where its symbol was seen, or where it has none and no other was."""
    expected = selected.kernel if selected else None
    if expected is not None and (expected in matched or (not matched and not expected.symbol)):
        return expected.name
    if matched:
        return matched[0].name
    return symbols[0][:MAX_SYMBOL] if symbols else ""


def tell(recorder: Recorder, called: Called, call: Call) -> RecordedDecision | None:
    """Record what ``call`` showed; a call in which nothing was seen is not counted.

    Of a function that said what it ran, what it said is attested or contradicted.
    """
    said = [decision for decision in called.said if isinstance(decision, RecordedDecision)]
    if not call.ran or len(called.said) > 1:
        return None
    if not said:
        decision = recorder.record(recorder.judged(called.view), called.values or (), call.ran)
        if call.proved:
            recorder.attest(decision, OBSERVED)
        return decision
    decision = said[0]
    kernel = next((kernel for kernel in called.table.kernels if kernel.name == decision.kernel), None)
    other = named(called.table, called.facts or {}, call.symbols)
    agrees = kernel is not None and any(matches(kernel, called.facts or {}, symbol) for symbol in call.symbols)
    if agrees or (other is None and (kernel is None or not kernel.symbol)):
        if call.proved:
            recorder.attest(decision, OBSERVED)
    else:
        recorder.mismatch(decision, call.ran)
    return decision

"""Kernel-path assertions: did this test take the path that it is about, and if not, which predicate sent it
elsewhere?
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from dispatchcov.decide import Decision, FallbackReason, View, outside, show
from dispatchcov.errors import ExpressionError, UsageError, known
from dispatchcov.expr import Value, parse, to_text
from dispatchcov.formula import blame, every, holds, leaves
from dispatchcov.table import EVIDENCE, Partition, Rule, Table

SHOWN = 5


class DispatchTrace:
    """The decisions of one test, in order. Each ``assert_`` method raises ``AssertionError`` with the whole story.

    A decision with another kernel than the table's, or for facts outside the declared domain, reaches no partition and
    no rule and falls back from none, as in the report, which counts it apart.
    """

    def __init__(
        self,
        decisions: Sequence[Decision],
        evidence_of: Callable[[Decision], Collection[str]],
        tables: Callable[[], Iterable[Table]] = tuple,
    ) -> None:
        self._decisions = decisions
        self._evidence_of = evidence_of
        self._tables = tables
        self.asserted = False

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions so far."""
        return tuple(self._decisions)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels selected so far, or said to have run in their place, in order."""
        return tuple(decision.kernel for decision in self._decisions)

    def assert_reached(self, name: str, *, evidence: str | Iterable[str] = (), kernel: str | None = None) -> None:
        """Some decision is in partition (or rule) ``name``, has all of ``evidence`` and selected a kernel like
        ``kernel``.
        """
        __tracebackhide__ = True
        self.asserted = True
        needed = _evidence(evidence)
        found = self._known(name)
        inside = [decision for decision in self._decisions if not _wrong(decision) and _in(decision, name, found)]
        if not inside:
            raise AssertionError(self._not_reached(name, found))
        if kernel is not None:
            self._known_kernel(kernel)
        if kernel is not None and not any(fnmatch.fnmatchcase(decision.kernel, kernel) for decision in inside):
            got = ", ".join(sorted({decision.kernel for decision in inside}))
            raise AssertionError(f"expected a kernel like {kernel!r} in partition {name!r}, got {got}")
        seen = [set(self._evidence_of(decision)) for decision in inside]
        if needed and not any(needed <= evidence for evidence in seen):
            got = ", ".join(item for item in EVIDENCE if any(item in evidence for evidence in seen))
            wanted = ", ".join(item for item in EVIDENCE if item in needed)
            raise AssertionError(
                f"partition {name!r} was reached, expected evidence {wanted}; got {got} for {inside[0]!r}"
            )

    def assert_not_reached(self, name: str) -> None:
        """No decision is in partition (or rule) ``name``, not even one that does not count as a hit of it."""
        __tracebackhide__ = True
        self.asserted = True
        found = self._known(name)
        for decision in self._decisions:
            if _in(decision, name, found):
                raise AssertionError(f"expected partition {name!r} not to be reached\n{_selected(decision)}")

    def assert_kernel(self, pattern: str) -> None:
        """Some decision selected a kernel whose name is like ``pattern`` (``*`` and ``?`` as in file names)."""
        __tracebackhide__ = True
        self.asserted = True
        self._known_kernel(pattern)
        if not any(fnmatch.fnmatchcase(decision.kernel, pattern) for decision in self._decisions):
            raise AssertionError(f"expected a kernel like {pattern!r}\n{self._story(())}")

    def assert_fallback(self, rule: str, *, because: str | None = None) -> None:
        """Some decision passed over ``rule``; with ``because``, that predicate was the sole reason."""
        __tracebackhide__ = True
        self.asserted = True
        because = _canonical(because)
        self._known_fallback(rule, because)
        right = [decision for decision in self._decisions if not _wrong(decision)]
        reasons = [reason for decision in right for reason in decision.fallbacks if reason.rule == rule]
        if not any(because is None or reason.sole == because for reason in reasons):
            why = f" because of {because!r} alone" if because else ""
            raise AssertionError(f"expected a fallback from rule {rule!r}{why}\n{_reasons(reasons) or self._story(())}")

    def _known_kernel(self, pattern: str) -> None:
        """A pattern that fits no kernel of any table is a typing mistake, not a failing test."""
        __tracebackhide__ = True
        names = sorted({kernel.name for table in self._all_tables() for kernel in table.kernels})
        if names and not fnmatch.filter(names, pattern):
            raise UsageError(f"no kernel is like {pattern!r}; {known(pattern, names)}")

    def _known_fallback(self, rule: str, because: str | None) -> None:
        __tracebackhide__ = True
        tables = [table for table in self._all_tables() if any(item.name == rule for item in table.rules)]
        if not tables:
            names = [item.name for table in self._all_tables() for item in table.rules]
            raise UsageError(f"unknown rule {rule!r}; {self._kernel_hint(rule) or known(rule, dict.fromkeys(names))}")
        texts = [table.predicates[index].text for table in tables for index in leaves(table.rule(rule).guard)]
        if not texts:
            raise UsageError(f"rule {rule!r} has no guard: it takes all that comes to it, and no decision falls back")
        if because is not None and because not in texts:
            raise UsageError(f"unknown predicate {because!r} of rule {rule!r}; {known(because, texts)}")

    def _kernel_hint(self, name: str) -> str:
        """What to write where ``name`` is a kernel's in the place of a partition's or rule's, ``""`` if it is none."""
        rules = [rule for table in self._all_tables() for rule in table.rules if rule.kernel.name == name]
        if not rules and not any(kernel.name == name for table in self._all_tables() for kernel in table.kernels):
            return ""
        selecting = ", ".join(dict.fromkeys(rule.name for rule in rules)) or "no rule"
        return f"it is a kernel, selected by {selecting}; a kernel is asked for with kernel={name!r} or assert_kernel"

    def _all_tables(self) -> list[Table]:
        tables = [*(decision.table for decision in self._decisions), *self._tables()]
        return list({table.digest: table for table in tables}.values())

    def _known(self, name: str) -> list[tuple[Table, Partition]]:
        __tracebackhide__ = True
        tables = self._all_tables()
        found = [(table, partition) for table in tables if (partition := table.partition(name)) is not None]
        if not found and tables:
            names = [p.name for table in tables for p in table.partitions] + [r.name for t in tables for r in t.rules]
            hint = self._kernel_hint(name) or known(name, dict.fromkeys(names))
            raise UsageError(f"unknown partition {name!r}; {hint}")
        return found

    def _not_reached(self, name: str, found: Sequence[tuple[Table, Partition]]) -> str:
        ops = ", ".join(dict.fromkeys(table.op for table, _ in found))
        return f"expected partition {name!r}{f' of {ops}' if ops else ''} to be reached\n{self._story(found)}"

    def _story(self, found: Sequence[tuple[Table, Partition]]) -> str:
        if not self._decisions:
            return "no decision was recorded in this test"
        unique = list(dict.fromkeys(self._decisions))
        lines = [f"{len(self._decisions)} decision{'s' if len(self._decisions) > 1 else ''} in this test:"]
        for decision in unique[:SHOWN]:
            lines.append(_selected(decision))
            lines += [f"    not counted: {_wrong(decision)}"] if _wrong(decision) else []
            for table, partition in found:
                if table.rules_digest == decision.table.rules_digest:
                    lines += [f"    {line}" for line in why_not(decision, table, partition)]
        if len(unique) > SHOWN:
            lines.append(f"  ... and {len(unique) - SHOWN} other inputs")
        return "\n".join(lines)


def _evidence(given: str | Iterable[str]) -> set[str]:
    needed = {given} if isinstance(given, str) else set(given)
    for item in needed:
        if item not in EVIDENCE:
            raise UsageError(f"unknown evidence {item!r}; {known(item, EVIDENCE)}")
    return needed


def _in(decision: Decision, name: str, found: Iterable[tuple[Table, Partition]]) -> bool:
    """Is ``decision`` in a partition ``found`` under ``name``, of its table or of one with the same rules?"""
    if not decision.rule or decision.values is None:
        return False
    rule = decision.table.rule(decision.rule).index
    for table, partition in found:
        if table.rules_digest == decision.table.rules_digest and rule in partition.rules:
            same = table is decision.table
            vector = decision.vector if same else View.of(table, decision.machine).vector(decision.values)
            if holds(partition.condition, vector):
                return True
    return False


def _canonical(predicate: str | None) -> str | None:
    """``predicate`` as tables print it, whatever its spacing and quotes."""
    try:
        return predicate and to_text(parse(predicate))
    except ExpressionError:
        return predicate


def _wrong(decision: Decision) -> str:
    """Why ``decision`` is no hit of what the table selects for it, ``""`` if it is one."""
    if decision.values is None or not decision.rule:
        return ""
    table = decision.table
    if outside(table, decision.vector):
        facts = decision.facts or {}
        names = table.outside(facts)
        wanted = ", ".join(f"expected {name} to be {table.variable(name).domain()}" for name in names)
        return f"outside the declared domain: {wanted}, got {show({name: facts[name] for name in names})}"
    selected = table.rule(decision.rule).kernel.name
    return f"kernel {decision.kernel} ran, the table selects {selected}" if decision.kernel != selected else ""


def _selected(decision: Decision) -> str:
    rule = decision.table.rule(decision.rule) if decision.rule else None
    selected = f"{rule.name} -> {rule.kernel.name}" if rule else f"no rule -> {decision.kernel or 'no kernel'}"
    return f"  selected {selected} for {show(decision.facts or {})}"


def _reasons(reasons: Iterable[FallbackReason]) -> str:
    return "\n".join(f"  fell back from {reason}" for reason in dict.fromkeys(map(str, reasons)))


def why_not(decision: Decision, table: Table, partition: Partition) -> list[str]:
    """Which predicates, with which values, kept ``decision`` out of ``partition`` of ``table``, which has its rules."""
    facts = decision.facts or {}
    vector = View.of(table, decision.machine).vector(tuple(facts.values()))
    selected = next((rule for rule in table.rules if rule.name == decision.rule), None)
    lines = []
    for index in partition.rules:
        rule = table.rules[index]
        if selected is None or selected.index > index:
            lines.append(f"not {rule.name}: {_outcomes(table, blame(rule.guard, vector), vector, facts)}")
        elif selected.index < index:
            lines.append(
                f"{selected.name} comes before {rule.name} and its guard held{_held(table, selected, vector, facts)}"
            )
        elif not holds(partition.condition, vector):
            lines.append(f"in {rule.name}, but {_outcomes(table, blame(partition.condition, vector), vector, facts)}")
    return lines


def _held(table: Table, rule: Rule, vector: int, facts: Mapping[str, Value]) -> str:
    indices = blame(every(rule.guard), vector)
    return f": {_outcomes(table, indices, vector, facts)}" if indices else ""


def _outcomes(table: Table, indices: Iterable[int], vector: int, facts: Mapping[str, Value]) -> str:
    parts = []
    for index in indices:
        predicate = table.predicates[index]
        values = show({name: facts[name] for name in table.names if name in predicate.reads})
        parts.append(f"{predicate.text} is {str(bool(vector >> index & 1)).lower()} ({values})")
    return ", ".join(parts)

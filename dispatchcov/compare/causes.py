"""Which predicate moved a decision: the first rule, in table order, at which two decisions part."""

from __future__ import annotations

from collections.abc import Iterator

from dispatchcov.compare.paths import Decided, Labels
from dispatchcov.drift import Cause
from dispatchcov.expr import Value
from dispatchcov.table import show


def cause(was: Decided, now: Decided) -> Cause | None:
    """Where ``was`` and ``now``, perhaps of two versions of one table, part; None if they do not."""
    before = {rule.name for rule in was.table.rules}
    gone = was.rule is not None and was.name not in {rule.name for rule in now.table.rules}
    for name, step in now.steps.items():
        other = was.steps.get(name)
        if other is None and name in before:
            return _gone(was) if gone else _order(was, now, name)
        if other is None and step.held:
            return _new_rule(now, name)
        if other is None or (other.held and step.held):
            continue
        if (other.held, _label(was, name)) != (step.held, _label(now, name)):
            return _at(was, now, name)
    return _gone(was) if gone else None


def _gone(was: Decided) -> Cause:
    text = f"{was.name}: the table has no such rule any more"
    return Cause("table", was.name, was.steps[was.name].when(was.table), "", text, text)


def _order(was: Decided, now: Decided, name: str) -> Cause:
    text = f"{name}: comes before {was.name} now" if was.name else f"{name}: was not asked"
    when = now.steps[name].when(now.table)
    return Cause("table", name, when, when, text, text)


def _label(side: Decided, rule: str) -> str:
    step = side.steps[rule]
    return Labels.of(side.table).of_rule[step.rule][step.last]


def _new_rule(now: Decided, name: str) -> Cause:
    when = now.steps[name].when(now.table)
    text = f"{name}: a new rule, {when or 'which takes the rest'}"
    return Cause("table", name, "", when, text, f"{text} ({show(now.facts)})")


def _at(was: Decided, now: Decided, name: str) -> Cause:
    """The cause at rule ``name``, which both asked: the predicate whose outcome differs."""
    for label in _candidates(was, now, name):
        before, after = _predicate(was, name, label), _predicate(now, name, label)
        if before is None or after is None or before[1] != after[1]:
            return _told(name, before, after, was.facts == now.facts)
    guards = [side.steps[name].when(side.table) or "no guard" for side in (was, now)]
    text = f"{name}: its guard was {guards[0]}, is now {guards[1]}"
    return Cause("table", name, guards[0], guards[1], text, f"{text} ({show(now.facts)})")


def _candidates(was: Decided, now: Decided, name: str) -> Iterator[str]:
    """What settled the rule where it was not selected comes first."""
    for side in (was, now):
        if not side.steps[name].held:
            yield _label(side, name)
    for side in (was, now):
        yield _label(side, name)


Read = tuple[str, bool, dict[str, Value]]


def _predicate(side: Decided, name: str, label: str) -> Read | None:
    """Text, outcome and values of the predicate of rule ``name`` with ``label``."""
    index = Labels.of(side.table).predicate(side.steps[name].rule, label)
    if index is None:
        return None
    predicate = side.table.predicates[index]
    values = {name: side.facts[name] for name in side.table.names if name in predicate.reads}
    return predicate.text, bool(side.vector >> index & 1), values


def _told(rule: str, before: Read | None, after: Read | None, same_input: bool) -> Cause:
    if before is None or after is None:
        text, outcome, values = before or after or ("", False, {})
        what = (
            f"{text}, which was {_word(outcome)}, is no longer asked" if before else f"{text}, new, is {_word(outcome)}"
        )
        kind = "table" if same_input else "both"
        return Cause(
            kind, rule, text if before else "", text if after else "", f"{rule}: {what}", f"{rule}: {what}{_in(values)}"
        )
    was = f"{before[0]} was {_word(before[1])}"
    if before[0] == after[0]:
        kind = "table" if same_input else "input"
        is_now = f"is {_word(after[1])}"
        told = f"{rule}: {was}{_in(before[2])}, {is_now}{_in(after[2])}"
    else:
        kind = "table" if same_input else "both"
        is_now = f"is now {after[0]}, {_word(after[1])}"
        first = "" if before[2] == after[2] else _in(before[2])
        told = f"{rule}: {was}{first}, {is_now}{_in(after[2])}"
    return Cause(kind, rule, before[0], after[0], f"{rule}: {was}, {is_now}", told)


def _word(outcome: bool) -> str:
    return "true" if outcome else "false"


def _in(values: dict[str, Value]) -> str:
    return f" ({show(values)})" if values else ""

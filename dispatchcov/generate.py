"""The Python source of a table's decisions, generated from the whitelisted trees of its predicates.

Facts are local variables under their own names, which begin with a letter. All other names begin with ``_``, so no
variable of a table can stand in for one of them. The source reads no builtins.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import TYPE_CHECKING, Any

from dispatchcov.errors import UntotalError
from dispatchcov.expr import Value, may_divide_by_zero, to_python
from dispatchcov.flight import BEGUN, ENTRY, FACTS, LAST, STATE, entry
from dispatchcov.formula import Every, Formula, Leaf, Opposite

if TYPE_CHECKING:
    from dispatchcov.parts import Predicate, Variable
    from dispatchcov.table import Table

MAX_REMEMBERED = 1 << 16
# Between two calls no other thread runs and no signal is handled, if there is a global interpreter lock.
ONE_AT_A_TIME: bool = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


def remembered(bits: dict[Value, int], compute: Callable[[Value], int], value: Value) -> int:
    """``compute(value)``, kept in ``bits`` for the first 65,536 values."""
    found = bits.get(value)
    if found is None:
        found = compute(value)
        if len(bits) < MAX_REMEMBERED:
            bits[value] = found
    return found


def compiled(table: Table) -> CodeType:
    """The code of :func:`source`, to run in :func:`namespace`."""
    return compile(source(table), f"<dispatchcov {table.op}>", "exec")


def namespace(
    table: Table,
    decisions: Iterable[object],
    untotal: Callable[[tuple[Value, ...]], Exception],
    wrong: Callable[[tuple[Value, ...], Exception], Exception],
) -> dict[str, Any]:
    """All that the source may name: ``decisions`` are what each rule gives, ``untotal`` makes the error for no rule,
    ``wrong`` that for facts of which a predicate could not be evaluated.

    It decides without recording until ``_on`` is true; then ``_record``, the ``_count`` of a view, gets the facts.
    ``_note`` counts what ``_count`` cannot, and ``_cells``, ``_counts`` and ``_Decision`` are what it counts with.
    """
    return {
        "__builtins__": {},
        "__name__": "dispatchcov.generated",
        "min": min,
        "max": max,
        "_KeyError": KeyError,
        "_NoEntry": (struct.error, TypeError, ValueError),
        "_TypeError": TypeError,
        "_Untotal": UntotalError,
        "_Zero": ZeroDivisionError,
        "_cells": {},
        "_entry": entry(min(len(table.variables), FACTS)).pack_into,
        "_new": object.__new__,
        "_on": False,
        "_remembered": remembered,
        "_untotal": untotal,
        "_wrong": wrong,
        **{f"_rule{index}": decision for index, decision in enumerate(decisions)},
    }


def source(table: Table) -> str:
    """The source of the functions of a view; ``_record`` is ``_chain``, ``_note`` ``_unrecorded`` without a recorder.

    ``_decide`` takes keyword facts, ``_chain`` and ``_count`` positional ones. ``_vector`` joins the outcomes of all
    predicates: those over one variable are remembered by its value in ``_bits_<variable>``, where the bit after the
    last predicate says that the value is outside its domain. ``_count`` counts facts that are inside the bounds of a
    plain cell and hands all others to ``_note``; ``_extend`` widens the bounds. ``_hardware`` gives the values of the
    hardware variables, ``_enter`` begins the launch of a decision: its entry of the flight recorder is written without
    a further call.
    """
    facts = ", ".join(table.names)
    hardware = "".join(f"{name}, " for name in table.hardware)
    chain, total = _chain(table, f"({facts},)")
    tried = ["    try:", *(f"    {line}" for line in chain)]
    tried += ["    except (_TypeError, _Zero) as _error:", f"        raise _wrong(({facts},), _error) from None"]
    lines = [f"def _decide(*, {facts}):", f"    if _on: return _record({facts})", *tried]
    lines += [f"def _chain({facts}):", *tried, "def _unrecorded(_facts): return _chain(*_facts)"]
    lines += ["def _vector(_facts):", f"    {facts}, = _facts", *_raise_first(table, facts, total)]
    remembered = (f"_remembered(_bits_{name}, _outcomes_{name}, {name})" for name in table.names)
    lines += [f"    _v = {' | '.join(remembered)}", *_several(table), "    return _v"]
    lines += ["def _hardware(_facts):", f"    {facts}, = _facts", f"    return ({hardware})"]
    lines += [*_enter(table, facts), *_count(table, facts, hardware, total), *_extend(table, facts)]
    for variable in table.variables:
        lines += _outcomes(table, variable)
    return "\n".join([*lines, ""])


def _chain(table: Table, facts: str) -> tuple[list[str], bool]:
    """The if-chain of ``table``, and whether some rule takes every input that is left."""
    lines: list[str] = []
    for rule in table.rules:
        guard = _condition(rule.guard, table)
        if guard == "True":
            return [*lines, f"    return _rule{rule.index}"], True
        lines.append(f"    if {guard}: return _rule{rule.index}")
    return [*lines, f"    raise _untotal({facts})"], False


def _condition(formula: Formula, table: Table) -> str:
    match formula:
        case Leaf():
            return to_python(table.predicates[formula.index].expr)
        case Opposite():
            return f"not ({_condition(formula.operand, table)})"
    word = " and " if isinstance(formula, Every) else " or "
    return word.join(f"({_condition(part, table)})" for part in formula.operands) or str(word == " and ")


def _raise_first(table: Table, facts: str, total: bool) -> list[str]:
    """Where a predicate may divide by zero, the chain goes first: it raises what ``_decide`` would."""
    if not any(may_divide_by_zero(predicate.expr) for predicate in table.predicates):
        return []
    return [f"    _chain({facts})"] if total else [f"    try: _chain({facts})", "    except _Untotal: pass"]


def _several(table: Table) -> list[str]:
    """Adds to ``_v`` the bits of the predicates that do not read just one variable."""
    return _tests(predicate for predicate in table.predicates if len(predicate.reads) != 1)


def _tests(predicates: Iterable[Predicate]) -> list[str]:
    """Adds to ``_v`` the bits of those that hold; one that divides by zero does not."""
    lines = []
    for predicate in predicates:
        test = f"if {to_python(predicate.expr)}: _v |= {1 << predicate.index}"
        if may_divide_by_zero(predicate.expr):
            lines += ["    try:", f"        {test}", "    except _Zero: pass"]
        else:
            lines.append(f"    {test}")
    return lines


def ranged(table: Table) -> tuple[str, ...]:
    """The variables whose least and greatest values are kept: integers that do not list their values."""
    return tuple(variable.name for variable in table.variables if variable.type == "int" and not variable.values)


def _enter(table: Table, facts: str) -> list[str]:
    """The number is taken as a decision is counted: without a call."""
    shown = table.variables[:FACTS]
    places = {v.name: {value: place for place, value in enumerate(v.values)} for v in shown if v.type == "enum"}
    head = f"_entry(_flight.map, _place - {STATE}, _number, _cell.id, {BEGUN}, {len(shown)}, "
    known = [f"_code_{v.name}[{v.name}]" if v.name in places else v.name for v in shown]
    others = [f"_code_{v.name}.get({v.name}, -1)" if v.name in places else v.name for v in shown]
    lines = ["def _enter(_self):", "    _cell = _self.cell", "    _recorder = _cell.context.recorder"]
    lines += ["    _self.flight = _flight = _recorder.flight", "    if _flight is not None:"]
    number = f"_flight.number + {ENTRY}" if ONE_AT_A_TIME else "_flight.next()"
    lines += [f"        _flight.number = _number = {number}", f"        _self.place = _place = _number & {LAST}"]
    lines += ["        try:", f"            if _flight.map[_place] == {BEGUN}:"]
    following = "" if ONE_AT_A_TIME else ", _flight.next"
    lines.append(f"                _number = _flight.free(_self{following})")
    lines.append(f"                _self.place = _place = _number & {LAST}")
    lines += [f"            {facts}, = _self.values", f"            try: {head}{', '.join(known)})"]
    lines += [f"            except _KeyError: {head}{', '.join(others)})"]
    lines += ["        except _NoEntry: _flight.without_facts(_number, _cell.id)"]
    lines += ["    if _recorder.observer is not None: _recorder.observer.enter(_self)", "    return _self"]
    return lines + [f"_code_{name} = {codes!r}" for name, codes in places.items()]


def _count(table: Table, facts: str, hardware: str, total: bool) -> list[str]:
    """From the look-up of the cell to its count there is no call, so no other thread can close the cell between."""
    lines = [f"def _count({facts}):", *_raise_first(table, facts, total)]
    lines += [f"    _facts = ({facts},)", "    _decision = _new(_Decision)", "    _decision.values = _facts"]
    body = ["_v = " + " | ".join(f"_bits_{name}[{name}]" for name in table.names)]
    body += [line.removeprefix("    ") for line in _several(table)]
    body += [f"_cell = _cells[_v, {hardware}]" if hardware else "_cell = _cells[_v,]"]
    if ranged(table):
        body.append(f"{', '.join(f'_low_{name}, _high_{name}' for name in ranged(table))}, = _cell.bounds")
    inside = "".join(f" and _low_{name} <= {name} <= _high_{name}" for name in ranged(table))
    body += [f"if _cell.plain{inside}:", "    _counts[_cell.slot] += 1", "    _decision.cell = _cell"]
    body += ["    return _decision"]
    lines += ["    try:", *(f"        {line}" for line in body), "    except (_KeyError, _TypeError): pass"]
    return [*lines, "    return _note(_facts)"]


def _extend(table: Table, facts: str) -> list[str]:
    lines = ["def _extend(_bounds, _extremes, _facts):", f"    {facts}, = _facts"]
    for i, name in enumerate(ranged(table)):
        for place, sign in ((2 * i, "<"), (2 * i + 1, ">")):
            change = f"_bounds[{place}] = {name}; _extremes[{place}] = _facts"
            lines.append(f"    if {name} {sign} _bounds[{place}]: {change}")
    return lines


def _outcomes(table: Table, variable: Variable) -> list[str]:
    name = variable.name
    own = [predicate for predicate in table.predicates if predicate.reads == {name}]
    domain = _domain(variable)
    lines = [f"def _outcomes_{name}({name}):", "    _v = 0", *_tests(own)]
    if domain:
        lines.append(f"    if not ({domain}): _v |= {1 << len(table.predicates)}")
    return [*lines, "    return _v", f"_bits_{name} = {{}}"]


def _domain(variable: Variable) -> str:
    if variable.values:
        return f"{variable.name} in {variable.values!r}"
    parts = []
    if variable.min is not None:
        parts.append(f"{variable.min} <= {variable.name}")
    if variable.max is not None:
        parts.append(f"{variable.name} <= {variable.max}")
    if variable.multiple_of > 1:
        parts.append(f"{variable.name} % {variable.multiple_of} == 0")
    return " and ".join(parts)

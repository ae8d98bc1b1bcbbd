"""The Python source of a table's decisions, generated from the whitelisted trees of its predicates.

Facts are local variables under their own names, which begin with a letter. All other names begin with ``_``, so no
variable of a table can stand in for one of them. The source reads no builtins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType
from typing import TYPE_CHECKING, Any

from dispatchcov.errors import FactsError
from dispatchcov.expr import Value, may_divide_by_zero, to_python
from dispatchcov.formula import Every, Formula, Leaf, Opposite

if TYPE_CHECKING:
    from dispatchcov.parts import Predicate, Variable
    from dispatchcov.table import Table

MAX_REMEMBERED = 1 << 16


class Bits(dict[Value, int]):
    """Outcomes of the predicates over one variable, by its value; the first 65,536 values are remembered."""

    def __init__(self, compute: Callable[[Value], int]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, value: Value) -> int:
        bits = self._compute(value)
        if len(self) < MAX_REMEMBERED:
            self[value] = bits
        return bits


def compiled(table: Table) -> CodeType:
    """The code of :func:`source`, to run in :func:`namespace`."""
    return compile(source(table), f"<dispatchcov {table.op}>", "exec")


def namespace(
    table: Table, decisions: Iterable[object], untotal: Callable[[tuple[Value, ...]], Exception]
) -> dict[str, Any]:
    """All that the source may name: ``decisions`` are what each rule gives, ``untotal`` makes the error for no rule.

    It decides without recording until ``_on`` is true; then ``_record`` gets the facts.
    """
    return {
        "__builtins__": {},
        "__name__": "dispatchcov.generated",
        "min": min,
        "max": max,
        "_Bits": Bits,
        "_Untotal": FactsError,
        "_Zero": ZeroDivisionError,
        "_on": False,
        "_untotal": untotal,
        **{f"_rule{index}": decision for index, decision in enumerate(decisions)},
    }


def source(table: Table) -> str:
    """The source of the functions of a view; ``_unrecorded`` is what ``_record`` is while nothing records.

    ``_decide`` takes keyword facts and ``_chain`` positional ones. ``_vector`` joins the outcomes of all predicates:
    those over one variable are remembered by its value in ``_bits_<variable>``, where the bit after the last
    predicate says that the value is outside its domain. ``_locate`` finds the cell of facts and says whether they are
    inside its bounds; ``_extend`` widens the bounds. ``_hardware`` gives the values of the hardware variables.
    """
    facts = ", ".join(table.names)
    hardware = "".join(f"{name}, " for name in table.hardware)
    chain, total = _chain(table, f"({facts},)")
    vector = _vector(table, facts, total)
    lines = [f"def _decide(*, {facts}):", f"    if _on: return _record(({facts},))", *chain]
    lines += [f"def _chain({facts}):", *chain]
    lines += ["def _unrecorded(_facts): return _chain(*_facts)", "_record = _unrecorded"]
    lines += ["def _vector(_facts):", *vector, "    return _v"]
    lines += ["def _hardware(_facts):", f"    {facts}, = _facts", f"    return ({hardware})"]
    lines += _locate(table, vector, hardware) + _extend(table, facts)
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


def _vector(table: Table, facts: str, total: bool) -> list[str]:
    """Sets ``_v``. Where a predicate may divide by zero, the chain goes first: it raises what ``_decide`` would."""
    lines = [f"    {facts}, = _facts"]
    if any(may_divide_by_zero(predicate.expr) for predicate in table.predicates):
        lines += ["    _chain(*_facts)"] if total else ["    try: _chain(*_facts)", "    except _Untotal: pass"]
    lines.append("    _v = " + " | ".join(f"_bits_{name}[{name}]" for name in table.names))
    return lines + _tests(predicate for predicate in table.predicates if len(predicate.reads) != 1)


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


def _locate(table: Table, vector: list[str], hardware: str) -> list[str]:
    lines = ["def _locate(_facts, _cells):", *vector, f"    _cell = _cells.get((_v, {hardware}))"]
    lines.append("    if _cell is None: return None, False")
    if ranged(table):
        lines.append(f"    {', '.join(f'_low_{name}, _high_{name}' for name in ranged(table))}, = _cell.bounds")
    inside = " and ".join(f"_low_{name} <= {name} <= _high_{name}" for name in ranged(table)) or "True"
    return [*lines, f"    return _cell, {inside}"]


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
    return [*lines, "    return _v", f"_bits_{name} = _Bits(_outcomes_{name})"]


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

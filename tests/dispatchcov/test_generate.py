from __future__ import annotations

import builtins
import dis
import types

import pytest
from hypothesis import given, settings

from dispatchcov import expr as ex
from dispatchcov.decide import outside, select
from dispatchcov.errors import FactsError
from dispatchcov.expr import Expr, Facts, Value
from dispatchcov.generate import MAX_REMEMBERED, compiled, ranged, remembered, source
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.table import Table
from tests.dispatchcov.expressions import FACTS, tables
from tests.dispatchcov.small_table import SMALL, changed

EACH = settings(max_examples=80, deadline=None)
MACHINE = "a machine"


def interpreted(table: Table, guards: list[Expr], facts: Facts) -> str:
    """The rule that an interpreter selects, or what it raises."""
    try:
        for index, guard in enumerate(guards):
            if ex.evaluate(guard, facts):
                return f"r{index}"
    except ZeroDivisionError:
        return "ZeroDivisionError"
    return "rest" if len(table.rules) > len(guards) else "FactsError"


def outcome(tree: Expr, facts: Facts) -> bool:
    try:
        return bool(ex.evaluate(tree, facts))
    except ZeroDivisionError:
        return False


@EACH
@given(tables(), FACTS)
def test_the_compiled_decision_is_the_interpreted_one(made: tuple[Table, list[Expr]], facts: Facts) -> None:
    table, guards = made
    wanted = interpreted(table, guards, facts)
    try:
        assert table.decide(**facts).rule == wanted
    except FactsError as error:
        got = "ZeroDivisionError" if isinstance(error, ZeroDivisionError) else "FactsError"
        message = str(error)
    else:
        got, message = wanted, ""
    assert got == wanted
    assert wanted != "FactsError" or message.startswith("random::table: no rule takes M=")


@EACH
@given(tables(), FACTS)
def test_the_vector_has_the_outcome_of_every_predicate(made: tuple[Table, list[Expr]], facts: Facts) -> None:
    table, guards = made
    values = tuple(facts[name] for name in table.names)
    wanted = interpreted(table, guards, facts)
    view = table.on(MACHINE)
    if wanted == "ZeroDivisionError":
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                view.vector(values)
        return
    vector = view.vector(values)
    bits = [bool(vector >> predicate.index & 1) for predicate in table.predicates]
    assert bits == [outcome(predicate.expr, facts) for predicate in table.predicates]
    assert outside(table, vector) == bool(table.outside(facts))
    assert vector >> len(bits) in (0, 1)
    assert view.vector(values) == vector, "remembered outcomes are the same"
    index = select(table, vector)
    assert (table.rules[index].name if index is not None else "FactsError") == wanted
    assert view.hardware(values) == (facts["c"],)


@pytest.mark.parametrize("last", ["", '\nwhen = "bias"'], ids=["total", "partial"])
def test_what_divides_by_zero(last: str) -> None:
    plain = 'name = "plain"\nkernel = "Plain"'
    text = changed(("N % 4 == 0 and rows > 32", "bias and (sm % N == 0 or 8 % N == 3)"), (plain, plain + last))
    vector = parse_table(text).on(MACHINE).vector
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            vector((0, 80, "float16", True))
        assert vector((0, 80, "float16", False)) & 0b111 == 0, "not read, and neither of both holds"
        assert vector((5, 80, "float16", True)) & 0b111 == 0b111


def test_a_remembered_outcome_is_that_of_an_equal_value() -> None:
    table = parse_table(SMALL)
    vector = table.on(MACHINE).vector
    assert vector((1, 80, "float16", True)) == vector((True, 80, "float16", 1))
    assert vector((4.0, 80, "float16", True)) == vector((4, 80, "float16", True))  # type: ignore[arg-type]


def test_remembered_outcomes_are_bounded() -> None:
    asked = []

    def compute(value: object) -> int:
        asked.append(value)
        return 7

    bits: dict[Value, int] = {}
    assert [remembered(bits, compute, value) for value in (1, 1, 2)] == [7, 7, 7]
    assert asked == [1, 2]
    for value in range(MAX_REMEMBERED + 10):
        remembered(bits, compute, value)
    assert len(bits) == MAX_REMEMBERED
    with pytest.raises(TypeError):
        remembered(bits, compute, [])  # type: ignore[arg-type]


def codes(code: types.CodeType) -> list[types.CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [code, *(found for each in inner for found in codes(each))]


@EACH
@given(tables())
def test_generated_code_names_nothing_but_facts_and_its_own(made: tuple[Table, list[Expr]]) -> None:
    table, _ = made
    for code in codes(compiled(table)):
        assert set(code.co_varnames) - set(table.names) == {name for name in code.co_varnames if name.startswith("_")}
        loaded = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        assert all(name.startswith("_") or name in ("min", "max") for name in loaded), loaded
        assert not any(instruction.opname.startswith("IMPORT") for instruction in dis.get_instructions(code))


def test_generated_code_has_no_builtins() -> None:
    table = parse_table(SMALL)
    assert vars(builtins).keys().isdisjoint(table.decide.__globals__["__builtins__"])


NASTY = [
    'a"b',
    "a'b",
    "\\",
    "\\'",
    "a\nb",
    '"""',
    "'''",
    "{x}",
    "%s",
    "#",
    "\x00",
    "\u2028",
    "'); raise SystemExit #",
    "日本",
]


@pytest.mark.parametrize("value", NASTY)
def test_strings_stay_strings(value: str) -> None:
    escaped = "".join(f"\\U{ord(char):08x}" for char in value)
    literal = "'" + "".join(f"\\\\U{ord(char):08x}" for char in value) + "'"
    text = changed(
        ('"float16", "float32"', f'"{escaped}", "other"'), ("N % 4 == 0 and rows > 32", f"dtype == {literal}")
    )
    table = parse_table(text)
    assert table.variable("dtype").values == (value, "other")
    assert table.decide(N=1, sm=80, dtype=value, bias=True).rule == "vec4"
    assert table.decide(N=1, sm=80, dtype="other", bias=True).rule == "plain"
    view = table.on(MACHINE)
    assert [outside(table, view.vector((1, 80, each, True))) for each in (value, "other", value + "x")] == [
        False,
        False,
        True,
    ]


def test_the_source_of_a_small_table() -> None:
    head = 'N = { type = "int", min = 0 }\n'
    text = SMALL[: SMALL.index("[variables]")] + "[variables]\n" + head + 'x = { type = "bool", hardware = true }\n'
    text += '[[kernel]]\nname = "k"\n[[rule]]\nname = "a"\nwhen = "N % 4 == 0 or not x"\nkernel = "k"\n'
    table = parse_table(text + '[[rule]]\nname = "b"\nkernel = "k"\n')
    assert ranged(table) == ("N",)
    assert (
        source(table)
        == """\
def _decide(*, N, x):
    if _on: return _record(N, x)
    try:
        if (N % 4 == 0) or (not (x)): return _rule0
        return _rule1
    except (_TypeError, _Zero) as _error:
        raise _wrong((N, x,), _error) from None
def _chain(N, x):
    try:
        if (N % 4 == 0) or (not (x)): return _rule0
        return _rule1
    except (_TypeError, _Zero) as _error:
        raise _wrong((N, x,), _error) from None
def _unrecorded(_facts): return _chain(*_facts)
def _vector(_facts):
    N, x, = _facts
    _v = _remembered(_bits_N, _outcomes_N, N) | _remembered(_bits_x, _outcomes_x, x)
    return _v
def _hardware(_facts):
    N, x, = _facts
    return (x, )
def _enter(_self):
    _cell = _self.cell
    _recorder = _cell.context.recorder
    _self.flight = _flight = _recorder.flight
    if _flight is not None:
        _flight.number = _number = _flight.number + 256
        _self.place = _place = _number & 16383
        try:
            if _flight.map[_place] == 1:
                _number = _flight.free(_self)
                _self.place = _place = _number & 16383
            N, x, = _self.values
            try: _entry(_flight.map, _place - 16, _number, _cell.id, 1, 2, N, x)
            except _KeyError: _entry(_flight.map, _place - 16, _number, _cell.id, 1, 2, N, x)
        except _NoEntry: _flight.without_facts(_number, _cell.id)
    if _recorder.observer is not None: _recorder.observer.enter(_self)
    return _self
def _count(N, x):
    _facts = (N, x,)
    _decision = _new(_Decision)
    _decision.values = _facts
    try:
        _v = _bits_N[N] | _bits_x[x]
        _cell = _cells[_v, x, ]
        _low_N, _high_N, = _cell.bounds
        if _cell.plain and _low_N <= N <= _high_N:
            _counts[_cell.slot] += 1
            _decision.cell = _cell
            return _decision
    except (_KeyError, _TypeError): pass
    return _note(_facts)
def _extend(_bounds, _extremes, _facts):
    N, x, = _facts
    if N < _bounds[0]: _bounds[0] = N; _extremes[0] = _facts
    if N > _bounds[1]: _bounds[1] = N; _extremes[1] = _facts
def _outcomes_N(N):
    _v = 0
    if N % 4 == 0: _v |= 1
    if not (0 <= N): _v |= 4
    return _v
_bits_N = {}
def _outcomes_x(x):
    _v = 0
    if x: _v |= 2
    if not (x in (False, True)): _v |= 4
    return _v
_bits_x = {}
"""
    )


def test_a_table_without_ranges_or_hardware() -> None:
    head = '[table]\nop = "x"\n[variables]\nb = { type = "bool" }\n'
    text = head + '[[kernel]]\nname = "k"\n[[rule]]\nname = "a"\nkernel = "k"\n'
    view = parse_table(text).on(MACHINE)

    assert view.hardware((True,)) == ()
    view.extend([], [], (True,))
    with Recorder(None) as recorder:
        for _ in range(3):
            view.decide(b=True)
        (cell,) = recorder.context.cells
        assert recorder.counts[cell.slot] == 3


@EACH
@given(tables())
def test_nothing_can_come_between_the_number_of_a_launch_and_the_next(made: tuple[Table, list[Expr]]) -> None:
    table, _ = made
    each = [(step.opname, step.argval) for step in dis.get_instructions(table.on(MACHINE).enter.__code__)]
    begun, stored = (each.index((name, "number")) for name in ("LOAD_ATTR", "STORE_ATTR"))
    number = [name for name, _ in each[begun:stored]]
    assert "BINARY_OP" in number or "BINARY_ADD" in number
    assert not any(name.startswith(("CALL", "PRECALL", "JUMP_BACKWARD", "RESUME")) for name in number), number


@EACH
@given(tables())
def test_nothing_can_come_between_the_look_up_of_a_cell_and_its_count(made: tuple[Table, list[Expr]]) -> None:
    table, _ = made
    code = table.on(MACHINE).decide.__globals__["_count"].__code__
    steps = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    start = next(i for i, step in enumerate(steps) if step == ("LOAD_GLOBAL", "_cells"))
    counted = next(i for i in range(start, len(steps)) if steps[i][0] == "STORE_SUBSCR")
    between = {name for name, _ in steps[start:counted]}
    assert "BINARY_SUBSCR" in between or "BINARY_OP" in between
    assert not any(name.startswith(("CALL", "PRECALL", "JUMP_BACKWARD", "RESUME")) for name in between), between

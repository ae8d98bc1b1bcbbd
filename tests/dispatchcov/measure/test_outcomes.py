"""Outcomes of predicates against Python's own short-circuit evaluation of the guards, over every input of a table."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dispatchcov.items import Item
from dispatchcov.loading.load import parse_table
from dispatchcov.measure.outcomes import guards
from dispatchcov.results import Results
from tests.dispatchcov.build import data, row

TEXT = """
[table]
op = "demo::outcomes"
[variables]
a = { type = "int", min = 0, max = 5 }
b = { type = "int", min = 0, max = 3 }
x = { type = "bool" }
[let]
wide = "a >= 2 and x"
[[kernel]]
name = "K"
[[rule]]
name = "first"
when = "a == 0 or wide"
kernel = "K"
[[rule]]
name = "second"
when = "a > 0 and (b == 1 or not x and a < 4)"
kernel = "K"
[[rule]]
name = "third"
when = "not (b > 1 and b < 1)"
kernel = "K"
[[rule]]
name = "never"
when = "b == 3"
kernel = "K"
"""
TABLE = parse_table(TEXT)
Read = Callable[[str, bool], bool]
PYTHON: dict[str, Callable[[Any, Any, Any, Read], bool]] = {
    "first": lambda a, b, x, r: r("a == 0", a == 0) or (r("a >= 2", a >= 2) and r("x", x)),
    "second": lambda a, b, x, r: r("a > 0", a > 0) and (r("b == 1", b == 1) or (not r("x", x) and r("a < 4", a < 4))),
    "third": lambda a, b, x, r: not (r("b > 1", b > 1) and r("b < 1", b < 1)),
    "never": lambda a, b, x, r: r("b == 3", b == 3),
}
INPUTS = list(itertools.product(range(6), range(4), (False, True)))


def expected(inputs: list[tuple[int, int, bool]]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for a, b, x in inputs:
        for name, guard in PYTHON.items():

            def read(text: str, value: bool, name: str = name) -> bool:
                counts[name, f"{text}: {str(value).lower()}"] += 1
                return value

            if guard(a, b, x, read):
                break
            counts[name, "passed"] += 1
    return counts


def measured(inputs: list[tuple[int, int, bool]]) -> dict[tuple[str, str], Item]:
    results = Results.of(data(TABLE, *(row(TABLE, a=a, b=b, x=x) for a, b, x in inputs)), (TABLE,))
    found = guards(results, results.tables[0])
    items = [side for guard in found for sides in guard.predicates for side in sides]
    return {(item.name, item.detail): item for item in [*items, *(guard.passed for guard in found)]}


def test_every_input() -> None:
    counts, items = expected(INPUTS), measured(INPUTS)
    assert len(items) == 2 * 10 + 4
    assert {key: item.reach.hits for key, item in items.items()} == {key: counts[key] for key in items}
    assert {key for key, item in items.items() if item.state == "unreachable"} == {k for k in items if not counts[k]}
    assert ("third", "b < 1: true") in {key for key, item in items.items() if item.state == "unreachable"}


@pytest.mark.parametrize("inputs", [INPUTS[:1], INPUTS[9:12], INPUTS[::7]])
def test_some_inputs(inputs: list[tuple[int, int, bool]]) -> None:
    counts, possible = expected(inputs), expected(INPUTS)
    for key, item in measured(inputs).items():
        assert item.reach.hits == counts[key]
        assert item.state == ("hit" if counts[key] else "missed" if possible[key] else "unreachable"), key


def test_how_often_a_guard_was_evaluated() -> None:
    results = Results.of(data(TABLE, *(row(TABLE, a=a, b=b, x=x) for a, b, x in INPUTS)), (TABLE,))
    first, second, third, never = guards(results, results.tables[0])
    assert first.evaluated == len(INPUTS)
    assert second.evaluated == first.passed.reach.hits == len(INPUTS) - first.taken.reach.hits
    assert third.taken.reach.hits == third.evaluated > 0
    assert never.evaluated == 0


def test_an_outcome_that_needs_other_hardware_is_elsewhere() -> None:
    hardware = 'sm = { type = "int", values = [80, 90], hardware = true }'
    text = TEXT.replace("[let]", f"{hardware}\n[let]").replace('"not (b > 1 and b < 1)"', '"sm == 90"')
    text += '[[rule]]\nname = "rest"\nkernel = "K"\n'
    table = parse_table(text)
    results = Results.of(data(table, row(table, a=1, b=0, x=True, sm=80)), (table,))
    sides = guards(results, results.tables[0])[2].predicates[0]
    assert [side.state for side in sides] == ["elsewhere", "hit"]

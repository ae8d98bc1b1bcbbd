"""The page's decisions are Python's: ``page/dispatch.js`` against the table itself, on random tables and facts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchcov import decide
from dispatchcov.decide import View
from dispatchcov.explain import explain
from dispatchcov.expr import Bin, Const, Expr, Value, Var, evaluate, to_text
from dispatchcov.formula import every, holds
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.report.html_data import decided, scalar, tree
from dispatchcov.space.domain import outcome
from dispatchcov.table import Table
from tests.dispatchcov import expressions, random_tables
from tests.dispatchcov.report.chromium import Node

SCRIPT = resources.files("dispatchcov.report").joinpath("page", "dispatch.js").read_text(encoding="utf-8")
ANSWER = """
const plain = (value) => (typeof value === "bigint" ? { int: String(value) } : value);
const answer = ({ table, facts, tree, values }) => {
  if (!tree) return Dispatch.decide(table, Dispatch.factsOf(table, facts));
  const named = new Map(values.map(([name, value]) => [name, Dispatch.literal(value)]));
  return [plain(Dispatch.attempt(tree, named)), Dispatch.text(tree)];
};
"""
INTEGERS = st.one_of(st.integers(-9, 9), st.integers(-(10**40), 10**40))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    process = Node(SCRIPT + ANSWER)
    yield process
    process.close()


def expected(table: Table, facts: dict[str, Value]) -> dict[str, Any]:
    """What the page should say, from the table's own functions."""
    outcomes = [outcome(predicate.expr, facts) for predicate in table.predicates]
    vector = sum(1 << index for index, value in enumerate(outcomes) if value)
    said: dict[str, Any] = {"outcomes": outcomes, "rule": None, "zero": None, "partitions": [], "contract": True}
    said["outside"] = list(table.outside(facts))
    try:
        View.apart(table).vector(tuple(facts[name] for name in table.names))
    except ZeroDivisionError:
        return said | {"zero": True}
    said["rule"], settled = decide.path(table, vector)
    said["settled"] = list(settled)
    texts = [predicate.text for predicate in table.predicates]
    said["fallbacks"] = [
        (reason.rule, list(reason.failed), reason.sole) for reason in decide.fallbacks(table, facts, vector)
    ]
    assert len(set(texts)) == len(texts)
    if said["rule"] is not None:
        rule = table.rules[said["rule"]]
        said["contract"] = holds(rule.kernel.requires, vector)
        said["partitions"] = [
            [partition.name, bin.label]
            for partition in table.partitions
            for bin in partition.bins
            if rule.index in partition.rules and holds(every(partition.condition, bin.condition), vector)
        ]
    return said


def agree(node: Node, table: Table, facts: dict[str, Value]) -> None:
    """The script's decision is the table's."""
    said = node.ask({"table": decided(table), "facts": [scalar(facts[name]) for name in table.names]})
    wanted = expected(table, facts)
    names = [rule.name for rule in table.rules]
    if wanted["zero"]:
        assert said["zero"] is not None
        if not wanted["outside"]:
            assert f"{table.predicates[said['zero']].text} divides by zero" in explain(table, facts)
        for key in ("outcomes", "rule", "outside"):
            assert said[key] == wanted[key]
        return
    said["fallbacks"] = [
        (names[reason["rule"]], [failed(table, said, index) for index in reason["failed"]], sole(table, reason["sole"]))
        for reason in said["fallbacks"]
    ]
    assert said == wanted


def failed(table: Table, said: dict[str, Any], index: int) -> str:
    text = table.predicates[index].text
    return f"not ({text})" if said["outcomes"][index] else text


def sole(table: Table, index: int | None) -> str | None:
    return None if index is None else table.predicates[index].text


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=expressions.tables(), facts=expressions.FACTS, large=INTEGERS, other=INTEGERS)
def test_random_guards_with_integers_of_any_size(
    node: Node, drawn: tuple[Table, list[Expr]], facts: dict[str, Value], large: int, other: int
) -> None:
    table, _ = drawn
    agree(node, table, facts)
    agree(node, table, facts | {"M": large, "N": other})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=random_tables.tables(shared=True, contracts=True), data=st.data())
def test_random_tables_with_partitions_and_contracts(node: Node, table: Table, data: st.DataObject) -> None:
    facts = {v.name: data.draw(st.sampled_from(random_tables.values(v)), label=v.name) for v in table.variables}
    agree(node, table, facts)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    op=st.sampled_from(["//", "%", "+", "-", "*"]),
    left=st.one_of(INTEGERS, st.integers(-(2**70), 2**70)),
    right=st.one_of(st.integers(-9, 9), st.integers(-(2**70), 2**70)),
)
def test_arithmetic_is_that_of_python(node: Node, op: str, left: int, right: int) -> None:
    expr = Bin(op, Var("a"), Const(right))
    said, _ = node.ask({"tree": tree(expr), "values": [["a", scalar(left)]]})
    try:
        assert said == {"int": str(evaluate(expr, {"a": left}))}
    except ZeroDivisionError:
        assert said is None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(expressions.NUMBERS, INTEGERS, INTEGERS)
def test_sides_are_computed_and_written_as_python_does(node: Node, expr: Expr, m: int, n: int) -> None:
    said, text = node.ask({"tree": tree(expr), "values": [["M", scalar(m)], ["N", scalar(n)]]})
    assert text == to_text(expr)
    try:
        assert said == {"int": str(evaluate(expr, {"M": m, "N": n}))}
    except ZeroDivisionError:
        assert said is None


def test_fp4ops_at_its_edges(node: Node) -> None:
    table = load_table("fp4ops/dispatch.toml")
    start: dict[str, Value] = {"M": 1, "N": 32, "K": 128, "block_size": 16, "dtype": "float16", "bias": False}
    start |= {"sm": 90, "native": False, "dequantize": "auto"}
    changes: list[dict[str, Value]] = [
        {}, {"M": 0}, {"K": 0}, {"M": 9}, {"N": 65536, "block_size": 2}, {"K": 3}, {"sm": 1}, {"M": -1},
    ]  # fmt: skip
    for change in changes:
        agree(node, table, start | change)


def test_names_that_javascript_knows_are_names_like_others(node: Node) -> None:
    table = parse_table(
        "[table]\nop = 'o'\n[variables]\nconstructor = { type = 'int' }\ntoString = { type = 'bool' }\n"
        "[[kernel]]\nname = '__proto__'\n[[rule]]\nname = 'valueOf'\nwhen = 'constructor % 2 == 0 and toString'\n"
        "kernel = '__proto__'\n[[rule]]\nname = 'hasOwnProperty'\nkernel = '__proto__'\n"
    )
    for number in (-3, 2, 1 << 60):
        agree(node, table, {"constructor": number, "toString": True})


def test_the_script_makes_no_code_of_text() -> None:
    for file in resources.files("dispatchcov.report").joinpath("page").iterdir():
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"\beval\b|Function\(|(inner|outer|insertAdjacent)HTML|document\.write", text), file

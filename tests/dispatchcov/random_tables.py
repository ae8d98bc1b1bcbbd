"""Random small tables, and what a table does found out by trying every input of it."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from dispatchcov.decide import DEFAULT_MACHINE, View, path
from dispatchcov.domain import size
from dispatchcov.expr import Value
from dispatchcov.load import parse_table
from dispatchcov.table import Table, Variable

INTS = ("a", "b")
NAMES = ("a", "b", "c", "e", "flag")
CONSTANT = st.integers(-7, 9)
DIVISOR = st.sampled_from([1, 2, 3, 4, 6, -2, -3])


@functools.cache
def numbers(name: str, *, products: bool = False) -> st.SearchStrategy[str]:
    """Expressions over the one variable ``name``, mostly quasi-affine."""

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        forms = [
            st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner),
            st.builds("{} * ({})".format, CONSTANT, inner),
            st.builds("({}) {} {}".format, inner, st.sampled_from(["//", "%"]), DIVISOR),
            st.builds("{} {} ({} + {})".format, CONSTANT, st.sampled_from(["//", "%"]), inner, st.just(name)),
            st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
            st.builds("ceildiv({}, {})".format, inner, DIVISOR),
            st.builds("-({})".format, inner),
        ]
        if products:
            forms.append(st.builds("({}) * ({})".format, inner, inner))
        return st.one_of(forms)

    return st.recursive(st.one_of(st.just(name), st.just(name), CONSTANT.map(str)), larger, max_leaves=4)


@functools.cache
def comparisons(name: str, *, products: bool = False) -> st.SearchStrategy[str]:
    """Comparisons of expressions over ``name``, which is always read; many hold for all values or none."""
    relation = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    number = numbers(name, products=products)
    listed = st.lists(CONSTANT, min_size=1, max_size=3).map(str)
    return st.one_of(
        st.builds("{} {} {}".format, number, relation, CONSTANT),
        st.builds("{} {} {}".format, number, relation, number),
        st.builds("{} <= {} < {}".format, st.integers(-7, 2), number, st.integers(0, 9)),
        st.builds("{} {} {}".format, number, st.sampled_from(["in", "not in"]), listed),
    ).filter(lambda text: re.search(rf"\b{name}\b", text) is not None)


OTHER = st.sampled_from(
    ["e == 'x'", "e != 'y'", "e in ['x', 'z']", "flag", "not flag", "flag == False"]
    + ["c >= 4", "c % 3 == 1", "c in [2, 90]", "12 % (c - 2) == 2", "(flag or not flag) == flag"]
)
SHARED = st.sampled_from(["a < b", "a * b >= 12", "a % (b * b + 1) == 0", "a == b", "a + c > 9", "a // b == 1", "b < c"])


@functools.cache
def even(name: str) -> st.SearchStrategy[str]:
    """Comparisons that hold for about as many values as not."""
    return st.one_of(
        st.builds("{} % {} == {}".format, st.just(name), st.sampled_from([2, 3, 4]), st.integers(0, 1)),
        st.builds("{} {} {}".format, st.just(name), st.sampled_from(["<=", ">", "!="]), st.integers(-3, 5)),
    )


@functools.cache
def predicates(*, shared: bool) -> st.SearchStrategy[str]:
    one = st.one_of(even("a"), even("a"), even("b"), even("b"), comparisons("a"), comparisons("b"), OTHER, OTHER)
    return st.one_of(one, one, SHARED) if shared else one


@functools.cache
def conditions(*, shared: bool = False) -> st.SearchStrategy[str]:
    """Guards: up to three clauses, which are predicates under ``and``, ``or`` and ``not``."""
    one = predicates(shared=shared)
    clause = st.one_of(
        one,
        one,
        one.map("not ({})".format),
        st.builds("({} or {})".format, one, one),
        st.builds("not ({} and {})".format, one, one),
        st.builds("({} and {} or {})".format, one, one, one),
        st.builds("({} and not {} or not {} and {})".format, one, one, one, one),
    )
    return st.lists(clause, min_size=1, max_size=3).map(" and ".join)


@functools.cache
@st.composite
def domains(draw: st.DrawFn) -> str:
    """A small ``int`` domain, often on both sides of zero."""
    low = draw(st.integers(-8, 4))
    step = draw(st.sampled_from([1, 1, 2, 3]))
    high = draw(st.integers(low + 2 * step, low + 14))
    return f"{{ type = 'int', min = {low}, max = {high}, multiple_of = {step} }}"


@functools.cache
@st.composite
def tables(draw: st.DrawFn, *, shared: bool = False) -> tuple[Table, str]:
    """A table over a, b (small ranges), c (listed, hardware), e (enum) and flag; and a condition to ask for."""
    rules = draw(st.lists(conditions(shared=shared), min_size=2, max_size=5))
    asked = draw(predicates(shared=shared))
    text = [
        "[table]\nop = 'random::table'\n[variables]",
        f"a = {draw(domains())}\nb = {draw(domains())}",
        "c = { type = 'int', values = [4, -3, 2, 90], hardware = true }",
        "e = { type = 'enum', values = ['x', 'y', 'z'] }\nflag = { type = 'bool' }",
        "[[kernel]]\nname = 'k'",
    ]
    for i, guard in enumerate(rules):
        text.append(f"[[rule]]\nname = 'r{i}'\nkernel = 'k'\nwhen = {guard!r}\nsplits = ['a % 2 == 0']")
    if draw(st.booleans()):
        text.append("[[rule]]\nname = 'rest'\nkernel = 'k'")
    text.append(f"[[partition]]\nname = 'p'\nrule = 'r0'\nwhere = {asked!r}")
    return parse_table("\n".join(text)), asked


@dataclass
class Tried:
    """The smallest of some inputs, and the values of the hardware variables with which there was one."""

    witness: dict[str, Value] | None = None
    key: object = None
    hardware: frozenset[tuple[Value, ...]] = frozenset()


def inputs(variable: Variable) -> list[Value]:
    """Every value of a small domain."""
    if variable.values:
        return list(variable.values)
    assert variable.min is not None
    assert variable.max is not None
    return [value for value in range(variable.min, variable.max + 1) if variable.contains(value)]


def decisions(table: Table) -> Iterator[tuple[dict[str, Value], int]]:
    """Every input that has a decision, with its vector."""
    vector = View.of(table, DEFAULT_MACHINE).vector
    for values in itertools.product(*map(inputs, table.variables)):
        try:
            yield dict(zip(table.names, values, strict=True)), vector(values)
        except ZeroDivisionError:
            continue


def try_all(table: Table, groups: Callable[[int], Iterator[object]]) -> dict[object, Tried]:
    """Every input, sorted into the groups that ``groups`` gives for its vector."""
    found: dict[object, Tried] = {}
    for facts, vector in decisions(table):
        key = size(table.variables, facts)
        hardware = tuple(facts[name] for name in table.hardware)
        for group in groups(vector):
            tried = found.setdefault(group, Tried())
            tried.hardware |= {hardware}
            if tried.key is None or key < tried.key:  # type: ignore[operator]
                tried.witness, tried.key = facts, key
    return found


def region_of(table: Table, vector: int) -> tuple[int | None, tuple[int, ...]]:
    """The identity of the region of ``vector``."""
    return path(table, vector)

"""Random small tables, and what a table does found out by trying every input of it."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from dispatchcov.decide import DEFAULT_MACHINE, View
from dispatchcov.expr import Value
from dispatchcov.loading.load import parse_table
from dispatchcov.space.domain import Size, size
from dispatchcov.table import Table, Variable

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
    ["e == 'x'", "e != 'y'", "e in ['x', 'z']", "flag", "not flag", "flag == False", "(flag or not flag) == flag"]
    + [f"c {rest}" for rest in (">= 4", "% 3 == 1", "in [2, 90]", "* 2 + 12 % (c - 2) == 6")]
)
SHARED = st.sampled_from(
    ["a < b", "a * b >= 12", "a % (b * b + 1) == 0", "a == b", "a + c > 9", "a // b == 1", "b < c"]
)
DERIVED = st.sampled_from(["a % max(2, min(4, b)) == 0", "(a + 1) % 3 == b // 4", "ceildiv(a, max(1, b // 3)) <= 2"])


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
    return st.one_of(one, one, SHARED, DERIVED) if shared else one


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
def tables(draw: st.DrawFn, *, shared: bool = False, contracts: bool = False) -> Table:
    """A table over a, b (small ranges), c (listed, hardware), e (enum) and flag, with one partition of its first rule.

    With ``shared`` some predicates read several variables. With ``contracts`` there are three kernels, two of which
    ask something of their inputs; else one.
    """
    rules = draw(st.lists(conditions(shared=shared), min_size=2, max_size=5))
    text = [
        "[table]\nop = 'random::table'\n[variables]",
        f"a = {draw(domains())}\nb = {draw(domains())}",
        "c = { type = 'int', values = [4, -3, 2, 90], hardware = true }",
        "e = { type = 'enum', values = ['x', 'y', 'z'] }",
        f"flag = {{ type = 'bool', hardware = {str(draw(st.booleans())).lower()} }}",
        "[[kernel]]\nname = 'k'",
    ]
    kernels = ["k"]
    if contracts:
        text += [f"[[kernel]]\nname = '{k}'\nrequires = {toml(draw(conditions(shared=shared)))}" for k in ("k1", "k2")]
        kernels = draw(st.lists(st.sampled_from(["k", "k1", "k2"]), min_size=len(rules), max_size=len(rules)))
    for i, guard in enumerate(rules):
        kernel = kernels[i % len(kernels)]
        text.append(f"[[rule]]\nname = 'r{i}'\nkernel = '{kernel}'\nwhen = {toml(guard)}\nsplits = ['a % 2 == 0']")
    if draw(st.booleans()):
        text.append("[[rule]]\nname = 'rest'\nkernel = 'k'")
    text.append(f"[[partition]]\nname = 'p'\nrule = 'r0'\nwhere = {toml(draw(predicates(shared=shared)))}")
    return parse_table("\n".join(text))


def toml(text: str) -> str:
    """``text`` as a TOML string."""
    return json.dumps(text)


@dataclass
class Tried:
    """The smallest of some inputs, and the values of the hardware variables with which there was one."""

    witness: dict[str, Value] | None = None
    key: Size | None = None
    hardware: frozenset[tuple[Value, ...]] = frozenset()


def values(variable: Variable) -> list[Value]:
    """Every value of a small domain."""
    if variable.values:
        return list(variable.values)
    assert variable.min is not None
    assert variable.max is not None
    return [value for value in range(variable.min, variable.max + 1) if variable.contains(value)]


def decisions(
    table: Table, inputs: Iterable[tuple[Value, ...]] | None = None
) -> Iterator[tuple[dict[str, Value], int]]:
    """Each of ``inputs`` (default: all there are) that has a decision, with its vector."""
    vector = View.of(table, DEFAULT_MACHINE).vector
    for given in inputs or itertools.product(*map(values, table.variables)):
        try:
            yield dict(zip(table.names, given, strict=True)), vector(given)
        except ZeroDivisionError:
            continue


def tried(
    table: Table,
    groups: Callable[[int], Iterable[tuple[object, ...]]],
    inputs: Iterable[tuple[Value, ...]] | None = None,
) -> dict[tuple[object, ...], Tried]:
    """Each of ``inputs`` (default: all there are), sorted into the groups that ``groups`` gives for its vector."""
    found: dict[tuple[object, ...], Tried] = defaultdict(Tried)
    for facts, vector in decisions(table, inputs):
        key = size(table.variables, facts)
        for group in groups(vector):
            best = found[group]
            best.hardware |= {tuple(facts[name] for name in table.hardware)}
            if best.key is None or key < best.key:
                best.witness, best.key = facts, key
    return found

from __future__ import annotations

import gc
import itertools
import random
import weakref
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dispatchcov import load_table, parse_table, regions
from dispatchcov.decide import DEFAULT_MACHINE, View, path, select
from dispatchcov.expr import Const, Value, walk
from dispatchcov.formula import ALWAYS, Formula, Leaf, Opposite, every, holds, leaves, pivotal
from dispatchcov.regions import Space
from dispatchcov.space import cases, intervals, search
from dispatchcov.space.answers import Answer
from dispatchcov.table import Table
from tests.dispatchcov.random_tables import Tried, tables, tried

CASES = sorted((Path(__file__).parent / "cases").glob("*.toml"))
FP4 = load_table(Path(__file__).parents[2] / "fp4ops" / "dispatch.toml")
QUICK = settings(max_examples=100, deadline=None)


def table(variables: str, *guards: str, splits: str = "[]") -> Table:
    """A table with one rule for each of ``guards``; an empty one takes the rest."""
    rules = [f"[[rule]]\nname = 'r{i}'\nkernel = 'k'\nsplits = {splits}" for i in range(len(guards))]
    given = [rule + (f'\nwhen = "{guard}"' if guard else "") for rule, guard in zip(rules, guards, strict=True)]
    kernels = "[[kernel]]\nname = 'k'"
    return parse_table("\n".join(["[table]\nop = 'x::y'", "[variables]", variables, kernels, *given]))


def vector(of: Table, facts: dict[str, Value]) -> int:
    return View.of(of, DEFAULT_MACHINE).vector(tuple(facts.values()))


def groups(of: Table, condition: Formula, outcomes: int) -> Iterator[tuple[object, ...]]:
    """All that an input with these ``outcomes`` is an example of."""
    rule, settled = path(of, outcomes)
    held = holds(condition, outcomes)
    yield "region", rule, settled
    yield "taken", rule, held
    yield "some", rule is not None, held
    yield from (("reaching", n, held) for n in range(len(settled) + 1))
    for split in of.rules[rule].splits if rule is not None else ():
        yield "split", rule, settled, split.index, bool(outcomes >> split.index & 1)
    for earlier in of.rules[: len(settled)]:
        alone = [i for i in leaves(earlier.guard) if pivotal(earlier.guard, i, outcomes)]
        yield from (("sole", earlier.index, i) for i in alone if len(alone) == 1)


def answers(space: Space, condition: Formula) -> Iterator[tuple[tuple[object, ...], Answer]]:
    """Every question to ask of ``space``, named as in ``groups``, with its answer."""
    for region in space.regions:
        yield ("region", region.rule, region.settled), region.answer
        yield ("region", region.rule, region.settled), space.region(region.rule, region.settled)
        for split in region.splits:
            yield ("split", region.rule, region.settled, split.predicate, False), split.false
            yield ("split", region.rule, region.settled, split.predicate, True), split.true
    for rule in space.table.rules:
        yield ("taken", rule.index, True), space.answer([rule.index], condition)
        yield from ((("sole", rule.index, i), space.sole(rule.index, i)) for i in leaves(rule.guard))
    yield ("some", True, True), space.answer(None, condition)
    yield from ((("reaching", n, True), space.reaching(n, condition)) for n in range(len(space.table.rules) + 1))


@QUICK
@given(st.one_of(tables(), tables(shared=True)))
def test_everything_agrees_with_trying_all_inputs(of: Table) -> None:
    note(of.text)
    condition = of.partitions[0].condition
    expected = tried(of, lambda outcomes: groups(of, condition, outcomes))
    space = Space(of)
    assert space.notes == ()
    found = {("region", region.rule, region.settled) for region in space.regions}
    assert found == {group for group in expected if group[0] == "region"}
    assert len({region.name for region in space.regions}) == len(space.regions)
    assert [region.index for region in space.regions] == list(range(len(space.regions)))
    for question, answer in answers(space, condition):
        best = expected.get(question, Tried())
        assert (answer.witness, answer.hardware, answer.reason) == (best.witness, best.hardware, ""), question
        assert answer.state == ("unreachable" if best.witness is None else "feasible")


@settings(max_examples=40, deadline=None)
@given(tables(shared=True))
def test_predicates_that_cannot_be_split_into_cases_never_lead_to_a_wrong_answer(of: Table) -> None:
    note(of.text)
    with mock.patch.object(cases, "MAX_CASES", 0):
        _never_wrong(of)


def _never_wrong(of: Table) -> None:
    condition = of.partitions[0].condition
    expected = tried(of, lambda outcomes: groups(of, condition, outcomes))
    space = Space(of, solving=False)
    found = {("region", region.rule, region.settled) for region in space.regions}
    assert found >= {group for group in expected if group[0] == "region"}
    for question, answer in answers(space, condition):
        best = expected.get(question, Tried())
        if answer.state == "feasible":
            assert answer.witness is not None
            assert question in groups(of, condition, vector(of, answer.witness))
            assert answer.hardware <= best.hardware
            assert answer.reason or answer.witness == best.witness
        elif answer.state == "unreachable":
            assert (best.witness, answer.hardware) == (None, frozenset())
        else:
            assert (answer.witness, bool(answer.reason)) == (None, True)


def grid(of: Table, found: list[Answer]) -> Iterator[tuple[Value, ...]]:
    """Inputs with values near the constants of guards and splits, and with the values of the witnesses found."""
    indices = {index for rule in of.rules for index in leaves(rule.guard)}
    indices |= {split.index for rule in of.rules for split in rule.splits}
    values: dict[str, set[Value]] = {}
    for variable in of.variables:
        own = [of.predicates[index].expr for index in indices if variable.name in of.predicates[index].reads]
        constants = [node.value for tree in own for node in walk(tree) if isinstance(node, Const)]
        near = {int(c) + step for c in constants if variable.type == "int" for step in (0, variable.multiple_of)}
        listed = variable.values if own else ()
        values[variable.name] = {value for value in (*near, *listed) if variable.contains(value)}
        values[variable.name] |= {answer.witness[variable.name] for answer in found if answer.witness}
    return itertools.product(*(sorted(values[name]) for name in of.names))


def test_the_fp4_table_agrees_with_a_grid() -> None:
    space = Space.of(FP4)
    everything = list(answers(space, ALWAYS))
    inputs = grid(FP4, [answer for _, answer in everything])
    expected = tried(FP4, lambda outcomes: groups(FP4, ALWAYS, outcomes), inputs)
    assert {region.state for region in space.regions} == {"feasible"}
    assert len(space.regions) == sum(group[0] == "region" for group in expected)
    for question, answer in everything:
        best = expected.get(question, Tried())
        assert (answer.witness, answer.hardware) == (best.witness, best.hardware), question


def test_every_bin_of_the_fp4_table_has_a_verified_witness() -> None:
    for partition in FP4.partitions:
        for each in partition.bins:
            condition = every(partition.condition, each.condition)
            witness = Space.of(FP4).answer(partition.rules, condition).witness
            assert witness is not None
            assert FP4.facts(witness) == witness
            assert select(FP4, vector(FP4, witness)) in partition.rules
            assert holds(condition, vector(FP4, witness))


@pytest.mark.parametrize("file", [file for file in CASES if file.stem != "expected"], ids=lambda file: file.stem)
def test_cases_from_public_projects(file: Path) -> None:
    of = load_table(file)
    space = Space.of(of)
    assert space.complete
    assert space.reaching(len(of.rules)).state == "unreachable"
    faults = {
        rule.name: answer
        for rule in of.rules
        if (answer := space.answer([rule.index], Opposite(rule.kernel.requires))).state != "unreachable"
    }
    dead = [rule.name for rule in of.rules if space.answer([rule.index]).state == "unreachable"]
    contracts, wanted_dead = {
        "bias-offset-wrap": (["fused"], []), "block-fp8-columns": (["block-scaled"], []),
        "capability-at-least": (["fa4"], []), "gemv-tactic-rows": (["gemv"], []), "marlin-thread-k": ([], []),
        "small-m-config": ([], ["m16"]), "tile-by-rows": (["n64"], []), "vec8-even-block": ([], []),
        "zero-k-native": (["native"], []),
    }[file.stem]  # fmt: skip
    assert (list(faults), dead) == (contracts, wanted_dead)
    for name, answer in faults.items():
        assert answer.witness is not None
        outcomes = vector(of, answer.witness)
        assert select(of, outcomes) == of.rule(name).index
        assert not holds(of.rule(name).kernel.requires, outcomes)


def test_the_missed_side_of_a_split_is_shown() -> None:
    of = load_table(next(file for file in CASES if file.stem == "vec8-even-block"))
    (split,) = Space.of(of).regions[0].splits
    assert of.predicates[split.predicate].text == "block_size % 8 == 0"
    assert split.false.witness == {"M": 9, "K": 8, "block_size": 2}
    assert split.true.witness == {"M": 9, "K": 8, "block_size": 8}


def test_names_say_what_settled_each_earlier_rule() -> None:
    guards = ["x < 0 or x > 90", "x % 2 == 0 and y and x >= 8", "x % 2 == 0 and not y", "x == 7 and (y or x < 9)", ""]
    of = table("x = { type = 'int' }\ny = { type = 'bool' }", *guards)
    assert [region.name for region in Space.of(of).regions] == [
        "r0",
        "r1",
        "r2 [r1: not y]",
        "r3 [r1, r2: not x % 2 == 0]",
        "r4 [r1, r2: not x % 2 == 0; r3: not x == 7]",
        "r4 [r1: not x >= 8; r2: y; r3: not x == 7]",
    ]


def test_a_predicate_that_settles_either_way() -> None:
    variables = "\n".join(f"{name} = {{ type = 'bool' }}" for name in "abx")
    regions_of = Space.of(table(variables, "(a or x) and (b or not x) and a", "")).regions
    assert [region.name for region in regions_of] == ["r0", "r1 [r0: not a]", "r1 [r0: either way x]"]
    assert [region.witness for region in regions_of] == [
        {"a": True, "b": False, "x": False},
        {"a": False, "b": True, "x": True},
        {"a": False, "b": False, "x": False},
    ]


def test_long_names_are_cut_and_stay_unique() -> None:
    guards = [f"a == {i} and b != {i}" for i in range(9)]
    space = Space.of(table("a = { type = 'int' }\nb = { type = 'int' }", *guards, ""))
    names = [region.name for region in space.regions]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) < 120
    assert any(name.startswith("r9 [r0") and "more, " in name for name in names)


def test_inputs_that_no_rule_takes() -> None:
    of = table("x = { type = 'int', min = -5 }\nc = { type = 'bool', hardware = true }", "x % 2 == 0", "c or x < 0")
    space = Space.of(of)
    assert [region.rule for region in space.regions] == [0, 1, None]
    untotal = space.regions[-1]
    assert untotal.name.startswith("no rule")
    assert untotal.witness == {"x": 1, "c": False}
    assert untotal.hardware == frozenset({(False,)})
    assert space.reaching(2) == untotal.answer
    assert space.answer(None, Opposite(Leaf(0))).witness == {"x": 1, "c": True}


def test_an_input_whose_guard_divides_by_zero_has_no_decision() -> None:
    of = table("x = { type = 'int', min = 0, max = 9 }", "12 % x == 0 and x > 1", "x == 0 or x == 5", "")
    space = Space.of(of)
    witnesses = {region.name: region.witness for region in space.regions}
    assert witnesses == {
        "r0": {"x": 2},
        "r1 [r0: not 12 % x == 0]": {"x": 5},
        "r2 [r0: not 12 % x == 0]": {"x": 7},
        "r2 [r0: not x > 1]": {"x": 1},
    }
    assert space.reaching(1, Leaf(2)).state == "unreachable"
    later = table("x = { type = 'int', min = 0, max = 9 }", "x == 9", "12 % x == 0", "")
    assert Space.of(later).sole(0, 0).witness == {"x": 1}


def test_a_condition_that_divides_by_zero_is_false() -> None:
    text = "x = { type = 'int', min = 0, max = 3 }"
    of = table(text, "", splits="['12 % x == 0']")
    (region,) = Space.of(of).regions
    assert region.splits[0].false.witness == {"x": 0}
    assert region.splits[0].true.witness == {"x": 1}
    assert Space.of(of).answer([0], Leaf(0)).witness == {"x": 1}
    assert Space.of(of).answer([0], Opposite(Leaf(0))).witness == {"x": 0}


def test_notes_say_what_was_not_analysed_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "STEPS", 0)
    monkeypatch.setattr(intervals, "FEW", 0)
    of = table("x = { type = 'int' }\ny = { type = 'int' }", "x * x <= 50 and x > 3", "x < y", "")
    space = Space(of, solving=False)
    assert space.notes == (
        "x * x <= 50 not analysed: 'x * x' is not affine over an open range",
        "x < y not analysed: it reads several variables, x, y",
    )
    assert {region.state for region in space.regions} == {"feasible"}
    for region in space.regions:
        assert region.witness is not None
        assert path(of, vector(of, region.witness)) == (region.rule, region.settled)


def test_what_cannot_be_told_is_unknown() -> None:
    of = table("x = { type = 'int', min = 0 }\ny = { type = 'int', min = 0 }", "x < y and y < x", "")
    answer = Space(of, solving=False).answer([0])
    assert answer.state == "unknown"
    assert answer.reason == "no input was found with the outcomes wanted of x < y, y < x"
    assert [region.state for region in Space(of, solving=False).regions] == ["unknown", "feasible", "feasible"]


def test_more_regions_than_can_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "MAX_REGIONS", 5)
    space = Space(FP4)
    assert not space.complete
    assert "more than 5 regions" in space.notes[-1]
    whole = {(region.rule, region.settled): region for region in Space.of(FP4).regions}
    assert [region.rule for region in space.regions] == list(range(len(FP4.rules)))
    for region in space.regions:
        full = whole[region.rule, region.settled]
        assert (region.answer, region.splits) == (full.answer, full.splits)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_search_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr(search, "STEPS", steps)
    of = large_table(random.Random(1), rules=12)
    limited, reasons = Space(of), set()
    for rule in of.rules:
        exact = Space.of(of).answer([rule.index])
        answer = limited.answer([rule.index])
        if answer.reason:
            reasons.add(answer.state)
            assert answer.state != "unreachable"
            assert answer.witness is None or select(of, vector(of, answer.witness)) == rule.index
        else:
            assert (answer.state, answer.witness) == (exact.state, exact.witness)
    if steps == 1:
        assert reasons == {"feasible", "unknown"}


def test_a_table_that_has_cost_much_in_vain_is_given_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("STEPS", 3), ("BUDGET", 6), ("FEW", 1)):
        monkeypatch.setattr(search, name, value)
    of = large_table(random.Random(1), rules=12)
    space = Space(of)
    reasons = [answer.reason for rule in of.rules if (answer := space.answer([rule.index])).reason]
    given = ["not found in 3 steps" in reason or "after 6 steps" in reason for reason in reasons]
    fewer = ["not found in 1 steps" in reason or "after 2 steps" in reason for reason in reasons]
    assert given[:2] == [True, True]
    assert given != fewer
    assert any(fewer)
    assert not any(given[fewer.index(True) :])


def large_table(draw: random.Random, rules: int) -> Table:
    """A table over 20 variables in the style of kernel heuristics: far more paths than can be listed."""
    ints = [f"n{i}" for i in range(14)]
    variables = [f"{name} = {{ type = 'int', min = {i % 2} }}" for i, name in enumerate(ints)]
    variables += ["sm = { type = 'int', values = [80, 90, 100, 103, 120], hardware = true }"]
    variables += [f"d{i} = {{ type = 'enum', values = ['f16', 'bf16', 'f8'] }}" for i in range(2)]
    variables += [f"b{i} = {{ type = 'bool' }}" for i in range(3)]

    def predicate() -> str:
        name = draw.choice(ints)
        return draw.choice([
            f"{name} % {draw.choice([2, 8, 16, 64, 3])} == 0", f"{name} <= {draw.randrange(1, 4000)}",
            f"{name} >= {draw.randrange(1, 4000)}", f"ceildiv({name}, 64) > {draw.randrange(9)}",
            f"sm >= {draw.choice([90, 100, 120])}", f"d{draw.randrange(2)} == '{draw.choice(['f16', 'f8'])}'",
            f"b{draw.randrange(3)}",
        ])  # fmt: skip

    return table("\n".join(variables), *(" and ".join(predicate() for _ in range(3)) for _ in range(rules)), "")


def test_a_hundred_rules_over_twenty_variables() -> None:
    of = large_table(random.Random(7), rules=99)
    space = Space.of(of)
    found = [space.answer([rule.index]) for rule in of.rules]
    assert {answer.state for answer in found} == {"feasible", "unreachable"}
    for rule, answer in zip(of.rules, found, strict=True):
        assert answer.reason == ""
        if answer.witness is not None:
            assert of.facts(answer.witness) == answer.witness
            assert of.decide(**answer.witness).rule == rule.name
            assert (answer.witness["sm"],) in answer.hardware
    assert not space.complete
    assert [region.rule for region in space.regions] == [i for i in range(100) if found[i].state == "feasible"]
    assert all(region.witness == found[region.rule].witness for region in space.regions if region.rule is not None)


def test_many_ways_through_a_guard_end_in_a_note_not_in_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "MAX_STEPS", 10_000)
    monkeypatch.setattr(search, "STEPS", 200)
    variables = "\n".join(f"v{i} = {{ type = 'int' }}" for i in range(40))
    guard = " and ".join(f"(v{i} > 3 or v{i + 1} < {-i})" for i in range(0, 40, 2))
    space = Space.of(table(variables, f"not ({guard})", guard, ""))
    assert not space.complete
    assert [region.rule for region in space.regions] == [0, 1]
    assert space.answer([2]) == Answer("unknown", reason="given up after 400 steps")


def test_the_space_of_a_table_is_made_once_and_freed_with_it() -> None:
    of = table("x = { type = 'int' }", "x > 3", "")
    assert Space.of(of) is Space.of(of)
    assert [region.name for region in Space.of(of).regions] == ["r0", "r1"]
    alive = weakref.ref(of)
    del of
    gc.collect()
    assert alive() is None

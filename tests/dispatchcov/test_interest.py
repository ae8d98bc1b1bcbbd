from __future__ import annotations

from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.interest import Interest
from dispatchcov.loading.load import parse_table
from dispatchcov.mutate import Mutation
from dispatchcov.recorder import Recorder
from dispatchcov.results import Results
from dispatchcov.space.boundaries import Boundaries
from tests.dispatchcov.plugin_project import project, run, table

__all__ = ["project"]

TEXT = """
[table]
op = "demo::tiles"
[variables]
K = { type = "int", min = 0, max = 100000 }
[[kernel]]
name = "Wide"
[[kernel]]
name = "Any"
[[rule]]
name = "wide"
when = "K % 32 == 0 and K >= 128"
kernel = "Wide"
[[rule]]
name = "any"
kernel = "Any"
"""
TILES = parse_table(TEXT, source="tiles.toml")


def test_what_inputs_show() -> None:
    interest = Interest(TILES)
    inside, beside, far = (interest.shows((K,)) for K in (4096, 128, 4100))
    assert ("boundary", 1, True) not in inside  # K >= 128 is not near
    assert ("boundary", 1, True) in beside
    assert {kind for kind, _, _ in far} <= {"mutant", "boundary"}
    finder, mutation = Boundaries(TILES), Mutation.of(TILES)
    for K in (0, 31, 32, 96, 127, 128, 129, 160, 4096, 4097):
        shown = interest.shows((K,))
        pairs = [pair for pair in finder.all() if pair.variable]
        sides = {(place, finder.at(pair, {"K": K})) for place, pair in enumerate(pairs)}
        assert {(place, side) for kind, place, side in shown if kind == "boundary"} == {
            (place, side) for place, side in sides if side is not None
        }
        assert {place for kind, place, _ in shown if kind == "mutant"} == {
            place for place, mutant in enumerate(mutation.mutants) if mutation.notices(mutant, (K,))
        }


def test_only_what_shows_more_is_chosen() -> None:
    more = Interest(TILES).more
    chosen = more([(4096,), (5000,)], [(4128,), (128,), (8192,), (128,), (160,)])
    assert (128,) in chosen
    assert len(chosen) == len(set(chosen)) < 4
    assert more([(128,), *chosen], chosen) == []


def test_nothing_is_shown_where_a_predicate_divides_by_zero() -> None:
    divides = parse_table(TEXT.replace("K % 32 == 0", "64 % K == 0"))
    assert Interest(divides).shows((0,)) == frozenset()


def covered(path: Path, keep: bool) -> dict[str, int]:
    with Recorder(str(path), keep=(lambda table: Interest.of(table).more) if keep else None) as recorder:
        recorder.enter("t.py::t", "call")
        for K in (4096, 8192, 131, 161, 5000, 3):
            TILES.decide(K=K)
        recorder.outcome("t.py::t", "passed")
    results = Results.of(store.load(path))
    return {name: totals.covered for name, totals in results.totals.items()}


def test_boundaries_and_mutants_that_a_test_meets_between_its_extremes_count(tmp_path: Path) -> None:
    without, kept = covered(tmp_path / "a", False), covered(tmp_path / "b", True)
    assert kept["boundaries"] > without["boundaries"]
    assert all(kept[name] >= without[name] for name in kept)


MANY = """
from operator_under_test import scale
def test_many():
    for n in (400, 1024, 4, 1020, 8000, 3, 5, 9999): scale(n)
"""


def test_pytest_keeps_them(project: pytest.Pytester) -> None:
    run(project, "--dispatch-report=json:out.json", test_x=MANY)
    (row, *_) = (row for row in store.load(project.path / ".dispatchcov").rows if row.vector & 1)
    assert len(row.inputs) >= 3
    assert table(project)["totals"]["boundaries"]["covered"] >= 2

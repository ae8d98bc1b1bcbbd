"""Waivers of mismatches are errors as soon as a run shows that they are not needed, and before that nothing."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from dispatchcov.gate import judge
from dispatchcov.loading.load import parse_table
from dispatchcov.results import Results
from dispatchcov.table import Table
from tests.dispatchcov.build import SMALL, data, row

HALF = {"aligned": True, "dtype": "float16"}
OTHERS = [{"N": 4, "aligned": True, "dtype": "float32"}, {"N": 4, **HALF}, {"N": 3, **HALF}]
SM = SMALL.replace("[[kernel]]", 'sm = { type = "int", values = [80, 90], hardware = true }\n[[kernel]]', 1)


def table(keys: str, text: str = SMALL) -> Table:
    return parse_table(f'{text}[[waiver]]\n{keys}\nreason = "x"\nexpires = 2026-06-30\n')


def failures(table: Table, *rows: dict[str, Any], partial: tuple[str, ...] = ()) -> list[str]:
    """Why the gate fails with ``rows``, besides others that hit all partitions and say nothing of kernels."""
    sm = {"sm": 90} if "sm" in table.names else {}
    records = data(table, *(row(table, **sm | given) for given in (*OTHERS, *rows)), partial=partial)
    verdict = judge(Results.of(records, today=datetime.date(2026, 6, 1)))
    assert verdict.notes == () or partial or "waived" in verdict.notes[0]
    return list(verdict.failures)


def unneeded(table: Table) -> list[str]:
    return [f"demo::scale: {table.waivers[0]} is not needed any more: there was none where it would have shown"]


RAN = {"N": 4, **HALF, "kernel": "ScaleVec4"}
OBSERVED = {"N": 4, **HALF, "observed": 1}
OTHER = {"N": 4, **HALF, "kernel": "other"}
IN_RULE = 'mismatch = "kernel"\nrule = "vec4"'


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([], False),
        ([RAN], True),
        ([OBSERVED], True),
        ([OBSERVED | {"machine": "cpu, emulates sm_90"}], False),
        ([RAN | {"phase": "setup"}], False),
        ([{"N": 3, **HALF, "kernel": "Scale"}], False),
        ([RAN, OTHER], False),
    ],
)
def test_a_kernel_is_known_only_where_it_was_said_or_seen(rows: list[dict[str, Any]], shown: bool) -> None:
    waived = table(IN_RULE)
    assert failures(waived, *rows) == (unneeded(waived) if shown else [])
    assert failures(waived, *rows, partial=("tests were deselected",)) == []


def test_a_waiver_of_every_rule_needs_them_all() -> None:
    waived = table('mismatch = "kernel"')
    assert failures(waived, RAN) == []
    assert failures(waived, RAN, {"N": 3, **HALF, "kernel": "Scale"}) == unneeded(waived)


def test_a_rule_that_other_hardware_reaches_too_has_not_shown_all() -> None:
    waived = table(IN_RULE, SM)
    assert failures(waived, RAN) == []
    assert failures(waived, RAN, RAN | {"sm": 80}) == unneeded(waived)
    only = table(IN_RULE, SM.replace("and aligned", "and aligned and sm == 90"))
    assert failures(only, RAN) == unneeded(only)


@pytest.mark.parametrize("kind", ["contract", "domain", "untotal"])
def test_what_facts_alone_show_needs_no_kernel(kind: str) -> None:
    waived = table(f'mismatch = "{kind}"')
    assert failures(waived) == unneeded(waived)
    if kind == "domain":
        assert failures(waived, {"N": -4, **HALF}) == []
    if kind == "contract":
        assert failures(table('mismatch = "contract"\nrule = "vec4"')) == unneeded(
            table(IN_RULE.replace("kernel", kind))
        )

from __future__ import annotations

import pytest

from dispatchcov.loading.load import parse_table
from tests.dispatchcov.small_table import SMALL, changed

SAME = {
    "comments": ("[variables]", "# a comment\n\n[variables]  # another"),
    "layout": ('values = ["float16", "float32"] }', 'values = [ "float16" ,\n"float32", ] }'),
    "space in a guard": ("N % 4 == 0 and rows > 32", " ( N%4==0 )and rows>32"),
    "quotes": ('requires = "N % 4 == 0"', "requires = 'N % 4 == 0'"),
    "a default said": (
        'cross = ["dtype"]',
        'cross = ["dtype"]\nrequired = true\nat_least = 1\nillegal = false\nevidence = []',
    ),
    "an unused derived value": ('rows = "max(32, N)"', 'rows = "max(32, N)"\ncolumns = "N + 1"'),
    "a waiver's reason": ('reason = "no memory"', 'reason = "no time"'),
    "a waiver's date": ("expires = 2030-01-31", "expires = 2031-01-31"),
    "a partition's rule in a list": ('rule = "vec4"', 'rule = ["vec4"]'),
}
OTHER = {
    "op": ('"demo::scale"', '"demo::scale2"'),
    "variable name": ('bias = { type = "bool" }', 'bias2 = { type = "bool" }'),
    "variable type": ('bias = { type = "bool" }', 'bias = { type = "int" }'),
    "another variable": ('bias = { type = "bool" }', 'bias = { type = "bool" }\nx = { type = "bool" }'),
    "min": ("min = 0 }", "min = 1 }"),
    "no min": (", min = 0 }", " }"),
    "max": ("min = 0 }", "min = 0, max = 99 }"),
    "multiple_of": ("min = 0 }", "min = 0, multiple_of = 2 }"),
    "values": ("[80, 90]", "[80, 90, 100]"),
    "order of values": ("[80, 90]", "[90, 80]"),
    "enum values": ('["float16", "float32"]', '["float16", "bfloat16"]'),
    "hardware": (", hardware = true", ""),
    "a derived value": ("max(32, N)", "max(64, N)"),
    "kernel name": ('name = "Plain"\n[[rule]]', 'name = "Plain2"\n[[rule]]'),
    "symbol": ("Vec4<{dtype}>", "Vec4<{dtype}"),
    "contract": ('requires = "N % 4 == 0"', 'requires = "N % 8 == 0"'),
    "no contract": ('requires = "N % 4 == 0"\n', ""),
    "guard": ("rows > 32", "rows >= 32"),
    "negation": ("rows > 32", "not rows > 32"),
    "or": ("N % 4 == 0 and rows > 32", "N % 4 == 0 or rows > 32"),
    "order of predicates": ("N % 4 == 0 and rows > 32", "rows > 32 and N % 4 == 0"),
    "rule name": ('name = "plain"', 'name = "scalar"'),
    "kernel of a rule": ('kernel = "Plain"', 'kernel = "Vec4"'),
    "splits": ('splits = ["N >= 1024"]\n', ""),
    "partition name": ('name = "big"', 'name = "large"'),
    "where": ("N > 4096", "N > 4097"),
    "no where": ('where = "N > 4096"\n', ""),
    "cross": ('cross = ["dtype"]', 'cross = ["bias"]'),
    "required": ('cross = ["dtype"]', 'cross = ["dtype"]\nrequired = false'),
    "at_least": ('cross = ["dtype"]', 'cross = ["dtype"]\nat_least = 2'),
    "illegal": ('name = "big"', 'name = "small"\nrule = "plain"\nillegal = true\n[[partition]]\nname = "big"'),
    "evidence": ('cross = ["dtype"]', 'cross = ["dtype"]\nevidence = ["checked"]'),
    "order of rules": (
        '[[rule]]\nname = "plain"\nkernel = "Plain"\n',
        '[[rule]]\nname = "plain"\nkernel = "Plain"\n[[rule]]\nname = "third"\nkernel = "Plain"\n',
    ),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_what_decides_nothing_does_not_change_the_digest(change: tuple[str, str]) -> None:
    assert parse_table(changed(change), source="other.toml").digest == parse_table(SMALL).digest


def test_the_name_of_a_derived_value_does_not_change_the_digest() -> None:
    assert parse_table(SMALL.replace("rows", "height")).digest == parse_table(SMALL).digest


def test_everything_that_decides_changes_the_digest() -> None:
    digests = {"unchanged": parse_table(SMALL).digest}
    for what, (old, new) in OTHER.items():
        text = changed((old, new)) if what not in ("kernel name", "partition name") else _renamed(old, new)
        digests[what] = parse_table(text).digest
    assert len(set(digests.values())) == len(digests), digests


def _renamed(old: str, new: str) -> str:
    """The small table with a name changed wherever it is used."""
    before, after = (text.split('"')[1] for text in (old, new))
    return SMALL.replace(f'"{before}"', f'"{after}"')


def test_values_that_read_alike_are_told_apart() -> None:
    one = parse_table(changed(('"float16", "float32"', '"a, b", "c"'))).digest
    two = parse_table(changed(('"float16", "float32"', '"a", "b, c"'))).digest
    numbers = parse_table(changed(("[80, 90]", "[1, 2]"))).digest
    assert len({one, two, numbers}) == 3


def test_a_digest_is_the_same_in_every_process_and_version() -> None:
    assert parse_table(SMALL).digest == "863f9258605c6443a675fd91a361c66aa09e9132756ae3d9842df0118667d884"

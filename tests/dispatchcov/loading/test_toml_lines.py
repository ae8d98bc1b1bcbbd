from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dispatchcov.loading.toml_lines import MAX_NESTING, MAX_PARTS, Path, scan

FP4 = (FilePath(__file__).parents[1] / "tables" / "fp4.toml").read_text(encoding="utf-8")


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    """The path of everything in a TOML document, as the standard library reads it."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def test_lines_of_tables_keys_and_elements() -> None:
    text = '''# a comment
[table]
op = "x"  # [[rule]]
[variables]
M = { type = "int",  values = [
    1,  # ]
    2,
  ] }
[variables.N]
type = "int"

[[rule]]
name = """
[[rule]]
name = "not this" \\"""
[[kernel]]"""
splits = [ "a", '[[rule]]',
  "b" ]
[[rule]]
when.deep = \'\'\'it's ''quoted\'\'\'\'
"quoted key" = 1
'lit.eral' = 1979-05-27 07:32:00Z
'''
    lines = scan(text)
    assert lines.refused is None
    assert set(lines.places) == set(paths(tomllib.loads(text)))
    where = {
        ("table",): 2, ("table", "op"): 3, ("variables",): 4, ("variables", "M"): 5, ("variables", "M", "type"): 5,
        ("variables", "M", "values", 0): 6, ("variables", "M", "values", 1): 7, ("variables", "N"): 9,
        ("variables", "N", "type"): 10, ("rule",): 12, ("rule", 0): 12, ("rule", 0, "name"): 13,
        ("rule", 0, "splits"): 17, ("rule", 0, "splits", 1): 17, ("rule", 0, "splits", 2): 18, ("rule", 1): 19,
        ("rule", 1, "when", "deep"): 20,
        ("rule", 1, "quoted key"): 21, ("rule", 1, "lit.eral"): 22,
    }  # fmt: skip
    assert {path: lines.places[path] for path in where} == where


def test_arrays_of_inline_tables() -> None:
    text = 'rule = [\n  {name = "a",\n},\n'
    assert scan(text).places == {("rule",): 1, ("rule", 0): 2, ("rule", 0, "name"): 2}
    lines = scan('rule = [\n  { name = "a", when.x = 1 },\n  # {},\n  { name = "b" },\n]\n')
    assert [lines.of("rule", 0), lines.of("rule", 0, "when", "x"), lines.of("rule", 1, "name")] == [2, 2, 4]


def test_headers_inside_an_array_of_tables() -> None:
    lines = scan("[[a]]\n[a.b]\nx=1\n[[a.c]]\n[[a.c]]\n[[a]]\n[[a.c]]\n[a.c.d]\n")
    assert lines.places == {
        ("a",): 1, ("a", 0): 1, ("a", 0, "b"): 2, ("a", 0, "b", "x"): 3, ("a", 0, "c"): 4, ("a", 0, "c", 0): 4,
        ("a", 0, "c", 1): 5, ("a", 1): 6, ("a", 1, "c"): 7, ("a", 1, "c", 0): 7, ("a", 1, "c", 0, "d"): 8,
    }  # fmt: skip


def test_what_is_not_written_is_at_the_nearest_thing_that_is() -> None:
    lines = scan("[table]\n[[rule]]\n[[rule]]\nname = 'x'\n")
    assert lines.of("rule", 1, "kernel") == lines.of("rule", 1) == 3
    assert lines.of("rule", 7, "kernel") == 2
    assert lines.of("kernel", 0) == lines.of() == 0


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_only_line_feeds_count(ending: str) -> None:
    text = ending.join(["# \u2028 \x85 \x0b", "a = '\u2029'", "", "b = 2"])
    assert scan(text).places == {("a",): 2, ("b",): 4}


BASIC = ['""', '"a\\"b"', '"\\\\"', '"\\u005D"']
LONG_BASIC = ['""""""', '"""a"b""c"""', '"""a\\"""b"""', '"""a""""', '"""a"""""', '"""\n\\\n  x"""']
LITERAL = ["''", r"'a\'", "''''''", "'''a''''", "'''''a'''''"]
OTHER = ["1", "-1.5e3", "inf", "0xfF", "1_000", "true", "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00"]
NESTED = [
    "[]",
    "[[], [[]]]",
    "{}",
    "{ a = { b = [1, 2] } }",
    "[ ']', \"}\" ]",
    "[1,\n2 # ]\n]",
    "[\n\n]",
    "{a = ',', b = '}'}",
]


@pytest.mark.parametrize("value", [*BASIC, *LONG_BASIC, *LITERAL, *OTHER, *NESTED])
def test_values_of_every_kind_end_where_they_end(value: str) -> None:
    text = f"a = {value} # x\nz = 1"
    lines = scan(text)
    assert set(lines.places) == set(paths(tomllib.loads(text)))
    assert lines.of("z") == text.count("\n") + 1


PIECES = [
    *[
        "[a]",
        "[[r]]",
        "[r.s]",
        "[r.s.t]",
        "[b . 'c d']",
        "[[b.e]]",
        '["a"]',
        "[variables.M]",
        "[",
        "]]",
        "\t[q]\t",
        "# [a]",
    ],
    *[
        "x = 1",
        "y.z = 'q'",
        "y.w.v = []",
        '"k" = {a=1, b={c=[{d=2}]}}',
        "m = [[1,2],[{n='o'}]]",
        "p = 07:32:00",
        "w = 1 2",
    ],
    *[
        's = """',
        'text"',
        '"""',
        "'''",
        "t = '''",
        "u = [",
        "1, # c",
        "]",
        "[]",
        "{v = 1},",
        "",
        "key",
        "= 1",
        "\u2028",
        "\\",
    ],
]
ENDS = st.sampled_from(["\n", "\n", "\n", " ", "\r\n"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIECES), ENDS), max_size=12))
def test_scan_finds_what_the_parser_finds(pieces: list[tuple[str, str]]) -> None:
    text = "".join(piece + end for piece, end in pieces)
    lines = scan(text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert lines.refused is None
    assert set(lines.places) == set(paths(document))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_scan_finds_what_the_parser_finds_in_a_table_with_a_typing_mistake(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(FP4)))
    stop = start + data.draw(st.integers(0, 40))
    text = FP4[:start] + data.draw(st.text("\"'[]{}=#.,\n\\ a1", max_size=4)) + FP4[stop:]
    lines = scan(text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    assert set(lines.places) == set(paths(document))


@pytest.mark.parametrize(
    "text", ["a = 'x", "[a", "a", "= 1", "a = [1", "a = {b", "a = {b=1,\n}", 'a = """', "a = [1 2]", "a = ]", "[[a]\n"]
)
def test_what_is_not_toml_ends_the_walk(text: str) -> None:
    assert scan("first = 1\n" + text).refused is None
    assert scan("first = 1\n" + text).of("first") == 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\n" + ".".join("a" * 100_000) + " = 1", 2, f"expected a key of at most {MAX_PARTS} parts"),
        ("\n\n[" + ".".join("a" * 9) + "]", 3, f"expected a key of at most {MAX_PARTS} parts"),
        ("x = [\n" + "[" * 100_000, 2, f"expected values nested at most {MAX_NESTING} deep"),
        ("x = " + "{a=" * 100_000, 1, f"expected values nested at most {MAX_NESTING} deep"),
    ],
)  # fmt: skip
def test_deep_nesting_is_refused_before_the_parser_sees_it(text: str, line: int, message: str) -> None:
    assert scan(text).refused == (line, message)

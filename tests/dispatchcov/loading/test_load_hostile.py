from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dispatchcov.errors import TableError
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.table import Table
from tests.dispatchcov.small_table import SMALL, changed

RULE = "[[rule]]\nname = 'r{0}'\nwhen = '{1}'\nkernel = 'Plain'\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("".join(RULE.format(i, f"N == {i}") for i in range(1000)), "expected at most 1000 of [[rule]], got 1002"),
        (
            "".join(RULE.format(i, " or ".join(f"N == {10 * i + j}" for j in range(6))) for i in range(340)),
            "rule 'r333': when: expected at most 2000 predicates in the table, got 'N == 3330' too",
        ),
        (
            "".join(RULE.format(i, " or ".join(f"N + {j} == 0" for j in range(150))) for i in range(30)),
            "rule 'r26': when: expected at most 20000 terms in the table, derived values written out",
        ),
    ],
    ids=["rules", "predicates", "terms"],
)  # fmt: skip
def test_a_table_has_a_size_that_can_be_afforded(text: str, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(SMALL + text)
    assert error.value.message.endswith(message)


@pytest.mark.parametrize(
    ("first", "step", "message"),
    [
        ("N + N", "a{0} + a{0}", "a10: expected at most 4000 terms with derived values written out, got 4095"),
        (
            "N == 1",
            "a{0} and (N == {0} or not a{0})",
            "a9: expected at most 4000 terms with derived values written out, got",
        ),
        ("N + 1", "a{0} + 1", "a59: expected at most 60 nested levels with derived values written out, got 61"),
    ],
)
def test_derived_values_that_explode(first: str, step: str, message: str) -> None:
    lets = [f"a0 = '{first}'", *(f"a{i + 1} = '{step.format(i)}'" for i in range(200))]
    with pytest.raises(TableError) as error:
        parse_table(changed(("[let]", "\n".join(["[let]", *lets]))))
    assert error.value.message.startswith(f"[let]: {message}")
    assert error.value.line == 9 + int(error.value.message.split(":")[1].strip()[1:])


@pytest.mark.parametrize(
    "guard",
    [
        "(" * 150 + "N > 1" + ")" * 150,
        "not (" * 55 + "N > 1" + ")" * 55,
        "".join(f"(N == {i} or (N > {i} and " for i in range(27)) + "N > 1" + "))" * 27,
        "ceildiv(3, " * 50 + "N" + ")" * 50 + " > 1",
        "not(" * 20 + "ceildiv(" * 36 + "N" + ", 3)" * 36 + " > 1" + ")" * 20,
        " and ".join(f"N != {i}" for i in range(300)),
    ],
    ids=range(6),
)
def test_the_deepest_guards_still_compile(guard: str) -> None:
    table = parse_table(changed(("N % 4 == 0 and rows > 32", guard)))
    assert table.decide(N=7, sm=80, dtype="float16", bias=False).rule in ("vec4", "plain")
    assert isinstance(table.explain(N=7, sm=80, dtype="float16", bias=False), str)


def check(text: str) -> None:
    try:
        table = parse_table(text, source="t.toml")
    except TableError as mistake:
        error: TableError = mistake
    else:
        assert isinstance(table, Table)
        assert parse_table(table.text).digest == table.digest
        return
    assert str(error).startswith("t.toml")
    assert error.line <= text.count("\n") + 1


@settings(max_examples=80, deadline=None)
@given(st.one_of(st.text(max_size=40), st.binary(max_size=60).map(lambda data: data.decode("latin-1"))))
@example("\ufeff\ufeff")
@example("[table]\nop='\ud800'")
def test_any_text_is_a_table_or_a_table_error(text: str) -> None:
    check(text)
    check(SMALL + text)
    check(text + "\n" + SMALL)


VALUES = [
    *["true", "0", "-1", "1.5", '""', "[]", "{}", "'x'", "nan", "1979-05-27", "[[1]]", "{a=1}", '["N>1"]', '["sm"]'],
    *['"N"', '"bias"', '"dtype"', '"sm"', '"rows"', '"N>1"', '"N%0==1"', '"(N>1)==bias"', '"bias==True"', '"N%N==1"'],
    *["[", "]", "#", "=", '"""', "'''", "\\", "name", "rule", ".", ","],
]
NOISE = st.one_of(
    st.sampled_from([*VALUES, "0x" + "f" * 5000, "9" * 5000, "\n", "\r", "\0", "[[rule]]\n", "[variables.N]\n"]),
    st.text(max_size=3),
)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_table_with_typing_mistakes_is_a_table_or_a_table_error(data: st.DataObject) -> None:
    text = SMALL
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        text = text[:start] + data.draw(NOISE) + text[start + data.draw(st.integers(0, 12)) :]
    check(text)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_table_with_other_values_is_a_table_or_a_table_error(data: st.DataObject) -> None:
    lines = SMALL.split("\n")
    places = [i for i, line in enumerate(lines) if " = " in line]
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        key = lines[place].partition(" = ")[0]
        lines[place] = f"{key} = {data.draw(NOISE)}"
    check("\n".join(lines))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80), st.integers(0, len(SMALL)))
def test_any_bytes_are_a_table_or_a_table_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, place: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    whole = SMALL.encode()
    file.write_bytes(whole[:place] + data + whole[place:])
    try:
        named = load_table(file).source
    except TableError as error:
        named = error.file
    assert named == file.as_posix()


def test_a_file_runs_no_code(tmp_path: Path) -> None:
    before = set(os.listdir(tmp_path))
    target = tmp_path / "written"
    for attack in (
        f"__import__('os').mkdir('{target}')",
        f"open('{target}', 'w') == 1",
        f"[x for x in [open('{target}', 'w')]] == [1]",
        f"(lambda: open('{target}', 'w'))() == 1",
    ):
        with pytest.raises(TableError):
            parse_table(changed(("N % 4 == 0 and rows > 32", attack)))
    evil = f"x'); __import__('os').mkdir('{target}') #\\n\\\\\\\"\\u0000"
    table = parse_table(changed(('"float16", "float32"', f'"float16", "{evil}"')))
    value = table.variable("dtype").values[1]
    assert table.decide(N=8, sm=80, dtype=value, bias=True).rule == "plain"
    assert table.on("cpu").vector((8, 80, value, True)) == 0b100001
    assert set(os.listdir(tmp_path)) == before

"""Tables that extend another, in every layout of the two files; test_extends.py has what they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchcov.errors import TableError
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.table import Table
from tests.dispatchcov.small_table import SMALL, changed

RULES = SMALL[: SMALL.index("[[partition]]")]
OWN = """\
# of [[rule]] and \u2028 [[partition]]
[[partition]]
name = "quote \\" and \\\\ ü"
rule = ["plain", "vec4"]
where = \"\"\"
N > 3
  and dtype != 'float16'\"\"\"
at_least = 2
required = false
evidence = ["checked"]
cross = ["bias"]
[table]
extends = "base.toml"
[[waiver]]
partition = "other"
reason = "none"
expires = 2030-01-31
[[partition]]
name = "other"
rule = "plain"
"""


def load(folder: Path, text: str, base: str = SMALL) -> Table:
    (folder / "base.toml").write_text(base, encoding="utf-8")
    (folder / "own.toml").write_text(text, encoding="utf-8")
    return load_table(folder / "own.toml")


@pytest.mark.parametrize(
    "text",
    [
        OWN,
        'partition = [{name = "other", rule = "plain"}]\n[table]\nextends = "base.toml"',
        'partition = [{name = "other", rule = "plain"}]\ntable.extends = "base.toml"\nwaiver = []',
        'table = { extends = "./base.toml" }\n[["partition"]]\n"name" = "other"\nrule = "plain"\n[[waiver]]\n'
        'partition = "other"\nreason = "none"\nexpires = "2030-01-31"',
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "base",
    [
        SMALL,
        RULES,
        RULES.rstrip("\n"),
        SMALL.replace("[[part", "# [[waiver]]\n[[part"),
        SMALL.replace("[table]", "[table]  # \u2028"),
    ],
)
def test_the_text_of_an_extending_table_is_a_whole_table_like_it(tmp_path: Path, text: str, base: str) -> None:
    table = load(tmp_path, text, base)
    again = parse_table(table.text)
    assert again.digest == table.digest
    assert again.rules_digest == table.rules_digest == parse_table(SMALL).rules_digest
    assert [(w.partition, w.reason, w.expires) for w in again.waivers] == [
        (w.partition, w.reason, w.expires) for w in table.waivers
    ]
    assert [rule.line for rule in again.rules] == [rule.line for rule in table.rules] == [16, 21]
    assert table.source == (tmp_path / "own.toml").as_posix()
    assert "other" in {partition.name for partition in table.partitions}
    assert "big" not in {partition.name for partition in table.partitions}


def test_requirements_have_the_lines_of_their_own_file(tmp_path: Path) -> None:
    table = load(tmp_path, OWN)
    assert [partition.line for partition in table.partitions] == [2, 18]
    assert [waiver.line for waiver in table.waivers] == [14]


def own(old: str, new: str) -> str:
    assert old in OWN
    return OWN.replace(old, new)


LAST = "expected partitions and waivers to be the last sections of a table that is extended, got "
NONE = "expected a table to extend: {}"


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (SMALL + "[let2]\n", "33: the table file: unknown key 'let2'"),
        (RULES.replace("[let]", "[[waiver]]\n[let]"), f"9: {LAST}let after one in line 8"),
        ("partition = []\n" + RULES, f"2: {LAST}table after one in line 1"),
        ("[[partition]]\n", ": expected [variables], got none"),
        ("rule = 1\n[[partition]]\n", ": expected [variables], got none"),
        (changed(("N % 4 == 0 and", "Q and")), "18: rule 'vec4': when: unknown name 'Q'"),
        ("[table", "1: expected TOML: "),
    ],
)
def test_mistakes_in_the_base(tmp_path: Path, base: str, message: str) -> None:
    with pytest.raises(TableError) as error:
        load(tmp_path, OWN, base)
    assert str(error.value).startswith(f"{tmp_path.as_posix()}/base.toml:{message.removeprefix(':')}")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (own("base.toml", "none.toml"), 13, f"[table]: {NONE}/none.toml: expected a readable TOML file: No such file"),
        (own("base.toml", "."), 13, f"[table]: {NONE}/.: expected a readable TOML file: Is a directory"),
        (own("base.toml", "a\\u0000"), 13, f"[table]: {NONE}/a\0: expected a readable TOML file: embedded null byte"),
        (own("base.toml", ""), 13, "[table]: expected extends to be a string that is not empty, got the string ''"),
        (
            own("at_least = 2", "at_least = -0"),
            8,
            "partition 'quote \" and \\\\ ü': expected at_least to be at least 1, got 0",
        ),
        (
            own("at_least = 2", "at_least = 0x" + "f" * 5000),
            8,
            "partition 'quote \" and \\\\ ü': expected at_least to be an",
        ),
        (own("[[waiver]]", "[waiver]"), 14, "the table file: expected [[waiver]], an array of tables, got a table"),
        (own("[[waiver]]", "[let]"), 14, "the table file: unknown key 'let'; known: table, partition, waiver"),
    ],
    ids=range(8),
)
def test_mistakes(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        load(tmp_path, text)
    folder = tmp_path.as_posix()
    assert str(error.value).startswith(f"{folder}/own.toml:{line}: {message.replace('{}', folder)}")

from __future__ import annotations

import datetime

import pytest

from dispatchcov.errors import TableError
from dispatchcov.formula import ALWAYS, Every, Leaf, Opposite
from dispatchcov.loading.load import parse_table
from dispatchcov.table import Partition
from tests.dispatchcov.small_table import SMALL, changed

RULE = 'rule = "vec4"'
CROSS = 'cross = ["dtype"]'
EXPIRES = "expires = 2030-01-31"


SECOND_WAIVER = f"\n[[waiver]]\npartition = 'big'\nreason = 'x'\n{EXPIRES}"
SECOND_PARTITION = '\n[[partition]]\nname = "big"\nrule = "plain"'


def partition(*lines: str) -> Partition:
    text = changed((CROSS, "\n".join(lines))).partition("[[waiver]]")[0]
    return parse_table(text).partitions[0]


def test_all_of_a_partition() -> None:
    found = partition("required = false", "at_least = 3", 'evidence = ["observed", "checked"]')
    assert (found.required, found.at_least, found.evidence) == (False, 3, frozenset({"observed", "checked"}))
    assert [(bin.label, bin.values, bin.condition) for bin in found.bins] == [("", (), ALWAYS)]
    assert (found.illegal, partition("illegal = true").illegal) == (False, True)
    assert (partition("").required, partition("illegal = true").required) == (True, False)


def test_several_rules_are_in_rule_order() -> None:
    text = changed((RULE, 'rule = ["plain", "vec4"]'))
    assert parse_table(text).partitions[0].rules == (0, 1)


def test_bins() -> None:
    found = partition('cross = ["dtype", "bias", "sm"]').bins
    assert [bin.label for bin in found][:3] == [
        "dtype=float16, bias=false, sm=80",
        "dtype=float16, bias=false, sm=90",
        "dtype=float16, bias=true, sm=80",
    ]
    assert len(found) == 8
    assert found[0].values == (("dtype", "float16"), ("bias", False), ("sm", 80))
    assert found[0].condition == Every((Leaf(4), Opposite(Leaf(5)), Leaf(6)))


def test_labels_of_strings_that_would_be_misread() -> None:
    table = parse_table(changed(('"float16", "float32"', '"a b", "c,d=e", "x\\n", "", "ok"')))
    labels = [bin.label for bin in table.partitions[0].bins]
    assert labels == ["dtype='a b'", "dtype='c,d=e'", r"dtype='x\n'", "dtype=''", "dtype=ok"]


PARTITION = [
    (RULE, 'rule = "vec"', 26, "unknown rule 'vec'; did you mean 'vec4'? known: vec4, plain"),
    (RULE, 'rule = ["vec4",\n"vec"]', 27, "unknown rule 'vec' in rule; did you mean 'vec4'? known: vec4, plain"),
    (RULE, 'rule = ["vec4", "vec4"]', 26, "expected each entry of rule once, got 'vec4' twice"),
    (RULE, "rule = 1", 26, "expected rule to be a list of strings, got the integer 1"),
    (RULE, "rule = []", 26, "expected rule, a name or a list of names, got none; known: vec4, plain"),
    (RULE, "", 24, "expected rule, a name or a list of names, got none; known: vec4, plain"),
    (RULE, 'rule = "vec4"\nrules = "plain"', 27, "unknown key 'rules'; did you mean 'rule'? known: name, rule, where,"),
    ('where = "N > 4096"', 'where = "N"', 27, "where: expected a condition, got int 'N'"),
    (CROSS, 'cross = "dtype"', 28, "expected cross to be a list of strings, got the string 'dtype'"),
    (CROSS, 'cross = ["dtyp"]', 28, "unknown variable 'dtyp' in cross; did you mean 'dtype'? known: N, sm,"),
    (CROSS, 'cross = ["rows"]', 28, "unknown variable 'rows' in cross; known: N, sm, dtype, bias"),
    (CROSS, 'cross = ["dtype",\n"N"]', 29, "cross needs a variable that lists its values, got 'N', an integer >= 0"),
    (CROSS, 'cross = ["dtype", "dtype"]', 28, "expected each entry of cross once, got 'dtype' twice"),
    (CROSS, "at_least = 0", 28, "expected at_least to be at least 1, got 0"),
    (CROSS, "at_least = 1.5", 28, "expected at_least to be an integer below 2**63, got the number 1.5"),
    (CROSS, "required = 1", 28, "expected required to be true or false, got the integer 1"),
    (CROSS, "illegal = true\nrequired = true", 29, "expected either illegal or required, got both"),
    (CROSS, "illegal = true\nat_least = 2", 29, "expected no at_least, since the partition is illegal, got 2"),
    (CROSS, 'evidence = "checked"', 28, "expected evidence to be a list of strings, got the string 'checked'"),
    (CROSS, 'evidence = ["seen"]', 28, "unknown evidence 'seen' in evidence; known: selected, launched, observed,"),
]  # fmt: skip


WAIVER = [
    ('reason = "no memory"', "", 29, "expected reason to be a string that is not empty, got none"),
    ('reason = "no memory"', 'reason = "a\\nb"', 31, "expected reason to be at most 200 printable characters"),
    (EXPIRES, "", 29, "expected expires to be a date such as 2027-01-31, got none"),
    (EXPIRES, 'expires = "soon"', 32, "expected expires to be a date such as 2027-01-31, got the string 'soon'"),
    (EXPIRES, "expires = 2030-01-31T00:00:00", 32, "expected expires to be a date such as 2027-01-31, got"),
    (EXPIRES, "expires = 07:32:00", 32, "expected expires to be a date such as 2027-01-31, got time"),
    (EXPIRES, "expires = 2030", 32, "expected expires to be a date such as 2027-01-31, got the integer 2030"),
    (EXPIRES, "expires = 2030-01-31\nuntil = 2030-01-31", 33, "unknown key 'until'; known: partition, reason, expires"),
    (EXPIRES, EXPIRES + SECOND_WAIVER, 34, "expected one waiver, got another at line 29"),
]  # fmt: skip


OTHER = [
    ('name = "big"', 'nmae = "big"', 24, "[[partition]]: expected name to be a string that is not empty, got none"),
    (CROSS, CROSS + SECOND_PARTITION, 29, "partition 'big' is declared twice, first at line 24"),
    ('on = "big"', 'on = "bgi"', 30, "[[waiver]]: unknown partition 'bgi'; did you mean 'big'? known: big"),
    ('partition = "big"', "", 29, "[[waiver]]: expected partition to be a string that is not empty, got none"),
    (EXPIRES, "expires = 2030-02-31", 32, "expected TOML: Invalid date"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "message"), PARTITION, ids=range(len(PARTITION)))
def test_mistakes_in_a_partition(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((old, new)))
    assert str(error.value).startswith(f"<table>:{line}: partition 'big': {message}")


def test_what_must_not_be_hit_needs_no_waiver() -> None:
    with pytest.raises(
        TableError, match="waiver of 'big': expected a partition that must be hit, got one that is illegal"
    ):
        parse_table(changed((CROSS, "illegal = true")))


@pytest.mark.parametrize(("old", "new", "line", "message"), WAIVER, ids=range(len(WAIVER)))
def test_mistakes_in_a_waiver(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((old, new)))
    assert str(error.value).startswith(f"<table>:{line}: waiver of 'big': {message}")


@pytest.mark.parametrize(("old", "new", "line", "message"), OTHER, ids=range(len(OTHER)))
def test_other_mistakes(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((old, new)))
    assert str(error.value).startswith(f"<table>:{line}: {message}")


def test_bins_are_bounded_over_the_whole_table() -> None:
    values = ", ".join(f'"d{i}"' for i in range(64))
    rule = '\n[[partition]]\nname = "p{0}"\nrule = "plain"\ncross = ["dtype"]'
    many = "".join(rule.format(i) for i in range(63))
    text = changed(('"float16", "float32"', values)) + many
    assert sum(len(each.bins) for each in parse_table(text).partitions) == 4096
    with pytest.raises(TableError, match=r"partition 'p63': expected at most 4096 bins in the table, got 4160"):
        parse_table(text + rule.format(63))


MISMATCH = f"\n[[waiver]]\nmismatch = 'kernel'\nreason = 'x'\n{EXPIRES}"


def test_waivers_of_mismatches() -> None:
    text = changed((EXPIRES, EXPIRES + MISMATCH + MISMATCH + "\nrule = 'vec4'\nkernel = 'other*'"))
    both = parse_table(text).waivers[1:]
    assert [(w.partition, w.mismatch, w.rule, w.kernel) for w in both] == [
        ("", "kernel", "", ""),
        ("", "kernel", "vec4", "other*"),
    ]
    assert [str(w) for w in both] == [
        "the waiver of kernel mismatches",
        "the waiver of kernel mismatches in rule vec4 with other*",
    ]


@pytest.mark.parametrize(
    ("more", "line", "message"),
    [
        ("\nrule = 'vec5'", 37, "unknown rule 'vec5'; did you mean 'vec4'?"),
        ("\npartition = 'big'", 37, "unknown key 'partition'; known: mismatch, rule, kernel, reason, expires"),
        (MISMATCH, 38, "expected one waiver, got another at line 33"),
        (MISMATCH.replace("'kernel'", "'kernl'"), 38, "unknown mismatch 'kernl'; did you mean 'kernel'?"),
        (
            MISMATCH.replace("'kernel'", "'domain'") + "\nkernel = 'x'",
            41,
            "expected no kernel, since it waives domain mismatches, got 'x'",
        ),
        (
            MISMATCH.replace("'kernel'", "'untotal'") + "\nrule = 'vec4'",
            41,
            "expected no rule, since none takes what it waives, got 'vec4'",
        ),
    ],
)
def test_mistakes_in_a_waiver_of_mismatches(more: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((EXPIRES, EXPIRES + MISMATCH + more)))
    assert str(error.value).startswith(f"<table>:{line}: waiver of mismatches: {message}")


def test_waivers_by_string_date() -> None:
    table = parse_table(changed((EXPIRES, 'expires = "2030-01-31"')))
    assert table.waivers[0].expires == datetime.date(2030, 1, 31)
    assert table.digest == parse_table(SMALL).digest

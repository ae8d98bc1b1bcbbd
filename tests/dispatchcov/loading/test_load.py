from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from dispatchcov.errors import TableError
from dispatchcov.formula import ALWAYS, Every, Leaf
from dispatchcov.loading.load import load_table, parse_table
from tests.dispatchcov.small_table import SMALL, changed

FP4 = Path(__file__).parents[1] / "tables" / "fp4.toml"


def test_the_parts_of_a_table() -> None:
    table = parse_table(SMALL, source="dir/small.toml")
    assert (table.op, table.source, table.text) == ("demo::scale", "dir/small.toml", SMALL)
    assert table.names == ("N", "sm", "dtype", "bias")
    assert table.hardware == ("sm",)
    assert table.parts.lets == (("rows", "max(32, N)"),)
    assert [predicate.text for predicate in table.predicates] == [
        "N % 4 == 0", "rows > 32", "N >= 1024", "N > 4096", "dtype == 'float16'", "dtype == 'float32'",
    ]  # fmt: skip
    assert [sorted(predicate.reads) for predicate in table.predicates] == [["N"]] * 4 + [["dtype"]] * 2
    vec4, plain = table.rules
    assert (vec4.guard, plain.guard) == (Every((Leaf(0), Leaf(1))), ALWAYS)
    assert (vec4.when, plain.when) == ("N % 4 == 0 and rows > 32", "")
    assert [split.index for split in vec4.splits] == [2]
    assert (vec4.kernel.requires, vec4.kernel.requires_text, plain.kernel.requires) == (Leaf(0), "N % 4 == 0", ALWAYS)
    (big,) = table.partitions
    assert [bin.label for bin in big.bins] == ["dtype=float16", "dtype=float32"]
    assert (big.rules, big.condition, big.where, big.required, big.at_least) == ((0,), Leaf(3), "N > 4096", True, 1)
    (waiver,) = table.waivers
    assert (waiver.partition, waiver.reason, waiver.expires) == ("big", "no memory", datetime.date(2030, 1, 31))


def test_lines_of_declarations() -> None:
    table = parse_table(SMALL)
    assert [variable.line for variable in table.variables] == [4, 5, 6, 7]
    assert [kernel.line for kernel in table.kernels] == [10, 14]
    assert [rule.line for rule in table.rules] == [16, 21]
    assert [predicate.line for predicate in table.predicates] == [18, 18, 20, 27, 28, 28]
    assert [table.partitions[0].line, table.waivers[0].line] == [24, 29]


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    table = load_table(file)
    assert table.source == file.as_posix()
    assert table.digest == parse_table(SMALL).digest == parse_table("\ufeff" + SMALL).digest
    assert [rule.line for rule in table.rules] == [16, 21]
    assert parse_table(table.text).digest == table.digest


def test_the_same_table_in_other_toml() -> None:
    """Headers, dotted and quoted keys, inline tables and arrays of them say the same, and keep their lines."""
    text = '''
table.op = "demo::scale"
rule = [
  { name = "vec4", when = """
N % 4 == 0
  and rows > 32""", kernel = "Vec4", "splits" = ["N >= 1024"] },

  { name = "plain", kernel = "Plain" },
]
[ variables . "N" ]
type = "int"
min = 0
[variables]
sm.type = "int"
sm.values = [80, 90]
sm.hardware = true
[variables.dtype]
type = "enum"
values = ["float16", "float32"]  # [[rule]]
["variables".'bias']
type = "bool"
[let]
"rows" = \'\'\'max(32, N)\'\'\'
[[kernel]]
name = "Vec4"
symbol = """\\
    Vec4<\\
    {dtype}>"""
requires = "N % 4 == 0"
[["kernel"]]
name = "Plain"
[[partition]]
where = "N > 4096"
name = "big"
cross = ["dtype"]
rule = ["vec4"]
'''
    table = parse_table(text)
    assert table.digest == parse_table(SMALL).digest
    assert [rule.line for rule in table.rules] == [4, 8]
    assert [variable.line for variable in table.variables] == [10, 14, 17, 20]
    assert [kernel.line for kernel in table.kernels] == [24, 30]


def test_without_partitions_each_rule_is_one() -> None:
    text = SMALL[: SMALL.index("[[partition]]")]
    table = parse_table(text + "[[waiver]]\npartition = 'plain'\nreason = 'x'\nexpires = '2030-01-31'\n")
    assert [(p.name, p.rules, p.required, p.line) for p in table.partitions] == [
        ("vec4", (0,), True, 16),
        ("plain", (1,), True, 21),
    ]
    assert table.waivers[0].expires == datetime.date(2030, 1, 31)


def test_a_rule_after_one_without_a_guard_is_kept() -> None:
    table = parse_table(SMALL + "[[rule]]\nname = 'late'\nwhen = 'bias'\nkernel = 'Plain'\n")
    assert table.rules[2].guard == Leaf(2)
    assert table.decide(N=3, sm=80, dtype="float16", bias=True).rule == "plain"


MISTAKES = [
    (
        "[table]\n",
        "",
        1,
        "the table file: unknown key 'op'; known: table, variables, let, kernel, rule, partition, waiver",
    ),
    (
        "[table]\n",
        "[tabel]\n",
        1,
        "the table file: unknown key 'tabel'; did you mean 'table'? known: table, variables, let,",
    ),
    ("[let]", "[lets]", 8, "the table file: unknown key 'lets'; did you mean 'let'? known: table, "),
    ('op = "demo::scale"', "", 1, "[table]: expected op to be a string that is not empty, got none"),
    ('[table]\nop = "demo::scale"', "", 0, "[table]: expected op to be a string that is not empty, got none"),
    ('op = "demo::scale"', "op = 7", 2, "[table]: expected op to be a string that is not empty, got the integer 7"),
    ('"demo::scale"', '"demo\\u0000"', 2, "[table]: expected op to be at most 200 printable characters"),
    ('[table]\nop = "demo::scale"', "table = 1", 1, "the table file: expected table to be a table, got the integer 1"),
    ("[table]", "[[table]]", 1, "the table file: expected table to be a table, got an array [{'op': 'demo::scale'}]"),
    ('"demo::scale"', '"demo::scale"\nversion = 1', 3, "[table]: unknown key 'version'; known: op"),
    (
        '[[kernel]]\nname = "Plain"',
        '[[kernels]]\nname = "Plain"',
        14,
        "the table file: unknown key 'kernels'; did you mean 'kernel'?",
    ),
    ('name = "Plain"', 'names = "Plain"', 14, "[[kernel]]: expected name to be a string that is not empty, got none"),
    (
        'name = "Plain"',
        'name = " Plain"',
        15,
        "[[kernel]]: expected name to be at most 200 printable characters without space",
    ),
    (
        'name = "Plain"',
        f'name = "{"P" * 201}"',
        15,
        "[[kernel]]: expected name to be at most 200 printable characters",
    ),
    ('name = "Plain"', 'name = "Vec4"', 14, "kernel 'Vec4' is declared twice, first at line 10"),
    (
        'name = "Plain"',
        'name = "Plain"\nrequire = "N > 1"',
        16,
        "kernel 'Plain': unknown key 'require'; did you mean 'requires'? known: name,",
    ),
    (
        'symbol = "Vec4<{dtype}>"',
        "symbol = 4",
        12,
        "kernel 'Vec4': expected symbol to be a string that is not empty, got the integer 4",
    ),
    (
        "{dtype}",
        "{dtyp}",
        12,
        "kernel 'Vec4': unknown variable 'dtyp' in symbol; did you mean 'dtype'? known: N, sm, dtype, bias",
    ),
    ("{dtype}", "{rows}", 12, "kernel 'Vec4': unknown variable 'rows' in symbol; known: N, sm, dtype, bias"),
    ("{dtype}", "{}", 12, "kernel 'Vec4': unknown variable '' in symbol; known: N, sm, dtype, bias"),
    (
        "{dtype}",
        "{dtype",
        12,
        "kernel 'Vec4': expected each { of symbol to be closed, as in {dtype}, got 'Vec4<{dtype>'",
    ),
    (
        "{dtype}",
        "dtype}",
        12,
        "kernel 'Vec4': expected each { of symbol to be closed, as in {dtype}, got 'Vec4<dtype}>'",
    ),
    (
        'requires = "N % 4 == 0"',
        'requires = "N % 4"',
        13,
        "kernel 'Vec4': requires: expected a condition, got int 'N % 4'",
    ),
    ('name = "plain"', 'nam = "plain"', 21, "[[rule]]: expected name to be a string that is not empty, got none"),
    ('name = "plain"', 'name = "vec4"', 21, "rule 'vec4' is declared twice, first at line 16"),
    ('kernel = "Plain"', "", 21, "rule 'plain': expected kernel to be a string that is not empty, got none"),
    (
        'kernel = "Plain"',
        'kernel = "plain"',
        23,
        "rule 'plain': unknown kernel 'plain'; did you mean 'Plain'? known: Vec4, Plain",
    ),
    (
        'kernel = "Plain"',
        'kernal = "Plain"',
        23,
        "rule 'plain': unknown key 'kernal'; did you mean 'kernel'? known: name, when, kernel, splits",
    ),
    (
        '[[rule]]\nname = "vec4"',
        '[[rule]]\nname = "vec4"\n[rule.sub]',
        18,
        "rule 'vec4': unknown key 'sub'; known: name, when",
    ),
    (
        'when = "N % 4 == 0 and rows > 32"',
        "when = true",
        18,
        "rule 'vec4': when: expected an expression in a string, got bool True",
    ),
    ('when = "N % 4 == 0 and rows > 32"', 'when = ""', 18, "rule 'vec4': when: expected an expression, got ''"),
    (
        'splits = ["N >= 1024"]',
        'splits = "N >= 1024"',
        20,
        "rule 'vec4': expected splits to be a list of strings, got the string 'N >= 1024'",
    ),
    (
        'splits = ["N >= 1024"]',
        'splits = [\n  "N >= 1024",\n  "1 < N < 5"]',
        22,
        "rule 'vec4': expected a split to be one predicate, got '1 < N < 5'",
    ),
    (
        'splits = ["N >= 1024"]',
        'splits = ["not bias"]',
        20,
        "rule 'vec4': expected a split to be one predicate, got 'not bias'",
    ),
    (
        'splits = ["N >= 1024"]',
        'splits = ["bias", "bias == True"]',
        20,
        "rule 'vec4': expected each split once, got 'bias == True' twice",
    ),
    ('rows = "max(32, N)"', 'rows = "max(32, Q)"', 9, "[let]: rows: unknown name 'Q'; known: N, sm, dtype, bias"),
    ('rows = "max(32, N)"', 'rows = "rows + 1"', 9, "[let]: rows: unknown name 'rows'; known: N, sm, dtype, bias"),
    (
        'rows = "max(32, N)"',
        'rows = "cols"\ncols = "N"',
        9,
        "[let]: rows: unknown name 'cols'; known: N, sm, dtype, bias",
    ),
    ('rows = "max(32, N)"', "rows = 32", 9, "[let]: rows: expected an expression in a string, got int 32"),
    (
        'rows = "max(32, N)"',
        'rows = "max(32, N)"\nbias = "N > 1"',
        10,
        "[let]: 'bias' is a variable, declared at line 7; expected another name",
    ),
    (
        'rows = "max(32, N)"',
        'rows = "max(32, N)"\nceildiv = "N"',
        10,
        "[let]: expected a name of at most 80 letters, digits and _, the first a letter, ",
    ),
    ("[let]", "[[let]]", 8, "the table file: expected let to be a table, got an array [{'rows': 'max(32, N)'}]"),
    (
        '[[rule]]\nname = "plain"',
        '[rule]\nname = "plain"',
        21,
        "expected TOML: Cannot declare ('rule',) twice (at line 21, column 6)",
    ),
    ('op = "demo::scale"', "op = ", 2, "expected TOML: Invalid value (at line 2, column 6)"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(TableError) as error:
        parse_table(changed((old, new)), source="dir/t.toml")
    assert str(error.value).startswith(f"dir/t.toml:{line}: {message}" if line else f"dir/t.toml: {message}")
    assert (error.value.file, error.value.line) == ("dir/t.toml", line)


@pytest.mark.parametrize(
    ("start", "end", "what"),
    [
        ("[variables]", "[let]", "[variables]"),
        ("[[kernel]]", "[[rule]]", "[[kernel]]"),
        ("[[rule]]", "[[part", "[[rule]]"),
    ],
)
def test_parts_that_are_missing(start: str, end: str, what: str) -> None:
    text = SMALL[: SMALL.index(start)] + SMALL[SMALL.index(end) :]
    with pytest.raises(TableError) as error:
        parse_table(text)
    assert str(error.value) == f"<table>: expected {what}, got none"
    empty = f"{what.strip('[]')} = {'[]' if '[[' in what else '{}'}\n"
    with pytest.raises(TableError) as error:
        parse_table(empty + text)
    assert str(error.value) == f"<table>:1: expected {what}, got none"


def test_the_copy_of_the_fp4_table_is_a_table() -> None:
    table = load_table(FP4)
    assert [rule.name for rule in table.rules] == [
        "empty", "zero-k", "decode-mma", "decode-gemv", "native-sm120", "prefill-vec8", "prefill-scalar",
    ]  # fmt: skip


def test_a_relative_path_from_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, beside in (("small.toml", "with_name('small.toml')"), ("in/small.toml", "parent / 'in/small.toml'")):
        with pytest.raises(TableError) as error:
            load_table(path)
        assert str(error.value) == (
            f"{path}: expected a readable TOML file: No such file or directory: {tmp_path / path}; a relative path "
            f"starts at the working directory, {tmp_path}; in code, write Path(__file__).{beside}"
        )
    with pytest.raises(TableError) as error:
        load_table(tmp_path / "small.toml")
    assert error.value.message == "expected a readable TOML file: No such file or directory"
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(TableError) as error:
        load_table("folder.toml")
    assert error.value.message == "expected a readable TOML file: Is a directory"

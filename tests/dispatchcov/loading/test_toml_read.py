from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatchcov.errors import TableError
from dispatchcov.loading.toml_read import MAX_BYTES, Document, Entry, read_text

TEXT = """
name = "a"
blank = "  "
number = -7
big = 9223372036854775808
yes = true
list = [
  "a",
  "b",
]
numbers = [1, 2]
mixed = ["a", 1]
huge = [0xffffffffffffffff]
twice = [1, 2, 1]
date = 2027-01-31
text_date = "2027-01-31"
time = 2027-01-31T00:00:00
padded = " a"
escape = "\\u001b[31m"
table = { a = 1 }
tables = [{ a = 1 }, { b = 2 }]
broken = [{}, 3]
"""
LINES = {line.partition(" = ")[0]: number for number, line in enumerate(TEXT.split("\n"), 1)}


PRINTABLE = "at most 200 printable characters without space around them"


def root() -> Entry:
    return Document(TEXT, "dir/t.toml").root


def test_values() -> None:
    entry = root()
    assert (entry.string("name"), entry.name("name")) == ("a", "a")
    assert (entry.integer("number"), entry.integer("none")) == (-7, None)
    assert (entry.boolean("yes", False), entry.boolean("none", True)) == (True, True)
    assert (entry.strings("list"), entry.strings("none")) == (["a", "b"], [])
    assert entry.integers("numbers") == [1, 2]
    assert entry.choices("list", ["b", "a", "c"], "letter") == ["a", "b"]
    assert entry.date("date") == entry.date("text_date") == datetime.date(2027, 1, 31)
    assert (entry.table("table").values, entry.table("none").values) == ({"a": 1}, {})
    assert [each.path for each in entry.tables("tables")] == [("tables", 0), ("tables", 1)]
    assert ("name" in entry, "none" in entry) == (True, False)
    assert entry.tables("tables")[1].line("b") == LINES["tables"]


@pytest.mark.parametrize(
    ("read", "key", "message"),
    [
        (Entry.string, "number", "expected number to be a string that is not empty, got the integer -7"),
        (Entry.string, "blank", "expected blank to be a string that is not empty, got the string '  '"),
        (Entry.string, "yes", "expected yes to be a string that is not empty, got true"),
        (Entry.name, "padded", f"expected padded to be {PRINTABLE}, got ' a'"),
        (Entry.name, "escape", f"expected escape to be {PRINTABLE}, got '\\x1b[31m'"),
        (Entry.integer, "name", "expected name to be an integer below 2**63, got the string 'a'"),
        (Entry.integer, "yes", "expected yes to be an integer below 2**63, got true"),
        (Entry.integer, "big", "expected big to be an integer below 2**63, got the integer 9223372036854775808"),
        (lambda e, key: e.boolean(key, True), "number", "expected number to be true or false, got the integer -7"),
        (Entry.strings, "name", "expected name to be a list of strings, got the string 'a'"),
        (Entry.strings, "mixed", "expected mixed to be a list of strings, got the integer 1 in it"),
        (Entry.integers, "list", "expected list to be a list of integers below 2**63, got the string 'a' in it"),
        (Entry.integers, "huge", f"expected huge to be a list of integers below 2**63, got the integer {2**64 - 1}"),
        (Entry.integers, "twice", "expected each entry of twice once, got 1 twice"),
        (lambda e, key: e.choices(key, ["a", "c"], "letter"), "list", "unknown letter 'b' in list; known: a, c"),
        (Entry.date, "name", "expected name to be a date such as 2027-01-31, got the string 'a'"),
        (Entry.date, "time", "expected time to be a date such as 2027-01-31, got datetime datetime.datetime(2027,"),
        (Entry.date, "number", "expected number to be a date such as 2027-01-31, got the integer -7"),
        (Entry.table, "list", "expected list to be a table, got an array ['a', 'b']"),
        (Entry.tables, "table", "expected [[table]], an array of tables, got a table {'a': 1}"),
        (Entry.tables, "broken", "expected [[broken]], an array of tables, got the integer 3 in it"),
    ],
)  # fmt: skip
def test_messages(read: Callable[[Entry, str], object], key: str, message: str) -> None:
    with pytest.raises(TableError) as error:
        read(root(), key)
    inside = {"'b' in list": 2, "'a' in it": 1}
    line = LINES[key] + next((more for part, more in inside.items() if part in message), 0)
    assert str(error.value).startswith(f"dir/t.toml:{line}: the table file: {message}")


def test_missing_keys_are_said_to_be_missing() -> None:
    with pytest.raises(TableError, match=r"^dir/t.toml: the table file: expected op to be a string .* got none$"):
        root().string("op")


def test_only() -> None:
    with pytest.raises(TableError) as error:
        root().table("table").only("b", "aa")
    assert str(error.value) == f"dir/t.toml:{LINES['table']}: [table]: unknown key 'a'; did you mean 'aa'? known: b, aa"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = ]", "t:2: expected TOML: Invalid value (at line 2, column 5)"),
        ("a = 1\nb = [1,\n", "t:3: expected TOML: Invalid value (at end of document)"),
        ("a = 1\na = 2\n", "t:2: expected TOML: Cannot overwrite a value (at line 2, column 6)"),
        ("a = " + "9" * 5000, "t: expected TOML: Exceeds the limit (4300 digits) for integer string conversion"),
        ("a = 1\n\n[" + "a." * 9 + "a]", "t:3: expected a key of at most 8 parts"),
        ("a" * (MAX_BYTES + 1), f"t: expected at most {MAX_BYTES} characters, got {MAX_BYTES + 1}"),
    ],
    ids=range(6),
)
def test_what_is_not_toml(text: str, message: str) -> None:
    with pytest.raises(TableError) as error:
        Document(text, "t")
    assert str(error.value).startswith(message)


def test_too_many_entries() -> None:
    many = "list = [" + "'a'," * 1001 + "]\n" + "".join(f"t.k{i} = 1\n" for i in range(1001)) + "[[x]]\n" * 1001
    entry = Document(many, "t").root
    for read, wanted in (
        (Entry.strings, "t:1: the table file: expected at most 1000 entries in list, got 1001"),
        (lambda e, _: e.table("t"), "t:2: the table file: expected at most 1000 entries in t, got 1001"),
        (lambda e, _: e.tables("x"), "t:1003: the table file: expected at most 1000 of [[x]], got 1001"),
    ):
        with pytest.raises(TableError) as error:
            read(entry, "list")
        assert str(error.value) == wanted


def test_reading_files(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    for data in (b"a = 1\r\n", b"\xef\xbb\xbfa = 1\r\n"):
        file.write_bytes(data)
        assert read_text(file) == read_text(str(file)) == "a = 1\r\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a = 1\nb = '\xff'\n", "{file}:2: expected UTF-8, got byte 0xff"),
        (b"#" * (MAX_BYTES + 1), "{file}: expected at most 1048576 bytes, got more"),
        (None, "{file}: expected a readable TOML file: No such file or directory"),
    ],
    ids=range(3),
)
def test_files_that_cannot_be_read(tmp_path: Path, data: bytes | None, message: str) -> None:
    file = tmp_path / "t.toml"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(TableError) as error:
        read_text(file)
    assert str(error.value) == message.format(file=file)


@pytest.mark.parametrize(("path", "reason"), [(".", "Is a directory"), ("a\0b", "embedded null byte")])
def test_paths_that_are_no_file(path: str, reason: str) -> None:
    with pytest.raises(TableError, match=f"expected a readable TOML file: {reason}"):
        read_text(path)

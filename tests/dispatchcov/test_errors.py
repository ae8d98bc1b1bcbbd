from __future__ import annotations

import copy
import pickle

import pytest

from dispatchcov import errors
from dispatchcov.errors import DispatchcovError, TableError, brief, known


def test_every_error_is_in_the_tree_that_the_docstring_draws() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert all(issubclass(each, DispatchcovError) and each.__name__ in str(errors.__doc__) for each in classes)


def test_a_table_error_says_where() -> None:
    error = TableError("expected this, got that", file="a/b.toml", line=7)
    assert (str(error), error.message, error.file, error.line) == (
        "a/b.toml:7: expected this, got that",
        "expected this, got that",
        "a/b.toml",
        7,
    )
    assert str(TableError("expected TOML")) == "<table>: expected TOML"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_table_error_survives_a_process_boundary(again: object) -> None:
    error = again(TableError("expected this", file="b.toml", line=7))  # type: ignore[operator]
    assert (type(error), str(error), error.line) == (TableError, "b.toml:7: expected this", 7)


def test_known_suggests_and_lists() -> None:
    assert known("prefil", ["decode", "prefill"]) == "did you mean 'prefill'? known: decode, prefill"
    assert known("n", ["M", "N"]) == "did you mean 'N'? known: M, N"
    assert known("PREFIL", ["decode", "prefill"]) == "did you mean 'prefill'? known: decode, prefill"
    assert known("Kernel", ["kernels", "KERNEL"]) == "did you mean 'KERNEL'? known: kernels, KERNEL"
    assert known("", ["x"]) == "known: x"
    assert known("zzz", iter(["decode"])) == "known: decode"
    assert known("zzz", []) == "known: none"


def test_known_is_short_whatever_the_names() -> None:
    text = known("rule7", (f"rule{i}" for i in range(5000)))
    assert text.endswith(", rule49 and 4950 more")
    assert text.startswith("did you mean 'rule7'? known: rule0, ")
    assert known("x" * 10**6, ["x" * 999]).startswith("known: x")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (-(2**70), str(-(2**70))),
        pytest.param(16**5000, "<20001 bits>", id="huge"),
        ("a\nb", r"'a\nb'"),
        ("\x1b[31m", r"'\x1b[31m'"),
        (True, "True"),
        ({"min": 3}, "{'min': 3}"),
        ([[[[[1]]]]], "[[[[...]]]]"),
    ],
)
def test_brief(value: object, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(
    "value", ["x" * 10**6, ["y" * 100] * 1000, {str(i): "z" * 99 for i in range(1000)}, b"q" * 5000], ids=type
)
def test_brief_is_brief(value: object) -> None:
    assert len(brief(value)) < 1500

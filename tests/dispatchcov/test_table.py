from __future__ import annotations

import enum
import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchcov.errors import FactsError
from dispatchcov.expr import Value
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.table import Table, Variable, known_tables, plain, show
from tests.dispatchcov.small_table import SMALL

TABLE = parse_table(SMALL, source="small.toml")
FACTS: dict[str, Any] = {"N": 8, "sm": 80, "dtype": "float16", "bias": True}


class Dtype(str, enum.Enum):  # noqa: UP042  # unlike StrEnum, str() of its members is not their value
    HALF = "float16"


class Sm(enum.IntEnum):
    AMPERE = 80


class Index:
    def __index__(self) -> int:
        return 8


class NoIndex:
    def __index__(self) -> int:
        raise TypeError("only integer tensors of a single element can be converted to an index")

    def __repr__(self) -> str:
        return "NoIndex()"


@pytest.mark.parametrize(
    ("name", "given", "fact"),
    [
        ("N", 8, 8),
        ("N", np.int64(8), 8),
        ("N", np.uint8(8), 8),
        ("N", Index(), 8),
        ("sm", Sm.AMPERE, 80),
        ("bias", np.bool_(False), False),
        ("dtype", Dtype.HALF, "float16"),
        ("dtype", np.str_("float32"), "float32"),
    ],
)
def test_facts_become_plain_values(name: str, given: object, fact: Value) -> None:
    facts = TABLE.facts({**FACTS, name: given})
    assert facts == {**FACTS, name: fact}
    assert list(facts) == list(TABLE.names)
    assert type(facts[name]) is type(fact)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n": 8}, "demo::scale: unknown variable 'n'; did you mean 'N'? known: N, sm, dtype, bias"),
        ({"dtyp": 8}, "demo::scale: unknown variable 'dtyp'; did you mean 'dtype'? known: N, sm, dtype, bias"),
        ({"N": "8"}, "demo::scale: expected N to be an integer >= 0, got str '8'"),
        ({"N": 8.0}, "demo::scale: expected N to be an integer >= 0, got float 8.0"),
        ({"N": True}, "demo::scale: expected N to be an integer >= 0, got bool True"),
        ({"N": None}, "demo::scale: expected N to be an integer >= 0, got NoneType None"),
        ({"N": NoIndex()}, "demo::scale: expected N to be an integer >= 0, got NoIndex NoIndex()"),
        ({"N": -1}, "demo::scale: expected N to be an integer >= 0, got -1"),
        ({"sm": 86}, "demo::scale: expected sm to be one of 80, 90, got 86"),
        ({"dtype": 16}, "demo::scale: expected dtype to be one of float16, float32, got int 16"),
        ({"dtype": "int8"}, "demo::scale: expected dtype to be one of float16, float32, got int8"),
        ({"dtype": "x" * 999}, "demo::scale: expected dtype to be one of float16, float32, got 'xxx"),
        ({"bias": 1}, "demo::scale: expected bias to be one of false, true, got int 1"),
        ({"bias": "true"}, "demo::scale: expected bias to be one of false, true, got str 'true'"),
    ],
)
def test_facts_that_do_not_fit(given: dict[str, object], message: str) -> None:
    with pytest.raises(FactsError) as error:
        TABLE.facts({**FACTS, **given})
    assert str(error.value).startswith(message)
    assert len(str(error.value)) < 300


def test_facts_that_are_missing() -> None:
    with pytest.raises(FactsError) as error:
        TABLE.facts({"N": 8, "bias": True})
    assert str(error.value) == "demo::scale: expected a value for each of N, sm, dtype, bias; missing sm, dtype"


def test_facts_outside_the_domain() -> None:
    outside = {**FACTS, "N": -4, "sm": 75}
    assert TABLE.facts(outside, domain=False) == outside
    assert TABLE.outside(outside) == ("N", "sm")
    assert TABLE.outside(FACTS) == ()


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        (Variable("x", "int"), "an integer"),
        (Variable("x", "int", min=0), "an integer >= 0"),
        (Variable("x", "int", max=8), "an integer <= 8"),
        (Variable("x", "int", min=-8, max=8, multiple_of=4), "an integer >= -8 and <= 8, a multiple of 4"),
        (Variable("x", "int", multiple_of=4), "an integer, a multiple of 4"),
        (Variable("x", "int", values=(80, 90)), "one of 80, 90"),
        (Variable("x", "enum", values=("a", "b c", "")), "one of a, 'b c', ''"),
        (Variable("x", "bool", values=(False, True)), "one of false, true"),
    ],
)
def test_domains_as_text(variable: Variable, text: str) -> None:
    assert variable.domain() == text


@settings(max_examples=100, deadline=None)
@given(st.integers(-9, 9), st.integers(-9, 9) | st.none(), st.integers(-9, 9) | st.none(), st.integers(1, 5))
def test_domains(value: int, low: int | None, high: int | None, step: int) -> None:
    variable = Variable("x", "int", min=low, max=high, multiple_of=step)
    wanted = (low is None or low <= value) and (high is None or value <= high) and value % step == 0
    assert variable.contains(value) == wanted


@pytest.mark.parametrize(
    ("value", "text"),
    [(4, "4"), (-4, "-4"), (True, "true"), ("float16", "float16"), ("a=b", "'a=b'"), ("\x1b", r"'\x1b'"), ("ü", "ü")],
)
def test_plain_values(value: Value, text: str) -> None:
    assert plain(value) == text


def test_facts_on_one_line() -> None:
    assert show({"M": 4, "dtype": "a\nb", "bias": False}) == r"M=4 dtype='a\nb' bias=false"
    assert show({"M": 1 << 20000}) == "M=<20001 bits>"


def test_names_are_looked_up() -> None:
    assert TABLE.variable("sm").values == (80, 90)
    assert TABLE.rule("plain").index == 1
    big, plain_rule = TABLE.partition("big"), TABLE.partition("plain")
    assert big is TABLE.partitions[0]
    assert plain_rule is not None
    assert (plain_rule.name, plain_rule.rules, plain_rule.required) == ("plain", (1,), False)
    assert TABLE.partition("none") is None


@pytest.mark.parametrize(
    ("look_up", "message"),
    [
        (TABLE.variable, "no variable 'big2' in demo::scale; known: N, sm, dtype, bias"),
        (TABLE.rule, "no rule 'big2' in demo::scale; known: vec4, plain"),
    ],
)
def test_unknown_names(look_up: Callable[[str], object], message: str) -> None:
    with pytest.raises(KeyError) as error:
        look_up("big2")
    assert error.value.args == (message,)


def test_views_are_made_once_for_each_machine() -> None:
    assert TABLE.on("cpu") is TABLE.on("cpu")
    assert TABLE.on("cpu", emulates="sm_90").machine == "cpu, emulates sm_90"
    assert TABLE.on("cpu", emulates="sm_90") is TABLE.on("cpu, emulates sm_90")
    assert TABLE.on("cpu").decide(**FACTS).kernel == TABLE.decide(**FACTS).kernel == "Plain"


def test_known_tables() -> None:
    mine = parse_table(SMALL.replace("demo::scale", "demo::known"))
    assert [table for table in known_tables() if table.op == "demo::known"] == [mine]
    assert [table.op for table in known_tables()] == sorted(table.op for table in known_tables())
    del mine
    gc.collect()
    assert not [table for table in known_tables() if table.op == "demo::known"]


def test_tables_are_made_while_others_are_listed() -> None:
    kept: list[Table] = []
    errors: list[BaseException] = []

    def make() -> None:
        kept.extend(parse_table(SMALL) for _ in range(20))

    def read() -> None:
        try:
            for _ in range(300):
                known_tables()
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for work in (make, read, make, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(kept) == 40


def test_repr_and_explain() -> None:
    assert repr(TABLE) == f"<Table demo::scale {TABLE.digest[:12]} from small.toml>"
    fp4 = load_table(Path(__file__).parent / "tables" / "fp4.toml")
    assert fp4.explain(M=0, N=1, K=2, block_size=1, dtype="float16", bias=False, sm=90, native=False).startswith(
        "fp4ops::matmul_nvfp4  M=0 N=1 K=2 block_size=1 dtype=float16 bias=false sm=90 native=false\n  empty: selected"
    )


@pytest.mark.parametrize("value", [1 << 256, -(1 << 256), 4**20000], ids=["least", "negative", "huge"])
def test_integers_that_no_record_can_hold(value: int) -> None:
    given = {"N": value, "sm": 90, "dtype": "float16", "bias": True}
    with pytest.raises(FactsError, match=r"expected N to be an integer of at most 256 bits, got <\d+ bits>"):
        TABLE.facts(given, domain=False)
    assert TABLE.facts({**given, "N": (1 << 256) - 1}, domain=False)["N"] == (1 << 256) - 1

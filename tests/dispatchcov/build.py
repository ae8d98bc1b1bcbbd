"""Data as a run would leave it, built by hand: no files, no recorder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dispatchcov.decide import View
from dispatchcov.expr import Value
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data, Outcome, Row, Shard, TableText
from dispatchcov.table import Table

SMALL = """
[table]
op = "demo::scale"
[variables]
N = { type = "int", min = 0 }
aligned = { type = "bool" }
dtype = { type = "enum", values = ["float16", "float32"] }
[[kernel]]
name = "ScaleVec4"
requires = "N % 4 == 0"
[[kernel]]
name = "Scale"
[[rule]]
name = "vec4"
when = "N % 4 == 0 and aligned"
kernel = "ScaleVec4"
splits = ["N >= 1024"]
[[rule]]
name = "scalar"
kernel = "Scale"
[[partition]]
name = "vec4"
rule = "vec4"
cross = ["dtype"]
[[partition]]
name = "ragged"
rule = "scalar"
where = "N % 4 != 0"
"""
STATES = (
    SMALL.replace("[[kernel]]", 'sm = { type = "int", values = [80, 120], hardware = true }\n[[kernel]]', 1)
    + """
[[partition]]
name = "new"
rule = "vec4"
where = "sm >= 120"
[[partition]]
name = "never"
rule = "scalar"
where = "N == 7"
illegal = true
[[partition]]
name = "nice"
rule = "vec4"
where = "N == 64"
required = false
[[waiver]]
partition = "ragged"
reason = "no such layer"
expires = 2126-01-01
"""
)
"""On sm 80 its partitions are elsewhere, illegal, optional and waived."""


def row(table: Table, test: str = "t.py::test", **given: Any) -> Row:
    """One row for the facts among ``given``; ``phase``, ``machine``, ``kernel`` and the counts may be given too."""
    facts: dict[str, Value] = {name: given.pop(name) for name in table.names}
    values = tuple(facts.values())
    view = View.of(table, given.pop("machine", "cpu"))
    counts = {"selected": 1, "launched": 0, "observed": 0, "checked": 0} | {
        name: given.pop(name) for name in ("selected", "launched", "observed", "checked") if name in given
    }
    return Row(
        shard=given.pop("shard", "s1"),
        digest=table.digest,
        machine=view.machine,
        test=test,
        phase=given.pop("phase", "call"),
        vector=view.vector(values),
        hardware=view.hardware(values),
        kernel=given.pop("kernel", ""),
        inputs=(values,),
        **counts,
        **given,
    )


def data(table: Table, *rows: Row, outcomes: Mapping[str, str] | None = None, partial: tuple[str, ...] = ()) -> Data:
    """``rows`` as one run; tests that ``outcomes`` does not name have passed."""
    named = {row.test: "passed" for row in rows if row.test} | dict(outcomes or {})
    shards = sorted({row.shard for row in rows} | {"s1"})
    return Data(
        (TableText(table.digest, table.op, table.source, table.text),),
        tuple(Shard(name, "run", "host", 1, "2026-01-01T00:00:00+00:00", 9, partial, True) for name in shards),
        tuple(rows),
        tuple(Outcome(shards[0], test, outcome) for test, outcome in sorted(named.items())),
    )


def parsed(vec4: str = "", scalar: str = "") -> Table:
    """The small table with more keys for its kernels."""
    text = SMALL.replace('name = "ScaleVec4"', f'name = "ScaleVec4"\n{vec4}').replace(
        'name = "Scale"\n', f'name = "Scale"\n{scalar}\n'
    )
    return parse_table(text, source="small.toml")

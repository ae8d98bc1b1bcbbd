"""What the tests of the report types share: a table in a file, results of it, and a table of hostile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dispatchcov.gate import Limits, Verdict, judge
from dispatchcov.loading.load import load_table
from dispatchcov.report import render
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, data, row

DTD = Path(__file__).with_name("coverage-04.dtd")
FLOAT16: dict[str, Any] = {"aligned": True, "dtype": "float16"}
HOSTILE = """</b><script>alert(1)</script>|`x`,\\",[a](http://e.x)%0A::error::@me &amp; ]]>"""
"""A name as it may stand in a TOML string."""

NAMED = SMALL.replace('name = "scalar"', f'name = "{HOSTILE}"').replace('rule = "scalar"', f'rule = "{HOSTILE}"')
NAMED = NAMED.replace('name = "ragged"', f'name = "{HOSTILE}"').replace('"Scale"', f'"{HOSTILE}"')


def measured(text: str, *rows: dict[str, Any], partial: tuple[str, ...] = (), **more: Any) -> tuple[Results, Verdict]:
    """Results of the table ``text``, written to ``small.toml`` in the working directory, and the gate's verdict."""
    Path("small.toml").write_text(text)
    table = load_table("small.toml")
    records = data(table, *(row(table, **facts) for facts in rows), partial=partial)
    results = Results.of(records, (table,), **more)
    return results, judge(results, Limits())


def rendered(kind: str, text: str, *rows: dict[str, Any], **more: Any) -> str:
    """The report of type ``kind`` of :func:`measured`."""
    return render(kind, *measured(text, *rows, **more))

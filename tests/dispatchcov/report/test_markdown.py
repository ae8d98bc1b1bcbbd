from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from dispatchcov.gate import judge
from dispatchcov.items import Weight
from dispatchcov.report import markdown
from dispatchcov.weights import weigh
from tests.dispatchcov.build import SMALL, STATES
from tests.dispatchcov.formats import FLOAT16, HOSTILE, NAMED, rendered
from tests.dispatchcov.test_weights import ALIGNED, WORKLOAD, measured

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def html(text: str) -> str:
    """``text`` as a renderer of GitHub's dialect shows it: tables, and HTML as it stands."""
    return str(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text))


def tables(page: str) -> list[list[list[str]]]:
    """The cells of each table of ``page``."""
    return [
        [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall(r"<tr>(.*?)</tr>", table, re.S)]
        for table in re.findall(r"<table>(.*?)</table>", page, re.S)
    ]


def test_the_gate_comes_first_then_totals_partitions_and_what_is_missed() -> None:
    text = rendered("markdown", SMALL, {"N": 4, "launched": 1, **FLOAT16})
    page = html(text)
    assert text.startswith("## ❌ Dispatch gate: FAILED, 2 reasons\n\n- demo::scale: required partition vec4")
    totals, partitions, missed, *_ = tables(page)
    assert totals[1] == ["partitions", "1/3", "33.33 %"]
    assert partitions[0] == ["partition", "bin", "state", "hits", "tests", "evidence"]
    assert partitions[1] == ["vec4", "dtype=float16", "✅ hit", "1", "1", "selected, launched"]
    assert partitions[3] == ["ragged", "", "❌ MISSED", "0", "0", ""]
    assert missed[2] == [
        "ragged", "N=1 aligned=false dtype=float16", "scalar -&gt; Scale (not vec4: N % 4 == 0 is false)",
    ]  # fmt: skip
    assert "<summary>demo::scale: partitions missed, 2</summary>" in page


def test_passed_and_partial() -> None:
    rows = ({"N": 4, **FLOAT16}, {"N": 4, **FLOAT16, "dtype": "float32"}, {"N": 5, **FLOAT16})
    assert rendered("markdown", SMALL, *rows).startswith("## ✅ Dispatch gate: passed\n")
    partial = rendered("markdown", SMALL, {"N": 4, **FLOAT16}, partial=("interrupted",))
    assert partial.startswith("## ❔ Dispatch gate: not judged, the run was partial\n")
    assert "❔ not-run" in partial


def test_states_and_their_signs() -> None:
    text = STATES.replace('rule = "scalar"\nwhere = "N == 7"', 'rule = "vec4"\nwhere = "N == 4"')
    shown = {row[0]: row[2] for row in tables(html(rendered("markdown", text, {"N": 4, "sm": 80, **FLOAT16})))[1]}
    assert shown["new"] == "➖ elsewhere"
    assert shown["never"] == "❌ ILLEGAL"
    assert shown["ragged"] == "⏸️ waived"


def test_hostile_names_are_shown_and_do_nothing() -> None:
    text = rendered("markdown", NAMED, {"N": 4, "test": f"t.py::t[{HOSTILE}]", **FLOAT16})
    page = html(text)
    assert "<script" not in page
    assert "<a " not in page
    assert "<code>" not in page
    assert "@" not in text
    assert "://" not in text
    for table in tables(page):
        assert {len(row) for row in table} == {len(table[0])}
    assert "&lt;/b&gt;&lt;script&gt;alert(1)&lt;/script&gt;|`x`,&quot;,[a](http:" in tables(page)[1][3][0]


@pytest.mark.parametrize(
    "text", ["# a", "- a", "1. a", "+ a", "=== a", "    a", "a | b \\| c", "*a* _b_ ~~c~~ $d$", "<!-- a", "<script a"]
)
def test_a_line_is_a_line(text: str) -> None:
    shown = html(f"- {markdown.escape(text)}")
    assert shown == f"<ul>\n<li>{text.strip().replace('<', '&lt;')}</li>\n</ul>\n"


def test_a_summary_too_long_is_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rendered("markdown", SMALL, {"N": 4, **FLOAT16})
    for limit in range(300, len(whole.encode()) + 400, 211):
        monkeypatch.setattr(markdown, "LIMIT", limit)
        text = rendered("markdown", SMALL, {"N": 4, **FLOAT16})
        assert len(text.encode()) <= limit
        assert text.count("<details>") == text.count("</details>")
        assert ("**Cut here: " in text) == (text != whole)
    assert text == whole


def test_only_so_many_failures_are_listed() -> None:
    name = "é" * 190
    text = SMALL + "".join(f'[[partition]]\nname = "{name}{n}"\nrule = "vec4"\nwhere = "N == {n}"\n' for n in range(60))
    shown = rendered("markdown", text, {"N": 4, **FLOAT16})
    assert "\n- and 11 more (the JSON and HTML reports have all)\n" in shown


def test_the_limit_leaves_room_below_githubs() -> None:
    assert markdown.LIMIT <= (1 << 20) - (1 << 15)


def test_a_workload_is_weighed_after_the_totals() -> None:
    weights = replace(weigh(measured(ALIGNED), WORKLOAD, "serve_1"), notes=("2 < 3",))

    def shown(regions: tuple[Weight, ...]) -> str:
        results = replace(measured(ALIGNED), weights=replace(weights, regions=regions))
        return markdown.render(results, judge(results))

    text = shown(weights.regions)
    page = html(text)
    share = "3.0 % of the GPU time (30.00 of 1000.00 ms) and 76.9 % of the calls"
    assert f"<strong>workload serve_1: tests reach the paths of {share}</strong>" in page
    assert "<li>with evidence: launched 0 %, observed 0 %, checked 3.0 %</li>\n<li>2 &lt; 3</li>" in page
    assert text.index("| mutants |") < text.index("**workload") < text.index("### demo::scale")
    assert tables(page)[1] == [
        ["share", "path", "input"],
        ["96.9 %", "scalar -&gt; Scale", "N=4095 aligned=true dtype=float16"],
        ["0.1 %", "scalar -&gt; Scale", "N=4 aligned=false dtype=float16"],
    ]
    assert "- and 2 more (the JSON and HTML reports have all)" in shown(weights.regions[:1] * 7)
    assert "heaviest" not in shown(weights.regions[1:2])

from __future__ import annotations

import base64
import builtins
import dataclasses
import functools
import hashlib
import html
import json
import random
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchcov import cli
from dispatchcov.drift import Drift
from dispatchcov.errors import UsageError
from dispatchcov.expr import Value
from dispatchcov.gate import Verdict, judge
from dispatchcov.items import Item, Reach, Seen, Weight, Weights
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.records import Data
from dispatchcov.report import html as html_report
from dispatchcov.report import html_data, render
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, STATES, data, row

TABLE = parse_table(SMALL, source="small.toml")
HALF = row(TABLE, N=4, aligned=True, dtype="float16", launched=1, machine="cpu, emulates sm_90")

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "<!--<script>",
    "{{ 7 * 7 }}",
    "${alert(3)}",
    "javascript:alert(4)",
    "\u2028\u2029\x00\udc80",
)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.inside = tag in ("script", "style")
        if self.inside:
            self.scripts.append("")

    def handle_data(self, text: str) -> None:
        if self.inside:
            self.scripts[-1] += text

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


def page(records: Data, verdict: Verdict | None = None) -> str:
    results = Results.of(records)
    return render("html", results, verdict or judge(results))


def embedded(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


def test_verdict_totals_and_partitions_are_in_the_markup() -> None:
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page(data(TABLE, HALF)).split("<script")[0])))
    assert "Gate failed" in text
    assert "demo::scale: required partition vec4 [dtype=float32] was not hit" in text
    assert "emulated only no decision was made on the hardware itself" in text
    assert "partitions 1 3 33.33 2 missed" in text
    assert "vec4 dtype=float16 hit 1 1" in text


@pytest.mark.parametrize(
    ("records", "word"),
    [
        (data(TABLE, HALF), "failed"),
        (data(TABLE, HALF, partial=("tests were deselected",)), "partial"),
        (data(TABLE, HALF, *(row(TABLE, N=n, aligned=True, dtype="float32") for n in (3, 4))), "passed"),
    ],
)
def test_the_title_says_how_it_ended(records: Data, word: str) -> None:
    assert f"<title>{word}: dispatch coverage of demo::scale</title>" in page(records)


def test_nothing_is_loaded_and_only_our_scripts_may_run() -> None:
    text = page(data(TABLE, HALF))
    elements = Elements(text)
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not {"iframe", "object", "embed", "base", "form"} & {tag for tag, _ in elements.found}
    for tag, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")], tag
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    style, _, script = elements.scripts
    for part in (style, script):
        checksum = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{checksum}'" in policy


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_a_stranger_wrote_stays_text(text: str) -> None:
    def written(text: str) -> str:
        facts: dict[str, Any] = {"N": 4, "aligned": True, "dtype": "float16"}
        strange = row(TABLE, test=f"t.py::test[{text}]", machine=text, kernel=text, **facts)
        verdict = Verdict((text,), (f"{text} is stale, 1 decisions count for nothing",))
        return page(data(TABLE, HALF, strange), verdict)

    made = written(text)
    made.encode("utf-8")
    assert [tag for tag, _ in Elements(made).found] == [tag for tag, _ in Elements(written("plain")).found]
    assert embedded(made)["tests"] == sorted(["t.py::test", f"t.py::test[{text}]"])
    raw = made.split('id="data">')[1].split("</script>")[0]
    assert not set("<>&\u2028\u2029") & set(raw)


def test_marks_of_what_is_stale_partial_waived_elsewhere_illegal_and_optional() -> None:
    table = parse_table(STATES)
    hit = row(table, N=4, aligned=True, dtype="float16", sm=80)
    note = "demo::scale: the sources of ScaleVec4 have changed"
    verdict = Verdict((), (f"old.dispatchcov is stale, 3 decisions count for nothing: {note}",), partial=True)
    text = page(data(table, hit, partial=("interrupted",)), verdict)
    for mark in (
        '<span class="tag warn">partial run</span> interrupted: absence proves nothing',
        '<span class="tag stale">stale</span> old.dispatchcov is stale',
        'data-stale="ScaleVec4"',
        '<span class="tag warn">waived: no such layer (until 2126-01-01)</span>',
        "illegal, not hit",
        '<span class="tag">optional</span>',
        "Not judged: the run was partial",
    ):
        assert mark in text
    states = {item["name"]: item["state"] for item in embedded(text)["tables"][0]["items"]["partitions"]}
    assert states == {"vec4": "not-run", "ragged": "waived", "new": "elsewhere", "never": "not-run", "nice": "not-run"}


def test_a_workload_and_what_drifted_have_their_sections() -> None:
    results = Results.of(data(TABLE, HALF))
    hit, missed, _ = results.tables[0].regions
    facts: dict[str, Value] = {"N": 4, "aligned": True, "dtype": "<b>"}
    regions = tuple(
        Weight(
            "demo::scale",
            item.label,
            item.name,
            "<K>",
            calls,
            nanoseconds,
            ("H200",),
            facts,
            item.state,
            item.reach.evidence,
            (),
        )
        for item, calls, nanoseconds in ((missed, 3, 900_000), (hit, 97, 100_000))
    )
    drift = Drift("base.json", new=("t.py::<new>",))
    more = dataclasses.replace(results, weights=Weights("load", regions), drift=drift)
    text = render("html", more, judge(more))
    assert "workload load: tests reach the paths of 10.0 % of the GPU time (0.10 of 1.00 ms)" in text
    row = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", text.split("an input of the workload")[1].split("</tr>")[1]))
    assert row.strip() == "scalar &lt;K&gt; 90.0 3 0.90 missed N=4 aligned=true dtype=&lt;b&gt;"
    assert "drift from base.json: nothing moved, 1 new, 0 unchanged" in text
    assert "t.py::&lt;new&gt;" in text
    assert "Workload" not in render("html", results, judge(results))


def test_machines_are_columns_hardware_first_and_what_is_emulated_in_one_group() -> None:
    machines = ["cpu, emulates sm_120", "cpu, emulates sm_90", "NVIDIA H200"]
    assert html_report.machine_groups(machines) == [
        ("NVIDIA H200", [("NVIDIA H200", "")]),
        ("cpu, emulates", [("cpu, emulates sm_90", "sm_90"), ("cpu, emulates sm_120", "sm_120")]),
    ]


@given(st.sets(st.integers(0, 400), min_size=1))
def test_sets_of_tests_come_back(indices: set[int]) -> None:
    packed = html_data.packed(indices)
    if isinstance(packed, str):
        bits = int.from_bytes(base64.b64decode(packed), "little")
        assert indices == {index for index in range(bits.bit_length()) if bits >> index & 1}
    else:
        assert indices == {sum(packed[: n + 1]) for n in range(len(packed))}


def test_few_tests_are_gaps_and_many_a_bitmap_and_equal_sets_are_stored_once() -> None:
    assert html_data.packed([7, 900]) == [7, 893]
    assert len(html_data.packed(range(0, 1000, 2))) == 168
    packer = html_data.Packer(["a", "b"], [])
    assert [packer.set(tests) for tests in ((), ("a",), ("b",), ("a",))] == [0, 1, 2, 1]
    assert packer.sets == [[0], [1]]


@pytest.mark.parametrize(("value", "written"), [(True, True), ("x", "x"), (2**53 - 1, 2**53 - 1), (None, None)])
def test_plain_values_stay(value: object, written: object) -> None:
    assert html_data.scalar(value) is written or html_data.scalar(value) == written


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**5000], ids=["first", "negative", "long"])
def test_an_integer_that_javascript_cannot_hold_is_text(value: int) -> None:
    assert int(html_data.scalar(value)["int"], 16) == value


def test_the_counts_of_predicates_stand_by_their_numbers() -> None:
    [table] = embedded(page(data(TABLE, HALF)))["tables"]
    texts = {table["predicates"][int(index)]["text"]: counts for index, counts in table["counts"].items()}
    assert texts == {"N % 4 == 0": [1, 0], "aligned": [1, 0]}


@functools.cache
def many(tests: int) -> Results:
    """Results of fp4ops with more than 200 regions, each item reached by half of ``tests`` tests, by chance."""
    results = Results.of(Data(), [load_table("fp4ops/dispatch.toml")])
    ids = [f"tests/some_package/test_module_{i // 20}.py::test_operator[shape{i}-bfloat16-True]" for i in range(tests)]
    chance = random.Random(0)

    def reached(item: Item) -> Item:
        own = tuple(sorted(chance.sample(ids, tests // 2)))
        return dataclasses.replace(
            item,
            state="hit",
            reach=Reach(5000, own, ("selected",), ("cpu",), by_machine=(Seen("cpu", (), 5000, ("selected",)),)),
        )

    [measured] = results.tables
    lists: dict[str, Any] = {name: tuple(map(reached, getattr(measured, name))) for name in html_data.LISTS}
    more = (dataclasses.replace(item, detail=f"{item.detail}; more") for item in map(reached, measured.regions[:60]))
    lists["regions"] += tuple(more)
    return dataclasses.replace(results, tables=(dataclasses.replace(measured, machines=("cpu",), **lists),))


def test_a_thousand_tests_and_two_hundred_regions_are_less_than_two_megabytes() -> None:
    results = many(1000)
    assert len(results.tables[0].regions) >= 200
    text = render("html", results, judge(results))
    assert len(embedded(text)["tests"]) == 1000
    assert len(text.encode()) < 2_000_000


def test_without_jinja2_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    there = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jinja2":
            raise ImportError(name)
        return there(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=re.escape("pip install dispatchcov[html]")):
        page(data(TABLE, HALF))


def test_without_jinja2_no_test_and_no_command_runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    pytester.makepyfile("from pathlib import Path\ndef test_one():\n    Path('ran').touch()\n")
    done = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "--dispatch-report=html:out")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*html report: expected Jinja2 to be installed: pip install dispatchcov[[]html]*"])
    command = ["run", "--format=html", "--", sys.executable, "-c", "open('ran', 'w')"]
    assert cli.main(command) == 1
    assert "expected Jinja2 to be installed" in capsys.readouterr().err
    assert not (pytester.path / "ran").exists()


def test_option_and_command_write_the_same_page(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makefile(".toml", small=SMALL)
    pytester.makepyfile(
        "import dispatchcov\nTABLE = dispatchcov.load_table('small.toml')\n"
        "def test_one():\n    TABLE.decide(N=4, aligned=True, dtype='float16')\n"
    )
    done = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "--dispatch-report=html:out")
    done.stdout.fnmatch_lines(["written: out/index.html"])
    monkeypatch.chdir(pytester.path)
    assert cli.main(["html", "-o", "other"]) == 2
    written = re.compile(r"written [\d: -]+ UTC")
    first, second = (written.sub("", Path(name, "index.html").read_text()) for name in ("out", "other"))
    assert first == second
    for quiet in ([], ["-q"]):
        assert cli.main(["html", *quiet]) == 2
        Path("dispatchcov-html", "index.html").unlink()  # it was written

"""The page in a real browser: it loads in silence, finds, decides, listens to keys, runs nothing that others wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatchcov.errors import TableError
from dispatchcov.gate import Verdict, judge
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.records import Data
from dispatchcov.report import render, write
from dispatchcov.results import Results
from dispatchcov.table import Table
from tests.dispatchcov.build import SMALL, data, row
from tests.dispatchcov.report.chromium import Watched, launched
from tests.dispatchcov.report.test_html import HOSTILE, many

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FP4 = load_table("fp4ops/dispatch.toml")
FACTS: dict[str, Any] = {
    "M": 4, "N": 32, "K": 128, "block_size": 16, "dtype": "float16", "bias": False, "sm": 90, "native": False,
    "dequantize": "auto",
}  # fmt: skip
GPU = {"machine": "NVIDIA H200", "launched": 1, "checked": 1}
EMULATED = {"machine": "cpu, emulates sm_90"}


def records() -> Data:
    """A few decisions of fp4ops on a GPU and emulated."""
    rows = [
        row(FP4, "t.py::test_decode", **FACTS, **GPU),
        row(FP4, "t.py::test_decode[cpu]", **FACTS, **EMULATED),
        row(FP4, "t.py::test_ragged", **FACTS | {"K": 6, "block_size": 1}, **EMULATED),
        row(FP4, "t.py::test_vec8", **FACTS | {"M": 64, "K": 8, "block_size": 2}, **EMULATED),
    ]
    return data(FP4, *rows)


def written(folder: Path, results: Results, verdict: Verdict | None = None) -> Path:
    """The file of the page."""
    return Path(write("html", str(folder), render("html", results, verdict or judge(results))))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def fp4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("fp4"), Results.of(records()))


@pytest.fixture
def watched(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Makes pages; at the end nothing may have gone wrong in any of them."""
    made: list[Watched] = []

    def make(**options: Any) -> Watched:
        made.append(Watched(browser, **options))
        return made[-1]

    yield make
    for each in made:
        each.page.close()
        assert each.wrong == []


@pytest.fixture
def page(watched: Callable[..., Watched], fp4: Path) -> Page:
    return watched().open(fp4)


def shown(page: Page) -> list[str]:
    """The items listed, each as one line."""
    return [" ".join(text.split()) for text in page.locator(".item > summary").all_inner_texts()]


def fill(page: Page, **facts: object) -> str:
    """Enter ``facts`` in the chooser; the answer as one line."""
    form = page.locator("form.choose")
    for name, value in facts.items():
        field = form.locator(f"[name={name}]")
        if isinstance(value, bool):
            field.set_checked(value)
        elif field.evaluate("e => e.tagName") == "SELECT":
            field.select_option(str(value))
        else:
            field.fill(str(value))
    return answer(page)


def answer(page: Page) -> str:
    return " ".join(page.locator(".outcome-of").inner_text().split())


# --- it loads, and looks as it should ---------------------------------------------------------------------------------


def test_it_loads_in_silence_with_all_its_parts(page: Page) -> None:
    assert page.title() == "failed: dispatch coverage of fp4ops::matmul_nvfp4"
    assert page.locator("h1").inner_text() == "Gate failed"
    assert [page.locator(s).count() for s in (".flow > .rule", ".summary tbody tr", ".matrix tbody tr")] == [8, 8, 19]
    flow = " ".join(page.locator("#rule-0-4").inner_text().split())
    assert "0 selected" in flow
    assert "native never true" in flow
    assert "120 <= sm never read" in flow
    decode = " ".join(page.locator("#rule-0-2").inner_text().split())
    assert "2 selected" in decode
    assert "sm >= 80 never false" in decode


def test_the_matrix_has_a_column_for_each_machine(page: Page) -> None:
    assert page.locator(".matrix thead .group").all_inner_texts() == ["NVIDIA H200", "cpu, emulates", "sm_90"]
    decode = page.locator(".matrix tbody tr", has_text="decode").first
    assert decode.locator("td").all_inner_texts()[-2:] == ["1\nslc", "1\ns"]
    ragged = page.locator(".matrix tbody tr", has_text="ragged-K").first
    assert ragged.locator("td").all_inner_texts()[-2:] == ["no hit", "1\ns"]
    assert "emulated only" in ragged.inner_text()
    assert "emulated only" not in decode.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_colour_scheme_and_the_button(watched: Callable[..., Watched], fp4: Path, scheme: str) -> None:
    page = watched(scheme=scheme).open(fp4)
    light = "getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] > 128"
    assert page.evaluate(light) == (scheme == "light")
    button = page.locator("#theme")
    seen = []
    for _ in range(3):
        button.click()
        seen.append((button.inner_text().strip(), page.evaluate(light)))
    assert seen == [("light", True), ("dark", False), ("auto", scheme == "light")]
    button.click()
    page.reload()
    assert button.inner_text().strip() == "light"
    page.evaluate("localStorage.clear()")


def test_text_can_be_read_in_both_schemes(watched: Callable[..., Watched], fp4: Path) -> None:
    contrast = """() => {
      const channel = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      const light = (c) => { const [r, g, b] = c.map(channel); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const behind = (e) => { for (; e; e = e.parentElement) {
        const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; } };
      const low = [];
      for (const e of document.querySelectorAll("main *")) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
        if (!own || !e.checkVisibility() || e.closest(".nothing, .only-read, svg, option")) continue;
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${e.className} ${e.textContent.trim().slice(0, 40)}`);
      }
      return low;
    }"""
    for scheme in ("light", "dark"):
        assert watched(scheme=scheme).open(fp4).evaluate(contrast) == []


def test_at_the_width_of_a_phone_nothing_overflows(watched: Callable[..., Watched], fp4: Path) -> None:
    page = watched(width=360, height=740).open(fp4)
    for index in range(3):
        page.locator(".item > summary").nth(index).click()
    for summary in page.locator("details.regions > summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    wide = """[...document.querySelectorAll("main *")]
      .filter((e) => !e.closest(".scroll, nav, .only-read, svg, caption") && e.getBoundingClientRect().right > 361)
      .map((e) => e.className)"""
    assert page.evaluate(wide) == []


def test_without_scripts_the_verdict_and_the_partitions_are_there(browser: Browser, fp4: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(fp4.as_uri())
    assert page.locator("h1").inner_text() == "Gate failed"
    assert page.locator(".matrix tbody tr").count() == 19
    assert "Scripts are switched off" in page.locator("noscript").inner_text()
    context.close()


# --- finding ----------------------------------------------------------------------------------------------------------


def test_what_is_missed_comes_first_and_filters_narrow_the_list(page: Page) -> None:
    assert shown(page)[0].startswith("missed")
    page.locator("label", has_text="kernels").click()
    assert len(shown(page)) == 8
    page.locator(".chips label", has_text="missed").click()
    assert {line.split()[0] for line in shown(page)} == {"missed"}
    page.locator(".chips label", has_text="any").click()
    page.locator("[id^=rule-of]").select_option("prefill-scalar")
    assert [line.split(" ")[2] for line in shown(page)] == ["DequantizeNvFp4Kernel"]
    assert page.locator(".status").inner_text().startswith("1 of ")
    assert "measure=kernels&rule=prefill-scalar" in page.url


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("block_size % 8", ["prefill-vec8", "prefill-vec8"]),
        ("N <= 65535: false", ["prefill-vec8"]),
        ("N=65536", ["prefill-vec8"]),
        ("TEST_VEC8", ["prefill-vec8", "prefill-vec8"]),
        ("no such thing", []),
    ],
)
def test_search_finds_text_witnesses_and_tests(page: Page, text: str, labels: list[str]) -> None:
    page.locator("label", has_text="splits").click()
    page.locator("input[type=search]").fill(text)
    assert [line.split(" ")[2] for line in shown(page)] == labels


def test_an_item_opens_with_witness_reasons_evidence_machines_and_tests(page: Page) -> None:
    page.locator("label", has_text="regions").click()
    page.locator("input[type=search]").fill("test_ragged")
    page.locator(".item > summary").click()
    body = " ".join(page.locator(".item-body").inner_text().split())
    for part in (
        "Witness",
        "block_size=1",
        "prefill-vec8 not selected:",
        "K % 8 == 0 is false",
        "selected not launched not observed not checked",
        "1 machine cpu, emulates sm_90 1 hit selected",
        "1 test t.py::test_ragged",
    ):
        assert part in body


def test_an_address_leads_to_an_item_an_input_or_a_filter(page: Page, fp4: Path) -> None:
    page.locator(".matrix th a", has_text="odd-block").first.click()
    assert page.locator(".item[open]").count() == 1
    assert "odd-block" in page.locator(".item[open] > summary").inner_text()
    page.locator(".item[open] a", has_text="Try it").click()
    assert "prefill-scalar → DequantizeNvFp4Kernel" in answer(page)
    address = page.url.split("#")[1]
    fill(page, block_size=2, K=8)
    assert "prefill-vec8 →" in answer(page)
    page.goto("about:blank")
    page.goto(f"{fp4.as_uri()}#{address}")
    assert "prefill-scalar →" in answer(page)
    page.locator(".summary a.s-missed").first.click()
    assert {line.split()[0] for line in shown(page)} == {"missed"}


def test_a_part_of_a_long_list_is_drawn_at_a_time(watched: Callable[..., Watched], tmp_path: Path) -> None:
    page = watched().open(written(tmp_path, many(1000)))
    assert page.locator(".item").count() < 100
    page.locator("label", has_text="regions").click()
    before = page.locator(".item").count()
    page.locator("button.more").click()
    assert page.locator(".item").count() > before
    page.locator(".item > summary").first.click()
    assert page.locator(".item-body .tests li").count() == 12
    page.locator(".item-body button", has_text="Show all 500 tests").click()
    assert page.locator(".item-body .tests li").count() == 500


# --- the chooser ------------------------------------------------------------------------------------------------------


def test_the_chooser_decides_as_the_table_does(page: Page) -> None:
    text = fill(page, **FACTS)
    assert text.startswith("decode-mma → Fp4MmaGemvKernel Region decode-mma hit 2 tests reach it")
    assert "Partition decode hit 2 tests" in text
    text = fill(page, K=4082)
    assert text.startswith("prefill-scalar → DequantizeNvFp4Kernel")
    assert "false K % 128 == 0 K=4082, K % 128 = 114 settles it sole reason" in text
    assert "missed 0 tests reach it" in text
    assert "Partitions ragged-K dtype=float16 hit 1 test emulated only small-M-prefill hit 1 test" in text
    text = fill(page, bias=True, native=True, sm=121, K=64, M=99)
    assert text.startswith("native-sm120 → NativeFp4Matmul")
    assert "elsewhere" in text


def test_the_chooser_says_what_it_cannot_decide(page: Page) -> None:
    fill(page, **FACTS)
    assert "K is outside its domain: expected an integer >= 0, a multiple of 2." in fill(page, K=3)
    assert page.locator("[name=K]").get_attribute("aria-invalid") == "true"
    assert fill(page, K="") == "K: expected an integer >= 0, a multiple of 2."
    assert fill(page, K=10**60).startswith("decode-mma →")
    assert fill(page, K=10**60 + 2).startswith("prefill-scalar →")
    bounds = page.locator("[name=K]").evaluate("e => [e.min, e.max, e.step]")
    assert bounds == ["0", "", "2"]


def test_the_chooser_shows_division_by_zero_contracts_and_inputs_that_no_rule_takes(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    table = parse_table(
        "[table]\nop = 'o'\n[variables]\na = { type = 'int' }\nb = { type = 'int' }\n"
        "[[kernel]]\nname = 'k'\nrequires = 'a > 5'\n[[rule]]\nname = 'r'\nwhen = 'a % b == 0'\nkernel = 'k'\n"
    )
    page = watched().open(written(tmp_path, Results.of(data(table, row(table, a=8, b=2)))))
    assert "No decision: a % b == 0 divides by zero." in fill(page, a=1, b=0)
    assert "No rule takes this input." in fill(page, a=1, b=2)
    assert "The input violates the contract of k: requires a > 5." in fill(page, a=2, b=2)
    assert fill(page, a=8, b=4).startswith("r → k Region r hit 1 test reaches it")


# --- keys -------------------------------------------------------------------------------------------------------------


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))


def test_keys_reach_everything_in_order_and_the_focus_is_seen(page: Page) -> None:
    order = []
    for _ in range(9):
        page.keyboard.press("Tab")
        order.append(focused(page))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", order
    assert order[:2] == ["Skip to the verdict", "theme"]
    assert order[2:8] == ["Summary", "Partitions", "Flow", "Try an input", "All items", "partitions"]
    assert order[8].endswith(" missed")


def test_slash_searches_enter_opens_and_escape_closes(page: Page) -> None:
    page.keyboard.press("/")
    assert focused(page).startswith("search-")
    page.keyboard.type("odd-block")
    page.keyboard.press("Enter")
    assert "odd-block" in focused(page)
    page.keyboard.press("Enter")
    assert page.locator(".item[open]").count() == 1
    page.keyboard.press("Tab")
    assert focused(page) == "Try it"
    page.keyboard.press("Escape")
    assert page.locator(".item[open]").count() == 0
    assert page.locator(".item > summary:focus").inner_text().split()[2] == "odd-block"
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    assert page.locator("input[type=search]").input_value() == ""
    page.keyboard.type("a/b")
    assert page.locator("input[type=search]").input_value() == "a/b"


# --- strangers --------------------------------------------------------------------------------------------------------


def hostile(text: str) -> Table:
    """A table with ``text`` wherever a table may have one."""
    quoted = parse_table(SMALL).text
    basic = '"' + "".join(f"\\u{ord(c):04x}" for c in text if c not in "\x00\udc80") + '"'
    for name in ('"demo::scale"', '"ScaleVec4"', '"float32"', '"ragged"'):
        try:
            changed = quoted.replace(name, basic)
            parse_table(changed)
        except TableError:  # some texts are no name: those places keep theirs
            continue
        quoted = changed
    return parse_table(quoted, source=text)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_a_stranger_wrote_does_not_run(watched: Callable[..., Watched], tmp_path: Path, text: str) -> None:
    table = hostile(text)
    dtype = str(table.variable("dtype").values[-1])
    strange = row(table, f"t.py::test[{text}]", N=4, aligned=True, dtype=dtype, machine=text, kernel=text)
    plain = row(table, f"t.py::test[{text}]", N=8, aligned=True, dtype=dtype, machine=text)
    verdict = Verdict((text,), (f"{text} is stale, 1 decisions count for nothing",))
    page = watched().open(written(tmp_path, Results.of(data(table, plain, strange)), verdict))
    page.locator("input[type=search]").fill("t.py::test")
    for summary in page.locator(".item > summary").all():
        summary.click()
    for name in page.locator("form.choose [name]").all():
        name.focus()
    for summary in page.locator("details.regions > summary").all():
        summary.click()
    page.locator(".cell").first.click()
    kept = text.replace("\x00", "").replace("\udc80", "\\udc80")
    assert kept in page.locator(".failures").inner_text() or text.strip() == ""
    assert page.locator("main script, main img, main iframe").count() == 0
    assert page.evaluate("Report.tests") == [f"t.py::test[{text}]"]


def test_addresses_from_strangers_do_nothing(watched: Callable[..., Watched], fp4: Path) -> None:
    page = watched()
    for address in (
        "#op=x&item=<img src=x onerror=alert(1)>&measure=__proto__",
        "#op=fp4ops%3A%3Amatmul_nvfp4&measure=constructor&item=name&n=x",
        "#op=fp4ops%3A%3Amatmul_nvfp4&try=M%3D%3Cscript%3E%26__proto__%3D1",
        "#op=fp4ops%3A%3Amatmul_nvfp4&q=%3Cscript%3Ealert(1)&state=x&rule=y",
        "#%",
    ):
        page.open(fp4, address)
        assert page.page.locator("h1").inner_text() == "Gate failed"


def test_the_policy_refuses_scripts_that_are_not_ours(browser: Browser, fp4: Path) -> None:
    other = Watched(browser)
    page = other.open(fp4)
    script = "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    page.evaluate(f"() => {{ {script} }}")
    address = "https://example.invalid/x.png"
    image = f"const i = new Image(); i.onerror = done; i.src = '{address}'"
    page.evaluate(f"() => new Promise((done) => {{ {image} }})")
    assert page.evaluate("window.ran") is None
    refused = [text for text in other.wrong if "Content Security Policy" in text]
    assert ["inline script" in refused[0], f"Loading the image '{address}'" in refused[1]] == [True, True]
    page.close()


def test_several_tables_are_chosen_between(watched: Callable[..., Watched], tmp_path: Path) -> None:
    table = parse_table(SMALL)
    both = Results.of(records()) + Results.of(data(table, row(table, N=4, aligned=True, dtype="float16", shard="s2")))
    page = watched().open(written(tmp_path, both))
    assert page.locator("article:visible h2").all_inner_texts() == ["demo::scale"]
    page.locator(".tables a", has_text="fp4ops").click()
    assert page.locator("article:visible h2").all_inner_texts() == ["fp4ops::matmul_nvfp4"]
    assert page.locator("article:visible .rule").count() == 8


def test_no_table_at_all(watched: Callable[..., Watched], tmp_path: Path) -> None:
    page = watched().open(written(tmp_path, Results.of(Data())))
    assert "nothing was judged" in page.locator(".failures").inner_text()

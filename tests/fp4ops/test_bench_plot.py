"""The picture of the GPU benchmark: everything measured is in it, and what cannot be drawn is said."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fp4ops.bench import plot

HERE = Path(__file__).parents[2]
REPORT: dict[str, Any] = json.loads((HERE / plot.RESULTS).read_text(encoding="utf-8"))


def row(section: str, problem: str, variant: str, nbytes: int, **medians: float) -> dict[str, Any]:
    times = {kind: {"median": us, "q25": us * 0.9, "q75": us * 1.2} for kind, us in medians.items()}
    rates = {kind: nbytes / us / 1e6 for kind, us in medians.items()}
    return {"section": section, "problem": problem, "variant": variant, "bytes": nbytes, "us": times, "tb_per_s": rates}


SMALL = {
    "rows": [
        row("memory", "2 GiB", "copy", 4_000_000, warm=1.0),
        row("memory", "2 GiB", "read", 5_000_000, warm=1.0),
        row("dequantisation", "64 x 32", "scalar", 1000, warm=8.0),
        row("dequantisation", "64 x 32", "expand-copy 8", 1000, warm=2.0),
        row("decode", "4, 64, 32", "Fp4MmaGemvKernel", 1024, warm=2.0),
        {**row("decode", "4, 64, 32", "humming-kernels", 0), "note": "not importable"},
        row("model", "3 matrices", "flat", 8_000_000_000, replay=2500.0),
    ]
}


def test_values_are_relative_to_the_ceilings() -> None:
    dequantisation, model, decode = plot.panels(SMALL)
    assert dequantisation.bars["scalar"]["64 x 32"] == plot.Bar(4.0, 3.6, 4.8, "8.0")
    assert (dequantisation.groups, dequantisation.ceiling[0]) == (("64 x 32",), 1.0)
    bar = decode.bars["Fp4MmaGemvKernel"]["4"]
    assert list(decode.bars) == ["Fp4MmaGemvKernel"]  # what was not measured is not drawn
    assert (bar.value, bar.low, bar.high) == pytest.approx((1024 / 2e6, 1024 / 2.4e6, 1024 / 1.8e6))
    assert decode.ceiling == (5.0, "read only")
    assert model.bars["flat"]["3 matrices"].text == "2.50 ms"
    assert model.ceiling[0] == pytest.approx(2.0)  # 8 GB at 4 TB/s


def test_every_shape_and_kernel_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "bench.svg"
    assert plot.main([str(HERE / plot.RESULTS), "--out", str(out)]) == 0
    texts = {element.text for element in ElementTree.parse(out).iter("{http://www.w3.org/2000/svg}text")}
    for entry in REPORT["rows"]:
        if entry["variant"] not in plot.COLOURS or not entry["us"] or entry["section"] == "prefill":
            continue
        assert plot.LABELS.get(entry["variant"], entry["variant"]) in texts
        if entry["section"] == "decode":
            M, shape = entry["problem"].split(", ", 1)
            assert {M, f"Decode, {shape.replace(', ', ' x ')}, by M"} <= texts
        elif entry["section"] == "dequantisation":
            assert entry["problem"] in texts
    assert "One pass over a model" in texts


def test_every_row_of_the_stored_results_has_its_bar() -> None:
    dequantisation, model, *decode = plot.panels(REPORT)
    by_title = {panel.title: panel for panel in decode}
    for entry in REPORT["rows"]:
        section, problem, variant = entry["section"], entry["problem"], entry["variant"]
        if section == "dequantisation" and variant != "expand-copy 32":
            assert dequantisation.bars[variant][problem].value > 0
        elif section == "model":
            assert model.bars[variant][problem].value > 0
        elif section == "decode" and entry["us"]:
            M, N, K = problem.split(", ")
            assert by_title[f"Decode, {N} x {K}, by M"].bars[variant][M].value > 0


def test_the_same_results_give_the_same_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        plot.draw(REPORT, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_stored_picture_is_of_the_stored_results(tmp_path: Path) -> None:
    text = (HERE / plot.RESULTS.with_suffix(".svg")).read_text(encoding="utf-8")
    meta = REPORT["meta"]
    assert " · ".join((meta["device"], meta["commit"][:10], meta["time"][:10])) in text


def test_as_png_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot.draw(SMALL, tmp_path / "bench.png")
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_without_results_it_says_what_it_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "bench.json"
    assert plot.main([str(results)]) == 1
    assert f"{results}: expected the JSON of `python -m fp4ops.bench gpu`" in capsys.readouterr().err
    results.write_text("{")
    assert plot.main([str(results)]) == 1
    assert "expected the JSON" in capsys.readouterr().err
    results.write_text('{"rows": []}')
    assert plot.main([str(results)]) == 1
    assert "expected the rows of `python -m fp4ops.bench gpu`, got none" in capsys.readouterr().err


@pytest.mark.parametrize("section", ["memory", "dequantisation", "decode", "model"])
def test_a_missing_section_is_named(section: str) -> None:
    report = copy.deepcopy(SMALL)
    report["rows"] = [entry for entry in report["rows"] if entry["section"] != section]
    with pytest.raises(plot.PlotError, match=f"got none of {section}$"):
        plot.panels(report)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(plot.PlotError, match="cannot write"):
        plot.draw(SMALL, tmp_path / "none" / "bench.svg")
    with pytest.raises(plot.PlotError, match="cannot write"):
        plot.draw(SMALL, tmp_path / "bench.what")


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plot.PlotError, match=r"pip install 'dispatchcov\[bench\]'"):
        plot.draw(SMALL, tmp_path / "bench.svg")

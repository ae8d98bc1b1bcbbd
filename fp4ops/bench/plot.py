"""``python -m fp4ops.bench.plot``: draws what ``python -m fp4ops.bench.gpu`` measured, as SVG or PNG.

Three kinds of panels: the time of each dequantiser as a multiple of the time that moving the same bytes takes; decode
in bytes of codes a second, beside what only reading reaches; one pass over the matrices of a model. Thin lines are
quartiles. Colours are readable on a light and on a dark page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

RESULTS = Path("reports/h200/bench.json")
GREY: Final = "#7d8590"
CEILING: Final = "#d1495b"
COLOURS: Final = MappingProxyType(
    {
        "scalar": "#8c6bb1",
        "vec8": "#e08a3c",
        "flat": "#3b82d8",
        "expand-copy 8": "#9aa0a6",
        "Fp4MmaGemvKernel": "#3b82d8",
        "Fp4GemvKernel": "#8c6bb1",
        "DequantizeNvFp4FlatKernel": "#e08a3c",
        "cuBLAS, dense": "#9aa0a6",
        "humming-kernels": "#3f9b6b",
        "onnxruntime-gpu": "#c2557a",
    }
)
"""Each variant that is drawn, with its colour."""
LABELS: Final = MappingProxyType(
    {"DequantizeNvFp4FlatKernel": "dequantise (flat), then GEMM", "expand-copy 8": "the same bytes, not decoded"}
)


class PlotError(ValueError):
    """Nothing can be drawn; the message says what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One value with its quartiles, and what is written at it."""

    value: float
    low: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Groups of bars side by side: variant -> group -> bar."""

    title: str
    unit: str
    groups: tuple[str, ...]
    bars: Mapping[str, Mapping[str, Bar]]
    ceiling: tuple[float, str]
    """A level and its name, if the legend does not say it."""


def panels(document: Mapping[str, Any]) -> list[Panel]:
    """What is drawn of a report; PlotError if a section is missing."""
    rows = document.get("rows")
    if not rows:
        raise PlotError("expected the rows of `python -m fp4ops.bench gpu`, got none")
    sections: dict[str, list[Any]] = {}
    for row in rows:
        if row["us"]:
            sections.setdefault(row["section"], []).append(row)
    if missing := [name for name in ("memory", "dequantisation", "decode", "model") if name not in sections]:
        raise PlotError(f"expected sections memory, dequantisation, decode and model, got none of {', '.join(missing)}")
    rates = {row["variant"]: row["tb_per_s"]["warm"] for row in sections["memory"]}
    shapes = dict.fromkeys(row["problem"].split(", ", 1)[1] for row in sections["decode"])
    decode = [_decode(shape, sections["decode"], rates["read"]) for shape in shapes]
    return [_dequantisation(sections["dequantisation"]), _model(sections["model"], rates["copy"]), *decode]


def _dequantisation(rows: list[Any]) -> Panel:
    groups = tuple(dict.fromkeys(row["problem"] for row in rows))
    floor = {row["problem"]: row["us"]["warm"]["median"] for row in rows if row["variant"] == "expand-copy 8"}
    bars: dict[str, dict[str, Bar]] = {}
    for row in rows:
        if row["variant"] in COLOURS:
            text = _microseconds(row["us"]["warm"]["median"])
            bar = _bar(row["us"]["warm"], lambda us, row=row: us / floor[row["problem"]], text)
            bars.setdefault(row["variant"], {})[row["problem"]] = bar
    unit = "time, as a multiple of that of moving the bytes"
    return Panel("Dequantisation", unit, groups, bars, (1.0, ""))


def _decode(shape: str, rows: list[Any], read: float) -> Panel:
    N, K = map(int, shape.split(", "))
    of_shape = [row for row in rows if row["problem"].endswith(f", {shape}") and row["variant"] in COLOURS]
    groups = tuple(dict.fromkeys(row["problem"].split(",")[0] for row in of_shape))
    bars: dict[str, dict[str, Bar]] = {}
    for row in of_shape:
        text = _microseconds(row["us"]["warm"]["median"])
        group = row["problem"].split(",")[0]
        bars.setdefault(row["variant"], {})[group] = _bar(row["us"]["warm"], lambda us: N * K / 2 / us / 1e6, text)
    return Panel(f"Decode, {N} x {K}, by M", "TB/s of codes", groups, bars, (read, "read only"))


def _model(rows: list[Any], copy: float) -> Panel:
    bars = {}
    for row in rows:
        time = row["us"]["replay"]
        bars[row["variant"]] = {row["problem"]: _bar(time, lambda us: us / 1e3, f"{time['median'] / 1e3:.2f} ms")}
    floor = max(row["bytes"] for row in rows) / copy / 1e9
    unit = "ms; the line: its bytes at the rate of a copy"
    return Panel("One pass over a model", unit, tuple({row["problem"]: None for row in rows}), bars, (floor, ""))


def _bar(time: Mapping[str, float], scale: Any, text: str) -> Bar:
    low, high = sorted((scale(time.get("q25", time["median"])), scale(time.get("q75", time["median"]))))
    return Bar(scale(time["median"]), low, high, text)


def _microseconds(time: float) -> str:
    return f"{time:.1f}" if time < 100 else f"{time:.0f}"


def draw(document: Mapping[str, Any], out: Path) -> None:
    """Write the picture; its suffix, ``.svg`` or ``.png``, says as what.

    :raises PlotError: matplotlib is not installed, there is nothing to draw, or the file cannot be written.
    """
    try:
        import matplotlib
    except ImportError:
        raise PlotError("expected matplotlib to be installed: pip install 'dispatchcov[bench]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    first, model, *decode = panels(document)
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "fp4ops", "font.size": 9, "text.color": GREY}
    with matplotlib.rc_context(settings):
        columns = max(len(decode), 4)
        figure = pyplot.figure(figsize=(13, 7.2), layout="constrained")
        grid = figure.add_gridspec(2, columns, height_ratios=(1, 1.1))
        _panel(figure.add_subplot(grid[0, :-1]), first)
        _panel(figure.add_subplot(grid[0, -1]), model)
        for column, panel in enumerate(decode):
            _panel(figure.add_subplot(grid[1, column]), panel)
        for axes in figure.axes[:2]:
            _legend(axes, [axes], loc="upper right", ncols=2)
        meta = document.get("meta", {})
        made = [
            str(meta[key])[:length] for key, length in (("device", 40), ("commit", 10), ("time", 10)) if meta.get(key)
        ]
        figure.suptitle(" · ".join([*made, "bfloat16, block size 16; numbers at bars: µs"]), color=GREY, fontsize=9)
        if decode:
            _legend(figure, figure.axes[2:], loc="outside lower center", ncols=len(COLOURS))
        try:
            figure.savefig(out, transparent=True, metadata={"Date": None} if out.suffix == ".svg" else None, dpi=150)
        except (OSError, ValueError) as error:
            raise PlotError(f"cannot write {out}: {error}") from None
        finally:
            pyplot.close(figure)


def _panel(axes: Any, panel: Panel) -> None:
    width = 0.86 / len(panel.bars)
    for place, (variant, bars) in enumerate(panel.bars.items()):
        for group, bar in bars.items():
            x = panel.groups.index(group) - 0.43 + width * (place + 0.5)
            axes.bar(x, bar.value, 0.92 * width, color=COLOURS[variant], label=LABELS.get(variant, variant))
            axes.vlines(x, bar.low, bar.high, color=GREY, linewidth=0.8)
            crowded = len(panel.groups) * len(panel.bars) > 12
            axes.annotate(
                bar.text,
                (x, bar.value),
                (0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6,
                rotation=90 if crowded else 0,
            )
    level, name = panel.ceiling
    axes.axhline(level, color=CEILING, linewidth=1, linestyle="--")
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    axes.annotate(name, (1, level), (-2, 2), **where, ha="right", va="bottom", fontsize=7, color=CEILING)
    axes.set_title(panel.title, loc="left", fontsize=10)
    axes.set_ylabel(panel.unit, color=GREY, fontsize=8)
    axes.set_xticks(range(len(panel.groups)), panel.groups)
    axes.tick_params(colors=GREY, labelsize=8, length=0)
    axes.margins(y=0.18)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def _legend(owner: Any, all_axes: Sequence[Any], **options: Any) -> None:
    """Each variant once, whichever of the panels it is in."""
    one = {label: handle for axes in all_axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    owner.legend(one.values(), one.keys(), frameon=False, fontsize=7, labelcolor=GREY, **options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; 1 with a message if nothing could be drawn."""
    parser = argparse.ArgumentParser(prog="python -m fp4ops.bench.plot", description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS, help=f"JSON of the benchmark ({RESULTS})")
    parser.add_argument("-o", "--out", type=Path, action="append", metavar="FILE", help=".svg or .png; repeatable; "
                        "by default an .svg beside the results")  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        try:
            document = json.loads(options.results.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PlotError(f"{options.results}: expected the JSON of `python -m fp4ops.bench gpu`: {error}") from None
        for out in options.out or [options.results.with_suffix(".svg")]:
            draw(document, out)
            print(out)
    except PlotError as error:
        print(f"fp4ops.bench.plot: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

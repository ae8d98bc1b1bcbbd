"""The report in Cobertura's XML, ``coverage-04.dtd``: what GitLab, Jenkins and Azure show beside changed lines."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as ET

import dispatchcov
from dispatchcov.gate import Verdict
from dispatchcov.places import from_here
from dispatchcov.results import Results
from dispatchcov.table_lines import FileLines, Line, files

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">
"""
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(results: Results, verdict: Verdict) -> str:
    """A document with one package, and in it a class for each file of a table, by its path from the ``source``."""
    del verdict
    found = files(results)
    lines = [line for file in found for line in file.lines]
    root = _element("coverage", _rates(lines), version=f"dispatchcov {dispatchcov.__version__}")
    root.set("timestamp", str(int(time.time() * 1000)))
    for name, numbers in (("lines", _lines(lines)), ("branches", _branches(lines))):
        root.set(f"{name}-covered", str(numbers[0]))
        root.set(f"{name}-valid", str(numbers[1]))
    ET.SubElement(ET.SubElement(root, "sources"), "source").text = _clean(os.getcwd())
    package = _element("package", _rates(lines), name="dispatch")
    ET.SubElement(root, "packages").append(package)
    classes = ET.SubElement(package, "classes")
    classes.extend(map(_class, found))
    ET.indent(root)
    return f"{HEAD}{ET.tostring(root, encoding='unicode')}\n"


def _class(file: FileLines) -> ET.Element:
    path = from_here(file.path)
    element = _element("class", _rates(file.lines), name=os.path.basename(path), filename=path)
    methods = ET.SubElement(element, "methods")
    for function in file.functions:
        line = Line(function.line, function.hits, (), function.hits > 0, ())
        method = _element("method", _rates([line]), name=function.name, signature="")
        ET.SubElement(method, "lines").append(_line(line))
        methods.append(method)
    ET.SubElement(element, "lines").extend(map(_line, file.lines))
    return element


def _line(line: Line) -> ET.Element:
    element = ET.Element("line", number=str(line.number), hits=str(line.hits), branch=str(bool(line.branches)).lower())
    if line.branches:
        element.set("condition-coverage", _share(branch.hits for branch in line.branches))
        conditions = ET.SubElement(element, "conditions")
        for block in sorted({branch.block for branch in line.branches}):
            hits = [branch.hits for branch in line.branches if branch.block == block]
            share = _share(hits).split(" ")[0]
            ET.SubElement(conditions, "condition", number=str(block), type="jump", coverage=share)
    return element


def _share(hits: Iterable[int]) -> str:
    """``50% (1/2)``: never 0 or 100 by rounding."""
    taken = [number > 0 for number in hits]
    covered, total = sum(taken), len(taken)
    percent = round(100 * covered / total)
    return f"{percent if covered in (0, total) else min(max(percent, 1), 99)}% ({covered}/{total})"


def _lines(lines: Sequence[Line]) -> tuple[int, int]:
    return sum(line.hits > 0 for line in lines), len(lines)


def _branches(lines: Sequence[Line]) -> tuple[int, int]:
    branches = [branch for line in lines for branch in line.branches]
    return sum(branch.hits > 0 for branch in branches), len(branches)


def _rates(lines: Sequence[Line]) -> dict[str, str]:
    """The shares of lines and branches, from 0 to 1; 1 of nothing."""

    def rate(covered: int, total: int) -> str:
        return f"{covered / total if total else 1:.4g}"

    return {"line-rate": rate(*_lines(lines)), "branch-rate": rate(*_branches(lines)), "complexity": "0"}


def _element(tag: str, rates: dict[str, str], **more: str) -> ET.Element:
    return ET.Element(tag, {**{name: _clean(value) for name, value in more.items()}, **rates})


def _clean(text: str) -> str:
    """``text`` without what no XML document can hold."""
    return FORBIDDEN.sub("\ufffd", text)

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from tests.dispatchcov.build import SMALL
from tests.dispatchcov.formats import DTD, FLOAT16, HOSTILE, NAMED, rendered

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(text: str) -> etree._Element:
    """The document, valid by the DTD."""
    parser = etree.XMLParser(load_dtd=False, no_network=True, resolve_entities=False)
    root = etree.fromstring(text.encode(), parser)
    with DTD.open("rb") as stream:
        dtd = etree.DTD(stream)
    assert dtd.validate(root), str(dtd.error_log)
    return root


def lines(root: etree._Element) -> list[etree._Element]:
    """The lines of the files, without those that methods repeat."""
    return [line for file in root.iter("class") for line in file.findall("lines/line")]


def test_the_document_is_valid_and_counts(here: Path) -> None:
    root = parsed(rendered("xml", SMALL, {"N": 4, **FLOAT16}, {"N": 2048, **FLOAT16}))
    totals = {name: root.get(name) for name in ("lines-covered", "lines-valid", "branches-covered", "branches-valid")}
    assert totals == {"lines-covered": "5", "lines-valid": "8", "branches-covered": "5", "branches-valid": "8"}
    assert (root.get("line-rate"), root.get("branch-rate")) == ("0.625", "0.625")
    assert [source.text for source in root.iter("source")] == [str(here)]
    assert [found.get("filename") for found in root.iter("class")] == ["small.toml"]


def test_a_line_has_its_predicates_as_conditions() -> None:
    root = parsed(rendered("xml", SMALL, {"N": 4, **FLOAT16}, {"N": 5, **FLOAT16}))
    (guard,) = (line for line in lines(root) if line.get("number") == "15")
    assert (guard.get("hits"), guard.get("branch"), guard.get("condition-coverage")) == ("2", "true", "75% (3/4)")
    assert [(c.get("number"), c.get("coverage")) for c in guard.iter("condition")] == [("0", "100%"), ("1", "50%")]


def test_rules_and_kernels_are_methods() -> None:
    root = parsed(rendered("xml", SMALL, {"N": 4, **FLOAT16}))
    rates = {method.get("name"): method.get("line-rate") for method in root.iter("method")}
    assert rates == {"rule vec4": "1", "rule scalar": "0", "kernel ScaleVec4": "1", "kernel Scale": "0"}


def test_no_name_breaks_the_document() -> None:
    root = parsed(rendered("xml", NAMED, {"N": 5, **FLOAT16}))
    assert f"rule {HOSTILE}".replace('\\"', '"') in [method.get("name") for method in root.iter("method")]


def test_what_no_xml_can_hold_is_replaced(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a\x01b").mkdir()
    monkeypatch.chdir(here / "a\x01b")
    root = parsed(rendered("xml", SMALL, {"N": 5, **FLOAT16}))
    assert [source.text for source in root.iter("source")] == [f"{here}/a\ufffdb"]


def test_no_share_is_rounded_to_none_or_all() -> None:
    values = ", ".join(f'"v{number}"' for number in range(300))
    text = SMALL.replace('"float16", "float32"', values)
    rows = [{"N": 4, "aligned": True, "dtype": f"v{number}"} for number in range(299)]
    most = parsed(rendered("xml", text, *rows))
    least = parsed(rendered("xml", text, rows[0]))
    assert "99% (299/300)" in [line.get("condition-coverage") for line in lines(most)]
    assert "1% (1/300)" in [line.get("condition-coverage") for line in lines(least)]

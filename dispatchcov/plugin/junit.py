"""Properties for ``--junitxml``: what each test reached, and what the whole run covered.

A test has ``dispatch.rules``, ``dispatch.kernels`` and ``dispatch.partitions``, each with the operator and the names
that its body reached, passed or not; the suite has ``dispatch.gate`` and ``dispatch.<measure>``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from xml.etree import ElementTree as ET

import pytest

from dispatchcov.cells import Cell
from dispatchcov.errors import UsageError
from dispatchcov.formula import every, holds
from dispatchcov.gate import Verdict
from dispatchcov.results import Results
from dispatchcov.table import Table

INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def add_reached(item: pytest.Item, cells: Iterable[Cell]) -> None:
    """Give ``item`` the properties of the decisions in ``cells``, if a JUnit file is asked for."""
    if item.config.getoption("xmlpath", None):
        item.user_properties += reached(cells)


def reached(cells: Iterable[Cell]) -> list[tuple[str, object]]:
    """The properties of a test that decided what ``cells`` count, table by table."""
    tables: dict[Table, list[Cell]] = {}
    for cell in cells:
        tables.setdefault(cell.view.table, []).append(cell)
    properties: list[tuple[str, object]] = []
    for table, found in sorted(tables.items(), key=lambda each: each[0].op):
        rules, ran = {cell.rule for cell in found}, {cell.ran for cell in found}
        named = {
            "rules": [rule.name for rule in table.rules if rule.name in rules],
            "kernels": [*(k.name for k in table.kernels if k.name in ran), *_unknown(table, ran)],
            "partitions": _partitions(table, {cell.vector: cell.rule for cell in found}),
        }
        properties += [
            (f"dispatch.{kind}", f"{table.op}: {', '.join(names) or 'none'}") for kind, names in named.items()
        ]
    return properties


def _unknown(table: Table, ran: set[str]) -> list[str]:
    """Kernels that other code says it ran and that the table does not have."""
    return sorted(ran - {kernel.name for kernel in table.kernels} - {""})


def _partitions(table: Table, rules: dict[int, str]) -> list[str]:
    names = []
    for partition in table.partitions:
        taking = {table.rules[index].name for index in partition.rules}
        for bin in partition.bins:
            condition = every(partition.condition, bin.condition)
            if any(rule in taking and holds(condition, vector) for vector, rule in rules.items()):
                names.append(f"{partition.name} [{bin.label}]" if bin.label else partition.name)
    return names


def add_totals(config: pytest.Config, results: Results | None, verdict: Verdict | None) -> None:
    """Put the totals into the JUnit file that pytest has written, if one was asked for and the run was judged.

    Raises :class:`UsageError` if that file cannot be read or written.
    """
    given = config.getoption("xmlpath", None)
    if not given or results is None or verdict is None:
        return
    path = os.path.join(config.invocation_params.dir, os.path.expanduser(os.path.expandvars(given)))
    try:
        tree = ET.parse(path)
        for suite in tree.getroot().iter("testsuite"):
            _add(suite, results, verdict)
        with open(f"{path}.new", "wb") as stream:
            tree.write(stream, encoding="utf-8", xml_declaration=True)
        os.replace(f"{path}.new", path)
    except (OSError, ET.ParseError) as error:
        raise UsageError(f"--junitxml: cannot put totals into {path}: {error}") from None


def _add(suite: ET.Element, results: Results, verdict: Verdict) -> None:
    properties = suite.find("properties")
    if properties is None:
        properties = ET.Element("properties")
        suite.insert(0, properties)
    state = (
        "not judged, the run was partial" if verdict.ok and verdict.partial else "passed" if verdict.ok else "FAILED"
    )
    values = {"gate": state, "machines": "; ".join(results.machines)}
    values |= {name: f"{totals.covered}/{totals.total}" for name, totals in results.totals.items()}
    for name, value in values.items():
        ET.SubElement(properties, "property", name=f"dispatch.{name}", value=INVALID.sub("\ufffd", value))

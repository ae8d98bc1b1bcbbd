"""The report for machines: JSON format 1, described by ``dispatchcov/report-1.schema.json`` in the package."""

from __future__ import annotations

import datetime
import json
from importlib import resources
from typing import Any

import dispatchcov
from dispatchcov.gate import Verdict
from dispatchcov.items import Item, Mismatch, Seen, Side, Totals
from dispatchcov.report import drift as drift_report
from dispatchcov.report import weights as weights_report
from dispatchcov.results import Results, TableResults

FORMAT = 1


def render(results: Results, verdict: Verdict) -> str:
    """The report as JSON text, two spaces deep."""
    return json.dumps(document(results, verdict), indent=2) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    text = resources.files("dispatchcov").joinpath("report-1.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def document(results: Results, verdict: Verdict) -> dict[str, Any]:
    """The report as plain dictionaries and lists."""
    return {
        "meta": {
            "format": FORMAT,
            "version": dispatchcov.__version__,
            "timestamp": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "partial": bool(results.partial),
            "partial_reasons": list(results.partial),
            "evidence": sorted(results.evidence),
            "machines": list(results.machines),
        },
        "tables": {table.table.op: _table(table) for table in results.tables},
        "totals": {name: _totals(totals) for name, totals in results.totals.items()},
        "gate": {"ok": verdict.ok, "failures": list(verdict.failures), "notes": list(verdict.notes)},
        **({"weights": weights_report.document(results.weights)} if results.weights is not None else {}),
        **({"drift": drift_report.document(results.drift)} if results.drift is not None else {}),
    }


def _table(results: TableResults) -> dict[str, Any]:
    return {
        "digest": results.table.digest,
        "source": results.table.source,
        "decisions": results.decisions,
        "machines": list(results.machines),
        "partitions": [_item(item, "bin", partition=True) for item in results.partitions],
        "kernels": [_item(item, None) for item in results.kernels],
        "rules": [_item(item, None) for item in results.rules],
        "predicates": [_side(side) for side in results.predicates],
        "splits": [_item(item, "side") for item in results.splits],
        "regions": [_item(item, "region") for item in results.regions],
        "fallbacks": [_item(item, "predicate") for item in results.fallbacks],
        "boundaries": [_item(item, "side") for item in results.boundaries],
        "mcdc": [_item(item, "predicate") | {"also": list(item.also)} for item in results.mcdc],
        "mutants": [mutant(item) for item in results.mutants],
        "mismatches": [_mismatch(mismatch) for mismatch in results.mismatches],
        "notes": list(results.notes),
        "totals": {name: _totals(totals) for name, totals in results.totals.items()},
    }


def _item(item: Item, detail: str | None, *, partition: bool = False) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": item.name}
    if detail:
        entry[detail] = item.detail
    entry["rule"] = list(item.rules)
    if partition:
        entry |= {
            "required": item.required,
            "illegal": item.illegal,
            "at_least": item.at_least,
            "needs": list(item.needs),
            "waiver": item.waiver or None,
        }
    return entry | {
        "line": item.line,
        "state": item.state,
        "reachable": item.reachable,
        "evidence": list(item.reach.evidence),
        "hits": item.reach.hits,
        "tests": list(item.reach.tests),
        "machines": list(item.reach.machines),
        "by_machine": [_seen(seen) for seen in item.reach.by_machine],
        "apart": dict(item.reach.apart),
        "witness": item.witness,
    }


def _seen(seen: Seen) -> dict[str, Any]:
    return {
        "machine": seen.machine,
        "emulated": seen.emulated,
        "hardware": dict(seen.hardware),
        "hits": seen.hits,
        "evidence": list(seen.evidence),
    }


def mutant(item: Item) -> dict[str, Any]:
    """The entry of a mutant."""
    return _item(item, "change") | {"grade": item.grade}


def _side(side: Side) -> dict[str, Any]:
    return {"text": side.text, "line": side.line, "true": side.true, "false": side.false}


def _mismatch(mismatch: Mismatch) -> dict[str, Any]:
    return {
        "kind": mismatch.kind,
        "rule": mismatch.rule,
        "expected": mismatch.expected,
        "got": mismatch.got,
        "facts": mismatch.facts,
        "decisions": mismatch.decisions,
        "tests": list(mismatch.tests),
        "nearest": mismatch.nearest or None,
        "waiver": mismatch.waiver or None,
    }


def _totals(totals: Totals) -> dict[str, Any]:
    return {"covered": totals.covered, "total": totals.total, "percent": totals.percent}

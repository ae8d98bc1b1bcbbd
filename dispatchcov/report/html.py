"""The HTML report: one page that loads nothing, with its style, its scripts and its data inside.

Verdict, totals and partitions are in the markup, so that they can be read where scripts are switched off; the scripts
in ``page/`` draw the rest from :mod:`dispatchcov.report.html_data`. The page's policy allows these scripts, by their
checksums, and nothing else.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections import Counter
from collections.abc import Iterable
from importlib import resources
from typing import Any
from urllib.parse import urlencode

import dispatchcov
from dispatchcov.errors import UsageError
from dispatchcov.gate import Verdict
from dispatchcov.items import MEASURES, STATES, Item, Weights, emulated
from dispatchcov.report import drift as drift_report
from dispatchcov.report import html_data
from dispatchcov.report import weights as weights_report
from dispatchcov.report.text import WORDS, near, totals_text
from dispatchcov.results import Results, TableResults
from dispatchcov.table import EMULATES, EVIDENCE, show

SCRIPTS = ("dispatch", "data", "dom", "items", "flow", "chooser", "explorer", "page")
"""The scripts of the page, in the order in which they stand in it."""

STALE = " is stale, "


def render(results: Results, verdict: Verdict) -> str:
    """The page; raises :class:`UsageError` if Jinja2 is not installed."""
    style = _part("page.css")
    script = "".join(_part(f"{name}.js") for name in SCRIPTS)
    text = _template().render(
        policy=_policy(style, script),
        style=style,
        script=script,
        data=html_data.text(results),
        version=dispatchcov.__version__,
        timestamp=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        results=results,
        verdict=verdict,
        notes=[(note, STALE in note) for note in verdict.notes],
        tables=[_table(number, table, verdict) for number, table in enumerate(results.tables)],
        weights=_weights(results.weights) if results.weights is not None else None,
        evidence=EVIDENCE,
        machines=_machines(results.machines),
        emulated=bool(results.machines) and all(map(emulated, results.machines)),
        drift=list(drift_report.lines(results.drift)) if results.drift is not None else [],
        words=WORDS,
    )
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")  # a test id may hold what is no character


def _part(name: str) -> str:
    return resources.files("dispatchcov.report").joinpath("page", name).read_text(encoding="utf-8")


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise UsageError("html report: expected Jinja2 to be installed: pip install dispatchcov[html]") from None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"count": "{:,}".format, "address": _address, "facts": show}
    return environment.from_string(_part("page.html"))


def _policy(style: str, script: str) -> str:
    sources = {"script-src": script, "style-src": style}
    hashes = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in sources.items()}
    allowed = "; ".join(f"{name} 'sha256-{checksum}'" for name, checksum in hashes.items())
    return f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"


def _address(parameters: dict[str, str]) -> str:
    """The fragment that leads to a part of the page, as its scripts read it."""
    return "#" + urlencode(parameters, errors="replace")


def _table(number: int, results: TableResults, verdict: Verdict) -> dict[str, Any]:
    op = results.table.op
    mixed = not all(map(emulated, results.machines))
    stale = [note for note in verdict.notes if STALE in note]
    return {
        "number": number,
        "op": op,
        "source": near(results.table.source),
        "digest": results.table.digest[:12],
        "decisions": results.decisions,
        "machines": results.machines,
        "groups": machine_groups(results.machines),
        "measures": [_measure(results, name) for name in MEASURES],
        "partitions": [_partition(results, item, mixed) for item in results.partitions],
        "mismatches": results.mismatches,
        "stale": [k.name for k in results.table.kernels if any(f"{op}: the sources of {k.name} " in n for n in stale)],
    }


def _weights(weights: Weights) -> dict[str, Any]:
    share, *_ = weights_report.lines(weights)
    regions = [
        {
            "region": region,
            "address": {"op": region.op, "measure": "regions", "item": region.region},
            "share": f"{weights.share(region):.1f}",
            "width": f"{weights.share(region):.2f}%",
            "time": f"{region.nanoseconds / 1e6:.2f}" if weights.timed else "",
        }
        for region in weights.regions
    ]
    return {"share": share, "timed": weights.timed, "regions": regions, "notes": weights.notes}


def machine_groups(machines: Iterable[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The machines as columns: hardware first, each a group of its own, then what each other machine emulates."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for machine in sorted(machines, key=lambda name: (emulated(name), len(name), name)):
        base, emulates, target = machine.partition(EMULATES)
        groups.setdefault(base + emulates.rstrip(), []).append((machine, target))
    return list(groups.items())


def _machines(machines: Iterable[str]) -> str:
    groups = ((base, ", ".join(target for _, target in members)) for base, members in machine_groups(machines))
    return "; ".join(f"{base} {targets}".strip() for base, targets in groups)


def _seen(item: Item, machine: str) -> tuple[int, list[str]]:
    hits, evidence = html_data.by_machine(item.reach, machine)
    return hits, [EVIDENCE[index] for index in evidence]


def _measure(results: TableResults, name: str) -> dict[str, Any]:
    items: tuple[Item, ...] = getattr(results, name)
    totals = results.totals[name]
    states = Counter(item.state for item in items)
    optional = sum(not item.required for item in items)
    return {
        "name": name,
        "title": {"mcdc": "MC/DC"}.get(name, name),
        "covered": totals.covered,
        "total": totals.total,
        "percent": f"{totals.percent:g}" if totals.total else "",
        "width": f"{totals.percent if totals.total else 0:g}%",
        "text": totals_text(totals),
        "states": [(state, states[state]) for state in STATES if states[state] and state != "hit"],
        "optional": optional,
        "noticed": sum(item.grade == "noticed" for item in items),
    }


def _partition(results: TableResults, item: Item, mixed: bool) -> dict[str, Any]:
    return {
        "item": item,
        "address": {"op": results.table.op, "measure": "partitions", "item": item.label},
        "tests": len(item.reach.tests),
        "emulated": mixed and bool(item.reach.machines) and all(map(emulated, item.reach.machines)),
        "machines": {name: _seen(item, name) for name in item.reach.machines},
    }

"""What a real workload weighs, as a section of the reports."""

from __future__ import annotations

from typing import Any

from dispatchcov.items import Weight, Weights
from dispatchcov.table import EVIDENCE, show

SHOWN = 5
HEAVIEST = "heaviest paths that no test reaches, each with an input of the workload"


def lines(weights: Weights, shown: int = SHOWN) -> list[str]:
    """The share that tests reach in one line, with which evidence in another, then the heaviest that they do not."""
    found = [reached(weights), f"  {evidence(weights)}"]
    missed = weights.unreached
    if missed:
        found.append(f"  {HEAVIEST}:")
    for region in missed[:shown]:
        found.append(f"    {weights.share(region):5.1f} %  {path(region)}:  {show(region.input)}")
    if len(missed) > shown:
        found.append(f"    ... and {len(missed) - shown} more (the JSON and HTML reports have all)")
    return [*found, *(f"  note: {note}" for note in weights.notes)]


def reached(weights: Weights) -> str:
    """The share that tests reach."""
    calls, nanoseconds = weights.reached()
    of_calls = f"{_percent(calls, weights.calls)} of the calls"
    if weights.timed:
        time = f"{nanoseconds / 1e6:.2f} of {weights.nanoseconds / 1e6:.2f} ms"
        share = f"{_percent(nanoseconds, weights.nanoseconds)} of the GPU time ({time}) and {of_calls}"
    else:
        share = f"{of_calls} ({calls} of {weights.calls}; GPU time was not observed)"
    return f"workload {weights.source}: tests reach the paths of {share}"


def evidence(weights: Weights) -> str:
    """The share that they reach with each evidence."""
    graded = []
    for kind in EVIDENCE[1:]:
        part = weights.reached(kind)[weights.timed]
        graded.append(f"{kind} {_percent(part, weights.nanoseconds if weights.timed else weights.calls)}")
    return f"with evidence: {', '.join(graded)}"


def path(region: Weight) -> str:
    """Where ``region`` leads."""
    return f"{region.rule or 'no rule'} -> {region.kernel or '-'}"


def _percent(part: int, whole: int) -> str:
    """In percent, 0 and 100 only if it is exactly that."""
    if part in (0, whole):
        return "100 %" if part else "0 %"
    return f"{min(max(100 * part / whole, 0.1), 99.9):.1f} %"


def document(weights: Weights) -> dict[str, Any]:
    """For the JSON report."""
    return {
        "source": weights.source,
        "calls": weights.calls,
        "nanoseconds": weights.nanoseconds,
        "reached": {
            evidence: dict(zip(("calls", "nanoseconds"), weights.reached(evidence), strict=True))
            for evidence in EVIDENCE
        },
        "regions": [_region(weights, region) for region in weights.regions],
        "notes": list(weights.notes),
    }


def _region(weights: Weights, region: Weight) -> dict[str, Any]:
    return {
        "op": region.op,
        "region": region.region,
        "rule": region.rule,
        "kernel": region.kernel,
        "calls": region.calls,
        "nanoseconds": region.nanoseconds,
        "percent": round(weights.share(region), 2),
        "machines": list(region.machines),
        "input": region.input,
        "state": region.state,
        "evidence": list(region.evidence),
        "tests": list(region.tests),
    }

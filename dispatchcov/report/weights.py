"""What a real workload weighs, as a section of the reports."""

from __future__ import annotations

from typing import Any

from dispatchcov.items import Weight, Weights
from dispatchcov.table import EVIDENCE, show

SHOWN = 5


def lines(weights: Weights, shown: int = SHOWN) -> list[str]:
    """The share that tests reach in one line, with which evidence in another, then the heaviest that they do not."""
    calls, nanoseconds = weights.reached()
    of_calls = f"{_percent(calls, weights.calls)} of the calls"
    if weights.timed:
        time = f"{nanoseconds / 1e6:.2f} of {weights.nanoseconds / 1e6:.2f} ms"
        head = f"{_percent(nanoseconds, weights.nanoseconds)} of the GPU time ({time}) and {of_calls}"
    else:
        head = f"{of_calls} ({calls} of {weights.calls}; GPU time was not observed)"
    found = [f"workload {weights.source}: tests reach the paths of {head}"]
    graded = []
    for evidence in EVIDENCE[1:]:
        part = weights.reached(evidence)[weights.timed]
        graded.append(f"{evidence} {_percent(part, weights.nanoseconds if weights.timed else weights.calls)}")
    found.append(f"  with evidence: {', '.join(graded)}")
    missed = weights.unreached
    if missed:
        found.append("  heaviest paths that no test reaches, each with an input of the workload:")
    for region in missed[:shown]:
        facts = show(region.input)
        found.append(
            f"    {weights.share(region):5.1f} %  {region.rule or 'no rule'} -> {region.kernel or '-'}:  {facts}"
        )
    if len(missed) > shown:
        found.append(f"    ... and {len(missed) - shown} more (the JSON and HTML reports have all)")
    return [*found, *(f"  note: {note}" for note in weights.notes)]


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

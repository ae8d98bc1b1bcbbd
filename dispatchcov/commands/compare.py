"""``dispatchcov compare``: drift between two sides, without a test run."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable

from dispatchcov import config
from dispatchcov.commands.tables import BELOW, FINE, write
from dispatchcov.compare import sources as compare_sources
from dispatchcov.compare.moved import compare as drift_between
from dispatchcov.compare.sides import Reached
from dispatchcov.errors import UsageError
from dispatchcov.gate import drifted
from dispatchcov.report import drift as report


def compare(options: argparse.Namespace) -> int:
    """Show what drifted; 2 if a test moved and ``--fail-on-drift`` is on."""
    given = {name: getattr(options, name) for name in ("data", "baseline", "fail_on_drift")}
    settings = config.read(os.getcwd(), given)
    sides = [spec for spec in (options.base, options.new) if spec is not None]
    if options.baseline is not None and not any(map(compare_sources.is_revision, sides)):
        raise UsageError(
            f"compare: --baseline names the baseline of a mere revision, expected one, got {' and '.join(sides)}"
        )
    before = compare_sources.side(options.base, settings.baseline)
    now = (
        compare_sources.side(options.new, settings.baseline)
        if options.new is not None
        else compare_sources.records(settings.data)
    )
    drift = drift_between(before, now, ignore=settings.baseline_ignore, exists=_exists(now))
    if options.format == "json":
        text = json.dumps({"format": 1, "drift": report.document(drift)}, indent=2)
    else:
        text = report.markdown(drift) if options.format == "markdown" else report.text(drift)
    write(options.output, text)
    return BELOW if settings.fail_on_drift and list(drifted(drift)) else FINE


def _exists(now: Reached) -> Callable[[str], bool]:
    """Is a test file there? Nobody can tell where not even those are that ran: this is not the project's folder."""
    here = any(os.path.lexists(file) for file in now.files)
    return lambda file: not here or os.path.lexists(file)

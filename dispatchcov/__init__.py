"""dispatchcov: which kernel did the tests really run?

A tour::

    TABLE = dispatchcov.load_table("dispatch.toml")      # variables, kernels, ordered rules, partitions
    decision = TABLE.decide(M=4, N=4096, K=4080)         # first match; recorded when a recorder is on
    with decision.launch():                              # attests that the launcher returned
        LAUNCHERS[decision.kernel](...)
    print(TABLE.explain(M=4, N=4096, K=4080))            # each rule, each predicate, the values

    pytest --dispatch-report                             # partitions reached and missed, with inputs; a gate
    dispatchcov run -- python serve.py                   # the same outside pytest
    Results.of(dispatchcov.load_records(".dispatchcov")) # what was covered, as values

Everything below is public; the rest may change.

PYTEST_DONT_REWRITE: coverage.py imports its plugin, and this with it, before pytest could rewrite it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dispatchcov.decide import Decision, FallbackReason
    from dispatchcov.errors import (
        DataError,
        DigestError,
        DispatchcovError,
        ExpressionError,
        FactsError,
        TableError,
        UsageError,
    )
    from dispatchcov.foreign import traced
    from dispatchcov.gate import Limits, Verdict, judge
    from dispatchcov.loading.load import load_table, parse_table
    from dispatchcov.observers.evidence import observe
    from dispatchcov.recorder import Recorder
    from dispatchcov.recording import checked, record, warm_up
    from dispatchcov.results import Results
    from dispatchcov.store import combine, erase, load_records
    from dispatchcov.table import Table

__version__ = "0.1.0"

_HOME = {
    "DataError": "errors",
    "Decision": "decide",
    "DigestError": "errors",
    "DispatchcovError": "errors",
    "ExpressionError": "errors",
    "FactsError": "errors",
    "FallbackReason": "decide",
    "Limits": "gate",
    "Recorder": "recorder",
    "Results": "results",
    "Table": "table",
    "TableError": "errors",
    "UsageError": "errors",
    "Verdict": "gate",
    "checked": "recording",
    "combine": "store",
    "erase": "store",
    "judge": "gate",
    "load_records": "store",
    "load_table": "loading.load",
    "observe": "observers.evidence",
    "parse_table": "loading.load",
    "record": "recording",
    "traced": "foreign",
    "warm_up": "recording",
}

__all__ = [
    "DataError",
    "Decision",
    "DigestError",
    "DispatchcovError",
    "ExpressionError",
    "FactsError",
    "FallbackReason",
    "Limits",
    "Recorder",
    "Results",
    "Table",
    "TableError",
    "UsageError",
    "Verdict",
    "__version__",
    "checked",
    "combine",
    "erase",
    "judge",
    "load_records",
    "load_table",
    "observe",
    "parse_table",
    "record",
    "traced",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that the pytest plugin costs a run without it next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'dispatchcov' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"dispatchcov.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

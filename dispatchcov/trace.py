"""The raw trace: every decision as one JSON line, for people and tools that want to see them one by one.

A line has ``op``, ``rule``, ``kernel``, ``facts``, ``predicates`` (text to outcome, all of the table),
``fallbacks`` (rule, failed
predicates, values, sole), ``test``, ``phase``, ``machine`` and ``pid``. Lines are appended whole, so several
processes may share a file.
"""

from __future__ import annotations

import json
import os
from typing import Any

from dispatchcov.decide import Decision
from dispatchcov.errors import DataError
from dispatchcov.files.shard import plain


class TraceWriter:
    """Appends to ``path``; a full disk ends the trace with :attr:`error`, not the program."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: OSError | None = None
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise DataError(f"{path}: expected a file to write the trace to: {error.strerror or error}") from None

    def write(self, decision: Decision, test: str, phase: str) -> None:
        """Append ``decision``."""
        if self.error is None:
            line = {**line_of(decision), "test": test, "phase": phase, "machine": decision.machine, "pid": os.getpid()}
            try:
                os.write(self._fd, json.dumps(line, separators=(",", ":"), default=plain).encode() + b"\n")
            except OSError as error:
                self.error = error

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


def line_of(decision: Decision) -> dict[str, Any]:
    """What a decision says about itself, as plain dictionaries and lists; :class:`FactsError` for facts of a wrong
    type, which a recorder that has met like ones does not look at.
    """
    table = decision.table
    return {
        "op": table.op,
        "rule": decision.rule,
        "kernel": decision.kernel,
        "facts": table.facts(decision.facts or {}, domain=False),
        "predicates": {p.text: bool(decision.vector >> p.index & 1) for p in table.predicates},
        "fallbacks": [
            {"rule": reason.rule, "failed": list(reason.failed), "values": dict(reason.values), "sole": reason.sole}
            for reason in decision.fallbacks
        ],
    }

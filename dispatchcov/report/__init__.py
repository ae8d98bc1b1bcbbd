"""Reporters: each turns :class:`~dispatchcov.results.Results` and a verdict into text, one file each."""

from __future__ import annotations

from typing import Protocol

from dispatchcov.gate import Verdict
from dispatchcov.results import Results


class Reporter(Protocol):
    """What every reporter is."""

    def __call__(self, results: Results, verdict: Verdict) -> str: ...

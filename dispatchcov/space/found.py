"""What a search found: an input and its size, or none, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from dispatchcov.expr import Value
from dispatchcov.space.domain import Size


@dataclass(frozen=True, slots=True)
class Found:
    """The input ``facts`` with its ``key``, or None; proved to be smallest or not to exist if ``reason`` is empty."""

    facts: dict[str, Value] | None
    key: Size | None = None
    reason: str = ""

    def better(self, other: Found) -> Found:
        """The smaller of the two; proved only if both are."""
        reason = self.reason or other.reason
        if self.key is None or (other.key is not None and other.key < self.key):
            return Found(other.facts, other.key, reason)
        return Found(self.facts, self.key, reason)

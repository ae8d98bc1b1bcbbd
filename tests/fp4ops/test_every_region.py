"""Property test: whatever region of the dispatch table an input is in, the operator agrees with the reference."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from dispatchcov.strategies import covering
from fp4ops import TABLE
from fp4ops.testing import run_facts

SMALL = {"M": 40, "N": 70, "K": 400, "block_size": 70}


@settings(max_examples=60, deadline=None, derandomize=True)  # the machines in reports stay the same
@given(covering(TABLE, largest=SMALL))
def test_the_operator_agrees_with_the_reference_in_every_region(facts: dict[str, Any]) -> None:
    run_facts(**facts)

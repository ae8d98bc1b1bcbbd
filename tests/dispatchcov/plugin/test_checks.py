from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from dispatchcov.loading.load import parse_table
from dispatchcov.plugin import checks
from dispatchcov.recorder import CHECKED, RecordedDecision, Recorder
from dispatchcov.recording import checked
from tests.dispatchcov.build import SMALL

TABLE = parse_table(SMALL)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    undo = checks.install()
    with Recorder(None) as recorder:
        yield recorder
    undo()


def decide() -> RecordedDecision:
    decision = TABLE.decide(N=4, aligned=True, dtype="float16")
    assert isinstance(decision, RecordedDecision)
    return decision


def test_each_comparison_checks_what_was_decided_before(recorder: Recorder) -> None:
    for number, compare in enumerate(
        (
            lambda: torch.testing.assert_close(torch.ones(2), torch.ones(2)),
            lambda: np.testing.assert_allclose([1.0], [1.0]),
            lambda: np.testing.assert_array_equal([1], [1]),
            lambda: pytest.approx(1.0) == 1.0,
            lambda: pytest.approx([1.0, 2.0]) == [1.0, 2.0],
            lambda: np.ones(2) == pytest.approx(np.ones(2)),
            checked,
        ),
        1,
    ):
        decision = decide()
        assert decision.counts[CHECKED] == number - 1
        compare()
        assert decision.counts[CHECKED] == number


def test_a_comparison_that_fails_checks_nothing(recorder: Recorder) -> None:
    decision = decide()
    with pytest.raises(AssertionError):
        torch.testing.assert_close(torch.ones(2), torch.zeros(2))
    with pytest.raises(AssertionError):
        np.testing.assert_equal(1, 2)
    assert pytest.approx(1.0) != 2.0
    with np.testing.assert_raises(ValueError):
        raise ValueError
    assert decision.counts[CHECKED] == 0


def test_a_comparison_before_the_decision_checks_nothing(recorder: Recorder) -> None:
    torch.testing.assert_close(torch.ones(2), torch.ones(2))
    assert decide().counts[CHECKED] == 0


def test_uninstalling_leaves_no_trace() -> None:
    before = torch.testing.assert_close, np.testing.assert_allclose, list(sys.meta_path)
    undo = checks.install()
    assert torch.testing.assert_close is not before[0]
    undo()
    assert (torch.testing.assert_close, np.testing.assert_allclose, list(sys.meta_path)) == before


def test_installing_twice_wraps_once(recorder: Recorder) -> None:
    undo = checks.install()
    decision = decide()
    np.testing.assert_equal(1, 1)
    undo()
    assert decision.counts[CHECKED] == 1


LATER = """
import sys
from dispatchcov.plugin import checks
checks.install()
assert "numpy" not in sys.modules and "torch" not in sys.modules
from numpy.testing import assert_allclose
assert hasattr(assert_allclose, checks.MARK)
import numpy.testing
assert numpy.testing.__spec__.loader is numpy.testing.__loader__
assert "torch" not in sys.modules
"""


def test_nothing_is_imported_and_later_imports_are_seen() -> None:
    subprocess.run([sys.executable, "-c", LATER], check=True)

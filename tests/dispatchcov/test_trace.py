from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dispatchcov.errors import FactsError
from dispatchcov.recorder import Recorder
from dispatchcov.trace import TraceWriter
from tests.dispatchcov.recording import demo, facts


def test_facts_in_the_trace_are_plain_whatever_was_given(tmp_path: Path) -> None:
    with Recorder(None, tracer=TraceWriter(str(tmp_path / "trace.jsonl"))):
        for n in (8, np.int64(8), np.uint8(12)):
            demo().decide(**{**facts(), "N": n})
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [line["facts"]["N"] for line in lines] == [8, 8, 12]


def test_facts_that_no_line_can_hold_are_refused_by_name(tmp_path: Path) -> None:
    table = demo()
    with Recorder(None, tracer=TraceWriter(str(tmp_path / "trace.jsonl"))):
        table.decide(**facts(dtype="int8"))
        with pytest.raises(FactsError, match="expected dtype to be one of float16, float32, got bytes b'int8'"):
            table.decide(**{**facts(), "dtype": b"int8"})
    assert len((tmp_path / "trace.jsonl").read_text().splitlines()) == 1

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dispatchcov import decide, store
from dispatchcov.errors import UsageError
from dispatchcov.recorder import Recorder, active
from tests.dispatchcov.recording import demo, facts, recorded, totals


def test_a_recorder_inside_another_takes_its_place(data_file: str, tmp_path: Path) -> None:
    table = demo()
    inner_file = str(tmp_path / "inner")
    with Recorder(data_file) as outer:
        outer.enter("t", "call")
        before = table.decide(**facts())
        with Recorder(inner_file):
            table.decide(**facts())
            with before.launch():
                pass
        table.decide(**facts())
    assert totals(recorded(data_file).rows) == {("t", "call"): (2, 1, 0, 0)}
    assert totals(recorded(inner_file).rows) == {("", "run"): (1, 0, 0, 0)}


def test_recorders_stopped_out_of_order(data_file: str, tmp_path: Path) -> None:
    table = demo()
    inner_file = str(tmp_path / "inner")
    outer, inner = Recorder(data_file).start(), Recorder(inner_file).start()
    table.decide(**facts())
    outer.stop()
    table.decide(**facts())
    inner.stop()
    assert active() is None
    assert type(table.decide(**facts())) is decide.Decision
    assert totals(recorded(inner_file).rows) == {("", "run"): (2, 0, 0, 0)}
    assert recorded(data_file).rows == ()


def test_a_recorder_starts_once_and_again_after_it_stopped(data_file: str) -> None:
    table = demo()
    recorder = Recorder(data_file).start()
    with pytest.raises(UsageError, match="expected a recorder that is off"):
        recorder.start()
    table.decide(**facts())
    recorder.stop()
    recorder.stop()
    with recorder:
        table.decide(**facts())
    data = recorded(data_file)
    assert len(data.shards) == 2
    assert totals(data.rows) == {("", "run"): (2, 0, 0, 0)}


def test_a_decision_that_comes_late_is_decided_but_not_written(data_file: str) -> None:
    table = demo()
    with Recorder(data_file) as recorder:
        late: Callable[..., Any] = table.on("m").decide.__globals__["_record"]
    assert late(8, True, "float16", 90).rule == "wide"
    assert recorded(data_file).rows == ()
    assert len(store.shards_beside(data_file)) == 1
    assert recorder.lost == ""


def test_memory_does_not_grow_with_decisions_tests_and_facts() -> None:
    table = demo()
    with Recorder(None) as recorder:
        view = table.on("m")

        def work(tests: range) -> int:
            for test in tests:
                recorder.enter(f"t{test}", "call")
                for n in range(0, 6000, 8):
                    view.decide(**facts(N=n + test))
            recorder.enter("", "session")
            gc.collect()
            return len(gc.get_objects())

        first = work(range(4))
        assert work(range(4, 24)) - first < 300

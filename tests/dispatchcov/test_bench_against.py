from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from importlib import resources
from pathlib import Path

import pytest

from dispatchcov import bench_against
from dispatchcov.bench import by_hand, shapes
from dispatchcov.decide import active
from dispatchcov.errors import UsageError
from dispatchcov.flight import ENTRY, STATE
from dispatchcov.loading.load import parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.table import Table


@pytest.fixture(scope="module")
def table() -> Table:
    return parse_table(resources.files("dispatchcov").joinpath("bench.toml").read_text(encoding="utf-8"))


def test_the_chain_by_hand_decides_as_the_table(table: Table) -> None:
    kernels = {kernel.name for kernel in table.kernels}
    for facts in shapes(300):
        assert table.decide(**facts).kernel == by_hand(**facts)
        assert by_hand(**facts) in kernels


def test_every_observer_is_timed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("coverage")
    pytest.importorskip("torch")
    seen = []
    real = bench_against._ns

    def timed(call: bench_against.Call, calls: int) -> float:
        seen.append(active() is not None)
        return real(call, calls)

    monkeypatch.setattr(bench_against, "_ns", timed)
    costs = bench_against.costs(table, shapes(1)[0], by_hand, 200)
    assert list(costs) == ["dispatchcov, off", "dispatchcov, on", "coverage.py", "torch dispatch mode"]
    assert all(isinstance(value, float) for value in costs.values())
    assert seen == [False, False, True, False, False, False, False, False] * bench_against.ROUNDS


@pytest.mark.parametrize("name", ["coverage", "torch"])
def test_what_is_not_installed_is_left_out(table: Table, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, name, None)
    costs = bench_against.costs(table, shapes(1)[0], by_hand, 10)
    missing = {"coverage": "coverage.py", "torch": "torch dispatch mode"}[name]
    assert costs[missing] is None
    assert costs["dispatchcov, on"] is not None


def test_launches_are_timed_with_and_without_the_flight_recorder(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []

    class Noted(Recorder):
        def stop(self) -> None:
            assert self.flight is not None
            numbers.append(self.flight.number)
            super().stop()

    monkeypatch.setattr(bench_against, "Recorder", Noted)
    launch, _ = bench_against.flight(table, shapes(1)[0], 50)
    assert launch > 0
    assert numbers == [STATE + ENTRY * (1 + 50 * bench_against.ROUNDS)]


def test_sixteen_threads_are_counted_exactly(table: Table) -> None:
    counted, together, alone = bench_against.threads(table, shapes(50), 16, 100_000)
    assert counted == 16 * 100_000
    assert together > 0 < alone


def test_memory_is_looked_at_twice(table: Table) -> None:
    first, last = bench_against.memory(table, shapes(100), 200_000)
    assert first > 0
    assert last - first < 10_000_000


def test_the_plot_shows_what_was_timed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    bench_against.plot({"first": 12.0, "second": None, "third": 3456.0}, str(tmp_path / "cost.svg"))
    text = (tmp_path / "cost.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert all(f"<!-- {label} -->" in text for label in ("first", "third", "12 ns", "3,456 ns"))
    assert "<!-- second -->" not in text
    with pytest.raises(UsageError, match="cannot write"):
        bench_against.plot({"first": 1.0}, str(tmp_path / "none" / "cost.svg"))
    with pytest.raises(UsageError, match=r"cannot write .*: Format 'xyz' is not supported"):
        bench_against.plot({"first": 1.0}, str(tmp_path / "cost.xyz"))


def test_without_matplotlib_the_plot_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install dispatchcov\[bench\]"):
        bench_against.plot({}, "cost.svg")

"""The operators of PyTorch that ran, seen by its real profiler, on a CPU too."""

from __future__ import annotations

import pytest

import dispatchcov
from dispatchcov.loading.load import parse_table
from dispatchcov.observers.join import PREFIX, Event, join_operators
from dispatchcov.recorder import LAUNCHED, OBSERVED, SELECTED, Recorder

torch = pytest.importorskip("torch")

TABLE_TEXT = """
[table]
op = "demo::product"
[variables]
batched = { type = "bool" }
[[kernel]]
name = "bmm"
symbol = "aten::bmm"
[[kernel]]
name = "mm"
symbol = "aten::mm"
[[rule]]
name = "batched"
when = "batched"
kernel = "bmm"
[[rule]]
name = "plain"
kernel = "mm"
"""
TABLE = parse_table(TABLE_TEXT)


def test_each_call_shows_the_operators_that_ran_in_it() -> None:
    plain, batch = torch.ones(2, 2), torch.ones(3, 2, 2)
    with Recorder(None), dispatchcov.observe(TABLE, kind="torch-operators") as seen:
        torch.ones(1)
        with seen.call(batched=True):
            batch @ batch
        with seen.call(batched=True):
            plain @ plain
        with seen.call(batched=False):
            plain + plain
    right, wrong, other = seen.calls
    assert (right.ran, right.unmatched) == ("bmm", ())
    assert (wrong.ran, wrong.nearest) == ("mm", "batched would have to be false")
    assert (other.ran, other.unmatched) == ("aten::add", ("aten::add",))
    assert seen.outside == ()


def event(name: str, start: int, duration: int, thread: int = 1) -> Event:
    return Event(name, False, 0, 0, start, duration, thread)


def test_a_profiler_that_is_on_keeps_its_events() -> None:
    observed = dispatchcov.observe(TABLE, facts=lambda a, b: {"batched": False}, kind="torch-operators")
    product = observed(lambda a, b: a @ b)
    with Recorder(None) as recorder:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            product(torch.ones(2, 2), torch.ones(2, 2))
            torch.sigmoid(torch.ones(1))
        assert {"aten::mm", "aten::sigmoid"} <= {event.name for event in profile.events()}
        assert recorder.context.cells == []
        product(torch.ones(2, 2), torch.ones(2, 2))
        assert [cell.ran for cell in recorder.context.cells] == ["mm"]


def test_operators_belong_to_the_innermost_launch_of_their_thread() -> None:
    joined = join_operators(
        [
            event(f"{PREFIX}1", 0, 100),
            event(f"{PREFIX}2", 10, 20),
            event("aten::b", 15, 1),
            event("aten::a", 5, 1),
            event("aten::c", 5, 1, thread=2),
            event("no operator", 6, 1),
            Event("aten::kernel", True, 0, 0, 16, 1, 1),
        ]
    )
    assert {number: [e.name for e in found] for number, found in joined.kernels.items()} == {
        1: ["aten::a"],
        2: ["aten::b"],
    }
    assert [e.name for e in joined.outside] == ["aten::c"]


CONTRARY = TABLE_TEXT.replace('when = "batched"', 'when = "not batched"')


@pytest.mark.parametrize("text", [TABLE_TEXT, CONTRARY])
def test_of_two_contrary_tables_neither_is_observed_where_the_operators_of_both_ran(text: str) -> None:
    plain, batch = torch.ones(2, 2), torch.ones(3, 2, 2)
    with Recorder(None) as recorder:
        with dispatchcov.observe(parse_table(text), kind="torch-operators") as seen:
            for _ in range(2):
                with seen.call(batched=True):
                    batch @ batch
                    plain @ plain
        (cell,) = recorder.context.cells
        assert [recorder.counts[cell.slot + n] for n in (SELECTED, LAUNCHED, OBSERVED)] == [2, 2, 0]
    assert [(call.mismatch, call.proved) for call in seen.calls] == [(False, False)] * 2
    assert seen.notes == [
        "demo::product: the patterns of two kernels match in one call: bmm (aten::bmm) and mm (aten::mm), for "
        "batched=true; which of them was chosen is not seen: not counted as observed"
    ]

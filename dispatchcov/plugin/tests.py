"""What the pytest plugin does for one test: decisions counted under its phases, the marker and the fixture."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dispatchcov.plugin.session import Session

from dispatchcov.decide import Decision
from dispatchcov.errors import UsageError, known
from dispatchcov.files.flight_read import told
from dispatchcov.flight import BEGUN, RAISED, RETURNED
from dispatchcov.plugin import junit
from dispatchcov.plugin.assertions import DispatchTrace
from dispatchcov.recorder import CHECKED, LAUNCHED, OBSERVED, RecordedDecision, Recorder, active
from dispatchcov.records import ASSERTS, VARIES
from dispatchcov.table import known_tables

RECORDER: pytest.StashKey[Recorder] = pytest.StashKey()
DECISIONS: pytest.StashKey[list[Decision]] = pytest.StashKey()
BEFORE_CALL: pytest.StashKey[int] = pytest.StashKey()
TRACE: pytest.StashKey[DispatchTrace] = pytest.StashKey()
TRIED: pytest.StashKey[bool] = pytest.StashKey()
LAUNCHES: pytest.StashKey[list[str]] = pytest.StashKey()
SHOWN = 5
ENDS = {BEGUN: "not ended", RETURNED: "returned", RAISED: "raised"}


@contextlib.contextmanager
def phase(session: Session | None, item: pytest.Item, name: str) -> Iterator[None]:
    """Count under ``item`` and phase ``name``; without a session a recorder in memory lives as long as the test."""
    if session is not None:
        recorder = session.recorder
    else:
        if RECORDER not in item.stash:
            item.stash[RECORDER] = Recorder(None).start()
        recorder = item.stash[RECORDER]
    if name == "setup":
        if session is not None and item.stash.get(TRIED, False):
            recorder.retry(item.nodeid)
        item.stash[TRIED] = True
        if wants_decisions(item):
            item.stash[DECISIONS] = []
    context = recorder.enter(item.nodeid, name)
    context.raw = item.stash.get(DECISIONS, None)
    if name == "call":
        item.stash[BEFORE_CALL] = len(context.raw or ())
    try:
        with session.observed(item.nodeid) if session and name == "call" else contextlib.nullcontext():
            yield
        if name == "call":
            check_markers(item)
            if session is not None and asserts(item):
                session.recorder.outcome(ASSERTS + item.nodeid, "passed")
            if session is not None and varies(item):
                session.recorder.outcome(VARIES + item.nodeid, "passed")
    except Exception:
        item.stash[LAUNCHES] = last_launches(recorder)
        raise
    finally:
        if name == "call" and session is not None:
            junit.add_reached(item, context.cells)
        recorder.enter("", "session")
        if session is None and name == "teardown":
            item.stash[RECORDER].stop()
            del item.stash[RECORDER]


def last_launches(recorder: Recorder) -> list[str]:
    """The last launches of the test in progress, as the flight recorder has them, each as a person reads it."""
    if recorder.flight is None:
        return []
    cells = {cell.id: cell for cell in recorder.context.cells}
    found = [(launch, cells[launch.cell]) for launch in recorder.flight.last() if launch.cell in cells]
    return [
        f"{told(launch, cell.view.table, cell.vector, cell.first)}: {ENDS[launch.state]}"
        for launch, cell in found[-SHOWN:]
    ]


def wants_decisions(item: pytest.Item) -> bool:
    """Does a marker or the fixture ask for the decisions of ``item``?"""
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("dispatch") is not None or "dispatch_trace" in fixtures


def asserts(item: pytest.Item) -> bool:
    """Did ``item``, by a marker or the fixture, assert where its decisions went?"""
    trace = item.stash.get(TRACE, None)
    return item.get_closest_marker("dispatch") is not None or (trace is not None and trace.asserted)


def varies(item: pytest.Item) -> bool:
    """Does ``item`` draw other inputs in each run? Hypothesis says so of its tests, a marker of others."""
    marked = item.get_closest_marker("dispatch_varies") is not None
    return marked or bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def trace_for(item: pytest.Item) -> DispatchTrace:
    """The decisions of ``item`` from its setup on, as they come."""
    if DECISIONS not in item.stash:
        item.stash[DECISIONS] = []
        recorder = active()
        if recorder is None:
            recorder = Recorder(None).start()
            recorder.enter(item.nodeid, "call")
            item.addfinalizer(recorder.stop)
        recorder.list_in(item.stash[DECISIONS])
    decisions: list[Decision] = item.stash[DECISIONS]
    return item.stash.setdefault(TRACE, DispatchTrace(decisions, evidence_of, known_tables))


def check_markers(item: pytest.Item) -> None:
    """Fail ``item`` unless its decisions do what each ``dispatch`` marker asks."""
    __tracebackhide__ = True
    for marker in item.iter_markers("dispatch"):
        decisions = item.stash[DECISIONS][item.stash[BEFORE_CALL] :]
        failure = ""
        try:
            check_marker(DispatchTrace(decisions, evidence_of, known_tables), marker.args, marker.kwargs)
        except (AssertionError, UsageError) as error:
            failure = str(error)
        if failure:
            path, line, _ = item.location
            pytest.fail(f"{failure}\n(marker of {path}:{(line or 0) + 1})", pytrace=False)


def evidence_of(decision: Decision) -> set[str]:
    """The evidence that a recorded decision has so far."""
    if not isinstance(decision, RecordedDecision):
        return set()
    counts = decision.counts
    named = ((LAUNCHED, "launched"), (OBSERVED, "observed"), (CHECKED, "checked"))
    return {"selected"} | {name for index, name in named if counts[index]}


def check_marker(trace: DispatchTrace, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """What ``@pytest.mark.dispatch`` asks of the decisions of a test; raises ``AssertionError`` or
    :class:`UsageError`.
    """
    allowed = ("kernel", "fallback", "evidence")
    for name in kwargs:
        if name not in allowed:
            raise UsageError(f"mark.dispatch: unknown argument {name!r}; {known(name, allowed)}")
    if not args and not kwargs:
        raise UsageError("mark.dispatch: expected a partition name, kernel=... or fallback={...}")
    fallback = kwargs.get("fallback", {})
    if isinstance(fallback, str):
        fallback = {fallback: None}
    for partition in args:
        trace.assert_reached(partition, evidence=kwargs.get("evidence", ()), kernel=kwargs.get("kernel"))
    if not args and "kernel" in kwargs:
        trace.assert_kernel(kwargs["kernel"])
    for rule, because in fallback.items():
        trace.assert_fallback(rule, because=because)

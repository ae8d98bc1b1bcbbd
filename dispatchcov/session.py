"""What the pytest plugin does, without pytest's hooks: one run recorded, merged, measured, judged and reported."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dispatchcov.findings import Finding
    from dispatchcov.observers.torch_profiler import TorchObserver

from dispatchcov import config, store
from dispatchcov.assertions import DispatchTrace
from dispatchcov.config import Settings
from dispatchcov.decide import Decision
from dispatchcov.errors import DispatchcovError, UsageError, known
from dispatchcov.gate import Limits, Verdict, judge
from dispatchcov.recorder import CHECKED, LAUNCHED, OBSERVED, RecordedDecision, Recorder, active
from dispatchcov.records import ASSERTS
from dispatchcov.report import REPORTS, render, write
from dispatchcov.report import text as text_report
from dispatchcov.results import Results
from dispatchcov.stale import brought_in
from dispatchcov.table import Table, known_tables
from dispatchcov.trace import TraceWriter

RECORDER: pytest.StashKey[Recorder] = pytest.StashKey()
DECISIONS: pytest.StashKey[list[Decision]] = pytest.StashKey()
BEFORE_CALL: pytest.StashKey[int] = pytest.StashKey()
TRACE: pytest.StashKey[DispatchTrace] = pytest.StashKey()


def report_type(value: str) -> tuple[str, str]:
    """``TYPE[:DEST]`` of ``--dispatch-report``; raises :class:`UsageError`, also for a test path taken for a type."""
    kind, _, destination = value.partition(":")
    if kind in REPORTS:
        if destination and not REPORTS[kind].destination:
            raise UsageError(f"--dispatch-report={value}: {kind} is printed and takes no destination")
        return kind, destination or REPORTS[kind].destination
    if os.path.exists(value.split("::")[0]):
        raise UsageError(
            f"--dispatch-report took the test path {value!r} for a report type; write the path before the option, "
            f"or --dispatch-report=term-missing {value}"
        )
    raise UsageError(f"--dispatch-report: unknown type {kind!r}; {known(kind, tuple(REPORTS))}")


def session_for(root: os.PathLike[str], given: Mapping[str, Any], *, worker: bool) -> Session | None:
    """The session that options, configuration and environment ask for, started; None if they ask for none.

    Inside ``dispatchcov run`` pytest records for that run and judges nothing itself.
    """
    settings = config.read(root, given)
    asked = config.asks(settings) or any(value is not None for value in given.values())
    if not asked and config.RUN not in os.environ:
        return None
    session = Session(settings, worker=worker or not asked)
    session.start()
    return session


def _absolute(spec: str) -> str:
    return os.path.abspath(spec) if spec.endswith(".toml") else spec


@dataclass
class Session:
    """One pytest process. A worker only records; the controller also merges, measures, judges and reports."""

    settings: Settings
    worker: bool = False
    recorder: Recorder = field(init=False)
    observer: TorchObserver | None = None
    verdict: Verdict | None = None
    report: str = ""
    written: list[str] = field(default_factory=list)
    findings: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    _outcomes: dict[str, str] = field(default_factory=dict)
    _environment: dict[str, str | None] = field(default_factory=dict)

    def start(self) -> None:
        """Check the settings, clear the records of earlier runs, and record from now on."""
        self.reports = [report_type(value) for value in self.settings.report]
        for _, destination in self.reports:
            folder = os.path.dirname(os.path.abspath(destination))
            if destination and not os.path.isdir(folder):
                raise UsageError(f"--dispatch-report: expected a folder to write {destination} into, got none")
        self.evidence = config.evidence(self.settings.evidence, "--dispatch-evidence")
        data = os.path.abspath(self.settings.data)
        self.tables = config.tables(self.settings.table)
        self.check(self.tables)
        if self.worker:
            run = os.environ.get(config.RUN, "")
        else:
            run = uuid.uuid4().hex
            if not self.settings.append:
                store.erase(data)
                if self.settings.trace:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.settings.trace)
        tracer = TraceWriter(os.path.abspath(self.settings.trace)) if self.settings.trace else None
        self.data = data
        self.recorder = Recorder(data, run=run, tracer=tracer, judges=self.tables).start()
        self.recorder.enter("", "collect")
        if not self.worker:
            self._set(config.RUN, run)
            self._set(config.DATA, data)
            if self.settings.table:
                self._set(config.TABLE, ",".join(map(_absolute, self.settings.table)))
        if self.settings.observe:
            from dispatchcov.observers.evidence import observer

            self.observer = observer(self.settings.observe)
            if not self.observer.available:
                self.recorder.remark(f"observing with {self.settings.observe}: no CUDA device, nothing was observed")

    def check(self, tables: Iterable[Table]) -> None:
        """Look for static faults of ``tables``, each once, if that was asked for."""
        if not self.settings.check or self.worker:
            return
        from dispatchcov.check import check

        for table in tables:
            if table.digest not in self.findings:
                self.findings[table.digest] = check(table)

    def header(self) -> list[str]:
        """What is known before any test runs: the faults of the tables."""
        return [line for found in self.findings.values() for finding in found for line in str(finding).splitlines()]

    @contextlib.contextmanager
    def observed(self, test: str) -> Iterator[None]:
        """Profile the body of ``test``, if observing was asked for."""
        if self.observer is None or not self.observer.available:
            yield
            return
        from dispatchcov.observers.evidence import attest

        self.recorder.observer = self.observer
        self.observer.start()
        try:
            yield
        finally:
            self.recorder.observer = None
            for note in attest(self.recorder, self.observer.stop()).notes:
                self.recorder.remark(f"{test}: {note}")

    def _set(self, name: str, value: str) -> None:
        self._environment[name] = os.environ.get(name)
        os.environ[name] = value

    def outcome(self, test: str, phase: str, outcome: str) -> None:
        """Keep how a phase of ``test`` ended; after the last phase the outcome of the test is written."""
        worst = self._outcomes.get(test, "passed")
        self._outcomes[test] = outcome if worst == "passed" or phase == "setup" else worst
        if phase == "teardown":
            self.recorder.outcome(test, self._outcomes.pop(test))

    def finish(self) -> None:
        """Stop recording; in the controller merge, measure, judge and write the reports."""
        self.recorder.stop()
        for name, value in self._environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self.worker:
            return
        try:
            self._judge()
        except DispatchcovError as error:
            self.verdict = Verdict((str(error),), no_data=True)
            self.report = "\n".join(text_report.verdict_lines(self.verdict))

    def _judge(self) -> None:
        lost = [error for error in (self.recorder.lost, self.recorder.trace_lost) if error]
        data = brought_in(self.settings.stored, self.tables, store.combine(self.data, remove=True))
        results = Results.of(data, self.tables, evidence=self.evidence)
        limits = Limits(self.settings.fail_under, self.settings.require)
        try:
            verdict = judge(results, limits)
        except UsageError as error:
            verdict = Verdict((str(error),))
        self.check(results.judged)
        faults = [f for found in self.findings.values() for f in found if f.severity == "error"]
        failures = (*lost, *(f"{f.where}: {f.kind}: {f.message}" for f in faults), *verdict.failures)
        verdict = replace(verdict, failures=failures)
        self.verdict = verdict
        printed: list[str] = []
        for kind, destination in self.reports:
            text = render(kind, results, verdict)
            if destination:
                self.written.append(write(kind, destination, text))
            else:
                printed.append(text)
        if not any(kind.startswith("term") for kind, _ in self.reports):
            printed.insert(0, "\n".join([*text_report.totals_lines(results), *text_report.verdict_lines(verdict)]))
        self.report = "\n".join(printed)

    def lines(self) -> list[str]:
        """What the terminal's summary shows."""
        return [*self.report.splitlines(), *(f"written: {path}" for path in self.written)]

    @property
    def failed(self) -> bool:
        """Did the gate fail?"""
        return self.verdict is not None and not self.verdict.ok


@contextlib.contextmanager
def phase(session: Session | None, item: pytest.Item, name: str) -> Iterator[None]:
    """Count under ``item`` and phase ``name``; without a session a recorder in memory lives as long as the test."""
    if session is not None:
        recorder = session.recorder
    else:
        if RECORDER not in item.stash:
            item.stash[RECORDER] = Recorder(None).start()
        recorder = item.stash[RECORDER]
    if name == "setup" and wants_decisions(item):
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
    finally:
        recorder.enter("", "session")
        if session is None and name == "teardown":
            item.stash[RECORDER].stop()
            del item.stash[RECORDER]


def wants_decisions(item: pytest.Item) -> bool:
    """Does a marker or the fixture ask for the decisions of ``item``?"""
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("dispatch") is not None or "dispatch_trace" in fixtures


def asserts(item: pytest.Item) -> bool:
    """Did ``item``, by a marker or the fixture, assert where its decisions went?"""
    trace = item.stash.get(TRACE, None)
    return item.get_closest_marker("dispatch") is not None or (trace is not None and trace.asserted)


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


def only_last_failed(session: Session, config: pytest.Config) -> None:
    """``--lf`` leaves files out without deselecting their tests; it is asked before tests of this run pass."""
    plugin = config.pluginmanager.get_plugin("lfplugin")
    if plugin is not None and plugin.active and plugin.lastfailed:
        session.recorder.partial("only tests that failed last time")


def partial_reasons(session: Session, run: pytest.Session) -> None:
    """Tell the recorder why absence proves nothing in this run, where it does not."""
    option = run.config.option
    reasons = {
        "only tests were collected": option.collectonly,
        "single tests were named": any("::" in argument for argument in run.config.args),
        "stopped before the end": run.shouldstop or run.shouldfail,
        "interrupted": run.exitstatus == pytest.ExitCode.INTERRUPTED,
        "internal error": run.exitstatus == pytest.ExitCode.INTERNAL_ERROR,
    }
    for reason, applies in reasons.items():
        if applies:
            session.recorder.partial(reason)


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

"""What the pytest plugin does, without pytest's hooks: one run recorded, merged, measured, judged and reported."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dispatchcov.check.findings import Finding
    from dispatchcov.observers.torch_profiler import TorchObserver

from dispatchcov import config, store
from dispatchcov.config import Settings
from dispatchcov.errors import DispatchcovError, UsageError, known
from dispatchcov.gate import Limits, Verdict, judge
from dispatchcov.plugin import junit
from dispatchcov.plugin.baseline import Keeper
from dispatchcov.plugin.destinations import look
from dispatchcov.recorder import Recorder
from dispatchcov.records import UNENDED
from dispatchcov.report import REPORTS, ready, render, write
from dispatchcov.report import text as text_report
from dispatchcov.results import Results
from dispatchcov.stale import brought_in
from dispatchcov.table import Table
from dispatchcov.trace import TraceWriter
from dispatchcov.weights import weighed


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


def session_for(
    root: os.PathLike[str], given: Mapping[str, Any], *, worker: bool, folder: os.PathLike[str] | None = None
) -> Session | None:
    """The session that options, configuration and environment ask for, started; None if they ask for none.

    The configuration is that of ``folder``, if it is not that of ``root``, to which tests are named relative.

    Where another run records, ``dispatchcov run`` or a test that started this pytest, it records for that run and
    judges nothing itself; started by a test, what it leaves out does not make that run partial. One that is asked for a
    report judges by itself: inside a test as a run apart, in a data file of its own, else together with what is there.
    """
    other, in_test = bool(os.environ.get(config.RUN)) and not worker, "PYTEST_CURRENT_TEST" in os.environ
    apart = (config.RUN, config.DATA, config.TABLE) if other and in_test else ()
    environment = {name: value for name, value in os.environ.items() if name not in apart}
    folder = folder or root
    settings = config.read(folder, given, environment, "--dispatch-")
    asked = config.asks(settings) or any(value is not None for value in given.values())
    if not asked and not os.environ.get(config.RUN):
        return None
    if not asked:
        settings = config.read(folder, given)
    elif apart and os.path.abspath(settings.data) == os.environ.get(config.DATA):
        raise UsageError(
            f"pytest inside a test of a recorded run: expected a --dispatch-data of its own, got {settings.data}, "
            "which is that run's"
        )
    elif other:
        settings = replace(settings, append=True)
    session = Session(settings, worker=worker or not asked, inside=not asked and in_test, root=root)
    session.start()
    if not worker:
        session.partial(UNENDED)
    return session


def _keep(table: Table) -> Callable[..., list[Any]]:
    from dispatchcov.interest import Interest  # a test with several inputs for one path comes first

    return Interest.of(table).more


@dataclass
class Session:
    """One pytest process. A worker only records; the controller also merges, measures, judges and reports.

    ``inside``: a test of the run started this pytest. ``root``: what the node ids of tests start from.
    """

    settings: Settings
    worker: bool = False
    inside: bool = False
    root: str | os.PathLike[str] = "."
    recorder: Recorder = field(init=False)
    observer: TorchObserver | None = None
    results: Results | None = None
    verdict: Verdict | None = None
    report: str = ""
    written: list[str] = field(default_factory=list)
    findings: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    _outcomes: dict[str, str] = field(default_factory=dict)
    _environment: dict[str, str | None] = field(default_factory=dict)

    def start(self) -> None:
        """Check the settings, clear the records of earlier runs, and record from now on."""
        self.reports = [report_type(value) for value in self.settings.report]
        for kind, _ in self.reports:
            ready(kind)
        if not self.worker:
            look(self.settings, self.reports)
        self.evidence = config.evidence(self.settings.evidence, "--dispatch-evidence")
        self.baseline = None if self.worker else Keeper.of(self.settings, self.root)
        data = os.path.abspath(self.settings.data)
        self.tables = config.tables(self.settings.table)
        self.check(self.tables)
        crashed: list[str] = []
        if self.worker:
            run = os.environ.get(config.RUN, "")
        else:
            run = uuid.uuid4().hex
            if self.settings.append and os.path.lexists(data):
                store.load(data, shards=False)  # an error before the tests, not after them
            if not self.settings.append:
                crashed = store.crashes(data)
                store.erase(data)
                if self.settings.trace:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.settings.trace)
        if self.settings.observe:
            from dispatchcov.observers.evidence import observer

            self.observer = observer(self.settings.observe)
        tracer = TraceWriter(os.path.abspath(self.settings.trace)) if self.settings.trace else None
        self.data = data
        self.recorder = Recorder(data, run=run, tracer=tracer, judges=self.tables, keep=_keep).start()
        self.recorder.enter("", "collect")
        if not self.worker:
            self._set(config.RUN, run)
            self._set(config.DATA, data)
            if self.settings.table:
                self._set(config.TABLE, config.tables_for_others(self.settings.table))
        for note in crashed:
            self.recorder.remark(f"the run before this one: {note}")
        if self.observer is not None and not self.observer.available:
            self.recorder.remark(f"observing with {self.settings.observe}: no CUDA device, nothing was observed")

    def check(self, tables: Iterable[Table]) -> None:
        """Look for static faults of ``tables``, each once, if that was asked for."""
        if not self.settings.check or self.worker:
            return
        from dispatchcov.check.faults import check

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

    def partial(self, reason: str) -> None:
        """Absence proves nothing in this run, unless another run's test started it."""
        if not self.inside:
            self.recorder.partial(reason)

    def _set(self, name: str, value: str) -> None:
        self._environment[name] = os.environ.get(name)
        os.environ[name] = value

    def outcome(self, test: str, phase: str, outcome: str) -> None:
        """Keep how a phase of ``test`` ended; after the last phase the outcome of the test is written."""
        worst = self._outcomes.get(test, "passed")
        self._outcomes[test] = outcome if worst == "passed" or phase == "setup" else worst
        if phase == "teardown":
            self.recorder.outcome(test, self._outcomes.pop(test))

    def tell_launches(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Add the last launches of a test to the report of its failure."""
        from dispatchcov.plugin.tests import LAUNCHES

        if launches := item.stash.get(LAUNCHES, []):
            report.sections.append(("dispatch: last launches", "\n".join(launches)))

    def finish(self) -> None:
        """Stop recording; in the controller merge, measure, judge and write the reports."""
        self.close()
        if self.worker:
            return
        try:
            self._judge()
        except DispatchcovError as error:
            self.verdict = Verdict((str(error),), no_data=True)
            self.report = "\n".join(text_report.verdict_lines(self.verdict))

    def add_to_junit(self, run: pytest.Config) -> None:
        """Put the totals into the file of ``--junitxml``, if there is one."""
        try:
            junit.add_totals(run, self.results, self.verdict)
        except UsageError as error:
            self.verdict = Verdict((*(self.verdict.failures if self.verdict else ()), str(error)))
            self.report += "\n" + "\n".join(text_report.verdict_lines(Verdict((str(error),))))

    def close(self) -> None:
        """Stop recording and put the environment back, once."""
        self.recorder.stop()
        while self._environment:
            name, value = self._environment.popitem()
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _judge(self) -> None:
        lost = [error for error in (self.recorder.lost, self.recorder.trace_lost) if error]
        own = store.combine(self.data, remove=True)
        data = brought_in(self.settings.stored, self.tables, own)
        results = Results.of(data, self.tables, evidence=self.evidence)
        if self.baseline:
            results = replace(results, drift=self.baseline.drift(own, results.judged))
        try:
            results = weighed(results, self.settings.weights)
        except DispatchcovError as error:  # the rest of the report is none the worse
            lost.append(str(error))
        limits = Limits(self.settings.fail_under, self.settings.require, self.settings.fail_on_drift)
        try:
            verdict = judge(results, limits)
        except UsageError as error:
            verdict = Verdict((str(error),))
        self.check(results.judged)
        faults = [f for found in self.findings.values() for f in found if f.severity == "error"]
        failures = (*lost, *(f"{f.where}: {f.kind}: {f.message}" for f in faults), *verdict.failures)
        verdict = replace(verdict, failures=failures)
        for kind, destination in self.reports:
            if destination:
                try:
                    self.written.append(write(kind, destination, render(kind, results, verdict)))
                except UsageError as error:
                    verdict = replace(verdict, failures=(*verdict.failures, str(error)))
        coverage_plugin = sys.modules.get("dispatchcov.coverage_plugin")  # there if coverage.py has loaded it
        if coverage_plugin is not None and (path := coverage_plugin.add(results)):
            self.written.append(path)
        self.results = results
        self.verdict = verdict
        printed = [render(kind, results, verdict) for kind, destination in self.reports if not destination]
        if not any(kind.startswith("term") for kind, _ in self.reports):
            summary = [*text_report.drift_lines(results), *text_report.totals_lines(results)]
            printed.insert(0, "\n".join([*summary, *text_report.verdict_lines(verdict)]))
        self.report = "\n".join(printed)

    def lines(self) -> list[str]:
        """What the terminal's summary shows."""
        return [*self.report.splitlines(), *(f"written: {path}" for path in self.written)]

    @property
    def failed(self) -> bool:
        """Did the gate fail?"""
        return self.verdict is not None and not self.verdict.ok


def only_last_failed(session: Session, config: pytest.Config) -> None:
    """``--lf`` leaves files out without deselecting their tests; pytest has a plugin for that while it does so."""
    if config.pluginmanager.has_plugin("lfplugin-collskip"):
        session.partial("only tests that failed last time")


def partial_reasons(session: Session, run: pytest.Session) -> None:
    """Tell the recorder why absence proves nothing in this run, where it does not."""
    option = run.config.option
    reasons = {
        "only tests were collected": option.collectonly,
        "only fixtures were set up": option.setuponly or option.setupplan,
        "single tests were named": any("::" in argument for argument in run.config.args),
        "stopped before the end": run.shouldstop or run.shouldfail,
        "interrupted": run.exitstatus == pytest.ExitCode.INTERRUPTED,
        "internal error": run.exitstatus == pytest.ExitCode.INTERNAL_ERROR,
    }
    for reason, applies in reasons.items():
        if applies:
            session.partial(reason)

"""The pytest plugin: options and hooks only. Nothing else of dispatchcov is imported until an option, marker
or fixture asks.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dispatchcov.plugin.assertions import DispatchTrace
    from dispatchcov.plugin.session import Session

OPTIONS = (
    "report", "table", "require", "fail_under", "evidence", "data", "append", "trace", "observe", "stored", "weights",
    "baseline", "update_baseline", "fail_on_drift",
)  # fmt: skip
ONLY_TELLS = ("help", "version", "markers", "showfixtures", "show_fixtures_per_test", "cacheshow")
"""Options of pytest with which it tells something and runs nothing: the records stay as they are."""

SESSION: pytest.StashKey[Session] = pytest.StashKey()
UNDO: pytest.StashKey[Any] = pytest.StashKey()
OUR_TABLE = re.compile(r"""tool["']?\s*\.\s*["']?dispatchcov|^\s*["']?dispatchcov["']?\s*[.=]""", re.M)
"""``[tool.dispatchcov]`` however TOML lets one write it, and little else."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dispatchcov", "dispatch coverage: which kernel did the tests really run?")
    add = group.addoption
    add(
        "--dispatch-report",
        action="append",
        nargs="?",
        const="term-missing",
        metavar="TYPE[:DEST]",
        help="report dispatch coverage and gate on it: term, term-missing (the bare option), json[:FILE], html[:DIR], "
        "lcov[:FILE], xml[:FILE] (Cobertura), markdown[:FILE], github; repeatable",
    )
    add(
        "--dispatch-table",
        action="append",
        metavar="FILE.toml|MODULE:ATTR",
        help="table to judge, besides those that decide in the run; repeatable",
    )
    add(
        "--dispatch-require",
        action="append",
        metavar="NAME",
        help="partition or rule that must be hit, besides those of the table; also in partial runs; also as "
        "'NAME observed, checked on sm_90'; repeatable",
    )
    add(
        "--dispatch-fail-under",
        dest="dispatch_fail_under",
        metavar="PCT",
        help="least percentage of required partition bins",
    )
    add(
        "--dispatch-evidence",
        action="append",
        metavar="LIST",
        help="evidence that a hit needs to count: selected, launched, observed, checked (comma-separated)",
    )
    add(
        "--dispatch-data",
        metavar="FILE",
        help="where the records are kept (default: .dispatchcov, or DISPATCHCOV_DATA)",
    )
    add("--dispatch-append", action="store_true", default=None, help="keep the records of earlier runs")
    add(
        "--dispatch-stored",
        action="append",
        metavar="FILE",
        help="data file of an earlier run or another machine to bring in; what is stale in it counts for nothing",
    )
    add("--dispatch-weights", metavar="FILE", help="data file of a real workload to weigh the coverage by")
    add(
        "--dispatch-observe",
        metavar="KIND",
        help="run each test under PyTorch's profiler, for evidence observed: torch (the kernels, on a GPU), "
        "torch-operators (PyTorch's operators, on any device)",
    )
    add("--dispatch-trace", metavar="FILE.jsonl", help="write the raw trace, one decision a line")
    add("--dispatch-baseline", metavar="FILE", help="report the tests that reach other regions or kernels than in FILE")
    add(
        "--dispatch-update-baseline",
        action="store_true",
        default=None,
        help="write to the baseline what the passed tests reach; tests that did not run stay in it",
    )
    add("--dispatch-fail-on-drift", action="store_true", default=None, help="fail if a test moved from the baseline")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Comparison functions are wrapped before any conftest can take a reference to them."""
    options = early_config.known_args_namespace
    if any(getattr(options, f"dispatch_{name}", None) is not None for name in OPTIONS):
        from dispatchcov.plugin import checks

        early_config.stash[UNDO] = checks.install()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "dispatch(partition, ..., kernel=PATTERN, fallback={RULE: PREDICATE}, evidence=...): "
        "the test fails unless its decisions reach the partition",
    )
    config.addinivalue_line("markers", "dispatch_varies: the test draws other inputs in each run; drift allows for it")
    given = {name: config.getoption(f"dispatch_{name}", None) for name in OPTIONS}
    if any(config.getoption(name, False) for name in ONLY_TELLS):
        return
    if all(value is None for value in given.values()) and not _mentioned(config):
        return
    from dispatchcov.errors import DispatchcovError
    from dispatchcov.plugin import checks
    from dispatchcov.plugin import session as work

    try:
        folder, worker = _configured(config), hasattr(config, "workerinput")
        session = work.session_for(config.rootpath, given, worker=worker, folder=folder)
    except DispatchcovError as error:
        raise pytest.UsageError(str(error)) from None
    if session is None:
        return
    if UNDO not in config.stash:
        config.stash[UNDO] = checks.install()
    config.stash[SESSION] = session


def _mentioned(config: pytest.Config) -> bool:
    """Do pyproject.toml or the environment speak of us? Most projects' do not, and are spared the imports."""
    return _configured(config) is not None or any(name.startswith("DISPATCHCOV_") for name in os.environ)


def _configured(config: pytest.Config) -> Path | None:
    """The folder whose pyproject.toml has our table: pytest's root, or one below it where pytest was started."""
    here, root = config.invocation_params.dir, config.rootpath
    for folder in (here, *here.parents) if root in (here, *here.parents) else (root,):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if OUR_TABLE.search((folder / "pyproject.toml").read_text(encoding="utf-8")):
                return folder
        if folder == root:
            break
    return None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Faults of the tables, before any test runs."""
    session = config.stash.get(SESSION, None)
    return session.header() if session is not None else []


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is not None:
        session.close()  # a run that ended before it began: wrong usage of another plugin, say
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if session.failed and terminal is not None:  # after "2 passed", in green: why the exit status is not 0
            terminal.line("dispatch gate: FAILED, see dispatch coverage above", red=True, bold=True)
    undo = config.stash.get(UNDO, None)
    if undo is not None:
        undo()
        del config.stash[UNDO]


# --- the run ----------------------------------------------------------------------------------------------------------


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        session = items[0].config.stash.get(SESSION, None)
        if session is not None:
            session.partial("tests were deselected")


def pytest_collection_finish(session: pytest.Session) -> None:
    ours = session.config.stash.get(SESSION, None)
    if ours is not None:
        from dispatchcov.plugin import session as work

        work.only_last_failed(ours, session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, sched: Any) -> None:
    """Of pytest-xdist: the worker that ran ``crashitem`` is gone."""
    session = sched.config.stash.get(SESSION, None)
    if session is not None:
        session.recorder.remark(f"a worker of pytest-xdist crashed in {crashitem}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    yield from _phase(item, "setup")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    yield from _phase(item, "call")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    yield from _phase(item, "teardown")


def _phase(item: pytest.Item, phase: str) -> Generator[None]:
    session = item.config.stash.get(SESSION, None)
    marked = item.get_closest_marker("dispatch") is not None or "dispatch_trace" in getattr(item, "fixturenames", ())
    if session is None and not marked:
        return (yield)
    from dispatchcov.plugin import tests as work

    with work.phase(session, item, phase):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    session = item.config.stash.get(SESSION, None)
    if session is not None:
        outcome = ("xfailed" if report.skipped else "xpassed") if hasattr(report, "wasxfail") else report.outcome
        session.outcome(item.nodeid, report.when or call.when, outcome)
        if report.failed and report.when == "call":
            session.tell_launches(item, report)
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """After the workers have ended and before the terminal's summary: the gate sets the exit status here, for
    every runner.
    """
    result = yield
    ours = session.config.stash.get(SESSION, None)
    if ours is not None:
        from dispatchcov.plugin import session as work

        work.partial_reasons(ours, session)
        ours.finish()
        ours.add_to_junit(session.config)
        if ours.failed and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is None or session.worker:
        return
    terminalreporter.section("dispatch coverage")
    for line in session.lines():
        failed = line.startswith("dispatch gate: FAILED")
        terminalreporter.line(line, red=failed, bold=failed)


@pytest.fixture
def dispatch_trace(request: pytest.FixtureRequest) -> DispatchTrace:
    """The decisions of this test: ``decisions``, ``assert_reached``, ``assert_kernel``, ``assert_fallback``,
    ``assert_not_reached``.
    """
    from dispatchcov.plugin import tests as work

    return work.trace_for(request.node)

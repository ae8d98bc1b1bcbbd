"""What test suites really do: plugins, processes, threads and loops around the operator."""

from __future__ import annotations

import importlib.util
import os
import re

import pytest

from dispatchcov import store
from tests.dispatchcov.plugin_project import project, reached_by, report, run, run_apart, table

__all__ = ["project"]

JSON = "--dispatch-report=json:out.json"


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"needs {name}")


CRASHES = """
import os, pytest
from operator_under_test import scale
@pytest.mark.parametrize("n", range(0, 40, 4))
def test_wide(n): assert scale(n) == 2 * n
def test_crash():
    scale(3)
    import operator_under_test as o
    with o.TABLE.decide(N=5, aligned=False, dtype="float32").launch():
        os._exit(3)
@pytest.mark.parametrize("n", range(40, 80, 4))
def test_after(n): assert scale(n) == 2 * n
"""


@needs("xdist")
def test_a_worker_that_crashes_keeps_its_finished_tests_and_is_named(project: pytest.Pytester) -> None:
    result = run_apart(project, "-n2", JSON, "--dispatch-report=term", test_x=CRASHES)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*worker 'gw*' crashed while running 'test_x.py::test_crash'"])
    wanted = "in test_x.py::test_crash (call): demo::scale: * (N=5 aligned=false dtype=float32)"
    result.stdout.fnmatch_lines([f"note: in flight when process * ended without a word {wanted}"])
    result.stdout.fnmatch_lines(["note: a worker of pytest-xdist crashed in test_x.py::test_crash"])
    names = [f"test_x.py::test_wide[[]{n}]" for n in range(0, 40, 4)]
    names += [f"test_x.py::test_after[[]{n}]" for n in range(40, 80, 4)]
    assert set(reached_by(project, "vec4")) == {name.replace("[[]", "[") for name in names}
    assert reached_by(project, "scalar") == []


RERUN = """
import pytest
from operator_under_test import scale
tries = []
@pytest.mark.flaky(reruns=3)
def test_flaky():
    tries.append(1)
    scale(4 if len(tries) < 3 else 3)
    assert len(tries) == 3
"""


@needs("pytest_rerunfailures")
def test_only_the_last_of_several_tries_counts(project: pytest.Pytester) -> None:
    result = run_apart(project, JSON, test_x=RERUN)
    result.assert_outcomes(passed=1)
    assert reached_by(project, "scalar") == ["test_x.py::test_flaky"]
    (vec4,) = (entry for entry in table(project)["rules"] if entry["name"] == "vec4")
    assert (vec4["hits"], vec4["apart"]) == (0, {"earlier try": 2})


CLASSES = """
import unittest, pytest
from operator_under_test import scale
class TestGroup:
    @pytest.mark.parametrize("n", [4, 8], ids=["a b", "ü::[x]"])
    def test_each(self, n): assert scale(n) == 2 * n
    class TestInner:
        def test_inner(self): assert scale(12) == 24
class TestCase(unittest.TestCase):
    def test_sub(self):
        for n in (16, 3):
            with self.subTest(n=n):
                self.assertEqual(scale(n), 2 * n)
def test_subtests(subtests):
    for n in (20, 5):
        with subtests.test(n=n):
            assert scale(n) == 2 * n
"""


def test_classes_parameters_and_subtests(project: pytest.Pytester) -> None:
    result = run_apart(project, JSON, test_x=CLASSES)
    result.assert_outcomes(passed=5)
    assert set(reached_by(project, "vec4")) == {
        "test_x.py::TestGroup::test_each[a b]",
        "test_x.py::TestGroup::test_each[\\xfc::[x]]",
        "test_x.py::TestGroup::TestInner::test_inner",
        "test_x.py::TestCase::test_sub",
        "test_x.py::test_subtests",
    }
    assert set(reached_by(project, "scalar")) == {"test_x.py::TestCase::test_sub", "test_x.py::test_subtests"}


FIXTURES = """
import pytest
from operator_under_test import scale
@pytest.fixture(scope="session", autouse=True)
def warmed():
    scale(4)
    yield
    scale(8)
@pytest.fixture(scope="module")
def once(): return scale(12)
def test_uses(once): assert once == 24
def test_own(): assert scale(3) == 6
"""


def test_what_fixtures_dispatch_is_kept_apart(project: pytest.Pytester) -> None:
    result = run_apart(project, JSON, test_x=FIXTURES)
    assert result.ret == 1  # no test of its own reaches vec4
    (vec4,) = (entry for entry in table(project)["rules"] if entry["name"] == "vec4")
    assert (vec4["state"], vec4["hits"]) == ("missed", 0)
    assert vec4["apart"] == {"setup": 2, "teardown": 1}


def test_pytest_twice_in_one_process(project: pytest.Pytester) -> None:
    for _ in range(2):
        result = run(project, JSON, test_x="from operator_under_test import scale\ndef test_a(): assert scale(4) == 8")
        assert result.ret == 1
        assert table(project)["decisions"] == 1
    project.makepyfile(
        twice="""
        import os, sys, json, pytest
        args = ["-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--dispatch-report=json:out.json"]
        first = pytest.main([*args, "test_x.py"])
        one = json.load(open("out.json"))["tables"]["demo::scale"]["decisions"]
        second = pytest.main([*args, "--dispatch-append", "test_x.py"])
        two = json.load(open("out.json"))["tables"]["demo::scale"]["decisions"]
        third = pytest.main(args[:-1] + ["test_x.py"])
        left = [name for name in os.environ if name.startswith("DISPATCHCOV")]
        print("RESULT", int(first), one, int(second), two, int(third), left)
        """
    )
    done = project.runpython(project.path / "twice.py")
    assert "RESULT 1 1 1 2 0 []" in done.stdout.str()


SUBPROCESSES = """
import multiprocessing, os, subprocess, sys, pytest
from operator_under_test import scale
def work(n):
    scale(n)
    if n == 8: os._exit(0)
def command(n): return [sys.executable, "-c", f"from operator_under_test import scale; scale({n})"]
@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_process(how):
    child = multiprocessing.get_context(how).Process(target=work, args=(4,))
    child.start(); child.join(); assert child.exitcode == 0
def test_pool():
    with multiprocessing.get_context("fork").Pool(2) as pool: pool.map(work, [4, 12, 16])
def test_exit_at_once():
    child = multiprocessing.get_context("fork").Process(target=work, args=(8,))
    child.start(); child.join(); assert child.exitcode == 0
def test_subprocess(): subprocess.run(command(20), check=True)
def test_own_environment():
    env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "DISPATCHCOV_RUN", "DISPATCHCOV_DATA")}
    subprocess.run(command(24), check=True, env=env)
def test_thread_that_outlives_nothing(): assert scale(3) == 6
"""


def test_processes_that_tests_start(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project.path), os.environ.get("PYTHONPATH", "")]))
    result = run_apart(project, JSON, "--dispatch-report=term", test_x=SUBPROCESSES)
    result.assert_outcomes(passed=8)
    named = {test.partition("::")[2] for test in reached_by(project, "vec4")}
    methods = {f"test_process[{how}]" for how in ("fork", "spawn", "forkserver")}
    # without PYTEST_CURRENT_TEST in its environment a process cannot know its test: a run, not a test, is counted
    assert named == methods | {"test_pool", "test_exit_at_once", "test_subprocess"}
    (vec4,) = (entry for entry in table(project)["rules"] if entry["name"] == "vec4")
    assert vec4["hits"] == 3 + 3 + 1 + 1 + 1
    assert "in flight" not in result.stdout.str()


CONCURRENT = """
import asyncio, threading, pytest
from operator_under_test import scale
def test_threads():
    threads = [threading.Thread(target=lambda: [scale(4) for _ in range(500)]) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
def test_asyncio():
    async def one(n):
        await asyncio.sleep(0)
        return scale(n)
    async def all(): return await asyncio.gather(*(one(n) for n in range(0, 400, 4)), asyncio.to_thread(scale, 8))
    assert len(asyncio.run(all())) == 101
def test_plain(): assert scale(3) == 6
"""


def test_threads_and_asyncio(project: pytest.Pytester) -> None:
    result = run_apart(project, JSON, test_x=CONCURRENT)
    result.assert_outcomes(passed=3)
    (vec4,) = (entry for entry in table(project)["rules"] if entry["name"] == "vec4")
    assert vec4["hits"] == 8 * 500 + 101
    assert set(vec4["tests"]) == {"test_x.py::test_threads", "test_x.py::test_asyncio"}


IMPORTS = """
from operator_under_test import scale
EARLY = scale(4)
def test_late(): assert EARLY == 8 and scale(3) == 6
"""


def test_an_operator_called_while_tests_are_collected(project: pytest.Pytester) -> None:
    result = run_apart(project, JSON, test_x=IMPORTS)
    assert result.ret == 1
    (vec4,) = (entry for entry in table(project)["rules"] if entry["name"] == "vec4")
    assert (vec4["state"], vec4["apart"]) == ("missed", {"collect": 1})


def test_a_conftest_that_dispatches_and_no_cache(project: pytest.Pytester) -> None:
    project.makeconftest("from operator_under_test import scale\nscale(4)\n")
    result = run_apart(
        project, JSON, test_x="from operator_under_test import scale\ndef test_a(): assert scale(3) == 6"
    )
    assert result.ret == 1
    (vec4,) = (entry for entry in table(project)["rules"] if entry["name"] == "vec4")
    assert vec4["hits"] == 0
    assert report(project)["meta"]["partial"] is False
    assert not (project.path / ".pytest_cache").exists()


DIES = """
import os, signal
import operator_under_test as o
def test_wide(): assert o.scale(4) == 8
def test_dies():
    with o.TABLE.decide(N=5, aligned=True, dtype="float32").launch():
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("append", [True, False])
def test_the_next_run_says_what_the_one_before_died_of(project: pytest.Pytester, append: bool) -> None:
    arguments = ["--dispatch-report=term", *(["--dispatch-append"] if append else [])]
    first = run_apart(project, *arguments, test_x=DIES)
    assert first.ret == -9
    assert store.load(project.path / ".dispatchcov").rows
    again = run_apart(project, *arguments, "-k", "wide", test_x=DIES)
    text = "in test_x.py::test_dies (call): demo::scale: scalar -> Scale (N=5 aligned=true dtype=float32)"
    again.stdout.fnmatch_lines([f"note: *in flight when process * ended without a word {text}"])
    last = run_apart(project, "--dispatch-report=term", "-k", "wide", test_x=DIES)
    assert "in flight" not in last.stdout.str()


FAILS = """
import operator_under_test as o
def test_wrong():
    o.scale(3)
    for n in (4, 8):
        assert o.scale(n) == 8
def test_raises():
    with o.TABLE.decide(N=5, aligned=False, dtype="float32").launch():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
def test_no_dispatch(): assert False
"""


def test_a_failure_shows_the_last_launches_of_its_test(project: pytest.Pytester) -> None:
    result = run_apart(project, "--dispatch-report=term", test_x=FAILS)
    _, wrong, raises, none = re.split(r"\n_{5,} \w+ _{5,}\n", result.stdout.str().split("= dispatch coverage =")[0])
    assert "- dispatch: last launches -" in wrong
    assert "scalar -> Scale (N=3 aligned=true dtype=float16): returned" in wrong
    assert "vec4 -> ScaleVec4 (N=8 aligned=true dtype=float16): returned" in wrong
    assert "scalar -> Scale (N=5 aligned=false dtype=float32): raised" in raises
    assert "N=8" not in raises
    assert "last launches" not in none

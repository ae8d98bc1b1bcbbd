"""Tables in the reports of a real coverage.py, each run in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dispatchcov
from tests.dispatchcov.build import SMALL
from tests.dispatchcov.test_places import OWN, line_of
from tests.dispatchcov.test_table_lines import CROSSED, RAGGED, SCALAR, SPLIT, VEC4, WHEN

SETTINGS = """
[tool.coverage.run]
plugins = ["dispatchcov.coverage_plugin"]
source = ["."]
"""
TESTS = """
import pytest
import dispatchcov
TABLE = dispatchcov.load_table("small.toml")

@pytest.mark.parametrize("n", [4, 8])
def test_wide(n):
    TABLE.decide(N=n, aligned=True, dtype="float16")
"""
RUN = ("run", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dispatch-report=term")


class Project:
    """A folder with a table and its tests, in which commands run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.put("small.toml", SMALL)
        self.put("test_small.py", TESTS)
        self.put("pyproject.toml", SETTINGS)

    def put(self, name: str, text: str) -> None:
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_text(text)

    def run(self, *command: str, status: int = 0) -> str:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE_", "DISPATCHCOV_", "PYTEST_"))}
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.path,
            env={**clean, "PYTHONPATH": str(Path(dispatchcov.__file__).parent.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def coverage(self, *arguments: str, status: int = 0) -> str:
        return self.run("coverage", *arguments, status=status)

    def files(self) -> dict[str, Any]:
        """What coverage.py's JSON report says of each file, with contexts."""
        self.coverage("json", "-q", "--show-contexts", "-o", "out.json")
        found: dict[str, Any] = json.loads((self.path / "out.json").read_text())["files"]
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_table_is_a_file_with_tests_as_contexts(project: Project) -> None:
    project.coverage(*RUN, status=1)  # the gate fails: partitions are missed
    table = project.files()["small.toml"]
    assert table["executed_lines"] == [8, VEC4, WHEN, SPLIT]
    assert table["missing_lines"] == [11, SCALAR, CROSSED, RAGGED]
    tests = ["test_small.py::test_wide[4]", "test_small.py::test_wide[8]"]
    assert sorted(table["contexts"][str(WHEN)]) == tests
    assert "small.toml" in project.coverage("report", "-m")
    assert "test_small.py" in project.files()  # and Python's files are as ever


def test_guards_are_branches(project: Project) -> None:
    project.put("pyproject.toml", SETTINGS + "branch = true\n")
    project.coverage(*RUN, status=1)
    table = project.files()["small.toml"]
    assert table["executed_branches"] == [[WHEN, VEC4]]
    assert table["missing_branches"] == [[WHEN, SCALAR]]
    project.coverage("html", "-q", "--show-contexts", "-d", "html")
    page = (project.path / "html" / "small_toml.html").read_text()
    assert "rule vec4 was never passed over" in page
    assert "test_wide[4]" in page
    project.coverage("xml", "-q", "-o", "out.xml")
    assert (
        f'<line number="{WHEN}" hits="1" branch="true" condition-coverage="50% (1/2)"'
        in (project.path / "out.xml").read_text()
    )
    project.coverage("lcov", "-q", "-o", "out.lcov")
    assert "SF:small.toml" in (project.path / "out.lcov").read_text()


@pytest.mark.parametrize("branch", ["", "branch = true\n"], ids=["lines", "branches"])
def test_where_coverage_has_stopped_a_file_waits_to_be_combined(project: Project, branch: str) -> None:
    """As pytest-cov does: it starts coverage.py itself, and stops it before the run ends."""
    project.put("pyproject.toml", SETTINGS + branch)
    project.put(
        "conftest.py",
        """
import coverage
import pytest
measured = coverage.Coverage()
measured.start()

@pytest.hookimpl(wrapper=True)
def pytest_runtestloop():
    result = yield
    measured.stop()
    measured.save()
    return result
""",
    )
    for tests in (TESTS.replace("[4, 8]", "[5]"), TESTS):  # what an earlier run reached does not stay
        project.put("test_small.py", tests)
        shown = project.run(*RUN[2:], status=1)
    assert "written: .coverage.dispatchcov" in shown
    assert [file.name for file in project.path.glob(".coverage.*")] == [".coverage.dispatchcov"]
    project.coverage("combine", "-q", "--append")
    assert project.files()["small.toml"]["executed_lines"] == [8, VEC4, WHEN, SPLIT]
    assert "test_small.py" in project.files()


def test_runs_of_several_machines_combine(project: Project) -> None:
    project.put("pyproject.toml", SETTINGS + "parallel = true\nrelative_files = true\n")
    project.coverage(*RUN, status=1)
    project.put("test_small.py", TESTS.replace("[4, 8]", "[5, 7]"))
    project.coverage(*RUN, status=1)
    project.coverage("combine", "-q")
    table = project.files()["small.toml"]
    assert table["missing_lines"] == [CROSSED]
    assert len(table["contexts"][str(WHEN)]) == 4


def test_an_installed_dispatchcov_may_be_imported_before_pytest_where_warnings_are_errors(project: Project) -> None:
    """pytest rewrites the assertions of plugins that were copied to where packages are, and warns if it is too late."""
    (project.path / "dispatchcov").symlink_to(Path(dispatchcov.__file__).parent)
    project.put("copied-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: copied\nVersion: 1\n")
    project.put("copied-1.dist-info/RECORD", "dispatchcov/__init__.py,,\n")
    project.put("copied-1.dist-info/entry_points.txt", "[pytest11]\ndispatchcov = dispatchcov.pytest_plugin\n")
    project.put("pyproject.toml", SETTINGS + "[tool.pytest.ini_options]\nfilterwarnings = ['error']\n")
    assert "2 passed" in project.coverage(*RUN, status=1)  # the gate fails: partitions are missed


HARDWARE = """
[table]
op = "demo::scale"
[variables]
N = { type = "int", min = 0 }
sm = { type = "int", values = [80, 90], hardware = true }
[[kernel]]
name = "ScaleTma"
[[kernel]]
name = "Scale"
[[rule]]
name = "tma"
when = "sm >= 90"
kernel = "ScaleTma"
[[rule]]
name = "scalar"
kernel = "Scale"
"""
DECIDES = "import dispatchcov\nTABLE = dispatchcov.load_table('t1.toml')\ndef test_1(): TABLE.decide(N=1, sm={sm})\n"
LOADS = """import dispatchcov
dispatchcov.load_table('t1.toml')
OTHER = dispatchcov.load_table('t2.toml')
def test_2(): OTHER.decide(N=1, sm=90)
"""


@pytest.mark.parametrize("branch", ["", "branch = true\n"], ids=["lines", "branches"])
@pytest.mark.parametrize("erased", [False, True], ids=["records there", "no records"])
def test_which_lines_count_is_said_by_processes_that_decided(project: Project, branch: str, erased: bool) -> None:
    """The records are those of the last run; coverage.py's data are those of all that it combines."""
    project.put("pyproject.toml", SETTINGS + branch + "parallel = true\n")
    project.put("t1.toml", HARDWARE)
    project.put("t2.toml", HARDWARE.replace("scale", "other"))
    project.put("test_1.py", DECIDES.format(sm=80))
    project.put("test_2.py", LOADS)
    project.coverage(*RUN, "test_1.py")
    project.coverage(*RUN, "test_2.py")
    if erased:
        (project.path / ".dispatchcov").unlink()
    project.coverage("combine", "-q")
    files = project.files()
    assert files["t1.toml"]["missing_lines"] == []
    assert files["t1.toml"]["excluded_lines"] == [7, 11]
    assert set().union(*files["t1.toml"]["contexts"].values()) == {"test_1.py::test_1"}
    assert files["t2.toml"]["excluded_lines"] == [9, 15]
    project.put("test_1.py", DECIDES.format(sm=90))
    project.coverage(*RUN, "test_1.py")
    project.coverage("combine", "-q", "--append")
    assert files != project.files()
    assert project.files()["t1.toml"]["missing_lines"] == []
    assert project.files()["t1.toml"]["excluded_lines"] == []


def test_workers_of_xdist_are_covered(project: Project) -> None:
    project.coverage(*RUN, "-n", "2", status=1)
    assert len(project.files()["small.toml"]["contexts"][str(VEC4)]) == 2


def test_what_needs_other_hardware_or_cannot_be_reached_is_excluded(project: Project) -> None:
    text = SMALL.replace("[[kernel]]", 'sm = { type = "int", values = [80, 120], hardware = true }\n[[kernel]]', 1)
    text += '[[partition]]\nname = "new"\nrule = "vec4"\nwhere = "sm >= 120"\n'
    text += '[[partition]]\nname = "dead"\nrule = "vec4"\nwhere = "N % 2 == 1"\n'
    new, dead = line_of(text, 'name = "new"') - 1, line_of(text, 'name = "dead"') - 1
    project.put("small.toml", text)
    project.put("test_small.py", TESTS.replace("N=n,", "N=n, sm=80,"))
    project.coverage(*RUN, status=1)
    assert project.files()["small.toml"]["excluded_lines"] == [new, dead]
    project.run("dispatchcov.cli", "erase", "-q")  # coverage.py's data tell what hardware there was
    assert project.files()["small.toml"]["excluded_lines"] == [new, dead]
    with contextlib.closing(sqlite3.connect(project.path / ".coverage")) as data, data:
        data.execute("delete from context where context like 'dispatchcov%'")  # as of an earlier version
    assert project.files()["small.toml"]["excluded_lines"] == [dead]
    assert new in project.files()["small.toml"]["missing_lines"]


def test_records_kept_elsewhere_are_found(project: Project) -> None:
    project.put("pyproject.toml", f'{SETTINGS}[tool.coverage.dispatchcov.coverage_plugin]\ndata = "kept"\n')
    project.coverage(*RUN, "--dispatch-data=kept", status=1)
    project.put("kept", "no records")
    assert "kept" in project.coverage("report", status=1)


def test_a_table_that_extends_is_two_files(project: Project) -> None:
    project.put("base/small.toml", SMALL)
    project.put("small.toml", OWN.replace("2126", "2020"))
    project.coverage(*RUN, status=1)
    files = project.files()
    assert files["small.toml"]["missing_lines"] == [4]
    assert files["base/small.toml"]["executed_lines"] == [8, VEC4, WHEN, SPLIT]
    assert files["base/small.toml"]["missing_lines"] == [11, SCALAR]


def test_without_the_plugin_nothing_is_added(project: Project) -> None:
    project.put("pyproject.toml", SETTINGS.replace("plugins", "# plugins"))
    project.coverage(*RUN, status=1)
    assert "small.toml" not in project.files()
    assert not list(project.path.glob(".coverage.*"))


def test_a_table_that_is_gone_is_a_file_that_is_gone(project: Project) -> None:
    project.coverage(*RUN, status=1)
    (project.path / "small.toml").unlink()
    assert "No source for code" in project.coverage("report", status=1)

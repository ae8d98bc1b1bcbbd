from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.dispatchcov.build import SMALL

PROJECT = """
import pytest
import dispatchcov
TABLE = dispatchcov.load_table("small.toml")

@pytest.mark.parametrize("n", [4, 5])
def test_one(n):
    TABLE.decide(N=n, aligned=True, dtype="float16")

def test_several():
    TABLE.decide(N=4, aligned=False, dtype="float16")
    TABLE.decide(N=4, aligned=True, dtype="float32")
    assert False

def test_none():
    pass

def test_other():
    dispatchcov.record(TABLE, {"N": 4, "aligned": True, "dtype": "float16"}, kernel="Tuned\\x01")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makefile(".toml", small=SMALL)
    pytester.makepyfile(PROJECT)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    return pytester


def written(project: pytest.Pytester, *arguments: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The properties of the suite, and those of its tests."""
    project.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
    suite = next(ET.parse(project.path / "out.xml").getroot().iter("testsuite"))
    assert suite[0].tag == "properties"
    cases = {str(case.get("name")): _properties(case) for case in suite.iter("testcase")}
    return _properties(suite), cases


def _properties(element: ET.Element) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("value")) for each in element.findall("properties/property")}


@pytest.mark.parametrize("more", [(), ("-n", "2"), ("-o", "junit_family=xunit1")], ids=["", "xdist", "xunit1"])
def test_what_each_test_reached_and_what_the_run_covered(project: pytest.Pytester, more: tuple[str, ...]) -> None:
    suite, cases = written(project, "--junitxml=out.xml", "--dispatch-report=term", *more)
    assert cases["test_one[4]"] == {
        "dispatch.rules": "demo::scale: vec4",
        "dispatch.kernels": "demo::scale: ScaleVec4",
        "dispatch.partitions": "demo::scale: vec4 [dtype=float16]",
    }
    assert cases["test_one[5]"]["dispatch.partitions"] == "demo::scale: ragged"
    assert cases["test_several"]["dispatch.rules"] == "demo::scale: vec4, scalar"
    assert cases["test_several"]["dispatch.partitions"] == "demo::scale: vec4 [dtype=float32]"
    assert cases["test_none"] == {}
    assert cases["test_other"]["dispatch.kernels"].startswith("demo::scale: Tuned")
    assert (suite["dispatch.gate"], suite["dispatch.partitions"]) == ("FAILED", "2/3")
    assert suite["dispatch.machines"]


def test_properties_of_the_suite_stay(project: pytest.Pytester) -> None:
    project.makeconftest("""
        import pytest
        @pytest.fixture(autouse=True, scope="session")
        def said(record_testsuite_property):
            record_testsuite_property("build", "7")
    """)
    suite, _ = written(project, "--junitxml=out.xml", "--dispatch-report=term", "-k", "one")
    assert suite["build"] == "7"
    assert suite["dispatch.gate"] == "not judged, the run was partial"


def test_a_run_that_records_nothing_has_none(project: pytest.Pytester) -> None:
    project.runpytest_subprocess("--junitxml=out.xml", "-p", "no:cacheprovider")
    assert "dispatch" not in (project.path / "out.xml").read_text()


def test_a_run_without_a_file_has_none(project: pytest.Pytester) -> None:
    project.makeconftest("""
        def pytest_runtest_logreport(report):
            assert not report.user_properties
    """)
    done = project.runpytest_subprocess("--dispatch-report=term", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=4, failed=1)


def test_a_file_that_cannot_be_read_again_fails_the_run(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import dispatchcov
        def test_all():
            table = dispatchcov.load_table("small.toml")
            for n in (4, 5):
                for dtype in ("float16", "float32"):
                    table.decide(N=n, aligned=True, dtype=dtype)
    """)
    project.makeconftest("""
        import pathlib
        import pytest
        @pytest.hookimpl(trylast=True)
        def pytest_sessionfinish():
            pathlib.Path("out.xml").write_text("<cut")
    """)
    done = project.runpytest_subprocess("--junitxml=out.xml", "--dispatch-report=term", "-p", "no:cacheprovider")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["dispatch gate: FAILED, 1 reason", "  - --junitxml: cannot put totals into *out.xml: *"])

"""The workflows of docs/ci.md, run job by job as the services would: the same shell, files passed on as artifacts."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import readme

PAGE = (readme.ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
ONE, SEVERAL, GITLAB = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S))


class Runner:
    """Runs the jobs of one workflow, each in a folder of its own with the page's project in it."""

    def __init__(self, folder: Path, tests: str = "") -> None:
        self.folder = folder
        self.tests = tests
        self.artifacts: dict[str, Path] = {}

    def job(
        self, name: str, steps: list[Any], matrix: dict[str, str] | None = None, **variables: str
    ) -> dict[str, Any]:
        """Run ``steps``; what each command printed, by its name, the last status, the summary and the folder."""
        place = self.folder / name
        place.mkdir()
        for block in readme.blocks(PAGE):
            if block.says("file") in ("scale.toml", "test_scale.py"):
                readme.put(block, place)
        if self.tests:
            (place / "test_scale.py").write_text(self.tests)
        summary = self.folder / f"{name}.md"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE_", "DISPATCHCOV_", "PYTEST_"))}
        programs = Path(sys.executable).parent
        shell = clean | variables | {"PATH": f"{programs}:{clean['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
        printed, status = {}, 0
        for step in steps:
            text = _filled(step, matrix or {})
            if status and "cancelled()" not in str(text.get("if")):
                continue
            if "run" in text and not text["run"].startswith("pip install"):
                done = subprocess.run(
                    ["bash", "-e", "-o", "pipefail", "-c", text["run"]],
                    cwd=place, env=shell, capture_output=True, text=True, check=False,
                )  # fmt: skip
                printed[text.get("name", "run")] = done.stdout + done.stderr
                status = status or done.returncode
            elif "upload-artifact" in text.get("uses", ""):
                self.upload(place, **text["with"])
            elif "download-artifact" in text.get("uses", ""):
                for artifact, source in self.artifacts.items():
                    shutil.copytree(source, place / text["with"]["path"] / artifact)
        shown = summary.read_text() if summary.exists() else ""
        return {"printed": printed, "status": status, "summary": shown, "place": place}

    def upload(self, place: Path, name: str, path: str) -> None:
        found = [file for file in place.iterdir() if fnmatch.fnmatch(file.name, path) and file.name[0] != "."]
        assert found
        self.artifacts[name] = self.folder / "artifacts" / name
        self.artifacts[name].mkdir(parents=True)
        for file in found:
            shutil.copy(file, self.artifacts[name])


def _filled(step: dict[str, Any], matrix: dict[str, str]) -> Any:
    """``step`` with the values of ``matrix``."""
    text = yaml.safe_dump(step)
    for name, value in matrix.items():
        text = text.replace(f"${{{{ matrix.{name} }}}}", value)
    return yaml.safe_load(text)


def machines(runner: Runner) -> list[dict[str, Any]]:
    """The jobs that record, on each machine."""
    job = SEVERAL["jobs"]["record"]
    return [
        runner.job(given["machine"], job["steps"], {"machine": given["machine"]}, SM=given["sm"])
        for given in job["strategy"]["matrix"]["include"]
    ]


def test_one_machine(tmp_path: Path) -> None:
    done = Runner(tmp_path).job("test", ONE["jobs"]["test"]["steps"])
    assert done["status"] == 0, done
    assert "::notice title=dispatch gate::passed" in done["printed"]["run"]
    assert done["summary"].startswith("## ✅ Dispatch gate: passed")
    assert "SF:scale.toml" in (done["place"] / "dispatchcov.lcov").read_text()


def test_one_machine_that_misses_a_partition_is_red_and_says_where(tmp_path: Path) -> None:
    tests = PAGE.split("```python\n")[1].split("```")[0].replace("[3, 4, 4096]", "[4]")
    done = Runner(tmp_path, tests).job("test", ONE["jobs"]["test"]["steps"])
    assert done["status"] == 1
    assert (
        "\n::error file=scale.toml,line=22,title=dispatch coverage::demo::scale: required partition scalar"
        in (done["printed"]["run"])
    )
    assert done["summary"].startswith("## ❌ Dispatch gate: FAILED, 1 reason")


def test_several_machines(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    assert [done["status"] for done in machines(runner)] == [0, 0]
    done = runner.job("gate", SEVERAL["jobs"]["gate"]["steps"])
    assert done["status"] == 0, done
    assert "demo::scale  6 decisions  machine: sm_80; sm_90" in done["printed"]["gate"]
    assert "partitions 3/3 (100 %)" in done["printed"]["gate"]
    assert done["summary"].startswith("## ✅ Dispatch gate: passed")
    assert "FNDA:1,rule tma" in (done["place"] / "dispatchcov.lcov").read_text()


def test_several_machines_of_which_none_reaches_a_partition(tmp_path: Path) -> None:
    tests = PAGE.split("```python\n")[1].split("```")[0].replace("[3, 4, 4096]", "[4, 4096]")
    runner = Runner(tmp_path, tests)
    assert [done["status"] for done in machines(runner)] == [0, 0]  # the tests passed, and the gate is not theirs
    done = runner.job("gate", SEVERAL["jobs"]["gate"]["steps"])
    assert done["status"] == 2
    assert "::error file=scale.toml,line=22," in done["printed"]["reports"]
    assert "  - demo::scale: required partition scalar was not hit" in done["printed"]["gate"]


def test_several_machines_with_a_failing_test_are_red(tmp_path: Path) -> None:
    runner = Runner(tmp_path, "def test_wrong():\n    assert False\n")
    assert [done["status"] for done in machines(runner)[:1]] == [1]


def test_gitlab(tmp_path: Path) -> None:
    job = GITLAB["dispatch"]
    done = Runner(tmp_path).job("dispatch", [{"run": line} for line in job["script"]])
    assert done["status"] == 0, done
    found = re.search(job["coverage"].strip("/"), done["printed"]["run"])
    assert found
    assert found[1] == "100"
    reports = job["artifacts"]["reports"]
    assert 'filename="scale.toml"' in (done["place"] / reports["coverage_report"]["path"]).read_text()
    assert "dispatch.rules" in (done["place"] / reports["junit"]).read_text()


@pytest.mark.parametrize("workflow", [ONE, SEVERAL], ids=["one machine", "several"])
def test_what_every_workflow_says(workflow: dict[Any, Any]) -> None:
    assert workflow[True] == ["pull_request"]  # YAML 1.1 reads the key "on" as true
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) if "uses" in step else step["run"]

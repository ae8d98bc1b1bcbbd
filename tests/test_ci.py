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
        self.variables: dict[str, str] = {}

    def job(self, name: str, job: dict[str, Any], **values: str) -> dict[str, Any]:
        """Run ``job``, with ``values`` for what stands in ``${{ }}``: what each command printed, by its name, the
        first status that is not 0, the steps that failed, the summary and the folder.
        """
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
        job = _filled(job, values)
        shell = clean | self.variables | {name: str(value) for name, value in job.get("env", {}).items()}
        shell |= {"PATH": f"{programs}:{clean['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
        printed, status, failed = {}, 0, []
        for text in job["steps"]:
            before = status
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
                uploaded = self.upload(place, text["with"])
                status = status or uploaded
            elif "download-artifact" in text.get("uses", ""):
                for artifact, source in self.artifacts.items():
                    shutil.copytree(source, place / text["with"]["path"] / artifact)
            failed += [text.get("name", "run")] if status and not before else []
        shown = summary.read_text() if summary.exists() else ""
        return {"printed": printed, "status": status, "failed": failed, "summary": shown, "place": place}

    def upload(self, place: Path, given: dict[str, str]) -> int:
        """The status of the step: 1 without a file, if the workflow asks for that."""
        found = [file for file in place.iterdir() if fnmatch.fnmatch(file.name, given["path"]) and file.name[0] != "."]
        if not found:
            return int(given.get("if-no-files-found") == "error")
        artifact = self.artifacts[given["name"]] = self.folder / "artifacts" / given["name"]
        artifact.mkdir(parents=True)
        for file in found:
            shutil.copy(file, artifact)
        return 0


def _filled(job: dict[str, Any], values: dict[str, str]) -> Any:
    """``job`` with ``values`` for what stands in ``${{ }}``."""
    text = yaml.safe_dump(job, width=10_000)
    for name, value in values.items():
        text = text.replace(f"${{{{ {name} }}}}", value)
    return yaml.safe_load(text)


def machines(runner: Runner) -> list[dict[str, Any]]:
    """The jobs that record, on each machine."""
    job = {key: value for key, value in SEVERAL["jobs"]["record"].items() if key not in ("strategy", "runs-on")}
    return [
        runner.job(given["machine"], job, **{f"matrix.{key}": str(value) for key, value in given.items()})
        for given in SEVERAL["jobs"]["record"]["strategy"]["matrix"]["include"]
    ]


def gate(runner: Runner, recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """The job that judges: it needs those that record, whose result is a success if all of them are."""
    job = SEVERAL["jobs"]["gate"]
    assert job["needs"] == "record"
    assert job["if"] == "${{ !cancelled() }}"  # a job that is skipped counts as a success
    result = "failure" if any(done["status"] for done in recorded) else "success"
    return runner.job("gate", job, **{"needs.record.result": result})


def test_one_machine(tmp_path: Path) -> None:
    done = Runner(tmp_path).job("test", ONE["jobs"]["test"])
    assert done["status"] == 0, done
    assert "::notice title=dispatch gate::passed" in done["printed"]["run"]
    assert done["summary"].startswith("## ✅ Dispatch gate: passed")
    assert "SF:scale.toml" in (done["place"] / "dispatchcov.lcov").read_text()


def test_one_machine_that_misses_a_partition_is_red_and_says_where(tmp_path: Path) -> None:
    tests = PAGE.split("```python\n")[1].split("```")[0].replace("[3, 4, 4096]", "[4]")
    done = Runner(tmp_path, tests).job("test", ONE["jobs"]["test"])
    assert done["status"] == 1
    assert (
        "\n::error file=scale.toml,line=22,title=dispatch coverage::demo::scale: required partition scalar"
        in (done["printed"]["run"])
    )
    assert done["summary"].startswith("## ❌ Dispatch gate: FAILED, 1 reason")


def changed(old: str, new: str) -> str:
    """The page's tests with ``new`` in place of ``old``."""
    tests = PAGE.split("```python\n")[1].split("```")[0]
    assert old in tests
    return tests.replace(old, new)


def test_several_machines(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, 0]
    assert "dispatch" not in "".join(done["printed"]["tests"] for done in recorded)  # no report, no gate
    done = gate(runner, recorded)
    assert done["status"] == 0, done
    assert "demo::scale  6 decisions  machine: sm_80; sm_90" in done["printed"]["gate"]
    assert "partitions 3/3 (100 %)" in done["printed"]["gate"]
    assert done["summary"].startswith("## ✅ Dispatch gate: passed")
    assert "FNDA:1,rule tma" in (done["place"] / "dispatchcov.lcov").read_text()


def test_several_machines_of_which_none_reaches_a_partition(tmp_path: Path) -> None:
    runner = Runner(tmp_path, changed("[3, 4, 4096]", "[4, 4096]"))
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, 0]  # the tests passed, and the gate is not theirs
    done = gate(runner, recorded)
    assert (done["status"], done["failed"]) == (2, ["gate"])
    assert "::error file=scale.toml,line=22," in done["printed"]["reports"]
    assert "  - demo::scale: required partition scalar was not hit" in done["printed"]["gate"]


def test_several_machines_of_which_one_misses_a_partition_that_only_it_can_reach(tmp_path: Path) -> None:
    runner = Runner(tmp_path, changed("[3, 4, 4096]", "[3, 4]"))
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, 0]
    done = gate(runner, recorded)
    assert (done["status"], done["failed"]) == (2, ["gate"])
    assert "  - demo::scale: required partition tma was not hit" in done["printed"]["gate"]


def test_several_machines_with_a_failing_test_are_red(tmp_path: Path) -> None:
    runner = Runner(tmp_path, changed("[0, 2]", "[0, 2 if SM == 80 else 3]"))
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, 1]
    assert gate(runner, recorded)["status"]


def test_several_machines_of_which_one_cannot_import_its_tests(tmp_path: Path) -> None:
    lines = changed('"80"))', '"80"))\nif SM == 90:\n    import a_driver_that_is_not_there')
    runner = Runner(tmp_path, lines)
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, 2]
    assert recorded[1]["failed"] == ["tests"]
    done = gate(runner, recorded)
    assert (done["status"], done["failed"]) == (2, ["gate"])
    assert "  - demo::scale: required partition tma is elsewhere" in done["printed"]["gate"]
    assert done["summary"].startswith("## ❌ Dispatch gate: FAILED, 1 reason")


def test_several_machines_with_a_failing_test_whose_partition_others_reach(tmp_path: Path) -> None:
    """The records alone would pass."""
    runner = Runner(
        tmp_path, changed("[3, 4, 4096]", "[3, 4, 4096] if SM == 80 else [4096, 5]") + "    assert n != 5\n"
    )
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, 1]
    done = gate(runner, recorded)
    assert (done["status"], done["failed"]) == (1, ["every machine ran its tests to the end"])


def test_several_machines_of_which_one_left_no_records(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    recorded = machines(runner)
    del runner.artifacts["dispatch-sm90"]
    done = gate(runner, recorded)
    assert (done["status"], done["failed"]) == (2, ["gate"])
    assert "  - demo::scale: required partition tma is elsewhere" in done["printed"]["gate"]


def test_several_machines_of_which_none_left_records(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    recorded = machines(runner)
    runner.artifacts.clear()
    assert gate(runner, recorded)["failed"] == ["reports"]


@pytest.mark.parametrize("after", [3, 5], ids=["before the partition", "after it"])
def test_several_machines_of_which_one_was_killed(tmp_path: Path, after: int) -> None:
    kill = f"    if SM == 90 and n == {after}:\n        os.kill(os.getpid(), 9)\n"
    runner = Runner(tmp_path, changed("[3, 4, 4096]", "[3, 4, 4096, 5]") + kill)
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, -9]
    assert recorded[1]["printed"]["records"].startswith("dispatch-sm90.data: 1 shard of 1 run")
    done = gate(runner, recorded)
    assert done["status"]
    assert done["failed"] == (["gate"] if after == 3 else ["every machine ran its tests to the end"])


def test_several_machines_of_which_one_ran_some_tests_only(tmp_path: Path) -> None:
    """A partial run of one machine does not keep what is missed from being judged."""
    runner = Runner(tmp_path, changed("[3, 4, 4096]", "[3, 4, 4097]"))
    runner.variables["PYTEST_ADDOPTS"] = "-k '3 or 4097'"
    recorded = machines(runner)
    assert [done["status"] for done in recorded] == [0, 0]
    done = gate(runner, recorded)
    assert (done["status"], done["failed"]) == (2, ["gate"])
    assert "  - demo::scale: required partition vec4 was not hit" in done["printed"]["gate"]


def test_gitlab(tmp_path: Path) -> None:
    job = GITLAB["dispatch"]
    done = Runner(tmp_path).job("dispatch", {"steps": [{"run": line} for line in job["script"]]})
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


@pytest.mark.parametrize(
    "page", [readme.README, *sorted((readme.ROOT / "docs").glob("*.md"))], ids=lambda page: page.stem
)
def test_no_page_installs_from_an_index_that_has_no_dispatchcov(page: Path) -> None:
    assert not re.search(r"pip install (-\S+ )*['\"]?dispatchcov", page.read_text(encoding="utf-8"))

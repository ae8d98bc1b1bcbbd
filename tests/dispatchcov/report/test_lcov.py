from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dispatchcov.build import SMALL
from tests.dispatchcov.formats import FLOAT16, HOSTILE, NAMED, rendered

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tool(name: str, *arguments: str) -> str:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install lcov)")
    version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
    branches = "lcov_branch_coverage=1" if re.search(r"version 1\.", version) else "branch_coverage=1"
    done = subprocess.run([name, "--rc", branches, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_whole_tracefile() -> None:
    assert (
        rendered("lcov", SMALL, {"N": 4, **FLOAT16}, {"N": 2048, **FLOAT16})
        == """\
TN:
SF:small.toml
FN:13,rule vec4
FN:18,rule scalar
FN:8,kernel ScaleVec4
FN:11,kernel Scale
FNDA:2,rule vec4
FNDA:0,rule scalar
FNDA:2,kernel ScaleVec4
FNDA:0,kernel Scale
FNF:4
FNH:2
BRDA:15,0,0,2
BRDA:15,0,1,0
BRDA:15,1,0,2
BRDA:15,1,1,0
BRDA:17,0,0,1
BRDA:17,0,1,1
BRDA:21,0,0,2
BRDA:21,0,1,0
BRF:8
BRH:5
DA:8,2
DA:11,0
DA:13,2
DA:15,2
DA:17,2
DA:18,0
DA:21,2
DA:25,0
LF:8
LH:5
end_of_record
"""
    )


def test_what_was_never_evaluated_has_branches_of_which_nothing_is_known() -> None:
    text = SMALL.replace(
        'name = "scalar"', 'name = "more"\nwhen = "N > 7"\nkernel = "Scale"\n[[rule]]\nname = "scalar"'
    )
    assert "BRDA:20,0,0,-\nBRDA:20,0,1,-\n" in rendered("lcov", text, {"N": 4, **FLOAT16})


def test_no_name_breaks_a_record() -> None:
    lines = rendered("lcov", NAMED, {"N": 5, **FLOAT16}).splitlines()
    functions = [line for line in lines if line.startswith("FN:")]
    assert len(functions) == 4
    assert all(line.count(",") == 1 for line in functions)
    assert {line.split(":")[0].split(",")[0] for line in lines} <= {
        "TN", "SF", "FN", "FNDA", "FNF", "FNH", "BRDA", "BRF", "BRH", "DA", "LF", "LH", "end_of_record",
    }  # fmt: skip
    assert HOSTILE[:11] in functions[1]


@pytest.mark.parametrize("text", [SMALL, NAMED], ids=["plain names", "hostile names"])
def test_lcov_reads_the_same_numbers(text: str) -> None:
    Path("dispatch.lcov").write_text(rendered("lcov", text, {"N": 4, **FLOAT16}, {"N": 2048, **FLOAT16}))
    shown = tool("lcov", "--summary", "dispatch.lcov")
    found = re.findall(r"(lines|functions|branches)\.*: [\d.]+% \((\d+) of (\d+)", shown)
    assert found == [("lines", "5", "8"), ("functions", "2", "4"), ("branches", "5", "8")]


def test_lcov_adds_two_runs() -> None:
    Path("a.lcov").write_text(rendered("lcov", SMALL, {"N": 4, **FLOAT16}))
    Path("b.lcov").write_text(rendered("lcov", SMALL, {"N": 5, **FLOAT16}))
    tool("lcov", "-a", "a.lcov", "-a", "b.lcov", "-o", "both.lcov")
    both = Path("both.lcov").read_text().splitlines()
    assert {"DA:15,2", "DA:18,1", "BRDA:15,0,0,1", "BRDA:15,0,1,1"} <= set(both)


def test_genhtml_shows_the_table(here: Path) -> None:
    Path("dispatch.lcov").write_text(rendered("lcov", SMALL, {"N": 4, **FLOAT16}))
    tool("genhtml", "--branch-coverage", "-o", "html", "dispatch.lcov")
    (page,) = (here / "html").rglob("small.toml.gcov.html")
    text = page.read_text()
    assert "N % 4 == 0 and aligned" in text
    assert "rule scalar" in "".join(file.read_text() for file in (here / "html").rglob("small.toml.func*.html"))

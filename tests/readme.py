"""The README as a script: its files, its commands and what they print.

``python -m tests.readme [PAGE ...]`` writes what the commands print now into the README, or the pages given;
``test_readme.py`` and ``test_docs.py`` compare.

Comments before a block say what it is: ``file: NAME`` writes it, ``append: NAME`` adds it to a file, ``in:
project`` runs its
commands among those files, ``in: repository`` here; ``exit: N`` is the status expected, ``numbers vary`` masks digits,
``from: TEXT`` shows the output from the line that holds TEXT on. ``NAME=VALUE`` before a command is a variable of its
environment.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
ASSIGNMENT = re.compile(r"[A-Z_]+=")
BLOCK = re.compile(r"<!-- (?P<about>[^>]*) -->\n```(?P<kind>\w*)\n(?P<body>.*?)```", re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block with its comment."""

    about: str
    body: str
    start: int
    end: int

    def says(self, key: str) -> str | None:
        """The value of ``key: value`` in the comment."""
        found = re.search(rf"\b{key}: ([^,]+)", self.about)
        return found[1].strip() if found else None

    @property
    def command(self) -> str:
        return self.body.splitlines()[0].removeprefix("$ ")

    @property
    def output(self) -> list[str]:
        return self.body.splitlines()[1:]


def blocks(text: str) -> Iterator[Block]:
    """The blocks of ``text`` that a comment describes."""
    for match in BLOCK.finditer(text):
        yield Block(match["about"], match["body"], match.start("body"), match.end("body"))


def put(block: Block, project: Path) -> None:
    """Write the file that ``block`` is, if it is one."""
    if name := block.says("file"):
        (project / name).write_text(block.body)
    elif name := block.says("append"):
        with (project / name).open("a") as stream:
            stream.write(block.body)


def run(block: Block, project: Path) -> tuple[int, list[str]]:
    """The exit status and the lines that the command of ``block`` prints."""
    words = shlex.split(block.command)
    given = dict(word.split("=", 1) for word in itertools.takewhile(ASSIGNMENT.match, words))
    words = words[len(given) :]
    program = {"pytest": ["-m", "pytest", "-p", "no:cacheprovider"], "dispatchcov": ["-m", "dispatchcov.cli"]}.get(
        words[0]
    )
    if words[0] == "make" or words[0].startswith("./"):
        command = words
    else:
        command = [sys.executable, *(program or ["-m", words[2]]), *words[1 if program else 3 :]]
    inside = block.says("in") == "project"
    unset = ("PYTEST_", "DISPATCHCOV_", "FP4OPS_", "COVERAGE_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    environment |= {"COLUMNS": "80", "PATH": path, "PYTHONPATH": str(project if inside else ROOT), **given}
    if not inside:
        environment["DISPATCHCOV_DATA"] = str(project / "records")
    place = project if inside else ROOT
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    lines = [line.rstrip() for line in (done.stdout + done.stderr).rstrip().splitlines()]
    first = block.says("from")
    start = next((i for i, line in enumerate(lines) if first and first in line), 0)
    return done.returncode, ["...", *lines[start:]] if first else lines


def steady(block: Block, line: str) -> str:
    """``line`` without what differs from run to run."""
    line = re.sub(r"\bin [\d.]+s( \([\d:]+\))?", "in 0.00s", line)
    line = re.sub(r"^[.sx]{10,}( +\[ *\d+%\])?$", "....", line)
    line = re.sub(r"machine: (Linux|Darwin|Windows) \w+", "machine: Linux x86_64", line)
    return re.sub(r" *\d+", " 0", line) if "numbers vary" in block.about else line


def update(page: Path) -> None:
    """Put what the commands of ``page`` print now into it."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        replaced = []
        for block in blocks(text):
            put(block, Path(folder))
            if block.says("in"):
                _, lines = run(block, Path(folder))
                replaced.append((block, "\n".join([f"$ {block.command}", *lines]) + "\n"))
    for block, body in reversed(replaced):
        text = text[: block.start] + body + text[block.end :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or [str(README)]:
        update(Path(name))

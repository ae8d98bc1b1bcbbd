"""The README's commands do what it says."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from dispatchcov import pytest_plugin
from tests import readme
from tests.readme import ROOT, Block

TEXT = readme.README.read_text(encoding="utf-8")
ALL = list(readme.blocks(TEXT))


def compare(block: Block, project: Path) -> None:
    status, lines = readme.run(block, project)
    shown = [key for key, _ in groupby(readme.steady(block, line.rstrip()) for line in block.output)]
    printed = [key for key, _ in groupby(readme.steady(block, line) for line in lines)]
    assert printed == shown
    assert status == int(block.says("exit") or 0)


def test_the_tutorial_from_its_first_line_to_its_last(tmp_path: Path) -> None:
    commands = 0
    for block in ALL:
        readme.put(block, tmp_path)
        if block.says("in") == "project":
            compare(block, tmp_path)
            commands += 1
    assert commands >= 4


@pytest.mark.parametrize("block", [b for b in ALL if b.says("in") == "repository"], ids=lambda block: block.command)
def test_the_commands_of_the_repository(block: Block, tmp_path: Path) -> None:
    compare(block, tmp_path)


def test_every_option_and_command_is_described() -> None:
    for option in pytest_plugin.OPTIONS:
        assert f"--dispatch-{option.replace('_', '-')}" in TEXT
    from dispatchcov import cli

    commands = re.findall(r'add\("(\w+)", "', Path(cli.__file__).read_text(encoding="utf-8"))
    assert len(commands) >= 9
    for command in commands:
        assert f"`{command}" in TEXT, command


def test_links_lead_somewhere() -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", TEXT, flags=re.S)
    links = re.findall(r"\]\(([^)#:]+)\)", prose)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_the_two_commands_are_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in TEXT
        assert re.search(rf"^{target}:", makefile, re.M)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")

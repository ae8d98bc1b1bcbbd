"""The pages under docs do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import readme
from tests.dispatchcov.cpp import build as cpp_build
from tests.test_readme import compare

PAGES = sorted((readme.ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_from_its_first_line_to_its_last(page: Path, tmp_path: Path) -> None:
    commands = 0
    text = page.read_text(encoding="utf-8")
    if "<!-- needs: GoogleTest -->" in text:
        cpp_build.needs_gtest()
    for block in readme.blocks(text):
        readme.put(block, tmp_path)
        if block.says("in"):
            compare(block, tmp_path)
            commands += 1
    assert commands

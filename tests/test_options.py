"""Every command, option, setting, marker and fixture stands in docs/options.md and in an example that tests run.

What there is comes from the parsers, the settings and pytest itself; what is run, from the blocks of README.md and docs
which test_readme.py and test_docs.py run.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import takewhile
from pathlib import Path

from dispatchcov import cli, config, pytest_plugin
from dispatchcov.plugin.assertions import DispatchTrace
from dispatchcov.report import REPORTS
from tests import readme

PAGE = readme.ROOT / "docs" / "options.md"
PAGES = (readme.README, *sorted((readme.ROOT / "docs").glob("*.md")))
KEYS = tuple(field.name for field in fields(config.Settings))


@dataclass(frozen=True)
class Example:
    """A command that a page runs: the words of ``dispatchcov`` or ``pytest``, and the variables given with it."""

    program: str
    words: tuple[str, ...]
    variables: tuple[str, ...] = ()


def _of_command(line: str) -> Iterator[Example]:
    """The programs that ``line`` starts, one after the other: ``A=1 dispatchcov run -- pytest -q`` has two."""
    words = shlex.split(line)
    variables = tuple(word.partition("=")[0] for word in takewhile(readme.ASSIGNMENT.match, words))
    words = words[len(variables) :]
    rest = words[words.index("--") + 1 :] if "--" in words else []
    yield Example(words[0], tuple(words[1 : len(words) - len(rest) - bool(rest)]), variables)
    if rest:
        yield from _of_command(shlex.join(rest))


def _of_page(page: Path) -> Iterator[Example]:
    """What the commands of ``page`` start, and what ``make`` starts for them."""
    makefile = ""
    for block in readme.blocks(page.read_text(encoding="utf-8")):
        if block.says("file") == "Makefile":
            makefile = block.body
        elif block.says("in"):
            yield from _of_command(block.command)
            if re.search(r"\bmake\b", block.command):
                for started in re.findall(r"\bdispatchcov [^)|\n]*", makefile):
                    yield from _of_command(started)


def _bodies(kind: str) -> str:
    """All file blocks whose names end with ``kind``."""
    found = [block for page in PAGES for block in readme.blocks(page.read_text(encoding="utf-8"))]
    return "\n".join(b.body for b in found if (b.says("file") or b.says("append") or "").endswith(kind))


@cache
def examples() -> tuple[Example, ...]:
    return tuple(example for page in PAGES for example in _of_page(page))


@cache
def pytest_says(option: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", option]
    return subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=True).stdout


def commands() -> dict[str, argparse.ArgumentParser]:
    (actions,) = (a for a in cli._parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(actions.choices)


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What ``parser`` takes; ``--help`` is argparse's own."""
    return [a for a in parser._actions if not isinstance(a, argparse._HelpAction | argparse._SubParsersAction)]


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else str(action.metavar)


def _missing(wanted: Iterable[str], found: Iterable[str]) -> list[str]:
    return sorted({*wanted} - {*found})


def test_every_command_and_each_of_its_options_is_run() -> None:
    run = [example for example in examples() if example.program == "dispatchcov"]
    parsers = commands()
    assert _missing(parsers, (example.words[0] for example in run)) == []
    options = {_alike(action): f"{name} {_name(action)}" for name in parsers for action in arguments(parsers[name])}
    used = {_alike(action) for example in run for action in _given(example.words)}
    assert [named for key, named in options.items() if key not in used] == []


def _given(words: tuple[str, ...]) -> Iterator[argparse.Action]:
    """The arguments that ``words`` give; a command that does not parse fails the test."""
    parser = cli._parser()
    if words[0] not in commands():
        yield from (a for a in arguments(parser) if {*a.option_strings} & {*words})
        return
    options = parser.parse_args(words)
    for action in arguments(commands()[words[0]]):
        if getattr(options, action.dest) not in (action.default, []):
            yield action


def _alike(action: argparse.Action) -> tuple[object, ...]:
    """The same for an option that several commands share, with one meaning."""
    return (*action.option_strings, action.metavar, action.help, *(action.choices or ()))


def test_the_parser_has_no_option_without_a_command_but_the_version() -> None:
    assert [_name(action) for action in arguments(cli._parser())] == ["--version"]
    assert any(e.words == ("--version",) for e in examples() if e.program == "dispatchcov")


def test_every_option_of_pytest_is_run() -> None:
    options = re.findall(r"^ +(--dispatch-[\w-]+)", pytest_says("--help"), re.M)
    assert _missing(options, (word.partition("=")[0] for word in _pytest_words())) == []
    assert len(options) == len(pytest_plugin.OPTIONS)


def test_every_type_of_report_is_run() -> None:
    given = [word.partition("=")[2] for word in _pytest_words() if word.startswith("--dispatch-report")]
    assert _missing(REPORTS, (kind.partition(":")[0] or "term-missing" for kind in given)) == []


def _pytest_words() -> list[str]:
    return [word for example in examples() if example.program == "pytest" for word in example.words]


def test_every_marker_and_fixture_is_run() -> None:
    code = _bodies(".py")
    markers = re.findall(r"^@pytest\.mark\.(dispatch\w*)", pytest_says("--markers"), re.M)
    assert len(markers) == 2
    assert _missing(markers, re.findall(r"@pytest\.mark\.(\w+)", code)) == []
    fixtures = re.findall(r"^(\w+) -- \S*pytest_plugin\.py", pytest_says("--fixtures"), re.M)
    assert "dispatch_trace" in fixtures
    assert _missing(fixtures, re.findall(r"\w+", " ".join(re.findall(r"def test\w*\((.*)\)", code)))) == []
    public = [name for name in vars(DispatchTrace) if not name.startswith("_")]
    assert _missing(public, re.findall(r"\bdispatch_trace\.(\w+)", code)) == []


def test_every_variable_of_the_environment_is_run() -> None:
    names = {f"DISPATCHCOV_{key.upper()}" for key in KEYS} | {config.RUN}
    package = Path(config.__file__).parent
    for file in [*package.rglob("*.py"), *package.rglob("*.hpp")]:
        read = re.findall(r'(?:environ\S*|getenv\()"(DISPATCHCOV_\w+)"', file.read_text(encoding="utf-8"))
        names |= {*read}
    assert _missing(names, (variable for example in examples() for variable in example.variables)) == []


def test_every_key_of_the_configuration_is_run() -> None:
    found: set[str] = set()
    for page in PAGES:
        file = ""
        for block in readme.blocks(page.read_text(encoding="utf-8")):
            file = block.body if block.says("file") == "pyproject.toml" else file
            if block.says("in"):
                found |= {*tomllib.loads(file).get("tool", {}).get("dispatchcov", {})}
    assert _missing(KEYS, found) == []


def _rows(head: str) -> list[list[str]]:
    """The cells of the table of the page whose first line begins with ``head``, each row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(head))
    rows = takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_page_lists_every_setting() -> None:
    rows = _rows("| key in")
    assert [row[0] for row in rows] == [f"`{key}`" for key in KEYS]
    for row in rows:
        key = row[0].strip("`")
        option = f"`--dispatch-{key.replace('_', '-')}`" if key in pytest_plugin.OPTIONS else ""
        assert row[1] == option


def test_the_page_lists_every_command_with_its_options() -> None:
    listed = {name: row[1] for row in _rows("| `dispatchcov`") for name in row[0].split()}
    assert listed == {
        f"`{name}`": " ".join(f"`{_name(action)}`" for action in arguments(parser) if action.option_strings)
        for name, parser in commands().items()
    }


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^):]+)\)", re.sub(r"```.*?```", "", PAGE.read_text(encoding="utf-8"), flags=re.S)):
        name, _, anchor = link.partition("#")
        page = PAGE.parent / name if name else PAGE
        assert page.exists(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.M)
            assert anchor in [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads], link

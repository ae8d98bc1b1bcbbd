"""What commands print where it cannot be written, or not all of it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.cli import main
from dispatchcov.commands.output import printed
from dispatchcov.recorder import Recorder
from tests.dispatchcov.recording import TEXT, demo, facts

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
COMMANDS = [
    "report", "json", "markdown", "github", "mutate", "suggest", "debug", "combine", "compare .dispatchcov",
    "check é.toml", "regions é.toml", "explain é.toml N=8 aligned=true dtype=float16 sm=90", "cpp --include",
    "--help", "--version", "report --help", "erase",
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("é.toml").write_text(TEXT, encoding="utf-8")
    with Recorder(".dispatchcov", run="r"):
        demo().decide(**facts())
    store.combine(".dispatchcov", remove=True)
    return tmp_path


def dispatchcov(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell that runs ``command``, in which ``dispatchcov`` is the command line; UTF-8 unless told otherwise."""
    line = command.replace("dispatchcov ", f"{sys.executable} -m dispatchcov ", 1)
    given = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    given.pop("PYTEST_CURRENT_TEST", None)
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=given)


@FULL
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_said_in_a_line(command: str, unbuffered: str) -> None:
    done = dispatchcov(f"dispatchcov {command} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.stderr == "dispatchcov: cannot write the output: No space left on device\n"
    assert done.returncode == 1


@FULL
def test_where_nothing_can_be_said_the_status_says_it() -> None:
    for command in ("report > /dev/full 2>&1", "report --data none 2> /dev/full", "report > /dev/full 2>&-"):
        for unbuffered in ("", "1"):
            assert dispatchcov(f"dispatchcov {command}", PYTHONUNBUFFERED=unbuffered).returncode == 1


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("command", ["json", "suggest", "--help"])
def test_a_reader_that_wants_no_more_is_told_nothing(command: str, unbuffered: str) -> None:
    done = dispatchcov(f"dispatchcov {command} | head -c 1", PYTHONUNBUFFERED=unbuffered)
    assert done.stderr == ""
    assert len(done.stdout) == 1


@pytest.mark.parametrize("command", ["check é.toml", "markdown", "regions é.toml"])
def test_characters_that_the_encoding_lacks_are_escaped(command: str) -> None:
    whole = dispatchcov(f"dispatchcov {command}")
    done = dispatchcov(f"dispatchcov {command}", PYTHONIOENCODING="ascii")
    assert done.stdout == whole.stdout.encode("ascii", "backslashreplace").decode()
    assert (done.returncode, done.stderr) == (whole.returncode, whole.stderr)


def test_the_markdown_report_has_such_characters() -> None:
    assert not dispatchcov("dispatchcov markdown").stdout.isascii()


def test_names_that_are_no_text_are_escaped_in_files_too() -> None:
    dead = f'{TEXT}[[rule]]\nname = "dead"\nkernel = "Narrow"\n'
    Path(os.fsdecode(b"g\xff.toml")).write_text(dead, encoding="utf-8")
    done = dispatchcov("dispatchcov check g*.toml -o out")
    assert (done.returncode, done.stderr) == (2, "")
    assert "g\\udcff.toml" in Path("out").read_text(encoding="utf-8")


def test_standard_output_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = io.BytesIO()
    stream = io.TextIOWrapper(kept, "ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    main(["markdown"])
    assert stream.errors == "strict"
    assert rb"\u" in kept.getvalue()
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["cpp", "--include"]) == 0


def test_an_error_about_a_file_is_not_one_of_the_output() -> None:
    def command() -> int:
        with open("none/such", encoding="utf-8") as stream:
            return len(stream.read())

    with pytest.raises(FileNotFoundError):
        printed(command)

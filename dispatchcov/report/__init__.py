"""Reporters: each turns :class:`~dispatchcov.results.Results` and a verdict into text, one file each.

:data:`REPORTS` lists them; a module is imported when its report is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from dataclasses import dataclass
from typing import Protocol

from dispatchcov.errors import UsageError
from dispatchcov.gate import Verdict
from dispatchcov.results import Results


class Reporter(Protocol):
    """What every reporter is."""

    def __call__(self, results: Results, verdict: Verdict) -> str: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of report: ``function`` of ``module`` renders it.

    ``destination`` is where pytest writes it if nobody says ("": it is printed, and nowhere else), ``file`` its name
    inside the destination where that is a folder, ``needs`` the package that it imports, with how people write it.
    """

    module: str
    destination: str = ""
    file: str = ""
    function: str = "render"
    needs: tuple[str, str] | None = None


REPORTS = {
    "term": Kind("text", function="render_short"),
    "term-missing": Kind("text"),
    "json": Kind("json", "dispatchcov.json"),
    "html": Kind("html", "dispatchcov-html", "index.html", needs=("jinja2", "Jinja2")),
    "lcov": Kind("lcov", "dispatchcov.lcov"),
    "xml": Kind("cobertura", "dispatchcov.xml"),
    "markdown": Kind("markdown", "dispatchcov.md"),
    "github": Kind("github"),
}
"""Every type of report, as ``--dispatch-report`` names it."""

FORMATS = {"text": "term-missing", **{name: name for name in REPORTS if not name.startswith("term")}}
"""The types, as ``--format`` of the commands names them."""


def render(kind: str, results: Results, verdict: Verdict) -> str:
    """The report of type ``kind``."""
    reporter: Reporter = getattr(
        importlib.import_module(f"dispatchcov.report.{REPORTS[kind].module}"), REPORTS[kind].function
    )
    return reporter(results, verdict)


def ready(kind: str) -> None:
    """Raises :class:`UsageError` if a report of type ``kind`` needs a package that is not installed."""
    needed = REPORTS[kind].needs
    if needed and importlib.util.find_spec(needed[0]) is None:
        raise UsageError(f"{kind} report: expected {needed[1]} to be installed: pip install dispatchcov[{kind}]")


def write(kind: str, destination: str, text: str) -> str:
    """Write ``text`` to ``destination``, a folder for some types; returns the path of the file."""
    path = os.path.join(destination, REPORTS[kind].file) if REPORTS[kind].file else destination
    try:
        if REPORTS[kind].file:
            os.makedirs(destination, exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise UsageError(f"{kind} report: cannot write {path}: {error.strerror or error}") from None
    return path

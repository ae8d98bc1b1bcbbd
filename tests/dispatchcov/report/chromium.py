"""What the tests of the HTML report run its page in: Debian's Chromium, and Node.js for the scripts alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browser_path() -> str:
    """The browser that is installed; the test is skipped without one."""
    pytest.importorskip("playwright.sync_api", reason="Playwright's Python package is not installed")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed: expected one of {', '.join(BROWSERS)}")
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window."""
    path = browser_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page that keeps all that must not happen in it: messages of the console, errors, dialogs, requests."""

    def __init__(self, browser: Browser, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        self.page: Page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"console {message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.wrong.append(f"request: {request.url}")

    def open(self, file: Path, address: str = "") -> Page:
        """Open ``file`` afresh, at the part that ``address`` names."""
        self.page.goto("about:blank")
        self.page.goto(file.as_uri() + address)
        return self.page


class Node:
    """A Node.js process that answers each line of JSON with one, by ``script``'s function ``answer``."""

    def __init__(self, script: str) -> None:
        loop = (
            'require("readline").createInterface({ input: process.stdin })'
            '.on("line", (line) => console.log(JSON.stringify(answer(JSON.parse(line)))));'
        )
        self._process = subprocess.Popen(
            [node_path(), "-e", f"{script}\n{loop}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, question: object) -> Any:
        """The answer to ``question``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the script ended"
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def node_path() -> str:
    """Node.js: the one of this machine, or the one that Playwright's package brings; the test is skipped without."""
    if found := shutil.which("node"):
        return found
    reason = "neither Node.js nor Playwright's Python package, which brings one, is installed"
    playwright = pytest.importorskip("playwright", reason=reason)
    return str(Path(playwright.__file__).parent / "driver" / "node")

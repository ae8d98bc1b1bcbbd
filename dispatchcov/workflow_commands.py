"""Commands to a GitHub Actions runner, one a line of what a step prints: ``::error file=a.toml,line=3::message``."""

from __future__ import annotations


def command(level: str, message: str, **properties: object) -> str:
    """The command ``level`` with ``properties``, those that are empty left out; both escaped as a runner reads them."""
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value)
    return f"::{level}{' ' if given else ''}{given}::{_data(message)}"


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")

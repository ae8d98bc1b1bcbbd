"""Values in files that may come from a stranger: bounded, checked and shown without trust in any of them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import stat
from collections.abc import Iterable
from itertools import chain
from typing import Any, BinaryIO, NoReturn

from dispatchcov.errors import DataError
from dispatchcov.expr import MAX_FACT, Value
from dispatchcov.records import Inputs

MAX_COUNT = (1 << 63) - 1
MAX_KNOWN = 1 << 16
_HEXADECIMAL = re.compile("[0-9a-f]{1,4096}")


def open_regular(path: str, what: str, limit: int) -> BinaryIO:
    """``path`` opened for reading; raises :class:`DataError` unless it is a regular file of at most ``limit`` bytes."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected {what}, cannot read it: {reason(error)}") from None
    about = os.fstat(fd)
    regular = stat.S_ISREG(about.st_mode)
    if not regular or about.st_size > limit:
        os.close(fd)
        got = f"{about.st_size} bytes" if regular else "something else than a regular file"
        raise DataError(f"{path}: expected {what}, a regular file of at most {limit} bytes, got {got}")
    return os.fdopen(fd, "rb")


def reason(error: Exception) -> str:
    """Why the system refused, as it says itself."""
    return getattr(error, "strerror", None) or str(error)


class Lines:
    """Parses lines of JSON; with ``remember``, equal ones only once: runs of one test suite leave many equal lines."""

    def __init__(self, *, remember: bool) -> None:
        self.remember = remember
        self.known: dict[bytes, Any] = {}

    def parse(self, lines: list[bytes]) -> list[Any]:
        """The values of ``lines``, not to be changed; a line that is no JSON, or has fractions, stays bytes."""
        if not self.remember:
            return parse_lines(lines)
        if len(self.known) > MAX_KNOWN:
            self.known.clear()
        new = [line for line in lines if line not in self.known]
        self.known.update(zip(new, parse_lines(new), strict=True))
        return list(map(self.known.__getitem__, lines))


def parse_lines(lines: list[bytes]) -> list[Any]:
    """The JSON values of ``lines``; a line that is no JSON, or has fractions, stays bytes."""
    joined = b"[" + b",".join(lines) + b"]"
    escapes = joined.split(b"\\")[1:]  # many times faster than to look for backslash and u
    if not any(after.startswith(b"u") for after in escapes):
        with contextlib.suppress(ValueError, RecursionError):
            values: list[Any] = _decode(joined.decode())
            if len(values) == len(lines):
                return values
    return [parse(line) for line in lines]


def parse(line: bytes) -> Any:
    """The JSON value of ``line``, or ``line`` itself if it is none of ours."""
    try:
        return _whole_text(_decode(line.decode()))
    except (ValueError, RecursionError):
        return line


def _whole_text(value: Any) -> Any:
    """``value`` with halves of surrogate pairs, which no file or terminal takes, written out."""
    if type(value) is str:
        return value.encode("utf-8", "backslashreplace").decode()
    if type(value) is list:
        return [_whole_text(item) for item in value]
    if type(value) is dict:
        return {_whole_text(key): _whole_text(item) for key, item in value.items()}
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


_decode = json.JSONDecoder(parse_float=_no_number, parse_constant=_no_number).decode


def show(value: Any) -> str:
    """``value`` in a message: on one line and not long."""
    text = value.decode("utf-8", "backslashreplace").rstrip() if type(value) is bytes else json.dumps(value)
    text = "".join(char if char.isprintable() else " " for char in text[:101])
    return text if len(text) <= 100 else f"{text[:100]}..."


def refuse(value: Any) -> NoReturn:
    """Raise ``TypeError``: whoever knows the place says what was expected."""
    raise TypeError(value)


def integer(value: Any) -> int:
    """``value`` if it is an integer, else ``TypeError``."""
    return value if type(value) is int else refuse(value)


def text(value: Any) -> str:
    """``value`` if it is text, else ``TypeError``."""
    return value if type(value) is str else refuse(value)


def counts(value: Any, width: int) -> list[int]:
    """``value`` if it is a list of ``width`` integers in 0..2**63-1, else ``TypeError``."""
    if type(value) is not list or len(value) != width or set(map(type, value)) != {int}:
        refuse(value)
    return value if min(value) >= 0 and max(value) <= MAX_COUNT else refuse(value)


@functools.lru_cache(maxsize=4096)
def bits(value: Any) -> int:
    """``value``, hexadecimal text of at most 4,096 digits without a prefix, as an integer, else ``TypeError``."""
    return int(value, 16) if _HEXADECIMAL.fullmatch(value) else refuse(value)


def are_facts(values: Iterable[Any]) -> bool:
    """Are all JSON ``values`` texts, booleans or integers of at most 256 bits? ``TypeError`` for lists and objects."""
    different = set(values)
    integers = [value for value in different if type(value) is int]
    return None not in different and max(map(abs, integers), default=0) < MAX_FACT


def facts(value: Any) -> tuple[Value, ...]:
    """``value``, a list of facts, as a tuple, else ``TypeError``."""
    return tuple(value) if type(value) is list and are_facts(value) else refuse(value)


def inputs(value: Any) -> Inputs:
    """``value``, lists of facts that are equally long, as tuples that differ, else ``TypeError``."""
    if type(value) is not list or set(map(type, value)) != {list} or len(set(map(len, value))) != 1:
        refuse(value)
    return tuple(dict.fromkeys(map(tuple, value))) if are_facts(chain.from_iterable(value)) else refuse(value)

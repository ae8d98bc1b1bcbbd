"""Every error that dispatchcov raises on purpose.

::

    DispatchcovError
    ├── ExpressionError      a predicate cannot be parsed or does not type-check
    ├── TableError           a table file cannot be read or is not consistent
    ├── FactsError           facts do not fit the variables of a table
    │   ├── UntotalError     no rule of the table takes them
    │   └── UndefinedError   a predicate divides by zero for them (a ZeroDivisionError too)
    ├── DataError            a shard, data file or trace cannot be read or written
    │   └── DigestError      records of another version of a table
    └── UsageError           options, configuration or arguments do not fit

Each message says what was expected, what was got and, where names are chosen from a set, the known names.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Iterable

MAX_LISTED = 50
MAX_COMPARED = 100


class DispatchcovError(Exception):
    """Base of all errors below; catch it to catch them all."""


class ExpressionError(DispatchcovError):
    """A predicate, guard or derived value is not an expression of the language."""


class TableError(DispatchcovError):
    """A table is unreadable or inconsistent; ``file`` and ``line`` say where (line 0: the whole file)."""

    def __init__(self, message: str, *, file: str = "<table>", line: int = 0) -> None:
        self.message = message
        self.file = file
        self.line = line
        where = f"{file}:{line}" if line else file
        super().__init__(f"{where}: {message}")

    def __reduce__(self) -> tuple[Callable[..., TableError], tuple[str, str, int]]:
        return _table_error, (self.message, self.file, self.line)


def _table_error(message: str, file: str, line: int) -> TableError:
    return TableError(message, file=file, line=line)


class FactsError(DispatchcovError):
    """Facts are missing, unknown or of the wrong type for the variables of a table."""


class UntotalError(FactsError):
    """No rule takes the facts."""


class UndefinedError(FactsError, ZeroDivisionError):
    """A predicate that is read divides by zero: for these facts the table decides nothing."""


class DataError(DispatchcovError):
    """A shard or data file is not readable, not writable or not one of ours."""


class DigestError(DataError):
    """Records were made with another version of a table than the one in use."""


class UsageError(DispatchcovError):
    """An option, a configuration key or an argument is wrong."""


def known(name: str, names: Iterable[str]) -> str:
    """The tail of a message about an unknown ``name``: a suggestion if one is close, and all known names."""
    choices = list(names)
    close = _close(name, choices[:1000]) if len(name) <= MAX_COMPARED else None
    hint = f"did you mean {close!r}? " if close is not None else ""
    listed = ", ".join(choices[:MAX_LISTED]) if choices else "none"
    more = f" and {len(choices) - MAX_LISTED} more" if len(choices) > MAX_LISTED else ""
    return f"{hint}known: {listed}{more}"


def _close(name: str, choices: list[str]) -> str | None:
    """The choice most like ``name``; one that differs only in upper and lower case is the closest."""
    lowered = [choice.lower() for choice in choices]
    found = [name.lower()] if name and name.lower() in lowered else []
    found = found or difflib.get_close_matches(name.lower(), lowered, n=1)
    return choices[lowered.index(found[0])] if found else None


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 100
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write an integer of more than 4300 digits in decimal.
        return repr(x) if abs(x) < 1 << 128 else f"<{x.bit_length()} bits>"


_BRIEF = _Brief()


def brief(value: object) -> str:
    """``value``, perhaps a stranger's, for a message: its source text on one line, cut where it is long."""
    return _BRIEF.repr(value)

"""Standard output as all commands need it: no character is too much for it, and where it fails, that is said."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO


def printed(command: Callable[[], int]) -> int:
    """The exit status of ``command``; 1, and standard error says why, if what it prints cannot be written.

    A reader that wants no more, as ``head``, is told nothing. Characters that the encoding lacks are escaped.
    """
    with _escaping(sys.stdout):
        try:
            try:
                return command()
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except OSError as error:
            if error.filename is not None:
                raise
            if not isinstance(error, BrokenPipeError):
                with contextlib.suppress(OSError):
                    print(f"dispatchcov: cannot write the output: {error.strerror or error}", file=sys.stderr)
            _discard(sys.stdout)
            _discard(sys.stderr)
            return 1


@contextlib.contextmanager
def _escaping(stream: TextIO | None) -> Iterator[None]:
    reconfigure, errors = getattr(stream, "reconfigure", None), getattr(stream, "errors", None)
    if reconfigure is None:
        yield
        return
    reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            reconfigure(errors=errors)


def _discard(stream: TextIO | None) -> None:
    """What ``stream`` still holds goes nowhere, if it cannot be written: the interpreter would try again as it ends."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)

"""The files that a run reads and writes, looked at before anything runs: nothing that is needed is overwritten."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence

from dispatchcov import store
from dispatchcov.config import Settings
from dispatchcov.errors import DataError, UsageError
from dispatchcov.files.data_file import is_data_file
from dispatchcov.report import REPORTS


def look(settings: Settings, reports: Sequence[tuple[str, str]], options: str = "--dispatch-") -> None:
    """Raise :class:`UsageError` unless the files of ``settings`` can be read, the others written, each for one purpose.

    ``reports`` are types with their destinations, ``options`` is what the names of options begin with.
    """
    for kind, destination in reports:
        writable(destination, f"{options}report", folder=bool(REPORTS[kind].file))
    writable(settings.trace, f"{options}trace")
    _readable(settings, options)
    written = [(f"{options}report={kind}", _file(kind, destination)) for kind, destination in reports if destination]
    written += [(f"{options}trace", settings.trace)] if settings.trace else []
    read = [(f"{options}table", spec) for spec in settings.table if spec.endswith(".toml")]
    read += [(f"{options}baseline", settings.baseline)] if settings.baseline else []
    read += [(f"{options}weights", settings.weights)] if settings.weights else []
    read += [(f"{options}stored", file) for file in settings.stored]
    apart(dict.fromkeys(written), [(f"{options}data", settings.data), *read])
    if not settings.append:
        records = [each for each in read if each[0] in (f"{options}weights", f"{options}stored")]
        apart([(f"{options}data", settings.data)], records)


def apart(written: Iterable[tuple[str, str]], others: Iterable[tuple[str, str]]) -> None:
    """Raise :class:`UsageError` if a file ``written``, with what it is for, is another of these or of ``others``.

    A TOML file that is there is not overwritten either: it may be a table.
    """
    taken: dict[str, str] = {}
    for purpose, path in others:
        taken.setdefault(os.path.realpath(path), purpose)
    for purpose, path in written:
        place = os.path.realpath(path)
        regular = not os.path.exists(place) or os.path.isfile(place)  # several may go to /dev/null
        if regular and place in taken:
            raise UsageError(
                f"{purpose}: expected a file of its own to write, got {path}, which is that of {taken[place]}"
            )
        if path.endswith(".toml") and os.path.exists(path):  # perhaps a table that decides without being named
            raise UsageError(
                f"{purpose}: expected a file that may be overwritten, got {path}, a TOML file that is there already"
            )
        taken[place] = purpose


def _readable(settings: Settings, options: str) -> None:
    try:
        if settings.weights and not is_data_file(settings.weights):
            store.load(settings.weights)
        for pattern in settings.stored:
            files = glob.glob(pattern)
            if not files:
                raise DataError(f"{pattern}: expected a data file to bring in, got none")
            for file in files:
                if not is_data_file(file):
                    store.load(file, shards=False)
    except DataError as error:
        raise UsageError(str(error)) from None


def _file(kind: str, destination: str) -> str:
    return os.path.join(destination, REPORTS[kind].file) if REPORTS[kind].file else destination


def writable(path: str, option: str, *, folder: bool = False) -> None:
    """Raise :class:`UsageError` that names ``option`` if ``path`` cannot be written, or holds what is needed."""
    if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UsageError(f"{option}: expected a folder to write {path} into, got none")
    if path and not folder and os.path.isdir(path):
        raise UsageError(f"{option}: expected a file to write to, got the folder {path}")
    if path and not os.access(path if os.path.exists(path) else os.path.dirname(os.path.abspath(path)), os.W_OK):
        raise UsageError(f"{option}: expected a place that can be written to, got {path}, where that is not allowed")
    if path and folder and os.path.exists(path) and not os.path.isdir(path):
        raise UsageError(f"{option}: expected a folder to write to, got the file {path}")

"""What ``dispatchcov compare`` can be given: data files and baselines, in the file system or in a revision of git."""

from __future__ import annotations

import os
import subprocess
import tempfile

from dispatchcov import store
from dispatchcov.compare import baseline
from dispatchcov.compare.sides import Reached, of_baseline, of_data
from dispatchcov.errors import DataError, UsageError
from dispatchcov.files.data_file import whose
from dispatchcov.files.untrusted import open_regular
from dispatchcov.records import Data
from dispatchcov.results import same_versions

WANTED = "a data file, a baseline, REV:PATH or a revision"


def side(spec: str, baseline_file: str) -> Reached:
    """The side that ``spec`` names: a file, ``REV:PATH``, or a revision, whose ``baseline_file`` is meant.

    Raises :class:`~dispatchcov.errors.DispatchcovError` for anything else.
    """
    if _is_file(spec):
        if baseline.is_baseline(_head(spec)):
            return of_baseline(spec, baseline.read(spec))
        return _of_data(spec, store.load(spec))
    if spec.startswith("-"):
        raise UsageError(f"compare: expected {WANTED}, got {spec!r}, which is no file and looks like an option")
    if ":" in spec:
        return _of_content(spec, _blob(spec))
    if _git("rev-parse", "--verify", "--quiet", f"{spec}^{{commit}}").returncode:
        raise UsageError(f"compare: expected {WANTED}, got {spec!r}, which is no file and no revision of git here")
    if not baseline_file:
        raise UsageError(
            f"compare: expected the baseline of revision {spec} to be named: give {spec}:PATH or --baseline=FILE, "
            "or set baseline in [tool.dispatchcov]"
        )
    path = os.path.relpath(os.path.realpath(baseline_file), os.path.realpath(os.curdir)).replace(os.sep, "/")
    return _of_content(f"{spec}:{path}", _blob(f"{spec}:{path if path.startswith('../') else f'./{path}'}"))


def is_revision(spec: str) -> bool:
    """Does ``spec`` name a revision of git and no file in it, so that its baseline is meant?"""
    return not _is_file(spec) and ":" not in spec


def _is_file(spec: str) -> bool:
    return os.path.lexists(spec) or bool(store.shards_beside(spec))


def records(data_file: str) -> Reached:
    """The side that the records of ``data_file`` and the shards beside it are."""
    return _of_data(data_file, store.load(os.path.abspath(data_file)))


def _of_data(name: str, data: Data) -> Reached:
    return of_data(name, data, same_versions(data, ()))


def _of_content(name: str, content: bytes) -> Reached:
    if whose(content[:100]) is None:
        return of_baseline(name, baseline.parse(content, name))
    with tempfile.TemporaryDirectory(prefix="dispatchcov-") as folder:
        path = os.path.join(folder, "data")
        with open(path, "wb") as stream:
            stream.write(content)
        try:
            data = store.load(path, shards=False)
        except DataError as error:
            raise DataError(str(error).replace(path, name)) from None
    return _of_data(name, data)


def _head(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    with open_regular(path, "a data file or a baseline", baseline.MAX_BYTES) as stream:
        return stream.read(100)


def _blob(spec: str) -> bytes:
    """The content of ``REV:PATH``, as it is stored: no filter or program that a repository names is run."""
    found = _git("cat-file", "blob", spec)
    if found.returncode:
        said = found.stderr.decode("utf-8", "replace").strip()
        raise UsageError(f"compare: expected {WANTED}, got {spec!r}, which is no file; git: {said}")
    return found.stdout


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    except OSError as error:
        raise UsageError(f"compare: cannot run git: {error.strerror or error}") from None

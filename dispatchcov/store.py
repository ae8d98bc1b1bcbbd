"""Where records are kept: shards, which processes append to, and the data file, which holds them merged."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import socket
from collections.abc import Iterable, Iterator

from dispatchcov.errors import DataError
from dispatchcov.files.data_file import is_data_file, is_sqlite, write
from dispatchcov.files.data_file_read import read
from dispatchcov.files.fitting import kept
from dispatchcov.files.flight_read import IN_FLIGHT, NONE_IN_FLIGHT
from dispatchcov.files.merge import merge
from dispatchcov.files.shard import COMPANIONS
from dispatchcov.files.shard_read import read_shard, read_shards
from dispatchcov.files.untrusted import reason
from dispatchcov.records import Data, Shard

__all__ = ["combine", "erase", "load", "load_records", "merge", "read_shard", "save", "shards_beside"]

_SHARD = re.compile(r"\.[^.]+\.\d+\.[0-9a-f]{12}\.jsonl")
_COMPANIONS = "|".join(map(re.escape, COMPANIONS))
_OURS = re.compile(rf"({_SHARD.pattern}({_COMPANIONS})?|\.[0-9a-f]{{12}}\.tmp)")
_COMPANION = re.compile(rf"(?P<shard>.*{_SHARD.pattern})({_COMPANIONS})", re.DOTALL)

Path = str | os.PathLike[str]
MAKES_DATA = "`pytest --dispatch-report` and `dispatchcov run -- COMMAND` make some"


def shards_beside(data_file: Path) -> list[str]:
    """The paths of the shards that were recorded for ``data_file``, sorted."""
    return _beside(data_file, _SHARD)


def load(data_file: Path, *, shards: bool = True) -> Data:
    """What ``data_file`` and, with ``shards``, the shards beside it hold; :class:`DataError` if there is neither.

    A shard that cannot be read does not keep the others from being read: it has no rows and a problem that says why.
    Rows that do not fit the table they name are left out of a shard, with a problem; of a data file they are an error.
    """
    path = os.fspath(data_file)
    beside = shards_beside(path) if shards else []
    with _undisturbed():
        there = [read(path)] if os.path.lexists(path) else []
        data = merge(*there, *map(kept, read_shards(beside)))
    if not there and not data.shards:
        wanted = "a data file or shards beside it, got neither" if shards else "a data file, got none"
        raise DataError(f"{path}: no data: expected {wanted}; {MAKES_DATA}")
    return data


def save(data_file: Path, data: Data) -> None:
    """Make ``data_file`` hold ``data``, as a whole or not at all; raises :class:`DataError`."""
    write(os.fspath(data_file), data)


load_records = load  # its public name: that of a module would hide it


def combine(data_file: Path, paths: Iterable[Path] = (), *, remove: bool = False) -> Data:
    """Merge ``paths`` into ``data_file`` and return all that it holds then.

    ``paths`` are shards, data files or directories that hold some; without any, the shards beside ``data_file``. What
    is kept beside a shard may be named too: it is read with its shard. With
    ``remove`` the inputs are removed once the data file is written, but for shards that had problems or whose process
    still runs. Raises :class:`DataError`, before anything is changed, if there is no input or one cannot be read, but
    for shards that were not named themselves: of these the data file holds what :func:`load` gives.
    """
    path = os.fspath(data_file)
    with _alone(path), _undisturbed():
        named = [_shard_of(os.fspath(given)) for given in paths]
        inputs = [name for given in named for name in _inputs(given)] or shards_beside(path)
        inputs = [name for name in dict.fromkeys(inputs) if not _same(name, path)]
        there = [read(path)] if os.path.lexists(path) else []
        merged = {name: read(name) for name in inputs if is_sqlite(name)}
        single = [name for name in inputs if name not in merged]
        shards = dict(zip(single, map(kept, read_shards(single, refuse=named)), strict=True))
        data = merge(*there, *merged.values(), *shards.values())
        if not there and not any(shard.lines or shard.problems for shard in data.shards):
            wanted = "a data file, shards beside it or paths with some, got none"
            raise DataError(f"{path}: no data: expected {wanted}; {MAKES_DATA}")
        save(path, data)
        if remove:
            _remove(merged)
            done = [name for name, found in shards.items() if any(map(_done, found.shards))]
            _remove(name + companion for name in done for companion in ("", *COMPANIONS))
    return data


def crashes(data_file: Path) -> list[str]:
    """The launches in flight when processes that recorded for ``data_file`` ended without a word, in words."""
    notes = (note for name in shards_beside(data_file) for note in _notes(name))
    return [note for note in notes if note.startswith((IN_FLIGHT, NONE_IN_FLIGHT))]


def _notes(shard: str) -> tuple[str, ...]:
    try:
        return tuple(note for found in read_shard(shard).shards for note in found.notes)
    except DataError:
        return ()


def erase(data_file: Path) -> int:
    """Remove ``data_file``, its shards and what else is kept beside it; how many files that were.

    Raises :class:`DataError` if ``data_file`` is not one of ours.
    """
    path = os.fspath(data_file)
    names = _beside(path, _OURS)
    if os.path.lexists(path):
        if not is_data_file(path):
            raise DataError(f"{path}: expected a data file of dispatchcov, got another file; it is not removed")
        names.append(path)
    return _remove(names)


def _beside(data_file: Path, pattern: re.Pattern[str]) -> list[str]:
    folder, name = os.path.split(os.fspath(data_file))
    try:
        with os.scandir(folder or ".") as entries:
            found = [entry.name for entry in entries if entry.name.startswith(name) and not entry.is_dir()]
    except OSError:
        return []
    return [os.path.join(folder, other) for other in sorted(found) if pattern.fullmatch(other, len(name))]


def _inputs(path: str) -> list[str]:
    """The shards and data files that ``path`` is or, as a directory, holds."""
    if not os.path.lexists(path):
        raise DataError(f"{path}: expected a shard, a data file or a directory that holds some, got none")
    if not os.path.isdir(path):
        _refuse_empty(path)
        return [path]
    try:
        names = sorted(os.path.join(path, name) for name in os.listdir(path))
    except OSError as error:
        raise DataError(f"{path}: expected a directory that can be read: {reason(error)}") from None
    found = [name for name in names if re.search(f"{_SHARD.pattern}$", name) or is_data_file(name)]
    if not found:
        raise DataError(f"{path}: no data: expected shards or data files in the directory, got none; {MAKES_DATA}")
    return found


def _shard_of(path: str) -> str:
    """``path`` or, where it is the companion of a shard, that shard."""
    companion = _COMPANION.fullmatch(path)
    if companion is None or not os.path.lexists(path):
        return path
    if not os.path.lexists(companion["shard"]):
        shard = os.path.basename(companion["shard"])
        raise DataError(f"{path}: expected the shard that it belongs to beside it, {shard}, got none")
    return companion["shard"]


def _refuse_empty(path: str) -> None:
    """Raise :class:`DataError` for an empty file, unless it is a shard whose process had written nothing yet."""
    if os.path.isfile(path) and not os.path.getsize(path) and not re.search(f"{_SHARD.pattern}$", path):
        raise DataError(f"{path}: expected a shard or a data file, got an empty file")


def _same(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


def _done(shard: Shard) -> bool:
    """Was all of the shard read, and will its process write no more? An empty one may be just begun."""
    return shard.lines > 0 and not shard.problems and (shard.ended or not _runs(shard))


def _runs(shard: Shard) -> bool:
    if shard.host != socket.gethostname():
        return False
    try:
        os.kill(shard.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _remove(paths: Iterable[str]) -> int:
    count = 0
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DataError(f"{path}: cannot remove it: {reason(error)}") from None
        count += 1
    return count


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """One process at a time merges in a directory: of two, the second would undo what the first did meanwhile."""
    fd = -1
    try:
        import fcntl

        fd = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
    except (ImportError, OSError):  # not every system and file system has such locks
        pass
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No cyclic garbage collection: it would look again and again at the many objects that reading makes."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # what there is now counts as old, and is not looked at again soon
                gc.freeze()
                gc.unfreeze()
            gc.enable()

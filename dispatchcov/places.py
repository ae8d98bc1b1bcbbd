"""Where the parts of a table stand, in files that are here: a run elsewhere knew its table by another path.

A table that extends another has two files: the rules stand in one, the requirements in the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from dispatchcov.errors import TableError
from dispatchcov.loading.extend import read_extension
from dispatchcov.loading.load import load_table
from dispatchcov.loading.toml_read import Document, read_text
from dispatchcov.table import Table, Waiver


@dataclass(frozen=True, slots=True)
class Place:
    """A line, from 1, of a file, named as it was found; line 0 if it is not known."""

    file: str
    line: int


class Places:
    """The places of the parts of ``table``: in its files if they are here and say the same, else in its recorded text.

    ``found`` tells which.
    """

    def __init__(self, table: Table) -> None:
        documents = next(_documents(table), None)
        self.found = documents is not None
        self.table = table
        self.rules, self.requirements = documents or 2 * (Document(table.text, table.source),)

    def rule(self, index: int, *key: str | int) -> Place:
        """Where rule ``index`` begins, or a key of it stands."""
        return Place(self.rules.source, self.rules.lines.of("rule", index, *key))

    def kernel(self, name: str) -> Place:
        """Where the kernel called ``name`` begins."""
        names = [kernel.name for kernel in self.table.kernels]
        return Place(self.rules.source, self.rules.lines.of("kernel", names.index(name)))

    def partition(self, name: str) -> Place:
        """Where the partition called ``name`` begins; the rule that it stands for, in a table that names none."""
        index = [partition.name for partition in self.table.partitions].index(name)
        if not self.requirements.root.tables("partition"):
            return self.rule(self.table.partitions[index].rules[0])
        return Place(self.requirements.source, self.requirements.lines.of("partition", index))

    def waiver(self, partition: str) -> Place | None:
        """Where the waiver of ``partition`` begins, if it has one."""
        return next((place for waiver, place in self.waivers() if waiver.partition == partition), None)

    def waivers(self) -> Iterator[tuple[Waiver, Place]]:
        """Each waiver, and where it begins."""
        for index, waiver in enumerate(self.table.waivers):
            yield waiver, Place(self.requirements.source, self.requirements.lines.of("waiver", index))


def _documents(table: Table) -> Iterator[tuple[Document, Document]]:
    """The file of the rules and that of the requirements of ``table``, often the same one, wherever they are found."""
    for path in _candidates(table.source):
        try:
            document = Document(read_text(path), path)
            base = read_extension(document).base if "extends" in document.root.table("table") else document
            if load_table(path).digest == table.digest:
                yield base, document
        except TableError:
            continue


def _candidates(source: str) -> Iterator[str]:
    """Files that may be what ``source`` was where it was recorded: it, then the longest end of it that is here."""
    parts = [part for part in PurePath(source).parts if part not in ("..", os.sep)]
    for path in (source, *(os.path.join(*parts[start:]) for start in range(len(parts)))):
        if os.path.isfile(path):
            yield path


def from_here(path: str) -> str:
    """``path`` from the working directory, with forward slashes, if it lies in it; else the absolute path."""
    return _from(path, os.getcwd())


def from_root(path: str) -> str:
    """``path`` from the root of the repository that the working directory is in."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    return _from(path, str(root))


def _from(path: str, folder: str) -> str:
    relative = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
    return PurePath(path if relative.split(os.sep)[0] == ".." else relative).as_posix()

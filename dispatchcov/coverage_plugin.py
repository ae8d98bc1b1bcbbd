"""A plugin of coverage.py: dispatch tables are files of its reports, with their rules as lines and tests as contexts.

::

    [tool.coverage.run]
    plugins = ["dispatchcov.coverage_plugin"]

    [tool.coverage.dispatchcov.coverage_plugin]     # if the records are not where they usually are
    data = "records"

Lines are not traced: the records of a pytest run say which were reached, and by which tests. They are put into
coverage's data when a run ends that ``coverage run`` started, else into ``.coverage.dispatchcov`` beside the data file,
for ``coverage combine --append``. Which machines decided is kept there too, as contexts of no line: reports leave out
what needs other hardware than they, or those of the records, had. Without either every line counts but those proved
unreachable or waived.

``coverage combine`` adds up machines as it does lines: a process that decided nothing has none to add.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import coverage
from coverage import CoverageData, CoveragePlugin, FileReporter

from dispatchcov import config, store
from dispatchcov.errors import TableError, UsageError
from dispatchcov.loading.load import load_table
from dispatchcov.places import from_here
from dispatchcov.records import Data, Machine
from dispatchcov.results import Results
from dispatchcov.table_lines import FileLines, files

if TYPE_CHECKING:
    from coverage.plugin_support import Plugins
    from coverage.types import TArc, TConfigurable, TLineNo

NAME = "dispatchcov.coverage_plugin"

_loaded: list[TablePlugin] = []


def coverage_init(reg: Plugins, options: Mapping[str, Any]) -> None:
    """Called by coverage.py. The option ``data`` is where the records are kept."""
    plugin = TablePlugin(str(options.get("data", "")))
    # Not as a file tracer: nothing is traced, and not every core of coverage.py has those. Files are found by name.
    reg.add_configurer(plugin)
    _loaded[:] = [plugin]


def add(results: Results) -> str:
    """Put ``results`` into the data of the coverage.py that loaded this plugin here; the path of a file of our own.

    Without such a coverage.py, or where the running one takes the lines itself, the path is "". Raises
    :class:`UsageError` if the data cannot be written.
    """
    try:
        return _loaded[0].add(results) if _loaded else ""
    except coverage.CoverageException as error:
        raise UsageError(f"coverage.py: expected to add the lines of dispatch tables to its data: {error}") from None


class TablePlugin(CoveragePlugin):
    """Knows coverage.py's settings where it measures, and the lines of tables where it reports."""

    def __init__(self, records: str) -> None:
        self.records = records
        self.data_file = ".coverage"
        self.branch = self.relative = False
        self.context: str | None = None
        self._machines: frozenset[Machine] | None = None
        self._files: dict[str, FileLines] | None = None

    def configure(self, config: TConfigurable) -> None:
        """Keep what the data of this run will be like."""
        self.data_file = os.path.abspath(str(config.get_option("run:data_file")))
        self.branch = bool(config.get_option("run:branch"))
        self.relative = bool(config.get_option("run:relative_files"))
        context = config.get_option("run:context")
        self.context = str(context) if context else None

    def add(self, results: Results) -> str:
        running = coverage.Coverage.current()
        if running is not None and NAME in (running.get_option("run:plugins") or ()):  # type: ignore[operator]
            self.put(running.get_data(), results)
            return ""
        data = CoverageData(basename=self.data_file, suffix="dispatchcov")
        self.put(data, results)
        data.write()
        return from_here(data.data_filename())

    def put(self, data: CoverageData, results: Results) -> None:
        """Add the lines that ``results`` reached to ``data``, each under the tests that did."""
        machines = sorted(_machines(results), key=repr)
        for file in filter(lambda file: file.here, files(results)):
            path = os.path.realpath(file.path)
            path = os.path.relpath(path) if self.relative else path
            for context, reached in sorted(_reached(file).items()):
                self.line(data, path, context or self.context, reached)
            for machine in machines:
                self.line(data, path, f"{NAME} {json.dumps(machine)}", set())
            data.set_context(self.context)
            data.add_arcs({}) if self.branch else data.add_lines({})
            data.touch_file(path, f"{NAME}.{type(self).__name__}")

    def line(self, data: CoverageData, path: str, context: str | None, reached: set[TArc]) -> None:
        """Add what ``context`` reached in ``path`` to ``data``, as lines or as arcs."""
        data.set_context(context)
        if self.branch:
            data.add_arcs({path: reached})
        else:
            data.add_lines({path: {end for _, end in reached if end > 0}})

    def machines(self) -> frozenset[Machine]:
        """Those that decided, as coverage's data say."""
        if self._machines is None:
            contexts: set[str] = set()
            if os.path.exists(self.data_file):
                data = CoverageData(basename=self.data_file)
                data.read()  # or it would be erased
                contexts = data.measured_contexts()
            self._machines = frozenset(found for text in contexts if (found := _machine(text)) is not None)
        return self._machines

    def file_reporter(self, filename: str) -> FileReporter:
        """The reporter of a table: as it was judged when recorded or, without records, by itself."""
        if self._files is None:
            self._files = {os.path.realpath(file.path): file for file in files(self._recorded())}
        path = os.path.realpath(filename)
        if not os.path.isfile(path):
            raise coverage.exceptions.NoSource(f"No source for code: {filename!r}.")
        if path not in self._files:
            self._files |= {os.path.realpath(file.path): file for file in files(self._unrecorded(path))}
        return TableReporter(filename, self._files[path])

    def _recorded(self) -> Results:
        data = self.records or config.read(os.getcwd(), {}).data
        there = os.path.exists(data) or store.shards_beside(os.path.abspath(data))
        return Results.of(store.load(os.path.abspath(data)) if there else Data(), machines=self.machines())

    def _unrecorded(self, path: str) -> Results:
        try:
            return Results.of(Data(), (load_table(path),), machines=self.machines())
        except TableError as error:
            raise coverage.exceptions.NoSource(f"No dispatch table: {error}") from None


def _machines(results: Results) -> set[Machine]:
    ops = {table.table.digest: table.table.op for table in results.tables}
    return {Machine(ops[row.digest], row.machine, row.hardware) for row in results.data.rows if row.digest in ops}


def _machine(context: str) -> Machine | None:
    """The machine that ``context`` is, if it is one."""
    try:
        op, label, hardware = json.loads(context.removeprefix(f"{NAME} "))
        return Machine(str(op), str(label), tuple(hardware)) if context.startswith(NAME) else None
    except (ValueError, TypeError):
        return None


def _reached(file: FileLines) -> dict[str, set[TArc]]:
    """What each test reached, "" for code that is no test: lines as arcs from nowhere, and jumps of guards."""
    found: dict[str, set[TArc]] = defaultdict(set)
    for line in file.lines:
        if line.complete:
            for test in line.tests or ("",):
                found[test].add((-1, line.number))
    for jump in file.jumps:
        if jump.hits:
            for test in jump.tests or ("",):
                found[test].add((jump.start, jump.end))
    return found


class TableReporter(FileReporter):
    """What coverage.py asks about the lines of one file; guards are its branches."""

    def __init__(self, filename: str, lines: FileLines) -> None:
        super().__init__(filename)
        self.found = lines
        self.jumps = {(jump.start, jump.end): jump for jump in lines.jumps}

    def lines(self) -> set[TLineNo]:
        return {line.number for line in self.found.lines}

    def excluded_lines(self) -> set[TLineNo]:
        """What does not count: unreachable, elsewhere, waived, illegal or not required."""
        return set(self.found.spared)

    def arcs(self) -> set[TArc]:
        return set(self.jumps)

    def exit_counts(self) -> dict[TLineNo, int]:
        counts: dict[TLineNo, int] = defaultdict(int)
        for start, _ in self.jumps:
            counts[start] += 1
        return counts

    def missing_arc_description(self, start: TLineNo, end: TLineNo, executed_arcs: Iterable[TArc] | None = None) -> str:
        return self._never(start, end) or super().missing_arc_description(start, end, executed_arcs)

    def arc_description(self, start: TLineNo, end: TLineNo) -> str:
        jump = self.jumps.get((start, end))
        return jump.text if jump else super().arc_description(start, end)

    def _never(self, start: TLineNo, end: TLineNo) -> str:
        jump = self.jumps.get((start, end))
        return jump.text.replace(" was ", " was never ") if jump else ""

    def source_token_lines(self) -> Iterator[list[tuple[str, str]]]:
        """The source as it is: TOML is not coloured."""
        for line in self.source().splitlines():
            yield [("txt", line)]

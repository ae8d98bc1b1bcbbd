"""The report for LCOV and all that reads its tracefiles: Codecov, ``genhtml``, the gutters of editors.

Written by the description of the format in ``geninfo(1)``: rules and kernels are functions, predicates branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from dispatchcov.gate import Verdict
from dispatchcov.places import from_here
from dispatchcov.results import Results
from dispatchcov.table_lines import FileLines, Line, files


def render(results: Results, verdict: Verdict) -> str:
    """A tracefile with one record for each file of a table, by its path from the working directory."""
    del verdict
    return "".join(f"{line}\n" for file in files(results) for line in _record(file))


def _record(file: FileLines) -> Iterator[str]:
    yield "TN:"
    yield f"SF:{_field(from_here(file.path))}"
    for function in file.functions:
        yield f"FN:{function.line},{_field(function.name)}"
    for function in file.functions:
        yield f"FNDA:{function.hits},{_field(function.name)}"
    yield f"FNF:{len(file.functions)}"
    yield f"FNH:{sum(function.hits > 0 for function in file.functions)}"
    branches = [branch for line in file.lines for branch in line.branches]
    for line in file.lines:
        yield from _branches(line)
    yield f"BRF:{len(branches)}"
    yield f"BRH:{sum(branch.hits > 0 for branch in branches)}"
    for line in file.lines:
        yield f"DA:{line.number},{line.hits}"
    yield f"LF:{len(file.lines)}"
    yield f"LH:{sum(line.hits > 0 for line in file.lines)}"
    yield "end_of_record"


def _branches(line: Line) -> Iterator[str]:
    """A line that was never evaluated has branches of which nothing is known: ``-``."""
    for branch in line.branches:
        yield f"BRDA:{line.number},{branch.block},{branch.number},{branch.hits if line.hits else '-'}"


def _field(text: str) -> str:
    """``text`` for a field that a line break would end and, as readers of the format split it, a comma."""
    return "".join(c if c.isprintable() and c != "," else "_" for c in text)

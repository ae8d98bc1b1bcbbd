"""The ``dispatchcov`` command: arguments and exit codes only.

Exit status: 0 fine, 1 error or no data, 2 below the bar or a required partition missed; ``run`` gives the
command's own status if
that is not 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

import dispatchcov
from dispatchcov.commands.output import printed
from dispatchcov.errors import DispatchcovError

WRITTEN = {
    "json": "write the report as JSON, format 1",
    "html": "write the report as a page for a browser into a folder (default: dispatchcov-html)",
    "lcov": "write the lines of the tables with their hits as an LCOV tracefile",
    "xml": "write the lines of the tables with their hits as Cobertura XML",
    "markdown": "write the report as Markdown, for the summary of a job",
    "github": "print why the gate failed as annotations of a pull request",
}
REQUIRE_HELP = "partition or rule that must be hit, also as 'NAME observed, checked on sm_90'; repeatable"
EVIDENCE_HELP = "evidence that a hit needs to count: selected, launched, observed, checked (comma-separated)"
DATA_HELP = "where the records are kept; shards beside it are read too (default: .dispatchcov, or DISPATCHCOV_DATA)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's) and return the exit status."""
    return printed(lambda: _main(list(sys.argv[1:] if argv is None else argv)))


def _main(arguments: list[str]) -> int:
    parser = _parser()
    command: list[str] = []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, command = arguments[:cut], arguments[cut + 1 :]
    options, rest = parser.parse_known_args(arguments)
    if rest:
        given = " ".join(arguments[arguments.index(rest[0]) :])
        hint = f"; the command stands after --: dispatchcov run -- {given}" if options.action == "run" else ""
        options.usage.error(f"unrecognized arguments: {' '.join(rest)}{hint}")
    if command and options.action != "run":
        options.usage.error(f"a command after -- goes with run, not with {options.action}")
    options.command = command
    try:
        status: int = getattr(_home(options.action), options.action)(options)
        return status
    except DispatchcovError as error:
        print(f"dispatchcov: {error}", file=sys.stderr)
        return 1


def _home(action: str) -> ModuleType:
    """The module of ``action``; what reads only a table does not wait for the import of all that reads records."""
    if action in ("mutate", "suggest"):
        from dispatchcov.commands import missing as missing_commands

        return missing_commands
    if action == "compare":
        from dispatchcov.commands import compare as compare_commands

        return compare_commands
    if action == "init":
        from dispatchcov.commands import init as init_commands

        return init_commands
    if action in ("check", "regions"):
        from dispatchcov.commands import tables as table_commands

        return table_commands
    if action == "cpp":
        from dispatchcov.commands import cpp as cpp_commands

        return cpp_commands
    from dispatchcov.commands import records as commands

    return commands


class _Parser(argparse.ArgumentParser):
    """Wrong usage is an error, status 1: 2 means below the bar."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: {message}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)  # argparse itself keeps silent where that fails


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dispatchcov", description="Dispatch coverage: which kernel did the tests really run?")
    parser.add_argument("--version", action="version", version=f"dispatchcov {dispatchcov.__version__}")
    actions = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(usage=sub)
        return sub

    run = add("run", "run a command (after --) with recording on, then report")
    run.add_argument("--append", action="store_true", help="keep the records of earlier runs")
    report = add("report", "print the report of the records")
    kinds = [add(name, text) for name, text in WRITTEN.items()]
    for name, sub in zip(WRITTEN, kinds, strict=True):
        sub.set_defaults(action="written", kind=name)
    for sub in (run, report, *kinds):
        _data(sub)
        _judging(sub)
        sub.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of the terminal")
        sub.add_argument("-q", "--quiet", action="store_true", help="print only why the gate failed")
    for sub in (run, report):
        sub.add_argument("--format", choices=("text", *WRITTEN), default="text", help="default: text")
    run.usage = run.format_usage().removeprefix("usage: ").rstrip() + " -- COMMAND ..."
    combine = add("combine", "merge shards and data files into the data file; merging twice changes nothing")
    combine.add_argument("paths", nargs="*", metavar="PATH", help="shards, data files or directories that hold them")
    combine.add_argument("--remove", action="store_true", help="remove the inputs once they are merged")
    combine.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    erase = add("erase", "remove the data file and its shards")
    erase.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    explain = add("explain", "show the decision for an input, predicate by predicate")
    explain.add_argument("table", metavar="TABLE", help="FILE.toml or MODULE:ATTR")
    explain.add_argument("facts", nargs="*", metavar="VAR=VALUE", help="the input, one value for each variable")
    regions = add("regions", "list every feasible region of a table with the smallest input that reaches it")
    regions.add_argument("table", metavar="TABLE", help="FILE.toml or MODULE:ATTR")
    regions.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    regions.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of the terminal")
    check = add("check", "find faults of tables before anything runs; exit status 2 if one is an error")
    check.add_argument("tables", nargs="+", metavar="TABLE", help="FILE.toml or MODULE:ATTR")
    check.add_argument("--format", choices=("text", "json", "github"), default="text", help="default: text")
    check.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of the terminal")
    cpp = add("cpp", "write a table as a C++ header that decides and records, or check such a header")
    what = cpp.add_mutually_exclusive_group(required=True)
    what.add_argument("--include", action="store_true", help="print the folder of dispatchcov.hpp, for -I")
    what.add_argument("--generate", metavar="TABLE", help="write the header of a table: FILE.toml or MODULE:ATTR")
    what.add_argument("--check", nargs=2, metavar=("HEADER", "TABLE"), help="fail unless HEADER is what TABLE gives")
    cpp.add_argument("--namespace", default="", metavar="NAME", help="for --generate (default: by the operator's name)")
    cpp.add_argument("-o", "--output", metavar="FILE", help="write the header to FILE instead of the terminal")
    init = add("init", "write a first table from a function's if-chain, Python or C++; exit status 2 if some was left")
    init.add_argument("source", metavar="FILE[:FUNCTION]", help="source file and function (or a line of it)")
    init.add_argument("--op", metavar="NAME", help="operator of the table (default: FILE::FUNCTION)")
    init.add_argument(
        "-D", "--define", action="append", metavar="NAME=VALUE", help="constant of another file; repeatable"
    )
    init.add_argument("-o", "--output", metavar="FILE", help="write the table to FILE, which is not there yet")
    mutate = add("mutate", "list the mutants of guards that the recorded decisions do not notice")
    _data(mutate)
    _measuring(mutate)
    mutate.add_argument("--fail-under", metavar="PCT", help="least percentage of mutants noticed")
    mutate.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    mutate.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of the terminal")
    suggest = add("suggest", "write a pytest for what the recorded tests lack, with the fewest inputs")
    _data(suggest)
    _measuring(suggest)
    suggest.add_argument("--call", default="", metavar="MODULE:FUNCTION", help="what the test calls with the facts")
    suggest.add_argument("--of", metavar="LIST", help="measures to cover, comma-separated (default: all)")
    suggest.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of the terminal")
    compare = add("compare", "show the tests that reach other regions or kernels than they did (drift)")
    compare.add_argument("base", metavar="BASE", help="a data file, a baseline, REV:PATH of one in git, or a revision")
    compare.add_argument("new", nargs="?", metavar="NEW", help="the same, to compare with (default: the records)")
    _data(compare)
    compare.add_argument("--baseline", metavar="FILE", help="the baseline file that a mere revision means")
    compare.add_argument("--fail-on-drift", action="store_true", default=None, help="exit status 2 if a test moved")
    compare.add_argument("--format", choices=("text", "markdown", "json"), default="text", help="default: text")
    compare.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of the terminal")
    debug = add("debug", "show versions, settings, files and tables as dispatchcov sees them")
    for sub in (combine, erase, debug):
        _data(sub)
    bench = add("bench", "measure what recording costs, as ratios within one run")
    bench.add_argument("--quick", action="store_true", help="a tenth of the work: to see that it runs")
    bench.add_argument("--plot", metavar="FILE", help="draw what a call costs, beside other observers: .svg or .png")
    bench.add_argument("-o", "--output", metavar="FILE", help="also write the figures as JSON")
    return parser


def _data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="FILE", help=DATA_HELP)


def _measuring(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("--table", action="append", metavar="TABLE", help="table to judge, FILE.toml or MODULE:ATTR; repeatable")
    add("--stored", action="append", metavar="FILE", help="data file of another run to bring in, less what is stale")
    add("--evidence", action="append", metavar="LIST", help=EVIDENCE_HELP)


def _judging(parser: argparse.ArgumentParser) -> None:
    _measuring(parser)
    add: Any = parser.add_argument
    add("--require", action="append", metavar="NAME", help=REQUIRE_HELP)
    add("--fail-under", metavar="PCT", help="least percentage of required partition bins")
    add("--weights", metavar="FILE", help="data file of a real workload: how much of it takes paths that tests take?")
    add("--complete", action="store_true", help="the runs together are the whole suite: judge what partial runs missed")


if __name__ == "__main__":
    sys.exit(main())

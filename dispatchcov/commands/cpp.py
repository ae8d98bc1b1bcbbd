"""The command ``dispatchcov cpp``: where the header for C++ lies, and headers made from tables."""

from __future__ import annotations

import argparse

from dispatchcov import config
from dispatchcov.commands.tables import FINE, write
from dispatchcov.cpp import header as headers
from dispatchcov.errors import UsageError


def cpp(options: argparse.Namespace) -> int:
    """Print the include folder, write the header of a table, or check one; the exit status."""
    if not options.generate and (options.output or options.namespace):
        option = "-o" if options.output else "--namespace"
        raise UsageError(
            f"cpp: {option} goes with --generate, not with {'--include' if options.include else '--check'}"
        )
    if options.include:
        print(headers.INCLUDE)
        return FINE
    if options.generate:
        return write(options.output, headers.header(config.table(options.generate), options.namespace))
    path, spec = options.check
    table = config.table(spec)
    headers.check(path, table)
    print(f"{path}: made from {table.source}, digest {table.digest[:12]}")
    return FINE

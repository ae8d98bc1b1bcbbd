"""``python -m fp4ops.bench NAME ...``: one of the benchmarks; ``NAME --help`` explains its options.

========  =================================================================================================
name      what it does
========  =================================================================================================
cpu       CPU dequantisers against a table look-up and multiply in torch
host      the host's share of an eager call against torch's linear, with and without recording
gpu       the CUDA kernels against the memory's and cuBLAS's rates, on one GPU: ``reports/h200/bench.json``
plot      draws what ``gpu`` measured: each kernel's time against its ceiling
workload  records what a server would do, with the time of its kernels: what coverage is weighed by
========  =================================================================================================

Each that measures checks results first, and fails if one is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

NAMES = ("cpu", "host", "gpu", "plot", "workload")


def main(arguments: Sequence[str]) -> int:
    """Exit status of the benchmark; 2 for an unknown name."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    name, *rest = arguments
    if name not in NAMES:
        print(f"fp4ops.bench: expected one of {', '.join(NAMES)}, got {name!r}", file=sys.stderr)
        return 2
    status: int = import_module(f"fp4ops.bench.{name}").main(rest)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

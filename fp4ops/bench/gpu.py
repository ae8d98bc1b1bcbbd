"""``python -m fp4ops.bench.gpu``: correctness first, then times on one GPU; JSON to a file, a table on stdout.

Kernel times are medians of durations that the CUDA profiler saw, with their quartiles. *Cold*: 256 MiB were written
between launches. Ceilings are measured in the same run; a rate is given as a share of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import fp4ops
from fp4ops.bench.cases import SECTIONS, Row
from fp4ops.kernels.cuda import DEQUANTIZERS, LAUNCHERS, build
from fp4ops.problem import DTYPE_NAMES, Operands, Problem
from fp4ops.testing import bits, random_call, random_weight, reference

FORMAT = 1
CHECKED = [  # kernel, M, N, K, block_size
    ("Fp4MmaGemvKernel", 1, 4096, 4096, 16),
    ("Fp4MmaGemvKernel", 1, 600, 17408, 16),
    ("Fp4MmaGemvKernel", 8, 2500, 5120, 16),
    ("Fp4MmaGemvKernel", 16, 2500, 5120, 16),
    ("Fp4MmaGemvKernel", 32, 2500, 5120, 16),
    ("Fp4GemvKernel", 8, 2500, 1056, 16),
    ("DequantizeNvFp4FlatKernel", 64, 600, 5120, 16),
    ("DequantizeNvFp4Vec8Kernel", 64, 600, 1032, 6),
    ("DequantizeNvFp4Kernel", 64, 600, 1026, 5),
]


def check() -> list[str]:
    """Every kernel that is timed, compared first: AssertionError if one is wrong. What was checked."""
    done = []
    for dtype in (torch.float16, torch.bfloat16):
        matrix = random_weight(1000, 4096)
        expected = bits(fp4ops.dequantize_nvfp4(*matrix, dtype=dtype))
        for name, dequantize in DEQUANTIZERS.items():
            parts = [part.cuda() for part in matrix]
            result = dequantize(parts[0], parts[1], parts[2], K=4096, block_size=16, dtype=dtype)
            torch.testing.assert_close(bits(result), expected, rtol=0, atol=0, msg=f"{name}: wrong bits")
            done.append(f"{name} {dtype}: bits of 1000 x 4096")
        for name, M, N, K, block_size in CHECKED:
            call = random_call(M, N, K, block_size, dtype, True)
            operands = Operands(*(None if part is None else part.cuda() for part in call))  # type: ignore[arg-type]
            major, minor = torch.cuda.get_device_capability()
            problem = Problem(M, N, K, block_size, DTYPE_NAMES[dtype], True, 10 * major + minor, False)
            reference(call, name, block_size).check(LAUNCHERS[name](problem, operands))
            done.append(f"{name} {dtype}: {M}, {N}, {K}, block {block_size}, within rounding of float64")
    return done


def environment(arguments: Sequence[str], commit: str | None) -> dict[str, Any]:
    """What the numbers depend on, and the command that made them."""
    table = Path(fp4ops.__file__).with_name("dispatch.toml")
    return {
        "command": shlex.join(["python", "-m", "fp4ops.bench.gpu", *arguments]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit or _output("git", "rev-parse", "HEAD"),
        "dispatch_table_sha256": hashlib.sha256(table.read_bytes()).hexdigest(),
        "kernel_sources_sha256": {template: source.digest() for template, source in build.SOURCES.items()},
        "device": torch.cuda.get_device_name(),
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "cuda": torch.version.cuda,
        "nvrtc": build.nvrtc_version(),
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    }


def table(rows: Iterable[Row]) -> str:
    """One line a row: medians and quartiles in microseconds, TB/s and its share of the section's ceiling."""
    rows = list(rows)
    ceilings = {row.variant: row.rate("warm") for row in rows if row.section == "memory"}
    heads = f"{'us':>10}{'quartiles':>17}{'cold':>9}{'TB/s':>7}{'share':>7}"
    lines = [f"{'section':<15}{'problem':<20}{'variant':<31}{heads}"]
    for row in rows:
        start = f"{row.section:<15}{row.problem:<20}{row.variant:<31}"
        if not row.times:
            lines.append(f"{start}{row.note}")
            continue
        kind = next(iter(row.times))
        time, cold = row.times[kind], row.times.get("cold")
        ceiling = ceilings.get("read" if row.section == "decode" else "copy")
        quartiles = f"{time.q25:.1f}-{time.q75:.1f}"
        cold_text = f"{cold.median:9.1f}" if cold else " " * 9
        rate = f"{row.rate(kind):7.2f}" if row.nbytes else " " * 7
        share = f"{row.rate(kind) / ceiling:7.0%}" if row.nbytes and ceiling else ""
        lines.append(f"{start}{time.median:10.1f}{quartiles:>17}{cold_text}{rate}{share}".rstrip())
    return "\n".join(lines)


def document(meta: dict[str, Any], checked: list[str], rows: Iterable[Row], errors: dict[str, str]) -> dict[str, Any]:
    """The report as it is written: JSON, times in microseconds."""
    entries = []
    for row in rows:
        times = {kind: times.as_dict() for kind, times in row.times.items()}
        rates = {kind: round(row.rate(kind), 3) for kind in row.times} if row.nbytes else {}
        entry = {"section": row.section, "problem": row.problem, "variant": row.variant, "bytes": row.nbytes}
        note = {"note": row.note} if row.note else {}
        entries.append({**entry, "us": times, "tb_per_s": rates, **note})
    return {"format": FORMAT, "meta": meta, "checked": checked, "rows": entries, "errors": errors}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: all sections measured; 1: no GPU, a wrong result, or a section failed."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser().parse_args(arguments)
    if not torch.cuda.is_available():
        print("fp4ops.bench.gpu: needs a CUDA GPU and a CUDA build of torch", file=sys.stderr)
        return 1
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    meta, rows, errors = environment(arguments, options.commit), list[Row](), dict[str, str]()
    checked = check()
    print(f"{len(checked)} checks passed", flush=True)
    for name in options.only or SECTIONS:
        try:
            for row in SECTIONS[name]():
                rows.append(row)
        except Exception as failure:  # the other sections still count
            errors[name] = f"{type(failure).__name__}: {failure}"
            traceback.print_exc()
        torch.cuda.empty_cache()
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document(meta, checked, rows, errors), indent=1) + "\n", encoding="utf-8")
        print(f"{name}: done", flush=True)
    print(table(rows))
    for name, error in errors.items():
        print(f"{name}: {error}", file=sys.stderr)
    return 1 if errors else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fp4ops.bench.gpu", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("reports/h200/bench.json"), metavar="FILE", help="where it goes"
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--commit", help="the commit that is measured, where git cannot say")
    return parser


def _output(*command: str) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return result.stdout.strip().splitlines()[0] if result.stdout.strip() else "unknown"


if __name__ == "__main__":
    sys.exit(main())

"""``python -m dispatchcov.adapters.sdpa``: PyTorch's sample inputs, random inputs and witnesses against a table."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dispatchcov import store
from dispatchcov.adapters.torch_operator import Call, Operator, device_of, hardware, machine
from dispatchcov.blackbox import BlackBox
from dispatchcov.errors import DispatchcovError, FactsError, UsageError
from dispatchcov.expr import Value
from dispatchcov.gate import Verdict
from dispatchcov.items import Item
from dispatchcov.measure.groups import grouped
from dispatchcov.measure.mismatches import mismatches
from dispatchcov.measure.table import Measure
from dispatchcov.observers.evidence import KINDS
from dispatchcov.recorder import Recorder
from dispatchcov.recording import record
from dispatchcov.report import render
from dispatchcov.results import Results, TableResults
from dispatchcov.table import Table, show

SHOWN = 5
DTYPES = ("float16", "bfloat16", "float32", "float64")


def samples(operator: Operator, device: str) -> Iterator[tuple[str, Call]]:
    """PyTorch's sample inputs of ``operator`` as calls, each with a name: for each dtype that PyTorch lists for the
    device and is in the table, with and without gradients.
    """
    import torch

    for info in _listed_operators():
        if info.name not in operator.samples or info.variant_test_name:
            continue
        for dtype in sorted(info.supported_dtypes(device), key=str):
            for grad in (False, True):
                if str(dtype).removeprefix("torch.") not in DTYPES:
                    continue
                torch.manual_seed(0)
                for number, sample in enumerate(info.sample_inputs(device, dtype, requires_grad=grad)):
                    arguments, named = operator.samples[info.name](sample)
                    kind = f"{str(dtype).removeprefix('torch.')}{', grad' if grad else ''}"
                    yield f"{info.name.removeprefix('nn.functional.')}[{kind}]#{number}", Call(arguments, named)


def _listed_operators() -> list[Any]:
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise UsageError(f"expected what PyTorch's sample inputs need to be installed: {error}") from None
    return list(op_db)


def run(operator: Operator, calls: Iterator[tuple[str, Call]], device: str, observe: str, data: str) -> Counter[str]:
    """Record ``calls`` into ``data``, with what PyTorch chooses or, under ``observe``, with what the profiler saw.

    Returns how many were run, left out since PyTorch or the facts refuse them, and chosen otherwise than seen.
    """
    counts: Counter[str] = Counter()
    label = machine(device)
    with Recorder(data) as recorder:
        for name, call in calls:
            recorder.enter(name, "call")
            with call.settings():
                try:
                    facts = operator.facts(*call.arguments, **call.named)
                    chosen = operator.kernel(*call.arguments, **call.named)
                except (FactsError, RuntimeError, IndexError) as error:
                    counts["left out"] += 1
                    counts[f"left out: {str(error).splitlines()[0][:100]}"] += 1
                    continue
                if observe:
                    counts["chosen otherwise than seen"] += not _observed(operator, call, facts, chosen, observe, label)
                else:
                    record(operator.table, facts, kernel=chosen, machine=label)
            recorder.outcome(name, "passed")
            counts["run"] += 1
    return counts


def _observed(
    operator: Operator, call: Call, facts: Mapping[str, Value], chosen: str, observe: str, label: str
) -> bool:
    """Run the call under the profiler; was the kernel seen that PyTorch's own function had named?"""
    with BlackBox(operator.table, facts=facts, kind=observe, machine=label) as seen:
        try:
            operator.function(*call.arguments, **call.named)
        except RuntimeError:
            return chosen == "error"
    return all(one.ran in (chosen, "") for one in seen.calls)


def agreement(operator: Operator, count: int, seed: int, device: str) -> tuple[int, list[str]]:
    """How many of ``count`` random calls PyTorch decides as the table does, and those that it does not."""
    rng = random.Random(seed)
    wrong: list[str] = []
    for _ in range(count):
        call = operator.draw(rng, device)
        with call.settings():
            facts = operator.facts(*call.arguments, **call.named)
            chosen = operator.kernel(*call.arguments, **call.named)
        decision = operator.table.decide(**facts)
        if decision.kernel != chosen:
            wrong.append(f"{decision.rule} -> {decision.kernel}, PyTorch chooses {chosen}: {show(facts)}")
    return count - len(wrong), wrong


def reaches(operator: Operator, item: Item, device: str) -> str:
    """What PyTorch says of the witness of ``item``, put into real tensors: ``""`` if it goes where it is said to go."""
    if item.witness is None:
        return "no witness is known"
    facts = dict(item.witness)
    if device_of(facts) != device:
        return f"it needs {facts['device']}"
    try:
        call = operator.build(facts, device)
        with call.settings():
            made = operator.facts(*call.arguments, **call.named)
            chosen = operator.kernel(*call.arguments, **call.named)
    except (DispatchcovError, RuntimeError) as error:
        return str(error)
    different = [f"{name}={value}" for name, value in made.items() if facts[name] != value]
    if different:
        return f"the tensors have {', '.join(different)}"
    expected = operator.table.decide(**facts).kernel
    return "" if chosen == expected else f"PyTorch chooses {chosen}, not {expected}"


def report(operator: Operator, data: str, counts: Counter[str], device: str) -> Iterator[str]:
    """The lines of the report over the records in ``data``."""
    table = measured(operator.table, data)
    results = Results((table,), store.load(data), (operator.table,), frozenset(), datetime.date.today(), (), ())
    for line in render("term", results, Verdict(())).splitlines():
        if not line.startswith(("covered:", "dispatch gate:")):  # of what is not measured here
            yield line
    missed = [item for item in table.partitions if item.state == "missed" and not item.illegal]
    bad = {item.label: why for item in missed if (why := reaches(operator, item, device))}
    reached = sum(item.state == "hit" for item in table.partitions)
    other = sum(item.state in ("elsewhere", "unreachable") for item in table.partitions)
    yield f"inputs: {counts['run']} run, {counts['left out']} left out{_reasons(counts)}"
    yield f"partitions: {reached} reached, {len(missed)} never, {other} not on {device}"
    yield f"witnesses of those never reached: PyTorch itself takes {len(missed) - len(bad)} of {len(missed)} there"
    yield from (f"    {label}: {why}" for label, why in bad.items())


def measured(table: Table, data: str) -> TableResults:
    """Partitions, rules and mismatches; the other measures of a table of this size take minutes and are left out."""
    today, records = datetime.date.today(), store.load(data)
    rows = [row for row in records.rows if row.digest == table.digest]
    worker = Measure(table, grouped(table, records, rows), rows, frozenset(), today, False)
    return TableResults(
        table,
        sum(row.selected for row in rows),
        tuple(sorted({row.machine for row in rows})),
        tuple(worker.bin(partition, bin) for partition in table.partitions for bin in partition.bins),
        tuple(worker.rule(rule) for rule in table.rules),
        (),
        (),
        (),
        (),
        (),
        mismatches(table, worker.groups, today),
        (),
    )


def _reasons(counts: Counter[str]) -> str:
    reasons = {key.removeprefix("left out: "): n for key, n in counts.items() if key.startswith("left out: ")}
    return "".join(f"\n    {number} times: {reason}" for reason, number in sorted(reasons.items()))


def main(operator: Operator, argv: Sequence[str] | None = None) -> int:
    """The command; exit status 2 if PyTorch and the table disagree, 1 for a mistake."""
    parser = argparse.ArgumentParser(description=f"{operator.table.op}: PyTorch against {operator.table.source}")
    parser.add_argument("--samples", action="store_true", help="which partitions PyTorch's own sample inputs reach")
    parser.add_argument(
        "--random", type=int, default=0, metavar="N", help="compare table and PyTorch on N random calls"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random calls")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--observe",
        nargs="?",
        const="torch-operators",
        choices=tuple(KINDS),
        default="",
        help="record what a profiler sees instead of what PyTorch says",
    )
    parser.add_argument("--data", default="", metavar="FILE", help="keep the records there")
    given = parser.parse_args(argv)
    if not given.samples and not given.random:
        parser.error("expected --samples or --random N")
    try:
        return _main(operator, given)
    except UsageError as error:
        print(f"dispatchcov: {error}", file=sys.stderr)
        return 1


def _main(operator: Operator, given: argparse.Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        raise UsageError(f"{operator.table.op}: expected PyTorch to compare the table with, it is not importable")
    hardware(operator.table, given.device)
    if given.observe and given.observe not in operator.kinds:
        told = f"{given.observe} does not tell its kernels apart ({operator.table.source} says why)"
        raise UsageError(f"{operator.table.op}: expected --observe={' or '.join(operator.kinds)}: {told}")
    status = 0
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # PyTorch's profiler would report each start and stop
    warnings.simplefilter("ignore")
    if given.random:
        agreed, wrong = agreement(operator, given.random, given.seed, given.device)
        print(f"{operator.table.op}: table and PyTorch agree on {agreed} of {given.random} random calls")
        for line in wrong[:SHOWN]:
            print(f"    {line}")
        status = 2 if wrong else 0
    if given.samples:
        with tempfile.TemporaryDirectory() as folder:
            data = given.data or os.path.join(folder, "records")
            store.erase(data)
            counts = run(operator, samples(operator, given.device), given.device, given.observe, data)
            for line in report(operator, data, counts, given.device):
                print(line)
        if given.observe:
            print(f"chosen otherwise than seen: {counts['chosen otherwise than seen']}")
            status = 2 if counts["chosen otherwise than seen"] else status
    return status

"""From what the profiler saw to evidence: ``observed`` for a kernel whose symbol matches, a mismatch for
another one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from dispatchcov.decide import Decision
from dispatchcov.errors import UsageError, known
from dispatchcov.observers.torch_profiler import Observation, TorchObserver
from dispatchcov.recorder import OBSERVED, RecordedDecision, Recorder, active
from dispatchcov.symbols import matches, named
from dispatchcov.table import Kernel

KINDS = ("torch",)
SHOWN = 5
MAX_SYMBOL = 200


@dataclass
class Observed:
    """What a block under :func:`observe` showed, once it is left.

    ``launches`` holds each launch with the kernels seen in it, ``mismatches`` those where another kernel ran than the
    table's, with what ran; ``outside`` kernels that no launch started; ``notes`` what else to know.
    """

    launches: list[tuple[Decision, tuple[str, ...]]] = field(default_factory=list)
    mismatches: list[tuple[Decision, str]] = field(default_factory=list)
    outside: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def observer(kind: str) -> TorchObserver:
    """The observer called ``kind``; :class:`UsageError` if there is none or what it needs is not installed."""
    if kind not in KINDS:
        raise UsageError(f"unknown observer {kind!r}; {known(kind, KINDS)}")
    return TorchObserver()


def attest(recorder: Recorder, seen: Observation) -> Observed:
    """Count ``observed`` for each launch in which the selected kernel was seen, and a mismatch where another
    one was.
    """
    found = Observed(seen.launches, outside=seen.outside, notes=list(seen.notes))
    for decision, symbols in seen.launches:
        if not isinstance(decision, RecordedDecision):
            continue
        ran = other_kernel(decision, symbols)
        if ran:
            found.mismatches.append((decision, ran))
            recorder.mismatch(decision, ran)
        elif symbols or not _kernel(decision).symbol:
            recorder.attest(decision, OBSERVED)
    timed = zip(seen.launches, seen.times, strict=False)
    recorder.took((decision, time) for (decision, _), time in timed if isinstance(decision, RecordedDecision))
    if seen.outside:
        listed = "; ".join(symbol[:MAX_SYMBOL] for symbol in seen.outside[:SHOWN])
        more = f"; and {len(seen.outside) - SHOWN} more" if len(seen.outside) > SHOWN else ""
        found.notes.append(f"kernels outside every launch: {listed}{more}")
    return found


def other_kernel(decision: Decision, symbols: tuple[str, ...]) -> str:
    """The kernel that ran instead of the selected one, by its name in the table or its symbol; ``""`` if none did."""
    facts = decision.facts or {}
    expected = _kernel(decision)
    if any(matches(expected, facts, symbol) for symbol in symbols):
        return ""
    other = named(decision.table, facts, symbols)
    if other is not None:
        return other.name
    return symbols[0][:MAX_SYMBOL] if symbols and expected.symbol else ""


def _kernel(decision: Decision) -> Kernel:
    return next(rule.kernel for rule in decision.table.rules if rule.name == decision.rule)


@contextlib.contextmanager
def observe(kind: str = "torch") -> Iterator[Observed]:
    """Profile the block: ``with dispatchcov.observe() as seen: ...``; evidence goes to the recorder that is
    on, if one is.

    Raises :class:`UsageError` if the profiler is not installed or no GPU is there to be seen.
    """
    watcher = observer(kind)
    if not watcher.available:
        raise UsageError("observing with torch: expected a CUDA device, got none")
    recorder = active()
    own = Recorder(None).start() if recorder is None else None
    target = recorder or own
    assert target is not None
    result = Observed()
    target.observer = watcher
    watcher.start()
    try:
        yield result
    finally:
        target.observer = None
        result.__dict__.update(attest(target, watcher.stop()).__dict__)
        if own is not None:
            own.stop()

"""From what the profiler saw to evidence: ``observed`` for a kernel whose symbol matches, a mismatch for
another one.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from dispatchcov.decide import Decision
from dispatchcov.errors import UsageError, known
from dispatchcov.observers.called import MAX_SYMBOL, Call, Called, seen, tell
from dispatchcov.observers.torch_operators import OperatorObserver
from dispatchcov.observers.torch_profiler import Observation, TorchObserver
from dispatchcov.recorder import OBSERVED, RecordedDecision, Recorder, active
from dispatchcov.symbols import matches, named
from dispatchcov.table import Kernel, Table, show

if TYPE_CHECKING:
    from dispatchcov.blackbox import BlackBox

KINDS: Mapping[str, type[TorchObserver]] = {"torch": TorchObserver, "torch-operators": OperatorObserver}
SHOWN = 5
_told: weakref.WeakKeyDictionary[Recorder, set[tuple[str, ...]]] = weakref.WeakKeyDictionary()


@dataclass
class Observed:
    """What a block under :func:`observe` showed, once it is left.

    ``launches`` holds each launch with the kernels seen in it, ``mismatches`` those where another kernel ran than the
    table's, with what ran; ``outside`` kernels that no launch started; ``notes`` what else to know. ``calls`` are those
    of code that decides by itself.
    """

    launches: list[tuple[Decision, tuple[str, ...]]] = field(default_factory=list)
    mismatches: list[tuple[Decision, str]] = field(default_factory=list)
    outside: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    @property
    def unmatched(self) -> tuple[str, ...]:
        """The kernels seen in calls that no pattern of the table matches, each once."""
        return tuple(dict.fromkeys(symbol for call in self.calls for symbol in call.unmatched))


def observer(kind: str) -> TorchObserver:
    """The observer called ``kind``; :class:`UsageError` if there is none or what it needs is not installed."""
    if kind not in KINDS:
        raise UsageError(f"unknown observer {kind!r}; {known(kind, KINDS)}")
    return KINDS[kind]()


def attest(recorder: Recorder | None, observation: Observation) -> Observed:
    """Count ``observed`` for each launch in which the selected kernel was seen, and a mismatch where another
    one was; record the calls of code that decides by itself. Without a recorder only tell.
    """
    found = Observed(observation.launches, outside=observation.outside, notes=list(observation.notes))
    counted: list[RecordedDecision | None] = []
    for decision, symbols in observation.launches:
        if isinstance(decision, Called):
            found.calls.append(call := seen(decision, symbols, kernels_only=observation.kernels_only))
            counted.append(tell(recorder, decision, call) if recorder is not None else None)
            if call.mismatch:
                found.mismatches.append((decision, call.ran))
        else:
            counted.append(_launch(recorder, found, decision, symbols))
    if recorder is not None:
        timed = zip(counted, observation.times, strict=False)
        recorder.took((decision, time) for decision, time in timed if decision is not None)
    _remark(found)
    found.notes += _pairs(found, _told.setdefault(recorder, set()) if recorder is not None else set())
    return found


def _launch(
    recorder: Recorder | None, found: Observed, decision: Decision, symbols: tuple[str, ...]
) -> RecordedDecision | None:
    if recorder is None or not isinstance(decision, RecordedDecision):
        return None
    ran = other_kernel(decision, symbols)
    if ran:
        found.mismatches.append((decision, ran))
        recorder.mismatch(decision, ran)
    elif symbols or not _kernel(decision).symbol:
        recorder.attest(decision, OBSERVED)
    return decision


def _remark(found: Observed) -> None:
    """Say what no pattern matches, and which calls showed nothing."""
    for op in dict.fromkeys(call.op for call in found.calls):
        calls = [call for call in found.calls if call.op == op]
        unmatched = tuple(dict.fromkeys(symbol for call in calls for symbol in call.unmatched))
        if unmatched:
            found.notes.append(f"{op}: kernels that no pattern matches: {_listed(unmatched)}")
        if silent := sum(not call.ran for call in calls):
            what = "1 call showed" if silent == 1 else f"{silent} calls showed"
            found.notes.append(f"{op}: {what} no kernel to the profiler, not counted")
    if found.outside:
        found.notes.append(f"kernels outside every launch: {_listed(found.outside)}")


def _pairs(found: Observed, told: set[tuple[str, ...]]) -> Iterator[str]:
    """Calls in which the patterns of several kernels match, once for each pair, less those ``told``."""
    for call in found.calls:
        for (one, first), (other, second) in itertools.combinations(call.matched, 2):
            if (call.op, one, other) in told:
                continue
            told.add((call.op, one, other))
            counted = "" if call.proved else "; which of them was chosen is not seen: not counted as observed"
            yield (
                f"{call.op}: the patterns of two kernels match in one call: {one} ({first[:MAX_SYMBOL]}) and {other} "
                f"({second[:MAX_SYMBOL]}), for {show(call.facts)}{counted}"
            )


def _listed(symbols: Iterable[str]) -> str:
    names = [symbol[:MAX_SYMBOL] for symbol in symbols]
    more = f"; and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return "; ".join(names[:SHOWN]) + more


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


@overload
def observe(what: str = "torch") -> contextlib.AbstractContextManager[Observed]: ...


@overload
def observe(
    what: Table,
    *,
    facts: Mapping[str, object] | Callable[..., Mapping[str, object]] | None = None,
    kind: str = "torch",
    machine: str = "",
    watcher: TorchObserver | None = None,
) -> BlackBox: ...


def observe(what: str | Table = "torch", **options: Any) -> Any:
    """Profile a block: ``with dispatchcov.observe() as seen: ...``; evidence goes to the recorder that is on, if any.

    With a table, ``observe(table, facts=...)`` is for code that you only call, as a decorator or around a block: see
    :class:`dispatchcov.blackbox.BlackBox`. Raises :class:`UsageError` if the profiler is not installed and, without a
    table, if no GPU is there to be seen.
    """
    if isinstance(what, Table):
        from dispatchcov.blackbox import BlackBox

        return BlackBox(what, **options)
    return _observed(observer(what, **options))


@contextlib.contextmanager
def _observed(watcher: TorchObserver) -> Iterator[Observed]:
    if not watcher.available:
        raise UsageError("observing with torch: expected a CUDA device, got none")
    recorder = active()
    own = Recorder(None).start() if recorder is None else None
    result = Observed()
    try:
        with profiled(watcher, recorder or own, result):
            yield result
    finally:
        if own is not None:
            own.stop()


@contextlib.contextmanager
def profiled(watcher: TorchObserver, recorder: Recorder | None, into: Observed) -> Iterator[None]:
    """Profile the block with ``watcher``; what follows from it goes to ``recorder`` and ``into``."""
    if recorder is not None:
        recorder.observer = watcher
    watcher.start()
    try:
        yield
    finally:
        if recorder is not None:
            recorder.observer = None
        into.__dict__.update(attest(recorder, watcher.stop()).__dict__)

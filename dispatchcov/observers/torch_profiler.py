"""PyTorch's profiler around a block: each decision's launch is a range, each kernel that it saw is joined to its range.

Only one profiler can run in a process. When the code under it starts one of its own, ours stops first: what it
saw until then counts,
what comes later is not observed, and :attr:`Observation.notes` say so.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dispatchcov.decide import Decision
from dispatchcov.errors import UsageError
from dispatchcov.observers.join import PREFIX, Event, Joined, join
from dispatchcov.symbols import matches

SHOWN = 5


@dataclass
class Observation:
    """What one profiled block showed: launches with the symbols seen in them, for each the nanoseconds that its
    kernels took, symbols outside, and what to know of it. ``kernels_only``: is each symbol that of a kernel?
    """

    launches: list[tuple[Decision, tuple[str, ...]]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    outside: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    kernels_only: bool = True


class TorchObserver:
    """Profiles from :meth:`start` to :meth:`stop`; :meth:`enter` and :meth:`leave` bracket each launch."""

    unseen = "no CUDA device is there, and the profiler sees no kernels of a CPU"
    """Why nothing can be seen where it is not :attr:`available`."""

    def __init__(self) -> None:
        try:
            import torch
            import torch.profiler
        except ImportError as error:
            raise UsageError(f"observing with torch: expected PyTorch to be installed: {error}") from None
        self.torch = torch
        self._numbers = itertools.count(1)
        self._decisions: dict[int, Decision] = {}
        self._captured: list[Decision] = []
        self._open = threading.local()
        self._profile: Any = None
        self._undo: Callable[[], None] | None = None
        self._observation = Observation()
        self._on_gpu = bool(torch.cuda.is_available())
        self.available = self._on_gpu
        """Is there a GPU whose kernels can be seen?"""

    # --- launches -----------------------------------------------------------------------------------------------------

    def enter(self, decision: Decision) -> None:
        """The launch of ``decision`` begins on this thread."""
        number = next(self._numbers)
        self._decisions[number] = decision
        if self._on_gpu and self.torch.cuda.is_current_stream_capturing():
            self._captured.append(decision)
        span = self.torch._C._profiler._RecordFunctionFast(f"{PREFIX}{number}")
        span.__enter__()
        self._stack().append(span)

    def leave(self) -> None:
        """The launch that began last on this thread ends."""
        stack = self._stack()
        if stack:
            stack.pop().__exit__(None, None, None)

    def _stack(self) -> list[Any]:
        stack: list[Any] | None = getattr(self._open, "stack", None)
        if stack is None:
            stack = self._open.stack = []
        return stack

    # --- the profiler -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Profile from now on."""
        self._decisions, self._captured, self._observation = {}, [], Observation()
        if not self.available:
            return
        if self.torch._C._autograd._profiler_enabled():  # two at once would lose the events of both
            self._observation.notes.append("a profiler of its own was on: nothing was observed")
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a cycle ends with its events: ours has one
            self._profile = self.torch.profiler.profile(
                activities=self._activities(), experimental_config=self._all_threads()
            )
            self._profile.start()
        self._undo = self._watch()

    def _activities(self) -> list[Any]:
        activity = self.torch.profiler.ProfilerActivity
        return [activity.CPU, activity.CUDA]

    def _joined(self, events: list[Event]) -> Joined:
        return join(events)

    def _all_threads(self) -> Any:
        """Follow launches of every thread, where this PyTorch can."""
        try:
            return self.torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        except (AttributeError, TypeError):
            return None

    def stop(self) -> Observation:
        """Stop, and tell what was seen."""
        self._halt()
        observation, self._observation = self._observation, Observation()
        return observation

    def _halt(self) -> None:
        if self._undo is not None:
            self._undo()
            self._undo = None
        if self._profile is None:
            return
        profile, self._profile = self._profile, None
        if self._on_gpu:
            self.torch._C._cuda_synchronize()  # the public one asks what a test may have replaced
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                profile.stop()
            events = [_event(event) for event in profile.profiler.kineto_results.events()]
        except (RuntimeError, AttributeError) as error:
            self._observation.notes.append(f"the profiler was lost, nothing was observed: {error}")
            return
        self._attribute(self._joined(events))

    def _attribute(self, joined: Joined) -> None:
        seen = self._observation
        for number, decision in self._decisions.items():
            kernels = joined.kernels.get(number, ())
            seen.launches.append((decision, tuple(event.name for event in kernels)))
            seen.times.append(sum(event.duration for event in kernels))
        seen.outside = tuple(dict.fromkeys(event.name for event in joined.outside))
        if self._captured:
            self._replayed(seen, joined.outside)

    def _replayed(self, seen: Observation, outside: list[Event]) -> None:
        """Launches that were captured into a CUDA graph ran when it was replayed, outside their ranges."""
        captured = set(map(id, self._captured))
        replayed: dict[tuple[str, ...], list[int]] = {}
        for place, (decision, symbols) in enumerate(seen.launches):
            ran = tuple(symbol for symbol in seen.outside if is_kernel_of(decision, symbol))
            if id(decision) in captured and not symbols and ran:
                seen.launches[place] = (decision, ran)
                replayed.setdefault(ran, []).append(place)
        for ran, places in replayed.items():  # which replay ran which of them is not known: they share the time
            time = sum(event.duration for event in outside if event.name in ran)
            for place in places:
                seen.times[place] = time // len(places)
        count = len(self._captured)
        how = "attributed to the replay" if replayed else "and the graph was not replayed: not observed"
        seen.notes.append(f"{count} launch{'es' if count > 1 else ''} captured into a CUDA graph, {how}")

    def _watch(self) -> Callable[[], None]:
        """Stop before another profiler starts: two at once would lose the events of both."""
        module = self.torch.autograd.profiler
        names = [name for name in ("_prepare_profiler", "_enable_profiler") if hasattr(module, name)]
        originals = {name: getattr(module, name) for name in names}

        def before(original: Callable[..., Any]) -> Callable[..., Any]:
            def start(*args: Any, **kwargs: Any) -> Any:
                if self._profile is not None:
                    self._halt()
                    self._observation.notes.append("it ran a profiler of its own: what came after was not observed")
                return original(*args, **kwargs)

            return start

        for name, original in originals.items():
            setattr(module, name, before(original))

        def undo() -> None:
            for name, original in originals.items():
                setattr(module, name, original)

        return undo


def is_kernel_of(decision: Decision, symbol: str) -> bool:
    """Is ``symbol`` the kernel that ``decision`` selected?"""
    kernel = next(rule.kernel for rule in decision.table.rules if rule.name == decision.rule)
    return matches(kernel, decision.facts or {}, symbol)


def _event(event: Any) -> Event:
    on_device = "CPU" not in str(event.device_type())
    return Event(
        event.name(),
        on_device,
        event.correlation_id(),
        event.linked_correlation_id(),
        event.start_ns(),
        event.duration_ns(),
        event.start_thread_id(),
    )

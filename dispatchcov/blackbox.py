"""Code that you only call: what the profiler saw in each call, compared with what a table says it should be."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from dispatchcov import decide
from dispatchcov.cells import Observer
from dispatchcov.decide import View
from dispatchcov.errors import UsageError
from dispatchcov.foreign import check_function
from dispatchcov.observers.called import Called
from dispatchcov.observers.evidence import Observed, observer, profiled
from dispatchcov.observers.torch_profiler import TorchObserver
from dispatchcov.recorder import Recorder, active
from dispatchcov.table import Table

P = ParamSpec("P")
R = TypeVar("R")
Facts = Mapping[str, object]


@dataclass
class Watched(Observed):
    """What calls showed, once the block is left. Inside a run that profiles by itself (``--dispatch-observe``) it stays
    empty: the run has what was seen.
    """

    box: BlackBox | None = field(default=None, repr=False)

    def call(self, **facts: object) -> contextlib.AbstractContextManager[None]:
        """One call of the code, in a block of its own: ``with seen.call(M=4, N=8): library(...)``."""
        assert self.box is not None
        return self.box.bracketed(facts)


class BlackBox:
    """What :func:`dispatchcov.observe` gives for a table.

    A decorator of a function, each call of which is one call of the code: ``facts`` gives the facts for its arguments.
    Around a block: with ``facts``, a mapping or a function of nothing, the block is one call; without, each ``with
    seen.call(M=4, N=8):`` in it is one. The kernel that ran is the one whose pattern a symbol matches; where it is
    another than the table's, that is a mismatch; a symbol that no pattern matches is listed in the notes of the run; a
    call in which nothing was seen is not counted. ``kind``: ``torch`` sees the kernels of a CUDA GPU,
    ``torch-operators`` the operators of PyTorch on any device; ``watcher`` is one of your own instead.

    Where nothing can be seen, without a CUDA GPU, the code runs, nothing is counted, and the notes of the run say so.
    The decorator does nothing while no recorder is on.
    """

    def __init__(
        self,
        table: Table,
        *,
        facts: Facts | Callable[..., Facts] | None = None,
        kind: str = "torch",
        machine: str = "",
        watcher: TorchObserver | None = None,
    ) -> None:
        self.table = table
        self.facts = facts
        self.kind = kind
        self.view = View.of(table, machine or decide.DEFAULT_MACHINE)
        self._watcher = watcher
        self._profiling: Observer | None = None
        self._told: Recorder | None = None
        self._block: contextlib.ExitStack | None = None
        self._calls = 0

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """``function`` with each call observed; raises :class:`UsageError` without ``facts`` that are a function."""
        check_function(function, "observe")
        facts = self.facts
        if not callable(facts):
            got = "none" if facts is None else type(facts).__name__
            raise UsageError(f"{self.table.op}: expected facts to be a function of the call's arguments, got {got}")

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if active() is None:
                return function(*args, **kwargs)
            given = facts(*args, **kwargs)
            with self._profiled(Observed()), self.bracketed(given):
                return function(*args, **kwargs)

        return call

    def __enter__(self) -> Watched:
        if self._block is not None:
            raise UsageError(f"{self.table.op}: expected a block of observe(...) that is not entered yet")
        result = Watched(box=self)
        self._calls = 0
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._profiled(result))
            if self.facts is not None:
                stack.enter_context(self.bracketed(self.facts() if callable(self.facts) else self.facts))
            self._block = stack.pop_all()
        return result

    def __exit__(self, *error: object) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.close()
        recorder = active()
        if not self._calls and recorder is not None and error[0] is None:
            test = f"{recorder.context.test}: " if recorder.context.test else ""
            told = "a block of observe(...) in which no call was named: nothing is counted"
            recorder.remark(f"{test}{self.table.op}: {told}")

    @contextlib.contextmanager
    def _profiled(self, result: Observed) -> Iterator[None]:
        """Profile the block into ``result``, unless the run does so already or nothing can be seen."""
        recorder = active()
        if recorder is not None and recorder.observer is not None:
            with self._with(recorder.observer):
                yield
            return
        watcher = self._watcher or observer(self.kind)
        if not watcher.available:
            note = f"{self.table.op}: calls are not observed and not counted: {watcher.unseen}"
            result.notes.append(note)
            if recorder is not None and self._told is not recorder:
                recorder.remark(note)
                self._told = recorder
            yield
            return
        with self._with(watcher), profiled(watcher, recorder, result):
            yield
        if recorder is not None:
            test = recorder.context.test
            for note in result.notes:
                recorder.remark(f"{test}: {note}" if test else note)

    @contextlib.contextmanager
    def _with(self, profiling: Observer) -> Iterator[None]:
        before, self._profiling = self._profiling, profiling
        try:
            yield
        finally:
            self._profiling = before

    @contextlib.contextmanager
    def bracketed(self, facts: Facts) -> Iterator[None]:
        """One call with ``facts``; raises :class:`FactsError` if they do not fit the table."""
        called = Called.of(self.view, facts)
        self._calls += 1
        profiling = self._profiling
        if profiling is None:
            yield
            return
        profiling.enter(called)
        try:
            yield
        finally:
            profiling.leave()

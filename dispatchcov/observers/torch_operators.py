"""PyTorch's operators instead of kernels: what ran on the host, on a CPU too.

For libraries that run through PyTorch: each backend of an operator is an operator of its own there, such as
``aten::mkldnn_convolution``, and a table may name it as the ``symbol`` of a kernel. Most operators of a call choose
nothing (``aten::empty``); those without a pattern are told only where none has one.
"""

from __future__ import annotations

from typing import Any

from dispatchcov.observers.join import Event, Joined, join_operators
from dispatchcov.observers.torch_profiler import Observation, TorchObserver


class OperatorObserver(TorchObserver):
    """As :class:`TorchObserver`, with the operators that ran in a launch as its symbols; needs no GPU."""

    unseen = ""

    def __init__(self) -> None:
        super().__init__()
        self.available = True

    def _activities(self) -> list[Any]:
        return [self.torch.profiler.ProfilerActivity.CPU]

    def _joined(self, events: list[Event]) -> Joined:
        return Joined(join_operators(events).kernels)  # those outside belong to no call: they are the test's own

    def stop(self) -> Observation:
        """Stop, and tell what was seen."""
        seen = super().stop()
        seen.times = [0] * len(seen.times)  # operators enclose one another: their times add up to nothing
        seen.kernels_only = False
        return seen

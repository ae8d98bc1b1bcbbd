"""What a question about a table is answered with, and the regions that :mod:`dispatchcov.regions` lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dispatchcov.expr import Value
from dispatchcov.space.domain import size
from dispatchcov.space.paths import region_name
from dispatchcov.table import Table, Variable

State: TypeAlias = Literal["feasible", "unreachable", "unknown"]
Settled: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether an input exists, the smallest one, and the hardware it can be on.

    ``hardware`` holds the values of ``table.hardware`` (in that order) for which the answer is feasible too; ``((),)``
    if the table has no hardware variable. ``reason`` says why the state is ``unknown`` or ``witness`` perhaps not the
    smallest.
    """

    state: State
    witness: dict[str, Value] | None = None
    hardware: frozenset[tuple[Value, ...]] = frozenset()
    reason: str = ""


def either(variables: Sequence[Variable], answers: Iterable[Answer]) -> Answer:
    """The answer to whether there is an input that one of ``answers`` is about."""
    asked = tuple(answers)
    reason = next((answer.reason for answer in asked if answer.reason), "")
    found = [(size(variables, answer.witness), answer.witness) for answer in asked if answer.witness is not None]
    if not found:
        return Answer("unknown" if reason else "unreachable", reason=reason)
    hardware = frozenset().union(*(answer.hardware for answer in asked))
    return Answer("feasible", min(found, key=lambda pair: pair[0])[1], hardware, reason)


@dataclass(frozen=True, slots=True)
class Split:
    """Which sides of a split the inputs of a region reach; on ``false`` it is false or divides by zero."""

    predicate: int
    false: Answer
    true: Answer


@dataclass(frozen=True, slots=True)
class Region:
    """All inputs of one path: the selected ``rule`` (None: no rule) and what predicate ``settled`` each earlier one."""

    index: int
    rule: int | None
    settled: Settled
    answer: Answer
    splits: tuple[Split, ...]
    table: Table = field(repr=False, compare=False)

    @property
    def state(self) -> State:
        """``feasible``, or ``unknown`` if predicates over several variables may contradict each other."""
        return self.answer.state

    @property
    def witness(self) -> dict[str, Value] | None:
        """The smallest input, variables in table order; None if the state is ``unknown``."""
        return self.answer.witness

    @property
    def hardware(self) -> frozenset[tuple[Value, ...]]:
        """The values of ``table.hardware`` with which the region can be reached."""
        return self.answer.hardware

    @property
    def name(self) -> str:
        """Rule and what settled each earlier one: ``gemm [mma, gemv: not M <= 8]``. Depends on the table only."""
        return region_name(self.table, self.rule, self.settled)

"""What is kept of a run: plain, frozen values between the recorder, the files and the results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from dispatchcov.expr import Value

Inputs: TypeAlias = tuple[tuple[Value, ...], ...]

COUNTED = ("call", "run")
"""Phases whose decisions can be hits: the body of a test, or a program that is no test at all."""

EARLIER_TRY = "earlier try"
"""The phase of what a test decided before it was run again: only its last try can hit something."""

UNENDED = "the run did not end"
"""Why absence proves nothing in a run that says so when it begins: a shard that ended in order takes it back."""

ASSERTS = "asserts dispatch: "
"""An outcome of a test under its id with this before it says that the test asserted where its decisions went."""

VARIES = "inputs vary: "
"""An outcome of a test under its id with this before it says that the test draws other inputs in each run."""


@dataclass(frozen=True, slots=True)
class TableText:
    """A table as it was when something was recorded: enough to judge the records without its file."""

    digest: str
    op: str
    source: str
    text: str = field(repr=False)


class Row(NamedTuple):
    """Decisions of one shard that agree in all fields before the counts.

    ``vector``: the outcome of predicate i is bit i. ``hardware``: the values of the table's hardware
    variables, in order.
    ``kernel``: what ran by the account of code that decides itself, ``""`` where the table decided.
    ``inputs``: facts seen, in
    the order of the table's variables: the first, then those at which an integer variable was smallest or largest.
    ``finished``: false while the test that these counts belong to had not ended. ``nanoseconds``: what the profiler saw
    kernels take in launches of these decisions. A named tuple, because there are many.
    """

    shard: str
    digest: str
    machine: str
    test: str
    phase: str
    vector: int
    hardware: tuple[Value, ...]
    kernel: str
    selected: int
    launched: int
    observed: int
    checked: int
    inputs: Inputs
    finished: bool = True
    nanoseconds: int = 0


class Machine(NamedTuple):
    """One that decided by the table of ``op``: its label, and the values of the table's hardware variables in order."""

    op: str
    label: str
    hardware: tuple[Value, ...]


class Outcome(NamedTuple):
    """How a test ended in one shard's process: ``passed``, ``failed``, ``skipped``, ``xfailed`` or ``xpassed``."""

    shard: str
    test: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Shard:
    """One process of one run. ``lines`` is the number of lines read: of two copies the longer one is the later one.

    ``partial`` lists why absence proves nothing in this run; ``ended`` is false if the process never said that
    it ended. ``problems`` are lines that could not be read, ``notes`` what else is to know about the run,
    ``sources`` checksums of the sources of kernels, each as table digest, SHA-256 and kernel, with spaces between.
    """

    name: str
    run: str
    host: str
    pid: int
    started: str
    lines: int
    partial: tuple[str, ...] = ()
    ended: bool = False
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Data:
    """Everything that shards and data files hold, merged; see :mod:`dispatchcov.store`."""

    tables: tuple[TableText, ...] = ()
    shards: tuple[Shard, ...] = ()
    rows: tuple[Row, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

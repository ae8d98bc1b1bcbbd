"""What drifted between two sides: tests that moved to another region or kernel, each with the predicate that moved it.

:mod:`dispatchcov.compare.moved` finds it, the gate judges it, reports show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dispatchcov.expr import Value


@dataclass(frozen=True, slots=True)
class Place:
    """Where a test's decision goes: ``rule`` ("": none), the ``kernel`` that ran, the ``region`` in words, and an
    ``input`` that took it there.
    """

    rule: str
    kernel: str
    region: str
    input: Mapping[str, Value]

    @property
    def label(self) -> str:
        """Region and kernel."""
        return f"{self.region} -> {self.kernel or 'no kernel'}"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a decision goes elsewhere: at ``rule``, predicate ``before`` became or is now ``after`` ("": there is none).

    ``kind``: ``table`` (the same input, decided by another table), ``input`` (another input, the same predicate),
    ``both``, or ``kernel`` (the same region; what ran by the account of the code is another kernel). ``text`` says it
    with outcomes and ``values`` with the facts that the predicate read before and now, ``summary`` without them.
    """

    kind: str
    rule: str
    before: str
    after: str
    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class Move:
    """A decision of ``test`` that went to ``old`` and goes to ``new``.

    ``old`` None: the test reaches ``new`` besides what it reached; ``new`` None: nothing of it goes there any more.
    """

    test: str
    op: str
    old: Place | None
    new: Place | None
    cause: Cause | None = None

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """What moves share that one change makes."""
        old = self.old.label if self.old else ""
        new = self.new.label if self.new else ""
        return self.op, old, new, self.cause.summary if self.cause else ""

    @property
    def seen(self) -> str:
        """The cause with its values, or what there is to say without one."""
        if self.cause:
            return self.cause.text
        return "no decision of the test goes there any more" if self.new is None else "a further input"


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule of ``op`` before and now: its guard and kernel, ``""`` where the table has no such rule."""

    op: str
    rule: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Drift:
    """What drifted from ``base``; ``rules`` of the tables changed, whether or not that moved a test.

    ``new`` are tests of which the base has nothing, ``gone`` those that are there no more. Not compared are ``apart``
    (test and outcome), ``not_run`` and ``elsewhere`` (decided only on hardware that the other side does not have).
    ``unchanged`` counts tests. ``update``: what became of the baseline file, in words.
    """

    base: str
    moves: tuple[Move, ...] = ()
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    not_run: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    unchanged: int = 0
    rules: tuple[RuleChange, ...] = ()
    update: str = ""

    @property
    def moved(self) -> tuple[str, ...]:
        """The tests that moved, each once."""
        return tuple(sorted({move.test for move in self.moves}))

    @property
    def groups(self) -> tuple[tuple[Move, ...], ...]:
        """The moves, those that one change makes together."""
        found: dict[tuple[str, str, str, str], list[Move]] = {}
        for move in self.moves:
            found.setdefault(move.kind, []).append(move)
        return tuple(tuple(moves) for _, moves in sorted(found.items()))


def counted(count: int, noun: str = "test") -> str:
    """``1 test``, ``2 tests``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def shown(test: str) -> str:
    """``test`` as it is shown: one line, printable; decisions of no test have a name too."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in test) or "(outside tests)"

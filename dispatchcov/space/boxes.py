"""Sets of inputs as boxes: for each variable a set of its classes, all of them in the bits of one integer.

Each variable is an *axis*, and its classes are a *field* of bits, smallest value first; an input lies in a box if the
bit of its class is set on every axis. A predicate that no single variable decides is an axis of its own, *opaque*, as
if it were free: a box that is empty even so is proved empty, one that is not needs a real input to be believed.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dispatchcov.expr import Value, may_divide_by_zero
from dispatchcov.formula import Formula, Leaf, Opposite, Some
from dispatchcov.space.domain import Class, Size, bits, classes, rank
from dispatchcov.table import Predicate, Table, Variable

FALSE, TRUE, UNDEFINED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Field:
    """``classes`` at the bits of a box from ``offset`` on."""

    classes: tuple[Class, ...]
    offset: int

    @property
    def mask(self) -> int:
        """The bits of this field in a box."""
        return ((1 << len(self.classes)) - 1) << self.offset

    def chosen(self, box: int) -> list[int]:
        """The places of the classes that ``box`` allows."""
        return [place for place in range(len(self.classes)) if box >> self.offset + place & 1]

    def only(self, box: int, place: int) -> int:
        """``box`` without the other classes of this field."""
        return box & ~(self.mask ^ 1 << self.offset + place)

    @property
    def decides(self) -> int:
        """The predicates, as bits, of which some class says something."""
        return union(item.true | item.undefined for item in self.classes)


@dataclass(frozen=True, slots=True)
class Axis(Field):
    """The classes of one variable with the ``ranks`` of their smallest values."""

    variable: Variable
    ranks: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class Opaque(Field):
    """The outcomes of one predicate that no single variable decides."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Point:
    """The smallest input of a box: ``key`` as :func:`.domain.size` gives it, outcomes of all predicates.

    ``real`` is false if an opaque predicate has another outcome at the input than the box demands and ``true`` says.
    """

    key: Size
    true: int
    undefined: int
    facts: dict[str, Value]
    real: bool


class Boxes:
    """The axes of a table and what its predicates keep of a box."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.notes: dict[int, str] = {}
        self.refused: set[int] = set()
        self.axes: list[Axis] = []
        self.opaque: list[Opaque] = []
        shared = [predicate for predicate in table.predicates if len(predicate.reads) != 1]
        homes: dict[int, Field] = {}
        width = 0
        for variable in table.variables:
            own = [predicate for predicate in table.predicates if predicate.reads == {variable.name}]
            apart = variable.hardware and any(variable.name in predicate.reads for predicate in shared)
            found = classes(variable, own, apart=apart)
            shared += [predicate for predicate in own if predicate.index in found.refused]
            self.notes.update(found.refused)
            self.refused |= found.refused.keys()
            ranks = tuple(rank(variable, item.value) for item in found.classes)
            self.axes.append(Axis(found.classes, width, variable, ranks))
            homes.update((p.index, self.axes[-1]) for p in own if p.index not in found.refused)
            width += len(found.classes)
        for predicate in sorted(shared, key=lambda item: item.index):
            if len(predicate.reads) > 1:
                several = ", ".join(name for name in table.names if name in predicate.reads)
                self.notes[predicate.index] = f"it reads several variables, {several}"
            self.opaque.append(Opaque(_outcomes(predicate), width, predicate))
            homes[predicate.index] = self.opaque[-1]
            width += len(self.opaque[-1].classes)
        self.hardware = [axis for axis in self.axes if axis.variable.hardware]
        self.full = (1 << width) - 1 if all(axis.classes for axis in self.axes) else 0
        self.mask = [homes[predicate.index].mask for predicate in table.predicates]
        kept = [self._kept(i, homes[i]) for i in range(len(table.predicates))]
        self.keep, self.drop = [keep for keep, _ in kept], [drop for _, drop in kept]

    def own(self, variable: Variable) -> list[Predicate]:
        """The predicates that the classes of ``variable`` decide."""
        predicates = self.table.predicates
        return [p for p in predicates if p.reads == {variable.name} and p.index not in self.refused]

    def _kept(self, index: int, field: Field) -> tuple[list[int], list[int]]:
        """What is kept of a box where predicate ``index`` has each outcome, and what where it has not."""
        with_outcome = [0, 0, 0]
        for place, item in enumerate(field.classes):
            with_outcome[state(item.true, item.undefined, index)] |= 1 << field.offset + place
        rest = self.full & ~field.mask
        return [rest | part for part in with_outcome], [self.full & ~part for part in with_outcome]

    def narrow(self, box: int, index: int, value: int, *, other: bool = False) -> int:
        """The part of ``box`` where predicate ``index`` has the outcome ``value``, or any ``other``; 0 if empty."""
        part: int = box & (self.drop if other else self.keep)[index][value]
        return part if part & self.mask[index] else 0

    def allowed(self, box: int, index: int) -> int:
        """The outcomes that ``box`` leaves to predicate ``index``, a bit of each: ``1 << FALSE`` and so on."""
        return sum(1 << value for value in (FALSE, TRUE, UNDEFINED) if self.narrow(box, index, value))

    def walk(self, formula: Formula, box: int) -> Iterator[tuple[int, bool, int]]:
        """``box`` cut by what short-circuit evaluation of ``formula`` reads: part, value, and the predicate read last.

        Inputs at which the evaluation divides by zero are in no part.
        """
        match formula:
            case Leaf():
                for value in (False, True):
                    part = self.narrow(box, formula.index, value)
                    if part:
                        yield part, value, formula.index
            case Opposite():
                for part, held, last in self.walk(formula.operand, box):
                    yield part, not held, last
            case _:
                yield from self._sequence(formula.operands, isinstance(formula, Some), box, -1)

    def _sequence(
        self, operands: tuple[Formula, ...], stop: bool, box: int, last: int
    ) -> Iterator[tuple[int, bool, int]]:
        if not operands:
            yield box, not stop, last
            return
        for part, value, read in self.walk(operands[0], box):
            if value == stop:
                yield part, value, read
            else:
                yield from self._sequence(operands[1:], stop, part, read)

    def point(self, box: int) -> Point:
        """The smallest input of ``box``, which is not empty."""
        true = undefined = total = 0
        ranks: list[tuple[int, bool]] = []
        facts: dict[str, Value] = {}
        for axis in self.axes:
            rest = box >> axis.offset
            place = (rest & -rest).bit_length() - 1
            item = axis.classes[place]
            true |= item.true
            undefined |= item.undefined
            ranks.append(axis.ranks[place])
            total += axis.ranks[place][0] if axis.variable.type == "int" else 0
            facts[axis.variable.name] = item.value
        real = True
        for opaque in self.opaque:
            allowed = [opaque.classes[place] for place in opaque.chosen(box)]
            actual = bits([opaque.predicate], facts)
            agrees = next((item for item in allowed if (item.true, item.undefined) == actual), None)
            real = real and agrees is not None
            true |= (agrees or allowed[0]).true
            undefined |= (agrees or allowed[0]).undefined
        return Point((total, tuple(ranks)), true, undefined, facts, real)

    def hardware_parts(self, box: int) -> Iterator[tuple[int, frozenset[tuple[Value, ...]]]]:
        """``box`` cut by the classes of the hardware variables, each part with its values of these variables."""
        for places in itertools.product(*(axis.chosen(box) for axis in self.hardware)):
            part = box
            for axis, place in zip(self.hardware, places, strict=True):
                part = axis.only(part, place)
            members = (axis.classes[place].members for axis, place in zip(self.hardware, places, strict=True))
            yield part, frozenset(itertools.product(*members))


def state(true: int, undefined: int, index: int) -> int:
    """The outcome of predicate ``index`` in a pair of bit vectors."""
    return UNDEFINED if undefined >> index & 1 else true >> index & 1


def union(parts: Iterable[int]) -> int:
    """All bits that are set in one of ``parts``."""
    return functools.reduce(operator.or_, parts, 0)


def _outcomes(predicate: Predicate) -> tuple[Class, ...]:
    if not predicate.reads:
        return (Class(*bits([predicate], {}), False),)
    bit = 1 << predicate.index
    either = (Class(0, 0, False), Class(bit, 0, True))
    return (*either, Class(0, bit, False)) if may_divide_by_zero(predicate.expr) else either

"""The classes of one variable: its values sorted by the outcomes of the predicates that read only it.

Two values of one class are the same to the table, so one representative stands for all of them. The values of an
``int`` are never enumerated: the domain is cut where a predicate changes, and one common period of each interval is
looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dispatchcov import expr as ex
from dispatchcov.expr import Value
from dispatchcov.space.pieces import LIMIT, NotAnalysedError, Piece, Ray, Shape, Span, align, analyse
from dispatchcov.table import Predicate, Variable

Size: TypeAlias = tuple[int, tuple[tuple[int, bool], ...]]
_Shapes: TypeAlias = tuple[Predicate, list[Shape]]


@dataclass(frozen=True, slots=True)
class Class:
    """Values with equal outcomes: ``true`` and ``undefined`` (divides by zero) have one bit a predicate.

    ``value`` is the smallest value, ``members`` are all of them where the variable lists its values, else empty.
    """

    true: int
    undefined: int
    value: Value
    members: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """The values ``first``, ``first + step``, ...: ``length`` of them, or without end if ``length`` is None."""

    first: int
    step: int
    length: int | None


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a variable, smallest value first, and the predicates (by index) not analysed, with the reason."""

    classes: tuple[Class, ...]
    refused: dict[int, str]


def rank(variable: Variable, value: Value) -> tuple[int, bool]:
    """The key by which ``value`` is small: nearest to zero, then positive; of strings and booleans, listed first."""
    if variable.type == "int":
        return abs(int(value)), int(value) < 0
    return variable.values.index(value), False


def size(variables: Sequence[Variable], facts: ex.Facts) -> Size:
    """The key by which ``facts`` are small: least sum of the integers' magnitudes, then by ``rank`` in table order."""
    ranks = tuple(rank(variable, facts[variable.name]) for variable in variables)
    return sum(r[0] for variable, r in zip(variables, ranks, strict=True) if variable.type == "int"), ranks


def classes(variable: Variable, predicates: Sequence[Predicate], *, apart: bool = False) -> Classes:
    """The classes of ``variable`` by ``predicates``, which read nothing else; ``apart`` keeps listed values apart."""
    if variable.values:
        return Classes(_listed(variable, predicates, apart), {})
    sides = rays(variable)
    refused: dict[int, str] = {}
    shapes: list[_Shapes] = []
    for predicate in predicates:
        try:
            shapes.append((predicate, [analyse(predicate.expr, ray) for ray in sides]))
        except NotAnalysedError as error:
            refused[predicate.index] = str(error)
    shapes = _affordable(shapes, sides, refused)
    found: dict[tuple[int, int], int] = {}
    for i, ray in enumerate(sides):
        for key, value in _ray_classes(ray, [(predicate, own[i]) for predicate, own in shapes]).items():
            if key not in found or rank(variable, value) < rank(variable, found[key]):
                found[key] = value
    result = [Class(true, undefined, value) for (true, undefined), value in found.items()]
    return Classes(tuple(sorted(result, key=lambda item: rank(variable, item.value))), refused)


def runs(variable: Variable, predicates: Sequence[Predicate]) -> dict[tuple[int, int], list[Run]]:
    """All values of an ``int`` variable without listed values, by the outcomes (true and undefined bits) of
    ``predicates``, each of which can be analysed; of each outcome, the run that begins nearest to zero comes first.
    """
    found: dict[tuple[int, int], list[Run]] = {}
    for ray in rays(variable):
        shapes = [(predicate, analyse(predicate.expr, ray)) for predicate in predicates]
        for key, span, k in _places(ray, shapes):
            length = None if span.end is None else (span.end - 1 - k) // span.period + 1
            found.setdefault(key, []).append(Run(ray.at(k), ray.step * span.period, length))
    for own in found.values():
        own.sort(key=lambda run: rank(variable, run.first))
    return found


def representatives(
    variable: Variable, predicates: Sequence[Predicate], trees: Sequence[ex.Expr], most: int
) -> dict[int, tuple[int, int]] | None:
    """The smallest value of an ``int`` variable without listed values for each outcome of ``predicates`` together with
    each value of ``trees``, mapped to that outcome (true and undefined bits); None if there are more than ``most``.
    """
    found: dict[tuple[object, ...], int] = {}
    for ray in rays(variable):
        try:
            shapes = [(predicate, analyse(predicate.expr, ray)) for predicate in predicates]
            forms = [analyse(tree, ray) for tree in trees]
        except NotAnalysedError:
            return None
        for key, span, k in _places(ray, shapes, forms):
            grows = any(span.growths(k)[len(shapes) :])
            if span.count > LIMIT or (grows and span.end is None):
                return None
            for at in range(k, span.end or 0, span.period) if grows else (k,):
                values = key, *(part.at(at) for part in span.parts[len(shapes) :])
                value = ray.at(at)
                if values not in found or rank(variable, value) < rank(variable, found[values]):
                    found[values] = value
                if len(found) > most:
                    return None
    return {value: key for (key, *_), value in found.items()}  # type: ignore[misc]  # the first is always an outcome


def outcome(tree: ex.Expr, facts: ex.Facts) -> bool | None:
    """The value of a predicate for ``facts``; None if it divides by zero."""
    try:
        return bool(ex.evaluate(tree, facts))
    except ZeroDivisionError:
        return None


def bits(predicates: Iterable[Predicate], facts: ex.Facts) -> tuple[int, int]:
    """The outcomes of ``predicates`` at ``facts`` as two integers: those that hold, those that divide by zero."""
    true = undefined = 0
    for predicate in predicates:
        result = outcome(predicate.expr, facts)
        true |= (result is True) << predicate.index
        undefined |= (result is None) << predicate.index
    return true, undefined


def rays(variable: Variable) -> list[Ray]:
    """The domain of an ``int`` variable as rays that lead away from zero: zero and above, then below."""
    step, low, high = variable.multiple_of, variable.min, variable.max
    found = []
    if high is None or high >= 0:
        first = -(-max(low or 0, 0) // step) * step
        length = None if high is None else max(0, (high - first) // step + 1)
        found.append(Ray(first, step, length))
    if low is None or low < 0:
        first = (min(-1, high) if high is not None else -1) // step * step
        length = None if low is None else max(0, (first - low) // step + 1)
        found.append(Ray(first, -step, length))
    return [ray for ray in found if ray.length != 0]


def _listed(variable: Variable, predicates: Sequence[Predicate], apart: bool) -> tuple[Class, ...]:
    groups: dict[tuple[int, int, Value | None], list[Value]] = {}
    for value in variable.values:
        true, undefined = bits(predicates, {variable.name: value})
        groups.setdefault((true, undefined, value if apart else None), []).append(value)
    found = [
        Class(true, undefined, min(members, key=lambda value: rank(variable, value)), tuple(members))
        for (true, undefined, _), members in groups.items()
    ]
    return tuple(sorted(found, key=lambda item: rank(variable, item.value)))


def _affordable(shapes: list[_Shapes], sides: list[Ray], refused: dict[int, str]) -> list[_Shapes]:
    """Those that can be told apart together in :data:`LIMIT` points of a ray, simplest first; refuses others."""
    if all(_points_at_most([own[i] for _, own in shapes]) <= LIMIT for i in range(len(sides))):
        return shapes
    kept: list[_Shapes] = []
    grids: list[Shape] = [[Piece(0, ray.length, [None], [0])] for ray in sides]
    for predicate, own in sorted(shapes, key=lambda item: sum(len(part.values) for shape in item[1] for part in shape)):
        joint = [list(align([grid, shape])) for grid, shape in zip(grids, own, strict=True)]
        if any(sum(span.count for span in spans) > LIMIT for spans in joint):
            text = ex.to_text(predicate.expr)
            refused[predicate.index] = f"{text!r} and others need more than {LIMIT} values to be told apart"
        else:
            kept.append((predicate, own))
            grids = [[Piece(s.start, s.end, [None] * s.count, [0] * s.count) for s in spans] for spans in joint]
    return kept


def _points_at_most(shapes: Sequence[Shape]) -> int:
    """No fewer points than those in which ``shapes`` of one ray can be told apart."""
    starts = {piece.start for shape in shapes for piece in shape}
    return len(starts) * math.lcm(*{len(piece.values) for shape in shapes for piece in shape})


def _ray_classes(ray: Ray, shapes: list[tuple[Predicate, Shape]]) -> dict[tuple[int, int], int]:
    """The outcomes that occur on ``ray``, each with the first value at which it does."""
    found: dict[tuple[int, int], int] = {}
    for key, _, k in _places(ray, shapes):
        found.setdefault(key, ray.at(k))
    return found


def _places(
    ray: Ray, shapes: list[tuple[Predicate, Shape]], more: Sequence[Shape] = ()
) -> Iterator[tuple[tuple[int, int], Span, int]]:
    """The outcomes at each position of one period of each interval of ``ray``, with the interval and the position.

    The parts of the interval are those of ``shapes``, then of ``more``.
    """
    if not shapes and not more:
        yield (0, 0), Span(0, ray.length, 1, ()), 0
        return
    bits = [1 << predicate.index for predicate, _ in shapes]
    for span in align([*(shape for _, shape in shapes), *more]):
        for k in range(span.start, span.start + span.count):
            true = undefined = 0
            for bit, part in zip(bits, span.parts, strict=False):
                value = part.at(k)
                if value is None:
                    undefined |= bit
                elif value:
                    true |= bit
            yield (true, undefined), span, k

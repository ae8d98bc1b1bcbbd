"""Functions of one integer, exactly: intervals, in each a period, and on each residue class an affine function.

``+ - * // % min max ceildiv`` of one variable and constants stay in this form (*piecewise quasi-affine*): ``//`` and
``%`` multiply the period; comparisons, ``min`` and ``max`` cut an interval where their operands cross. What leaves the
form, as ``x * x`` over an open range does, or needs more than :data:`LIMIT` points is refused with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from dispatchcov import expr as ex
from dispatchcov.expr import Value

LIMIT = 1 << 17


class NotAnalysedError(Exception):
    """An expression is not piecewise quasi-affine or needs too many points; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Ray:
    """The values ``first``, ``first + step``, ...: ``length`` of them, or without end if ``length`` is None."""

    first: int
    step: int
    length: int | None

    def at(self, k: int) -> int:
        """The ``k``-th value."""
        return self.first + self.step * k


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The function at positions ``start <= k < end`` (None: without end); a value of None is a division by zero.

    ``values`` are those of the first period, ``slopes`` what each grows by from one period to the next.
    """

    start: int
    end: int | None
    values: list[Value | None]
    slopes: list[int]

    def at(self, k: int) -> Value | None:
        """The value at position ``k``."""
        turns, place = divmod(k - self.start, len(self.values))
        value, slope = self.values[place], self.slopes[place]
        return value + turns * slope if slope and isinstance(value, int) else value

    def growth(self, k: int, period: int) -> int:
        """How much the value grows from ``k`` to ``k + period``; ``period`` is a multiple of the piece's own."""
        own = len(self.values)
        return self.slopes[(k - self.start) % own] * (period // own)


Shape: TypeAlias = list[Piece]


@dataclass(frozen=True, slots=True)
class Span:
    """One interval in which each of ``parts`` is one piece; ``period`` is common to them."""

    start: int
    end: int | None
    period: int
    parts: tuple[Piece, ...]

    @property
    def count(self) -> int:
        """The number of positions in one period, less where the interval ends before."""
        return self.period if self.end is None else min(self.period, self.end - self.start)

    def growths(self, k: int) -> list[int]:
        """How each part grows from ``k`` over one period; all 0 where the interval ends before."""
        if self.end is not None and k + self.period >= self.end:
            return [0] * len(self.parts)
        return [part.growth(k, self.period) for part in self.parts]

    def split(self, cuts: set[int]) -> Iterator[Span]:
        """The interval cut before each position of ``cuts`` that lies inside."""
        inside = sorted(k for k in cuts if k > self.start and (self.end is None or k < self.end))
        for start, end in zip([self.start, *inside], [*inside, self.end], strict=True):
            yield Span(start, end, self.period, self.parts)


def align(shapes: list[Shape]) -> Iterator[Span]:
    """The intervals on which every shape is one piece, in order, with the common period of each."""
    places = [0] * len(shapes)
    start = 0
    while True:
        parts = tuple(shape[place] for shape, place in zip(shapes, places, strict=True))
        end = min((part.end for part in parts if part.end is not None), default=None)
        yield Span(start, end, math.lcm(*(len(part.values) for part in parts)), parts)
        if end is None or all(place + 1 == len(shape) for shape, place in zip(shapes, places, strict=True)):
            return
        places = [place + (part.end == end) for part, place in zip(parts, places, strict=True)]
        start = end


def analyse(tree: ex.Expr, ray: Ray) -> Shape:
    """``tree``, of one variable, as a function of the position on ``ray``; raises :class:`NotAnalysedError`."""
    return _Analysis(ray).of(tree)


class _Analysis:
    def __init__(self, ray: Ray) -> None:
        self.ray = ray

    def of(self, tree: ex.Expr) -> Shape:
        match tree:
            case ex.Const():
                return [Piece(0, self.ray.length, [tree.value], [0])]
            case ex.Var():
                return [Piece(0, self.ray.length, [self.ray.first], [self.ray.step])]
            case ex.Call(name="ceildiv"):
                left, right = tree.args
                return self.of(ex.Neg(ex.Bin("//", ex.Neg(left), right)))
            case ex.Call() if len(tree.args) > 2:
                return self.of(ex.Call(tree.name, (ex.Call(tree.name, tree.args[:-1]), tree.args[-1])))
        pieces: Shape = []
        points = 0
        for span in align([self.of(part) for part in ex.children(tree)]):
            for part in self.cut(tree, span) if span.count <= LIMIT else [span]:
                points += part.count
                if points > LIMIT:
                    raise NotAnalysedError(f"{ex.to_text(tree)!r} needs more than {LIMIT} values to be told apart")
                pieces.append(_sample(tree, part))
        return pieces

    def cut(self, tree: ex.Expr, span: Span) -> Iterator[Span]:
        """``span`` cut into intervals with periods, in each of which ``tree`` is affine on each residue class."""
        match tree:
            case ex.Bin(op="*"):
                positions = range(span.start, span.start + span.count)
                affine = all(0 in span.growths(k) for k in positions)
                return iter([span if affine else self.listed(tree, span)])
            case ex.Bin(op="//" | "%"):
                return self.division(tree, span)
            case ex.Compare() | ex.Call():
                return span.split(_crossings(span, 0) | _crossings(span, 1))
            case ex.In():
                constants = [value for value in tree.values if isinstance(value, int)]
                return span.split({k for value in constants for k in _meetings(span, value)})
        return iter([span])

    def division(self, tree: ex.Expr, span: Span) -> Iterator[Span]:
        """A constant divisor multiplies the period; a growing one leaves the quotient constant once it is larger."""
        above, below = span.parts
        factor = 1
        inner: list[int] = []
        for k in range(span.start, span.start + span.count):
            growth, divisor_growth = span.growths(k)
            value, divisor = above.at(k), below.at(k)
            if value is None or divisor is None:
                continue
            if divisor_growth == 0:
                factor = math.lcm(factor, int(divisor) // math.gcd(int(divisor), growth) if divisor else 1)
            elif growth == 0:
                size = abs(int(value)) * (1 if divisor_growth > 0 else -1)
                ends = _first(int(divisor), divisor_growth, -size), _first(int(divisor), divisor_growth, size)
                inner += [k + ends[0] * span.period, k + (ends[1] + 1) * span.period]
            else:
                yield self.listed(tree, span)
                return
        wider = Span(span.start, span.end, span.period * factor, span.parts)
        for part in wider.split({min(inner), max(inner)} if inner else set()):
            yield self.listed(tree, part) if inner and min(inner) <= part.start < max(inner) else part

    def listed(self, tree: ex.Expr, span: Span) -> Span:
        """``span`` as a single period, so that each of its values stands for itself."""
        if span.end is None:
            raise NotAnalysedError(f"{ex.to_text(tree)!r} is not affine over an open range")
        return Span(span.start, span.end, span.end - span.start, span.parts)


def _first(value: int, growth: int, bound: int) -> int:
    """The first n >= 0 at which ``value + n * growth`` has reached ``bound``, coming from the other side."""
    if growth < 0:
        value, growth, bound = -value, -growth, -bound
    return max(0, -((value - bound) // growth))


def _crossings(span: Span, beyond: int) -> set[int]:
    """Where the difference of the two parts first reaches 0 (``beyond`` 0) or is past it (1), on each residue class."""
    left, right = span.parts
    found = set()
    for k in range(span.start, span.start + span.count):
        growth = span.growths(k)[0] - span.growths(k)[1]
        a, b = left.at(k), right.at(k)
        if growth and isinstance(a, int) and isinstance(b, int):
            found.add(k + _first(a - b, growth, beyond if growth > 0 else -beyond) * span.period)
    return found


def _meetings(span: Span, constant: int) -> set[int]:
    """Cuts around each position at which the only part may equal ``constant``."""
    (part,) = span.parts
    other = Piece(span.start, span.end, [constant], [0])
    pair = Span(span.start, span.end, span.period, (part, other))
    return _crossings(pair, 0) | _crossings(pair, 1)


def _sample(tree: ex.Expr, span: Span) -> Piece:
    """``tree``, whose direct operands are the parts of ``span``, at each position of one period."""

    def at(k: int) -> Value | None:
        return _combine(tree, [part.at(k) for part in span.parts])

    values: list[Value | None] = []
    slopes = []
    for k in range(span.start, span.start + span.count):
        value = at(k)
        after = k + span.period
        later = at(after) if type(value) is int and (span.end is None or after < span.end) else None
        values.append(value)
        slopes.append(later - value if type(later) is int and type(value) is int else 0)
    return Piece(span.start, span.end, values, slopes)


def _combine(tree: ex.Expr, operands: list[Any]) -> Value | None:
    """``tree`` from the values of its direct operands; None where Python would divide by zero on its way."""
    if isinstance(tree, ex.And | ex.Or):
        stop = isinstance(tree, ex.Or)
        return next((value for value in operands if value is None or value is stop), not stop)
    if None in operands:
        return None
    result: Value | None = None
    match tree:
        case ex.Bin(op=op):
            divides = op in ("//", "%")
            result = None if divides and operands[1] == 0 else ex.OPERATORS[op](*operands)
        case ex.Compare(op=op):
            result = ex.RELATIONS[op](*operands)
        case ex.Call(name=name):
            result = min(operands) if name == "min" else max(operands)
        case ex.Neg():
            result = -operands[0]
        case ex.Not():
            result = not operands[0]
        case ex.In(values=values):
            result = operands[0] in values
    return result

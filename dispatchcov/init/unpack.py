"""One assignment to several places, ``tile, waves = (128, 4) if wide else (64, 2)``, as assignments to one each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dispatchcov.init import syntax as syn
from dispatchcov.init.reads import names
from dispatchcov.init.syntax import Syntax


@dataclass(frozen=True, slots=True)
class Place:
    """A name or member that is assigned, or only something in it, as it is written: the ``part`` ``sizes[0]``."""

    line: int
    path: str
    part: str = ""


Target: TypeAlias = "Place | tuple[Target, ...]"
Pairs: TypeAlias = Sequence[tuple[Target, Syntax]]


@dataclass(frozen=True, slots=True)
class Unpacking:
    """How a language takes a value apart: its ``items`` if it is written as such, else its ``element`` ``i``."""

    items: Callable[[Syntax], tuple[Syntax, ...] | None]
    element: Callable[[Syntax, int], Syntax]

    def assigned(self, pairs: Pairs) -> Iterator[syn.Statement]:
        """All values of ``pairs`` are read before one place is assigned; a choice between tuples is an ``if``."""
        flat = list(self._flat(pairs))
        for i, (target, value) in enumerate(flat):
            if isinstance(target, tuple) and isinstance(value, syn.Choice):  # which has a tuple that is written out
                then, orelse = (
                    tuple(self.assigned([*flat[:i], (target, side), *flat[i + 1 :]]))
                    for side in (value.then, value.orelse)
                )
                yield syn.If(value.line, value.test.text, value.test, then, orelse)
                return
        yield from _assigned([(target, value) for target, value in flat if isinstance(target, Place)])

    def _flat(self, pairs: Pairs) -> Iterator[tuple[Target, Syntax]]:
        for target, value in pairs:
            if isinstance(target, Place) or (isinstance(value, syn.Choice) and self._readable(value)):
                yield target, value
                continue
            items = self.items(value)
            if items is None or len(items) != len(target):
                items = tuple(self.element(value, i) for i in range(len(target)))
            yield from self._flat(list(zip(target, items, strict=True)))

    def _readable(self, value: Syntax) -> bool:
        if isinstance(value, syn.Choice):
            return self._readable(value.then) or self._readable(value.orelse)
        return self.items(value) is not None


def _assigned(pairs: Sequence[tuple[Place, Syntax]]) -> Iterator[syn.Statement]:
    """Through names of their own where a value reads what is assigned before it, as ``M, N = N, M``."""
    before: set[str] = set()
    crossed = False
    for place, value in pairs:
        crossed = crossed or bool(before & set(names(value)))
        before.add(syn.last(place.path))
    aside = [f"{syn.last(place.path)}${i}" for i, (place, _) in enumerate(pairs)]
    if crossed:
        for name, (place, value) in zip(aside, pairs, strict=True):
            yield syn.Assign(place.line, value.text, name, value)
    for name, (place, value) in zip(aside, pairs, strict=True):
        given = syn.Name(value.line, value.text, name) if crossed else value
        if place.part:
            given = syn.Other(place.line, f"changed by {place.part} = {value.text}")
        yield syn.Assign(place.line, value.text, place.path, given)


def enclosed(node: Syntax) -> str:
    """The text of ``node`` as something that ``[0]`` may follow."""
    plain = isinstance(node, syn.Name | syn.Attribute | syn.Index | syn.Call | syn.Items)
    return node.text if plain else f"({node.text})"

"""What the readers of Python and C++ give to ``dispatchcov init``: functions as small syntax trees, the same for both.

Each node has the line where it begins and its text, on one line, for the comments of what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TypeAlias

MAX_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Node:
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A name as written, with its qualifiers and template arguments: ``M``, ``at::kHalf``, ``Launch<half, 4>``."""

    id: str


@dataclass(frozen=True, slots=True)
class Literal(Node):
    value: int | str | bool | None


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    of: Syntax
    name: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    of: Syntax
    index: Syntax


@dataclass(frozen=True, slots=True)
class Call(Node):
    of: Syntax
    args: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``op``: ``not``, ``-``, ``+`` and, of C++, ``*`` and ``&``."""

    op: str
    operand: Syntax


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """``op`` as the language writes it: ``/`` and ``%`` of C++ round toward zero."""

    op: str
    left: Syntax
    right: Syntax


@dataclass(frozen=True, slots=True)
class Comparison(Node):
    """``op``: ``== != < <= > >=``, ``in``, ``not in``, ``is``, ``is not``; a chain is a :class:`Logic` of these."""

    op: str
    left: Syntax
    right: Syntax


@dataclass(frozen=True, slots=True)
class Logic(Node):
    op: str
    parts: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """``then if test else orelse``, ``test ? then : orelse``."""

    test: Syntax
    then: Syntax
    orelse: Syntax


@dataclass(frozen=True, slots=True)
class Items(Node):
    """A tuple, list, set or initialiser list."""

    items: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Pairs(Node):
    """A dictionary."""

    keys: tuple[Syntax, ...]
    values: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A string put together from pieces, as ``f"gemm_{dtype}"``."""

    pieces: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Other(Node):
    """An expression that is not read further."""


Syntax: TypeAlias = (
    Name
    | Literal
    | Attribute
    | Index
    | Call
    | Unary
    | Binary
    | Comparison
    | Logic
    | Choice
    | Items
    | Pairs
    | Text
    | Other
)


@dataclass(frozen=True, slots=True)
class If(Node):
    test: Syntax
    body: Block
    orelse: Block = ()


@dataclass(frozen=True, slots=True)
class Assign(Node):
    """``target``: a name, or a member as ``params.M``. ``type``: as declared in C++, else empty.

    What a block ``declares`` is gone at its end.
    """

    target: str
    value: Syntax
    type: str = ""
    declares: bool = False


@dataclass(frozen=True, slots=True)
class Return(Node):
    value: Syntax | None


@dataclass(frozen=True, slots=True)
class Raise(Node):
    """The input is refused; ``name`` says by what: ``raise ValueError``."""

    name: str


@dataclass(frozen=True, slots=True)
class Do(Node):
    """An expression for its effect."""

    value: Syntax


@dataclass(frozen=True, slots=True)
class Opaque(Node):
    """Statements that are not read, as a loop: the names they assign, may the function end in them, what they call."""

    assigned: tuple[str, ...]
    ends: bool
    calls: tuple[Syntax, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost(Node):
    """What ``name`` holds is not known from here on; with ``for_good`` not after an assignment either."""

    name: str
    for_good: bool


@dataclass(frozen=True, slots=True)
class Scope(Node):
    """Statements that :class:`Break` leaves."""

    body: Block


@dataclass(frozen=True, slots=True)
class Break(Node):
    pass


Statement: TypeAlias = If | Assign | Return | Raise | Do | Opaque | Lost | Scope | Break
Block: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """``name`` is qualified: ``Class.method``, ``space::function``. ``parameters``: to their types, or ``""``.

    ``returns``: of C++, what is written before the name and after the parameters.
    """

    name: str
    line: int
    last: int
    parameters: Mapping[str, str]
    body: Block
    returns: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its functions, what its constants are, the names it imports, the enumerators of its enumerations."""

    file: str
    language: str
    functions: tuple[Function, ...]
    constants: Mapping[str, Syntax]
    imported: frozenset[str] = frozenset()
    enumerations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def flat(text: str) -> str:
    """``text`` on one line, without what a comment may not hold, cut where it is long."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 3] + "..."


def branches(block: Block) -> Iterator[Statement]:
    """Each statement of ``block`` that chooses between others, at any depth."""
    for statement in block:
        match statement:
            case If():
                yield statement
                yield from branches(statement.body)
                yield from branches(statement.orelse)
            case Scope():
                yield from branches(statement.body)
            case Return(value=Choice()) | Assign(value=Choice()):
                yield statement


def statements(block: Block) -> Iterator[Statement]:
    """Every statement in ``block``, at any depth."""
    for part in block:
        yield part
        if isinstance(part, If | Scope):
            yield from statements(part.body)
        if isinstance(part, If):
            yield from statements(part.orelse)


def effects(block: Block) -> tuple[Syntax, ...]:
    """What ``block`` does for its effect."""
    return tuple(part.value for part in statements(block) if isinstance(part, Do))


def inside(node: Node) -> Iterator[Node]:
    """``node`` and all that it is made of."""
    yield node
    for part in fields(node):
        value = getattr(node, part.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Node):
                yield from inside(inner)


def dotted(node: Syntax) -> str | None:
    """``a.b.c`` for a name and attributes of it."""
    match node:
        case Name():
            return node.id
        case Attribute():
            inner = dotted(node.of)
            return None if inner is None else f"{inner}.{node.name}"
    return None


def bare(name: str) -> str:
    """``name`` without its template arguments: ``std::max<int>`` is ``std::max``."""
    return re.sub(r"<.*", "", name, flags=re.S)


def last(name: str) -> str:
    """The last part of a qualified name."""
    return re.split(r"::|\.", name)[-1]

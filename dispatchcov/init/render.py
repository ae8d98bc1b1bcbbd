"""The first table of a function as TOML, with where everything comes from, and what was left as comments."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dispatchcov import expr as ex
from dispatchcov.expr import FUNCTIONS
from dispatchcov.init.translate import Condition

COMMENT_COLUMN = 52


@dataclass(frozen=True, slots=True)
class Fact:
    """A variable to be declared. ``values`` of an enum as seen; ``about`` says what the code reads for it."""

    name: str
    type: str
    values: tuple[str, ...] = ()
    least: int | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class DraftRule:
    """A rule; ``left`` says what of its guard is not translated, and then it is written as a comment."""

    name: str
    kernel: str
    guard: tuple[str, ...]
    line: int
    left: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A table to be written. What only rules read that are comments is a comment too: ``beside``."""

    op: str
    file: str
    function: str
    line: int
    rules: tuple[DraftRule, ...]
    facts: tuple[Fact, ...]
    lets: tuple[tuple[str, str], ...]
    facts_beside: tuple[Fact, ...] = ()
    lets_beside: tuple[tuple[str, str], ...] = ()

    @property
    def left(self) -> tuple[Condition, ...]:
        """The conditions that are not translated, each once."""
        found = {(part.line, part.text): part for rule in self.rules for part in rule.left}
        return tuple(found.values())

    @property
    def live(self) -> tuple[DraftRule, ...]:
        return tuple(rule for rule in self.rules if not rule.left)


def render(draft: Draft) -> str:
    """``draft`` as TOML."""
    return "\n".join([*_head(draft), *_facts(draft), *_kernels(draft), *_rules(draft), *_tail(draft)]) + "\n"


def quoted(text: str) -> str:
    """``text`` as a TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _head(draft: Draft) -> Iterator[str]:
    yield f"# The dispatch of {draft.function}, {draft.file}:{draft.line}, as dispatchcov init read it: a first draft."
    yield "# Rules are ordered: the first whose guard holds is selected."
    if draft.left:
        count = len(draft.left)
        yield f"# NOT TRANSLATED: {count} condition{'' if count == 1 else 's'}. The rules that need them are comments:"
        yield "# what the code sends to one of them, this table gives to a later rule."
    yield from ("", "[table]", f"op = {quoted(draft.op)}", "")


def _facts(draft: Draft) -> Iterator[str]:
    yield "[variables]"
    for mark, fact in [*(("", fact) for fact in draft.facts), *(("# ", fact) for fact in draft.facts_beside)]:
        keys = [f"type = {quoted(fact.type)}"]
        if fact.type == "enum":
            keys.append(f"values = [{', '.join(map(quoted, fact.values))}]")
        if fact.least is not None:
            keys.append(f"min = {fact.least}")
        line = f"{mark}{fact.name} = {{ {', '.join(keys)} }}"
        yield f"{line.ljust(COMMENT_COLUMN - 2)}  # {fact.about}" if fact.about else line
    if draft.lets or draft.lets_beside:
        yield from ("", "[let]" if draft.lets else "# [let]")
        yield from (f"{name} = {quoted(text)}" for name, text in draft.lets)
        yield from (f"# {name} = {quoted(text)}" for name, text in draft.lets_beside)


def _kernels(draft: Draft) -> Iterator[str]:
    live = {rule.kernel for rule in draft.live}
    yield from (
        "",
        "# What each kernel needs of its inputs is not in the code that chooses it. As soon as it is written here,",
    )
    yield "# dispatchcov check tells the inputs that are sent to a kernel which cannot take them:"
    yield '# requires = "K % 8 == 0"'
    for kernel in dict.fromkeys(rule.kernel for rule in draft.rules):
        mark = "" if kernel in live else "# "
        yield from ("", f"{mark}[[kernel]]", f"{mark}name = {quoted(kernel)}")


def _rules(draft: Draft) -> Iterator[str]:
    for rule in draft.rules:
        yield ""
        for part in rule.left:
            yield f"# NOT TRANSLATED  {draft.file}:{part.line}: {part.text}"
            yield f"#     {part.reason}"
        mark = "# " if rule.left else ""
        header = f"{mark}[[rule]]"
        yield f"{header.ljust(COMMENT_COLUMN - 2)}  # {draft.file}:{rule.line}"
        yield f"{mark}name = {quoted(rule.name)}"
        if rule.guard:
            yield f"{mark}when = {quoted(' and '.join(rule.guard))}"
        yield f"{mark}kernel = {quoted(rule.kernel)}"


def _tail(draft: Draft) -> Iterator[str]:
    rule = draft.live[-1]
    yield ""
    yield "# Without partitions, each rule must be hit. With them, only what they ask for:"
    yield "# [[partition]]"
    yield f"# name = {quoted(rule.name)}"
    yield f"# rule = {quoted(rule.name)}"
    enum = next((fact.name for fact in draft.facts if fact.type == "enum"), None)
    if enum:
        yield f"# cross = [{quoted(enum)}]"


def variable_names(called: Mapping[str, tuple[str, ...]], before: Iterable[str] = ()) -> dict[str, str]:
    """A name for each key, none of ``before``; ``called`` has, for each, what the code calls it, the best first."""
    taken = set(before)
    found = {}
    short: dict[str, int] = {}
    for names in called.values():
        for name in dict.fromkeys(map(_plain, names)):
            short[name] = short.get(name, 0) + 1
    for key, names in called.items():
        plain = list(map(_plain, names))
        choices = [name for name in plain if name not in taken and short[name] == 1]
        choices += [name for name in plain[-1:] if name not in taken]
        number = 2
        while not choices:
            if f"{plain[-1]}_{number}" not in taken:
                choices = [f"{plain[-1]}_{number}"]
            number += 1
        found[key] = choices[0]
        taken.add(choices[0])
    return found


def _plain(text: str) -> str:
    """``text`` as a name that a table may declare."""
    name = re.sub(r"\W+", "_", text.replace("[-", "[minus_"), flags=re.A).strip("_")[:70].strip("_")
    if not name or not name[0].isalpha():
        name = f"fact_{name}".rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) or name in FUNCTIONS else name


def rule_names(kernels: list[str]) -> list[str]:
    """A name for each rule after its kernel, numbered where a kernel has several."""
    taken: set[str] = set()
    found = []
    for kernel in kernels:
        name, number = kernel, 2
        while name in taken:
            name = f"{kernel[:190]}-{number}"
            number += 1
        taken.add(name)
        found.append(name)
    return found


def expression(expr: ex.Expr, names: Mapping[str, str], level: int = 0) -> str:
    """``expr`` with the names of the table for its keys; a key without one stays as it is."""
    return ex.to_text(ex.substitute(expr, {key: ex.Var(name) for key, name in names.items()}), level)

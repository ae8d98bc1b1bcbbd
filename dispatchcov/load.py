"""TOML to :class:`~dispatchcov.table.Table`: every mistake is an error with file, line, expected, got, known names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from dispatchcov.conditions import Conditions
from dispatchcov.errors import TableError, brief, known
from dispatchcov.formula import Formula
from dispatchcov.requirements import Requirements, read_waivers
from dispatchcov.table import Kernel, Partition, Parts, Predicate, Rule, Table
from dispatchcov.toml_read import Document, Entry, read_text
from dispatchcov.variables import check_name, read_variables

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def load_table(path: str | os.PathLike[str]) -> Table:
    """The table in the TOML file ``path``; raises :class:`TableError` with file and line. Runs no code of the file."""
    name = os.fspath(path)
    document = Document(text := read_text(path), name)
    head = document.root.table("table")
    return _extended(document) if "extends" in head else Table(_parts(document, text))


def parse_table(text: str, *, source: str = "<table>") -> Table:
    """The table in the TOML ``text``; ``source`` names it in messages and reports. Raises :class:`TableError`."""
    text = text.removeprefix("\ufeff")
    document = Document(text, source)
    return Table(_parts(document, text))


def _extended(document: Document) -> Table:
    """The table that ``document`` extends, with the partitions and waivers of ``document`` in place of its own."""
    root = document.root.only("table", "partition", "waiver")
    head = root.table("table").only("extends")
    path = os.path.join(os.path.dirname(document.source), head.string("extends"))
    base = Document(text := read_text(path), path)
    if "extends" in base.root.table("table"):
        raise head.fail(f"expected the file of a whole table, got {path!r}, which extends another", "extends")
    if not root.tables("partition"):
        raise document.fail("expected at least one [[partition]], got none")
    own = _without_requirements(text, base) + "\n" + document.text[document.text.index("[[") :]
    return Table(_parts(base, own, root))


def _without_requirements(text: str, document: Document) -> str:
    """``text`` without its partitions and waivers, which must stand in sections of their own at its end."""
    root = document.root
    first = min((root.line(kind, 0) for kind in ("partition", "waiver") if root.values.get(kind)), default=0)
    if first and max(root.line(kind, i) for kind in ("kernel", "rule") for i in range(len(root.values[kind]))) > first:
        raise document.fail(
            "expected partitions and waivers after kernels and rules, in a table that is extended", first
        )
    return "\n".join(text.splitlines()[: first - 1]) if first else text


def _parts(document: Document, text: str, requirements: Entry | None = None) -> Parts:
    root = document.root.only("table", "variables", "let", "kernel", "rule", "partition", "waiver")
    for key, what in (("variables", "[variables]"), ("kernel", "[[kernel]]"), ("rule", "[[rule]]")):
        if root.values.get(key) in (None, {}, []):
            raise document.fail(f"expected {what}, got none", root.line(key))
    op = root.table("table").only("op").name("op")
    variables = read_variables(root.table("variables"))
    conditions = Conditions(variables)
    lets = _lets(root.table("let"), conditions)
    kernels, rules = _rules(root, conditions)
    reader = Requirements(conditions, rules)
    required = requirements or root
    entries = required.tables("partition")
    partitions = _unique((reader.partition(entry) for entry in entries), "partition", required.document)
    if not partitions:
        partitions = {rule.name: Partition(rule.name, (rule.index,), line=rule.line) for rule in rules.values()}
    waivers = read_waivers(required.tables("waiver"), partitions)
    return Parts(
        op,
        tuple(variables.values()),
        lets,
        tuple(conditions.predicates),
        tuple(kernels.values()),
        tuple(rules.values()),
        tuple(partitions.values()),
        waivers,
        required.document.source,
        text,
    )


def _lets(entry: Entry, conditions: Conditions) -> tuple[tuple[str, str], ...]:
    lets = []
    for name in entry.values:
        check_name(entry, name)
        if name in conditions.variables:
            line = conditions.variables[name].line
            raise entry.fail(f"{name!r} is a variable, declared at line {line}; expected another name", name)
        lets.append((name, conditions.let(entry, name)))
    return tuple(lets)


def _rules(root: Entry, conditions: Conditions) -> tuple[dict[str, Kernel], dict[str, Rule]]:
    """Kernels and rules. Predicates are numbered in the order of guards, then splits, then contracts."""
    entries = root.tables("rule")
    for entry in entries:
        entry.where = f"rule {entry.name('name')!r}"
        entry.only("name", "when", "kernel", "splits")
    guards = [conditions.condition(entry, "when") for entry in entries]
    splits = [conditions.splits(entry) for entry in entries]
    kernels = _unique((_kernel(entry, conditions) for entry in root.tables("kernel")), "kernel", root.document)
    parts = zip(entries, guards, splits, strict=True)
    rules = (_rule(index, *part, kernels) for index, part in enumerate(parts))
    return kernels, _unique(rules, "rule", root.document)


def _kernel(entry: Entry, conditions: Conditions) -> Kernel:
    name = entry.name("name")
    entry.where = f"kernel {name!r}"
    entry.only("name", "symbol", "requires")
    symbol = entry.name("symbol") if "symbol" in entry else ""
    variables = conditions.variables
    for placeholder in PLACEHOLDER.findall(symbol):
        if placeholder not in variables:
            raise entry.fail(f"unknown variable {placeholder!r} in symbol; {known(placeholder, variables)}", "symbol")
    if set("{}") & set(PLACEHOLDER.sub("", symbol)):
        raise entry.fail(f"expected each {{ of symbol to be closed, as in {{dtype}}, got {brief(symbol)}", "symbol")
    requires = conditions.condition(entry, "requires")
    return Kernel(name, symbol, requires, str(entry.values.get("requires", "")), entry.line())


def _rule(
    index: int, entry: Entry, guard: Formula, splits: tuple[Predicate, ...], kernels: Mapping[str, Kernel]
) -> Rule:
    kernel = entry.string("kernel")
    if kernel not in kernels:
        raise entry.fail(f"unknown kernel {brief(kernel)}; {known(kernel, kernels)}", "kernel")
    when = str(entry.values.get("when", ""))
    return Rule(index, entry.name("name"), guard, when, kernels[kernel], splits, entry.line())


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def line(self) -> int: ...


_T = TypeVar("_T", bound=_Named)


def _unique(items: Iterable[_T], kind: str, document: Document) -> dict[str, _T]:
    found: dict[str, _T] = {}
    for item in items:
        if item.name in found:
            first = found[item.name].line
            raise document.fail(f"{kind} {item.name!r} is declared twice, first at line {first}", item.line)
        found[item.name] = item
    return found


__all__ = ["TableError", "load_table", "parse_table"]

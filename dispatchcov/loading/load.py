"""TOML to :class:`~dispatchcov.table.Table`: every mistake is an error with file, line, expected, got, known names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from dispatchcov.errors import TableError, brief, known
from dispatchcov.formula import Formula
from dispatchcov.loading.conditions import Conditions
from dispatchcov.loading.extend import read_extension
from dispatchcov.loading.requirements import Requirements, read_waivers
from dispatchcov.loading.toml_read import Document, Entry, read_text
from dispatchcov.loading.variables import check_name, read_variables
from dispatchcov.parts import Kernel, Partition, Parts, Predicate, Rule
from dispatchcov.table import Table

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def load_table(path: str | os.PathLike[str]) -> Table:
    """The table in the TOML file ``path``; raises :class:`TableError` with file and line. Runs no code of the file.

    A relative ``path`` starts at the working directory: code names a file beside it by
    ``Path(__file__).with_name("dispatch.toml")``.
    """
    try:
        text = read_text(path)
    except TableError as error:
        raise TableError(error.message + _looked_for(os.fspath(path)), file=error.file) from None
    document = Document(text, os.fspath(path))
    if "extends" in document.root.table("table"):
        extension = read_extension(document)
        parts = _parts(extension.base, extension.requirements)
        return Table(replace(parts, text=extension.text(), folder=_folder(extension.base)))
    return Table(replace(_parts(document), folder=_folder(document)))


def _looked_for(path: str) -> str:
    """Where a file that is not there was looked for, and how code says where it is."""
    if os.path.isabs(path) or "\0" in path or os.path.lexists(path):
        return ""
    folder, name = os.path.split(path)
    beside = f"parent / {path!r}" if folder else f"with_name({name!r})"
    return (
        f": {os.path.abspath(path)}; a relative path starts at the working directory, {os.getcwd()}; in code, write "
        f"Path(__file__).{beside}"
    )


def _folder(document: Document) -> str:
    """Where the sources of kernels are looked for; a text from elsewhere has no such place."""
    return os.path.dirname(os.path.abspath(document.source))


def parse_table(text: str, *, source: str = "<table>") -> Table:
    """The table in the TOML ``text``; ``source`` names it in messages and reports. Raises :class:`TableError`."""
    return Table(parse_parts(text, source=source))


def parse_parts(text: str, *, source: str = "<table>") -> Parts:
    """What the table in the TOML ``text`` is made of; raises :class:`TableError`. Nothing can decide by it yet."""
    return _parts(Document(text.removeprefix("\ufeff"), source))


def _parts(document: Document, requirements: Entry | None = None) -> Parts:
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
    waivers = read_waivers(required.tables("waiver"), partitions, rules)
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
        document.text,
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
    entry.only("name", "symbol", "requires", "sources")
    symbol = entry.name("symbol") if "symbol" in entry else ""
    variables = conditions.variables
    for placeholder in PLACEHOLDER.findall(symbol):
        if placeholder not in variables:
            raise entry.fail(f"unknown variable {placeholder!r} in symbol; {known(placeholder, variables)}", "symbol")
    if set("{}") & set(PLACEHOLDER.sub("", symbol)):
        raise entry.fail(f"expected each {{ of symbol to be closed, as in {{dtype}}, got {brief(symbol)}", "symbol")
    requires = conditions.condition(entry, "requires")
    sources = tuple(entry.strings("sources"))
    return Kernel(name, symbol, requires, str(entry.values.get("requires", "")), sources, entry.line())


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


__all__ = ["TableError", "load_table", "parse_parts", "parse_table"]

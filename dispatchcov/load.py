"""TOML to :class:`~dispatchcov.table.Table`: every mistake is an error with file, line, expected, got and known names."""

from __future__ import annotations

import datetime
import itertools
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dispatchcov import expr as ex
from dispatchcov.errors import ExpressionError, TableError, known
from dispatchcov.formula import ALWAYS, Every, Formula, Leaf, Opposite, Some, every
from dispatchcov.table import (
    EVIDENCE,
    Bin,
    Kernel,
    Parts,
    Partition,
    Predicate,
    Rule,
    Table,
    Variable,
    Waiver,
)
from dispatchcov.toml_lines import Lines, scan

MAX_BYTES = 4 << 20
MAX_BINS = 4096
KEYS = {
    "table": {"op"},
    "variable": {"type", "min", "max", "multiple_of", "values", "hardware"},
    "kernel": {"name", "symbol", "requires"},
    "rule": {"name", "when", "kernel", "splits"},
    "partition": {"name", "rule", "where", "cross", "required", "at_least", "illegal", "evidence"},
    "waiver": {"partition", "reason", "expires"},
}
TOP = ("table", "variables", "let", "kernel", "rule", "partition", "waiver")


def load_table(path: str | os.PathLike[str]) -> Table:
    """The table in the TOML file ``path``; raises :class:`TableError` with file and line. Runs no code of the file."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise TableError(f"expected a readable TOML file: {error.strerror or error}", file=name) from None
    if len(data) > MAX_BYTES:
        raise TableError(f"expected at most {MAX_BYTES} bytes", file=name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TableError(f"expected UTF-8, got byte {data[error.start]:#04x}", file=name) from None
    return parse_table(text, source=name)


def parse_table(text: str, *, source: str = "<table>") -> Table:
    """The table in the TOML ``text``; ``source`` names it in messages and reports."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        at = re.search(r"at line (\d+)", str(error))
        raise TableError(f"expected TOML: {error}", file=source, line=int(at[1]) if at else 0) from None
    return _Loader(document, scan(text), source, text).table()


class _Loader:
    def __init__(self, document: dict[str, Any], lines: Lines, source: str, text: str) -> None:
        self.document = document
        self.lines = lines
        self.source = Path(source).as_posix()
        self.text = text
        self.variables: dict[str, Variable] = {}
        self.lets: dict[str, ex.Expr] = {}
        self.let_texts: list[tuple[str, str]] = []
        self.types: dict[str, str] = {}
        self.predicates: dict[str, Predicate] = {}

    def fail(self, message: str, line: int = 0) -> TableError:
        return TableError(message, file=self.source, line=line)

    # --- the document, part by part ---------------------------------------------------------------------------------

    def table(self) -> Table:
        self.known_keys(self.document, set(TOP), "the table file", lambda key: self.lines.of(key) or self.lines.of("", 0, key))
        head = self.mapping(self.document.get("table"), "[table]", 0)
        line = self.lines.of("table")
        self.known_keys(head, KEYS["table"], "[table]", lambda key: self.lines.of("table", 0, key))
        op = self.string(head, "op", "[table]", line)
        self.read_variables()
        self.read_lets()
        rules_in, kernels_in = self.entries("rule"), self.entries("kernel")
        for kind, entries in (("rule", rules_in), ("kernel", kernels_in)):
            if not entries:
                raise self.fail(f"expected at least one [[{kind}]], got none")
        guards = [self.condition(entry, "when", "rule", i) for i, entry in enumerate(rules_in)]
        splits = [self.splits(entry, i) for i, entry in enumerate(rules_in)]
        kernels = self.unique([self.kernel(entry, i) for i, entry in enumerate(kernels_in)], "kernel")
        rules = self.unique(
            [self.rule(entry, i, guards[i], splits[i], kernels) for i, entry in enumerate(rules_in)], "rule"
        )
        entries = self.entries("partition")
        partitions = self.unique([self.partition(entry, i, rules) for i, entry in enumerate(entries)], "partition")
        if not partitions:
            partitions = {rule.name: Partition(rule.name, (rule.index,), line=rule.line) for rule in rules.values()}
        waivers = [self.waiver(entry, i, partitions) for i, entry in enumerate(self.entries("waiver"))]
        return Table(
            Parts(
                op,
                tuple(self.variables.values()),
                tuple(self.let_texts),
                tuple(self.predicates.values()),
                tuple(kernels.values()),
                tuple(rules.values()),
                tuple(partitions.values()),
                tuple(waivers),
                self.source,
                self.text,
            )
        )

    def read_variables(self) -> None:
        entries = self.mapping(self.document.get("variables"), "[variables]", self.lines.of("variables"))
        if not entries:
            raise self.fail("expected at least one variable in [variables]", self.lines.of("variables"))
        for name, entry in entries.items():
            line = self.lines.of("variables", 0, name)
            if f"variables.{name}" in {section.name for section in self.lines.sections}:
                line = self.lines.of(f"variables.{name}")
            self.new_name(name, line)
            variable = self.variable(name, self.mapping(entry, f"variable {name!r}", line), line)
            self.variables[name] = variable
            self.types[name] = variable.kind

    def new_name(self, name: str, line: int) -> None:
        import keyword

        if not ex.NAME.match(name) or keyword.iskeyword(name) or name in ex.FUNCTIONS:
            raise self.fail(f"expected a name of letters, digits and _ that is no word of the language, got {name!r}", line)
        if name in self.types:
            raise self.fail(f"{name!r} is declared twice", line)

    def variable(self, name: str, entry: Mapping[str, Any], line: int) -> Variable:
        where = f"variable {name!r}"
        self.known_keys(entry, KEYS["variable"], where, lambda _: line)
        kind = entry.get("type")
        if kind not in ("int", "enum", "bool"):
            raise self.fail(f"{where}: expected type to be int, enum or bool, got {kind!r}", line)
        allowed = {"int": {"min", "max", "multiple_of", "values"}, "enum": {"values"}, "bool": set()}[kind]
        for key in entry.keys() - allowed - {"type", "hardware"}:
            raise self.fail(f"{where}: {key!r} does not go with type {kind}", line)
        wanted = str if kind == "enum" else int
        values = self.list_of(entry, "values", wanted, where, line)
        if kind == "enum" and not values:
            raise self.fail(f"{where}: expected values, at least one string", line)
        if values and entry.keys() & {"min", "max", "multiple_of"}:
            raise self.fail(f"{where}: expected either values or min, max and multiple_of, got both", line)
        if len(set(values)) != len(values):
            raise self.fail(f"{where}: values has an entry twice", line)
        low, high = (self.integer(entry, key, where, line) for key in ("min", "max"))
        step = self.integer(entry, "multiple_of", where, line)
        step = 1 if step is None else step
        if step < 1:
            raise self.fail(f"{where}: expected multiple_of of at least 1, got {step}", line)
        if low is not None and high is not None and -(-low // step) * step > high:
            raise self.fail(f"{where}: no value lies between min {low} and max {high}", line)
        hardware = self.boolean(entry, "hardware", where, line, False)
        if hardware and kind == "int" and not values:
            raise self.fail(f"{where}: a hardware variable lists its values", line)
        if kind == "bool":
            values = [False, True]
        return Variable(name, kind, low, high, step, tuple(values), hardware, line)

    def read_lets(self) -> None:
        entries = self.mapping(self.document.get("let", {}), "[let]", self.lines.of("let"))
        for name, text in entries.items():
            line = self.lines.of("let", 0, name)
            self.new_name(name, line)
            tree = self.parse(text, f"let {name!r}", line)
            self.lets[name] = self.expand(tree, f"let {name!r}", line)
            self.types[name] = self.type_of(tree, f"let {name!r}", line)
            self.let_texts.append((name, ex.to_text(tree)))

    def kernel(self, entry: Mapping[str, Any], index: int) -> Kernel:
        line = self.lines.of("kernel", index)
        name = self.name_of(entry, "kernel", index)
        symbol = entry.get("symbol", "")
        if not isinstance(symbol, str):
            raise self.fail(f"kernel {name!r}: expected symbol to be a string, got {symbol!r}", line)
        for placeholder in re.findall(r"\{([^{}]*)\}", symbol):
            if placeholder not in self.variables:
                at = self.lines.of("kernel", index, "symbol")
                raise self.fail(
                    f"kernel {name!r}: unknown variable {placeholder!r} in symbol; {known(placeholder, self.variables)}", at
                )
        requires = self.condition(entry, "requires", "kernel", index)
        return Kernel(name, symbol, requires, str(entry.get("requires", "")), line)

    def rule(
        self,
        entry: Mapping[str, Any],
        index: int,
        guard: Formula,
        splits: tuple[Predicate, ...],
        kernels: Mapping[str, Kernel],
    ) -> Rule:
        name = self.name_of(entry, "rule", index)
        kernel = self.string(entry, "kernel", f"rule {name!r}", self.lines.of("rule", index))
        if kernel not in kernels:
            line = self.lines.of("rule", index, "kernel")
            raise self.fail(f"rule {name!r}: unknown kernel {kernel!r}; {known(kernel, kernels)}", line)
        line = self.lines.of("rule", index)
        return Rule(index, name, guard, str(entry.get("when", "")), kernels[kernel], splits, line)

    def splits(self, entry: Mapping[str, Any], index: int) -> tuple[Predicate, ...]:
        line = self.lines.of("rule", index, "splits")
        found = []
        for text in self.list_of(entry, "splits", str, f"rule {entry.get('name')!r}", line):
            formula = self.formula(text, f"split of rule {entry.get('name')!r}", line)
            if not isinstance(formula, Leaf):
                raise self.fail(f"rule {entry.get('name')!r}: expected a split to be one predicate, got {text!r}", line)
            found.append(list(self.predicates.values())[formula.index])
        return tuple(found)

    def partition(self, entry: Mapping[str, Any], index: int, rules: Mapping[str, Rule]) -> Partition:
        name = self.name_of(entry, "partition", index)
        where = f"partition {name!r}"
        line = self.lines.of("partition", index)
        at = self.lines.of("partition", index, "rule")
        given = entry.get("rule")
        chosen = self.list_of({"rule": [given] if isinstance(given, str) else given}, "rule", str, where, at)
        if not chosen:
            raise self.fail(f"{where}: expected rule, a name or a list of names; {known('', rules)}", at)
        for rule in chosen:
            if rule not in rules:
                raise self.fail(f"{where}: unknown rule {rule!r}; {known(rule, rules)}", at)
        evidence = self.list_of(entry, "evidence", str, where, self.lines.of("partition", index, "evidence"))
        for item in evidence:
            if item not in EVIDENCE:
                at = self.lines.of("partition", index, "evidence")
                raise self.fail(f"{where}: unknown evidence {item!r}; {known(item, EVIDENCE)}", at)
        at_least = self.integer(entry, "at_least", where, line)
        if at_least is not None and at_least < 1:
            raise self.fail(f"{where}: expected at_least of at least 1, got {at_least}", line)
        illegal = self.boolean(entry, "illegal", where, line, False)
        required = self.boolean(entry, "required", where, line, not illegal)
        if illegal and required:
            raise self.fail(f"{where}: expected either illegal or required, got both", line)
        return Partition(
            name,
            tuple(sorted({rules[rule].index for rule in chosen})),
            self.condition(entry, "where", "partition", index),
            str(entry.get("where", "")),
            self.bins(entry, where, self.lines.of("partition", index, "cross")),
            required,
            at_least or 1,
            illegal,
            frozenset(evidence),
            line,
        )

    def bins(self, entry: Mapping[str, Any], where: str, line: int) -> tuple[Bin, ...]:
        crossed = []
        for name in self.list_of(entry, "cross", str, where, line):
            if name not in self.variables:
                raise self.fail(f"{where}: unknown variable {name!r} in cross; {known(name, self.variables)}", line)
            if not self.variables[name].values:
                raise self.fail(f"{where}: cross needs a variable with listed values, got {name!r}", line)
            crossed.append(self.variables[name])
        count = 1
        for variable in crossed:
            count *= len(variable.values)
        if count > MAX_BINS:
            raise self.fail(f"{where}: expected at most {MAX_BINS} bins, got {count}", line)
        bins = []
        for values in itertools.product(*(variable.values for variable in crossed)):
            pairs = list(zip(crossed, values, strict=True))
            label = ", ".join(f"{v.name}={str(x).lower() if isinstance(x, bool) else x}" for v, x in pairs)
            condition = every(*(self.equals(variable, value, line) for variable, value in pairs))
            bins.append(Bin(label, tuple((v.name, x) for v, x in pairs), condition))
        return tuple(bins)

    def equals(self, variable: Variable, value: ex.Value, line: int) -> Formula:
        if variable.type == "bool":
            leaf = self.leaf(ex.Var(variable.name), line)
            return leaf if value else Opposite(leaf)
        return self.leaf(ex.Compare("==", ex.Var(variable.name), ex.Const(value)), line)

    def waiver(self, entry: Mapping[str, Any], index: int, partitions: Mapping[str, Partition]) -> Waiver:
        line = self.lines.of("waiver", index)
        self.known_keys(entry, KEYS["waiver"], "waiver", lambda key: self.lines.of("waiver", index, key))
        name = self.string(entry, "partition", "waiver", line)
        if name not in partitions:
            at = self.lines.of("waiver", index, "partition")
            raise self.fail(f"waiver: unknown partition {name!r}; {known(name, partitions)}", at)
        expires = entry.get("expires")
        if isinstance(expires, str):
            try:
                expires = datetime.date.fromisoformat(expires)
            except ValueError:
                expires = None
        if isinstance(expires, datetime.datetime) or not isinstance(expires, datetime.date):
            at = self.lines.of("waiver", index, "expires")
            got = entry.get("expires")
            raise self.fail(f"waiver of {name!r}: expected expires to be a date such as 2027-01-31, got {got!r}", at)
        return Waiver(name, self.string(entry, "reason", f"waiver of {name!r}", line), expires, line)

    # --- expressions ------------------------------------------------------------------------------------------------

    def parse(self, text: object, where: str, line: int) -> ex.Expr:
        try:
            return ex.parse(text)  # type: ignore[arg-type]  # parse says what is wrong with another type
        except ExpressionError as error:
            raise self.fail(f"{where}: {error}", line) from None

    def type_of(self, tree: ex.Expr, where: str, line: int) -> str:
        try:
            return ex.check_type(tree, self.types)
        except ExpressionError as error:
            raise self.fail(f"{where}: {error}", line) from None

    def expand(self, tree: ex.Expr, where: str, line: int) -> ex.Expr:
        sizes = {name: sum(1 for _ in ex.walk(value)) for name, value in self.lets.items()}
        if sum(sizes.get(node.name, 1) if isinstance(node, ex.Var) else 1 for node in ex.walk(tree)) > ex.MAX_NODES:
            raise self.fail(f"{where}: expected at most {ex.MAX_NODES} terms once derived values are replaced", line)
        return ex.substitute(tree, self.lets)

    def condition(self, entry: Mapping[str, Any], key: str, kind: str, index: int) -> Formula:
        if key not in entry:
            return ALWAYS
        return self.formula(entry[key], f"{key} of {kind} {entry.get('name')!r}", self.lines.of(kind, index, key))

    def formula(self, text: object, where: str, line: int) -> Formula:
        tree = self.parse(text, where, line)
        got = self.type_of(tree, where, line)
        if got != "bool":
            raise self.fail(f"{where}: expected a condition, got {got} {text!r}", line)
        return self.lower(tree, where, line)

    def lower(self, tree: ex.Expr, where: str, line: int) -> Formula:
        match tree:
            case ex.And():
                return every(*(self.lower(part, where, line) for part in tree.operands))
            case ex.Or():
                return Some(tuple(self.lower(part, where, line) for part in tree.operands))
            case ex.Not():
                return Opposite(self.lower(tree.operand, where, line))
            case ex.Var() if tree.name in self.lets:
                return self.lower(self.lets[tree.name], where, line)
        if not ex.names(tree):
            raise self.fail(f"{where}: {ex.to_text(tree)!r} reads no variable", line)
        self.check_values(tree, where, line)
        return self.leaf(tree, line)

    def leaf(self, tree: ex.Expr, line: int) -> Leaf:
        text = ex.to_text(tree)
        if text not in self.predicates:
            full = ex.substitute(tree, self.lets)
            self.predicates[text] = Predicate(len(self.predicates), text, full, ex.names(full), line)
        return Leaf(self.predicates[text].index)

    def check_values(self, tree: ex.Expr, where: str, line: int) -> None:
        """An enum compared with a string that is none of its values is a typing mistake that would never hold."""
        match tree:
            case ex.Compare(left=ex.Var(name=name), right=ex.Const(value=value)):
                compared = [value]
            case ex.Compare(left=ex.Const(value=value), right=ex.Var(name=name)):
                compared = [value]
            case ex.In(item=ex.Var(name=name), values=values):
                compared = list(values)
            case _:
                return
        variable = self.variables.get(name)
        for value in compared:
            if variable and variable.type == "enum" and value not in variable.values:
                names = [str(item) for item in variable.values]
                raise self.fail(f"{where}: {name} is never {value!r}; {known(str(value), names)}", line)

    # --- values -----------------------------------------------------------------------------------------------------

    def entries(self, kind: str) -> list[Mapping[str, Any]]:
        value = self.document.get(kind, [])
        if not isinstance(value, list):
            raise self.fail(f"expected [[{kind}]], an array of tables, got [{kind}]", self.lines.of(kind))
        return [self.mapping(entry, f"[[{kind}]]", self.lines.of(kind, i)) for i, entry in enumerate(value)]

    def mapping(self, value: object, where: str, line: int) -> Mapping[str, Any]:
        if value is None:
            raise self.fail(f"expected {where}, got none")
        if not isinstance(value, dict):
            raise self.fail(f"{where}: expected a TOML table, got {type(value).__name__} {value!r}", line)
        return value

    def known_keys(self, entry: Mapping[str, Any], allowed: set[str], where: str, line: Any) -> None:
        for key in entry:
            if key not in allowed:
                raise self.fail(f"unknown key {key!r} in {where}; {known(key, sorted(allowed))}", line(key))

    def name_of(self, entry: Mapping[str, Any], kind: str, index: int) -> str:
        line = self.lines.of(kind, index)
        name = self.string(entry, "name", f"[[{kind}]]", line)
        self.known_keys(entry, KEYS[kind], f"{kind} {name!r}", lambda key: self.lines.of(kind, index, key))
        return name

    def unique(self, items: list[Any], kind: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for item in items:
            if item.name in found:
                first = found[item.name].line
                raise self.fail(f"{kind} {item.name!r} is declared twice, first at line {first}", item.line)
            found[item.name] = item
        return found

    def string(self, entry: Mapping[str, Any], key: str, where: str, line: int) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fail(f"{where}: expected {key} to be a string, got {value!r}", line)
        return value

    def integer(self, entry: Mapping[str, Any], key: str, where: str, line: int) -> int | None:
        value = entry.get(key)
        if value is None or (type(value) is int and abs(value) < ex.INT_LIMIT):
            return value
        raise self.fail(f"{where}: expected {key} to be an integer below 2**63, got {value!r}", line)

    def boolean(self, entry: Mapping[str, Any], key: str, where: str, line: int, default: bool) -> bool:
        value = entry.get(key, default)
        if not isinstance(value, bool):
            raise self.fail(f"{where}: expected {key} to be true or false, got {value!r}", line)
        return value

    def list_of(self, entry: Mapping[str, Any], key: str, kind: type, where: str, line: int) -> list[Any]:
        value = entry.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or any(type(item) is not kind for item in value):
            name = {str: "strings", int: "integers"}[kind]
            raise self.fail(f"{where}: expected {key} to be a list of {name}, got {value!r}", line)
        return value


__all__ = ["Every", "load_table", "parse_table"]

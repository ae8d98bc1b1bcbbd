"""What identifies a table: a checksum of all that decides, counts or judges."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dispatchcov.expr import to_text
from dispatchcov.formula import Every, Formula, Leaf, Opposite, leaves
from dispatchcov.parts import Partition, Parts, Variable


def digest(parts: Parts) -> str:
    """SHA-256 of ``parts``, less what decides nothing: layout, lines, names of derived values, waivers."""
    predicates = [to_text(predicate.expr) for predicate in parts.predicates]
    partitions = [_partition(partition) for partition in parts.partitions]
    return _sum({**_rules(parts), "predicates": predicates, "partitions": partitions})


def rules_digest(parts: Parts) -> str:
    """SHA-256 of what decides: two tables that share it take the same decisions, whatever they require of tests."""
    used = [index for kernel in parts.kernels for index in leaves(kernel.requires)]
    used += [index for rule in parts.rules for index in (*leaves(rule.guard), *(split.index for split in rule.splits))]
    predicates = [to_text(predicate.expr) for predicate in parts.predicates[: max(used, default=-1) + 1]]
    return _sum({**_rules(parts), "predicates": predicates})


def _rules(parts: Parts) -> dict[str, Any]:
    return {
        "op": parts.op,
        "variables": [_variable(variable) for variable in parts.variables],
        "kernels": [[k.name, k.symbol, _shape(k.requires)] for k in parts.kernels],
        "rules": [[r.name, _shape(r.guard), r.kernel.name, [s.index for s in r.splits]] for r in parts.rules],
    }


def _sum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _variable(v: Variable) -> list[Any]:
    return [v.name, v.type, v.min, v.max, v.multiple_of, v.values, v.hardware]


def _partition(p: Partition) -> list[Any]:
    bins = [bin.values for bin in p.bins]
    return [p.name, p.rules, _shape(p.condition), bins, p.required, p.at_least, p.illegal, sorted(p.evidence)]


def _shape(formula: Formula) -> Any:
    """``formula`` over the numbers of its predicates."""
    match formula:
        case Leaf():
            return formula.index
        case Opposite():
            return ["not", _shape(formula.operand)]
    return ["and" if isinstance(formula, Every) else "or", *map(_shape, formula.operands)]

"""What identifies a table: a checksum of all that decides, counts or judges."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from dispatchcov.expr import to_text
from dispatchcov.formula import Every, Formula, Leaf, Opposite
from dispatchcov.table import Partition, Parts, Variable


def digest(parts: Parts) -> str:
    """SHA-256 of ``parts``, less what decides nothing: layout, lines, names of derived values, waivers."""
    content = {
        "op": parts.op,
        "variables": [_variable(variable) for variable in parts.variables],
        "predicates": [to_text(predicate.expr) for predicate in parts.predicates],
        "kernels": [[k.name, k.symbol, _shape(k.requires)] for k in parts.kernels],
        "rules": [[r.name, _shape(r.guard), r.kernel.name, [s.index for s in r.splits]] for r in parts.rules],
        "partitions": [_partition(partition) for partition in parts.partitions],
    }
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

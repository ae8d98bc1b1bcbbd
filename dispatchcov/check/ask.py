"""What every kind of finding needs: the questions to the space of a table, and how an answer becomes a finding."""

from __future__ import annotations

from dispatchcov.check.findings import Finding
from dispatchcov.expr import Value
from dispatchcov.formula import Formula, every
from dispatchcov.regions import Space
from dispatchcov.space.answers import Answer
from dispatchcov.space.domain import bits
from dispatchcov.table import Partition, Rule, Table


class Inquiry:
    """Questions about ``table``; ``engine`` answers them. ``dead`` are the rules proved to take no input."""

    def __init__(self, table: Table, engine: type[Space]) -> None:
        self.table = table
        self.engine = engine
        self.space = engine.of(table)
        self.dead: set[int] = set()

    def finding(
        self,
        kind: str,
        message: str,
        answer: Answer | None = None,
        *,
        rule: Rule | None = None,
        partition: Partition | None = None,
        predicate: str | None = None,
    ) -> Finding:
        """A finding about ``rule`` or ``partition``; the witness of ``answer`` shows it, its reason is a doubt."""
        place = rule or partition or self.table.rules[-1]
        return Finding(
            kind,
            self.table.op,
            self.table.source,
            place.line,
            f"{message} ({answer.reason})" if answer and answer.reason else message,
            rule=rule.name if rule else None,
            kernel=rule.kernel.name if rule else None,
            partition=partition.name if partition else None,
            predicate=predicate,
            input=answer.witness if answer else None,
        )

    def unknown(
        self, question: str, answer: Answer, rule: Rule | None = None, partition: Partition | None = None
    ) -> Finding:
        """The finding that ``question`` has no proof either way."""
        message = f"whether {question} could not be decided"
        return self.finding("unknown", message, answer, rule=rule, partition=partition)

    def text(self, index: int) -> str:
        """Predicate ``index`` as it is written."""
        return self.table.predicates[index].text

    def outcomes(self, facts: dict[str, Value]) -> int:
        """The vector of ``facts``; a predicate that divides by zero does not hold."""
        return bits(self.table.predicates, facts)[0]

    def never(self, *parts: Formula) -> bool:
        """Is it proved that no input fulfils all of ``parts``, whatever rules say of it?"""
        return self.space.possible(every(*parts)) == "unreachable"

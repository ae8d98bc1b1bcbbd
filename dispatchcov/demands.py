"""What a gate is asked for by name: ``odd-block``, ``odd-block observed``, ``odd-block checked, observed on sm_90``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dispatchcov.errors import UsageError, known
from dispatchcov.items import Item, Seen
from dispatchcov.parts import EVIDENCE
from dispatchcov.results import Results

_EVIDENCE = "|".join(EVIDENCE)
_LIST = rf"(?:{_EVIDENCE})(?:(?:\s*,\s*|\s+and\s+)(?:{_EVIDENCE}))*"
_REST = re.compile(rf"(?:\s+(?P<evidence>{_LIST}))?(?:\s+on\s+(?P<where>.+))?")
_NONE: Mapping[str, Collection[str]] = MappingProxyType({})
_VALUE = re.compile(r"(?:\s*==?\s*|_)(?P<value>\S.*)")


@dataclass(frozen=True, slots=True)
class Demand:
    """A partition, a bin of one or a rule that must be hit, with ``evidence``, by one machine ``where`` (``""``: any).

    ``where`` is a hardware variable with its value, ``sm_90`` or ``sm=90``, which a machine that emulates it is not, or
    a machine's label with ``*`` and ``?`` as in file names, ``NVIDIA H200*`` or ``cpu, emulates sm_90``.
    """

    text: str
    name: str
    evidence: frozenset[str] = frozenset()
    where: str = ""

    @staticmethod
    def of(
        text: str,
        names: Collection[str],
        selecting: Mapping[str, Collection[str]] = _NONE,
        labels: Collection[str] = (),
    ) -> Demand:
        """``text`` read; ``names`` are those of all partitions and rules, which may hold any words.

        ``labels`` are those of bins of partitions, as reports print them: ``odd-block [dtype=float16]``. Raises
        :class:`UsageError` if it begins with none of both. ``selecting`` are the kernels with the rules that select
        them: a kernel is not asked for by name.
        """
        text = text.strip()
        for name in sorted({*names, *labels}, key=len, reverse=True):
            rest = _REST.fullmatch(text.removeprefix(name)) if text.startswith(name) else None
            if rest is not None:
                break
        else:
            raise UsageError(f"required by name: {_wrong(text, names, selecting, labels)}")
        evidence = frozenset(part.strip() for part in re.split(r",|\band\b", rest["evidence"] or "") if part.strip())
        return Demand(text, name, evidence, rest["where"] or "")

    def check(self, results: Results) -> None:
        """Raise :class:`UsageError` if ``where`` can be no machine of any table."""
        hardware = sorted({name for table in results.judged for name in table.hardware})
        name, value = self._wanted(hardware)
        for table in results.judged:
            variable = table.variable(name) if name in table.hardware else None
            if variable is not None and variable.values and value not in map(str, variable.values):
                raise UsageError(
                    f"required {self.text!r}: expected {variable.name} to be {variable.domain()}, got {value!r}"
                )
        if self.where and not name and not self._label_seen(results):
            machines = "; ".join(results.machines) or "none"
            raise UsageError(
                f"required {self.text!r}: expected a hardware variable ({', '.join(hardware) or 'the table has none'}) "
                f"with its value, or the label of a machine that decided ({machines}), got {self.where!r}"
            )

    def _wanted(self, hardware: Iterable[str]) -> tuple[str, str]:
        """The variable of ``hardware`` that ``where`` names, and the value; two empty strings if it names none."""
        for name in sorted(hardware, key=len, reverse=True):
            found = _VALUE.fullmatch(self.where.removeprefix(name)) if self.where.startswith(name) else None
            if found is not None:
                return name, found["value"]
        return "", ""

    def _label_seen(self, results: Results) -> bool:
        return any(fnmatch.fnmatchcase(machine, self.where) for machine in results.machines)

    def met(self, item: Item) -> bool:
        """Do the hits of ``item`` meet it? Its own state says whether they are enough."""
        if not self.evidence and not self.where:
            return item.state == "hit"
        at = [seen for seen in item.reach.by_machine if self.at(seen)]
        return item.state == "hit" and any(self.evidence <= {*hit} for seen in at for hit in _hits(seen))

    def at(self, seen: Seen) -> bool:
        """Is ``seen`` a machine that is meant?"""
        if not self.where or fnmatch.fnmatchcase(seen.machine, self.where):
            return True
        hardware = dict(seen.hardware)
        name, value = self._wanted(hardware)
        return bool(name) and not seen.emulated and str(hardware[name]) == value

    def lacks(self, item: Item) -> str:
        """Why ``item``, which is hit, does not meet it."""
        order = [evidence for evidence in EVIDENCE if evidence in self.evidence]
        asked = f"{', '.join(order) or 'hit'}{f' on {self.where}' if self.where else ''}"
        seen = [f"{', '.join(hit)} on {seen.machine}" for seen in item.reach.by_machine for hit in _hits(seen)]
        got = "; ".join(dict.fromkeys(seen))
        return f"expected {asked}, got {got or 'nothing'}"


def _wrong(text: str, names: Collection[str], selecting: Mapping[str, Collection[str]], labels: Collection[str]) -> str:
    """Why ``text`` asks for nothing."""
    example = "more is asked as in 'NAME observed, checked on sm_90'"
    if text in selecting:
        rules = ", ".join(selecting[text]) or "no rule"
        return (
            f"{text!r} is a kernel, selected by {rules}; expected one of these rules, or a partition; "
            f"{known(text, names)}"
        )
    begun = [name for name in {*names, *labels} if text.startswith(f"{name} ")]
    if not begun:
        return f"unknown partition {text!r}; {known(text, names)}; {example}"
    name = max(begun, key=len)
    if text.startswith(f"{name} ["):
        bins = [label for label in labels if label.startswith(f"{name} [")]
        return f"unknown bin {text!r} of partition {name}; {known(text, bins)}; {example}"
    asked = re.split(r"(?:^|\s)on\s", text[len(name) :])[0]
    strange = [word for word in re.split(r"[\s,]+", asked) if word and word not in (*EVIDENCE, "and")]
    if not strange:
        return f"expected evidence with commas between after {name!r}, got {text[len(name) :].strip()!r}; {example}"
    evidence = known(strange[0], EVIDENCE)
    whole = (
        "" if evidence.startswith("did you mean") else known(text, {*names} - {*begun}).partition("known: ")[0].strip()
    )
    hint = f"; if {text!r} is a name: {whole}" if whole else ""
    return f"unknown evidence {strange[0]!r} in {text!r}; {evidence}; {example}{hint}"


def _hits(seen: Seen) -> tuple[tuple[str, ...], ...]:
    """The evidence that single hits have: one that was observed and another that was checked are none that is both."""
    return seen.together or (seen.evidence,)

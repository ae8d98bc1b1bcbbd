from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import pytest

from dispatchcov.demands import Demand
from dispatchcov.errors import UsageError
from dispatchcov.gate import Limits, Verdict, judge
from dispatchcov.items import Seen
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Row
from dispatchcov.report import text
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, data, row

TABLE = parse_table(
    SMALL.replace(
        '[[kernel]]\nname = "ScaleVec4"',
        'sm = { type = "int", values = [80, 90, 120], hardware = true }\n'
        'chip = { type = "enum", values = ["A100", "H 200"], hardware = true }\n[[kernel]]\nname = "ScaleVec4"',
        1,
    )
    + '[[partition]]\nname = "only on 120"\nrule = "scalar"\nwhere = "sm == 120"\n'
    + '[[partition]]\nname = "any checked"\nrule = "scalar"\nrequired = false\n'
)
NAMES = [*(partition.name for partition in TABLE.partitions), *(rule.name for rule in TABLE.rules)]
DAY = datetime.date(2026, 6, 1)


def seen(machine: str, sm: int = 90, **given: Any) -> Row:
    """A decision of partition ``ragged``."""
    chip = given.pop("chip", "A100")
    return row(TABLE, N=3, aligned=True, dtype="float16", sm=sm, chip=chip, machine=machine, **given)


CPU = "cpu, emulates sm_90"
H200 = "NVIDIA H200"


def verdict(require: str, *rows: Row) -> Verdict:
    return judge(Results.of(data(TABLE, *rows), today=DAY), Limits(require=(require,)))


def because(require: str, *rows: Row) -> list[str]:
    """Why the demand ``require``, and nothing else, is not met."""
    prefix = f"demo::scale: required partition {require.split(' ')[0]}:"
    failures = verdict(require, *rows).failures
    return [failure.removeprefix("demo::scale: ") for failure in failures if failure.startswith(prefix)]


@pytest.mark.parametrize(
    ("words", "name", "evidence", "where"),
    [
        ("ragged", "ragged", [], ""),
        ("ragged observed", "ragged", ["observed"], ""),
        ("ragged checked, observed", "ragged", ["checked", "observed"], ""),
        ("ragged on sm_90", "ragged", [], "sm_90"),
        ("ragged  observed,checked  on NVIDIA H200*", "ragged", ["observed", "checked"], "NVIDIA H200*"),
        ("only on 120", "only on 120", [], ""),
        ("only on 120 on sm_120", "only on 120", [], "sm_120"),
        ("any checked", "any checked", [], ""),
        ("any checked checked", "any checked", ["checked"], ""),
    ],
)
def test_what_is_asked(words: str, name: str, evidence: Iterable[str], where: str) -> None:
    assert Demand.of(words, NAMES) == Demand(words, name, frozenset(evidence), where)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("raged", "required by name: unknown partition 'raged'; did you mean 'ragged'"),
        ("raged observed on sm_90", "unknown partition 'raged observed on sm_90'"),
        (
            "ragged observd on sm_90",
            "unknown evidence 'observd' in 'ragged observd on sm_90'; did you mean 'observed'? known: selected, "
            "launched, observed, checked; more is asked as in 'NAME observed, checked on sm_90'",
        ),
        ("ragged checked, lanched", "unknown evidence 'lanched' in 'ragged checked, lanched'; did you mean 'launched'"),
        ("ragged checked and seen", "unknown evidence 'seen' in 'ragged checked and seen'; known: selected, launched"),
        ("any checkd", "unknown partition 'any checkd'; did you mean 'any checked'"),
        ("vec4 sm_90", "unknown evidence 'sm_90' in 'vec4 sm_90'; known: selected"),
        ("any", "unknown partition 'any'"),
        ("ragged observed checked", "expected evidence with commas between after 'ragged', got 'observed checked'"),
        ("vec4 [dtype=float8]", "unknown bin 'vec4 [dtype=float8]' of partition vec4; did you mean 'vec4 [dtype=float"),
        ("vec4 [dtype=float16] cheked", "unknown evidence 'cheked' in 'vec4 [dtype=float16] cheked'; did you mean 'c"),
        ("ragged [dtype=float16]", "unknown bin 'ragged [dtype=float16]' of partition ragged; known: none"),
        ("", "unknown partition ''"),
        ("ragged on sm_91", "expected sm to be one of 80, 90, 120, got '91'"),
        ("ragged on cc_90", "expected a hardware variable (chip, sm) with its value, or the label of a machine"),
        ("ragged on NVIDIA B*", "that decided (NVIDIA H200; cpu, emulates sm_90), got 'NVIDIA B*'"),
    ],
)
def test_what_cannot_be_asked(words: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        verdict(words, seen(CPU), seen(H200))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("odd blck", "sm_90'; if 'odd blck' is a name: did you mean 'odd block'?"),
        ("odd cheked", "on sm_90'"),
        ("odd x9", "on sm_90'"),
    ],
)
def test_a_name_that_begins_like_another_is_hinted_at(words: str, end: str) -> None:
    with pytest.raises(UsageError, match=f"unknown evidence '{words[4:]}' in '{words}'; ") as error:
        Demand.of(words, ["odd", "odd block"])
    assert str(error.value).endswith(end)


def test_a_bin_is_required_by_the_name_that_reports_print() -> None:
    rows = (
        row(TABLE, N=4, aligned=True, dtype="float16", sm=90, chip="A100", machine=H200, checked=1),
        row(TABLE, N=4, aligned=True, dtype="float32", sm=90, chip="A100", machine=CPU),
    )
    prefix = "demo::scale: required partition vec4 ["
    for asked, why in {
        "vec4 [dtype=float16]": [],
        "vec4 [dtype=float16] checked on NVIDIA H200": [],
        "vec4 [dtype=float32] checked": ["dtype=float32]: expected checked, got selected on cpu, emulates sm_90"],
        "vec4 [dtype=float16] on sm_80": [
            "dtype=float16]: expected hit on sm_80, got selected, checked on NVIDIA H200"
        ],
        "vec4 checked": ["dtype=float32]: expected checked, got selected on cpu, emulates sm_90"],
    }.items():
        failures = verdict(asked, *rows).failures
        assert [each.removeprefix(prefix) for each in failures if each.startswith(prefix)] == why


def test_a_kernel_is_not_required_by_name() -> None:
    said = "^required by name: 'ScaleVec4' is a kernel, selected by vec4; expected one of these rules, or a partition; "
    with pytest.raises(UsageError, match=said + "did you mean 'vec4'. known: vec4, ragged"):
        verdict("ScaleVec4", seen(CPU))


def test_evidence_of_a_machine() -> None:
    rows = (seen(CPU, checked=1), seen(H200, observed=1, launched=1))
    for met in ("ragged", "ragged checked", "ragged observed", "ragged launched, observed", "ragged observed on sm_90"):
        assert because(met, *rows) == []
    assert because("ragged observed on sm=90", *rows) == because(f"ragged checked on {CPU}", *rows) == []
    assert because("ragged on chip_A100", *rows) == because("ragged on chip=A100", *rows) == []
    assert because("ragged checked on sm_90", *rows) == [
        "required partition ragged: expected checked on sm_90, got selected, launched, observed on NVIDIA H200; "
        "selected, checked on cpu, emulates sm_90"
    ]
    assert because("ragged on sm_80", *rows)
    assert because("ragged checked, observed on NVIDIA*", *rows)


def test_a_machine_that_emulates_another_is_not_the_other() -> None:
    rows = (seen(CPU, observed=1, checked=1),)
    assert because("ragged checked on sm_90", *rows) == [
        "required partition ragged: expected checked on sm_90, got selected, observed, checked on cpu, emulates sm_90"
    ]
    assert because("ragged checked on cpu*", *rows) == []


def test_names_and_values_of_hardware_as_they_come() -> None:
    rows = (seen(H200, chip="H 200", observed=1),)
    assert because("ragged observed on chip=H 200", *rows) == because("ragged on chip_H 200", *rows) == []
    assert because("ragged on chip=A100", *rows)
    demand = Demand("x on cc_major_9", "x", where="cc_major_9")
    assert demand.at(Seen("gpu", (("cc", 7), ("cc_major", 9)), 1, ()))
    assert not demand.at(Seen("gpu", (("cc", 7), ("cc_major", 8)), 1, ()))


def test_a_partition_that_is_not_hit_is_missed_wherever_it_was_asked() -> None:
    assert (
        "demo::scale: required partition only on 120 is elsewhere"
        in verdict("only on 120 on sm_120", seen(H200)).failures
    )


def test_evidence_does_not_add_up_over_machines_or_their_values() -> None:
    rows = (seen(H200, sm=80, observed=1), seen(H200, sm=90, checked=1), seen(CPU, checked=1))
    for asked in ("", " on NVIDIA H200", " on sm_90", " on sm_80", " on *"):
        assert because(f"ragged checked, observed{asked}", *rows)
    assert because("ragged checked, observed on NVIDIA*", *rows, seen(H200, sm=90, observed=1, checked=1)) == []


def test_hits_by_machine() -> None:
    rows = (seen(CPU, selected=4, checked=4), seen(H200, selected=2), seen(H200, selected=3, sm=80, shard="s2"))
    (ragged,) = (item for item in Results.of(data(TABLE, *rows)).tables[0].partitions if item.name == "ragged")
    assert ragged.reach.by_machine == (
        Seen(H200, (("sm", 80), ("chip", "A100")), 3, ("selected",), (("selected",),)),
        Seen(H200, (("sm", 90), ("chip", "A100")), 2, ("selected",), (("selected",),)),
        Seen(CPU, (("sm", 90), ("chip", "A100")), 4, ("selected", "checked"), (("selected", "checked"),)),
    )
    assert [each.emulated for each in ragged.reach.by_machine] == [False, False, True]
    assert sum(each.hits for each in ragged.reach.by_machine) == ragged.reach.hits


@pytest.mark.parametrize(
    ("rows", "evidence", "state"),
    [
        ((seen("cpu, emulates sm_120", sm=120),), (), "hit"),
        ((seen("cpu, emulates sm_90", sm=90),), (), "elsewhere"),
        ((seen("cpu, emulates sm_120", sm=120), seen(H200, observed=1)), ("observed",), "elsewhere"),
        ((seen("cpu, emulates sm_120", sm=120),), ("observed",), "missed"),  # no machine at all could be observed
        ((seen("NVIDIA B200", sm=120), seen(H200, observed=1)), ("observed",), "missed"),
        ((seen("NVIDIA B200", sm=120, observed=1), seen(H200)), ("observed",), "hit"),
    ],
)
def test_what_must_be_observed_needs_the_real_hardware(
    rows: tuple[Row, ...], evidence: tuple[str, ...], state: str
) -> None:
    results = Results.of(data(TABLE, *rows), evidence=evidence)
    (item,) = (item for item in results.tables[0].partitions if item.name == "only on 120")
    assert item.state == state


def test_the_terminal_shows_machines_side_by_side() -> None:
    rows = (seen(CPU, checked=1, selected=12), seen(H200, observed=1, launched=1))
    results = Results.of(data(TABLE, *rows))
    lines = text.render(results, judge(results)).splitlines()
    start = lines.index("by machine: hits and evidence (s selected, l launched, o observed, c checked)")
    assert lines[start + 1 : start + 8] == [
        "  A  NVIDIA H200",
        "  B  cpu, emulates sm_90",
        "partition             A      B",
        "vec4 [dtype=float16]  -      -",
        "vec4 [dtype=float32]  -      -",
        "ragged                1 slo  12 sc",
        "only on 120           -      -",
    ]
    one = Results.of(data(TABLE, rows[0]))
    assert "by machine" not in text.render(one, judge(one))


def test_one_hit_must_have_all_the_evidence() -> None:
    apart = (seen(H200, launched=1, test="t.py::a"), seen(H200, checked=1, test="t.py::b"))
    assert because("ragged launched, checked", *apart) == [
        "required partition ragged: expected launched, checked, got selected, checked on NVIDIA H200; selected, "
        "launched on NVIDIA H200"
    ]
    assert because("ragged launched", *apart) == because("ragged checked on sm_90", *apart) == []
    assert because("ragged launched, checked", *apart, seen(H200, launched=1, checked=1, test="t.py::c")) == []

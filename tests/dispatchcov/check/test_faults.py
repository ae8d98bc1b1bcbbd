"""Static faults: each kind, the cases from public projects, and their repaired forms."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from dispatchcov import load_table, parse_table
from dispatchcov.check.faults import check
from dispatchcov.check.findings import Finding
from dispatchcov.cli import main
from dispatchcov.decide import DEFAULT_MACHINE, View, select
from dispatchcov.formula import holds
from dispatchcov.table import Table

CASES = Path(__file__).parents[1] / "cases"
EXPECTED = tomllib.loads((CASES / "expected.toml").read_text())
FP4 = Path(__file__).parents[3] / "fp4ops" / "dispatch.toml"
RECORDED = ("missed-region", "surviving-mutant")
VARIABLES = "M = { type = 'int', min = 0 }\nK = { type = 'int', min = 1 }\nflag = { type = 'bool' }\n"
VARIABLES += "sm = { type = 'int', values = [80, 90, 120], hardware = true }"

REPAIRED = {
    "bias-offset-wrap": [('"stride % 8 == 0"', '"stride % 8 == 0 and (queries - 1) * stride < 4294967296"')],
    "block-fp8-columns": [('"block_scaled"', '"block_scaled and N % 128 == 0 and K % 128 == 0"')],
    "capability-at-least": [('"sm >= 100"', '"100 <= sm <= 110"'), ('"sm >= 90"', '"sm == 90"')],
    "gemv-tactic-rows": [
        ('name = "gemv"\nkernel', 'name = "gemv"\nwhen = "m <= 15"\nkernel'),
        ("[[rule]]\nname = \"gemm\"", '[[kernel]]\nname = "any"\n[[rule]]\nname = "gemm"'),
    ],
    "marlin-thread-k": [('"K % 128', '"K % 64')],
    "small-m-config": [("max(32, m)", "max(16, m)")],
    "tile-by-rows": [('M >= 256 and N % 32 == 0"', 'M >= 256 and N % 64 == 0"')],
    "vec8-even-block": [],
    "zero-k-native": [('N % 32 == 0"\nkernel', 'N % 32 == 0 and K > 0"\nkernel')],
}  # fmt: skip


def faults(*rules: str, kernel: str = "", more: str = "", variables: str = VARIABLES) -> list[Finding]:
    """The findings of a table whose ``rules`` are guards (empty: the rest) of kernels k0, k1...; k0 has a contract."""
    kernels = [
        f"[[kernel]]\nname = 'k{i}'" + (f'\nrequires = "{kernel}"' if kernel and not i else "") for i in range(9)
    ]
    given = [
        f"[[rule]]\nname = 'r{i}'\nkernel = 'k{i}'" + (f'\nwhen = "{g}"' if g else "") for i, g in enumerate(rules)
    ]
    text = "\n".join(["[table]\nop = 'x::y'\n[variables]", variables, *kernels, *given, more])
    return list(check(parse_table(text)))


def brief(findings: list[Finding]) -> list[tuple[str, str | None, str | None]]:
    return [(f.kind, f.rule or f.partition, f.predicate) for f in findings]


def wanted(case: str) -> list[tuple[str, str | None, str | None]]:
    return [(f["kind"], f.get("rule"), f.get("kernel")) for f in EXPECTED[case]["find"] if f["kind"] not in RECORDED]


@pytest.mark.parametrize("case", EXPECTED)
def test_cases_from_public_projects_give_exactly_what_is_expected(case: str) -> None:
    table = load_table(CASES / f"{case}.toml")
    found = check(table)
    got = [(f.kind, f.rule, f.kernel if f.kind != "dead" else None) for f in found]
    assert got == wanted(case)
    for finding in found:
        assert table.text.splitlines()[finding.line - 1] == "[[rule]]"
        if finding.kind in ("contract", "narrow"):
            for shown in (finding.input, EXPECTED[case]["shows"]):
                assert shown is not None
                assert shows(table, finding, shown), shown


def shows(table: Table, finding: Finding, facts: Mapping[str, object]) -> bool:
    """Does deciding ``facts`` show what ``finding`` says?"""
    vector = View.of(table, DEFAULT_MACHINE).vector(tuple(table.facts(facts).values()))
    rule = table.rule(str(finding.rule))
    selected = select(table, vector)
    fits = holds(rule.kernel.requires, vector)
    if finding.kind == "contract":
        return selected == rule.index and not fits
    return selected is not None and selected > rule.index and fits


@pytest.mark.parametrize("case", EXPECTED)
def test_repaired_cases_have_no_findings(case: str) -> None:
    text = (CASES / f"{case}.toml").read_text()
    for old, new in REPAIRED[case]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    if case == "gemv-tactic-rows":
        text += '[[rule]]\nname = "any"\nkernel = "any"\n'
    assert check(parse_table(text)) == ()


def test_the_fp4_table_is_clean() -> None:
    assert check(load_table(FP4)) == ()


def test_the_input_is_the_smallest() -> None:
    (found,) = faults("M > 4 and K > 2", "", kernel="M % 8 != 5 and K % 3 == 0")
    assert (found.kind, found.input) == ("contract", {"M": 5, "K": 3, "flag": False, "sm": 80})
    assert found.predicate == "M % 8 != 5"


def test_a_dead_rule_names_the_fewest_rules_that_shadow_it() -> None:
    (found,) = faults("M == 3", "K <= 4", "flag", "not flag and K > 9", "K < 3 and M == 9", "")
    assert (found.kind, found.rule) == ("dead", "r4")
    assert found.message.endswith("taken before by r1")
    dead = faults("flag and M > 2", "not flag and M > 2", "M > 5", "")
    assert [f.message for f in dead] == [
        "no input reaches rule r2: all that it could take is taken before by r0 and r1"
    ]
    (found,) = faults("M < 0", "")
    assert found.message.endswith(": its guard never holds")


def test_dead_partitions() -> None:
    more = "[[partition]]\nname = 'p'\nrule = 'r1'\nwhere = \"M <= 2\"\n[[partition]]\nname = 'q'\nrule = 'r1'"
    (found,) = faults("M <= 4", "", more=more)
    assert (found.kind, found.partition, found.rule) == ("dead", "p", None)
    assert found.message.endswith("taken before by r0")
    assert faults("M <= 4", "", more=more.replace("where", "illegal = true\nrequired = false\nwhere")) == []


def test_a_table_that_is_not_total() -> None:
    (found,) = faults("M > 4", "K > 7 or flag")
    assert (found.kind, found.input) == ("untotal", {"M": 0, "K": 1, "flag": False, "sm": 80})


def test_a_guard_that_divides_by_zero_takes_no_input() -> None:
    (found,) = faults("flag and K % M == 0", "")
    assert (found.kind, found.rule, found.predicate) == ("untotal", "r0", "K % M == 0")
    assert found.input == {"M": 0, "K": 1, "flag": True, "sm": 80}
    assert faults("M > 0 and K % M == 0", "") == []


@pytest.mark.parametrize(("split", "always"), [
    ("M >= 0", "true"), ("M > 8", "false"), ("M // 9 == 0", "true"),
    ("K % M == 0", ""), ("M > 4", ""), ("flag", ""), ("sm >= 80", ""),
])  # fmt: skip
def test_a_split_of_which_one_side_cannot_happen(split: str, always: str) -> None:
    more = f"[[rule]]\nname = 's'\nkernel = 'k8'\nwhen = 'M <= 8'\nsplits = ['{split}']\n"
    more += "[[rule]]\nname = 't'\nkernel = 'k7'"
    found = faults("M == 3 and flag", more=more)
    assert brief(found) == ([("redundant", "s", split)] if always else [])
    if always:
        assert found[0].message == f"split {split} divides nothing: it is always {always} inside rule s"
        assert found[0].severity == "note"


def test_narrow_only_where_the_contract_speaks_of_the_same_variables() -> None:
    (found,) = faults("M <= 8 and flag and K % 4 == 0", "", kernel="M <= 16 and K % 4 == 0")
    assert (found.kind, found.predicate, found.severity) == ("narrow", "M <= 8", "note")
    assert found.input == {"M": 9, "K": 4, "flag": True, "sm": 80}
    assert brief(faults("not M > 8", "", kernel="M < 20")) == [("narrow", "r0", "M > 8")]
    assert faults("M <= 8 and K > 6", "", kernel="M >= 0 and K % 2 == K % 2") == []


def test_a_narrow_guard_whose_rest_goes_to_the_same_kernel() -> None:
    text = (
        "[table]\nop = 'x::y'\n[variables]\nM = { type = 'int', min = 0 }\n[[kernel]]\nname = 'k'\nrequires = 'M < 9'"
    )
    text += "\n[[kernel]]\nname = 'o'\n[[rule]]\nname = 'a'\nwhen = 'M < 4'\nkernel = 'k'\n"
    assert (
        check(parse_table(text + "[[rule]]\nname = 'b'\nwhen = 'M < 9'\nkernel = 'k'\n[[rule]]\nname='c'\nkernel='o'"))
        == ()
    )


def test_redundant_predicates() -> None:
    assert brief(faults("K % 32 == 0 and K % 16 == 0 and flag", "")) == [("redundant", "r0", "K % 16 == 0")]
    assert brief(faults("M <= 8 and M < 9", "")) == [("redundant", "r0", "M < 9")]
    assert brief(faults("M >= 0 and flag", "")) == [("redundant", "r0", "M >= 0")]
    assert faults("flag and sm < 130", "") == []


def test_duplicate_partitions() -> None:
    more = "[[partition]]\nname = 'p'\nrule = ['r0', 'r1']\nwhere = \"M > 4 and M < 9\"\n"
    more += "[[partition]]\nname = 'q'\nrule = 'r1'\nwhere = \"5 <= M <= 8\"\n"
    (found,) = faults("M <= 4", "", more=more)
    assert (found.kind, found.partition, found.severity) == ("duplicate", "q", "error")
    assert faults("M <= 4", "", more=more.replace("5 <=", "6 <=")) == []
    assert faults("M <= 4", "", more=more + "cross = ['flag']") == []


def test_what_is_not_proved_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatchcov.smt.solver.EFFORT", 100_000)
    hard = "M = { type = 'int' }\nK = { type = 'int' }"
    kinds = [(f.kind, f.rule, f.input) for f in faults("M * M * M == K * K * K + 30 * K + 7777777", "", variables=hard)]
    assert ("unknown", "r0", None) in kinds


def test_formats_and_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    case = str(CASES / "zero-k-native.toml")
    assert main(["check", case, str(FP4), "--format", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == 1
    (found,) = document["findings"]
    assert set(found) == {
        "kind", "severity", "op", "rule", "kernel", "partition", "predicate", "input", "line", "message",
    }  # fmt: skip
    assert document["tables"][found["op"]] == case
    assert (found["kind"], found["severity"], found["rule"], found["kernel"]) == (
        "contract",
        "error",
        "native",
        "native",
    )
    assert main(["check", case, "--format", "github"]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error file=")
    assert f"zero-k-native.toml,line={found['line']},title=dispatchcov contract::" in line
    assert main(["check", str(CASES / "marlin-thread-k.toml"), "--format", "github"]) == 0
    assert capsys.readouterr().out.startswith("::notice file=")
    assert main(["check", str(CASES / "marlin-thread-k.toml")]) == 0
    assert capsys.readouterr().out.endswith("case::marlin_thread_k: 0 errors, 1 note\n")
    assert main(["check", str(FP4)]) == 0
    assert main(["check", "absent.toml"]) == 1


def test_github_annotations_are_escaped() -> None:
    from dispatchcov.check.findings import github

    found = Finding("dead", "o", "a,b:c.toml", 3, "100 % of\nit")
    assert github([], [found]) == "::error file=a%2Cb%3Ac.toml,line=3,title=dispatchcov dead::100 %25 of%0Ait"


@pytest.mark.parametrize(("case", "status"), [("zero-k-native", 1), ("marlin-thread-k", 0)])
def test_checked_at_the_start_of_a_pytest_run(pytester: pytest.Pytester, case: str, status: int) -> None:
    pytester.makepyprojecttoml(f"[tool.dispatchcov]\ncheck = true\ntable = ['{CASES / case}.toml']\n")
    facts = {"zero-k-native": "M=1, N=1, K=32, block_size=16, sm=90, native=False", "marlin-thread-k": "N=64, K=K"}[
        case
    ]
    pytester.makepyfile(
        f"import dispatchcov, pathlib\ntable = dispatchcov.load_table({str(CASES / case)!r} + '.toml')\n"
        f"def test():\n    for K in (64, 128): table.decide({facts})"
    )
    result = pytester.runpytest_subprocess("-k", "test")
    kind = "contract" if status else "narrow"
    result.stdout.fnmatch_lines([f"*{case}.toml:*: {kind}: *", "    input  *", "*collected 1 item*"])
    assert result.ret == status
    assert ("dispatch gate: FAILED" in result.stdout.str()) == bool(status)

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dispatchcov import config
from dispatchcov.config import Settings
from dispatchcov.errors import UsageError
from dispatchcov.loading.load import parse_table
from tests.dispatchcov.build import SMALL


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text("[tool.dispatchcov]\n" + text)
    return folder


def test_defaults_without_a_file(tmp_path: Path) -> None:
    assert config.read(tmp_path, {}, {}) == Settings()


def test_file_then_environment_then_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    project(tmp_path, 'fail_under = 50\nrequire = ["a"]\ndata = "file"\nappend = true')
    environ = {"DISPATCHCOV_FAIL_UNDER": "60", "DISPATCHCOV_REQUIRE": "b, c", "DISPATCHCOV_RUN": "x"}
    found = config.read(tmp_path, {"fail_under": "70", "require": None}, environ)
    assert found == Settings(fail_under=70.0, require=("b", "c"), data="file", append=True)


def test_unknown_keys_are_reported_with_the_known_ones(tmp_path: Path) -> None:
    project(tmp_path, "fail_uder = 50")
    with pytest.raises(
        UsageError, match=r"\[tool.dispatchcov\]: unknown key 'fail_uder'; did you mean 'fail_under'\? known: report"
    ):
        config.read(tmp_path, {}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fail_under = 101", "fail_under: expected a percentage from 0 to 100, got 101"),
        ("fail_under = true", "fail_under: expected a percentage from 0 to 100, got True"),
        ("fail_under = 'nan'", "expected a percentage from 0 to 100, got 'nan'"),
        ("require = 3", "expected require to be a list of strings, got 3"),
        ("append = 'perhaps'", "expected append to be true or false, got 'perhaps'"),
        ("data = ''", "expected data to be a file name, got ''"),
    ],
)
def test_wrong_values(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        config.read(project(tmp_path, text), {}, {})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("given", "environ", "message"),
    [
        ({"fail_under": "x"}, {}, "arguments: --dispatch-fail-under: expected a percentage from 0 to 100, got 'x'"),
        ({"data": ""}, {}, "arguments: expected --dispatch-data to be a file name, got ''"),
        ({}, {"DISPATCHCOV_CHECK": "maybe"}, "expected DISPATCHCOV_CHECK to be true or false, got 'maybe'"),
    ],
)
def test_a_wrong_value_is_named_as_it_was_given(
    tmp_path: Path, given: dict[str, str], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        config.read(tmp_path, given, environ, "--dispatch-")
    assert message in str(error.value)


def test_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool")
    with pytest.raises(UsageError, match=r"pyproject.toml: expected a readable TOML file"):
        config.read(tmp_path, {}, {})
    (tmp_path / "pyproject.toml").write_text("[tool]\ndispatchcov = 3")
    with pytest.raises(UsageError, match="to be a table, got 3"):
        config.read(tmp_path, {}, {})
    (tmp_path / "pyproject.toml").write_text("tool = 3")
    assert config.read(tmp_path, {}, {}) == config.Settings()


def test_evidence_may_be_a_comma_separated_list() -> None:
    assert config.evidence(("launched,checked", "selected"), "x") == {"launched", "checked", "selected"}
    with pytest.raises(UsageError, match="--dispatch-evidence: unknown evidence 'launch'; did you mean 'launched'"):
        config.evidence(("launch",), "--dispatch-evidence")
    for nothing in ("", " , "):
        with pytest.raises(UsageError, match=r"x: expected one or more of selected, .*, got none"):
            config.evidence((nothing,), "x")
    assert config.evidence((), "x") == frozenset()


def test_a_table_from_a_file_or_an_attribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    module: Any = type(sys)("dispatching")
    module.TABLE, module.other = parse_table(SMALL), 3
    monkeypatch.setitem(sys.modules, "dispatching", module)
    assert config.table(str(file)).digest == config.table("dispatching:TABLE").digest
    assert len(config.tables((str(file), "dispatching:TABLE"))) == 1
    for spec, message in {
        "small": "expected a table as FILE.toml or MODULE:ATTR, got 'small'",
        ":x": "expected a table as FILE.toml or MODULE:ATTR, got ':x'",
        "no_such_module:TABLE": "table 'no_such_module:TABLE': No module named",
        "dispatching:table": "has no attribute 'table'",
        "dispatching:other": "expected a dispatchcov table, got int",
    }.items():
        with pytest.raises(UsageError) as error:
            config.table(spec)
        assert message in str(error.value)


@pytest.mark.parametrize(
    ("value", "demands"),
    [
        ("odd, even", ("odd", "even")),
        ("odd,checked", ("odd", "checked")),  # a partition may be called so
        ("odd observed, checked on sm_90, even", ("odd observed, checked on sm_90", "even")),
        ("odd launched,observed , checked", ("odd launched,observed , checked",)),
        ("odd on cpu, emulates sm_90,even", ("odd on cpu, emulates sm_90", "even")),
        ("odd [a=1, b=2] checked, even", ("odd [a=1, b=2] checked", "even")),
        ("odd [a=1, b=2], even [c=x]", ("odd [a=1, b=2]", "even [c=x]")),
    ],
)
def test_demands_in_the_environment(tmp_path: Path, value: str, demands: tuple[str, ...]) -> None:
    assert config.read(tmp_path, {}, {"DISPATCHCOV_REQUIRE": value}).require == demands

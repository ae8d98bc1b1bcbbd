"""Tables that extend another: the same rules, requirements of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchcov.errors import TableError
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.recorder import Recorder
from tests.dispatchcov.build import SMALL

OWN = '[table]\nextends = "base/small.toml"\n\n[[partition]]\nname = "big"\nrule = "vec4"\nwhere = "N >= 4096"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "small.toml").write_text(SMALL)
    (tmp_path / "own.toml").write_text(OWN)
    return tmp_path


def test_rules_are_those_of_the_base_and_partitions_its_own(folder: Path) -> None:
    base, own = load_table(folder / "base" / "small.toml"), load_table(folder / "own.toml")
    assert (own.op, own.rules, own.kernels) == (base.op, base.rules, base.kernels)
    assert [(partition.name, partition.line) for partition in own.partitions] == [("big", 4)]
    assert own.rules_digest == base.rules_digest
    assert own.digest != base.digest


def test_its_text_is_whole(folder: Path) -> None:
    own = load_table(folder / "own.toml")
    assert parse_table(own.text).digest == own.digest


def test_decisions_of_the_base_are_recorded_by_it(folder: Path) -> None:
    base, own = load_table(folder / "base" / "small.toml"), load_table(folder / "own.toml")
    with Recorder(None, judges=[own]):
        decision = base.decide(N=4096, aligned=True, dtype="float16")
        other = base.on("gpu").decide(N=4096, aligned=True, dtype="float16")
    assert (decision.table, decision.rule, other.table, other.machine) == (own, "vec4", own, "gpu")
    assert base.decide(N=4096, aligned=True, dtype="float16").table is base


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("base/small", "none"), "none.toml: expected a readable TOML file"),
        (OWN.replace("vec4", "vec5"), "own.toml:6: partition 'big': unknown rule 'vec5'"),
        (OWN.replace("base/small", "own"), "own.toml:2: [table]: expected the file of a whole table"),
        (OWN.split("[[")[0], "own.toml: expected at least one [[partition]], got none"),
        (OWN + '[[rule]]\nname = "x"\n', "own.toml:8: the table file: unknown key 'rule'"),
        (OWN.replace("[table]", '[table]\nop = "x"'), "own.toml:2: [table]: unknown key 'op'"),
    ],
)
def test_mistakes(folder: Path, text: str, message: str) -> None:
    (folder / "own.toml").write_text(text)
    with pytest.raises(TableError) as error:
        load_table(folder / "own.toml")
    assert message in str(error.value)


def test_text_from_elsewhere_reads_no_file() -> None:
    with pytest.raises(TableError, match="expected"):
        parse_table(OWN)

"""The command line as its users meet it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dispatchcov.cli import main
from dispatchcov.space import intervals, realise
from tests.dispatchcov.build import SMALL

PROGRAM = """
import sys, dispatchcov
table = dispatchcov.load_table("small.toml")
for n in map(int, sys.argv[1:]):
    with table.decide(N=n, aligned=True, dtype="float16").launch():
        pass
if "9" in sys.argv:
    sys.exit(9)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("DISPATCHCOV_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SMALL.replace('cross = ["dtype"]', ""))
    Path("program.py").write_text(PROGRAM)
    return tmp_path


def run(*numbers: int, options: tuple[str, ...] = ()) -> int:
    return main(["run", *options, "--", sys.executable, "program.py", *map(str, numbers)])


def test_run_records_a_program_and_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(4, 8, 3) == 0
    shown = capsys.readouterr().out
    assert "demo::scale  3 decisions" in shown
    assert "dispatch gate: passed" in shown
    assert Path(".dispatchcov").exists()
    assert list(Path().glob(".dispatchcov.*")) == []


OURS = '[table]\nextends = "small.toml"\n[[partition]]\nname = "large"\nrule = "scalar"\nwhere = "N > 100"\n'


def test_a_program_is_judged_by_a_table_that_extends_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ours.toml").write_text(OURS)
    assert run(4, 3, options=("--table=ours.toml",)) == 2
    assert "required partition large was not hit" in capsys.readouterr().out
    assert run(4, 103, options=("--table=ours.toml",)) == 0
    assert run(4, 103) == 0
    capsys.readouterr()
    assert main(["report", "--table=ours.toml"]) == 1
    wanted = (
        "only the partitions differ: what is to be judged by ours.toml must be recorded by it, with --table=ours.toml"
    )
    assert wanted in capsys.readouterr().err


def test_a_program_that_makes_the_table_which_judges_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("made.py").write_text('import dispatchcov\nTABLE = dispatchcov.load_table("small.toml")\n')
    Path("program.py").write_text(
        "import made\nfor n in (4, 3): made.TABLE.decide(N=n, aligned=True, dtype='float16')\n"
    )
    assert run(options=("--table=made:TABLE",)) == 0
    assert "demo::scale  2 decisions" in capsys.readouterr().out


def test_exit_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(4) == 2
    assert run(9) == 9
    assert run(4, options=("--append",)) == 0
    assert main(["run", "--", sys.executable, "-c", "pass"]) == 1
    assert "recorded nothing: it loaded no dispatch table" in capsys.readouterr().err
    assert main(["run", "--", sys.executable, "-c", "raise SystemExit(3)"]) == 3
    assert "recorded nothing: it ended with status 3" in capsys.readouterr().err
    assert main(["run", "--", "no-such-command"]) == 1
    assert main(["run"]) == 1
    assert main(["run", "--", sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]) == 137


def test_a_command_that_cannot_start_leaves_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(4, 3) == 0
    Path("not-executable").write_text("")
    for command, why in (("no-such-command", "No such file or directory"), ("./not-executable", "Permission denied")):
        assert main(["run", "--", command]) == 1
        assert capsys.readouterr().err == f"dispatchcov: run: cannot start {command!r}: {why}\n"
    assert main(["report", "-q"]) == 0


def test_quiet_writes_what_is_to_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    run(4)
    capsys.readouterr()
    assert main(["html", "-q", "-o", "page"]) == main(["json", "-q", "-o", "out.json"]) == 2
    assert Path("page/index.html").exists()
    assert Path("out.json").exists()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("required partition ragged was not hit") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("regions", "small.toml"),
        ("check", "small.toml"),
        ("cpp", "--generate", "small.toml"),
        ("report",),
        ("mutate",),
    ],
)
def test_a_table_is_not_overwritten(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    run(4)
    before = Path("small.toml").read_text()
    assert main([*arguments, "-o", "small.toml"]) == 1
    assert "-o: expected a file that may be overwritten, got small.toml, a TOML file" in capsys.readouterr().err
    assert Path("small.toml").read_text() == before


@pytest.mark.parametrize("option", ["-o", "--plot"])
def test_bench_says_at_once_that_it_cannot_write(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", option, "nowhere/x.svg"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"dispatchcov: bench {option}: expected a folder to write nowhere/x.svg into, got none\n"


@pytest.mark.parametrize("what", [("--include",), ("--check", "x.hpp", "small.toml")])
@pytest.mark.parametrize("more", [("-o", "out.txt"), ("--namespace", "other")])
def test_options_of_a_header_that_is_not_written(
    what: tuple[str, ...], more: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cpp", *what, *more]) == 1
    assert capsys.readouterr().err == f"dispatchcov: cpp: {more[0]} goes with --generate, not with {what[0]}\n"


def test_options_that_would_do_nothing_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("mutate", "--require=x"), ("mutate", "--complete"), ("suggest", "--fail-under=3")):
        with pytest.raises(SystemExit, match="1"):
            main([*arguments])
        shown = capsys.readouterr().err
        assert shown.startswith(f"usage: dispatchcov {arguments[0]} ")
        assert shown.endswith(f"unrecognized arguments: {arguments[1]}\n")


def test_report_and_json_again(capsys: pytest.CaptureFixture[str]) -> None:
    run(4)
    capsys.readouterr()
    assert main(["report"]) == 2
    assert "required partition ragged was not hit" in capsys.readouterr().out
    assert main(["report", "-q"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 2)
    assert main(["json", "-o", "out.json"]) == 2
    assert json.loads(Path("out.json").read_text())["totals"]["partitions"] == {"covered": 1, "total": 2, "percent": 50}
    assert main(["report", "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["meta"]["format"] == 1
    assert main(["report", "--require", "scalar"]) == 2
    assert main(["report", "--fail-under", "50", "--evidence", "checked"]) == 2
    assert main(["report", "--require", "scaler"]) == 1
    assert "did you mean 'scalar'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "json", "combine"])
def test_no_data_is_an_error(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 1
    assert "no data" in capsys.readouterr().err


def test_data_by_option_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(4, 3, options=("--data", "elsewhere.db")) == 0
    assert Path("elsewhere.db").exists()
    monkeypatch.setenv("DISPATCHCOV_DATA", "elsewhere.db")
    assert main(["report", "-q"]) == 0
    monkeypatch.setenv("DISPATCHCOV_DATA", "nowhere.db")
    assert main(["report", "-q"]) == 1


def test_empty_variables_are_as_good_as_none(folder: Path) -> None:
    def started(**variables: str) -> list[Path]:
        subprocess.run([sys.executable, "program.py", "4"], env={**os.environ, **variables}, check=True)
        return list(folder.glob(".dispatchcov.*"))

    assert started(DISPATCHCOV_RUN="") == []
    Path("test_any.py").write_text("import dispatchcov\ndispatchcov.load_table('small.toml')\ndef test_any(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    subprocess.run(command, env={**os.environ, "DISPATCHCOV_RUN": ""}, check=True)
    assert list(folder.glob(".dispatchcov*")) == []
    assert started(DISPATCHCOV_RUN="x", DISPATCHCOV_DATA="")
    assert list(folder.parent.glob(f"{folder.name}.*")) == []


def test_combine_keeps_inputs_and_merging_twice_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    run(4, options=("--data", "a"))
    run(3, options=("--data", "b"))
    capsys.readouterr()
    for _ in range(2):
        assert main(["combine", "a", "b"]) == 0
        assert capsys.readouterr().out == ".dispatchcov: 2 shards of 2 runs, 2 decisions\n"
    assert Path("a").exists()
    assert main(["report", "-q"]) == 0
    assert main(["combine", "--remove", "a", "b"]) == 0
    assert not Path("a").exists()


def test_combine_names_damage(capsys: pytest.CaptureFixture[str]) -> None:
    run(4)
    Path(".dispatchcov.host.1.000000000000.jsonl").write_text("damaged\n")
    capsys.readouterr()
    assert main(["combine"]) == 0
    assert "records are damaged: .dispatchcov.host.1.000000000000.jsonl: nothing of it" in capsys.readouterr().err
    assert main(["report", "--complete"]) == 2


def test_erase(capsys: pytest.CaptureFixture[str]) -> None:
    run(4)
    assert main(["erase"]) == 0
    assert capsys.readouterr().out.endswith(".dispatchcov: 1 file removed\n")
    assert not Path(".dispatchcov").exists()
    Path(".dispatchcov").write_text("mine")
    assert main(["erase"]) == 1
    assert Path(".dispatchcov").read_text() == "mine"


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "small.toml", "N=6", "aligned=true", "dtype=float16"]) == 0
    shown = capsys.readouterr().out
    assert "N % 4 = 2" in shown
    assert "scalar: selected" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["small.toml", "N=6"], "missing aligned, dtype"),
        (["small.toml", "N"], "expected VAR=VALUE, got 'N'"),
        (["small.toml", "M=6"], "unknown variable 'M'; known: N, aligned, dtype"),
        (["small.toml", "N=six", "aligned=1", "dtype=float16"], "expected N to be an integer >= 0, got 'six'"),
        (["small.toml", "N=-1", "aligned=1", "dtype=float16"], "expected N to be an integer >= 0, got -1"),
        (["small.toml", "N=1", "aligned=perhaps", "dtype=float16"], "expected aligned to be"),
        (["small.toml", "N=1", "aligned=1", "dtype=float64"], "expected dtype to be one of float16, float32"),
        (["none.toml", "N=1"], "none.toml: expected a readable TOML file"),
    ],
)
def test_explain_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_regions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regions", "small.toml"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("demo::scale: 3 regions")
    assert "N=1 aligned=false dtype=float16" in shown
    assert main(["regions", "small.toml", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [region["rule"] for region in document["regions"]] == ["vec4", "scalar", "scalar"]
    assert document["regions"][1]["settled"] == ["N % 4 == 0"]


def test_regions_say_where_a_smaller_input_may_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((realise, "available"), (intervals, "STEPS"), (intervals, "FEW")):
        monkeypatch.setattr(module, name, 0 if name.isupper() else lambda: False)
    open_table = Path("small.toml").read_text().replace("[[kernel]]", "K = { type = 'int', min = 1 }\n[[kernel]]", 1)
    Path("open.toml").write_text(
        open_table.replace('"N % 4 == 0 and', '"N * K > 5000 and').replace("N >= 1024", "N * K > 6000")
    )
    assert main(["regions", "open.toml"]) == 0
    shown = capsys.readouterr().out
    assert "      a smaller input may exist: N * K > 5000 not analysed\n" in shown
    assert re.search(r"split N \* K > 6000 true: N=.* \(a smaller input may exist: ", shown)
    assert main(["regions", "open.toml", "--format", "json"]) == 0
    reasons = {region["rule"]: region["reason"] for region in json.loads(capsys.readouterr().out)["regions"]}
    assert reasons["vec4"] == "a smaller input may exist: N * K > 5000 not analysed"


def test_debug(capsys: pytest.CaptureFixture[str]) -> None:
    run(4)
    capsys.readouterr()
    assert main(["debug"]) == 0
    shown = capsys.readouterr().out
    assert "setting data: '.dispatchcov'" in shown
    assert "recorded table demo::scale" in shown


def test_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--quick", "-o", "bench.json"]) == 0
    figures = json.loads(Path("bench.json").read_text())
    assert figures["file"]["decisions"] == 100_000
    assert figures["combine"]["rows"] == 20_000


def test_help_and_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["run", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
    for arguments in ([], ["no-such"], ["report", "--", "x"]):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 1


def test_a_command_without_dashes_is_told_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["run", "--append", "python", "-m", "pytest", "-q", "x.py"])
    assert stop.value.code == 1
    said = capsys.readouterr().err
    assert "; the command stands after --: dispatchcov run -- python -m pytest -q x.py\n" in said
    with pytest.raises(SystemExit):
        main(["report", "x.py"])
    assert capsys.readouterr().err.endswith("dispatchcov report: unrecognized arguments: x.py\n")
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    usage, _, _ = capsys.readouterr().out.partition("\n\n")
    assert usage.startswith("usage: dispatchcov run [-h] [--append]")
    assert usage.endswith(" -- COMMAND ...")


def test_no_data_says_what_makes_some(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    for arguments in (["report"], ["mutate"], ["suggest"], ["json"], ["combine"], ["combine", "empty"]):
        assert main(arguments) == 1
        said = capsys.readouterr().err
        assert "no data: expected" in said
        assert said.endswith("; `pytest --dispatch-report` and `dispatchcov run -- COMMAND` make some\n")


def test_an_output_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    run(4, 3)
    assert main(["report", "-o", "no/such/file"]) == 1
    assert "cannot write no/such/file" in capsys.readouterr().err


def test_a_pipe_that_closes_early() -> None:
    run(4, 3)
    command = f"{sys.executable} -m dispatchcov.cli json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr

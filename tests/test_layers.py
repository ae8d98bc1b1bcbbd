"""The import rules that keep the rooms apart: arrows point one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
HEAVY = {"torch", "numpy", "fp4ops", "coverage", "hypothesis", "z3", "jinja2", "cuda", "safetensors", "jsonschema"}
CORE = sorted((ROOT / "dispatchcov").rglob("*.py"))
LIGHT = [file for file in CORE if file.stem != "coverage_plugin"]  # which coverage.py alone imports


def imports(file: Path, *, everywhere: bool) -> Iterator[str]:
    """The modules that ``file`` imports: when it is imported, or ``everywhere`` in it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if everywhere else list(at_import_time(tree.body))
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def at_import_time(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from at_import_time([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from at_import_time([*node.body, *node.orelse, *node.finalbody])
        elif isinstance(node, ast.ClassDef | ast.With):
            yield from at_import_time(node.body)


def ours(file: Path) -> set[str]:
    """The modules of dispatchcov, and its folders of reports, that ``file`` uses anywhere."""
    found = {
        name.removeprefix("dispatchcov.") for name in imports(file, everywhere=True) if name.startswith("dispatchcov.")
    }
    modules = {name for name in found if (ROOT / "dispatchcov" / f"{name.replace('.', '/')}.py").exists()}
    return {"report" if name.startswith("report.") else name for name in modules}


@pytest.mark.parametrize("file", LIGHT, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_core_imports_nothing_heavy_and_never_fp4ops(file: Path) -> None:
    assert not {name.split(".")[0] for name in imports(file, everywhere=False)} & HEAVY
    assert not [name for name in imports(file, everywhere=True) if name.split(".")[0] == "fp4ops"]


def test_importing_all_of_the_core_loads_nothing_heavy() -> None:
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in LIGHT if file.stem != "__init__"]
    code = f"import sys\nfor name in {names!r}:\n    __import__(name)\nprint(sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def place(file: Path) -> str:
    """The module that ``file`` is, by its place in dispatchcov."""
    return ".".join(file.relative_to(ROOT / "dispatchcov").with_suffix("").parts)


REPORTS = sorted((ROOT / "dispatchcov" / "report").glob("*.py"))


@pytest.mark.parametrize("file", [*REPORTS, ROOT / "dispatchcov" / "gate.py"], ids=lambda file: str(file.name))
def test_reports_and_gate_read_only_results(file: Path) -> None:
    allowed = {"results", "items", "drift", "errors", "table", "gate", "demands", "report", "places", "table_lines"}
    allowed |= {"workflow_commands"}
    assert ours(file) <= allowed, ours(file) - allowed


def test_only_the_gate_judges() -> None:
    users = {place(file) for file in CORE if "judge(" in file.read_text(encoding="utf-8")}
    assert users == {"gate", "plugin.session", "commands.records", "adapters.ort_fp4"}


def test_only_generated_code_and_the_interpreter_evaluate_guards() -> None:
    for file in CORE:
        text = file.read_text(encoding="utf-8")
        assert "eval(" not in text.replace("literal_eval(", "")
        assert ("exec(" in text) == (place(file) in ("decide", "space.search")), file


def test_data_and_tables_are_never_pickled() -> None:
    for file in CORE:
        assert not {"pickle", "marshal", "shelve", "dill"} & set(imports(file, everywhere=True))


def test_the_readme_names_every_room() -> None:
    named = {
        word.strip(" `")
        for line in README.read_text().splitlines()
        if line.startswith("| `")
        for word in line.split("|")[1].split(",")
    }
    rooms = {
        folder.name for folder in (ROOT / "dispatchcov").iterdir() if folder.is_dir() and folder.name[0] not in "_."
    }
    assert rooms - named == set()


LEAVES = {
    "errors": set(),
    "expr_nodes": {"errors"},
    "formula": set(),
    "records": {"expr", "expr_nodes"},
    "pytest_plugin": {"plugin.session", "plugin.tests", "config", "plugin.checks", "errors", "plugin.assertions"},
    "drift": {"expr"},
    "cli": {f"commands.{name}" for name in ("compare", "cpp", "init", "missing", "output", "records", "tables")}
    | {"errors"},
}


@pytest.mark.parametrize(("name", "allowed"), LEAVES.items())
def test_leaf_modules_and_front_doors(name: str, allowed: set[str]) -> None:
    assert ours(ROOT / "dispatchcov" / f"{name}.py") <= allowed


@pytest.mark.parametrize("file", sorted((ROOT / "fp4ops").rglob("*.py")), ids=lambda file: str(file.relative_to(ROOT)))
def test_fp4ops_uses_the_public_dispatchcov_only(file: Path) -> None:
    deep = [name for name in imports(file, everywhere=True) if name.startswith("dispatchcov.")]
    import dispatchcov

    assert [name for name in deep if name.removeprefix("dispatchcov.") not in dispatchcov.__all__] == []

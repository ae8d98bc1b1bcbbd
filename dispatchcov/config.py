"""Settings: ``[tool.dispatchcov]`` in pyproject.toml < ``DISPATCHCOV_*`` in the environment < arguments. One
table of options.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from dispatchcov.errors import DispatchcovError, UsageError, known
from dispatchcov.loading.load import load_table
from dispatchcov.table import EVIDENCE, Table

DATA_FILE = ".dispatchcov"
RUN = "DISPATCHCOV_RUN"
DATA = "DISPATCHCOV_DATA"
TABLE = "DISPATCHCOV_TABLE"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is asked to do. The names are the keys of ``[tool.dispatchcov]``; lists are comma-separated
    in the environment.
    """

    report: tuple[str, ...] = ()
    table: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    fail_under: float | None = None
    data: str = DATA_FILE
    append: bool = False
    check: bool = False
    trace: str = ""
    observe: str = ""
    stored: tuple[str, ...] = ()
    weights: str = ""
    baseline: str = ""
    update_baseline: bool = False
    fail_on_drift: bool = False
    baseline_ignore: tuple[str, ...] = ()


def read(
    root: str | os.PathLike[str],
    given: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    options: str = "--",
) -> Settings:
    """The settings of the project in ``root`` with ``given`` arguments on top; a list argument replaces, None
    is not given. ``options`` is what the names of options begin with, for messages.
    """
    settings = Settings()
    file = Path(root) / "pyproject.toml"
    for source, values, name in (
        (f"{file}: [tool.dispatchcov]", _from_file(file), str),
        ("environment", from_environment(environ), lambda key: f"DISPATCHCOV_{key.upper()}"),
        (
            "arguments",
            {key: value for key, value in given.items() if value is not None},
            lambda key: f"{options}{key.replace('_', '-')}",
        ),
    ):
        names = [field.name for field in fields(Settings)]
        for key, value in values.items():
            if key not in names:
                raise UsageError(f"{source}: unknown key {key!r}; {known(key, names)}")
            settings = replace(settings, **{key: _typed(source, key, name(key), value)})
    return settings


def _from_file(file: Path) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: expected a readable TOML file: {error}") from None
    tool = document.get("tool", {})
    values = tool.get("dispatchcov", {}) if isinstance(tool, dict) else {}
    if not isinstance(values, dict):
        raise UsageError(f"{file}: expected [tool.dispatchcov] to be a table, got {values!r}")
    return {key: _placed(file.parent, key, value) for key, value in values.items()}


PATHS = ("table", "data", "trace", "stored", "baseline", "weights")
ASKING = ("report", "require", "fail_under", "evidence", "trace", "baseline", "weights")


def asks(settings: Settings) -> bool:
    """Do ``settings`` ask pytest for a report or a gate, and not only say how?"""
    return settings.check or any(getattr(settings, key) not in ((), None, "") for key in ASKING)


def _placed(root: Path, key: str, value: Any) -> Any:
    """A path of pyproject.toml from the folder of that file, wherever pytest was started."""
    if isinstance(value, list):
        return [_placed(root, key, item) for item in value]
    spec = isinstance(value, str) and value and (key != "table" or value.endswith(".toml"))
    if not spec or key not in PATHS or os.path.isabs(value) or root.resolve() == Path.cwd().resolve():
        return value
    return str(root / value)


def tables_for_others(specs: Iterable[str]) -> str:
    """``DISPATCHCOV_TABLE`` for processes that may run in another folder."""
    return ",".join(os.path.abspath(spec) if spec.endswith(".toml") else spec for spec in specs)


def from_environment(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The settings that ``DISPATCHCOV_*`` variables make."""
    found: dict[str, Any] = {}
    names = [f"DISPATCHCOV_{field.name.upper()}" for field in fields(Settings)]
    for name in environ:
        if name.startswith("DISPATCHCOV_") and name not in (*names, RUN):
            raise UsageError(f"environment: unknown variable {name!r}; {known(name, [*names, RUN])}")
    for field in fields(Settings):
        value = environ.get(f"DISPATCHCOV_{field.name.upper()}")
        if value is not None:
            is_list = isinstance(field.default, tuple)
            parts = _demands(value) if field.name == "require" else value.split(",")
            found[field.name] = [part.strip() for part in parts if part.strip()] if is_list else value
    return found


def _demands(value: str) -> list[str]:
    """``value`` split where a demand ends, and not inside ``odd [a=1, b=2] checked, launched on cpu, emulates x``."""
    evidence = "|".join(EVIDENCE)
    parts: list[str] = []
    for part in value.split(","):
        more = parts and re.search(rf"[\s,]({evidence})\s*$", parts[-1]) and re.match(rf"\s*({evidence})\b", part)
        machine = parts and re.search(r"\son\s", parts[-1]) and re.match(r"\s*emulates\s", part)
        label = parts and parts[-1].rfind("[") > parts[-1].rfind("]")
        if more or machine or label:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _typed(source: str, key: str, name: str, value: Any) -> Any:
    default = next(field.default for field in fields(Settings) if field.name == key)
    if isinstance(default, tuple):
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list | tuple) or not all(isinstance(item, str) for item in values):
            raise UsageError(f"{source}: expected {name} to be a list of strings, got {value!r}")
        return tuple(values)
    if isinstance(default, bool):
        return _boolean(source, name, value)
    if key == "fail_under":
        return percent(value, f"{source}: {name}")
    if not isinstance(value, str) or not value:
        raise UsageError(f"{source}: expected {name} to be a file name, got {value!r}")
    return value


def _boolean(source: str, name: str, value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    result = value if isinstance(value, bool) else words.get(str(value).lower())
    if result is None:
        raise UsageError(f"{source}: expected {name} to be true or false, got {value!r}")
    return result


def percent(value: object, where: str) -> float:
    """``value`` as a percentage from 0 to 100; raises :class:`UsageError` naming ``where``."""
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0 <= number <= 100:
        raise UsageError(f"{where}: expected a percentage from 0 to 100, got {value!r}")
    return number


def evidence(items: tuple[str, ...], where: str) -> frozenset[str]:
    """The evidence named in ``items``, each possibly a comma-separated list."""
    names = [part.strip() for item in items for part in item.split(",") if part.strip()]
    if items and not names:
        raise UsageError(f"{where}: expected one or more of {', '.join(EVIDENCE)}, got none")
    for name in names:
        if name not in EVIDENCE:
            raise UsageError(f"{where}: unknown evidence {name!r}; {known(name, EVIDENCE)}")
    return frozenset(names)


def table(spec: str) -> Table:
    """The table named by ``spec``: ``FILE.toml``, or ``MODULE:ATTR`` of an importable module."""
    if spec.endswith(".toml"):
        return load_table(spec)
    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"expected a table as FILE.toml or MODULE:ATTR, got {spec!r}")
    value = imported(module_name, attribute, f"table {spec!r}")
    if not isinstance(value, Table):
        raise UsageError(f"table {spec!r}: expected a dispatchcov table, got {type(value).__name__}")
    return value


def imported(module: str, attribute: str, where: str) -> Any:
    """``attribute``, perhaps dotted, of ``module``; raises :class:`UsageError` that names ``where`` if that fails."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a command, unlike python -m, does not look where it was started
    try:
        value: Any = importlib.import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{where}: {error}") from None
    except Exception as error:  # whatever the module does when it is imported
        raise UsageError(f"{where}: importing {module} raised {type(error).__name__}: {error}") from error
    return value


def tables(specs: tuple[str, ...]) -> tuple[Table, ...]:
    """The tables named by ``specs``, each once."""
    found: dict[str, Table] = {}
    for spec in specs:
        loaded = table(spec)
        found.setdefault(loaded.digest, loaded)
    return tuple(found.values())


__all__ = ["DATA", "DATA_FILE", "RUN", "DispatchcovError", "Settings", "evidence", "percent", "read", "table", "tables"]

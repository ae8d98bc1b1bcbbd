"""A table as a C++ header: the decision as ``constexpr`` functions, rules and kernels as enums, and the recording.

The header includes ``dispatchcov.hpp``, which lies in :data:`INCLUDE`. It holds the text of the table, so that records
of a C++ program are judged without its file, and :func:`check` says whether it still is what the table gives.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from dispatchcov.cpp.names import KEYWORDS, literal, literals, namespace, untrigraph
from dispatchcov.cpp.parts import Pieces
from dispatchcov.cpp.regions import region_lines
from dispatchcov.errors import DigestError, UsageError, brief
from dispatchcov.table import Table

INCLUDE = str(Path(__file__).parents[1] / "include")
FORMAT = 1
_BEGIN = "// dispatchcov cpp: "
_CHECKSUM = "// SHA-256 of the other lines: "
_REGIONS = "// --- regions"
_END = "// --- end of regions"


def header(table: Table, name: str = "") -> str:
    """The header for ``table`` in the namespace ``name`` (default: by the operator's name), as text of ASCII and UTF-8.

    Raises :class:`UsageError` if ``name`` is no namespace or a constant of the table is beyond 127 bits.
    """
    name = name or namespace(table.op)
    parts = name.split("::")
    if not all(re.fullmatch(r"[A-Za-z]\w*", part, re.ASCII) and part not in KEYWORDS for part in parts):
        raise UsageError(f"expected a namespace such as library::operator_dispatch, got {brief(name)}")
    about = {"format": FORMAT, "digest": table.digest, "namespace": name, "source": table.source}
    guard = "_".join(["DISPATCHCOV", *re.findall("[A-Z0-9]+", name.upper()), "HPP"])
    pieces = Pieces(table, f"::{name}::")
    lines = [
        "// Made from a dispatch table by `dispatchcov cpp --generate`. Change the table, not this file.",
        f"{_BEGIN}{untrigraph(json.dumps(about), chr(92) + 'u003f')}",
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <dispatchcov.hpp>  // in the folder that `dispatchcov cpp --include` prints\n",
        f"namespace {name} {{\n",
        *pieces.types(),
        *pieces.names(),
        "namespace internal {\n",
        *pieces.predicates(),
        "}  // namespace internal\n",
        *pieces.decision(),
        *pieces.outcomes(),
        f"{_REGIONS} ---\n",
        *region_lines(pieces),
        f"{_END} ---\n",
        "namespace internal {\n",
        *_table(pieces),
        "}  // namespace internal\n",
        *_recording(pieces),
        f"}}  // namespace {name}\n\n#endif  // {guard}\n",
    ]
    begin, about_line, rest = "\n".join(lines).split("\n", 2)
    return "\n".join([begin, about_line, f"{_CHECKSUM}{_checksum(begin, about_line, rest)}", rest])


def _checksum(*lines: str) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def check(path: str, table: Table) -> None:
    """Raises :class:`DigestError` unless the header ``path`` is what :func:`header` gives for ``table`` today.

    Raises :class:`UsageError` if it is no header of ours. Its regions are not compared, because their list is longer
    where no z3 is installed to rule some out; that they are as they were made, its checksum says.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        expected = "expected a header of dispatchcov cpp --generate"
        raise UsageError(f"{path}: {expected}, cannot read it: {getattr(error, 'strerror', None) or error}") from None
    about = next((line.removeprefix(_BEGIN) for line in text.splitlines()[:5] if line.startswith(_BEGIN)), "")
    try:
        made = json.loads(about)
        number, digest, name = made["format"], str(made["digest"]), str(made["namespace"])
    except (ValueError, TypeError, LookupError):
        raise UsageError(f"{path}: expected a header of dispatchcov cpp --generate, got another file") from None
    own = "" if name == namespace(table.op) else f" --namespace {name}"
    again = f"run dispatchcov cpp --generate {table.source} -o {path}{own}"
    if digest != table.digest:
        got = f"digest {table.digest[:12]}, got a header made from {digest[:12]}"
        raise DigestError(f"{path}: expected a header made from {table.source}, {got}; {again}")
    if number != FORMAT:
        raise DigestError(f"{path}: expected a header of format {FORMAT}, got {brief(number)}; {again}")
    before, sealed, after = text.partition(_CHECKSUM)
    if not sealed:
        raise DigestError(f"{path}: expected a header with a checksum, got one made by an earlier version; {again}")
    wanted, found = _compared(header(table, name)), _compared(text)
    for ours, theirs in itertools.zip_longest(wanted, found, fillvalue=""):
        if ours != theirs:
            raise DigestError(f"{path}: expected {brief(ours)}, got {brief(theirs)}: {_why(found, table)}; {again}")
    got, _, rest = after.partition("\n")
    if got != _checksum(f"{before}{rest}"):
        raise DigestError(f"{path}: expected the text that its checksum is of, got another: it was edited; {again}")


def _compared(text: str) -> list[str]:
    """The lines of a header, less what may differ: regions, and the path by which its table was named."""
    before, _, after = text.partition(_REGIONS)
    lines = [*before.splitlines(), *after.partition(_END)[2].splitlines()]
    return [line for line in lines if not line.startswith((_BEGIN, _CHECKSUM, "    /* source */"))]


def _why(got: list[str], table: Table) -> str:
    text = "".join(f"    {line}\n" for line in literals(table.text))
    same = text in "".join(f"{line.rstrip(',;')}\n" for line in got)
    return "it was edited, or made by another version" if same else "the text of the table has changed"


def _table(pieces: Pieces) -> Iterator[str]:
    """The table as the recorder knows it."""
    table = pieces.table
    for variable in table.variables:
        if variable.type == "enum":
            values = ", ".join(literal(str(value)) for value in variable.values)
            yield f"inline constexpr const char* values_{variable.name}[] = {{{values}}};"
    yield "inline constexpr ::dispatchcov::Variable variables[] = {"
    types = {"int": "integer", "bool": "boolean", "enum": "text"}
    for v in table.variables:
        ranged = v.type == "int" and not v.values
        flags = f"{str(v.hardware).lower()}, {str(ranged).lower()}"
        values = (
            f"values_{v.name}, {len(v.values)}, {literal(pieces.other[v.name])}" if v.type == "enum" else "{}, 0, {}"
        )
        yield f"    {{{literal(v.name)}, ::dispatchcov::Type::{types[v.type]}, {flags}, {values}}},"
    yield "};"
    yield "inline constexpr ::dispatchcov::Table table = {"
    yield f"    {literal(table.op)},\n    digest,\n    /* source */ {literal(table.source)},"
    yield "\n".join(f"    {line}" for line in literals(table.text)) + ","
    yield f"    variables,\n    {len(table.variables)},\n    {(len(table.predicates) + 64) // 64},\n}};\n"


def _recording(pieces: Pieces) -> Iterator[str]:
    """What `dispatchcov.hpp` asks about the table, and the functions that record."""
    scope = pieces.scope
    codes = "".join(
        f"        codes[{i}] = {pieces.code(variable)};\n" for i, variable in enumerate(pieces.table.variables)
    )
    yield f"""struct Spec {{
    using Facts = {scope}Facts;
    using Rule = {scope}Rule;
    using Kernel = {scope}Kernel;
    static constexpr int variables = {len(pieces.table.variables)};
    static constexpr Rule none = Rule::none_;
    static const ::dispatchcov::Table& table() {{ return internal::table; }}
    static constexpr Rule find(const Facts& f) {{ return {scope}find(f); }}
    static constexpr Kernel kernel_of(Rule rule) {{ return {scope}kernel_of(rule); }}
    static constexpr Vector vector(const Facts& f) {{ return {scope}vector(f); }}
    static constexpr Vector outcomes(const Facts& f) {{ return {scope}outcomes(f); }}
    static constexpr void codes(const Facts& f, std::int64_t* codes) {{
{codes}    }}
}};

using Decision = ::dispatchcov::Decision<Spec>;

// Decides, and records it if something records: `.rule`, `.kernel`, and `.launch()` around the launch of the kernel.
inline Decision decide(const Facts& f, std::string_view machine = {{}}) {{
    return ::dispatchcov::decide<Spec>(f, machine);
}}

// Records a decision that other code took and launched; `kernel` is what really ran. Throws dispatchcov::FactsError if
// that is empty, and nothing for facts with which a decision would throw: these are a mismatch.
inline void record(const Facts& f, std::string_view kernel, std::string_view machine = {{}}) {{
    ::dispatchcov::record<Spec>(f, kernel, machine);
}}
"""

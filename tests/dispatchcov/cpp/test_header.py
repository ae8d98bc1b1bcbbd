"""The C++ header of a table decides as Python does: many random tables and inputs, in one program."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from dispatchcov import cli, store
from dispatchcov.cpp import header as cpp
from dispatchcov.cpp.expr import WIDE
from dispatchcov.cpp.parts import Pieces
from dispatchcov.decide import DEFAULT_MACHINE, View, path, select
from dispatchcov.errors import TableError, UndefinedError, UsageError
from dispatchcov.expr import Expr, Value, evaluate, names, walk
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.regions import Space
from dispatchcov.table import Table, Variable
from tests.dispatchcov import expressions, random_tables
from tests.dispatchcov.cpp import build as cpp_build
from tests.dispatchcov.small_table import SMALL, changed

ROOT = Path(__file__).parents[3]
EDGE = (1 << 63) - 1
OTHER = "none of them"

LARGE = st.sampled_from([0, 1, -1, 2, 31, 1 << 31, -(1 << 31), 1 << 40, 1 << 61, EDGE // 3, EDGE - 1, EDGE, -EDGE])
TERMS = st.recursive(
    st.one_of(st.sampled_from("MNKMNK"), LARGE.map("({})".format)),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "*", "//", "%"]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "ceildiv"]), inner, inner),
        st.builds("(-{})".format, inner),
    ),
    max_leaves=6,
)


LONG = st.sampled_from(
    """M * N * K > 4096
    (M * N - K * K) * M <= N * N * N
    M * N * K % 7 == 3
    -(M * N * K) < K
    (M * M) * (N * N) // K >= 1
    ceildiv(M * N, K * K + 1) * K == max(M, N * N)
    M * N * K + M * N * K != 0""".splitlines()
).map(str.strip)


@st.composite
def large_tables(draw: st.DrawFn) -> Table:
    """A table whose numbers do not fit 64 bits, and some not 127."""
    term = TERMS.filter(lambda text: re.search("[MNK]", text))
    relation = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    compared = st.builds("{} {} {}".format, term, relation, TERMS)
    guard = st.one_of(compared, compared, term.map("{} in [0, 1, 4096, -7]".format), LONG)
    lines = ["[table]\nop = 'large::table'\n[variables]"]
    lines += [f"{name} = {{ type = 'int' }}" for name in "MNK"]
    lines += ["[[kernel]]\nname = 'k'"]
    lines += [f"[[rule]]\nname = 'r{i}'\nkernel = 'k'\nwhen = '{draw(guard)}'" for i in range(draw(st.integers(1, 3)))]
    try:
        return parse_table("\n".join([*lines, "[[rule]]\nname = 'rest'\nkernel = 'k'"]))
    except TableError as error:
        assume("division by zero" not in str(error))
        raise


def value_of(variable: Variable, *, large: bool) -> st.SearchStrategy[Value]:
    """Values inside the domain of ``variable`` and outside of it, as far as C++ has them."""
    if variable.type == "bool":
        return st.booleans()
    if variable.type == "enum":
        return st.sampled_from([*variable.values, OTHER])
    far = st.one_of(LARGE, st.just(-EDGE - 1), st.integers(-EDGE - 1, EDGE))
    if large:
        return far
    near = st.integers(-12, 40)
    return st.one_of(near, near, far, *([st.sampled_from(variable.values)] if variable.values else []))


Case = tuple[Table, list[tuple[Value, ...]]]


def cases(tables: st.SearchStrategy[Table], count: int, *, large: bool = False) -> list[Case]:
    """About ``count`` random tables, each with random inputs."""
    found: dict[str, Case] = {}

    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        table = data.draw(tables)
        vars(table)["_spaces"] = {Space: Space(table, solving=False)}  # z3 takes its time for products
        values = st.tuples(*(value_of(variable, large=large) for variable in table.variables))
        found.setdefault(table.digest, (table, data.draw(st.lists(values, min_size=25, max_size=40))))

    collect()
    return list(found.values())


def code(variable: Variable, value: Value) -> int:
    """``value`` as C++ has it."""
    if variable.type == "enum":
        return variable.values.index(value) if value in variable.values else -1
    return int(value)


def numbers_too_large(table: Table, facts: dict[str, Value]) -> bool:
    """Does computing a predicate of ``table`` for ``facts`` meet a number beyond 127 bits?"""
    return any(_beyond(node, facts) for predicate in table.predicates for node in walk(predicate.expr) if names(node))


def _beyond(node: Expr, facts: dict[str, Value]) -> bool:
    try:
        value = evaluate(node, facts)
    except ZeroDivisionError:
        return False
    return type(value) is int and abs(value) > WIDE


def expected(table: Table, values: tuple[Value, ...]) -> str:
    """Rule, vector and region of an input, or the vector of what other code decided, as the program prints them."""
    view = View.of(table, DEFAULT_MACHINE)
    try:
        vector = view.vector(values)
    except UndefinedError:
        return f"undefined {view.outcomes(values):x}"
    rule = select(table, vector)
    regions = {(region.rule, region.settled): region.index for region in Space.of(table).regions}
    return f"{rule if rule is not None else -1} {vector:x} {regions.get(path(table, vector), -1)}"


MAIN = """
#include <cstdio>
#include <iostream>

template <class Vector>
void print(const Vector& v) {
    bool begun = false;
    constexpr int words = static_cast<int>(sizeof v.words / sizeof v.words[0]);
    for (int i = words - 1; i >= 0; --i) {
        if (v.words[i] == 0 && !begun && i > 0) continue;
        std::printf(begun ? "%016llx" : "%llx", static_cast<unsigned long long>(v.words[i]));
        begun = true;
    }
}

template <class Facts, class Vector, class Outcomes, class Select, class Region>
void answer(const Facts& f, Vector vector, Outcomes outcomes, Select find, Region region) {
    const auto foreign = outcomes(f);
    try {
        const auto v = vector(f);
        if (!(v == foreign)) std::printf("not ");
        std::printf("%d ", static_cast<int>(find(f)));
        print(v);
        std::printf(" %d\\n", region(f));
    } catch (const dispatchcov::UndefinedError&) {
        std::printf("undefined ");
        print(foreign);
        std::puts("");
    } catch (const dispatchcov::OverflowError&) {
        std::puts("overflow");
    }
}

long long c[64];

int main() {
    for (int table = 0, count = 0; std::cin >> table >> count;) {
        for (int i = 0; i < count; ++i) std::cin >> c[i];
        switch (table) {
CASES
        }
    }
}
"""


def member(pieces: Pieces, variable: Variable, place: int, scope: str) -> str:
    if variable.type == "int":
        return f"c[{place}]"
    if variable.type == "bool":
        return f"c[{place}] != 0"
    return f"static_cast<{scope}{pieces.enums[variable.name]}>(c[{place}])"


@cpp_build.needs_gxx
def test_rule_vector_and_region_are_those_of_python(tmp_path: Path) -> None:
    tables = cases(expressions.tables().map(lambda pair: pair[0]), 25)
    tables += cases(random_tables.tables(shared=True, contracts=True), 25)
    tables += cases(large_tables(), 25, large=True)
    branches, lines, wanted = [], [], []
    for number, (table, inputs) in enumerate(tables):
        cpp_build.write_header(tmp_path, f"t{number}.hpp", table, f"t{number}")
        scope = f"t{number}::"
        pieces = Pieces(table, scope)
        members = ", ".join(member(pieces, v, place, scope) for place, v in enumerate(table.variables))
        functions = ", ".join(f"{scope}{name}" for name in ("vector", "outcomes", "find", "region"))
        branches.append(f"case {number}: answer({scope}Facts{{{members}}}, {functions}); break;")
        for values in inputs:
            codes = [code(v, value) for v, value in zip(table.variables, values, strict=True)]
            lines.append(" ".join(map(str, [number, len(codes), *codes])))
            wanted.append((table, values, expected(table, values)))
    includes = "\n".join(f'#include "t{number}.hpp"' for number in range(len(tables)))
    source = tmp_path / "all.cpp"
    source.write_text(includes + MAIN.replace("CASES", "\n".join(branches)), encoding="utf-8")
    flags = ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-Wno-error", "-w")
    program = cpp_build.build(tmp_path / "all", source, flags=flags)
    done = cpp_build.run(program, data=None, stdin="\n".join(lines))
    assert done.returncode == 0, done.stderr
    kinds = Counter[str]()
    for (table, values, answer), got in zip(wanted, done.stdout.splitlines(), strict=True):
        facts = dict(zip(table.names, values, strict=True))
        kinds[got.partition(" ")[0] if got[0] in "uo" else "decided"] += 1
        if got == "overflow":
            assert numbers_too_large(table, facts), (table.text, facts)
        else:
            assert got == answer, (table.text, facts)
    assert min(kinds["decided"], kinds["undefined"], kinds["overflow"]) > 0, kinds


FP4 = ROOT / "fp4ops" / "dispatch.toml"
FP4_MAIN = """
#include <iostream>
#include "fp4.hpp"
int main() {
    std::string dtype, dequantize;
    fp4::Facts f{};
    while (std::cin >> f.M >> f.N >> f.K >> f.block_size >> dtype >> f.bias >> f.sm >> f.native >> dequantize) {
        f.dtype = fp4::dtype_t_of(dtype);
        f.dequantize = fp4::dequantize_t_of(dequantize);
        const auto decision = fp4::decide(f, "cpu, emulates sm_90");
        const auto launch = decision.launch();
    }
}
"""
FP4_SCRIPT = """
import sys, dispatchcov
view = dispatchcov.load_table({table!r}).on("cpu", emulates="sm_90")
for line in sys.stdin:
    M, N, K, block_size, dtype, bias, sm, native, dequantize = line.split()
    with view.decide(
        M=int(M), N=int(N), K=int(K), block_size=int(block_size), dtype=dtype, bias=bias == "1", sm=int(sm),
        native=native == "1", dequantize=dequantize,
    ).launch():
        pass
"""


@cpp_build.needs_gxx
def test_the_report_of_the_fp4_table_is_that_of_python(tmp_path: Path) -> None:
    table = load_table(FP4)
    witnesses = [dict(region.witness or {}) for region in Space.of(table).regions]
    draw = random.Random(6)
    moved = [{**facts, "M": draw.choice([0, 1, 8, 9, 32, 33]), "N": draw.choice([1, 32, 65536])} for facts in witnesses]
    lines = [
        " ".join(str(int(v) if type(v) is bool else v) for v in facts.values()) for facts in witnesses[:100] + moved
    ]
    (tmp_path / "input").write_text("\n".join(lines), encoding="utf-8")
    cpp_build.write_header(tmp_path, "fp4.hpp", table, "fp4")
    program = cpp_build.build(tmp_path / "fp4", write(tmp_path / "fp4.cpp", FP4_MAIN))
    script = write(tmp_path / "fp4.py", FP4_SCRIPT.format(table=str(FP4)))
    reports = []
    for words in ([program], [sys.executable, script]):
        shell = ["bash", "-c", '"$@" < input', "bash", *words]
        done = cpp_build.command(tmp_path, "run", "--format=json", "-o", "report.json", "--", *shell)
        assert done.returncode == 2, done.stderr  # the first regions are not all there are
        reports.append(cpp_build.report(tmp_path / "report.json"))
    assert reports[0] == reports[1]
    assert reports[0]["totals"]["regions"]["covered"] > 100


# --- the header of one table ------------------------------------------------------------------------------------------


@cpp_build.needs_gxx
def test_the_decision_is_constexpr_and_names_are_c_plus_plus(tmp_path: Path) -> None:
    text = changed(
        ('op = "demo::scale"', 'op = "9 lives::my op!"'),
        ("N = { type", "register = { type"),
        ("max(32, N)", "max(32, register)"),
        ('when = "N % 4', 'when = "register % 4'),
        ('["N >= 1024"]', '["register >= 1024"]'),
        ('"N % 4 == 0"\n', '"register % 4 == 0"\n'),
        ('where = "N > 4096"', 'where = "register > 4096"'),
        ('["float16", "float32"]', '["float", "ü", "float_", "a-b", "a b", "", "x??/", "???>"]'),
        ('name = "plain"', 'name = "delete"'),
    )
    table = parse_table(text, source='odd "name??/"\\')
    source = tmp_path / "odd.cpp"
    cpp_build.write_header(tmp_path, "odd.hpp", table)
    lines = set((tmp_path / "odd.hpp").read_text(encoding="utf-8").splitlines())
    assert lines >= {
        "    other_ = -1,  // none of the declared values: outside the domain",
        "    float_ = 0,  // in the table: float",
        "    float_3 = 2,  // in the table: float_",
        "    delete_ = 1,  // in the table: delete",
        "    std::int64_t register_;  // an integer >= 0; in the table: register",
    }
    source.write_text(
        """
#include "odd.hpp"
#include "odd.hpp"
namespace d = x9_lives::my_op_dispatch;
constexpr d::Facts facts{64, 90, d::dtype_t::float_, true};
static_assert(d::select(facts) == d::Rule::vec4 && d::kernel_of(d::Rule::vec4) == d::Kernel::Vec4);
static_assert(d::select({63, 90, d::dtype_t::x, true}) == d::Rule::delete_);
static_assert(d::vector(facts)[0] && d::vector(facts)[1] && !d::vector(facts)[2] && d::region(facts) == 0);
static_assert(d::dtype_t_of("float_") == d::dtype_t::float_3);
static_assert(d::dtype_t_of("half") == d::dtype_t::other_ && d::dtype_t_of("a b") != d::dtype_t_of("a-b"));
static_assert(std::string_view(d::name(d::dtype_t::x)) == "ü");
int main() { return d::decide(facts).kernel == d::Kernel::Vec4 ? 0 : 1; }
""",
        encoding="utf-8",
    )
    assert cpp_build.run(cpp_build.build(tmp_path / "odd", source), data=tmp_path / "d").returncode == 0
    data = store.load(tmp_path / "d")
    assert data.tables[0].text == text
    assert data.tables[0].source == 'odd "name??/"\\'
    assert data.rows[0].inputs == ((64, 90, "float", True),)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_header_is_checked_against_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path / "t.toml", SMALL)
    header = tmp_path / "t.hpp"

    def command(*arguments: object) -> tuple[int, str, str]:
        status = cli.main(["cpp", *map(str, arguments)])
        out, err = capsys.readouterr()
        return status, out.strip(), err.strip()

    assert command("--generate", table, "-o", header, "--namespace", "a::b")[0] == 0
    digest = load_table(table).digest[:12]
    assert command("--check", header, table) == (0, f"{header}: made from {table}, digest {digest}", "")
    made = header.read_text(encoding="utf-8")
    assert command("--generate", table, "--namespace", "a::b") == (0, made.strip(), "")

    write(table, changed(("N % 4 == 0 and", "N % 8 == 0 and")))
    status, _, err = command("--check", header, table)
    assert status == 1
    wanted = f"{header}: expected a header made from {table}, digest {load_table(table).digest[:12]}, "
    assert err.startswith(f"dispatchcov: {wanted}got a header made from {digest}; run dispatchcov cpp --generate")
    assert err.rstrip().endswith(f"-o {header} --namespace a::b")
    write(table, f"# only a comment\n{SMALL}")
    assert "the text of the table has changed" in command("--check", header, table)[2]
    write(table, SMALL)
    write(header, made.replace("f.N >= 1024;", "f.N >= 1025;"))
    assert "it was edited, or made by another version" in command("--check", header, table)[2]
    write(header, made.partition("struct Spec")[0])
    assert "it was edited, or made by another version" in command("--check", header, table)[2]
    for old, new in (("    {1, 0},", "    {1, 1},"), ("(read(0) && ", "(!read(0) && "), ("return -1;", "return 0;")):
        assert made.count(old) == 1
        write(header, made.replace(old, new))
        status, _, err = command("--check", header, table)
        assert (status, "expected the text that its checksum is of, got another: it was edited" in err) == (1, True)
    write(header, re.sub("// SHA-256 .*\n", "", made))
    status, _, err = command("--check", header, table)
    assert (status, "got one made by an earlier version; run dispatchcov cpp --generate" in err) == (1, True)
    write(header, made.replace('"format": 1', '"format": 2'))
    assert "expected a header of format 1, got 2" in command("--check", header, table)[2]
    write(header, "#pragma once\n")
    assert "expected a header of dispatchcov cpp --generate, got another file" in command("--check", header, table)[2]
    assert "cannot read it" in command("--check", tmp_path / "none.hpp", table)[2]


def test_the_include_folder_holds_the_headers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cpp", "--include"]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert {path.name for path in folder.iterdir()} == {"dispatchcov.hpp", "dispatchcov_gtest.hpp"}


@pytest.mark.parametrize("name", ["a b", "class", "::a", "a::", "9", "a;b", "ü"])
def test_a_namespace_is_one(name: str) -> None:
    with pytest.raises(UsageError, match="expected a namespace such as"):
        cpp.header(parse_table(SMALL), name)


def test_a_constant_beyond_127_bits_is_refused() -> None:
    text = changed(("rows > 32", f"rows > {EDGE} * {EDGE} * 4"))
    with pytest.raises(UsageError, match="expected constants of at most 127 bits, got one of 128"):
        cpp.header(parse_table(text))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, the compiler of CUDA")
def test_nvcc_compiles_the_decision_for_host_and_device(tmp_path: Path) -> None:
    cpp_build.write_header(tmp_path, "fp4.hpp", load_table(ROOT / "fp4ops" / "dispatch.toml"), "fp4")
    source = write(
        tmp_path / "fp4.cu",
        """
#include "fp4.hpp"
__global__ void choose(const fp4::Facts* facts, fp4::Kernel* kernels) {
    const fp4::Facts& f = facts[threadIdx.x];
    kernels[threadIdx.x] = fp4::kernel_of(fp4::select(f));
    if (!fp4::vector(f)[3]) kernels[threadIdx.x] = fp4::Kernel::none_;
}
fp4::Kernel host(const fp4::Facts& f) { return fp4::decide(f, "NVIDIA H200").kernel; }
""",
    )
    command = [
        "nvcc",
        "-std=c++17",
        "-arch=sm_90",
        f"-I{cpp.INCLUDE}",
        "-c",
        str(source),
        "-o",
        str(tmp_path / "fp4.o"),
    ]
    done = subprocess.run([*command, "-Werror", "all-warnings"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

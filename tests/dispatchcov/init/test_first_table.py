"""``dispatchcov init``: which rules come from which code, what is left, and what the command says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import dispatchcov
from dispatchcov import bench
from dispatchcov.cli import main
from dispatchcov.errors import UsageError
from dispatchcov.init import first_table as init
from dispatchcov.init.render import Draft, render
from dispatchcov.loading.load import load_table, parse_table

ROOT = Path(dispatchcov.__file__).parent


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drafted(text: str, file: str, function: str = "pick", define: tuple[str, ...] = ()) -> Draft:
    """The draft of ``function`` of ``text``, whose table loads."""
    Path(file).write_text(text)
    draft = init.draft(f"{file}:{function}", define=define)
    parse_table(render(draft))
    return draft


def rules(draft: Draft) -> list[tuple[str, str]]:
    """The guard and the kernel of each rule that is not a comment."""
    return [(" and ".join(rule.guard), rule.kernel) for rule in draft.live]


def of_python(body: str, head: str = "") -> Draft:
    return drafted(f"{head}\ndef pick(M, K, dtype, bias, x):\n    {body}\n    return 'rest'\n", "pick.py")


def of_cpp(body: str, parameters: str = "int M, int K, const Tensor& x", head: str = "") -> Draft:
    return drafted(f'{head}\nauto pick({parameters}) {{\n  {body}\n  return "rest";\n}}\n', "pick.cc")


def test_the_if_chain_of_bench_gives_back_the_table_of_bench() -> None:
    draft = init.draft(f"{ROOT / 'bench.py'}:by_hand", op="dispatchcov::bench")
    assert draft.left == ()
    assert [rule.line for rule in draft.rules] == sorted(rule.line for rule in draft.rules)
    table, written = parse_table(render(draft)), load_table(ROOT / "bench.toml")
    assert [rule.kernel.name for rule in table.rules] == [rule.kernel.name for rule in written.rules]
    assert [rule.when for rule in table.rules] == [rule.when for rule in written.rules]
    for facts in bench.shapes(500):
        known = {name: facts[name] for name in table.names}
        assert table.decide(**known).kernel == bench.by_hand(**facts) == written.decide(**facts).kernel


# --- Python ---------------------------------------------------------------------------------------------------------

GUARDS = [
    ("M <= 8 and K % 32 == 0", "M <= 8 and K % 32 == 0"),
    ("not (M <= 8)", "M > 8"),
    ("8 < M <= K", "8 < M and M <= K"),
    ("M in (16, 32)", "M in [16, 32]"),
    ("M not in [16, 32]", "not M in [16, 32]"),
    ("M in range(4, 9)", "4 <= M and M < 9"),
    ("dtype == 'half'", "dtype == 'half'"),
    ("dtype in ('half', 'float')", "dtype in ['half', 'float']"),
    ("bias", "bias"),
    ("not bias", "not bias"),
    ("bias is None", "not bias_given"),
    ("bias is not None and M", "bias_given and M"),
    ("M & 7 == 0", "M % 8 == 0"),
    ("M << 3 >= K >> 1", "M * 8 >= K // 2"),
    ("-(-M // 16) > 3", "-(-M // 16) > 3"),
    ("max(M, 8) * K < 1 << 20", "max(M, 8) * K < 1048576"),
    ("int(M) > 1", "M > 1"),
    ("M % 8", "M % 8 != 0"),
    ("M <= 8 if bias else M <= 16", "bias and M <= 8 or not bias and M <= 16"),
    ("x.shape[0] > 8 or x.size(1) == 1", "x_shape_0 > 8 or x_shape_1 == 1"),
    ("x.size(-1) == x.shape[-1] + 1", "x_shape_minus_1 == x_shape_minus_1 + 1"),
    ("x.config.rows == 3", "rows == 3"),
    ("x.is_contiguous() and x.dim() == 2", "x_is_contiguous and x_dim == 2"),
    ("x.dtype == torch.float16", "dtype == 'float16'"),
    ("x.dtype in (torch.float16, torch.half)", "dtype in ['float16', 'half']"),
    ("envs.FAST", "FAST"),
    ("M <= LIMIT", "M <= 12"),
    ("M in SIZES", "M in [1, 2]"),
    ("aligned(K, 32)", "K % 32 == 0"),
    ("len(x) > 2", "len_x > 2"),
    ("triton.cdiv(M, 16) > 2", "ceildiv(M, 16) > 2"),
    ("True and M > 3", "M > 3"),
]
HEAD = """
import torch, triton, envs
LIMIT = 3 * 4
SIZES = (1, 2)
def aligned(value, of):
    return value % of == 0
"""


@pytest.mark.parametrize(("test", "guard"), GUARDS)
def test_conditions_of_python(test: str, guard: str) -> None:
    draft = of_python(f"if {test}:\n        return 'fast'", HEAD)
    assert (draft.left, rules(draft)) == ((), [(guard, "fast"), ("", "rest")])


LEFT = [
    ("check(M)", "a call of check"),
    ("(n := M) > 3", "not in the predicate language"),
    ("M / 2 > 3", "'/' gives a fraction"),
    ("M ** K > 3", "not in the predicate language"),
    ("M > 0.5", "not in the predicate language"),
    ("isinstance(x, Tensor)", "a call of isinstance"),
    ("M <= FAR", "the value of FAR is not in this file; -D FAR=VALUE gives it"),
    ("M in x", "'in' something that is not listed here"),
    ("x is dtype", "identity of objects"),
    ("M == 3 and dtype == 'half' and M == 'half'", "expected int, got str"),
    ("dtype == 'half' and dtype", "a string as a condition by itself"),
    ("M % 0 == 1", "division by zero"),
    ("dtype == 'line\\n'", "expected a printable string"),
    ("M > 99999999999999999999", "no value of the predicate language"),
]


@pytest.mark.parametrize(("test", "reason"), LEFT)
def test_what_is_not_translated_is_left_and_its_rule_is_a_comment(test: str, reason: str) -> None:
    draft = of_python(f"if K == 1:\n        return 'one'\n    if {test}:\n        return 'fast'", "from far import FAR")
    assert rules(draft) == [("K == 1", "one"), ("", "rest")]
    (left,) = draft.left
    assert reason in left.reason
    assert left.line == 5
    text = render(draft)
    assert f"# NOT TRANSLATED  pick.py:5: {left.text}" in text
    assert '# name = "fast"\n' in text
    assert '\nname = "fast"' not in text


def test_what_is_left_of_an_and_leaves_the_rest_readable() -> None:
    draft = of_python("if M == 1 and check(M) and K == 2:\n        return 'fast'\n    if K == 1:\n        return 'one'")
    assert '# when = "M == 1 and <check(M)> and K == 2"' in render(draft)
    assert "[variables]\nK = " in render(draft)  # of rules that decide only


def test_of_a_test_that_is_left_the_opposite_is_not_guessed() -> None:
    then = "if M == 1 and check(M):\n        if K == 1: return 'a'"
    draft = of_python(f"{then}\n    else:\n        if K == 2: return 'b'\n    if K == 3: return 'c'")
    assert rules(draft)[0] == ("K == 2", "b")
    assert ("K == 3", "c") in rules(draft)
    assert {rule.kernel for rule in draft.rules if rule.left} == {"a", "c", "rest"}  # after the if, as its body goes on


SHAPES = {
    "nested": (
        "if M == 1:\n        if K == 1:\n            return 'a'\n        return 'b'",
        ["M == 1 and K == 1", "M == 1", ""],
    ),
    "falling through": ("if M == 1:\n        if K == 1:\n            return 'a'", ["M == 1 and K == 1", ""]),
    "elif": ("if M == 1: return 'a'\n    elif K == 1: return 'b'\n    else: return 'c'", ["M == 1", "K == 1", ""]),
    "ternary": ("return 'a' if M == 1 else 'b' if K == 1 else 'c'", ["M == 1", "K == 1", ""]),
    "what does not matter": ("if M == 1: K = 3\n    print('x')\n    if bias: return 'a'", ["bias"]),
    "a branch that goes on": (
        "if M == 1:\n        if K == 1: return 'a'\n    else:\n        if K == 2: return 'b'",
        ["M == 1 and K == 1", "M != 1 and K == 2", ""],
    ),
    "match": (
        "match M:\n        case 1 | 2: return 'a'\n        case 3 if bias: return 'b'\n        case _: return 'c'",
        ["M == 1 or M == 2", "M == 3 and bias", ""],
    ),
    "assert": ("assert M > 0\n    if K == 1: return 'a'", ["M <= 0", "K == 1", ""]),
    "raise": ("if M < 0: raise ValueError('M')\n    if K == 1: return 'a'", ["M < 0", "K == 1", ""]),
    "with": ("with torch.no_grad():\n        if K == 1: return 'a'", ["K == 1", ""]),
}


@pytest.mark.parametrize(("body", "guards"), SHAPES.values(), ids=SHAPES)
def test_shapes_of_chains(body: str, guards: list[str]) -> None:
    draft = of_python(body, "import torch")
    found = [guard for guard, _ in rules(draft)]
    assert (draft.left, found) == ((), guards if guards[-1:] == [""] else [*guards, ""])


KERNELS = {
    "return gemv(x)": "gemv",
    "return torch.ops.ours.gemv(x)": "torch.ops.ours.gemv",
    "return self.gemv(x)": "gemv",
    "return Kernel.GEMV": "Kernel.GEMV",
    "out = gemv(x)\n        out += bias\n        return out": "gemv",
    "pack(x)\n        return gemv(x)": "pack + gemv",
    "pack(x)\n        return None": "pack",
    "chosen = 'gemv'\n        return chosen": "gemv",
    "chosen = gemv\n        return chosen(x)": "gemv",
    "return 16, 32": "16, 32",
    "for part in x:\n            gemv(part)\n        return": "gemv",
    "return": "nothing",
    "raise NotImplementedError": "raise NotImplementedError",
}


@pytest.mark.parametrize(("end", "kernel"), KERNELS.items())
def test_kernels_are_what_a_branch_returns_or_calls(end: str, kernel: str) -> None:
    assert rules(of_python(f"if M == 1:\n        {end}"))[0][1] == kernel


def test_calls_that_all_ways_make_are_no_part_of_a_kernel() -> None:
    draft = of_python("prepare(x)\n    if M == 1: gemv(x)\n    else: gemm(x)\n    return finish(x)\n    # unreachable")
    assert [kernel for _, kernel in rules(draft)] == ["gemv", "gemm"]


def test_locals_are_derived_values_other_names_or_facts_of_their_own() -> None:
    draft = of_python(
        "rows = max(32, M)\n    n = x.shape[0]\n    sm = capability()[0]\n    small = rows <= 64 and n == 1\n"
        "    if small and sm >= 90: return 'a'\n    n = 3\n    if n == 4: return 'never'\n    if rows > K: return 'b'"
    )
    assert rules(draft) == [("small and sm >= 90", "a"), ("rows > K", "b"), ("", "rest")]
    assert draft.lets == (("rows", "max(32, M)"), ("small", "rows <= 64 and n == 1"))
    assert {fact.name: fact.about for fact in draft.facts} == {
        "M": "", "K": "", "sm": "capability()[0], line 5", "n": "x.shape[0]",
    }  # fmt: skip


def test_names_swapped_overwritten_or_set_in_a_loop_are_not_taken_for_what_they_were() -> None:
    draft = of_python("M, K = K, M\n    if M == 1 and K == 2: return 'a'")
    assert rules(draft)[0][0] == "K == 1 and M == 2"
    draft = of_python("for i in x:\n        M = i\n    if M == 1 and K == 2: return 'a'")
    assert {fact.about for fact in draft.facts} == {"", "assigned in for i in x:, line 3"}
    draft = of_python("x = x.contiguous()\n    if x.shape[0] == 1: return 'a'")
    assert [fact.name for fact in draft.facts] == ["x_shape_0"]
    draft = of_python("*_, m, k = x.shape\n    if m == k: return 'a'")
    assert [fact.about for fact in draft.facts] == ["x.shape[-2]", "x.shape[-1]"]


def test_a_loop_that_may_return_and_a_handler_are_left() -> None:
    draft = of_python("for i in x:\n        if i: return i\n    if M == 1: return 'a'")
    assert [left.text for left in draft.left] == ["for i in x:"]
    draft = of_python("try:\n        n = M\n    except E:\n        n = 0\n    if n == 1: return 'a'")
    assert [fact.about for fact in draft.facts] == ["assigned in except E:, line 5"]


def test_types_come_from_annotations_and_use() -> None:
    head = "from typing import Literal"
    text = (
        f"{head}\ndef pick(a: int, b, mode: Literal['x', 'y', 'z'], d, e):\n"
        "    if a and b and mode == 'x' and d == 'p' and d == e: return 'k'\n    return 'rest'\n"
    )
    draft = drafted(text, "pick.py")
    assert rules(draft)[0][0] == "a != 0 and b and mode == 'x' and d == 'p' and d == e"
    types = {fact.name: (fact.type, fact.values) for fact in draft.facts}
    assert types == {
        "a": ("int", ()), "b": ("bool", ()), "mode": ("enum", ("x", "y", "z")),
        "d": ("enum", ("p", "other")), "e": ("enum", ("p", "other")),
    }  # fmt: skip


def test_a_constant_of_another_file_may_be_given() -> None:
    text = "from far import FAR\ndef pick(M):\n    if M <= FAR: return 'a'\n    return 'b'\n"
    assert rules(drafted(text, "pick.py", define=("FAR=64",)))[0][0] == "M <= 64"


def test_names_that_a_table_cannot_have() -> None:
    draft = drafted(
        "def pick(_a, max_, é, x):\n    if _a == max_ and é == 1 and x.min == 2: return 'a'\n    return 'b'\n", "n.py"
    )
    assert [fact.name for fact in draft.facts][:2] == ["a", "max"] or draft.facts
    parse_table(render(draft))


# --- C++ ------------------------------------------------------------------------------------------------------------

CPP = [
    ("M <= 8 && K % 32 == 0", "M <= 8 and K % 32 == 0"),
    ("!(M <= 8) || K == 1", "M > 8 or K == 1"),
    ("M == 1 || K == 1 && M < 2 + K * 3", "M == 1 or K == 1 and M < 2 + K * 3"),
    ("M - K - 1 > -K << 1 == true", "(M - K - 1 > -K * 2) == True"),
    ("M - K - 1 > 1 << 2 + 1", "M - K - 1 > 8"),
    ("static_cast<int64_t>(M) > (long)K", "M > K"),
    ("(K & 7) == 0 /* eight */", "K % 8 == 0"),
    ("K % 8", "K % 8 != 0"),
    ("!(K % 8)", "K % 8 == 0"),
    ("(M + 15) / 16 > 4", "(M + 15) // 16 > 4"),
    ("(M - 15) / 16 > 4", "max(M - 15, 0) // 16 - max(-(M - 15), 0) // 16 > 4"),
    ("std::min<int64_t>(M, K) > 4", "min(M, K) > 4"),
    ("std::max({M, K, 3}) > 4", "max(M, K, 3) > 4"),
    ("x.size(0) > x.sizes()[1]", "x_shape_0 > x_shape_1"),
    ("x.dtype() == at::kHalf", "x_dtype == 'kHalf'"),
    ("params.rows == 2 && params->K == 1'024", "rows == 2 and params_K == 1024"),
    ("this->fast_ && M > 1u", "fast and M > 1"),
    ("bias != nullptr", "bias_given"),
    ('name == std::string("a") || name == "b" "c"', "name == 'a' or name == 'bc'"),
    ('std::strcmp(name, "a") == 0', "name == 'a'"),
    ("M <= kRows", "M <= 16"),
    ("M <= Limits::kRows and not fast", "M <= 16 and not fast"),
    ("M <= ROWS", "M <= 8"),
    ("Aligned(K, 32)", "K % 32 == 0"),
    ("kind == Kind::kB", "kind == 'kB'"),
    ("M == (K > 3 ? 1 : 2)", "K > 3 and M == 1 or K <= 3 and M == 2"),
    ("(K ^ 3) > 4", None),
]
CPP_HEAD = """
#define ROWS 8
enum class Kind { kA, kB = 4, kC };
namespace limits { constexpr int64_t kRows = 2 * ROWS; }
template <typename T> inline bool Aligned(T value, T of) { return value % of == 0; }
"""


@pytest.mark.parametrize(("test", "guard"), CPP)
def test_conditions_of_cpp(test: str, guard: str | None) -> None:
    draft = of_cpp(f'if (K == 77) return "odd";\n  if ({test}) {{ return "fast"; }}', head=CPP_HEAD)
    if guard is None:
        assert [left.text for left in draft.left] == [test]
    else:
        assert (draft.left, rules(draft)[1:]) == ((), [(guard, "fast"), ("", "rest")])


def test_cpp_enumerations_have_all_their_values() -> None:
    draft = of_cpp('if (kind == Kind::kB) return "b";', head=CPP_HEAD)
    assert draft.facts[0].values == ("kA", "kB", "kC")


CPP_LEFT = [
    ("n - M > 3", "a difference of unsigned integers wraps around"),
    ("x->M - K > 3", "a difference with x.M, whose type is not seen: unsigned integers wrap around"),
    ("s.size() - K > 3", "a difference with s.size(), whose type is not seen"),
    ("K / (M - 3) > 1", "a division by what may be negative"),
    ("K % -8 == 1", "a division by what may be negative"),
    ("M > 0.5f", "not in the predicate language"),
    ("M <= kElsewhere", "the value of kElsewhere is not in this file; -D kElsewhere=VALUE gives it"),
    ("[&] { return M > 3; }()", "a call"),
    ("(M = K) > 3", "not in the predicate language"),
    ("auto y = Find(x)", "not in the predicate language"),
    ("x->Has(M)", "a call of x.Has"),
    ("M | K", "the operator |"),
    ("sizeof(T) == 2", "not in the predicate language"),
    ("M ==", "not in the predicate language"),
]


@pytest.mark.parametrize(("test", "reason"), CPP_LEFT)
def test_what_is_left_of_cpp(test: str, reason: str) -> None:
    draft = of_cpp(f'if (K == 1) return "one";\n  if ({test}) {{ return "fast"; }}', "int M, int K, size_t n, T* x")
    assert rules(draft) == [("K == 1", "one"), ("", "rest")]
    (left,) = draft.left
    assert reason in left.reason
    assert left.line == 4


CPP_SHAPES = {
    "else if": ('if (M == 1) return "a"; else if (K == 1) { return "b"; }', ["M == 1", "K == 1", ""]),
    "ternary": ('return M == 1 ? "a" : K == 1 ? "b" : "c";', ["M == 1", "K == 1", ""]),
    "switch": (
        'switch (M) { case 1: case 2: return "a"; case 3: if (K == 1) return "b"; break; default: return "c"; }',
        ["M == 1 or M == 2", "M == 3 and K == 1", "M == 3", ""],
    ),
    "falls": (
        'switch (M) { case 1: if (K == 1) return "a"; case 2: return "b"; }',
        ["M == 1 and K == 1", "M == 1", "M == 2", ""],
    ),
    "if 0": ('#if 0\n  if (M == 9) return "z";\n#else\n  if (M == 1) return "a";\n#endif\n', ["M == 1", ""]),
    "hidden": ('int n = M; { int n = 3; Use(&n); } if (n == 4) return "a";', ["M == 4", ""]),
    "init": ('if (int n = K; n == 4) return "a"; if (M == 1) [[unlikely]] return "b";', ["K == 4", "M == 1", ""]),
    "let": ('const auto rows = std::max(M, 32), two = 2 * rows; if (two > K) return "a";', ["two > K", ""]),
    "check": ('TORCH_CHECK(M > 0, "M"); if (K == 1) return "a";', ["M <= 0", "K == 1", ""]),
    "out": ('int sm; GetSm(&sm); if (sm >= 80) return "a";', ["sm >= 80", ""]),
    "out of a call": ('int sm = 1; auto ok = GetSm(&sm); if (sm >= 80) return "b";', ["sm >= 80", ""]),
    "static": ('static int count = 0; if (count < 10 && K == 1) return "a";', ["count < 10 and K == 1", ""]),
    "constexpr": ('if constexpr (kWide) return "a"; if (M == 1) return "b";', ["kWide", "M == 1", ""]),
}


@pytest.mark.parametrize(("body", "guards"), CPP_SHAPES.values(), ids=CPP_SHAPES)
def test_shapes_of_cpp_chains(body: str, guards: list[str]) -> None:
    draft = of_cpp(body)
    assert (draft.left, [guard for guard, _ in rules(draft)]) == ((), guards)


CPP_KERNELS = {
    "return Launch<half, 4>(x);": "Launch<half, 4>",
    "ORT_RETURN_IF_ERROR(Launch<T>(x)); return Status::OK();": "Launch<T>",
    "Kernel<T><<<dim3(1, 2), 256, 0, stream>>>(x);  return;": "Kernel<T>",
    'throw std::runtime_error("no");': "throw std::runtime_error",
    "return Kind::kGemv;": "Kind::kGemv",
    "auto status = Launch(x); return status;": "Launch",
    "return &Launch<half>;": "Launch<half>",
    "for (int i = 0; i < M; ++i) { Launch<T>(x, i); } return Status::OK();": "Launch<T>",
    "LOG(INFO) << 1; Launch(x); return cudaGetLastError();": "Launch",
}


@pytest.mark.parametrize(("end", "kernel"), CPP_KERNELS.items())
def test_kernels_of_cpp(end: str, kernel: str) -> None:
    assert rules(of_cpp(f"if (M == 1) {{ {end} }}"))[0][1] == kernel


def test_functions_of_cpp_are_found_wherever_they_are() -> None:
    text = """
    namespace a::b {
    class Op : public Base {
      public: Op() : n_(1) {} void Run(int M) const override { if (M == 1) A(); else B(); } int n_{3};
    };
    template <typename T> __global__ void __launch_bounds__(256) Kernel(T* p) { if (p[0]) p[1] = 0; }
    }
    extern "C" int call(int M) { return M == 1 ? One() : Two(); }
    static const char* kNames[] = {"x", "y"};
    template <> Status Op2<half>::Compute(Context* context) const { if (n_ == 1) { return One(); } return Two(); }
    auto Trailing(int M) -> int { if (M == 1) return One(); return Two(); }
    int plain(int M) { return M; }
    """
    Path("many.cc").write_text(text)
    names = [function.name for function in init.read("many.cc").functions]
    assert names == ["a::b::Op::Op", "a::b::Op::Run", "a::b::Kernel", "call", "Op2::Compute", "Trailing", "plain"]
    assert rules(init.draft("many.cc:Run")) == [("M == 1", "A"), ("", "B")]
    assert rules(init.draft("many.cc:Op::Run")) == [("M == 1", "A"), ("", "B")]
    assert init.draft("many.cc:8").function == "call"


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_table_that_loads_and_checks_it(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pick.py").write_text(
        "def pick(M, K):\n    if M <= 8: return 'a'\n    if M <= 4: return 'b'\n    return 'c'\n"
    )
    assert main(["init", "pick.py", "-o", "pick.toml", "--op", "my::op"]) == 2
    shown = capsys.readouterr().out
    assert "pick, pick.py:1: 3 rules, 1 variable\nnot translated: nothing\n" in shown
    assert "error: dead: no input reaches rule b" in shown
    table = load_table("pick.toml")
    assert (table.op, table.decide(M=9).kernel, table.decide(M=3).kernel) == ("my::op", "c", "a")
    assert main(["init", "pick.py", "-o", "pick.toml"]) == 1
    assert "expected a new file, pick.toml is there already" in capsys.readouterr().err


def test_exit_status_and_summary_say_what_was_left(capsys: pytest.CaptureFixture[str]) -> None:
    text = "def pick(M):\n    if M <= 8: return 'a'\n    if M > 9 and f(M): return 'b'\n    return 'c'\n"
    Path("pick.py").write_text(text)
    assert main(["init", "pick.py:pick"]) == 2
    printed = capsys.readouterr()
    assert "not translated: 1 condition; 1 rule written as comments\n    pick.py:3: f(M)  (a call of f)" in printed.err
    assert parse_table(printed.out).op == "pick::pick"
    Path("pick.py").write_text(text.replace(" and f(M)", ""))
    assert main(["init", "pick.py:pick"]) == 0


ERRORS = [
    ("pick.txt:f", "expected FILE[:FUNCTION], a FILE that ends in one of .py"),
    ("none.py:f", "cannot read none.py: No such file"),
    ("two.py", "expected FILE:FUNCTION, a function with an if-chain; several have one: f, A.g"),
    ("two.py:h", "'h' has no if-chain; with an if-chain, known: f, A.g"),
    ("two.py:ff", "'ff' is no function there; with an if-chain, did you mean 'f'? known: f, A.g"),
    ("none.cc", "a function with an if-chain; no function has one"),
    ("broken.py", "broken.py:1: expected Python"),
    ("binary.cc", "expected UTF-8, got byte 0xff"),
    ("same.py:f", "expected a choice between kernels, got one way through it"),
    ("nothing.py:f", "nothing to translate is left of its conditions:\n    nothing.py:2: g(x): a call of g"),
    ("over.cc:f", "'f' is defined several times; expected one of over.cc:1, over.cc:2"),
    ("many.py:f", "expected at most 500 ways through it, got more"),
]


@pytest.mark.parametrize(("spec", "message"), ERRORS)
def test_errors_name_what_was_expected_and_the_functions_that_have_chains(spec: str, message: str) -> None:
    two = "def f(M):\n    if M: return a()\n    return b()\n"
    Path("two.py").write_text(f"{two}class A:\n    def g(self, M): return 'a' if M else 'b'\ndef h(): pass\n")
    Path("none.cc").write_text("int f() { return 1; }")
    Path("broken.py").write_text("def f(:\n")
    Path("binary.cc").write_bytes(b"\xff")
    Path("same.py").write_text("def f(M):\n    if M: print(M)\n    return b()\n")
    Path("nothing.py").write_text("def f(x):\n    if g(x): return a()\n    return b()\n")
    Path("over.cc").write_text("int f(int M) { return M ? A() : B(); }\nint f(long M) { return M ? A() : B(); }\n")
    calls = "".join(f"    if M == {i}: k{i}(x)\n" for i in range(12))
    Path("many.py").write_text(f"def f(M, x):\n{calls}    return b()\n")
    with pytest.raises(UsageError) as caught:
        init.draft(spec)
    assert message in str(caught.value)


@pytest.mark.parametrize("file", ["long.py", "long.cc"])
def test_long_chains_are_read(file: str) -> None:
    word = "elif M == {0}:\n        return 'k{0}'" if file.endswith("py") else 'else if (M == {0}) return "k{0}";'
    chain = "\n    ".join(word.format(i) for i in range(400))
    head = (
        "def pick(M):\n    if M < 0:\n        return 'k'\n    "
        if file.endswith("py")
        else 'auto pick(int M) { if (M < 0) return "k"; '
    )
    draft = drafted(head + chain + ("\n" if file.endswith("py") else "}"), file)
    assert len(draft.live) == 402


def test_random_text_is_read_or_refused_but_never_fails() -> None:
    draw = random.Random(0)
    cpp = "int f(int M, T<a> x) { if (M > 3 && x.size(0)) return A<int>(x); else { B<<<1, 2>>>(x); } switch (M) {} }"
    python = (
        "def f(M, *a):\n    if M > 3 and x.shape[0]: return a(x)\n    for i in x: pass\n    return [i for i in x]\n"
    )
    refused = 0
    for text, file in ((cpp, "r.cc"), (python, "r.py")):
        for _ in range(300):
            at = draw.randrange(len(text))
            piece = draw.choice(
                ["", "{", "}", "(", ")", ";", "<", ">", "::", "#if A\n", "if (", "return ", '"', "'", ","]
            )
            Path(file).write_text(text[:at] + piece + text[at + draw.randrange(3) :])
            try:
                parse_table(render(init.draft(f"{file}:f")))
            except UsageError:
                refused += 1
    assert 0 < refused < 600

"""What may decide without being an ``if`` is read, or left with its line: tables against their sources when run."""

from __future__ import annotations

import ctypes
import logging
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dispatchcov.init import first_table as init
from dispatchcov.init.render import Draft, render
from dispatchcov.loading.load import parse_table

VALUES = (-200, -9, -3, -1, 0, 1, 2, 3, 4, 5, 6, 8, 9, 16, 32, 33, 64, 100, 128, 200, 256, 300, 1000)
REFUSED = ("raise ", "throw ", "refused by ")
HEAD = r"""
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <utility>
[[noreturn]] inline void refused(int = 0) { throw std::runtime_error("refused"); }
namespace std { using ::refused; }
struct Logged {
  explicit Logged(bool fails) : fails(fails) {}
  ~Logged() noexcept(false) { if (fails) refused(); }
  bool fails;
};
template <typename T> const Logged& operator<<(const Logged& log, const T&) { return log; }
#define abort refused
#define exit refused
#define __builtin_unreachable refused
#define AT_ERROR(...) refused()
#define ORT_THROW(...) refused()
#define GGML_ABORT(...) refused()
#define C10_THROW_ERROR(...) refused()
#define INFO false
#define FATAL true
#define LOG(level) Logged(level)
#define VLOG(level) Logged(false)
#define TORCH_WARN(...) (void)0
#define TORCH_CHECK(test, ...) if (!(test)) refused()
#define TORCH_CHECK_VALUE TORCH_CHECK
#define TORCH_CHECK_NOT_IMPLEMENTED TORCH_CHECK
#define TLLM_CHECK_WITH_INFO TORCH_CHECK
#define ORT_THROW_IF(test, ...) if (test) refused()
#define CHECK(test) Logged(!(test))
#define CHECK_GE(a, b) Logged(!((a) >= (b)))
#define TORCH_CHECK_EQ(a, b) if ((a) != (b)) refused()
"""
"""Before the sources, in no file that is read."""

ODD = "inline bool odd(int64_t x) { return x % 2; }\n"
PYTHON: dict[str, str] = {
    "a returned condition": "    if n > 40: return m == 3 or n < 50\n    small = n < 4\n    if m > 5: return small\n"
    "    return not m",
    "a returned part": "    if n > 5: return m > 3 and 'big'\n    return m > 3 or 'none'",
    "None so far": "    best = None\n    if n > 4: best = 'x'\n    if best is None: best = 'y' if m > 4 else 'z'\n"
    "    return best if best is not None else 'never'",
    "calls that never return": "    if n <= 2: sys.exit(1)\n    if n > 100: os.abort()\n    n < 64 or sys.exit('n')\n"
    "    torch._check(n != 3)\n    torch._check_value(n != 4, lambda: 'n')\n    exit(1) if n == 5 else None\n"
    "    return 'a' if m > 5 else 'b'",
    "calls that go on": "    if n <= 2: print('', end='')\n    if n <= 3: logger.warning('x')\n"
    "    return 'a' if m > 5 else 'b'",
    "functions that change nothing": "    def f(n):\n        n = 3\n    def g(): return n\n    f(n)\n"
    "    return 'a' if n > 5 else 'b'",
    "a choice in a comparison": "    if n <= (32 if m % 128 == 0 else 8): return 'a'\n"
    "    if (m if m > 0 else -m) + 1 == 2 * (n if n > m else 3): return 'b'\n    return 'c'",
}
CPP: dict[str, str] = {
    "a choice in a comparison": 'if (n <= (m % 128 == 0 ? 32 : 8)) return "a";'
    'return -(m > 3 ? n : 9) < -40 ? "b" : "c";',
    "calls that never return": "if (n <= -9) std::abort(); if (n == 0) exit(1); if (n == 1) __builtin_unreachable();"
    'if (n == 2) AT_ERROR("n", n); if (n == 3) ORT_THROW("n"); if (n == 4) { GGML_ABORT("n"); }'
    'if (n == 5) C10_THROW_ERROR(ValueError, "n"); if (n == 6) LOG(FATAL) << "n" << n; return m > 5 ? "a" : "b";',
    "calls that go on": 'if (n <= 2) LOG(INFO) << n; if (n <= 3) { VLOG(1) << n; } if (m == 3) TORCH_WARN("m");'
    'if (n == 4) std::cout << ""; if (n == 5) printf(""); return m > 5 ? "a" : "b";',
    "checks": 'TORCH_CHECK_VALUE(n > -9, "n"); TORCH_CHECK_NOT_IMPLEMENTED(n < 200); TLLM_CHECK_WITH_INFO(n != 2, "n");'
    'ORT_THROW_IF(n == 3, "n"); CHECK(n != 4) << "n" << n; CHECK_GE(m, -3); CHECK_GE(m, -1) << m;'
    'if (n > 50) TORCH_CHECK_EQ(m, 5); return m > 5 ? "a" : "b";',
    "swapped": 'std::swap(m, n); if (m > 5 && n == 3) std::swap(n, m); return n > 5 ? "a" : m > 3 ? "b" : "c";',
    "casts that keep the value": 'if (static_cast<int64_t>(n) > 100 && (long)m > -5) return "a";'
    'if ((int)n == m) return "b";'
    'if (n > 3 && n == (uint8_t)200) return "never"; if (int32_t(n) < static_cast<int>(m)) return "c"; return "d";',
    "conversions to bool": 'bool b = n; bool c = n % 8; if (b == true && m > 3) return "a"; if (c == true) return "b";'
    'bool d; d = m; if (d == (n > 3)) return "c"; return odd(n) == true ? "d" : "e";',
    "nullptr so far": 'const char* k = nullptr; if (n > 3) k = "x"; if (k == nullptr) return "n"; return k;',
}
BOOLEAN: dict[str, str] = {
    "a returned condition": "if (n > 40) return m == 3 && n < 50; if (n > 30) return !m; bool b = n == 3; return b;",
}


class Os:
    """What of ``os`` the sources call, which ends no more than they."""

    @staticmethod
    def abort() -> None:
        raise RuntimeError


class Torch:
    """What of ``torch`` the sources call."""

    @staticmethod
    def _check(test: bool, message: object = None) -> None:
        if not test:
            raise RuntimeError

    _check_value = _check


def agrees(draft: Draft, function: Callable[[int, int], str]) -> set[str]:
    """The kernels that ``function`` gives; the table gives the same."""
    table = parse_table(render(draft))
    seen = set()
    for n in VALUES:
        for m in VALUES:
            facts: Mapping[str, Any] = {"n": n, "m": m}
            expected = function(n, m)
            made = str(table.decide(**{name: facts[name] for name in table.names}).kernel)
            assert ("raise" if made.startswith(REFUSED) else made) == expected, (facts, render(draft))
            seen.add(expected)
    return seen


def run(function: Callable[[int, int], object]) -> Callable[[int, int], str]:
    def call(n: int, m: int) -> str:
        try:
            return str(function(n, m))
        except (Exception, SystemExit):
            return "raise"

    return call


def python(body: str, folder: Path) -> tuple[Draft, Callable[[int, int], str]]:
    text = f"import sys\n{body if 'def pick' in body else f'def pick(n, m):{chr(10)}{body}'}\n"
    (folder / "pick.py").write_text(text)
    space: dict[str, Any] = {"torch": Torch, "os": Os, "logger": logging.getLogger("quiet")}
    exec(text, space)
    return init.draft(f"{folder}/pick.py:pick"), run(space["pick"])


@pytest.mark.parametrize("body", PYTHON.values(), ids=PYTHON)
def test_python_that_is_read_decides_as_it_does_when_run(body: str, tmp_path: Path) -> None:
    draft, function = python(body, tmp_path)
    assert draft.left == ()
    assert len(agrees(draft, function)) > 1


def cpp(sources: Mapping[str, str], kind: str, folder: Path) -> dict[str, Callable[[int, int], str]]:
    """Each of ``sources`` as a file ``pick0.cc``, and what it does when it is run."""
    shown = 'found ? "true" : "false"' if kind == "bool" else "found"
    parts = [HEAD]
    for i, text in enumerate(sources.values()):
        own = f"{ODD}{kind} pick{i}(int64_t n, int64_t m) {{\n{text}\n}}\n" if "pick(" not in text else text
        own = own.replace(" pick(", f" pick{i}(")
        (folder / f"pick{i}.cc").write_text(own)
        parts.append(
            f"namespace own{i} {{\n{own}}}\n"
            f'extern "C" const char* call{i}(long long n, long long m) {{ try {{ auto found = own{i}::pick{i}(n, m);'
            f' return {shown}; }} catch (...) {{ return "raise"; }} }}\n'
        )
    (folder / "all.cc").write_text("".join(parts))
    command = [
        "g++",
        "-std=c++17",
        "-O0",
        "-w",
        "-shared",
        "-fPIC",
        "-o",
        str(folder / "all.so"),
        str(folder / "all.cc"),
    ]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "all.so"))
    return {name: called(library, i) for i, name in enumerate(sources)}


def called(library: ctypes.CDLL, number: int) -> Callable[[int, int], str]:
    function = library[f"call{number}"]
    function.restype, function.argtypes = ctypes.c_char_p, [ctypes.c_longlong] * 2
    return lambda n, m: bytes(function(n, m)).decode()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++, to know what the C++ does")
@pytest.mark.parametrize(("sources", "kind"), [(CPP, "const char*"), (BOOLEAN, "bool")], ids=["text", "bool"])
def test_cpp_that_is_read_decides_as_it_does_when_run(sources: Mapping[str, str], kind: str, tmp_path: Path) -> None:
    for i, function in enumerate(cpp(sources, kind, tmp_path).values()):
        draft = init.draft(f"{tmp_path}/pick{i}.cc:pick{i}")
        assert draft.left == (), render(draft)
        assert len(agrees(draft, function)) > 1


CASTS: dict[str, list[str]] = {
    "if ((unsigned)n > 5)": ["(unsigned)n > 5"],
    "if ((int8_t)n > 100)": ["(int8_t)n > 100"],
    "if (static_cast<uint8_t>(n + m) == 3)": ["static_cast<uint8_t>(n + m) == 3"],
    "if (std::size_t(n) > 5)": ["std::size_t(n) > 5"],
    "if (n == (unsigned)-1)": ["n == (unsigned)-1"],
    "if (low(n) == 3)": ["low(n) == 3"],
    "if (takes(m) == 3)": ["takes(m) == 3"],
    "if (static_cast<size_t>(x.size(0) * x.numel()) > 5 && (size_t)s.size() > 3)": [],
    "if ((int)u8 > 3 && (int16_t)u8 > 4 && (uint32_t)u8 > 5)": [],
    "if ((int8_t)u8 > 3)": ["(int8_t)u8 > 3"],
}
CASTS_HEAD = "static uint8_t low(int64_t x) { return x; }\nauto takes(uint8_t x) -> int64_t { return x; }\n"


@pytest.mark.parametrize(("test", "left"), CASTS.items())
def test_casts_that_may_change_the_value_are_left(test: str, left: list[str], tmp_path: Path) -> None:
    head = f"{CASTS_HEAD}auto pick(int64_t n, int64_t m, uint8_t u8, Tensor x)"
    text = f'{head} {{{test} return "a"; return m == 7 ? "b" : "c";}}'
    (tmp_path / "pick.cc").write_text(text)
    draft = init.draft(f"{tmp_path}/pick.cc:pick")
    assert [part.text for part in draft.left] == left
    assert all(re.match("a (cast|conversion) to .*(size_t|unsigned|int8_t)", part.reason) for part in draft.left)


@pytest.mark.parametrize("body", ["double f = 3; f = n; if (f / 2 > m)", "if (d / 2 > m)"])
def test_a_division_of_fractions_is_not_read_as_one_of_integers(body: str, tmp_path: Path) -> None:
    text = f'auto pick(int64_t n, int64_t m, double d) {{ if (m == 7) return "m"; {body} return "a"; }}'
    (tmp_path / "pick.cc").write_text(text)
    (left,) = init.draft(f"{tmp_path}/pick.cc:pick").left
    assert left.text.endswith("/ 2 > m")


@pytest.mark.parametrize("declared", ["int8_t k = n;", "unsigned k = n + m;", "int8_t k; k = n;", "size_t k{n};"])
def test_a_local_of_a_type_that_may_change_the_value_is_a_fact_of_its_own(declared: str, tmp_path: Path) -> None:
    (tmp_path / "pick.cc").write_text(f'auto pick(int64_t n, int64_t m) {{ {declared} if (k > 100) return "a"; }}')
    (fact,) = init.draft(f"{tmp_path}/pick.cc:pick").facts
    assert (fact.name, fact.about.endswith(", line 1")) == ("k", True)


def test_a_cast_to_32_bits_is_said_of_the_facts_that_it_reads(tmp_path: Path) -> None:
    text = 'auto pick(int64_t n, int m, P p) {\n if ((int)n + (int)m > static_cast<int>(p.k)) return "a";\n}'
    (tmp_path / "pick.cc").write_text(text)
    draft = init.draft(f"{tmp_path}/pick.cc:pick")
    note = "cast to int in line 2: taken to fit"
    assert {fact.name: fact.about for fact in draft.facts} == {"n": note, "m": "", "k": f"p.k; {note}"}


CLAMP = "static void clamp(int64_t& x) { if (x > 10) x = 10; }\nstatic int64_t same(int64_t x) { return x; }\n"
CHANGED_CPP: dict[str, tuple[str, list[str]]] = {
    "a lambda by reference": ('auto f = [&] { n = 3; }; f(); if (n == 3) return "three";', ["n == 3"]),
    "a lambda with what it captures": ('auto f = [&r = n, m] { r = 3; }; if (n > m) return "x";', ["n > m"]),
    "a lambda called later": ('auto f = [&n](int a) { n += a; }; n = 4; f(2); if (n == 4) return "x";', ["n == 4"]),
    "a lambda by value": ('auto f = [=](int64_t n) { int64_t m = 3; n = m; }; f(2); if (n == 4) return "x";', []),
    "a lambda with locals": ('auto f = [&](int64_t n) { auto m = n; n = m; }; f(2); if (n == 4) return "x";', []),
    "a reference": ('int64_t& r = n; r = 3; if (n == 3) return "three"; if (r > 2) return "r";', ["n == 3", "r > 2"]),
    "a reference from it": ('const int64_t& r = n; n = 3; if (n == 3 && r < 3) return "x";', ["r < 3"]),
    "a reference that is not used": ('const int64_t& r = n; auto& s = m; if (r == 3 && s < 3) return "x";', []),
    "a pointer": ('int64_t* p = &n; *p = 3; if (n == 3) return "x";', ["n == 3"]),
    "a reference parameter": ('clamp(n); if (n > 10) return "a"; n = m; if (n > 3) return "b";', ["n > 10"]),
    "a reference parameter in a condition": ('if (m > 3) clamp(n); if (n > 10) return "a";', ["n > 10"]),
    "a reference parameter in a loop": ('for (int i = 0; i < 3; ++i) { clamp(n); } if (n > 10) return "a";', []),
    "a value parameter": ('same(n); if (n > 10) return "a";', []),
    "a pointer to elements": ('int64_t* p = n; p[0] = 3; if (n[0] == 3) return "x";', ["n[0] == 3"]),
    "an exchange": ('int64_t k = std::exchange(n, m); if (n == 3) return "x";', ["n == 3"]),
    "a member in a loop": ('P p{n, m}; for (int i = 0; i < 3; ++i) { p.n = 3; } if (p.n == 3) return "x";', []),
    "an element by reference in a loop": ('for (auto& v : n) { v = 3; } if (n[0] == 3) return "x";', []),
    "a method": ('n.push_back(m); if (n.size() == 3) return "x";', ["n.size() == 3"]),
    "an element in a loop": ('for (int i = 0; i < 3; ++i) { n[0] = 3; } if (n[0] == 3) return "x";', []),
}
LEFT_PYTHON: dict[str, tuple[str, list[str]]] = {
    "a call in a branch": ("    if n <= 2: stop(n)\n    return 'a' if m > 5 else 'b'", ["3: stop(n)"]),
    "a call after a condition": ("    n > 2 or stop(n)\n    return 'a' if m > 5 else 'b'", ["3: stop(n)"]),
    "a check of its own": ("    check_shape(n)\n    return 'a' if m > 5 else 'b'", ["3: check_shape(n)"]),
    "a check in a loop": (
        "    for i in range(n):\n        assert i < 9\n    return 'a' if m > 5 else 'b'",
        ["3: for i in range(n):"],
    ),
    "an exit in a loop": (
        "    for i in range(n):\n        if i > 9: sys.exit(1)\n    return 'a' if m > 5 else 'b'",
        ["3: for i in range(n):"],
    ),
    "a check that gives a value": ("    k = check_shape(n)\n    return 'a' if m > 5 else 'b'", ["3: check_shape(n)"]),
    "an exit in a value": (
        "    k = n < 3 and sys.exit(1)\n    return 'a' if m > 5 else 'b'",
        ["3: n < 3 and sys.exit(1)"],
    ),
    "suppressed": (
        "    with suppress(ValueError):\n        if n > 5: raise ValueError\n    return 'a' if m > 5 else 'b'",
        ["3: with suppress(ValueError):"],
    ),
    "a finally that returns": (
        "    try:\n        if n > 5: return 'a'\n    finally:\n        return 'b'",
        ["3: try:"],
    ),
    "a function of the file": (
        "def look(n):\n    if n < 3: raise ValueError\ndef pick(n, m):\n    look(n)\n    return 'a' if m > 5 else 'b'",
        ["5: look(n)"],
    ),
}
LEAVES = '#define LIMITED(x) \\\n  if ((x) > 50) return "l"\n#define Bail return "l"\n'
LEFT_CPP: dict[str, tuple[str, list[str]]] = {
    "a macro of the file": (f'{LEAVES}PICK LIMITED(n); return m > 5 ? "a" : "b";', ["4: LIMITED(n);"]),
    "a macro of the file in a branch": (
        f'{LEAVES}PICK if (n > 3) {{ Bail; }} return m > 5 ? "a" : "b";',
        ["4: Bail;"],
    ),
    "a call in a branch": ('if (n <= 2) stop(n); return m > 5 ? "a" : "b";', ["2: stop(n)"]),
    "a macro in a branch": ('if (n <= 2) BAIL; return m > 5 ? "a" : "b";', ["2: BAIL"]),
    "a macro before a choice": ('LIMIT_ARG(n); return m > 5 ? "a" : "b";', ["2: LIMIT_ARG(n)"]),
    "a macro that returns": ('RETURN_IF(n > 2, "r"); return m > 5 ? "a" : "b";', ['2: RETURN_IF(n > 2, "r")']),
    "a check of an object": ('CHECK_INPUT(n); return m > 5 ? "a" : "b";', ["2: CHECK_INPUT(n)"]),
    "a status": ('CUDA_CHECK(n); return m > 5 ? "a" : "b";', ["2: CUDA_CHECK(n)"]),
    "a check in a loop": (
        'for (int i = 0; i < n; ++i) CHECK_GE(i, 3); return m > 5 ? "a" : "b";',
        ["2: for (int i = 0; i < n; ++i)"],
    ),
    "a check that gives a value": (
        'auto k = check_shape(n); k = fail(n); return m > 5 ? "a" : "b";',
        ["2: check_shape(n)", "2: fail(n)"],
    ),
    "a lambda that refuses": (
        'auto f = [&] { if (n > 3) throw 1; }; auto g = [] { return 3; }; g(); f(); return m > 5 ? "a" : "b";',
        ["2: f()"],
    ),
    "a comma": ('n > 2 || (exit(1), 0); return m > 5 ? "a" : "b";', ["2: n > 2 || (exit(1), 0);"]),
}


@pytest.mark.parametrize(("body", "left"), CHANGED_CPP.values(), ids=CHANGED_CPP)
def test_what_cpp_changes_elsewhere_is_not_what_it_was(body: str, left: list[str], tmp_path: Path) -> None:
    (tmp_path / "pick.cc").write_text(f'{CLAMP}auto pick(int64_t n, int64_t m) {{ {body} if (m == 77) return "m"; }}')
    draft = init.draft(f"{tmp_path}/pick.cc:pick")
    assert [part.text for part in draft.left] == left
    assert all("may be changed in line 3" in part.reason for part in draft.left)
    assert ("assigned in for (" in render(draft)) == ("for (" in body)


def test_what_a_method_changes_is_not_what_it_was(tmp_path: Path) -> None:
    draft, _ = python("    n.append(m)\n    if m == 77: return 'm'\n    return 'a' if len(n) == 5 else 'b'", tmp_path)
    assert [part.text for part in draft.left] == ["len(n) == 5"]


@pytest.mark.parametrize("head", ["", "    if m > 3:\n    "], ids=["always", "in a branch"])
def test_what_python_changes_in_an_inner_function_is_not_what_it_was(head: str, tmp_path: Path) -> None:
    inner = f"{head}    def f():\n            nonlocal n\n            n = 3\n"
    body = f"{inner}    n = 5\n    if m == 77: return 'm'\n    return 'a' if n == 5 else 'b'"
    draft, _ = python(body, tmp_path)
    assert [part.text for part in draft.left] == ["n == 5"]
    assert "nonlocal n" in draft.left[0].reason


@pytest.mark.parametrize(("body", "left"), LEFT_PYTHON.values(), ids=LEFT_PYTHON)
def test_python_that_may_end_the_function_is_left_with_its_line(body: str, left: list[str], tmp_path: Path) -> None:
    draft, _ = python(body, tmp_path)
    assert [f"{part.line}: {part.text}" for part in draft.left] == left
    assert [rule.kernel for rule in draft.live] == ["a", "b"]


@pytest.mark.parametrize(("body", "left"), LEFT_CPP.values(), ids=LEFT_CPP)
def test_cpp_that_may_end_the_function_is_left_with_its_line(body: str, left: list[str], tmp_path: Path) -> None:
    head = "const char* pick(int64_t n, int64_t m) {"
    text = body.replace("PICK", head) if "PICK" in body else f"{head}\n{body}"
    (tmp_path / "pick.cc").write_text(f"{text}\n}}\n")
    draft = init.draft(f"{tmp_path}/pick.cc:pick")
    assert [f"{part.line}: {part.text}" for part in draft.left] == left
    assert [rule.kernel for rule in draft.live] == ["a", "b"]


def test_calls_that_kernels_show_are_no_doubt(tmp_path: Path) -> None:
    text = "void pick(int64_t n, int64_t m) { if (n <= 2) stop(n); if (m > 5) { A(n); return; } LAUNCH_B(n, m); }"
    (tmp_path / "pick.cc").write_text(text)
    draft = init.draft(f"{tmp_path}/pick.cc:pick")
    assert draft.left == ()
    assert [rule.kernel for rule in draft.rules] == ["stop + A", "stop + LAUNCH_B", "A", "LAUNCH_B"]

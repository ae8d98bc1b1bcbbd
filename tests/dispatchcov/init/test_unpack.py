"""``dispatchcov init`` of assignments to several places, and of names that a draft must not show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dispatchcov.init import first_table as init
from dispatchcov.init.render import Draft, render
from dispatchcov.loading.load import parse_table

WIDE = ["N % 128 == 0 and M <= 128 and K % 64 == 0", "N % 128 == 0", "M <= 64 and K % 64 == 0", ""]
THEN = "if M <= tile and K % 64 == 0: return 'a'\n    if waves == 4: return 'b'"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def drafted(text: str, file: str) -> Draft:
    """The draft of ``pick`` in ``text``: its table loads, and shows no name that only the reader gives."""
    Path(file).write_text(text)
    draft = init.draft(f"{file}:pick")
    shown = render(draft)
    parse_table(shown)
    assert not re.search(r"\$|\w@\d|let \w+#|fact_\d", shown), shown
    return draft


def of_python(body: str, head: str = "") -> Draft:
    return drafted(f"{head}\ndef pick(M, N, K, x, tuned):\n    {body}\n    return 'rest'\n", "pick.py")


def of_cpp(body: str) -> Draft:
    return drafted(f'auto pick(int M, int N, int K, const Tensor& x) {{\n  {body}\n  return "rest";\n}}\n', "pick.cc")


def guards(draft: Draft) -> list[str]:
    return [" and ".join(rule.guard) for rule in draft.live]


PYTHON = {
    "constants": (f"tile, waves = (128, 4) if N % 128 == 0 else (64, 2)\n    {THEN}", WIDE),
    "a list": (f"[tile, waves] = [128, 4] if N % 128 == 0 else [64, 2]\n    {THEN}", WIDE),
    "nested": (
        "(a, b), c = ((M, 8), 1) if K == 1 else (((N, 4), 2) if K == 2 else ((3, N), 3))\n    if a == b: return 'a'\n"
        "    if c == 3: return 'c'",
        ["K == 1 and M == 8", "K == 1", "K == 2 and N == 4", "K == 2", "3 == N", ""],
    ),
    "a tuple within": ("a, (b, c) = M, ((1, N) if K == 1 else (2, 3))\n    if a == b and c == 3: return 'a'", None),
    "swapped": ("M, N = N, M\n    if M == 1 and N == 2: return 'a'", ["N == 1 and M == 2", ""]),
    "swapped where": (
        "M, N = (N, M) if K == 1 else (M, N)\n    if M == 1: return 'a'",
        ["K == 1 and N == 1", "K != 1 and M == 1", ""],
    ),
    "no more than read": ("a, _ = M, f(x)\n    if a == 1: return 'a'", ["M == 1", ""]),
}


@pytest.mark.parametrize(("body", "expected"), PYTHON.values(), ids=PYTHON)
def test_several_places_of_python(body: str, expected: list[str] | None) -> None:
    draft = of_python(body)
    found = ["K == 1 and M == 1 and N == 3", "K != 1 and M == 2", ""] if expected is None else expected
    assert (draft.left, guards(draft)) == ((), found)


CPP_THEN = 'if (M <= tile && K % 64 == 0) return "a"; if (waves == 4) return "b";'
CPP = {
    "make_tuple": "const auto [tile, waves] = N % 128 == 0 ? std::make_tuple(128, 4) : std::make_tuple(64, 2);",
    "pair": "auto [tile, waves] = N % 128 == 0 ? std::pair{128, 4} : std::pair<int, int>{64, 2};",
    "tie": "int tile, waves; std::tie(tile, waves) = N % 128 == 0 ? std::tuple(128, 4) : std::tuple(64, 2);",
}


@pytest.mark.parametrize("body", CPP.values(), ids=CPP)
def test_several_places_of_cpp(body: str) -> None:
    draft = of_cpp(f"{body} {CPP_THEN}")
    assert (draft.left, guards(draft)) == ((), WIDE)


def test_names_of_several_places_are_those_of_the_code() -> None:
    draft = of_python(
        "rows, cols = (M + 7) // 8, N // 16\n    if rows > cols: return 'a'\n    if rows == 9: return 'b'"
    )
    assert draft.lets == (("rows", "(M + 7) // 8"), ("cols", "N // 16"))
    draft = of_python("a, b = f(x), g(x)\n    a, b = b, a\n    if a > b: return 'a'")
    assert {fact.name: fact.about for fact in draft.facts} == {"a": "f(x), line 3", "b": "g(x), line 3"}


PARTS = [
    ("tile, waves = f(x) if M == 1 else g(x)", "tile", "(f(x) if M == 1 else g(x))[0], line 3"),
    ("tile, waves = plan.get(M, (1, 2))", "tile", "plan.get(M, (1, 2))[0], line 3"),
    ("x = x.view(-1, K)\n    tile = x.shape[0]", "tile", "x.shape[0], where x is x.view(-1, K), line 3"),
    ("x[0] = f(M)\n    tile = x[0]", "tile", "x[0], where x is changed by x[0] = f(M), line 3"),
    ("tile = f(M); tile = g(tile)", "tile", "g(tile), line 3"),
]


@pytest.mark.parametrize(("body", "name", "about"), PARTS)
def test_comments_say_what_gave_a_value(body: str, name: str, about: str) -> None:
    draft = of_python(f"{body}\n    if tile == 3: return 'a'")
    assert [(fact.name, fact.about) for fact in draft.facts] == [(name, about)]


def test_a_structured_binding_that_is_not_read_says_which_part() -> None:
    draft = of_cpp('auto [a, b] = M > 8 ? Config{128, 2} : Config{64, N}; if (b == 2) return "a";')
    assert [fact.about for fact in draft.facts] == ["(M > 8 ? Config{128, 2} : Config{64, N}), part 1, line 2"]
    draft = of_cpp('int sizes[2] = {M, N}; sizes[0] = F(M); if (sizes[0] == 2) return "a"; if (M == 1) return "b";')
    assert draft.facts[-1].about == "sizes[0], where sizes is changed by sizes[0] = F(M), line 2"


def test_two_facts_of_one_line_are_two_variables() -> None:
    draft = of_cpp('int n = 0; if (K == 1) n = F(x); else n = G(x); if (n == 3) return "a";')
    assert guards(draft) == ["K == 1 and n == 3", "K != 1 and n_2 == 3", ""]
    assert [fact.about for fact in draft.facts] == ["", "F(x), line 2", "G(x), line 2"]


def test_rules_that_are_comments_name_what_they_read_and_declare_it_as_comments() -> None:
    draft = of_python(
        "rows = (M + 7) // 8\n    if tuned(M) and rows > 8 and x.shape[0] == 1: return 'a'\n    if N: return 'b'"
    )
    text = render(draft)
    assert '# when = "<tuned(M)> and rows > 8 and x_shape_0 == 1"' in text
    for line in (
        '# [let]\n# rows = "(M + 7) // 8"\n',
        '\n# x_shape_0 = { type = "int" } ',
        '\n# M = { type = "int" }\n',
    ):
        assert line in text
    uncommented = re.sub(r"^# (?=(\[|name|when|kernel|rows|x_shape|M = ))", "", text, flags=re.M).replace(
        "<tuned(M)>", "M > 3"
    )
    table = parse_table(uncommented.split("# Without partitions")[0])
    assert [rule.name for rule in table.rules] == ["a", "b", "rest"]


HIDDEN = [
    ("if x.aligned(M): return 'a'", "a call of x.aligned"),
    ("if tuned(M): return 'a'", "a call of tuned"),
    ("if small(M): return 'a'", "a call of small"),
    ("def even(v): return v % 4 == 0\n    if even(M): return 'a'", "a call of even"),
    ("if M in SIZES: return 'a'", "'in' something that is not listed here"),
]
HEAD = """
SIZES = [1, 2]
def register(size): SIZES.append(size)
def aligned(v): return v % 8 == 0
def tuned(v): return v % 8 == 0
def even(v): return v % 2 == 0
def small(v): return v <= N
"""


@pytest.mark.parametrize(("body", "reason"), HIDDEN)
def test_what_only_has_the_name_of_a_function_or_constant_of_the_file_is_left(body: str, reason: str) -> None:
    draft = of_python(f"if K == 1: return 'k'\n    {body}", HEAD)
    assert [left.reason for left in draft.left] == [reason]


def test_or_of_numbers_is_a_number() -> None:
    draft = of_python("tile = M or 16\n    if tile >= 2: return 'a'")
    assert [(fact.name, fact.about) for fact in draft.facts] == [("tile", "M or 16, line 3")]
    draft = of_python("small = M < 4 or N\n    if small: return 'a'")
    assert draft.lets == (("small", "M < 4 or N"),)

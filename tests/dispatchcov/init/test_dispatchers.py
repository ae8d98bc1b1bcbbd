"""Dispatchers as they stand in projects: what ``dispatchcov init`` makes of them, against what they do when run."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from dispatchcov.init import first_table as init
from dispatchcov.init.render import render
from dispatchcov.loading.load import parse_table
from dispatchcov.table import Table

HEAD = """
KERNELS = {"half": "gemm_half", "float": "gemm_float"}
BY_DTYPE_AND_BIAS = {("half", True): "half_bias", ("half", False): "half", ("float", False): "float"}
"""
PYTHON = {
    "dictionary": """
    if M == 0:
        return "empty"
    key = "half" if dtype == "half" and M <= 64 else "float"
    return KERNELS[key]
""",
    "dictionary without the key": """
    if M == 0:
        return "empty"
    try_first = KERNELS[dtype]
    if N > 99 and try_first == "gemm_half":
        return "wide_half"
    return try_first
""",
    "dictionary of tuples": """
    chosen = BY_DTYPE_AND_BIAS.get((dtype, bias), "slow")
    if M == 0:
        return "empty"
    return chosen
""",
    "checked dictionary": """
    if dtype not in KERNELS:
        raise ValueError(dtype)
    if M < 3:
        return "few"
    return {"half": "a", "float": "b"}.get(dtype) if bias else KERNELS[dtype]
""",
    "tiles": """
    if M <= 0 or K % 2:
        raise ValueError("shape")
    tile, waves = (128, 4) if N % 128 == 0 else (64, 2)
    if M <= tile and K % (waves * 16) == 0:
        return "aligned"
    return "wide" if tile == 128 else "narrow"
""",
    "nested tiles": """
    (bm, bn), stages = ((128, 256), 3) if M > 64 else (((64, 128), 4) if M > 16 else ((16, N // 2), 5))
    if bm * bn > 16384:
        return "big"
    if stages == 5 and bn > K:
        return "deep"
    return "rest"
""",
    "swapped": """
    M, N = (N, M) if N < M else (M, N)
    rows, cols = M // 8, N // 8
    if M < 8:
        return "thin"
    if rows == cols:
        return "square"
    return "wide"
""",
    "split": """
    split_k, partial = (N // M, True) if M > 0 and M < N else (1, False)
    if partial and split_k > 4:
        return "split"
    return "half" if partial else "full"
""",
    "text": """
    vec = 8 if K % 8 == 0 else 4 if K % 4 == 0 else 1
    suffix = "_bias" if bias else ""
    return f"gemm_{dtype}_vec{vec}{suffix}"
""",
    "added text": """
    name = "gemm"
    if M <= 8:
        name += "_small"
    if K % 8:
        name += "_ragged"
    return name
""",
    "match": """
    match (dtype, N):
        case ("half", 90):
            return "hopper_half"
        case ("half", 80 | 86 as sm) if sm > M:
            return "ampere_half"
        case (_, sm) if sm >= 90 and bias:
            return "hopper"
        case (_, _, _):
            return "never"
    match M:
        case 1:
            return "gemv"
        case rows if rows < 16:
            return "small"
        case _:
            return "gemm"
""",
    "calls": """
    def launch(kernel, tile):
        return f"{kernel}({tile})" if tile else kernel
    if M <= 16:
        return launch("mma", 16)
    if N % 8 == 0:
        return launch("mma", 64)
    return launch("simt", 64)
""",
}


def chosen(table: Table, facts: dict[str, Any]) -> str:
    """The kernel of ``table``, with the facts that its name has in braces written out."""
    known = {name: facts[name] for name in table.names}
    for variable in table.variables:
        if variable.type == "enum" and known[variable.name] not in variable.values:
            known[variable.name] = "other"
    return table.decide(**known).kernel.format(**facts)


@pytest.mark.parametrize("body", PYTHON.values(), ids=PYTHON)
def test_a_table_decides_as_the_dispatcher_does(body: str, tmp_path: Path) -> None:
    text = f"{HEAD}def pick(M, N, K, dtype, bias):{body}"
    (tmp_path / "pick.py").write_text(text)
    draft = init.draft(f"{tmp_path}/pick.py:pick")
    assert draft.left == ()
    shown = render(draft)
    assert not re.search(r"\$|\w@\d|let \w+#|fact_\d|\\u0000", shown)
    table = parse_table(shown)
    space: dict[str, Any] = {}
    exec(text, space)
    draw = random.Random(0)
    seen = set()
    for _ in range(1500):
        facts: dict[str, Any] = {name: draw.choice([draw.randint(0, 20), draw.randint(0, 300)]) for name in "MNK"}
        facts |= {"N": draw.choice([facts["N"], 80, 86, 90, 128, 256]), "bias": draw.random() < 0.5}
        facts["dtype"] = draw.choice(["half", "float", "other"])
        try:
            expected = space["pick"](**facts)
        except (KeyError, ValueError) as error:
            expected = f"raise {type(error).__name__}"
        made = re.sub(r'^launch\("(\w+)", (\d+)\)', r"\1(\2)", chosen(table, facts))
        assert made == expected, (facts, shown)
        seen.add(expected)
    assert len(seen) > 2


CALLS = {
    "pick.py": """
def pick(x, M, N, out):
    y = allocate(x)
    if M <= 16:
        return launch(x, y, 16, kind="wide")
    if N % 128 == 0:
        return launch(x, out, 128, torch.float16)
    return launch(x, out, 64, small_tile)
""",
    "pick.cu": """
void pick(const Tensor& x, int M, int N, Tensor& out) {
  auto launch = [&](auto tile, int n) { gemm<decltype(tile)::value><<<1, 1>>>(M, N, n); };
  auto rows = M;
  switch (N) {
    case 32: launch(Int<32>{}, 1); break;
    case 96: prepare(out);
    case 128: launch(Int<128>{}, rows); break;
    default: TORCH_CHECK(false, "N: ", N);
  }
}
""",
    "pick.cc": """
int pick(int M, int N) {
  if (M == 0) { Fill(N); return 0; }
  if (M <= 16) { Launch(N); return 0; }
  return 0;
}
""",
}
KERNELS = {
    "pick.py": ['launch(16, kind="wide")', "launch(128, torch.float16)", "launch(64, small_tile)"],
    "pick.cu": ["launch(Int<32>{}, 1)", "prepare + launch(Int<128>{})", "launch(Int<128>{})", "refused by TORCH_CHECK"],
    "pick.cc": ["Fill", "Launch", "0"],
}


@pytest.mark.parametrize("file", CALLS)
def test_one_function_called_with_other_constants_is_several_kernels(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(CALLS[file])
    draft = init.draft(f"{tmp_path / file}:pick")
    assert [rule.kernel for rule in draft.rules] == KERNELS[file]


def test_a_key_that_was_checked_before_needs_no_rule_for_a_missing_one(tmp_path: Path) -> None:
    text = f"{HEAD}def pick(M, dtype):\n    {{}}if M == 0: return 'empty'\n    return KERNELS[dtype]\n"
    for check, last in (("if dtype not in KERNELS: raise ValueError()\n    ", "gemm_float"), ("", "raise KeyError")):
        (tmp_path / "pick.py").write_text(text.replace("{}", check))
        assert init.draft(f"{tmp_path}/pick.py:pick").rules[-1].kernel == last


def test_a_dictionary_that_is_changed_is_not_read(tmp_path: Path) -> None:
    text = (
        f"{HEAD}KERNELS['new'] = 'new'\ndef pick(M, dtype):\n    if M == 0: return 'empty'\n    return KERNELS[dtype]\n"
    )
    (tmp_path / "pick.py").write_text(text)
    assert [rule.kernel for rule in init.draft(f"{tmp_path}/pick.py:pick").rules] == ["empty", "KERNELS[dtype]"]


def test_what_a_pattern_captures_is_known_only_where_it_matched(tmp_path: Path) -> None:
    case = "    match (a, b):\n        case (1, n) if n > 3: return 'x'\n"
    text = f"def pick(a, b, n):\n{case}    return 'n' if n == 2 else 'y'\n"
    (tmp_path / "pick.py").write_text(text)
    draft = init.draft(f"{tmp_path}/pick.py:pick")
    assert [(" and ".join(rule.guard), rule.kernel) for rule in draft.rules] == [
        ("a == 1 and b > 3", "x"),
        ("a == 1 and b == 2", "n"),
        ("a != 1 and n == 2", "n"),
        ("", "y"),
    ]
    (tmp_path / "pick.py").write_text(text.replace("(1, n) if n > 3", "{'k': n}"))
    draft = init.draft(f"{tmp_path}/pick.py:pick")
    assert {rule.kernel for rule in draft.rules if rule.left} >= {"x"}

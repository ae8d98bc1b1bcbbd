"""``dispatchcov init`` of C++ macros that run a lambda for one of several types."""

from __future__ import annotations

from pathlib import Path

from dispatchcov.init import first_table as init
from dispatchcov.init.render import Draft

SWITCH = """
void pick(Params& params, int M, int K) {
  if (M == 0) { Fill(params); return; }
  BOOL_SWITCH(params.causal, Causal, [&] {
    const int M = K;
    if (M < 4) { return Small<Causal>(params); }
    BF16_SWITCH(params.bf16, T, [&] { if (M == 9) { Nine<T>(params); return; } Large<T>(params); });
  });
  if (M == 1) After(params);
}
"""
DISPATCH = """
void pick(const Tensor& x, int K) {
  AT_DISPATCH_FLOATING_TYPES_AND(at::kHalf, x.scalar_type(), "pick", [&] {
    if (K % 8 == 0) Vec<scalar_t><<<1, 2>>>(x); else Plain<scalar_t><<<1, 2>>>(x);
  });
}
"""


def drafted(text: str, folder: Path) -> Draft:
    (folder / "pick.cu").write_text(text)
    return init.draft(f"{folder}/pick.cu:pick")


def test_return_leaves_the_lambda_and_its_names_are_gone_at_its_end(tmp_path: Path) -> None:
    draft = drafted(SWITCH, tmp_path)
    assert draft.left == ()
    assert [(" and ".join(rule.guard), rule.kernel) for rule in draft.rules] == [
        ("M == 0", "Fill"),
        ("K < 4 and M == 1", "Small<Causal> + After"),
        ("K < 4", "Small<Causal>"),
        ("K == 9 and M == 1", "Nine<T> + After"),
        ("K == 9", "Nine<T>"),
        ("M == 1", "Large<T> + After"),
        ("", "Large<T>"),
    ]


def test_the_types_that_a_macro_refuses_are_left(tmp_path: Path) -> None:
    draft = drafted(DISPATCH, tmp_path)
    (left,) = draft.left
    assert left.text == 'refused by AT_DISPATCH_FLOATING_TYPES_AND(at::kHalf, x.scalar_type(), "pick")'
    assert [(" and ".join(rule.guard), rule.kernel) for rule in draft.live] == [
        ("K % 8 == 0", "Vec<scalar_t>"),
        ("", "Plain<scalar_t>"),
    ]


def test_a_switch_in_which_the_lambda_is_left_is_not_guessed(tmp_path: Path) -> None:
    body = "switch (K) { case 1: One(x); return; default: break; } Rest(x);"
    text = DISPATCH.replace("if (K % 8", f"{body} if (K % 8")
    assert any(rule.left and "switch (K)" in rule.left[-1].text for rule in drafted(text, tmp_path).rules)

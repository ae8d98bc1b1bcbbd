"""``dispatchcov init`` on code as it is found: a torch dispatcher, a C++ operator with FP4 weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchcov.init import first_table as init
from dispatchcov.init.render import Draft, render
from dispatchcov.loading.load import parse_table
from dispatchcov.table import Table

TORCH = '''
import torch
from ours import envs
from ours.kernels import gemm, gemv, reference, split_k

DECODE_ROWS = 8


def is_multiple(value: int, of: int) -> bool:
    return value % of == 0


def matmul(a, b, bias=None, *, exact: bool = False):
    """Which kernel multiplies."""
    if a.dim() != 2:
        raise ValueError("expected a matrix")
    M, K = a.shape
    N = b.size(-1)
    capability = torch.cuda.get_device_capability()[0]
    if a.dtype not in (torch.float16, torch.bfloat16) or exact:
        return reference(a, b, bias)
    elif M <= DECODE_ROWS and is_multiple(K, 32) and a.is_contiguous():
        if bias is not None and not envs.GEMV_WITH_BIAS:
            return torch.ops.ours.gemv_bias(a, b, bias)
        return gemv(a, b)
    elif 0 < M * N <= 1 << 20 and K >= 4096 and capability >= 9:
        out = split_k(a, b, parts=4)
        if bias is not None:
            out += bias
        return out
    kernel = torch.mm if a.dtype == torch.bfloat16 else gemm
    return kernel(a, b)
'''

# Small batches are decoded by a GEMV; how many rows that is moved from 8 to 32 where tensor cores can take windows of
# 128 along K, unless a switch holds it back. The rest is dequantised for a GEMM, eight values a thread where it fits.
FP4 = r"""
#include <cstdint>

namespace fp4 {

constexpr int kBlock = 16;
constexpr int64_t kGemvRows = 8;
constexpr int64_t kMmaRows = 4 * kGemvRows;  // four tiles of eight
enum class Decode { kAuto, kGemvOnly, kNever };

template <typename T>
Status WeightOnlyMatMul<T>::Compute(Stream* stream, const Arguments& args, Decode decode, const T* bias) const {
  const int64_t M = args.M, N = args.N;
  const auto K = args.K;
  ENFORCE(K % 2 == 0, "two values a byte");
  if (M == 0 || N == 0) return Status::OK();
  if (decode != Decode::kNever && args.block_size == kBlock && K % 32 == 0) {
    // one launch for all rows
    if (K % 128 == 0 && M <= kMmaRows && static_cast<int>(args.sm) >= 80 && decode == Decode::kAuto) {
      RETURN_IF_ERROR(LaunchMmaGemv<T>(stream, args, (M + 7) / 8));
      return AddBias(stream, bias);
    }
    if (M <= kGemvRows) {
      RETURN_IF_ERROR(LaunchGemv<T>(stream, args));
      return AddBias(stream, bias);
    }
  }
#ifdef WITH_NATIVE_FP4
  if (args.sm >= 120) return NativeMatMul<T>(stream, args);
#endif
  if ((K & 7) == 0 && !(args.block_size & 1) && IsAligned(args.weight, 4)) {
    DequantizeVec8<T><<<Grid(K, N), 256, 0, stream>>>(args.weight, scratch_);
  } else {
    Dequantize<T><<<Grid(K, N), 256, 0, stream>>>(args.weight, scratch_);
  }
  return Gemm(stream, scratch_);
}

}  // namespace fp4
"""


def read(tmp_path: Path, text: str, file: str) -> tuple[Draft, Table]:
    path = tmp_path / file
    path.write_text(text)
    draft = init.draft(f"{path}:{'matmul' if file.endswith('py') else 'Compute'}")
    return draft, parse_table(render(draft))


def test_a_python_dispatcher_over_tensors(tmp_path: Path) -> None:
    draft, table = read(tmp_path, TORCH, "ops.py")
    assert draft.left == ()
    assert [(rule.when, rule.kernel.name) for rule in table.rules] == [
        ("a_dim != 2", "raise ValueError"),
        ("not dtype in ['float16', 'bfloat16'] or exact", "reference"),
        (
            "M <= 8 and K % 32 == 0 and a_is_contiguous and bias_given and not GEMV_WITH_BIAS",
            "torch.ops.ours.gemv_bias",
        ),
        ("M <= 8 and K % 32 == 0 and a_is_contiguous", "gemv"),
        ("0 < M * N and M * N <= 1048576 and K >= 4096 and capability >= 9", "split_k"),
        ("dtype == 'bfloat16'", "torch.mm"),
        ("", "gemm"),
    ]
    about = {fact.name: fact.about for fact in draft.facts}
    assert (about["M"], about["N"]) == ("a.shape[0]", "b.size(-1)")
    assert about["capability"].startswith("torch.cuda.get_device_capability()[0], line ")
    assert table.variable("dtype").values == ("float16", "bfloat16", "other")


FACTS = {"M": 4, "N": 4096, "K": 4096, "block_size": 16, "sm": 90, "decode": "kAuto"}


@pytest.mark.parametrize(
    ("facts", "kernel"),
    [
        ({"M": 0}, "nothing"),
        ({"M": 32}, "LaunchMmaGemv<T> + AddBias"),
        ({"M": 33}, "Dequantize<T> + Gemm"),
        ({"M": 8, "K": 4064}, "LaunchGemv<T> + AddBias"),
        ({"M": 9, "K": 4064}, "Dequantize<T> + Gemm"),
        ({"M": 32, "decode": "kGemvOnly"}, "Dequantize<T> + Gemm"),
        ({"M": 8, "decode": "kGemvOnly"}, "LaunchGemv<T> + AddBias"),
        ({"sm": 75}, "LaunchGemv<T> + AddBias"),
        ({"decode": "kNever"}, "Dequantize<T> + Gemm"),
        ({"block_size": 15}, "Dequantize<T> + Gemm"),
        ({"K": 4097}, "refused by ENFORCE"),
    ],
)
def test_a_cpp_operator_decides_as_its_rules_that_were_translated(
    tmp_path: Path, facts: dict[str, int | str], kernel: str
) -> None:
    _, table = read(tmp_path, FP4, "fp4.cc")
    assert (
        table.decide(**{name: value for name, value in (FACTS | facts).items() if name in table.names}).kernel == kernel
    )


def test_what_the_preprocessor_or_a_pointer_decides_is_left_with_its_line(tmp_path: Path) -> None:
    draft, table = read(tmp_path, FP4, "fp4.cc")
    lines = FP4.splitlines()
    assert [left.text for left in draft.left] == ["#ifdef WITH_NATIVE_FP4", "IsAligned(args.weight, 4)"]
    assert all(left.text in lines[left.line - 1] for left in draft.left)
    assert [rule.kernel for rule in draft.rules if rule.left] == ["NativeMatMul<T>", "DequantizeVec8<T> + Gemm"]
    assert table.variable("decode").values == ("kAuto", "kGemvOnly", "kNever")
    text = render(draft)
    assert '# when = "K % 8 == 0 and block_size % 2 == 0 and <IsAligned(args.weight, 4)>"' in text

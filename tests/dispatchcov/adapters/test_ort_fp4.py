"""ONNX Runtime's FP4 matmul: what was recorded on a GPU, by its table and by what people believed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dispatchcov import store
from dispatchcov.adapters import ort_fp4
from dispatchcov.check.faults import check
from dispatchcov.results import Results

BELIEF = """
[table]
op = "com.microsoft::MatMulBlockQuantizedFp4Weight"
[variables]
M = { type = "int", min = 1 }
[[kernel]]
name = "decode"
symbol = "*GemvKernel*"
[[kernel]]
name = "prefill"
symbol = "*DequantizeNvFp4*"
[[rule]]
name = "decode"
when = "M <= 8"
kernel = "decode"
[[rule]]
name = "prefill"
kernel = "prefill"
"""


def test_the_table_agrees_with_every_recorded_call(tmp_path: Path) -> None:
    ort_fp4.replay(ort_fp4.table(), str(tmp_path / "records"))
    (table,) = Results.of(store.load(str(tmp_path / "records")), [ort_fp4.table()]).tables
    assert table.mismatches == ()
    assert table.decisions == len(list(ort_fp4.recorded())) == 21
    hits = {item.name: item.reach.hits for item in table.partitions if not item.detail}
    assert (hits["small-M-prefill"], hits["decode-beyond-8"]) == (5, 3)
    assert all("observed" in item.reach.evidence for item in table.partitions if item.reach.hits)


def test_what_was_believed_is_contradicted_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "belief.toml").write_text(BELIEF)
    assert ort_fp4.main(["--table", str(tmp_path / "belief.toml")]) == 2
    printed = capsys.readouterr().out
    assert "in rule decode: expected decode, got prefill for M=2" in printed
    assert "in rule prefill: expected prefill, got decode for M=9" in printed
    assert "nearest: M <= 8 would have to be true" in printed


def test_the_table_has_no_faults() -> None:
    assert check(ort_fp4.table()) == ()


def test_without_onnx_runtime_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("onnxruntime") is not None:
        pytest.skip("ONNX Runtime is there")
    assert ort_fp4.main(["--observe"]) == 1
    assert "onnxruntime is not importable; expected onnxruntime-gpu and onnx" in capsys.readouterr().err


def test_the_bias_is_the_sixth_input_and_the_scale_of_the_activations_is_left_out() -> None:
    assert ort_fp4.operands(False) == ["a", "weight", "scale", "scale_2"]
    assert dict(zip(ort_fp4.INPUTS, ort_fp4.operands(True), strict=True)) == {
        "A": "a",
        "B": "weight",
        "weight_scale": "scale",
        "weight_scale_2": "scale_2",
        "input_scale": "",
        "bias": "b",
    }


@pytest.mark.parametrize("facts", [facts for _, facts, _ in ort_fp4.recorded()][:10])
def test_the_model_of_each_shape_is_one_that_onnx_runtime_reads(facts: dict[str, object]) -> None:
    torch = pytest.importorskip("torch")
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    if not torch.cuda.is_available() or "CUDAExecutionProvider" not in runtime.get_available_providers():
        pytest.skip("needs onnxruntime-gpu and a CUDA GPU")
    ort_fp4.prepared(facts)()  # type: ignore[arg-type]


def test_a_table_that_can_not_be_read_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert ort_fp4.main(["--table", "no.toml"]) == 1
    assert "dispatchcov: " in capsys.readouterr().err

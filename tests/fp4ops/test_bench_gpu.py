"""The GPU benchmark's own arithmetic and reports, without a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fp4ops.bench import ceilings, gpu
from fp4ops.bench.cases import SECTIONS, Row
from fp4ops.bench.timing import Times
from fp4ops.kernels.cuda import build


def row(section: str, variant: str, nbytes: int, **medians: float) -> Row:
    times = {
        kind: Times(median, 0.9 * median, 0.95 * median, 1.05 * median, 1.1 * median, 1)
        for kind, median in medians.items()
    }
    return Row(section, "4096 x 4096", variant, nbytes, times)


def test_times_are_median_and_percentiles() -> None:
    times = Times.of([float(x) for x in range(100, -1, -1)])
    assert times == Times(median=50.0, low=5.0, q25=25.0, q75=75.0, high=95.0, runs=101)
    assert Times.of([3.0]) == Times(3.0, 3.0, 3.0, 3.0, 3.0, 1)


def test_rate_is_terabytes_a_second() -> None:
    assert row("decode", "a kernel", 50_000_000, warm=12.5, cold=25.0).rate("warm") == pytest.approx(4.0)
    assert row("decode", "a kernel", 50_000_000, warm=12.5, cold=25.0).rate("cold") == pytest.approx(2.0)


def test_table_gives_the_share_of_the_sections_ceiling() -> None:
    rows = [
        row("memory", "copy", 4_000_000, warm=1.0),
        row("memory", "read", 5_000_000, warm=1.0),
        row("dequantisation", "flat", 3_000_000, warm=1.0, cold=2.0),
        row("decode", "mma", 3_000_000, warm=1.0),
        row("host", "call", 0, host=7.0),
        Row("decode", "4096 x 4096", "a peer", note="not importable: No module named 'peer'"),
    ]
    lines = gpu.table(rows).splitlines()
    assert len(lines) == 7
    assert lines[3].split()[-6:] == ["flat", "1.0", "0.9-1.1", "2.0", "3.00", "75%"]
    assert lines[4].split()[-5:] == ["mma", "1.0", "0.9-1.1", "3.00", "60%"]
    assert lines[5].split()[-3:] == ["call", "7.0", "6.6-7.4"]
    assert lines[6].endswith("a peer                         not importable: No module named 'peer'")


def test_ceilings_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.core", reason="needs cuda-core, nvidia-cuda-nvrtc and nvidia-cuda-runtime")
    monkeypatch.setenv("FP4OPS_CACHE_DIR", str(tmp_path))
    for source in (ceilings.READ, ceilings.EXPAND):
        assert set(build.build(source, "sm_90a").symbols) == set(source.instances)


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 1
    assert "needs a CUDA GPU" in capsys.readouterr().err


def test_an_unknown_section_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        gpu.main(["--only", "everything"])
    assert "dequantisation" in capsys.readouterr().err


def test_a_failed_section_is_reported_and_the_rest_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def good() -> Iterator[Row]:
        yield row("memory", "copy", 4_000_000, warm=1.0)

    def bad() -> Iterator[Row]:
        yield row("decode", "mma", 4_000_000, warm=2.0)
        raise RuntimeError("out of luck")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(gpu, "check", lambda: ["nothing"])
    monkeypatch.setattr(gpu, "environment", lambda arguments, commit: {"command": list(arguments), "commit": commit})
    for name in list(SECTIONS):
        monkeypatch.delitem(SECTIONS, name)
    monkeypatch.setitem(SECTIONS, "bad", bad)
    monkeypatch.setitem(SECTIONS, "good", good)
    out = tmp_path / "new" / "bench.json"
    assert gpu.main(["--out", str(out), "--commit", "abc"]) == 1
    report = json.loads(out.read_text())
    assert report["errors"] == {"bad": "RuntimeError: out of luck"}
    assert report["meta"]["commit"] == "abc"
    assert [entry["variant"] for entry in report["rows"]] == ["mma", "copy"]
    assert report["rows"][1]["tb_per_s"] == {"warm": 4.0}
    spread = {"median": 1.0, "low": 0.9, "q25": 0.95, "q75": 1.05, "high": 1.1, "runs": 1}
    assert report["rows"][1]["us"] == {"warm": spread}
    assert "out of luck" in capsys.readouterr().err


def test_environment_names_the_sources_and_the_table() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    meta = gpu.environment(["--only", "memory"], None)
    assert meta["command"] == "python -m fp4ops.bench.gpu --only memory"
    assert set(meta["kernel_sources_sha256"]) == set(build.SOURCES)
    assert meta["device"] == torch.cuda.get_device_name()

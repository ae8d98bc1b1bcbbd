"""NVRTC builds and their cache, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from fp4ops.kernels.cuda import build
from fp4ops.machine import TABLE

pytest.importorskip("cuda.core", reason="needs cuda-core, nvidia-cuda-nvrtc and nvidia-cuda-runtime")

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
SCALAR = build.SOURCES["DequantizeNvFp4Kernel"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cubins"
    monkeypatch.setenv("FP4OPS_CACHE_DIR", str(directory))
    return directory


def no_compiler(*_: object) -> build.Cubin:
    raise AssertionError("expected the cache to answer")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("template", build.SOURCES)
def test_every_kernel_compiles(template: str, arch: str, cache: Path) -> None:
    source = build.SOURCES[template]
    cubin = build.build(source, arch)
    assert cubin.code.startswith(b"\x7fELF")
    assert set(cubin.symbols) == set(source.instances)
    for symbol in cubin.symbols.values():
        assert template in symbol
        assert symbol.encode() in cubin.code


def test_scalar_kernels_compile_for_turing(cache: Path) -> None:
    for source in build.SOURCES.values():
        if source.min_sm <= 75:
            assert build.build(source, "sm_75").symbols


@pytest.mark.parametrize(
    ("capability", "arch"), [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((12, 1), "sm_121a")]
)
def test_architecture(capability: tuple[int, int], arch: str) -> None:
    assert build.architecture(*capability) == arch


def test_instances_are_all_types_and_parameters() -> None:
    assert build.SOURCES["Fp4GemvKernel"].instances[:2] == ("Fp4GemvKernel<__half, 1>", "Fp4GemvKernel<__half, 2>")
    assert len(build.SOURCES["Fp4GemvKernel"].instances) == 8
    assert SCALAR.instance("bfloat16") == "DequantizeNvFp4Kernel<__nv_bfloat16>"


def test_symbols_of_the_table_are_templates() -> None:
    prefixes = {kernel.symbol.split("<")[0] for kernel in TABLE.kernels if kernel.symbol}
    assert prefixes <= set(build.SOURCES)


def test_second_build_reads_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.build(SCALAR, "sm_90a")
    monkeypatch.setattr(build, "compile_source", no_compiler)
    assert build.build(SCALAR, "sm_90a") == first
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]  # nothing half-written stays


def test_architecture_options_and_compiler_are_part_of_the_key(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build.build(SCALAR, "sm_90a")
    build.build(SCALAR, "sm_80")
    build.build(SCALAR, "sm_90a", ["UNUSED=1"])
    monkeypatch.setattr(build, "nvrtc_version", lambda: "99.0")
    build.build(SCALAR, "sm_90a")
    assert len(list(cache.iterdir())) == 4


@pytest.mark.parametrize("edited", [SCALAR.file, "nvfp4.cuh"])
def test_an_edited_file_is_compiled_again(
    edited: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in (SCALAR.file, "nvfp4.cuh"):
        (sources / name).write_bytes((build.HERE / name).read_bytes())
    monkeypatch.setattr(build, "HERE", sources)
    build.build(SCALAR, "sm_90a")
    with (sources / edited).open("a") as file:
        file.write("// edited\n")
    build.build(SCALAR, "sm_90a")
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"not json\ncode", None])
def test_a_damaged_file_is_compiled_again(damage: bytes | None, cache: Path) -> None:
    first = build.build(SCALAR, "sm_90a")
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    assert build.build(SCALAR, "sm_90a").symbols == first.symbols
    assert path.read_bytes()[:100] == whole[:100]


def test_a_cache_that_cannot_be_written_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("FP4OPS_CACHE_DIR", str(tmp_path / "file" / "cubins"))
    assert build.build(SCALAR, "sm_90a").code


def test_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FP4OPS_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.cache_directory() == tmp_path / "fp4ops"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_directory() == tmp_path / ".cache" / "fp4ops"


def test_a_compile_error_shows_the_log() -> None:
    with pytest.raises(build.CompileError) as caught:
        build.compile_source("__global__ void broken() { int x = missing; }", "broken.cu", (), "sm_90a")
    text = str(caught.value)
    assert "broken.cu" in text
    assert "sm_90a" in text
    assert 'identifier "missing" is undefined' in text


def test_an_unknown_architecture_is_a_compile_error(cache: Path) -> None:
    with pytest.raises(build.CompileError, match="gpu-architecture"):
        build.build(SCALAR, "sm_1")


def test_a_missing_package_is_named() -> None:
    with pytest.raises(build.CompileError, match="cuda-core, nvidia-cuda-nvrtc and nvidia-cuda-runtime"):
        build.toolkit("no_such_module")

"""NVRTC: a kernel's source -> a cubin for one architecture, kept in a cache directory.

No compiler is needed on the user's machine: NVRTC and the CUDA headers come from the wheels ``nvidia-cuda-nvrtc`` and
``nvidia-cuda-runtime``. A cubin is cached under the digest of all that it depends on: an edited source is another one.

====================  =====================================================================  ==========================
variable              meaning                                                                default
====================  =====================================================================  ==========================
``FP4OPS_CACHE_DIR``  where cubins are kept; a directory that cannot be written is not used  ``$XDG_CACHE_HOME/fp4ops``
====================  =====================================================================  ==========================
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

HERE = Path(__file__).parent
STANDARD = "c++17"
TYPES: Final = MappingProxyType({"float16": "__half", "bfloat16": "__nv_bfloat16"})
"""C++ type of each dtype of the table."""


class CompileError(RuntimeError):
    """NVRTC refused a source; the message holds its log."""


@dataclass(frozen=True, slots=True)
class Source:
    """One ``.cu`` file: the kernel template in it, and what its parameter after the type may be."""

    file: str
    template: str
    parameters: tuple[int, ...] = ()
    min_sm: int = 75

    def instance(self, dtype: str, parameter: int | None = None) -> str:
        """The name expression of one instance, as ``Fp4GemvKernel<__half, 4>``."""
        suffix = "" if parameter is None else f", {parameter}"
        return f"{self.template}<{TYPES[dtype]}{suffix}>"

    @property
    def instances(self) -> tuple[str, ...]:
        """All name expressions."""
        return tuple(self.instance(*choice) for choice in product(TYPES, self.parameters or (None,)))

    def digest(self) -> str:
        """SHA-256 of the file and of all headers."""
        parts = [HERE / self.file, *sorted(HERE.glob("*.cuh"))]
        return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


SOURCES: Final = MappingProxyType(
    {
        source.template: source
        for source in (
            Source("dequantize_scalar.cu", "DequantizeNvFp4Kernel"),
            Source("dequantize_vec8.cu", "DequantizeNvFp4Vec8Kernel"),
            Source("dequantize_flat.cu", "DequantizeNvFp4FlatKernel"),
            Source("gemv.cu", "Fp4GemvKernel", (1, 2, 4, 8)),
            Source("mma_gemv.cu", "Fp4MmaGemvKernel", (1, 8, 16, 32), min_sm=80),
            Source("quantize.cu", "QuantizeNvFp4Kernel"),
        )
    }
)
"""Kernel template -> its source."""


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code for one architecture, and the mangled symbol of each name expression."""

    code: bytes
    symbols: dict[str, str]


def architecture(major: int, minor: int) -> str:
    """The NVRTC target of a compute capability: with instructions of its own (``a``) from Hopper on."""
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def build(source: Source, arch: str, defines: Sequence[str] = ()) -> Cubin:
    """The cubin of all instances of ``source`` for ``arch`` (``"sm_90a"``), from the cache if it is there.

    :param defines: macros, ``"NAME=VALUE"``.
    :raises CompileError: NVRTC refused the source or the architecture; the message holds its log.
    """
    key = _key(source, arch, defines)
    path = cache_directory() / f"{Path(source.file).stem}-{arch}-{key}.cubin"
    cubin = _read(path)
    if cubin is None:
        text = (HERE / source.file).read_text(encoding="utf-8")
        cubin = compile_source(text, source.file, source.instances, arch, defines)
        _write(path, cubin)
    return cubin


def compile_source(text: str, file: str, instances: Sequence[str], arch: str, defines: Sequence[str] = ()) -> Cubin:
    """Compile ``text`` for ``arch``; ``file`` is its name in messages. Needs no GPU and no driver."""
    core = toolkit("core")
    options = core.ProgramOptions(
        name=file,
        std=STANDARD,
        arch=arch,
        include_path=[str(HERE), cuda_headers()],
        define_macro=[tuple(define.split("=", 1)) for define in defines] or None,
    )
    try:
        result = core.Program(text, "c++", options).compile("cubin", name_expressions=tuple(instances))
    except Exception as error:  # its text holds the compiler's log
        raise CompileError(f"{file}: NVRTC {nvrtc_version()} could not compile it for {arch}: {error}") from error
    symbols = {name: _text(symbol) for name, symbol in result.symbol_mapping.items()}
    return Cubin(bytes(result.code), symbols)


def toolkit(module: str) -> Any:
    """``cuda.<module>``, imported when it is first needed; CompileError if it is not installed."""
    try:
        return import_module(f"cuda.{module}")
    except ImportError as error:
        raise CompileError(
            f"cuda.{module}: {error}; the CUDA kernels need cuda-core, nvidia-cuda-nvrtc and nvidia-cuda-runtime"
        ) from error


def cuda_headers() -> str:
    """The directory of ``cuda_fp16.h``."""
    directory = toolkit("pathfinder").find_nvidia_header_directory("cudart")
    if directory is None:
        raise CompileError("no CUDA headers found: install nvidia-cuda-runtime")
    return str(directory)


def nvrtc_version() -> str:
    """``"13.0"``."""
    nvrtc = toolkit("bindings.nvrtc")
    error, major, minor = nvrtc.nvrtcVersion()
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"nvrtcVersion: {error}")
    return f"{major}.{minor}"


def cache_directory() -> Path:
    """Where cubins are kept."""
    if directory := os.environ.get("FP4OPS_CACHE_DIR"):
        return Path(directory)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fp4ops"


def _key(source: Source, arch: str, defines: Sequence[str]) -> str:
    """Digest of all that the cubin depends on."""
    parts = [source.digest(), arch, nvrtc_version(), STANDARD, *source.instances, "", *defines]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _read(path: Path) -> Cubin | None:
    """A cached cubin; None if there is none or it is damaged."""
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        meta = json.loads(head)
        symbols, digest = dict(meta["symbols"]), meta["sha256"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Cubin(code, symbols) if hashlib.sha256(code).hexdigest() == digest else None


def _write(path: Path, cubin: Cubin) -> None:
    """Write to a neighbour and rename: other processes see all of it or nothing."""
    head = json.dumps({"symbols": cubin.symbols, "sha256": hashlib.sha256(cubin.code).hexdigest()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(head.encode() + b"\n" + cubin.code)
        os.replace(file.name, path)
    except OSError:
        return  # a cache is a convenience: without it, the next process compiles again


def _text(symbol: bytes | str) -> str:
    return symbol.decode() if isinstance(symbol, bytes) else symbol

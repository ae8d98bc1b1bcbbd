"""What memory allows: copy, read, write, and the bytes of a dequantisation moved without decoding."""

from __future__ import annotations

import torch
from torch import Tensor

from fp4ops.format import ceildiv
from fp4ops.kernels.cuda.build import Source
from fp4ops.kernels.cuda.launch import Kernel, device

_HOME = "../../bench/ceilings.cu"  # from the directory of the kernels
READ = Source(_HOME, "ReadKernel")
EXPAND = Source(_HOME, "ExpandCopyKernel", (8, 32))

_read = Kernel(READ, "PPq")
_expand = Kernel(EXPAND, "PPPq")
_THREADS = 256


def read(source: Tensor, sink: Tensor) -> None:
    """Read a tensor (a multiple of 16 bytes); ``sink``, int32 on the same device, is not written."""
    vectors = source.numel() * source.itemsize // 16
    blocks = min(4 * device(source.get_device()).multiprocessors, ceildiv(vectors, 512 * 8))
    arguments = (source.data_ptr(), sink.data_ptr(), vectors)
    _read.launch(sink, arguments, dtype=torch.float16, grid=(blocks, 1), block=512)


def expand_copy(weight: Tensor, scale: Tensor, out: Tensor, values: int) -> None:
    """Write ``out [N, K]`` from packed ``weight`` and block-16 ``scale``, ``values`` (8 or 32) elements a thread."""
    words = out.numel() // 8
    threads = ceildiv(words, values // 8) if values == 32 else ceildiv(words, 4)
    arguments = (weight.data_ptr(), scale.data_ptr(), out.data_ptr(), words)
    grid = (ceildiv(threads, _THREADS), 1)
    _expand.launch(out, arguments, dtype=out.dtype, grid=grid, block=_THREADS, parameter=values)

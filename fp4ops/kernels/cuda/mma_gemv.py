"""``Fp4MmaGemvKernel``: decode on tensor cores, tiles of 16 weight rows, windows of 128 along K."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor

from fp4ops.format import ceildiv
from fp4ops.kernels import require
from fp4ops.kernels.cuda.build import SOURCES
from fp4ops.kernels.cuda.launch import Kernel, device
from fp4ops.problem import Operands, Problem

KERNEL = "Fp4MmaGemvKernel"
WINDOW = 128
TILE = 16
MAX_M = 32


class Variant(NamedTuple):
    """Constants of one value of the template parameter ROWS, as in mma_gemv.cu."""

    span: int
    """Windows a warp takes at a time."""
    stages: int
    """Spans of a warp's ring."""
    max_warps: int


VARIANTS = MappingProxyType({1: Variant(2, 2, 20), 8: Variant(2, 2, 20), 16: Variant(1, 3, 20), 32: Variant(1, 3, 16)})
CLUSTERS = (1, 2, 4, 8)
_INBOX_ROUNDING = 4 * CLUSTERS[-1]  # bytes: results are shared out among the blocks of a cluster in whole floats
_IDLE_WARPS = 12  # fewer warps than about this do not keep a multiprocessor busy
_PASS_COST = 20  # spans that the start of a pass is worth
_WINDOW_BYTES = TILE * (WINDOW // 2 + WINDOW // 16)

_kernel = Kernel(SOURCES[KERNEL], "PPPPPPiiiii", large_shared=True)


class Gpu(NamedTuple):
    """What a launch is cut for."""

    shared_memory: int
    """Bytes of shared memory that a block may use."""
    clusters: Mapping[int, int]
    """Cluster size -> clusters that run at the same time, with one block a multiprocessor."""


class Plan(NamedTuple):
    """How a launch is cut."""

    rows: int
    """Template parameter ROWS: the largest M."""
    cluster: int
    """Blocks that share tiles and split K."""
    blocks: int
    warps: int
    passes: int
    """Spans a warp takes, one after the other."""
    batch: int
    """Tiles whose sums are kept in shared memory at a time."""
    shared: int
    """Bytes of them, of the rings, and of the inbox for the sums of other blocks."""


def plan(M: int, N: int, K: int, gpu: Gpu) -> Plan:
    """The cut with the least work on the busiest multiprocessor, in spans."""
    rows = next(rows for rows in VARIANTS if rows >= M)
    variant = VARIANTS[rows]
    spans, tiles = ceildiv(K // WINDOW, variant.span), ceildiv(N, TILE)
    columns = 4 if rows == 1 else rows
    best: tuple[int, Plan] | None = None
    for cluster, at_once in gpu.clusters.items():
        if cluster > spans:
            continue
        slice_ = ceildiv(spans, cluster)  # of a block
        clusters = min(tiles, at_once)
        tiles_each = ceildiv(tiles, clusters)
        batch = 0
        passes = ceildiv(slice_, variant.max_warps) - 1
        while batch < 1:  # fewer warps, more passes, until the rings leave room for the sums of a tile
            passes += 1
            warps = ceildiv(slice_, passes)
            tile_bytes = 4 * TILE * (columns * warps * min(passes, 2) + (M if cluster > 1 else 0))
            fixed_bytes = warps * variant.stages * variant.span * _WINDOW_BYTES + _INBOX_ROUNDING
            batch = (gpu.shared_memory - fixed_bytes) // tile_bytes
        batch = ceildiv(tiles_each, ceildiv(tiles_each, batch))  # all about equal
        starts = passes * ceildiv(tiles_each, batch) if passes > 1 else 1
        cost = passes * tiles_each * max(warps, _IDLE_WARPS) + _PASS_COST * starts
        if best is None or cost < best[0]:
            shared = fixed_bytes + batch * tile_bytes
            best = cost, Plan(rows, cluster, cluster * clusters, warps, passes, batch, shared)
    assert best is not None  # a cluster of one block is always there
    return best[1]


def launch(problem: Problem, operands: Operands) -> Tensor:
    """``[M, N]``; contract: 1 <= M <= 32, N >= 1, block_size == 16, K a positive multiple of 128, sm >= 80."""
    M, N, K = problem.M, problem.N, problem.K
    divides = K > 0 and K % WINDOW == 0
    if not (1 <= M <= MAX_M and N > 0 and problem.block_size == 16 and divides and problem.sm >= 80):
        clause = f"1 <= M <= {MAX_M} and N > 0 and block_size == 16 and K > 0 and K % 128 == 0 and sm >= 80"
        require(KERNEL, clause, False, problem)
    a, weight, scale, scale_2, bias = operands
    out = a.new_empty((M, N))
    cut = _plan(M, N, K, out.get_device())
    arguments = (
        a.data_ptr(),
        weight.data_ptr(),
        scale.data_ptr(),
        scale_2.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        out.data_ptr(),
        M,
        N,
        K // WINDOW,
        cut.passes,
        cut.batch,
    )
    _kernel.launch(
        out,
        arguments,
        dtype=a.dtype,
        grid=(cut.blocks, 1),
        block=32 * cut.warps,
        parameter=cut.rows,
        shared=cut.shared,
        cluster=cut.cluster,
    )
    return out


@lru_cache(maxsize=4096)
def _plan(M: int, N: int, K: int, index: int) -> Plan:
    return plan(M, N, K, _gpu(index))


@lru_cache
def _gpu(index: int) -> Gpu:
    facts = device(index)
    clusters = {1: facts.multiprocessors}
    if facts.capability >= (9, 0):
        for size in CLUSTERS[1:]:
            clusters[size] = _kernel.clusters_at_once(index, size, shared=facts.shared_memory)
    return Gpu(facts.shared_memory, MappingProxyType({size: n for size, n in clusters.items() if n}))

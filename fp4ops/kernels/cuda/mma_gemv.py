"""``Fp4MmaGemvKernel``: decode on tensor cores, tiles of 16 weight rows, windows of 128 along K."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """Constants of one value of the template parameter ROWS, as in the sources."""

    span: int
    """Windows a warp takes at a time: a K of fewer needs another variant."""
    stages: int
    """Spans of a warp's ring."""
    max_warps: int


VARIANTS = MappingProxyType({1: Variant(2, 2, 20), 8: Variant(2, 2, 20), 16: Variant(1, 3, 20), 32: Variant(1, 3, 16)})
MAX_BATCH = 16
CLUSTERS = (1, 2, 4, 8)
_SCHEDULERS = 4  # of a multiprocessor; a warp stays with one of them
_IDLE_WARPS = 12  # fewer warps than about this do not keep a multiprocessor busy
_PASS_COST = 3  # spans that the start of a pass over a batch is worth
_CLUSTER_COST = 8  # and what adding up across a cluster is
_WINDOW_BYTES = TILE * (WINDOW // 2 + WINDOW // 16)
_BARRIER_BYTES = 4 * 8 * MAX_BATCH

_kernel = Kernel(SOURCES[KERNEL], "PPPPPPiiiiiiii", large_shared=True)


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
    clusters: int
    warps: int
    passes: int
    """Spans a warp takes, one after the other."""
    batch: int
    """Tiles whose sums are kept in shared memory at a time."""
    shared: int
    """Bytes of them, of barriers, rings and activations, and of the inbox for the sums of other blocks."""


def plan(M: int, N: int, K: int, gpu: Gpu) -> Plan:
    """The cut with the least work on the busiest scheduler, then with the fewest warps."""
    return min(_cuts(M, N, K, gpu))[-1]


def _cuts(M: int, N: int, K: int, gpu: Gpu) -> Iterator[tuple[int, int, Plan]]:
    """Cost in spans of a multiprocessor, warps, cut."""
    windows, tiles = K // WINDOW, ceildiv(N, TILE)
    rows, variant = next((rows, v) for rows, v in VARIANTS.items() if rows >= M and v.span <= windows)
    spans = ceildiv(windows, variant.span)
    for cluster, at_once in gpu.clusters.items():
        slice_ = ceildiv(spans, cluster)  # of a block
        if (cluster - 1) * slice_ >= spans:
            continue  # a block without work
        clusters = min(tiles, at_once)
        tiles_each = ceildiv(tiles, clusters)
        for warps in range(1, min(slice_, variant.max_warps) + 1):
            passes, rest = divmod(slice_, warps)
            busiest = passes * ceildiv(warps, _SCHEDULERS) + ceildiv(rest, _SCHEDULERS)
            passes += rest > 0
            fits = [
                n for n in range(1, MAX_BATCH + 1) if _shared(rows, M, cluster, warps, passes, n) <= gpu.shared_memory
            ]
            if not fits:
                continue
            batches = ceildiv(tiles_each, fits[-1])
            batch = ceildiv(tiles_each, batches)  # all about equal
            cost = tiles_each * max(_SCHEDULERS * busiest, passes * _IDLE_WARPS) + _PASS_COST * passes * batches
            shared = _shared(rows, M, cluster, warps, passes, batch)
            cut = Plan(rows, cluster, clusters, warps, passes, batch, shared)
            yield cost + _CLUSTER_COST * (cluster > 1), warps, cut


def _shared(rows: int, M: int, cluster: int, warps: int, passes: int, batch: int) -> int:
    """Bytes of shared memory of a block."""
    variant = VARIANTS[rows]
    columns = 4 if rows == 1 else rows
    sent = 4 if rows == 8 and M <= 4 else columns
    activations, slots = rows * variant.span * WINDOW * 2, batch * TILE * columns * 4
    of_warp = activations + slots if passes > 1 else max(activations, slots)  # which then share a place
    inbox = ceildiv(batch, cluster) * cluster * TILE * sent * 4 if cluster > 1 else 0
    return _BARRIER_BYTES + inbox + warps * (variant.stages * variant.span * _WINDOW_BYTES + of_warp)


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
        cut.cluster.bit_length() - 1,
        *divmod(ceildiv(N, TILE), cut.clusters),
    )
    _kernel.launch(
        out,
        arguments,
        dtype=a.dtype,
        grid=(cut.cluster * cut.clusters, 1),
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

"""Load a kernel for the device of a tensor and launch it on that device's current stream, checked.

Nothing here waits for the GPU or allocates on it, so a launch can be captured in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from fp4ops.kernels.cuda import build
from fp4ops.problem import DTYPE_NAMES

_ARGUMENT_TYPES: Final = MappingProxyType({"P": ctypes.c_void_p, "q": ctypes.c_longlong, "i": ctypes.c_int})


class LaunchError(RuntimeError):
    """The driver refused a launch."""


class Device(NamedTuple):
    """What a launcher sizes its grid by."""

    capability: tuple[int, int]
    multiprocessors: int
    shared_memory: int
    """Bytes a block may use, at most."""


@lru_cache
def device(index: int) -> Device:
    """Facts about GPU ``index``."""
    properties: Any = torch.cuda.get_device_properties(index)
    capability = properties.major, properties.minor
    return Device(capability, properties.multi_processor_count, properties.shared_memory_per_block_optin)


class Kernel:
    """One kernel template: its instances are compiled and loaded at their first launch.

    :param source: where it is.
    :param signature: a letter for each argument: ``P`` pointer, ``q`` 64-bit and ``i`` 32-bit integer.
    :param large_shared: launches may ask for more than 48 KiB of shared memory.
    """

    def __init__(self, source: build.Source, signature: str, *, large_shared: bool = False) -> None:
        self.source = source
        self._types = tuple(_ARGUMENT_TYPES[letter] for letter in signature)
        self._large_shared = large_shared
        self._loaded: dict[tuple[int, torch.dtype, int | None], Any] = {}

    def launch(
        self,
        out: Tensor,
        arguments: tuple[int, ...],
        *,
        dtype: torch.dtype,
        grid: tuple[int, int],
        block: int,
        parameter: int | None = None,
        shared: int = 0,
        cluster: int = 1,
    ) -> None:
        """Launch on the device of ``out``, on its current stream.

        :param arguments: pointers and integers, as the signature says.
        :param dtype: the T of the instance. :param parameter: its integer parameter, if it has one.
        :param shared: bytes of dynamic shared memory. :param cluster: blocks of the grid that form a cluster.
        :raises CompileError: the kernel does not compile for this device.
        :raises LaunchError: the driver refused; the message names the kernel, the launch and the driver's error.
        """
        index = out.get_device()
        if index != torch.cuda.current_device():
            with torch.cuda.device(index):
                return self.launch(
                    out,
                    arguments,
                    dtype=dtype,
                    grid=grid,
                    block=block,
                    parameter=parameter,
                    shared=shared,
                    cluster=cluster,
                )
        _bind(index)
        function = self._loaded.get((index, dtype, parameter)) or self._load(index, dtype, parameter)
        driver = _driver()
        stream = torch._C._cuda_getCurrentRawStream(index)
        values = arguments, self._types
        if cluster == 1:
            (error,) = driver.cuLaunchKernel(function, *grid, 1, block, 1, 1, shared, stream, values, 0)
        else:
            (error,) = driver.cuLaunchKernelEx(_clustered(grid, block, shared, cluster, stream), function, values, 0)
        if error:
            size = f"grid {grid}, block {block}, {shared} bytes of shared memory"
            raise LaunchError(f"{self.source.template} on cuda:{index}, {size}: {_describe(error)}")
        return None

    def clusters_at_once(self, index: int, cluster: int, *, shared: int) -> int:
        """How many clusters of blocks with ``shared`` bytes run at the same time on GPU ``index``; 0: none can."""
        with torch.cuda.device(index):
            _bind(index)
            parameter = self.source.parameters[0] if self.source.parameters else None
            function = self._load(index, torch.float16, parameter)
            config = _clustered((cluster, 1), 32, shared, cluster, 0)
            error, count = _driver().cuOccupancyMaxActiveClusters(function, config)
        return 0 if error else int(count)

    def _load(self, index: int, dtype: torch.dtype, parameter: int | None) -> Any:
        driver = _driver()
        arch = build.architecture(*torch.cuda.get_device_capability(index))
        cubin = build.build(self.source, arch)
        name = self.source.instance(DTYPE_NAMES[dtype], parameter)
        module = build.toolkit("core").ObjectCode.from_cubin(cubin.code, name=self.source.file)
        kernel = module.get_kernel(cubin.symbols[name])
        if self._large_shared:
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            (error,) = driver.cuKernelSetAttribute(attribute, device(index).shared_memory, kernel.handle, index)
            if error:
                raise LaunchError(f"{name}: {device(index).shared_memory} bytes of shared memory: {_describe(error)}")
        function = driver.CUfunction(int(kernel.handle))
        _KEEP.append(module)
        self._loaded[index, dtype, parameter] = function
        return function


_KEEP: Final[list[Any]] = []  # loaded modules: unloading one would pull the code from under a captured graph
_THREAD: Final = threading.local()


def _bind(index: int) -> None:
    """Make the primary context current in a thread that has not used the GPU: torch does so only when it must."""
    if getattr(_THREAD, "bound", None) is None:
        build.toolkit("core").Device(index).set_current()
        _THREAD.bound = index


@lru_cache(maxsize=4096)
def _clustered(grid: tuple[int, int], block: int, shared: int, cluster: int, stream: int) -> Any:
    """A launch configuration; never changed once made, so threads may share it."""
    driver = _driver()
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dimension = attribute.value.clusterDim
    dimension.x, dimension.y, dimension.z = cluster, 1, 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = *grid, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
    config.sharedMemBytes, config.hStream = shared, driver.CUstream(stream)
    config.attrs, config.numAttrs = [attribute], 1
    return config


@lru_cache
def _driver() -> Any:
    return build.toolkit("bindings.driver")


def _describe(error: Any) -> str:
    driver = _driver()
    text = driver.cuGetErrorString(error)[1] or b"unknown error"
    return f"{error.name} ({text.decode()})"

"""Other libraries' products of activations with an NVFP4 weight, for whoever has them installed.

Each is built from the tensors of a checkpoint: ``weight`` uint8 ``[N, K/2]``, ``weight_scale`` float8_e4m3fn
``[N, K/16]``, ``weight_scale_2`` float32 scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

import fp4ops

Weight: TypeAlias = tuple[Tensor, Tensor, Tensor]
Layer: TypeAlias = Callable[[Tensor], Tensor]
"""``a [M, K]`` bfloat16 on the GPU -> ``[M, N]``."""


def humming(weight: Weight) -> Layer:
    """``humming-kernels``: compiled for the shape when first called."""
    module = import_module("humming.layer")
    N, K = len(weight[0]), 2 * weight[0].shape[1]
    config = {"quant_method": "modelopt", "quant_algo": "nvfp4"}
    layer: Any = module.HummingLayer(shape_n=N, shape_k=K, weight_config=config, torch_dtype=torch.bfloat16).cuda()
    names = ("weight", "weight_scale", "weight_scale_2")
    layer.load_from_tensors(dict(zip(names, (weight[0], weight[1], weight[2].view(1)), strict=True)))
    layer.transform()
    product: Layer = layer.forward
    return product


def onnx_runtime(weight: Weight) -> Layer:
    """``onnxruntime-gpu``: a model of one node, its tensors bound where torch has them."""
    runtime, onnx = import_module("onnxruntime"), import_module("onnx")
    if "CUDAExecutionProvider" not in runtime.get_available_providers():
        raise ImportError(f"onnxruntime {runtime.__version__} without its CUDA provider (onnxruntime-gpu)")
    half, helper = onnx.TensorProto.BFLOAT16, onnx.helper
    parts = (weight[0], weight[1].view(torch.uint8), weight[2].view(1))
    names = ("B", "weight_scale", "weight_scale_2")
    types = (onnx.TensorProto.UINT8, onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT)
    N, K = len(weight[0]), 2 * weight[0].shape[1]
    infos = [helper.make_tensor_value_info("A", half, ["M", K])]
    infos += [helper.make_tensor_value_info(*of, part.shape) for *of, part in zip(names, types, parts, strict=True)]
    node = helper.make_node(
        "MatMulBlockQuantizedFp4Weight", ["A", *names], ["Y"], domain="com.microsoft", block_size=16
    )
    graph = helper.make_graph([node], "matmul", infos, [helper.make_tensor_value_info("Y", half, ["M", N])])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])

    def run(a: Tensor) -> Tensor:
        out = a.new_empty((len(a), N))
        binding = session.io_binding()
        for name, kind, part in zip(("A", *names), (half, *types), (a, *parts), strict=True):
            binding.bind_input(name, "cuda", 0, kind, part.shape, part.data_ptr())
        binding.bind_output("Y", "cuda", 0, half, out.shape, out.data_ptr())
        session.run_with_iobinding(binding)
        return out

    return run


PEERS: Final[Mapping[str, Callable[[Weight], Layer]]] = MappingProxyType(
    {"humming-kernels": humming, "onnxruntime-gpu": onnx_runtime}
)


def attempt(build: Callable[[Weight], Layer], weight: Weight) -> tuple[Layer | None, str]:
    """A layer, or why there is none."""
    try:
        return build(weight), ""
    except ImportError as error:
        return None, f"not importable: {error}"
    except Exception as error:  # another library's: this one's numbers still count
        return None, f"could not be built: {_line(error)}"


def wrong(layer: Layer, a: Tensor, weight: Weight) -> str:
    """Why a layer's results cannot be compared with; empty if they are right to within 1 %."""
    try:
        result = layer(a).double()
    except Exception as error:
        return f"could not be run: {_line(error)}"
    expected = a.double() @ fp4ops.dequantize_nvfp4(*weight, dtype=torch.float32).double().T
    difference = ((result - expected).norm() / expected.norm()).item()
    return "" if difference < 0.01 else f"other results: {difference:.2g} of the norm away"


def _line(error: Exception) -> str:
    """The first line of an error, with its type."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"

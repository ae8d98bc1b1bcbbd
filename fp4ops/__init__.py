"""NVFP4 weight-only matmul for PyTorch: one operator over several kernels, chosen by ``dispatch.toml``.

::

    quantized = fp4ops.quantize_nvfp4(torch.randn(512, 256))        # weight, weight_scale, weight_scale_2
    y = fp4ops.matmul_nvfp4(x, *quantized)                          # x [..., 256] float16/bfloat16 -> [..., 512]
    model = fp4ops.convert(model, skip=["lm_head"])                 # nn.Linear -> Fp4Linear
    fp4ops.save(model, "model.safetensors")
    fp4ops.load(model, "model.safetensors")
    facts = dict(M=4, N=512, K=256, block_size=16, dtype="float16", bias=False, sm=90, native=False)
    print(fp4ops.TABLE.explain(**facts, dequantize="auto"))
"""

from fp4ops.checkpoint import CheckpointError, load, save
from fp4ops.kernels import ContractError
from fp4ops.machine import TABLE
from fp4ops.nn import Fp4Linear, convert
from fp4ops.op import matmul_nvfp4
from fp4ops.quantize import Quantized, dequantize_nvfp4, quantize_nvfp4

__all__ = [
    "TABLE",
    "CheckpointError",
    "ContractError",
    "Fp4Linear",
    "Quantized",
    "convert",
    "dequantize_nvfp4",
    "load",
    "matmul_nvfp4",
    "quantize_nvfp4",
    "save",
]

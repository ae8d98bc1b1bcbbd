"""``Fp4Linear``, a linear layer with an NVFP4 weight, and ``convert``, which puts it in the place of ``nn.Linear``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fp4ops.format import Layout
from fp4ops.op import matmul_nvfp4
from fp4ops.problem import check_weight
from fp4ops.quantize import Quantized, dequantize_nvfp4, quantize_nvfp4

_Module = TypeVar("_Module", bound=nn.Module)

# Bytes of these buffers are data: a cast of the module must leave them alone.
_RAW = {"weight": torch.uint8, "weight_scale": torch.uint8, "weight_scale_2": torch.int32, "input_scale": torch.int32}


class Fp4Linear(nn.Module):
    """``y = x @ W.T + bias`` with ``W`` in NVFP4; ``x`` and ``y`` are float16 or bfloat16, of the dtype of ``bias``.

    Under ``torch.autocast`` ``x`` and ``bias`` are cast to its dtype, so that ``x`` may be float32.

    The names of its tensors are those of ModelOpt checkpoints: buffers ``weight`` uint8 ``[N, K / 2]``,
    ``weight_scale`` float8_e4m3fn ``[N, ceil(K / block_size)]``, ``weight_scale_2`` float32 and, where a checkpoint has
    it, ``input_scale`` float32 (kept and saved, not used: the native kernel scales activations by their own largest
    magnitude); parameter ``bias``. ``half()``, ``bfloat16()`` and ``to(dtype)`` change the bias alone. A new layer
    holds zeros.

    :raises ValueError: odd ``in_features`` or ``block_size < 1``.
    :raises TypeError: ``dtype`` is neither float16 nor bfloat16.
    """

    weight: Tensor
    weight_scale: Tensor
    weight_scale_2: Tensor
    input_scale: Tensor | None
    bias: nn.Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        block_size: int = 16,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        _check_dtype(dtype)
        layout = Layout(out_features, in_features, block_size)
        self.in_features = in_features
        self.out_features = out_features
        self.block_size = block_size
        self.register_buffer("weight", torch.zeros(layout.weight_shape, dtype=torch.uint8, device=device))
        scale = torch.zeros(layout.scale_shape, dtype=torch.uint8, device=device)
        self.register_buffer("weight_scale", scale.view(torch.float8_e4m3fn))
        self.register_buffer("weight_scale_2", torch.ones((), dtype=torch.float32, device=device))
        self.register_buffer("input_scale", None)
        values = torch.zeros(out_features, dtype=dtype, device=device) if bias else None
        self.register_parameter("bias", None if values is None else nn.Parameter(values))

    @classmethod
    def from_quantized(
        cls,
        quantized: Quantized | tuple[Tensor, Tensor, Tensor],
        bias: Tensor | None = None,
        *,
        block_size: int = 16,
        input_scale: Tensor | None = None,
    ) -> Fp4Linear:
        """A layer that holds these tensors, not copies; raises as ``matmul_nvfp4`` does for what does not fit."""
        weight, weight_scale, weight_scale_2 = quantized
        N, K = check_weight(weight, weight_scale, weight_scale_2, block_size)
        layer = cls(K, N, bias is not None, block_size=block_size, device="meta")
        layer.weight, layer.weight_scale, layer.weight_scale_2 = weight, weight_scale, weight_scale_2.reshape(())
        if input_scale is not None:
            if input_scale.numel() != 1:
                raise ValueError(f"input_scale: expected one element, got shape {list(input_scale.shape)}")
            layer.input_scale = input_scale.reshape(())
        if bias is not None:
            _check_dtype(bias.dtype, "bias")
            if bias.shape != (N,):
                raise ValueError(f"bias: expected shape [N] = [{N}], got {list(bias.shape)}")
            layer.bias = nn.Parameter(bias.detach(), requires_grad=bias.requires_grad)
        return layer

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, block_size: int = 16, dtype: torch.dtype | None = None) -> Fp4Linear:
        """Quantise ``linear``; ``dtype`` is that of the bias and of the activations to come (see :func:`convert`)."""
        dtype = _activation_dtype(linear, dtype)
        bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        if bias is not None:
            bias.requires_grad_(linear.bias.requires_grad)
        layer = cls.from_quantized(quantize_nvfp4(linear.weight, block_size), bias, block_size=block_size)
        return layer.train(linear.training)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., K]`` -> ``[..., N]``."""
        return matmul_nvfp4(
            x, self.weight, self.weight_scale, self.weight_scale_2, self.bias, block_size=self.block_size
        )

    def dequantize(self, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        """The weight as ``[N, K]`` of ``dtype``."""
        return dequantize_nvfp4(
            self.weight, self.weight_scale, self.weight_scale_2, block_size=self.block_size, dtype=dtype
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"block_size={self.block_size}"
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Fp4Linear:
        # nn.Module casts every floating buffer, and float8 and float32 are floating: show it integers instead.
        raw = {name: dtype for name, dtype in _RAW.items() if self._buffers[name] is not None}
        kept = {name: getattr(self, name).dtype for name in raw}
        for name, dtype in raw.items():
            self._buffers[name] = getattr(self, name).view(dtype)
        try:
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        finally:
            for name, dtype in kept.items():
                self._buffers[name] = getattr(self, name).view(dtype)
        return self

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: Any,
        unexpected: Any,
        errors: Any,
    ) -> None:
        if (scale := state_dict.get(f"{prefix}input_scale")) is not None and self.input_scale is None:
            self.input_scale = torch.empty_like(scale, device=self.weight.device)
        for name in _RAW:
            value, mine = state_dict.get(prefix + name), self._buffers[name]
            if value is not None and mine is not None and value.dtype != mine.dtype:
                errors.append(f"{prefix}{name}: expected dtype {mine.dtype}, got {value.dtype}")
                return  # nn.Module would cast the bytes
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)


def convert(
    module: _Module,
    *,
    skip: Iterable[str] = (),
    block_size: int = 16,
    dtype: torch.dtype | None = None,
) -> _Module | Fp4Linear:
    """Replace every ``nn.Linear`` below ``module`` by a quantised :class:`Fp4Linear`, in place.

    Subclasses of ``nn.Linear`` stay: other modules reach into their weights. A layer used at several places stays
    shared. Other parameters keep their dtype: a model in float32 must be cast as well, ``model.to(torch.bfloat16)``, or
    run under ``torch.autocast``, since its activations are float32 else, which a converted layer refuses.

    :param skip: names to leave alone, as in ``named_modules()``; ``*`` and ``?`` match any characters: ``"*.gate"``.
    :param block_size: elements of a weight row that share one scale.
    :param dtype: of biases and of the activations to come, float16 or bfloat16; default: each layer's own, and bfloat16
        where that is float32.
    :return: ``module``, or its replacement if ``module`` itself is a linear layer.
    :raises ValueError: a ``skip`` that matches no linear layer; a layer that cannot be quantised, by name. Nothing has
        been replaced then.
    """
    linears = list(named_linears(module))
    skip = [skip] if isinstance(skip, str) else list(skip)
    for pattern in skip:
        if not any(fnmatchcase(name, pattern) for name, _ in linears):
            known = f"names of linear layers: {', '.join(repr(name) for name, _ in linears)}"
            raise ValueError(f"skip: {pattern!r} matches no linear layer; {known if linears else 'there is none'}")
    made: dict[nn.Linear, Fp4Linear] = {}
    chosen = [(name, linear) for name, linear in linears if not any(fnmatchcase(name, p) for p in skip)]
    for name, linear in chosen:
        if linear not in made:
            try:
                made[linear] = Fp4Linear.from_linear(linear, block_size=block_size, dtype=dtype)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{name or 'module'}: cannot be converted: {error}; skip it by name") from error
    for name, linear in chosen:
        if name:
            replace(module, name, made[linear])
    return made[module] if isinstance(module, nn.Linear) and module in made else module


def named_linears(module: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Every layer that :func:`convert` would replace, by name; a shared one under each of its names."""
    for name, child in module.named_modules(remove_duplicate=False):
        if type(child) is nn.Linear:
            yield name, child


def replace(module: nn.Module, name: str, layer: nn.Module) -> None:
    """Put ``layer`` in the place of the submodule ``name``."""
    parent, _, last = name.rpartition(".")
    setattr(module.get_submodule(parent), last, layer)


def _activation_dtype(linear: nn.Linear, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is None:
        own = linear.weight.dtype
        return own if own in (torch.float16, torch.bfloat16) else torch.bfloat16
    _check_dtype(dtype)
    return dtype


def _check_dtype(dtype: torch.dtype, name: str = "dtype") -> None:
    if dtype not in (torch.float16, torch.bfloat16):
        raise TypeError(f"{name}: expected float16 or bfloat16, got {dtype}")

"""Checkpoints with the tensor names of ModelOpt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fp4ops import CheckpointError, Fp4Linear, convert, load, save
from fp4ops.testing import random_weight


class Model(nn.Module):
    """An embedding tied to its head, one linear layer with bias and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 32)
        self.body = nn.ModuleDict({"up": nn.Linear(32, 48), "down": nn.Linear(48, 32, bias=False)})
        self.head = nn.Linear(32, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.body["down"](torch.relu(self.body["up"](self.embed(tokens)))))  # type: ignore[no-any-return]


def modelopt(**changed: Tensor | None) -> dict[str, Tensor]:
    """A checkpoint as ModelOpt writes it; ``changed`` replaces keys (``__`` for a dot), None removes them."""
    up, down = random_weight(48, 32), random_weight(32, 48, seed=1)
    embed = torch.randn(10, 32).bfloat16()
    tensors = {
        "embed.weight": embed,
        "head.weight": embed.clone(),
        "body.up.weight": up.weight,
        "body.up.weight_scale": up.weight_scale,
        "body.up.weight_scale_2": up.weight_scale_2,
        "body.up.input_scale": torch.tensor(0.02),
        "body.up.bias": torch.randn(48).bfloat16(),
        "body.down.weight": down.weight,
        "body.down.weight_scale": down.weight_scale,
        "body.down.weight_scale_2": down.weight_scale_2,
    }
    for name, value in changed.items():
        key = name.replace("__", ".")
        if value is None:
            del tensors[key]
        else:
            tensors[key] = value
    return tensors


def written(path: Path, tensors: dict[str, Tensor]) -> Path:
    save_file(tensors, path)
    return path


def raw(state: dict[str, Any]) -> dict[str, tuple[torch.dtype, bytes]]:
    return {key: (t.dtype, t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()) for key, t in state.items()}


def test_a_checkpoint_replaces_linear_layers_and_fills_the_rest(tmp_path: Path) -> None:
    tensors = modelopt()
    model = load(Model().bfloat16(), written(tmp_path / "model.safetensors", tensors))
    up, down = model.body["up"], model.body["down"]
    assert type(up) is Fp4Linear
    assert type(down) is Fp4Linear
    assert raw(up.state_dict()) == raw({key[8:]: value for key, value in tensors.items() if key.startswith("body.up")})
    assert (down.bias, down.input_scale) == (None, None)
    assert type(model.head) is nn.Linear
    assert torch.equal(model.head.weight, tensors["head.weight"])
    assert model(torch.tensor([1, 2, 3])).shape == (3, 10)


def test_save_and_load_give_the_same_bytes(tmp_path: Path) -> None:
    model = load(Model().bfloat16(), written(tmp_path / "model.safetensors", modelopt()))
    save(model, tmp_path / "again.safetensors")
    assert raw(load_file(tmp_path / "again.safetensors")) == raw(model.state_dict())
    other = load(Model().bfloat16(), tmp_path / "again.safetensors")
    tokens = torch.arange(10)
    assert torch.equal(other(tokens), model(tokens))


def test_a_converted_model_survives_the_file_block_size_included(tmp_path: Path) -> None:
    model = convert(Model().bfloat16(), skip=["head"], block_size=6)
    save(model, tmp_path / "model.safetensors")
    other = load(Model().bfloat16(), tmp_path / "model.safetensors")
    up = other.body["up"]
    assert isinstance(up, Fp4Linear)
    assert up.block_size == 6
    assert torch.equal(other(torch.arange(10)), model(torch.arange(10)))


def test_several_files(tmp_path: Path) -> None:
    tensors = modelopt()
    first = {key: value for key, value in tensors.items() if "up" in key}
    second = {key: value for key, value in tensors.items() if "up" not in key}
    paths = [written(tmp_path / "1.safetensors", first), written(tmp_path / "2.safetensors", second)]
    assert raw(load(Model().bfloat16(), *paths).state_dict()) == raw(
        load(Model().bfloat16(), written(tmp_path / "all.safetensors", tensors)).state_dict()
    )
    with pytest.raises(
        CheckpointError, match=r"body.up.bias: expected in one file only, got it again in .*1.safetensors"
    ):
        load(Model(), paths[0], paths[0])


def test_a_model_on_the_meta_device_takes_the_tensors_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "model.safetensors", modelopt())
    with torch.device("meta"):
        model = Model()
    load(model, path)
    assert raw(model.state_dict()) == raw(load(Model().bfloat16(), path).state_dict())


def test_a_layer_by_itself(tmp_path: Path) -> None:
    source = Fp4Linear.from_quantized(random_weight(6, 32))
    save(source, tmp_path / "layer.safetensors")
    target = load(Fp4Linear(32, 6, bias=False), tmp_path / "layer.safetensors")
    assert raw(target.state_dict()) == raw(source.state_dict())
    with pytest.raises(CheckpointError, match="block_size: expected 17, got 16"):
        load(Fp4Linear(32, 6, bias=False, block_size=17), tmp_path / "layer.safetensors")


OTHER = random_weight(40, 32)
BAD: list[tuple[str, dict[str, Tensor | None], str]] = [
    ("missing scale", {"body__up__weight_scale": None}, "body.up.weight_scale: missing"),
    ("missing weight", {"body__up__weight": None}, "body.up.weight: missing"),
    ("missing scale_2", {"body__up__weight_scale_2": None}, "body.up.weight_scale_2: missing"),
    ("no scales at all", {"body__up__weight_scale_2": None, "body__up__weight_scale": None},
     r"body.up.weight: expected shape \[48, 32\], got \[48, 16\]"),
    ("missing bias", {"body__up__bias": None}, "body.up.bias: missing"),
    ("extra bias", {"body__down__bias": torch.zeros(32).bfloat16()}, "body.down.bias: unexpected"),
    ("missing plain", {"embed__weight": None}, "embed.weight: missing"),
    ("extra plain", {"body__up__k_scale": torch.ones(1)}, "body.up.k_scale: unexpected"),
    ("extra layer", {"body__side__weight_scale_2": torch.ones(()), "body__side__weight_scale": torch.zeros(2, 2),
                     "body__side__weight": torch.zeros(2, 16)}, "body.side: unexpected, no such module"),
    ("not linear", {"embed__weight_scale_2": torch.ones(()), "embed__weight_scale": torch.zeros(2, 2)},
     "embed: expected a linear layer, got Embedding"),
    ("mis-shaped weight", {"body__up__weight": torch.zeros(48, 8, dtype=torch.uint8)},
     r"body.up.weight_scale: expected shape .* = \[48, 1\] .*, got \[48, 2\]"),
    ("other matrix", {"body__up__weight": OTHER.weight, "body__up__weight_scale": OTHER.weight_scale},
     r"body.up.weight: expected N = 48, K = 32, got N = 40, K = 32"),
    ("mis-shaped scale", {"body__up__weight_scale": torch.zeros(48, 3).to(torch.float8_e4m3fn)},
     r"body.up.weight_scale: expected shape .* = \[48, 2\] .*, got \[48, 3\]"),
    ("scale dtype", {"body__up__weight_scale": torch.zeros(48, 2, dtype=torch.uint8)},
     "body.up.weight_scale: expected dtype float8_e4m3fn, got uint8"),
    ("weight dtype", {"body__up__weight": torch.zeros(48, 32).bfloat16()},
     "body.up.weight: expected dtype uint8, got bfloat16"),
    ("input_scale", {"body__up__input_scale": torch.ones(3)},
     r"body.up.input_scale: expected one element, got shape \[3\]"),
    ("plain shape", {"head__weight": torch.zeros(9, 32)}, r"head.weight: expected shape \[10, 32\], got \[9, 32\]"),
    ("plain dtype", {"head__weight": torch.zeros(10, 32, dtype=torch.uint8)},
     "head.weight: expected dtype torch.bfloat16, got torch.uint8"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_checkpoint_that_does_not_fit(tmp_path: Path, changed: dict[str, Tensor | None], message: str) -> None:
    model = Model().bfloat16()
    before = raw(model.state_dict())
    with pytest.raises(CheckpointError, match=message):
        load(model, written(tmp_path / "model.safetensors", modelopt(**changed)))
    assert raw(model.state_dict()) == before
    assert type(model.body["up"]) is nn.Linear


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path / "model.safetensors", modelopt(body__up__weight_scale=None, head__weight=torch.zeros(9, 32))
    )
    with pytest.raises(CheckpointError) as caught:
        load(Model().bfloat16(), path)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"2 problems with {path}:"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["body.up.weight_scale", "head.weight"]


def test_not_strict_lets_keys_differ_but_not_shapes(tmp_path: Path) -> None:
    path = written(tmp_path / "model.safetensors", modelopt(head__weight=None, body__up__k_scale=torch.ones(1)))
    model = load(Model().bfloat16(), path, strict=False)
    assert type(model.body["up"]) is Fp4Linear
    path = written(tmp_path / "model.safetensors", modelopt(head__weight=torch.zeros(9, 32)))
    with pytest.raises(CheckpointError, match=r"head\.weight: expected shape"):
        load(model, path, strict=False)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(Model(), tmp_path / "none.safetensors")


def test_no_file_at_all() -> None:
    with pytest.raises(CheckpointError, match="expected at least one safetensors file, got none"):
        load(Model())


def test_files_that_are_no_checkpoint_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "model.safetensors", modelopt())
    whole = path.read_bytes()
    model = Model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for content in (b"", whole[:5], whole[:200], whole[:-1], b"\xff" * 64, b"no checkpoint"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"model\.safetensors: expected a safetensors file: "):
            load(model, path)
    with pytest.raises(CheckpointError, match="expected a safetensors file: "):
        load(model, tmp_path)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize(
    "text", ["{", "3", "[]", '{"body.up": "16"}', '{"body.up": true}', '{"body.up": 0}', "[" * 9999]
)
def test_metadata_of_another_shape_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.safetensors"
    save_file(modelopt(), path, {"fp4ops.block_sizes": text})
    with pytest.raises(CheckpointError, match=r"expected fp4ops\.block_sizes to be a JSON object of a block size for"):
        load(Model(), path)

"""The table of scaled_dot_product_attention against PyTorch itself, on this machine's CPU."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dispatchcov.adapters import sdpa
from dispatchcov.adapters.command import agreement, reaches
from dispatchcov.adapters.torch_operator import Call
from dispatchcov.check.faults import check
from dispatchcov.errors import FactsError, UsageError
from dispatchcov.items import Item
from dispatchcov.measure.table import Measure
from dispatchcov.observers.evidence import observe

torch = pytest.importorskip("torch")

OPERATOR = sdpa.operator()


def test_table_and_pytorch_agree_on_ten_thousand_random_calls() -> None:
    agreed, wrong = agreement(OPERATOR, 10_000, 2026, "cpu")
    assert (agreed, wrong) == (10_000, [])


def test_random_calls_reach_every_rule_of_the_cpu() -> None:
    rng, rules = random.Random(1), set()
    for _ in range(600):
        call = sdpa.draw(rng, "cpu")
        with call.settings():
            rules.add(sdpa.table().decide(**sdpa.facts(*call.arguments, **call.named)).rule)
    assert rules == {"flash-cpu", "math", "none-fits"} | ({"empty"} if sdpa.zeros_first() else set())


def items() -> list[Item]:
    import datetime

    table = sdpa.table()
    worker = Measure(table, [], [], frozenset(), datetime.date.today(), False)
    return [worker.bin(partition, bin) for partition in table.partitions for bin in partition.bins]


def test_the_witness_of_every_partition_of_the_cpu_goes_where_it_says() -> None:
    on_cpu = [item for item in items() if item.witness is not None and item.witness["device"] == "cpu"]
    on_cpu = [item for item in on_cpu if sdpa.zeros_first() or not item.name.startswith("empty")]
    assert len(on_cpu) > 25
    assert {item.label: reaches(OPERATOR, item, "cpu") for item in on_cpu} == {item.label: "" for item in on_cpu}
    other = next(item for item in items() if item.witness is not None and item.witness["device"] != "cpu")
    assert reaches(OPERATOR, other, "cpu") == "it needs sm_90"


@pytest.mark.parametrize("said", ["Invalid backend", "No viable backend for scaled_dot_product_attention was found."])
def test_no_backend_in_each_of_pytorchs_words_is_an_error_of_the_table(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise RuntimeError(said)

    monkeypatch.setattr(torch, "_fused_sdp_choice", refuse)
    assert sdpa.kernel(*SQUARE) == "error"


def tensors(*sizes: int, dtype: Any = torch.float32) -> Any:
    return torch.rand(sizes).to(dtype)


SQUARE = (tensors(2, 4, 3, 8),) * 3


@pytest.mark.parametrize(
    ("call", "kernel"),
    [
        (Call(SQUARE, {}), "flash"),
        (Call(SQUARE, {"attn_mask": tensors(3, 3) > 0.5}), "flash"),
        (Call(SQUARE, {"dropout_p": 0.5}), "math"),
        pytest.param(
            Call((SQUARE[0], tensors(2, 4, 0, 8), tensors(2, 4, 0, 8)), {}),
            "zeros",
            marks=pytest.mark.skipif(not sdpa.zeros_first(), reason="PyTorch chooses for empty tensors before 2.13"),
        ),
        (Call(tuple(t[0] for t in SQUARE), {}), "math"),
    ],
)
def test_what_ran_is_what_pytorch_said_and_the_table(call: Call, kernel: str) -> None:
    facts = sdpa.facts(*call.arguments, **call.named)
    with observe(sdpa.table(), facts=facts, kind="torch-operators") as seen:
        sdpa.attention(*call.arguments, **call.named)
    assert [one.ran for one in seen.calls] == [kernel]
    assert sdpa.kernel(*call.arguments, **call.named) == kernel
    assert sdpa.table().decide(**facts).kernel == kernel


def test_switches_are_put_back() -> None:
    given = sdpa.facts(*SQUARE) | {"flash": False, "math": False, "deterministic": True}
    with sdpa.settings(given):
        made = sdpa.facts(*SQUARE)
        assert (made["flash"], made["math"], made["deterministic"]) == (False, False, True)
        assert sdpa.kernel(*SQUARE) == "error"
    made = sdpa.facts(*SQUARE)
    assert (made["flash"], made["math"], made["deterministic"]) == (True, True, False)


def test_a_group_of_no_heads_is_not_put_to_pytorchs_chooser() -> None:
    """It would divide by their number and kill the process; the function itself does not ask it."""
    none = tensors(2, 0, 3, 8)
    assert sdpa.kernel(SQUARE[0], none, none, enable_gqa=True) == "zeros"


def test_empty_tensors_are_refused_where_pytorch_would_choose_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 2.11 the choice itself divides by the number of heads, and ends the process."""
    monkeypatch.setattr(sdpa, "zeros_first", lambda: False)
    none = tensors(2, 4, 0, 8)
    with pytest.raises(FactsError, match=r"no empty tensor before PyTorch 2.13.* got \(2, 4, 3, 8\), \(2, 4, 0, 8\)"):
        sdpa.facts(SQUARE[0], none, none)
    rng = random.Random(1)
    assert all(t.numel() for _ in range(300) for t in sdpa.draw(rng, "cpu").arguments)


def test_check_finds_that_values_longer_than_keys_are_let_through() -> None:
    found = [f for f in check(sdpa.table()) if f.kind == "contract" and "rule flash-cpu" in f.message]
    assert len(found) == 1
    assert "S_k == S_v is required" in found[0].message


def test_the_kernel_then_reads_keys_that_are_not_there() -> None:
    """The contract is no invention: what lies behind the keys in memory reaches the result."""
    query, values, memory = tensors(2, 4, 3, 8), tensors(2, 4, 5, 8), tensors(2, 4, 5, 8)
    keys = memory[:, :, :3]
    assert sdpa.kernel(query, keys, values) == "flash"
    memory[:, :, 3:] = float("nan")
    assert torch.isnan(sdpa.attention(query, keys, values)).any()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU of sm_90")
@pytest.mark.parametrize("rule", ["cudnn", "flash", "efficient"])
def test_on_a_gpu_the_kernel_refuses_what_the_choice_sends_it(rule: str) -> None:
    (found,) = [f for f in check(sdpa.table()) if f.kind == "contract" and f.rule == rule]
    assert found.input is not None
    call = sdpa.build(found.input, "cuda")
    with call.settings():
        assert sdpa.kernel(*call.arguments, **call.named) == found.kernel
        with pytest.raises(RuntimeError, match=r"same sequence length|key\.size|s_kv|d_qk"):
            sdpa.attention(*call.arguments, **call.named)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (SQUARE[0], SQUARE[0].double(), SQUARE[0]),
            "one dtype on one device, got torch.float32 on cpu; torch.float64",
        ),
        ((tensors(8),) * 3, "expected dense tensors"),
    ],
)
def test_what_the_table_is_not_about_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(FactsError, match=message):
        sdpa.facts(*arguments)


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_nested_tensors_are_refused() -> None:
    nested = torch.nested.nested_tensor([tensors(4, 3, 8)] * 2)
    with pytest.raises(FactsError, match=r"got nested torch.float32"):
        sdpa.facts(nested, nested, nested)


def test_facts_of_another_device_can_not_be_built_here() -> None:
    with pytest.raises(UsageError, match="expected facts of cpu, got those of sm_90"):
        sdpa.build(sdpa.facts(*SQUARE) | {"device": "sm_90"}, "cpu")


@pytest.mark.parametrize(
    ("sizes", "fits"),
    [((3, 3), True), ((1, 3), True), ((2, 3), False), ((2, 4, 3, 3), True), ((2, 1, 1, 1), True), ((1, 3, 3), False)],
)
def test_masks(sizes: tuple[int, ...], fits: bool) -> None:
    facts = sdpa.facts(*SQUARE, attn_mask=tensors(*sizes))
    assert (facts["mask"], facts["mask_fits"], facts["mask_unit_stride"]) == ("float", fits, True)
    assert (sdpa.kernel(*SQUARE, attn_mask=tensors(*sizes)) == "flash") == fits

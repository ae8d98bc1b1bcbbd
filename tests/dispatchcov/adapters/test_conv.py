"""The table of convolutions against PyTorch itself, on this machine's CPU."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

from dispatchcov.adapters import conv
from dispatchcov.adapters.command import agreement, reaches
from dispatchcov.errors import FactsError, UsageError
from dispatchcov.measure.table import Measure
from dispatchcov.observers.evidence import observe

torch = pytest.importorskip("torch")

OPERATOR = conv.operator()


def test_table_and_pytorch_agree_on_ten_thousand_random_calls() -> None:
    agreed, wrong = agreement(OPERATOR, 10_000, 2026, "cpu")
    assert (agreed, wrong) == (10_000, [])


def test_random_calls_reach_every_rule_of_the_cpu() -> None:
    rng, rules = random.Random(1), set()
    for _ in range(1500):
        call = conv.draw(rng, "cpu")
        with call.settings():
            rules.add(conv.table().decide(**conv.facts(*call.arguments)).rule)
    gpu = {"depthwise-cudnn", "depthwise-2d", "depthwise-3d", "cudnn-transpose", "cudnn"}
    assert rules == {rule.name for rule in conv.table().rules} - gpu


def test_the_witness_of_every_partition_of_the_cpu_goes_where_it_says() -> None:
    table = conv.table()
    worker = Measure(table, [], [], frozenset(), datetime.date.today(), False)
    here = conv.facts(*arguments(1, 2, 8, 8, weight=(2, 2, 3, 3)))
    worker.hardware = {tuple(here[name] for name in table.hardware)}
    asked = [
        p for p in table.partitions if p.name in ("nnpack", "mkldnn-large", "empty-channels", "slow-3d", "slow-2d")
    ]
    items = [worker.bin(partition, bin) for partition in asked for bin in partition.bins]
    items = [item for item in items if item.state == "missed"]
    assert len(items) == 10
    assert {item.label: reaches(OPERATOR, item, "cpu") for item in items} == {item.label: "" for item in items}


def arguments(*sizes: int, weight: tuple[int, ...], transposed: bool = False, groups: int = 1, step: int = 1) -> Any:
    ones = [1] * (len(sizes) - 2)
    zeros = [0] * (len(sizes) - 2)
    return torch.rand(sizes), torch.rand(weight), None, ones, zeros, [step] * len(ones), transposed, zeros, groups


@pytest.mark.parametrize(
    ("call", "kernel"),
    [
        (arguments(1, 2, 8, 8, weight=(2, 2, 3, 3)), "Slow2d"),
        (arguments(2, 2, 8, 8, weight=(2, 2, 3, 3)), "Mkldnn"),
        (arguments(2, 2, 8, 8, weight=(2, 2, 3, 3), transposed=True), "MkldnnTranspose"),
        (arguments(1, 2, 8, 8, weight=(2, 2, 3, 3), transposed=True), "SlowTranspose2d"),
        (arguments(1, 2, 8, 8, weight=(2, 2, 3, 3), step=2), "SlowDilated2d"),
        (arguments(1, 2, 8, 8, 8, weight=(2, 2, 3, 3, 3)), "Slow3d"),
        (arguments(1, 2, 8, weight=(2, 2, 3)), "Slow2d"),
        (arguments(1, 1, 143, 144, weight=(1, 1, 1, 2)), "Mkldnn"),
    ],
)
def test_what_ran_is_what_pytorch_said_and_the_table(call: tuple[Any, ...], kernel: str) -> None:
    facts = conv.facts(*call)
    with observe(conv.table(), facts=facts, kind="torch-operators") as seen:
        conv.convolution(*call)
    assert [one.ran for one in seen.calls] == [kernel]
    assert conv.kernel(*call) == kernel
    assert conv.table().decide(**facts).kernel == kernel


def test_switches_and_threads_are_put_back() -> None:
    call = arguments(16, 2, 8, 8, weight=(2, 2, 3, 3))
    before = conv.facts(*call)
    with conv.settings(before | {"mkldnn": False, "threads": 1}):
        made = conv.facts(*call)
        assert (made["mkldnn"], made["threads"]) == (False, 1)
        assert conv.kernel(*call) == conv.table().decide(**made).kernel != "Mkldnn"
    assert conv.facts(*call) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dims": 1, "height": 27}, "no convolution here has height=27, it would be 1"),
        ({"transposed": True, "in_per_group": 0}, "refuses a transposed convolution of no channels"),
        ({"device": "sm_90"}, "expected facts of cpu, got those of sm_90"),
    ],
)
def test_what_no_tensors_have_can_not_be_built(change: dict[str, Any], message: str) -> None:
    facts = conv.facts(*arguments(1, 2, 8, 8, weight=(2, 2, 3, 3)))
    with pytest.raises(UsageError, match=message):
        conv.build(facts | change, "cpu")


@pytest.mark.parametrize("dims", [2, 3])
def test_one_pixel_can_be_laid_out_with_the_channels_last(dims: int) -> None:
    one = (1,) * dims
    facts = conv.facts(*arguments(1, 2, *one, weight=(2, 1, *one), groups=2)) | {"channels_last": True}
    made = conv.build(facts, "cpu")
    assert conv.facts(*made.arguments) == facts


def test_an_input_without_a_batch_is_refused() -> None:
    call = arguments(1, 2, 8, 8, weight=(2, 2, 3, 3))
    with pytest.raises(FactsError, match=r"expected a dense input with batch .* got \(2, 8, 8\) and \(2, 2, 3, 3\)"):
        conv.facts(call[0][0], *call[1:])


@pytest.mark.parametrize(
    ("transposed", "given", "expected"),
    [
        (False, ((2, 8, 8), {"stride": 2, "padding": "same", "dilation": (2, 1)}), ([2, 2], [2, 1], [2, 1], [0, 0], 1)),
        (True, ((1, 2, 8, 8), {"output_padding": (1,), "groups": 2}), ([1, 1], [0, 0], [1, 1], [1, 1], 2)),
    ],
)
def test_samples_become_arguments_of_convolution(transposed: bool, given: Any, expected: Any) -> None:
    sizes, named = given
    weight = torch.rand(2, 2, 3, 3)
    made = conv._batched(2, transposed, torch.rand(sizes), weight, **named)
    assert made[0].dim() == 4
    assert (made[3], made[4], made[5], made[7], made[8]) == expected
    assert made[6] == transposed

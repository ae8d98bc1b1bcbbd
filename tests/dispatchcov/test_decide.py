from __future__ import annotations

import contextlib
import dis
import gc
import os
import signal
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchcov import decide, generate
from dispatchcov.decide import (
    DEFAULT_MACHINE,
    Decision,
    FallbackReason,
    View,
    activate,
    active,
    fallbacks,
    path,
    select,
)
from dispatchcov.errors import FactsError, UndefinedError
from dispatchcov.expr import Expr, Value
from dispatchcov.formula import blame, holds, leaves, pivotal, settle
from dispatchcov.loading.load import load_table, parse_table
from dispatchcov.recorder import Recorder
from dispatchcov.table import Table
from tests.dispatchcov.expressions import tables
from tests.dispatchcov.small_table import SMALL, changed

FP4 = load_table(Path(__file__).parent / "tables" / "fp4.toml")
SIZES: dict[str, Any] = {
    "M": 16,
    "N": 64,
    "K": 4080,
    "block_size": 16,
    "dtype": "float16",
    "bias": True,
    "sm": 90,
    "native": False,
}
FACTS: dict[str, Any] = {"N": 64, "sm": 80, "dtype": "float16", "bias": True}


class Noted:
    """A recorder that keeps what it is given."""

    def __init__(self) -> None:
        self.facts: list[tuple[Value, ...]] = []

    def note(self, view: View, facts: tuple[Value, ...]) -> Decision:
        self.facts.append(facts)
        return Decision(view.table, None)

    def judged(self, view: View) -> View:
        return view


# --- a decision without a recorder ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "rule", "kernel"),
    [
        ({"M": 0}, "empty", "Empty"),
        ({"K": 0}, "zero-k", "FillBias"),
        ({"M": 8, "K": 128}, "decode-mma", "Fp4MmaGemvKernel"),
        ({"M": 8, "K": 128, "sm": 75}, "decode-gemv", "Fp4GemvKernel"),
        ({"M": 1, "K": 96}, "decode-gemv", "Fp4GemvKernel"),
        ({"native": True, "sm": 121, "K": 4096}, "native-sm120", "NativeFp4Matmul"),
        ({}, "prefill-vec8", "DequantizeNvFp4Vec8Kernel"),
        ({"block_size": 5}, "prefill-scalar", "DequantizeNvFp4Kernel"),
    ],
)
def test_the_first_rule_whose_guard_holds(facts: dict[str, Any], rule: str, kernel: str) -> None:
    decision = FP4.decide(**{**SIZES, **facts})
    assert (decision.rule, decision.kernel, decision.table) == (rule, kernel, FP4)
    assert repr(decision) == f"<Decision {rule} -> {kernel}>"


def test_a_decision_without_a_recorder_is_ready_made() -> None:
    decision = FP4.decide(**SIZES)
    assert decision is FP4.decide(**SIZES)
    assert (decision.facts, decision.values, decision.vector, decision.machine) == (None, None, 0, "")
    with pytest.raises(FactsError, match=r"fp4ops::matmul_nvfp4: fallback reasons need a recorder; use table.explain"):
        _ = decision.fallbacks
    with decision.launch():
        pass
    with pytest.raises(ZeroDivisionError), decision.launch():
        raise ZeroDivisionError


def test_off_is_one_test_of_a_global_before_the_if_chain() -> None:
    passed = ("RESUME", "CACHE", "TO_BOOL")
    head = [i for i in dis.get_instructions(FP4.decide) if i.opname not in passed][:2]
    assert (head[0].opname, head[0].argval) == ("LOAD_GLOBAL", "_on")
    assert head[1].opname.startswith("POP_JUMP")


@pytest.mark.parametrize(
    ("facts", "message"), [({"K": None}, "missing 1 required keyword-only argument: 'K'"), ({"k": 4}, "'k'")]
)
def test_facts_that_are_not_those_of_the_table(facts: dict[str, Any], message: str) -> None:
    given = {name: value for name, value in {**SIZES, **facts}.items() if value is not None}
    with pytest.raises(TypeError, match=r"^decide\[fp4ops::matmul_nvfp4: M, N, K, \S.*\]\(\) ") as error:
        FP4.decide(**given)
    assert message in str(error.value)


def test_an_input_that_no_rule_takes() -> None:
    table = parse_table(changed(('name = "plain"\nkernel', 'name = "plain"\nwhen = "bias"\nkernel')))
    with pytest.raises(FactsError) as error:
        table.decide(**{**FACTS, "N": 1, "bias": False})
    assert str(error.value) == (
        "demo::scale: no rule takes N=1 sm=80 dtype=float16 bias=false; the last rule should have no 'when'"
    )


def test_a_division_by_zero_is_the_one_of_the_guard() -> None:
    table = parse_table(changed(("N % 4 == 0 and rows > 32", "bias and sm % N == 0")))
    with pytest.raises(ZeroDivisionError):
        table.decide(**{**FACTS, "N": 0})
    assert table.decide(**{**FACTS, "N": 0, "bias": False}).rule == "plain"


# --- what follows from the vector -------------------------------------------------------------------------------------


def vector_of(**facts: Any) -> tuple[dict[str, Value], int]:
    given = FP4.facts({**SIZES, **facts})
    return given, FP4.on("cpu").vector(tuple(given.values()))


def test_fallback_reasons() -> None:
    facts, vector = vector_of(M=16, K=4080)
    assert fallbacks(FP4, facts, vector) == (
        FallbackReason("empty", ("M == 0", "N == 0"), {"M": 16, "N": 64}, None),
        FallbackReason("zero-k", ("K == 0",), {"K": 4080}, "K == 0"),
        FallbackReason("decode-mma", ("M <= 8", "K % 128 == 0"), {"M": 16, "K": 4080}, None),
        FallbackReason("decode-gemv", ("M <= 8", "K % 32 == 0"), {"M": 16, "K": 4080}, None),
        FallbackReason(
            "native-sm120", ("native", "120 <= sm", "K % 32 == 0"), {"K": 4080, "sm": 90, "native": False}, None
        ),
    )
    facts, vector = vector_of(M=8, K=4096, sm=75)
    assert [(reason.rule, reason.sole) for reason in fallbacks(FP4, facts, vector)] == [
        ("empty", None),
        ("zero-k", "K == 0"),
        ("decode-mma", "sm >= 80"),
    ]
    assert str(fallbacks(FP4, facts, vector)[2]) == "decode-mma: sm >= 80 is false (sm=75)"


def test_a_predicate_that_held_can_count_against_a_rule() -> None:
    table = parse_table(changed(("N % 4 == 0 and rows > 32", "not (bias or sm == 80) and N > 3")))
    values = tuple(FACTS.values())
    vector = table.on("cpu").vector(values)
    (reason,) = fallbacks(table, FACTS, vector)
    assert reason == FallbackReason("vec4", ("not (bias)", "not (sm == 80)"), {"sm": 80, "bias": True}, None)
    (reason,) = fallbacks(table, FACTS, vector ^ 1)
    assert (reason.failed, reason.sole) == (("not (sm == 80)",), "sm == 80")


def test_a_sole_reason_alone_would_select_the_rule() -> None:
    table = parse_table(changed(("N % 4 == 0 and rows > 32", "(N > 1 and bias) or sm == 80")))
    soles = {vector: fallbacks(table, FACTS, vector)[0].sole for vector in (0b000, 0b001, 0b010)}
    assert soles == {0b000: "sm == 80", 0b001: None, 0b010: None}


@settings(max_examples=100, deadline=None)
@given(tables(), st.integers(0, 1 << 40))
def test_path_and_fallbacks_follow_the_guards(made: tuple[Table, list[Expr]], vector: int) -> None:
    table, _ = made
    vector &= (1 << len(table.predicates)) - 1
    facts: dict[str, Value] = {"M": 1, "N": 2, "d": "x", "b": True, "c": False}
    index = select(table, vector)
    rule, settled = path(table, vector)
    assert rule == index
    passed = table.rules[:index]
    assert [holds(each.guard, vector) for each in passed] == [False] * len(passed)
    assert index is None or holds(table.rules[index].guard, vector)
    assert list(settled) == [settle(each.guard, vector)[1] for each in passed]
    reasons = fallbacks(table, facts, vector)
    assert [reason.rule for reason in reasons] == [each.name for each in passed]
    for reason, each in zip(reasons, passed, strict=True):
        against = blame(each.guard, vector)
        texts = [table.predicates[i].text for i in against]
        held = [bool(vector >> i & 1) for i in against]
        assert list(reason.failed) == [f"not ({text})" if bit else text for text, bit in zip(texts, held, strict=True)]
        assert set(reason.values) == {name for i in against for name in table.predicates[i].reads}
        alone = [table.predicates[i].text for i in leaves(each.guard) if pivotal(each.guard, i, vector)]
        assert reason.sole == (alone[0] if len(alone) == 1 else None)


DIVIDES = parse_table(SMALL.replace('when = "', 'when = "64 // (sm - 80) < N and ', 1))


@pytest.mark.parametrize("recording", [False, True])
def test_facts_that_a_predicate_cannot_read(recording: bool) -> None:
    wrong = FACTS | {"sm": 80}
    with Recorder(None) if recording else contextlib.nullcontext():
        with pytest.raises(UndefinedError) as error:
            DIVIDES.decide(**wrong)
        assert str(error.value).endswith(": 64 // (sm - 80) < N divides by zero for N=64 sm=80 dtype=float16 bias=true")
        assert isinstance(error.value, ZeroDivisionError)
        for table in (DIVIDES, parse_table(SMALL)):
            for value in (None, "4", [4]):
                with pytest.raises(FactsError, match=r"expected N to be an integer >= 0, got (NoneType|str|list)"):
                    table.decide(**FACTS | {"N": value})


def test_a_decision_in_compiled_code_is_made_each_time_it_runs() -> None:
    torch = pytest.importorskip("torch")
    table = parse_table(SMALL)

    def scale(x: Any) -> Any:
        with table.decide(**FACTS | {"N": x.shape[0]}).launch():
            return x * 2

    with Recorder(None) as recorder:
        compiled = torch.compile(scale, backend="eager")
        for n in (4, 8, 8, 7):
            assert compiled(torch.ones(n)).sum() == 2 * n
        assert sum(recorder.counts[cell.slot] for cell in recorder.context.cells) == 4
    torch._dynamo.reset()
    with pytest.raises(Exception, match="each time that the code runs"):
        torch.compile(scale, backend="eager", fullgraph=True)(torch.ones(4))


# --- recorders come and go --------------------------------------------------------------------------------------------


def test_a_kept_reference_records_while_a_recorder_is_on() -> None:
    table = parse_table(SMALL)
    kept, on_gpu = table.decide, table.on("gpu").decide
    assert kept(**FACTS).facts is None
    for _ in range(2):
        with Recorder(None) as recorder:
            assert active() is recorder
            decision = kept(**FACTS)
            assert (decision.rule, decision.facts, decision.machine) == ("vec4", FACTS, DEFAULT_MACHINE)
            assert on_gpu(**FACTS).machine == "gpu"
            assert table.on("later").decide(**FACTS).machine == "later"
        assert active() is None
        assert kept(**FACTS).facts is on_gpu(**FACTS).facts is table.on("later").decide(**FACTS).facts is None


def test_a_kept_reference_outlives_its_table() -> None:
    kept = parse_table(SMALL).decide
    gc.collect()
    with Recorder(None):
        assert kept(**FACTS).facts == FACTS
    assert kept(**FACTS).facts is None


def test_activate_hands_back_the_one_before() -> None:
    first, second = Noted(), Noted()
    table = parse_table(SMALL)
    before = activate(first)
    try:
        table.decide(**FACTS)
        assert activate(second) is first
        table.decide(**FACTS)
        table.decide(**FACTS)
        assert activate(first) is second
    finally:
        activate(before)
    assert (len(first.facts), len(second.facts)) == (1, 2)
    assert first.facts == [tuple(FACTS.values())]


def test_a_recorder_that_is_off_is_let_go() -> None:
    table = parse_table(SMALL)
    recorder = Noted()
    gone = weakref.ref(recorder)
    before = activate(recorder)
    table.decide(**FACTS)
    activate(before)
    del recorder
    gc.collect()
    assert gone() is None


def test_a_decision_under_way_when_the_recorder_goes_is_taken() -> None:
    """A thread may have seen the flag before it fell: what it calls then decides without recording."""
    table = parse_table(SMALL)
    names = table.decide.__globals__
    names["_on"] = True
    try:
        assert table.decide(**FACTS).rule == "vec4"
    finally:
        names["_on"] = False


def run(*works: Any) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_get_one_view_each_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread asks while the first makes the view, and gets the same one."""
    table = parse_table(SMALL)
    making, got = threading.Event(), threading.Event()
    found: list[View] = []
    namespace = generate.namespace

    def slow(*arguments: Any) -> dict[str, Any]:
        making.set()
        got.wait(0.3)
        return namespace(*arguments)

    def second() -> None:
        making.wait()
        found.append(table.on("gpu"))
        got.set()

    monkeypatch.setattr(generate, "namespace", slow)
    run(lambda: found.append(table.on("gpu")), second)
    assert len(found) == 2
    assert found[0] is found[1] is table.on("gpu")


def test_a_view_made_while_a_recorder_is_turned_on_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The view has asked which recorder is on, none, but has not been told when one is turned on."""
    table = parse_table(SMALL)
    asked, turned_on = threading.Event(), threading.Event()
    recorder = Noted()
    send = View.send

    def slow(view: View, recording: Any) -> None:
        if view.machine == "gpu" and not asked.is_set():
            asked.set()
            turned_on.wait(0.3)
        send(view, recording)

    def turn_on() -> None:
        asked.wait()
        activate(recorder)
        turned_on.set()

    monkeypatch.setattr(View, "send", slow)
    before = activate(None)
    try:
        run(lambda: table.on("gpu"), turn_on)
        table.on("gpu").decide(**FACTS)
    finally:
        activate(before)
    assert recorder.facts == [tuple(FACTS.values())]


def test_many_views_made_while_recorders_come_and_go() -> None:
    table = parse_table(SMALL)
    views: list[View] = []
    recorder = Noted()

    def make(name: str) -> None:
        views.extend(table.on(f"{name} {i}") for i in range(60))

    def switch() -> None:
        for _ in range(150):
            activate(recorder)
            activate(None)
        activate(recorder)

    before = activate(None)
    try:
        run(lambda: make("a"), switch, lambda: make("b"))
        for view in views:
            view.decide(**FACTS)
    finally:
        activate(before)
    assert len(recorder.facts) == len(views) == 120
    assert {view.decide(**FACTS).rule for view in views} == {"vec4"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_while_another_thread_makes_a_view_can_make_one() -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with decide._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if parse_table(SMALL).on("child").decide(**FACTS).rule == "vec4" else 1)
    release.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_names_that_other_modules_import() -> None:
    assert all(hasattr(decide, name) for name in decide.__all__)
    assert {"Decision", "FallbackReason", "View", "explain", "may_divide_by_zero", "show"} <= set(decide.__all__)

"""ONNX Runtime's MatMulBlockQuantizedFp4Weight, a library that is only called.

``python -m dispatchcov.adapters.ort_fp4`` reports on the calls that were recorded on an H200 (``ort_fp4.jsonl``), by
the table ``ort_fp4.toml`` or one of your own. ``--observe`` makes the same calls here, where onnxruntime-gpu can be
imported.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dispatchcov import store
from dispatchcov.blackbox import BlackBox
from dispatchcov.decide import View
from dispatchcov.errors import DispatchcovError, UsageError
from dispatchcov.expr import Value
from dispatchcov.gate import judge
from dispatchcov.loading.load import load_table
from dispatchcov.observers.called import Called, seen, tell
from dispatchcov.recorder import Recorder
from dispatchcov.report import render
from dispatchcov.results import Results
from dispatchcov.table import Table

FOLDER = os.path.dirname(__file__)
SHAPE = ("M", "N", "K", "block_size", "dtype", "bias")
INPUTS = ("A", "B", "weight_scale", "weight_scale_2", "input_scale", "bias")  # of the operator, by its schema in 1.31.1
MACHINE = "NVIDIA H200"


@functools.cache
def table() -> Table:
    """The table of version 1.31.1."""
    return load_table(os.path.join(FOLDER, "ort_fp4.toml"))


def recorded() -> Iterator[tuple[str, dict[str, Value], tuple[str, ...]]]:
    """The calls that were recorded: a name, the facts, and the symbols of the kernels that ran."""
    with open(os.path.join(FOLDER, "ort_fp4.jsonl"), encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    for number, line in enumerate(lines[1:]):
        facts = {name: line[name] for name in SHAPE} | {"decode": True, "sm": 90}
        yield f"{line['name']}#{number}", facts, tuple(line["symbols"])


def replay(of: Table, data: str) -> None:
    """Record those calls into ``data``, by the table ``of``; raises :class:`FactsError` if it has other variables."""
    view = View.of(of, MACHINE)
    with Recorder(data) as recorder:
        for name, facts, symbols in recorded():
            recorder.enter(name, "call")
            called = Called.of(view, {key: value for key, value in facts.items() if key in of.names})
            tell(recorder, called, seen(called, symbols))
            recorder.outcome(name, "passed")


def observe(of: Table, data: str) -> None:
    """Make the same calls with ONNX Runtime and record what the profiler sees; raises :class:`UsageError` if it can not
    be imported, or has no GPU here.
    """
    for module in ("onnxruntime", "onnx", "numpy"):
        if importlib.util.find_spec(module) is None:
            raise UsageError(f"observing ONNX Runtime: {module} is not importable; expected onnxruntime-gpu and onnx")
    import torch  # before ONNX Runtime, which finds CUDA's libraries loaded then

    import onnxruntime  # type: ignore[import-not-found, unused-ignore] # isort: skip

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise UsageError("observing ONNX Runtime: expected its CUDAExecutionProvider, got none")
    major, minor = torch.cuda.get_device_capability()
    with Recorder(data) as recorder:
        for name, facts, _ in recorded():
            here = facts | {"sm": 10 * major + minor}
            call = prepared(here)
            call()  # what runs once, such as a search for the best GEMM, is not the call's
            recorder.enter(name, "call")
            given = {key: value for key, value in here.items() if key in of.names}
            with BlackBox(of, facts=given, machine=torch.cuda.get_device_name()):
                call()
            recorder.outcome(name, "passed")


def operands(bias: bool) -> list[str]:
    """What a model gives the operator, in the order of its inputs; ``""`` for one that is left out."""
    given = {"A": "a", "B": "weight", "weight_scale": "scale", "weight_scale_2": "scale_2"}
    return [(given | {"bias": "b"}).get(name, "") for name in INPUTS] if bias else list(given.values())


def prepared(facts: Mapping[str, Value]) -> Callable[[], Any]:
    """A call of the operator with the shape of ``facts``, ready to be made."""
    import numpy
    import onnx  # type: ignore[import-not-found, unused-ignore]
    import onnxruntime

    rows, columns, inner, block = (int(facts[name]) for name in ("M", "N", "K", "block_size"))
    kind = onnx.TensorProto.FLOAT16 if facts["dtype"] == "float16" else onnx.TensorProto.BFLOAT16
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Cast", ["A"], ["a"], to=kind),
        *([node("Cast", ["bias"], ["b"], to=kind)] if facts["bias"] else []),
        node(
            "MatMulBlockQuantizedFp4Weight",
            operands(bool(facts["bias"])),
            ["y"],
            domain="com.microsoft",
            block_size=block,
        ),
        node("Cast", ["y"], ["Y"], to=onnx.TensorProto.FLOAT),
    ]
    inputs: dict[str, Any] = {
        "A": numpy.ones((rows, inner), numpy.float32),
        "weight": numpy.full((columns, inner // 2), 0x22, numpy.uint8),
        "scale": numpy.full((columns, -(-inner // block)), 0x38, numpy.uint8),
        "scale_2": numpy.ones(1, numpy.float32),
        "bias": numpy.ones(columns, numpy.float32),
    }
    if not facts["bias"]:
        del inputs["bias"]
    types = {"uint8": onnx.TensorProto.UINT8, "float32": onnx.TensorProto.FLOAT}
    graph = onnx.helper.make_graph(
        nodes,
        "one",
        [value(name, types[str(array.dtype)], array.shape) for name, array in inputs.items()],
        [value("Y", onnx.TensorProto.FLOAT, (rows, columns))],
    )
    sets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=sets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
    return lambda: session.run(None, inputs)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; exit status 2 if the gate fails, 1 for a mistake."""
    parser = argparse.ArgumentParser(description="ONNX Runtime's FP4 matmul: what ran, by a table")
    parser.add_argument("--table", default="", metavar="FILE", help="another table than that of version 1.31.1")
    parser.add_argument(
        "--observe", action="store_true", help="make the calls here instead of reading the recorded ones"
    )
    given = parser.parse_args(argv)
    try:
        of = load_table(given.table) if given.table else table()
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "records")
            (observe if given.observe else replay)(of, data)
            results = Results.of(store.load(data), [of])
        verdict = judge(results)
        print(render("term", results, verdict))
        return 0 if verdict.ok else 2
    except DispatchcovError as error:
        print(f"dispatchcov: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())

from __future__ import annotations

import json

import jsonschema
import pytest

from dispatchcov.gate import judge
from dispatchcov.loading.load import parse_table
from dispatchcov.records import Data
from dispatchcov.report.json import render, schema
from dispatchcov.results import Results
from tests.dispatchcov.build import SMALL, data, row

TABLE = parse_table(SMALL, source="small.toml")
WAIVED = parse_table(SMALL + '[[waiver]]\npartition = "ragged"\nreason = "later"\nexpires = 2126-06-30\n')
RECORDS = {
    "nothing": Data(),
    "no decisions": data(TABLE),
    "hits": data(TABLE, row(TABLE, N=4, aligned=True, dtype="float16", launched=1, checked=1)),
    "partial": data(TABLE, row(TABLE, N=4, aligned=True, dtype="float16"), partial=("interrupted",)),
    "mismatch": data(TABLE, row(TABLE, N=4, aligned=True, dtype="float16", kernel="Other")),
    "waived": data(WAIVED, row(WAIVED, N=4, aligned=True, dtype="float16")),
}


@pytest.mark.parametrize("records", RECORDS.values(), ids=RECORDS)
def test_the_report_is_what_its_schema_says(records: Data) -> None:
    results = Results.of(records)
    document = json.loads(render(results, judge(results)))
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.Draft202012Validator(schema()).validate(document)


def test_what_it_says() -> None:
    results = Results.of(RECORDS["hits"])
    document = json.loads(render(results, judge(results)))
    table = document["tables"]["demo::scale"]
    assert document["meta"]["format"] == 1
    assert document["meta"]["machines"] == ["cpu"]
    assert (table["digest"], table["source"]) == (TABLE.digest, "small.toml")
    hit, missed, ragged = table["partitions"]
    assert (hit["name"], hit["bin"], hit["state"], hit["hits"]) == ("vec4", "dtype=float16", "hit", 1)
    assert (hit["evidence"], hit["tests"], hit["line"]) == (["selected", "launched", "checked"], ["t.py::test"], 21)
    assert (missed["state"], missed["witness"]) == ("missed", {"N": 0, "aligned": True, "dtype": "float32"})
    assert ragged["rule"] == ["scalar"]
    assert document["totals"]["partitions"] == {"covered": 1, "total": 3, "percent": 33.33}
    assert document["gate"]["ok"] is False
    assert len(document["gate"]["failures"]) == 2


def test_the_schema_refuses_what_the_report_never_says() -> None:
    results = Results.of(RECORDS["hits"])
    document = json.loads(render(results, judge(results)))
    document["tables"]["demo::scale"]["partitions"][0]["state"] = "covered"
    with pytest.raises(jsonschema.ValidationError, match="'covered' is not one of"):
        jsonschema.Draft202012Validator(schema()).validate(document)

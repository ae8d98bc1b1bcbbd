"""Coverage weighed by a real workload: of its calls, and of the time its kernels took, which share takes paths that
tests take too?
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dispatchcov import decide, places
from dispatchcov.errors import DataError, DigestError
from dispatchcov.files import fitting
from dispatchcov.items import Item, Weight, Weights
from dispatchcov.loading.load import parse_table
from dispatchcov.records import COUNTED, Data, Row
from dispatchcov.results import Results, TableResults
from dispatchcov.space.paths import region_name
from dispatchcov.table import Table

Path = tuple[int | None, tuple[int, ...]]


def weighed(results: Results, file: str) -> Results:
    """``results`` with what the workload recorded in the data file ``file`` weighs.

    They stay as they are for ``""``, and where no table was met.
    """
    if not file or not results.tables:
        return results
    from dispatchcov import store

    return replace(results, weights=weigh(results, store.load(file), places.from_here(file)))


def weigh(results: Results, workload: Data, source: str) -> Weights:
    """Weigh ``results`` by the decisions of ``workload``, which were recorded outside tests or in passing ones.

    Raises :class:`DigestError` if it was recorded with another version of a table, :class:`DataError` if it has no
    decision of one of the tables.
    """
    regions: list[Weight] = []
    for table in results.tables:
        regions += _regions(table, _rows(table.table, workload, source))
    if not regions:
        ops = ", ".join(table.table.op for table in results.tables) or "none"
        raise DataError(f"{source}: expected decisions of a workload by one of the tables judged ({ops}), got none")
    regions.sort(key=lambda each: (-each.nanoseconds, -each.calls, each.op, each.region))
    untimed = sum(region.calls for region in regions if not region.nanoseconds)
    seen = any(region.nanoseconds for region in regions)
    note = f"{untimed} calls are in regions whose kernels no profiler saw: they weigh nothing"
    return Weights(source, tuple(regions), (note,) if seen and untimed else ())


def _rows(table: Table, workload: Data, source: str) -> list[Row]:
    """The rows of ``table``, also those recorded with other requirements on the same rules: as ``table`` sees them."""
    view = decide.View.of(table, decide.DEFAULT_MACHINE)
    found: list[Row] = []
    for recorded in workload.tables:
        if recorded.op != table.op:
            continue
        rows = [row for row in workload.rows if row.digest == recorded.digest]
        other = recorded.digest != table.digest
        if other and parse_table(recorded.text, source=recorded.source).rules_digest != table.rules_digest:
            raise DigestError(
                f"{table.op}: {table.source} has digest {table.digest[:12]}, the workload {source} was recorded "
                f"with {recorded.digest[:12]}, whose rules are others; record it again"
            )
        fitting.refuse(table, rows)
        found += [row._replace(vector=view.vector(row.inputs[0])) for row in rows] if other else rows
    return found


def _regions(results: TableResults, rows: Iterable[Row]) -> list[Weight]:
    table = results.table
    by_path: dict[Path, list[Row]] = defaultdict(list)
    for row in rows:
        if row.phase in COUNTED and row.selected and not decide.outside(table, row.vector):
            by_path[decide.path(table, row.vector)].append(row)
    items = {item.label: item for item in results.regions}
    return [_weight(table, path, found, items.get(region_name(table, *path))) for path, found in by_path.items()]


def _weight(table: Table, path: Path, rows: Sequence[Row], item: Item | None) -> Weight:
    heaviest = max(rows, key=lambda row: (row.nanoseconds, row.selected, row.inputs))
    rule = table.rules[path[0]] if path[0] is not None else None
    return Weight(
        table.op,
        region_name(table, *path),
        rule.name if rule else "",
        rule.kernel.name if rule else "",
        sum(row.selected for row in rows),
        sum(row.nanoseconds for row in rows),
        tuple(sorted({row.machine for row in rows})),
        dict(zip(table.names, heaviest.inputs[-1], strict=True)),
        item.state if item else "missed",
        item.reach.evidence if item else (),
        item.reach.tests if item else (),
    )

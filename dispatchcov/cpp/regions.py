"""The regions of a table in its C++ header: which of them facts are in, by the path that they take."""

from __future__ import annotations

from collections.abc import Iterator

from dispatchcov.cpp.expr import bare
from dispatchcov.cpp.parts import Pieces
from dispatchcov.formula import ALWAYS
from dispatchcov.regions import Space


def region_lines(pieces: Pieces) -> Iterator[str]:
    """``region``, which gives the index that ``dispatchcov regions`` shows.

    A path is the number of the selected rule (that of rules for none) and, for each earlier rule, the predicate that
    settled that it was not selected.
    """
    table = pieces.table
    count = len(table.rules)
    regions = Space.of(table).regions
    paths = [[count if region.rule is None else region.rule, *region.settled] for region in regions]
    yield "namespace internal {\n"
    yield f"inline constexpr std::int16_t paths[{max(len(paths), 1)}][{count + 1}] = {{"
    yield from (f"    {{{', '.join(map(str, path))}}}," for path in paths or [[-1]])
    yield "};\n"
    yield f"constexpr int region_of(int rule, const int (&settled)[{count}]) {{"
    yield f"    for (int i = 0; i < {len(paths)}; ++i) {{\n        bool same = paths[i][0] == rule;"
    yield f"        for (int k = 0; same && k < rule && k < {count}; ++k) same = paths[i][k + 1] == settled[k];"
    yield "        if (same) return i;\n    }\n    return -1;\n}\n\n}  // namespace internal\n"
    yield "// The index of the region of `f` as `dispatchcov regions` lists them, -1 for one that is not listed."
    yield "constexpr int region(const Facts& f) {\n    [[maybe_unused]] const Vector v = vector(f);"
    yield f"    int settled[{count}] = {{}}, last = -1;"
    yield "    [[maybe_unused]] const auto read = [&](int predicate) { return last = predicate, v[predicate]; };"
    for rule in table.rules:
        found = f"return internal::region_of({rule.index}, settled);"
        if rule.guard == ALWAYS:
            yield f"    {found}\n}}\n"
            break
        yield f"    if ({bare(pieces.guard(rule.guard, 'read({})'.format))}) {found}"
        yield f"    settled[{rule.index}] = last, last = -1;"
    else:
        yield f"    return internal::region_of({count}, settled);\n}}\n"

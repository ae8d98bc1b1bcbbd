"""A small valid table, to be changed in one place, and its text with that change."""

from __future__ import annotations

SMALL = """\
[table]
op = "demo::scale"
[variables]
N = { type = "int", min = 0 }
sm = { type = "int", values = [80, 90], hardware = true }
dtype = { type = "enum", values = ["float16", "float32"] }
bias = { type = "bool" }
[let]
rows = "max(32, N)"
[[kernel]]
name = "Vec4"
symbol = "Vec4<{dtype}>"
requires = "N % 4 == 0"
[[kernel]]
name = "Plain"
[[rule]]
name = "vec4"
when = "N % 4 == 0 and rows > 32"
kernel = "Vec4"
splits = ["N >= 1024"]
[[rule]]
name = "plain"
kernel = "Plain"
[[partition]]
name = "big"
rule = "vec4"
where = "N > 4096"
cross = ["dtype"]
[[waiver]]
partition = "big"
reason = "no memory"
expires = 2030-01-31
"""


def changed(*replacements: tuple[str, str]) -> str:
    """The small table with each first text, which is there once, replaced by the second."""
    text = SMALL
    for old, new in replacements:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return text

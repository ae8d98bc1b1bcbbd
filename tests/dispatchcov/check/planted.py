"""Tables with a planted fault of the kinds that public projects had, each with its repair.

Variables without a largest value get one in ``most``, small enough to try every input and large enough for the fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dispatchcov.loading.load import parse_table
from dispatchcov.table import Table


@dataclass(frozen=True)
class Planted:
    """``rules`` are ``name: kernel if guard`` lines, ``kernels`` ``name: contract`` lines; ``found`` is what ``check``
    must say, ``kind name`` of a rule or partition; ``repair`` replaces one text, which is there once, by another.
    """

    variables: str
    kernels: str
    rules: str
    found: tuple[str, ...]
    repair: tuple[str, str]
    most: dict[str, int] = field(default_factory=dict)
    lets: str = ""
    partitions: str = ""

    def table(self, *, repaired: bool = False, bounded: bool = False) -> Table:
        text = "\n".join(["[table]\nop = 'planted::table'\n[variables]", *map(_variable, self.variables.split("; "))])
        text += "\n[let]\n" + "\n".join(f'{name} = "{tree}"' for name, tree in _pairs(self.lets, " = "))
        for name, requires in _pairs(self.kernels, ":"):
            text += f"\n[[kernel]]\nname = '{name}'" + (f'\nrequires = "{requires}"' if requires else "")
        for name, rest in _pairs(self.rules, ":"):
            kernel, _, guard = rest.partition(" if ")
            text += f"\n[[rule]]\nname = '{name}'\nkernel = '{kernel}'" + (f'\nwhen = "{guard}"' if guard else "")
        for name, rest in _pairs(self.partitions, ":"):
            rule, _, where = rest.partition(" where ")
            text += f"\n[[partition]]\nname = '{name}'\nrule = '{rule}'\nwhere = \"{where}\""
        if repaired:
            assert text.count(self.repair[0]) == 1, self.repair
            text = text.replace(*self.repair)
        for name, last in self.most.items() if bounded else ():
            text = re.sub(rf"(?m)^({name} = {{ type = 'int', min = -?\d+)(, max = \d+)?", rf"\1, max = {last}", text)
        return parse_table(text)


def _pairs(text: str, sign: str) -> list[tuple[str, str]]:
    parts = [line.strip().partition(sign) for line in text.strip().splitlines()]
    return [(name.strip(), rest.strip()) for name, _, rest in parts if name]


def _variable(text: str) -> str:
    """``M``, ``K 0 step 2``, ``d -40 to 40``, ``flag?``, ``dtype: a b c``; ``sm`` is the hardware."""
    if text == "sm":
        return "sm = { type = 'int', values = [75, 80, 86, 89, 90, 100, 103, 110, 120, 121], hardware = true }"
    if text.endswith("?"):
        return f"{text[:-1]} = {{ type = 'bool' }}"
    name, _, values = text.partition(": ")
    if values:
        return f"{name} = {{ type = 'enum', values = {values.split()} }}"
    words = text.split()
    found = f"{words[0]} = {{ type = 'int', min = {words[1] if len(words) > 1 else 1}"
    found += f", max = {words[words.index('to') + 1]}" if "to" in words else ""
    found += f", multiple_of = {words[words.index('step') + 1]}" if "step" in words else ""
    return found + " }"


PLANTED = {
    "two switches": Planted(
        "M; K 0 step 2; fast?; fixed?",
        "atomic: not fixed and K % 16 == 0\nordered: K % 16 == 0\nplain:",
        "atomic: atomic if fast and K % 16 == 0\nordered: ordered if fixed and K % 16 == 0\nplain: plain",
        ("contract atomic",), ("fast and K", "fast and not fixed and K"), {"M": 3, "K": 40},
    ),
    "capability range": Planted(
        "sm; head_dim 8 step 8; S 0",
        "wgmma: 90 <= sm < 100 and head_dim <= 256\ntcgen: 100 <= sm <= 110 and head_dim in [64, 128]\n"
        "mma: sm >= 80\nno:",
        "wgmma: wgmma if 90 <= sm < 110 and head_dim <= 256\n"
        "tcgen: tcgen if sm >= 100 and sm < 120 and head_dim in [64, 128]\nmma: mma if sm >= 80\nno: no",
        ("contract wgmma",), ("sm < 110 and", "sm < 100 and"), {"head_dim": 320, "S": 2},
    ),
    "narrow capability": Planted(
        "sm; M", "fast: 80 <= sm < 120\nslow:", "fast: fast if 90 <= sm < 120 and M <= 64\nslow: slow",
        ("narrow fast",), ("90 <= sm < 120 and M", "80 <= sm < 120 and M"), {"M": 70},
    ),
    "alignment of an offset": Planted(
        "offset 0; stride; cols", "vec4: (offset + stride) % 4 == 0 and cols % 4 == 0\nscalar:",
        "vec4: vec4 if offset % 4 == 0 and cols % 4 == 0\nscalar: scalar",
        ("contract vec4",), ('when = "offset % 4', 'when = "stride % 4 == 0 and offset % 4'),
        {"offset": 9, "stride": 9, "cols": 9},
    ),
    "rows at an offset": Planted(
        "base 0; row 0; ld", "k: (base + row * ld) % 16 == 0\nr:", "k: k if base % 16 == 0 and ld % 8 == 0\nr: r",
        ("contract k",), ("ld % 8", "ld % 16"), {"base": 17, "row": 3, "ld": 17},
    ),
    "derived tile": Planted(
        "M; N; K", "tiled: N % tile == 0\nragged:", "tiled: tiled if N % 16 == 0 and K >= 4\nragged: ragged",
        ("contract tiled",), ("N % 16 == 0 and K", "N % tile == 0 and K"), {"M": 70, "N": 70, "K": 5},
        "tile = min(64, max(16, M // 4 * 4))",
    ),
    "two tiles at once": Planted(
        "M; N", "k: N % (2 * tile) == 0\nr:", "k: k if N % tile == 0\nr: r",
        ("contract k",), ('when = "N % tile', 'when = "N % (2 * tile)'), {"M": 40, "N": 70},
        "tile = min(32, max(8, M))",
    ),
    "product one past": Planted(
        "a 0; b 0", "narrow: a * b < 4096\nwide:", "narrow: narrow if a <= 64 and b <= 64\nwide: wide",
        ("contract narrow",), ("a <= 64 and", "a <= 63 and"), {"a": 90, "b": 90},
    ),
    "product of three": Planted(
        "M; N; K", "k: M * N * K < 2147483648\nr:", "k: k if M * N < 2147483648 and K <= 128\nr: r",
        ("contract k",), ("M * N < 2147483648 and", "M * N < 16777216 and"),
    ),
    "grid of tiles": Planted(
        "M; N", "k: ceildiv(M, 128) * ceildiv(N, 128) <= 65535\nr:", "k: k if M <= 32768 and N <= 32768\nr: r",
        ("contract k",), ("M <= 32768 and", "M <= 32640 and"),
    ),
    "square": Planted("M", "k: M * M < 4294967296\nr:", "k: k if M < 65537\nr: r", ("contract k",), ("65537", "65536")),
    "blocks of K": Planted(
        "K; block 1 to 64; R 0", "grid: ceildiv(K, block) <= 20\nloop:", "grid: grid if K // block <= 20\nloop: loop",
        ("contract grid",), ("K // block", "ceildiv(K, block)"), {"K": 300, "block": 64, "R": 1},
    ),
    "negative divisors": Planted(
        "d -40 to 40; K", "down: d % -8 == 0 and d // -4 >= 2\nup:", "down: down if d % 4 == 0 and d <= -8\nup: up",
        ("contract down",), ("d % 4", "d % 8"), {"K": 3},
    ),
    "or": Planted(
        "M; N; dtype: fp16 bf16 fp8; swap?", "small: (M <= 16 or N <= 16) and dtype in ['fp16', 'bf16']\nbig:",
        "small: small if M <= 16 and dtype != 'fp8' or N <= 16 and swap\nbig: big",
        ("contract small",), ("N <= 16 and swap", "N <= 16 and dtype != 'fp8' and swap"), {"M": 40, "N": 40},
    ),
    "not": Planted(
        "G 0; causal?", "full: not causal and G == 0\nmasked: G <= 4\nany:",
        "full: full if not (causal or G > 1)\nmasked: masked if not G > 4\nany: any",
        ("contract full",), ("causal or G > 1", "causal or G > 0"), {"G": 9},
    ),
    "in": Planted(
        "layout: NHWC NCHW CHWN; C", "last: layout == 'NHWC' and C % 8 == 0\nplanar: layout in ['NCHW', 'CHWN']\nany:",
        "last: last if layout in ['NHWC', 'CHWN'] and C % 8 == 0\nplanar: planar if layout != 'NHWC'\nany: any",
        ("contract last",), ("layout in ['NHWC', 'CHWN'] and", "layout in ['NHWC'] and"), {"C": 40},
    ),
    "chained min and max": Planted(
        "M; N", "k: 32 <= min(M, N) and max(M, N) <= 128\nr:", "k: k if 32 <= M <= 128 and 16 <= N <= 128\nr: r",
        ("contract k",), ("16 <= N", "32 <= N"), {"M": 140, "N": 140},
    ),
    "rows of warps": Planted(
        "M; warps 1 to 8", "k: M % (warps * 4) == 0\nr:", "k: k if M % warps == 0 and M % 4 == 0\nr: r",
        ("contract k",), ("M % warps == 0 and M % 4", "M % (4 * warps)"), {"M": 70, "warps": 8},
    ),
    "narrow alignment": Planted(
        "K; N; on?", "fast: K % 16 == 0 and N % 8 == 0\nslow:",
        "fast: fast if on and K % 64 == 0 and N % 8 == 0\nslow: slow",
        ("narrow fast",), ("K % 64", "K % 16"), {"K": 130, "N": 20},
    ),
    "dead behind three": Planted(
        "M; x?; y?", "k:",
        "a: k if x and M <= 8\nb: k if not x and y\nc: k if M > 8 or not y\nd: k if x or y\ne: k",
        ("dead d", "dead e"), ("M > 8 or not y", "M > 8 and not y"), {"M": 20},
    ),
    "gap": Planted(
        "M; N", "a:\nb:", "a: a if M % 2 == 0\nb: b if M % 2 == 1 and N >= 2",
        ("untotal None",), ("M % 2 == 1 and N >= 2", "M % 2 != 0"), {"M": 9, "N": 9},
    ),
    "division by zero": Planted(
        "N 0; tile 0 to 4", "t:\ng:", "t: t if N % tile == 0\ng: g",
        ("untotal t",), ("N % tile", "tile > 0 and N % tile"), {"N": 9},
    ),
    "dead partition": Planted(
        "M; N", "k:\nr:", "k: k if M <= 8\nr: r",
        ("dead p",), ("M < 8 and", "M < 18 and"), {"M": 20, "N": 9}, partitions="p: r where M < 8 and N > 3",
    ),
    "duplicate partition": Planted(
        "M; N", "k:\nr:", "k: k if M <= 8\nr: r", ("duplicate q",), ("M < 5", "M < 6"), {"M": 20, "N": 9},
        partitions="p: k where not M > 4\nq: k where M < 5",
    ),
}  # fmt: skip

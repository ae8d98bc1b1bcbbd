"""Random functions that dispatch, as Python and as C++: nested ifs, early returns, locals, ternaries, switches."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

INTEGERS = ("a", "b", "c")
TEXTS = ("x", "y", "z")
PARAMETERS = (*INTEGERS, "e", "flag")


class Program:
    """A function ``pick`` over :data:`PARAMETERS`, the same in both languages but for how they divide."""

    def __init__(self, seed: int, cpp: bool) -> None:
        self.random = random.Random(seed)
        self.cpp = cpp
        self.locals: list[str] = []
        self.here: set[str] = set()  # declared in the innermost block
        self.returns = 0
        self.rounding = "/" if cpp else "//"

    def text(self, name: str = "pick") -> str:
        body = [*self.branch(2, "    "), *self.block(2, "    ")]
        if self.cpp:
            head = f"const char* {name}(long long a, long long b, int64_t c, std::string_view e, bool flag) {{"
            return "\n".join([head, *body, "}"])
        return "\n".join([f"def {name}({', '.join(PARAMETERS)}):", *body])

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, depth: int, pad: str) -> Iterator[str]:
        """Statements that surely end."""
        known, outer = list(self.locals), self.here
        self.here = set()
        for _ in range(self.random.randint(1, 3) if depth else 0):
            if self.chance(20):
                yield from self.local(pad)
            elif self.chance(12):
                yield from self.several(pad)
            elif self.cpp and self.chance(20):
                yield from self.switch(depth, pad)
            else:
                yield from self.branch(depth, pad)
        yield from self.end(pad)
        self.locals, self.here = known, outer

    def part(self, depth: int, pad: str) -> Iterator[str]:
        """Statements that end or go on."""
        known, outer = list(self.locals), self.here
        self.here = set()
        if self.chance(50):
            yield from self.block(depth - 1, pad)
        elif depth > 1:
            yield from self.branch(depth - 1, pad)
        else:
            yield from self.local(pad)
        self.locals, self.here = known, outer

    def branch(self, depth: int, pad: str) -> Iterator[str]:
        openings = ["if"] + (["else if" if self.cpp else "elif"] * self.random.randint(0, 2))
        for i, word in enumerate(openings):
            test = self.condition(2)
            close = "} " if self.cpp and i else ""
            yield f"{pad}{close}{word} ({test}) {{" if self.cpp else f"{pad}{word} {test}:"
            yield from self.part(depth, pad + "    ")
        if self.chance(40):
            yield f"{pad}}} else {{" if self.cpp else f"{pad}else:"
            yield from self.part(depth, pad + "    ")
        if self.cpp:
            yield f"{pad}}}"

    def switch(self, depth: int, pad: str) -> Iterator[str]:
        yield f"{pad}switch ({self.random.choice(['c', 'b % 3', 'a'])}) {{"
        labels = self.random.sample(range(-2, 5), 3)
        for i, label in enumerate(labels):
            yield f"{pad}  case {label}:"
            if i < 2 and self.chance(30):
                continue  # the same as the next
            yield f"{pad}  {{"
            yield from self.part(depth, pad + "    ")
            yield f"{pad}  }}"
            if self.chance(60):
                yield f"{pad}    break;"
        if self.chance(50):
            yield f"{pad}  default: {{"
            yield from self.part(depth, pad + "    ")
            yield f"{pad}  }}"
        yield f"{pad}}}"

    def local(self, pad: str) -> Iterator[str]:
        name = f"t{self.random.randrange(3)}"
        hides = name not in self.here and self.chance(40)
        known = list(self.locals)
        if hides:  # its value does not read itself
            self.locals = [other for other in known if other != name]
        declare = "auto " if self.cpp and (name not in known or hides) else ""
        value = f"({self.number(2)})"
        if self.chance(30):
            test = self.condition(1)
            value = f"{test} ? {value} : {self.literal()}LL" if self.cpp else f"{value} if {test} else {self.literal()}"
        elif self.cpp and declare:
            value = f"(long long){value}"
        self.locals = known if name in known else [*known, name]
        self.here |= {name} if declare else set()
        yield f"{pad}{declare}{name} = {value}{';' if self.cpp else ''}"

    def several(self, pad: str) -> Iterator[str]:
        """Two locals in one assignment, also a choice between pairs, and of locals that its values read."""
        names = self.random.sample(["t0", "t1", "t2"], 2)
        fresh = not self.here & set(names)
        if self.cpp and not fresh and not set(names) <= set(self.locals):
            return
        known = list(self.locals)
        if self.cpp and fresh:  # a structured binding hides them in its own value
            self.locals = [name for name in known if name not in names]
        value = self.pair()
        if self.chance(60):
            test, other = self.condition(1), self.pair()
            value = f"{test} ? {value} : {other}" if self.cpp else f"{value} if {test} else ({other})"
        self.locals = known + [name for name in names if name not in known]
        if self.cpp:
            self.here |= set(names) if fresh else set()
            listed = f"auto [{', '.join(names)}]" if fresh else f"std::tie({', '.join(names)})"
            yield f"{pad}{listed} = {value};"
        else:
            yield f"{pad}{', '.join(names)} = {value}"

    def pair(self) -> str:
        one, two = self.number(1), self.number(1)
        return f"std::pair<long long, long long>{{{one}, {two}}}" if self.cpp else f"({one}, {two})"

    def end(self, pad: str) -> Iterator[str]:
        self.returns += 1
        value = f'"k{self.returns}"'
        if self.chance(15):
            test = self.condition(1)
            value = f'{test} ? {value} : "k"' if self.cpp else f'{value} if {test} else "k"'
        yield f"{pad}return {value}{';' if self.cpp else ''}"

    # --- expressions ------------------------------------------------------------------------------------------------

    def literal(self) -> int:
        return self.random.randint(0, 12)

    def number(self, depth: int) -> str:
        if depth == 0 or self.chance(30):
            return self.random.choice([*INTEGERS, *self.locals, *INTEGERS, str(self.literal())])
        one, two = self.number(depth - 1), self.number(depth - 1)
        divisor = self.random.choice([2, 3, 4, 8])
        forms: list[Callable[[], str]] = [
            lambda: f"({one} {self.random.choice('+-*')} {two})",
            lambda: f"({one} {self.rounding} {divisor})",
            lambda: f"({one} % {divisor})",
            lambda: f"({one} & {self.random.choice([1, 3, 7])})",
            lambda: f"({one} >> 1)",
            lambda: f"(-{one})",
            lambda: f"std::max<long long>({one}, {two})" if self.cpp else f"max({one}, {two})",
            lambda: f"static_cast<int64_t>({one})" if self.cpp else f"int({one})",
        ]
        return self.random.choice(forms)()

    def condition(self, depth: int) -> str:
        if depth == 0 or self.chance(40):
            return self.predicate()
        one, two = self.condition(depth - 1), self.condition(depth - 1)
        word = self.random.choice(["&&", "||"])
        word = word if self.cpp else {"&&": "and", "||": "or"}[word]
        opposite = "!" if self.cpp else "not "
        return self.random.choice([f"({one} {word} {two})", f"{opposite}({one})", f"({one} {word} {two})"])

    def predicate(self) -> str:
        text = self.random.choice(TEXTS)
        relation = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        number = self.number(1)
        forms = [
            f"{number} {relation} {self.number(1)}",
            f"{self.random.choice(INTEGERS)} % {self.random.choice([2, 3, 4])} == {self.random.randint(0, 1)}",
            f"{self.random.choice(INTEGERS)} {relation} {self.literal()}",
            f'e {self.random.choice(["==", "!="])} "{text}"',
            "!flag" if self.cpp else "not flag",
            "flag",
            f"({self.random.choice(INTEGERS)} % 4)",
        ]
        if not self.cpp:
            forms += [f'e in ("{text}", "x")', f"a not in [1, {self.literal()}]", f"-2 <= {number} < 5"]
        return self.random.choice(forms)

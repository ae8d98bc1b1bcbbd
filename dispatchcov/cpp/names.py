"""Names and texts of a table as C++ writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case
        catch char char8_t char16_t char32_t class co_await co_return co_yield compl concept const const_cast consteval
        constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
        false final float for friend goto if import inline int long module mutable namespace new noexcept not not_eq
        nullptr operator or or_eq override private protected public reflexpr register reinterpret_cast requires return
        short signed sizeof static static_assert static_cast struct switch synchronized template this thread_local throw
        true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq""",
    )
)
MACROS = frozenset(
    re.findall(
        r"\w+",
        """BIG_ENDIAN BUFSIZ BYTE_ORDER DOMAIN EDOM EINTR EINVAL EIO ENOMEM EOF ERANGE FALSE HUGE_VAL I INFINITY
        LITTLE_ENDIAN NAN NULL OVERFLOW RAND_MAX TRUE UNDERFLOW assert complex errno imaginary linux major makedev minor
        noreturn offsetof setjmp stderr stdin stdout unix va_arg va_copy va_end va_start""",
    )
)
TAKEN = KEYWORDS | MACROS


class Names:
    """Gives each text an identifier of its own in one scope, of which ``taken`` are gone already."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*TAKEN, *taken}

    def give(self, text: str) -> str:
        """``text`` itself if it can be one; else what is left of it, and a number where that is taken."""
        plain = re.sub(r"_*[^A-Za-z0-9_]+_*|__+", "_", text).strip("_") or "x"
        plain = f"x{plain}" if plain[0].isdigit() else plain
        name, number = plain, 1
        while name in self._taken:
            number += 1
            name = f"{plain}_" if number == 2 else f"{plain}_{number}"
        self._taken.add(name)
        return name


def literal(text: str) -> str:
    """``text`` as a C++ string literal of ASCII characters."""
    plain = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x3F: "\\?"}
    return '"' + "".join(plain.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text.encode()) + '"'


def literals(text: str) -> list[str]:
    """The lines of ``text``, each a literal; C++ joins them."""
    return [literal(line) for line in text.splitlines(keepends=True)] or ['""']


def comment(text: str) -> str:
    """``text``, which may be a stranger's, at the end of a line of code."""
    plain = text.isprintable() and not text.endswith(chr(92))
    return f"// {untrigraph(text if plain else ascii(text), chr(92) + 'x3f')}"


def untrigraph(text: str, mark: str) -> str:
    """``text`` without two question marks in a row, which may be a trigraph: ``mark`` is one of them."""
    return text.replace("??", f"?{mark}")


def namespace(op: str) -> str:
    """The namespace of an operator's dispatch: ``fp4ops::matmul_nvfp4`` gives ``fp4ops::matmul_nvfp4_dispatch``."""
    parts = [Names(("std", "dispatchcov")).give(part) for part in op.split("::") if part.strip()] or ["x"]
    return "::".join([*parts[:-1], f"{parts[-1].rstrip('_')}_dispatch"])

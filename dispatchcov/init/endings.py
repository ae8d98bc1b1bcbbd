"""What a way through a function ends in, and the name of its kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dispatchcov import expr as ex
from dispatchcov.errors import UsageError
from dispatchcov.init import syntax as syn
from dispatchcov.init.names import Bound, Locals
from dispatchcov.init.refusals import macro
from dispatchcov.init.syntax import Syntax
from dispatchcov.init.translate import Condition, Translator

MAX_WAYS = 500
QUIET = re.compile(
    r"(p?print|(std::)?f?printf|(std::)?(puts|fputs|fflush)|fmt::print|std::cout|std::cerr|sys\.std(out|err)\.\w+"
    r"|(\w+_)?[DV]?LOGS?(_\w+)?|TORCH_WARN\w*|(\w+_)?WARN(ING|_ONCE)?|warnings?\.\w+|(self\.)?_?log(ger|ging)?_?\.\w+"
    r"|spdlog::\w+|\w*(nvtx|NVTX)\w*(\.\w+)?|C10_LOG_API_USAGE_ONCE|\w*RECORD_FUNCTION\w*|torch\._C\._log_api_usage_once"
    r"|(DISPATCHCOV_|dispatchcov(\.|::))\w+|super|static_cast<void>)\Z"
)
STATUS = re.compile(
    r"(\w+::)*(OK|Ok|OkStatus|cudaGetLastError|cudaPeekAtLastError|cudaSuccess|CUBLAS_STATUS_SUCCESS|kSuccess)\Z"
)
NOTHING = "nothing"
GIVEN = "\0"
"""Between the name of a function that is called and what is fixed of its arguments."""
KEYWORD = re.compile(r"""\w+=(-?[\w.]+|'[^']*'|"[^"]*")\Z""")


@dataclass(frozen=True, slots=True)
class Way:
    """A way through the function: what must hold, what it calls, what it ends in; ``read`` is false after a loop."""

    guard: tuple[Condition, ...]
    calls: tuple[str, ...]
    end: str
    line: int
    read: bool = True
    named: bool = False
    refused: bool = False


class Endings:
    """The ends of the ways through ``function``."""

    def __init__(self, translator: Translator, function: syn.Function) -> None:
        self.translator = translator
        self.function = function
        self.count = 0
        body = list(syn.statements(function.body))
        self.own = {re.split(r"::|\.", part.target)[0] for part in body if isinstance(part, syn.Assign)}
        self.own |= {name for part in body if isinstance(part, syn.Opaque) for name in part.assigned}

    def _way(self, calls: tuple[str, ...], end: str, line: int, named: bool = False) -> Way:
        self.count += 1
        if self.count > MAX_WAYS:
            where = f"{self.translator.names.source.file}:{self.function.line}"
            raise UsageError(f"{where}: {self.function.name}: expected at most {MAX_WAYS} ways through it, got more")
        return Way((), calls, end, line, named=named)

    def _ended(self, head: syn.Return, env: Locals, calls: tuple[str, ...]) -> Way:
        value = head.value
        if isinstance(value, syn.Unary) and value.op == "&":
            value = value.operand
        match value:
            case None:
                return self._way(calls, "", head.line)
            case syn.Call():
                return self._way((*calls, *self._called(value, env)), "", head.line)
            case syn.Name() if value.id in env:
                return self._held(env[value.id], value, calls, head.line)
            case syn.Literal(value=str() as text) if text.strip():
                return self._way((), short(text), head.line, named=True)
            case syn.Text():
                return self._way((), short(self.translator.written(value, env)) or NOTHING, head.line, named=True)
        named = isinstance(value, syn.Name | syn.Attribute | syn.Items) or (
            isinstance(value, syn.Literal) and isinstance(value.value, int) and not isinstance(value.value, bool)
        )
        done = self.translator.cpp and value.text == "0" and calls
        quiet = done or STATUS.match(value.text) or value.text in self.function.parameters
        end = "" if quiet and calls else short(value.text.removeprefix("this->").removeprefix("self."))
        return self._way(() if named and not quiet else calls, end, head.line, named=named and not quiet)

    def _held(self, bound: Bound, node: syn.Name, calls: tuple[str, ...], line: int) -> Way:
        """``return local``: the string or constant it holds, or the call that gave it."""
        match bound.expr:
            case ex.Const(value=value) if not isinstance(value, bool):
                return self._way((), short(str(value)) or NOTHING, line, named=True)
            case ex.Var(name=name) if name.startswith("="):
                return self._way((), short(name[1:]), line, named=True)
        if bound.callee:
            return self._way((*calls, short(bound.callee)), "", line)
        if bound.path and "@" not in bound.path:
            return self._way(calls, short(bound.path), line)
        return self._way(calls, "" if calls else short(node.text), line)

    def _called(self, node: Syntax, env: Locals) -> tuple[str, ...]:
        """The name of the function that ``node`` calls, if it is a call that may be a kernel's, or of a macro."""
        if self.translator.cpp and isinstance(node, syn.Name) and macro(node.id):
            return (node.id,)
        if not isinstance(node, syn.Call):
            return ()
        of: Syntax = node.of
        text = syn.dotted(of) or of.text
        if isinstance(of, syn.Name) and of.id in env:  # a local that holds a function
            match env[of.id]:
                case Bound(expr=ex.Var(name=name)) if name.startswith("="):
                    text = name[1:]
                case Bound(path=path) if path and "@" not in path:
                    text = path
        if QUIET.match(text) or STATUS.match(text):
            return ()
        given = ", ".join(filter(None, (self._given(arg, env) for arg in node.args)))
        name = short(re.sub(r"^(self|this)\.", "", text))
        return (f"{name}{GIVEN}{short(given)}" if given else name,)

    def _given(self, node: Syntax, env: Locals) -> str:
        """What is fixed of an argument: a constant, a function, a type; ``""`` for what depends on the input."""
        match node:
            case syn.Literal():
                return node.text
            case syn.Name() if node.id in env:
                expr = env[node.id].expr
                if isinstance(expr, ex.Const):
                    return str(expr.value)
                return expr.name[1:] if isinstance(expr, ex.Var) and expr.name.startswith("=") else ""
            case syn.Other() if KEYWORD.match(node.text):
                return node.text
        name = syn.dotted(node.of if isinstance(node, syn.Call) and not node.args else node) or ""
        root = re.split(r"::|\.", name)[0]
        ours = root in self.own or root in self.function.parameters or root in ("self", "this")
        return "" if ours or not name else node.text


def kernels(ways: list[Way]) -> list[str]:
    """The kernel of each way: what it returns by name, else the calls that not every way makes.

    Where ways call one function with other constants, these are part of the name.
    """
    working = [way for way in ways if not way.named and way.read]
    common = set.intersection(*(set(way.calls) for way in working)) if working else set()
    every = {call for way in ways for call in way.calls}
    plain = [call.partition(GIVEN)[0] for call in every]
    shown = {call: _shown(call, plain.count(call.partition(GIVEN)[0]) > 1) for call in every}
    return [_kernel(way, common if len(working) > 1 else set(), shown) for way in ways]


def _shown(call: str, several: bool) -> str:
    name, _, given = call.partition(GIVEN)
    return f"{name}({given})" if several and given else name


def _kernel(way: Way, common: set[str], shown: Mapping[str, str]) -> str:
    calls = [call for call in dict.fromkeys(way.calls) if call not in common] or list(dict.fromkeys(way.calls))
    parts = [shown[call] for call in calls] + ([way.end] if way.end and (way.named or not calls) else [])
    return " + ".join(parts)[:200].strip() or NOTHING


def short(text: str) -> str:
    return syn.flat(text).strip()[:100].strip()

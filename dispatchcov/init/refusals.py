"""Calls for their effect that may end the function: checks and refusals whose meaning is plain, and what is doubted.

A check is an ``if`` that refuses. A macro called like a check whose meaning is not plain is one with a test that is
left. Of the other calls :class:`~dispatchcov.init.walk.Walker` doubts those that nothing else would show.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dispatchcov.init import syntax as syn
from dispatchcov.init.syntax import Syntax

ENDS = re.compile(
    r"(std::)?(abort|exit|_exit|_Exit|quick_exit|terminate|unreachable)|__builtin_(unreachable|trap)|__trap|AT_ERROR"
    r"|(?!\w*CHECK)(\w+_)?(THROW|ABORT|UNREACHABLE|PANIC|FATAL|NOT_IMPLEMENTED)(_ERROR|_EX|_EXCEPTION|_MSG|_HR|_WITH\w*)?"
)
PYTHON_ENDS = re.compile(r"sys\.exit|os\.abort|os\._exit|exit|quit|(typing\.)?assert_never")
WORD = r"(\w+_)?[ID]?(CHECK|ENFORCE|ASSERT|VERIFY|REQUIRE|EXPECT)"
CHECKS = re.compile(
    rf"({WORD}|(\w+_)?assert|Expects)(_WITH_MSG|_MSG|_WITH_INFO|_DEBUG_ONLY|_ONLY|_ALWAYS_SHOW_CPP_STACKTRACE)?"
    r"|(\w+_)?CHECK_(VALUE|TYPE|INDEX|LINALG|NOT_IMPLEMENTED|ARG)|ORT_RETURN_IF_NOT|(\w+_)?(THROW|ABORT)_IF_(NOT|FALSE)"
)
REFUSES_IF = re.compile(r"(\w+_)?(THROW|RAISE|ABORT|FAIL)_IF(_TRUE)?|ORT_RETURN_IF")
PYTHON_CHECKS = re.compile(r"torch\.(_check(_value|_index|_type|_not_implemented)?|_assert)")
COMPARED = re.compile(rf"{WORD}_(?P<op>EQ|NE|LT|LE|GT|GE)")
SIGNS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
STATUS = re.compile(
    r"(?=\w*(CHECK|CALL|SAFE|TRY|OK|RETURN|ASSERT|ENFORCE))"
    r"(\w+_)?(CUDA|CU[A-Z]+|HIP[A-Z]*|NCCL|RCCL|NV[A-Z]+|MPI|STATUS|ERR|ERROR|OK|DRIVER)(_\w+)?|gpuErrchk"
)
REFUSING = re.compile(
    r"CHECK|ENFORCE|ASSERT|VERIFY|REQUIRE|EXPECT|THROW|ABORT|RAISE|FATAL|FAIL|PANIC|UNREACHABLE|RETURN"
)
NAMED_SO = re.compile(
    r"_*(check|assert|verify|ensure|require|enforce|validate|raise|throw|abort|fail|die|panic)(?![a-z])"
)
"""A function called so refuses what it does not take."""
LEAVING = {"return", "co_return", "throw", "goto", "raise", "assert", "FATAL"}


def macro(name: str) -> bool:
    """Is ``name`` written as macros are?"""
    return name.isupper() and len(name) > 2


def effect(node: Syntax, cpp: bool) -> Iterator[syn.Statement]:
    """What the expression ``node`` is as a statement."""
    match node:
        case syn.Logic(op=op, parts=(*first, last)):  # n > 2 or sys.exit(1)
            test = first[0] if len(first) == 1 else replace(node, parts=tuple(first))
            then = tuple(effect(last, cpp))
            yield syn.If(node.line, test.text, test, then if op == "and" else (), () if op == "and" else then)
        case syn.Choice():
            then, orelse = tuple(effect(node.then, cpp)), tuple(effect(node.orelse, cpp))
            yield syn.If(node.line, node.test.text, node.test, then, orelse)
        case syn.Binary(op="<<", left=left) if cpp:  # CHECK(n > 2) << "n"
            while isinstance(left, syn.Binary) and left.op == "<<":
                left = left.left
            yield from effect(left, cpp)
        case syn.Call() if (name := syn.dotted(node.of)) is not None:
            yield from _call(node, syn.last(name) if macro(syn.last(name)) else name, cpp)
        case _:
            yield syn.Do(node.line, node.text, node)


def of_value(node: Syntax, cpp: bool) -> Iterator[syn.Statement]:
    """That a call in what is assigned may refuse, as its name says."""
    calls = [part for part in syn.inside(node) if isinstance(part, syn.Call)]
    if any(terminates(part, cpp) or refusing(syn.last(syn.dotted(part.of) or "")) for part in calls):
        yield syn.Opaque(node.line, node.text, (), True)


def _call(node: syn.Call, name: str, cpp: bool) -> Iterator[syn.Statement]:
    line, args = node.line, node.args
    refuse = syn.Raise(line, node.text, "raise SystemExit" if name in ("sys.exit", "exit") else f"refused by {name}")
    inner = args[0] if args and isinstance(args[0], syn.Call) else None
    if terminates(node, cpp):
        yield refuse
    elif not cpp and PYTHON_CHECKS.fullmatch(name) and args:
        yield _unless(node, args[0], f"not ({args[0].text})", refuse)
    elif not cpp:
        yield syn.Do(line, node.text, node)
    elif STATUS.fullmatch(name) or "_IF_ERROR" in name:  # of a status: which of its values is good, is not known
        yield from effect(inner, cpp) if inner else _doubted(node, refuse)
    elif CHECKS.fullmatch(name) and args:
        yield _unless(node, args[0], f"!({args[0].text})", refuse)
    elif (match := COMPARED.fullmatch(name)) and len(args) >= 2:
        text = syn.flat(f"{args[0].text} {SIGNS[match['op']]} {args[1].text}")
        test = syn.Comparison(line, text, SIGNS[match["op"]], args[0], args[1])
        yield _unless(node, test, f"!({text})", refuse)
    elif REFUSES_IF.fullmatch(name) and args:
        yield syn.If(line, args[0].text, args[0], (refuse,))
    elif macro(name) and re.match(WORD, name):
        yield from _doubted(node, refuse)
    elif macro(name) and inner and len(args) == 1:
        yield from effect(inner, cpp)
    else:
        yield syn.Do(line, node.text, node)


def _unless(node: syn.Call, test: Syntax, text: str, refuse: syn.Raise) -> syn.If:
    return syn.If(node.line, text, syn.Unary(node.line, text, "not", test), (refuse,))


def _doubted(node: syn.Call, refuse: syn.Raise) -> Iterator[syn.Statement]:
    """A check that is not understood; one of nothing looks at what was before it."""
    if node.args:
        yield syn.If(node.line, node.text, syn.Other(node.line, node.text), (refuse,))


def terminates(node: syn.Call, cpp: bool) -> bool:
    """Is ``node`` a call that never returns?"""
    name = syn.dotted(node.of) or ""
    if not cpp:
        return PYTHON_ENDS.fullmatch(name) is not None
    fatal = name == "LOG" and [arg.text for arg in node.args] == ["FATAL"]
    return fatal or ENDS.fullmatch(syn.last(name) if macro(syn.last(name)) else name) is not None


def refusing(name: str) -> bool:
    """Does ``name`` say that what is called so may refuse?"""
    return bool(NAMED_SO.match(name) or (macro(name) and REFUSING.search(name)) or ENDS.fullmatch(name))


def may_end(words: Iterable[str]) -> bool:
    """May statements of these ``words``, which are not read, end the function?"""
    return any(word in LEAVING or refusing(word) for word in words)


def returning(functions: Iterable[syn.Function]) -> set[str]:
    """The last parts of the names of those ``functions`` that do nothing that is not read, and return."""
    every = list(functions)
    doubted = syn.Raise | syn.Do | syn.Opaque
    not_read = {syn.last(f.name) for f in every if any(isinstance(part, doubted) for part in syn.statements(f.body))}
    return {syn.last(f.name) for f in every} - not_read


def raising(functions: Iterable[syn.Function]) -> set[str]:
    """The last parts of the names of those ``functions`` that refuse some inputs."""
    raised = (f for f in functions if any(isinstance(part, syn.Raise) for part in syn.statements(f.body)))
    return {syn.last(f.name) for f in raised}

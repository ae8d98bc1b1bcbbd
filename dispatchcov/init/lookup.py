"""A kernel that is looked up in a dictionary, ``KERNELS[dtype, bias](x)``, as a chain of ifs over its keys."""

from __future__ import annotations

from dataclasses import replace

from dispatchcov.init import syntax as syn
from dispatchcov.init.fold import UntranslatedError
from dispatchcov.init.names import Locals
from dispatchcov.init.syntax import Syntax
from dispatchcov.init.translate import Translator

MAX_KEYS = 64


def looked_up(head: syn.Assign | syn.Return, translator: Translator, env: Locals) -> syn.If | None:
    """``head`` once for each key, if its value is looked up or what is looked up is called; else None.

    A key that is not there raises, or gives the default of ``get``. A key that is not translated stays as it is.
    """
    value = head.value
    called = value if isinstance(value, syn.Call) else None
    found = _lookup(value, translator, env) if value is not None else None
    if found is None and called is not None:
        found = _lookup(called.of, translator, env)
    else:
        called = None
    if found is None:
        return None
    pairs, key, default = found

    def given(part: Syntax) -> syn.Statement:
        whole = part if called is None else replace(called, of=part)
        if isinstance(head, syn.Assign):
            return replace(head, value=whole, declares=False)
        return replace(head, value=whole)

    arms = list(zip(pairs.keys, pairs.values, strict=True))
    rest: syn.Statement = syn.Raise(head.line, head.text, "raise KeyError") if default is None else given(default)
    if default is None and len(arms) > 1 and _checked(key, pairs, translator):
        rest = given(arms.pop()[1])
    for own, part in reversed(arms):
        test = _equal(key, own)
        rest = syn.If(head.line, test.text, test, (given(part),), (rest,))
    return rest if isinstance(rest, syn.If) else None


def _lookup(node: Syntax, translator: Translator, env: Locals) -> tuple[syn.Pairs, Syntax, Syntax | None] | None:
    """The dictionary, the key and the default, if ``node`` is a lookup that can be read."""
    default: Syntax | None = None
    match node:
        case syn.Index(of=of, index=key):
            pass
        case syn.Call(of=syn.Attribute(of=of, name="get"), args=[key]):
            default = syn.Literal(node.line, "None", None)
        case syn.Call(of=syn.Attribute(of=of, name="get"), args=[key, default]):
            pass
        case _:
            return None
    pairs = of if isinstance(of, syn.Pairs) or syn.dotted(of) in env else translator.names.constant(of)
    if not isinstance(pairs, syn.Pairs) or not 0 < len(pairs.keys) <= MAX_KEYS:
        return None
    if len({own.text for own in pairs.keys}) < len(pairs.keys):
        return None
    try:
        for part in key.items if isinstance(key, syn.Items) else (key,):
            translator.value(part, env)
    except UntranslatedError:
        return None
    return pairs, key, default


def _checked(key: Syntax, pairs: syn.Pairs, translator: Translator) -> bool:
    """Was a ``key`` that is not there sent away before, by ``if key not in KERNELS: raise ...`` at the top?"""
    function = translator.names.function
    assigned = {part.target for part in syn.statements(function.body) if isinstance(part, syn.Assign)}
    if not isinstance(key, syn.Name) or key.id in assigned or key.id not in function.parameters:
        return False
    for part in function.body:
        match part:
            case syn.If(test=syn.Comparison(op="not in", left=left, right=right), body=body, line=line):
                ends = body and isinstance(body[-1], syn.Raise | syn.Return)
                if ends and left.text == key.text and translator.names.constant(right) == pairs and line < key.line:
                    return True
    return False


def _equal(key: Syntax, own: Syntax) -> Syntax:
    line, text = key.line, syn.flat(f"{key.text} == {own.text}")
    if isinstance(key, syn.Items) and isinstance(own, syn.Items):
        if len(key.items) != len(own.items):
            return syn.Literal(line, text, False)
        return syn.Logic(line, text, "and", tuple(map(_equal, key.items, own.items)))
    return syn.Comparison(line, text, "==", key, own)

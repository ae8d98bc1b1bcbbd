"""From statements to ordered rules: every way through a function, in the order in which first match tries them.

The ways through the body of an ``if`` come first, with its test before their own; what follows needs no negated test,
since every input that the test lets in has been taken by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dispatchcov import expr as ex
from dispatchcov.init import syntax as syn
from dispatchcov.init.decided import returned
from dispatchcov.init.endings import GIVEN, Endings, Way, short
from dispatchcov.init.fold import joined, negated
from dispatchcov.init.lookup import looked_up
from dispatchcov.init.names import Bound, Locals
from dispatchcov.init.reads import relevant
from dispatchcov.init.refusals import macro, raising, refusing, returning
from dispatchcov.init.syntax import Block
from dispatchcov.init.translate import Condition, Translator

REFUSES = "a call that may refuse, as its name says"
BRANCH = "a call in a branch, which may not return"
PLAIN = "a call that may refuse or return"


@dataclass(frozen=True, slots=True)
class _Frame:
    """What is still to do in a block, and ``outer``: what its locals hide, to be restored at its end."""

    block: Block
    parent: _Frame | None
    scope: bool = False
    outer: tuple[tuple[str, Bound | None], ...] = ()
    branch: bool = False

    def within_branch(self) -> bool:
        """Is this in a block that runs on some condition?"""
        return self.branch or (self.parent is not None and self.parent.within_branch())

    def after(self, env: Locals) -> Locals:
        """``env`` at the end of the block."""
        if not self.outer:
            return env
        kept = {**env, **{name: bound for name, bound in self.outer if bound is not None}}
        gone = {name for name, bound in self.outer if bound is None}
        return {name: bound for name, bound in kept.items() if name not in gone}


class Walker(Endings):
    """Follows all ways through ``function``; ``lefts`` gathers what was not read on the way."""

    def __init__(self, translator: Translator, function: syn.Function) -> None:
        super().__init__(translator, function)
        self.relevant = relevant(function.body)
        self.raising = raising(translator.names.source.functions)
        self.returning = returning(translator.names.source.functions)
        self.known: dict[tuple[object, ...], tuple[_Frame, list[Way]]] = {}

    def ways(self) -> list[Way]:
        """All ways, first match first; raises :class:`UsageError` if they are too many."""
        return self._follow(_Frame(self.function.body, None), {}, ())

    def _follow(self, frame: _Frame | None, env: Locals, calls: tuple[str, ...]) -> list[Way]:
        while frame is not None:
            if not frame.block:
                return self._rest(frame.parent, frame.after(env), calls)
            head, frame = frame.block[0], replace(frame, block=frame.block[1:])
            if (chain := self._chain(head, env)) is not None:
                frame = _Frame((chain,), frame)
                continue
            match head:
                case syn.Assign() | syn.Lost():
                    env = self._changed(head, env)
                case syn.If():
                    if not (self._idle(head.body) and self._idle(head.orelse)):
                        return self._fork(head, frame, env, calls)
                case syn.Return():
                    return [self._ended(head, env, calls)]
                case syn.Raise():
                    return [replace(self._way((), head.name, head.line, named=True), refused=True)]
                case syn.Do():
                    called = self._called(head.value, env)
                    if called and (doubt := self._doubt(head, called[0], frame)):
                        return self._doubted(head, doubt, self._follow(frame, env, calls + called))
                    calls += called
                case syn.Opaque():
                    env = self._skipped(head, env)
                    called = tuple(name for call in head.calls for name in self._called(call, env))
                    rest = self._follow(frame, env, calls + called)
                    return [_unread(head, "statements that are not read"), *rest] if head.ends else rest
                case syn.Scope():
                    frame = _inner(head.body, frame, env, True)
                case syn.Break():
                    frame, env = _left_scope(frame, env)
        return self._rest(None, env, calls)

    def _chain(self, head: syn.Statement, env: Locals) -> syn.If | None:
        """``head`` as an ``if``, where its value is a choice or is looked up."""
        if not isinstance(head, syn.Return | syn.Assign):
            return None
        if isinstance(head, syn.Assign) and syn.last(head.target) not in self.relevant:
            return None
        if isinstance(head.value, syn.Choice):
            return _choice(head)
        decision = returned(head, self.translator.names, env) if isinstance(head, syn.Return) else None
        return decision or looked_up(head, self.translator, env)

    def _rest(self, frame: _Frame | None, env: Locals, calls: tuple[str, ...]) -> list[Way]:
        """The ways on from the end of a block; what two branches have in common is followed once."""
        if frame is None:
            return [self._way(calls, "", self.function.last)]
        key = (id(frame), frozenset(env.items()), calls)
        if key not in self.known:
            self.known[key] = frame, self._follow(frame, env, calls)
        return self.known[key][1]

    def _changed(self, head: syn.Assign | syn.Lost, env: Locals) -> Locals:
        names = self.translator.names
        if isinstance(head, syn.Lost):
            return {**_without_members(head.name, env), head.name: names.lost(head)}
        kept = not head.declares and names.stays_lost(head.target, env)
        if kept or syn.last(head.target) not in self.relevant:
            return env
        if names.cpp and (head.declares or head.target not in names.declared):
            names.declared[head.target] = head.type
        kind = names.declared[head.target] if names.cpp else head.type
        bound = self.translator.bound(head.target, head.value, env, kind)
        return {**_without_members(head.target, env), head.target: bound}

    def _skipped(self, head: syn.Opaque, env: Locals) -> Locals:
        """``env`` after statements that are not read: what they assign is a fact of its own."""
        value = syn.Other(head.line, f"assigned in {head.text}")
        names = [name for name in head.assigned if syn.last(name) in self.relevant]
        for name in names:
            if not self.translator.names.stays_lost(name, env):
                env = {**_without_members(name, env), name: self.translator.names.fact(name, value, "")}
        return env

    def _fork(self, head: syn.If, frame: _Frame, env: Locals, calls: tuple[str, ...]) -> list[Way]:
        test = self.translator.conjuncts(head.test, env)
        if any(part.expr == ex.Const(False) for part in test):
            return self._follow(_inner(head.orelse, frame, env), env, calls)
        test = tuple(part for part in test if part.expr != ex.Const(True))
        if not test:
            return self._follow(_inner(head.body, frame, env), env, calls)
        then, orelse = (replace(_inner(part, frame, env), branch=True) for part in (head.body, head.orelse))
        return _merged(test, self._follow(then, env, calls), self._follow(orelse, env, calls))

    def _doubt(self, head: syn.Do, called: str, frame: _Frame) -> str:
        """Why the call ``head`` may end the function or ""."""
        name = syn.last(called.partition(GIVEN)[0])
        if refusing(name):
            return REFUSES
        if frame.within_branch():
            return "" if name in self.returning else BRANCH
        return PLAIN if macro(name) or name in self.raising else ""

    def _doubted(self, head: syn.Do, doubt: str, rest: list[Way]) -> list[Way]:
        """``rest``, after a rule for what the call ``head`` refuses, unless the kernels of ``rest`` show the call."""
        hidden = any(way.named and not way.refused for way in rest)
        if doubt == REFUSES or hidden or (doubt == PLAIN and len(rest) > 1):
            return [_unread(head, doubt), *rest]
        return rest

    def _idle(self, block: Block) -> bool:
        """Does ``block`` neither end nor call nor assign what is read later?"""
        return all(map(self._still, block))

    def _still(self, part: syn.Statement) -> bool:
        match part:
            case syn.Assign():
                return syn.last(part.target) not in self.relevant
            case syn.Do():
                return not self._called(part.value, {})
            case syn.Lost():
                return not self.relevant.intersection(part.name.split("."))
            case syn.If():
                return self._idle(part.body) and self._idle(part.orelse)
            case syn.Scope():
                return self._idle(part.body)
        return False


def _without_members(name: str, env: Locals) -> Locals:
    """``env`` without what members of ``name`` held."""
    return {key: bound for key, bound in env.items() if not key.startswith(f"{name}.")}


def _unread(head: syn.Do | syn.Opaque, reason: str) -> Way:
    """The way that may end in ``head``."""
    value = head.value if isinstance(head, syn.Do) else None
    end = short(value.of.text if isinstance(value, syn.Call) else head.text) if value else "not read"
    return Way((Condition(head.line, head.text, None, reason),), (), end, head.line, read=False, named=True)


def _merged(test: tuple[Condition, ...], then: list[Way], rest: list[Way]) -> list[Way]:
    """First match over ``then`` where ``test`` holds, over ``rest`` where not; what both begin or end with, once."""
    shortest = min(len(then), len(rest))
    first = next((i for i in range(shortest) if then[i] != rest[i]), shortest)
    same = next((i for i in range(shortest - first) if then[-1 - i] != rest[-1 - i]), shortest - first)
    if same and first + same < len(rest):
        if any(part.expr is None for part in test):
            same = 0  # that a test which is not translated fails, cannot be said
        else:
            opposite = _opposite(test)
            others = [replace(way, guard=(opposite, *way.guard)) for way in rest[first : len(rest) - same]]
            rest = [*rest[:first], *others, *rest[len(rest) - same :]]
    own = [replace(way, guard=(*test, *way.guard)) for way in then[first : len(then) - same]]
    return [*rest[:first], *own, *rest[first:]]


def _opposite(test: tuple[Condition, ...]) -> Condition:
    text = " and ".join(part.text for part in test)
    whole = joined("and", [part.expr for part in test if part.expr is not None])
    return Condition(test[0].line, f"not ({text})", negated(whole))


def _inner(block: Block, parent: _Frame, env: Locals, scope: bool = False) -> _Frame:
    declared = [part.target for part in block if isinstance(part, syn.Assign) and part.declares]
    return _Frame(block, parent, scope, tuple((name, env.get(name)) for name in declared))


def _left_scope(frame: _Frame | None, env: Locals) -> tuple[_Frame | None, Locals]:
    """What follows after the innermost scope."""
    while frame is not None:
        ended, env, frame = frame.scope, frame.after(env), frame.parent
        if ended:
            break
    return frame, env


def _choice(head: syn.Assign | syn.Return) -> syn.If:
    """``x = a if test else b`` as the two statements of an ``if``."""
    value = head.value
    assert isinstance(value, syn.Choice)
    plain = replace(head, declares=False) if isinstance(head, syn.Assign) else head
    then, orelse = replace(plain, value=value.then), replace(plain, value=value.orelse)
    return syn.If(value.line, value.test.text, value.test, (then,), (orelse,))

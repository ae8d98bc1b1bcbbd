"""The parser of the predicate language: Python's own, of whose syntax tree only the whitelisted nodes are converted."""

from __future__ import annotations

import ast
import re

from dispatchcov.errors import ExpressionError, brief
from dispatchcov.expr_nodes import (
    FUNCTIONS,
    NAME,
    And,
    Bin,
    Call,
    Compare,
    Const,
    Expr,
    In,
    Not,
    Or,
    Value,
    Var,
    join,
    negate,
)

MAX_TEXT = 4000
MAX_DEPTH = 60
INT_LIMIT = 1 << 63
LANGUAGE = "integers, strings, booleans, + - * // %, comparisons, in, and, or, not, min, max, ceildiv"
BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Python warns about these and goes on: a number glued to a word, and an escape that is none. Here they are errors.
LEXEME = re.compile(r""" "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | \#[^\n]* | \b[0-9]\w* """, re.X)
NUMBER = re.compile(r"[0-9]+(?:_[0-9]+)*\Z|0[xX](?:_?[0-9a-fA-F])+\Z|0[oO](?:_?[0-7])+\Z|0[bB](?:_?[01])+\Z")
ESCAPE = re.compile(r"""\\(?:[\\'"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})""")


def parse(text: str) -> Expr:
    """Parse ``text``; raises :class:`ExpressionError` for anything outside the language. Nothing is evaluated.

    ``text`` may go over several lines. At most 4,000 characters, nested at most 60 levels; integers are below 2**63.
    """
    if not isinstance(text, str):
        raise ExpressionError(f"expected an expression in a string, got {type(text).__name__} {brief(text)}")
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"expected at most {MAX_TEXT} characters, got {len(text)}")
    text = text.replace("\r\n", "\n")
    if control := CONTROL.search(text):
        raise ExpressionError(f"expected no control characters, got {control[0]!r} in {_short(text)!r}")
    _check_lexemes(text)
    try:
        # In parentheses, so that the lines of a long guard are one expression.
        body = ast.parse(f"({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
        raise ExpressionError(f"expected an expression, got {_short(text)!r}: {reason}") from None
    if body.col_offset == 0 and body.lineno == 1 and not isinstance(body, ast.Tuple | ast.GeneratorExp):
        raise ExpressionError(f"expected an expression, got {_short(text)!r}: unbalanced parentheses")
    if isinstance(body, ast.Tuple) and not body.elts:
        raise ExpressionError(f"expected an expression, got {_short(text)!r}")
    return _Parser(text).convert(body, 1)


def _check_lexemes(text: str) -> None:
    for match in LEXEME.finditer(text):
        lexeme = match[0]
        if lexeme[0].isdigit() and not NUMBER.match(lexeme):
            raise ExpressionError(f"expected an integer, got {_short(lexeme)!r} in {_short(text)!r}")
        if lexeme[0] in "\"'" and "\\" in ESCAPE.sub("", lexeme):
            raise ExpressionError(f"expected a backslash to be written \\\\, got {_short(lexeme)} in {_short(text)!r}")


PARTS = {
    "Attribute": "an attribute",
    "BinOp": "this operator",
    "Dict": "a dictionary",
    "GeneratorExp": "a generator",
    "IfExp": "if-else",
    "JoinedStr": "an f-string",
    "Lambda": "a lambda",
    "List": "a list outside 'in'",
    "ListComp": "a comprehension",
    "NamedExpr": "an assignment",
    "Set": "a set outside 'in'",
    "Starred": "a starred value",
    "Subscript": "an index",
    "Tuple": "a tuple outside 'in'",
    "UnaryOp": "this operator",
}


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.source = f"({text}\n)"
        self.lines = self.source.encode().split(b"\n")

    def fail(self, node: ast.AST, what: str) -> ExpressionError:
        part = ast.get_source_segment(self.source, node) or self.text
        return ExpressionError(f"{what}: {_short(part)!r} in {_short(self.text)!r}; the language has {LANGUAGE}")

    def convert(self, node: ast.expr, depth: int) -> Expr:
        if depth > MAX_DEPTH:
            raise ExpressionError(f"expected at most {MAX_DEPTH} nested levels in {_short(self.text)!r}")
        deeper = depth + 1
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.name(node)
            case ast.BoolOp():
                parts = [self.convert(part, deeper) for part in node.values]
                return join(And if isinstance(node.op, ast.And) else Or, parts)
            case ast.UnaryOp(op=ast.Not()):
                return Not(self.convert(node.operand, deeper))
            case ast.UnaryOp(op=ast.USub()):
                return negate(self.convert(node.operand, deeper))
            case ast.BinOp() if type(node.op) in BINARY:
                left, right = self.convert(node.left, deeper), self.convert(node.right, deeper)
                return Bin(BINARY[type(node.op)], left, right)
            case ast.BinOp(op=ast.Div()):
                raise self.fail(node, "'/' gives a fraction; write '//' or '%'")
            case ast.BinOp(op=ast.Pow()):
                raise self.fail(node, "'**' is not in the language; write the number, as 2147483648 for 2**31")
            case ast.Compare():
                return self.comparison(node, deeper)
            case ast.Call():
                return self.call(node, deeper)
        raise self.fail(node, f"{PARTS.get(type(node).__name__, 'this')} is not in the language")

    def constant(self, node: ast.Constant) -> Const:
        value = node.value
        if isinstance(value, bool | str):
            return Const(value)
        if isinstance(value, int):
            if value >= INT_LIMIT:
                raise self.fail(node, "an integer is below 2**63")
            return Const(value)
        raise self.fail(node, f"a {type(value).__name__} is not in the language")

    def name(self, node: ast.Name) -> Var:
        # Python takes other letters for these, "ℳ" for "M": the text must say the name itself.
        written = self.lines[node.lineno - 1][node.col_offset : node.end_col_offset]
        if not NAME.match(node.id) or written != node.id.encode():
            raise self.fail(node, "a name is letters, digits and _, and begins with a letter")
        return Var(node.id)

    def call(self, node: ast.Call, depth: int) -> Expr:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS or node.keywords:
            raise self.fail(node, f"the only calls are {', '.join(FUNCTIONS)}")
        name, count = node.func.id, len(node.args)
        if (name == "ceildiv" and count != 2) or count < 2:
            wanted = "two" if name == "ceildiv" else "two or more"
            raise self.fail(node, f"{name} takes {wanted} arguments, got {count}")
        return Call(name, tuple(self.convert(arg, depth) for arg in node.args))

    def comparison(self, node: ast.Compare, depth: int) -> Expr:
        sides = [node.left, *node.comparators]
        links: list[Expr] = []
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(op, ast.In | ast.NotIn):
                member: Expr = In(self.convert(left, depth), self.members(right, depth))
                links.append(Not(member) if isinstance(op, ast.NotIn) else member)
            elif type(op) in COMPARE:
                links.append(Compare(COMPARE[type(op)], self.convert(left, depth), self.convert(right, depth)))
            else:
                raise self.fail(node, "compare with == != < <= > >= in, not in")
        return join(And, links)

    def members(self, node: ast.expr, depth: int) -> tuple[Value, ...]:
        if not isinstance(node, ast.List | ast.Tuple | ast.Set) or not node.elts:
            raise self.fail(node, "'in' is followed by a list of constants, as in [16, 32]")
        values = []
        for element in node.elts:
            item = self.convert(element, depth)
            if not isinstance(item, Const):
                raise self.fail(element, "'in' is followed by constants")
            values.append(item.value)
        return tuple(values)


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."

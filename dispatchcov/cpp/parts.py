"""The pieces of a generated header that decide: types, names, predicates, the rules in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dispatchcov.cpp.expr import Printer, bare
from dispatchcov.cpp.names import Names, comment, literal
from dispatchcov.expr import Value
from dispatchcov.formula import ALWAYS, Every, Formula, Leaf, Opposite
from dispatchcov.table import Table, Variable

_TYPES = ("Decision", "Facts", "Kernel", "Rule", "Spec", "Vector")
_FUNCTIONS = (
    "decide",
    "digest",
    "find",
    "internal",
    "kernel_of",
    "name",
    "op",
    "outcomes",
    "record",
    "region",
    "select",
    "vector",
)
_HD = "DISPATCHCOV_HD constexpr"
NEXT = "\n           "


class Pieces:
    """``scope`` is the namespace of the header as others name it: ``::library::operator_dispatch::``.

    ``fields`` are the members of ``Facts`` by variable, ``enums`` the types of those that are enums, ``values`` the
    enumerators of these, ``other`` what is recorded for a value that none of them is.
    """

    def __init__(self, table: Table, scope: str) -> None:
        self.table = table
        self.scope = scope
        enums = [variable for variable in table.variables if variable.type == "enum"]
        fields, rules, kernels = Names(("Facts", "std")), Names(("none_",)), Names(("none_",))
        self.fields = {variable.name: fields.give(variable.name) for variable in table.variables}
        types = Names((*_TYPES, *_FUNCTIONS, *self.fields.values()))
        self.enums = {variable.name: types.give(f"{variable.name}_t") for variable in enums}
        self.values = {variable.name: _enumerators(variable) for variable in enums}
        self.other = {variable.name: _other(variable) for variable in enums}
        self.rules = {rule.name: rules.give(rule.name) for rule in table.rules}
        self.kernels = {kernel.name: kernels.give(kernel.name) for kernel in table.kernels}
        scoped = {
            name: {value: f"{self.enums[name]}::{text}" for value, text in values.items()}
            for name, values in self.values.items()
        }
        printer = Printer(table.variables, {name: f"f.{field}" for name, field in self.fields.items()}, scoped)
        self.printed = [(printer.predicate(predicate.expr), printer.faulty) for predicate in table.predicates]

    # --- types and names --------------------------------------------------------------------------------------------

    def types(self) -> Iterator[str]:
        """The operator, its facts, rules and kernels."""
        table = self.table
        yield f"inline constexpr const char* op = {literal(table.op)};"
        yield f'inline constexpr const char* digest = "{table.digest}";\n'
        for name, enum in self.enums.items():
            values = {str(value): own for value, own in self.values[name].items()}
            yield _enum(enum, "other_ = -1,  // none of the declared values: outside the domain", values)
        yield "struct Facts {"
        for variable in table.variables:
            kind = {"int": "std::int64_t", "bool": "bool"}.get(variable.type) or self.enums[variable.name]
            hardware = ", of the machine" if variable.hardware else ""
            field = self.fields[variable.name]
            called = f"; in the table: {variable.name}" if field != variable.name else ""
            yield f"    {kind} {field};  {comment(variable.domain() + hardware + called)}"
        yield "};\n"
        yield _enum("Rule", "none_ = -1,", self.rules)
        yield _enum("Kernel", "none_ = -1,", self.kernels)
        yield "// A bit for the outcome of each predicate, and one that says that facts are outside the domains."
        yield f"using Vector = ::dispatchcov::Bits<{len(table.predicates) + 1}>;\n"

    def names(self) -> Iterator[str]:
        """Functions from enumerators to the names in the table, and back where a program has only the name."""
        yield from _name("Rule", self.rules, "none_", "no rule")
        yield from _name("Kernel", self.kernels, "none_", "no kernel")
        for name, enum in self.enums.items():
            values = {str(value): text for value, text in self.values[name].items()}
            yield from _name(enum, values, "other_", self.other[name])
            yield f"constexpr {enum} {enum}_of(std::string_view text) {{"
            yield from (f"    if (text == {literal(text)}) return {enum}::{own};" for text, own in values.items())
            yield f"    return {enum}::other_;\n}}\n"
        yield f"{_HD} Kernel kernel_of(Rule rule) {{\n    switch (rule) {{"
        for rule in self.table.rules:
            yield f"        case Rule::{self.rules[rule.name]}: return Kernel::{self.kernels[rule.kernel.name]};"
        yield "        case Rule::none_:\n        default: return Kernel::none_;\n    }\n}\n"

    def code(self, variable: Variable) -> str:
        """The member of ``f`` as the recorder takes it, an integer."""
        field = f"f.{self.fields[variable.name]}"
        return field if variable.type == "int" else f"static_cast<std::int64_t>({field})"

    # --- the decision -----------------------------------------------------------------------------------------------

    def predicates(self) -> Iterator[str]:
        """A function for each predicate; of one that may have no value, one that says so and one that throws."""
        yield "namespace arithmetic = ::dispatchcov::arithmetic;\nusing ::dispatchcov::Fault;\n"
        for predicate, (text, faulty) in zip(self.table.predicates, self.printed, strict=True):
            name = f"{_HD} bool p{predicate.index}(const Facts& f"
            note = comment(predicate.text)
            if not faulty:
                yield f"{name}) {{ return {text}; }}  {note}"
                continue
            yield f"{name}, Fault& fault) {{ return {text}; }}  {note}"
            yield f"{name}) {{\n    Fault fault = Fault::none;\n    const bool held = p{predicate.index}(f, fault);"
            what = literal(f"{self.table.op}: {predicate.text}")
            yield f"    if (fault != Fault::none) ::dispatchcov::fail(fault, {what});\n    return held;\n}}"
        inside = [text for variable in self.table.variables for text in self._domain(variable)]
        yield f"\n{_HD} bool inside([[maybe_unused]] const Facts& f) {{"
        yield f"    return {f'{NEXT}&& '.join(inside) or 'true'};\n}}\n"

    def decision(self) -> Iterator[str]:
        """``find`` and ``select``."""
        yield "// The first rule whose guard holds, or `none_`. Throws dispatchcov::UndefinedError where a guard"
        yield "// divides by zero, dispatchcov::OverflowError where one needs a number beyond 127 bits."
        yield f"{_HD} Rule find([[maybe_unused]] const Facts& f) {{\n    using namespace internal;"
        for rule in self.table.rules:
            found = f"return Rule::{self.rules[rule.name]};"
            if rule.guard == ALWAYS:
                yield f"    {found}\n}}\n"
                break
            yield f"    if ({bare(self.guard(rule.guard, 'p{}(f)'.format))}) {found}  {comment(rule.when)}"
        else:
            yield "    return Rule::none_;\n}\n"
        yield "// The same, or throws dispatchcov::UntotalError."
        yield f"{_HD} Rule select(const Facts& f) {{\n    const Rule rule = find(f);"
        yield "    if (rule == Rule::none_) ::dispatchcov::fail(::dispatchcov::Fault::none, op);\n    return rule;\n}\n"

    def outcomes(self) -> Iterator[str]:
        """``vector``, and ``outcomes``, which is for what other code decided and throws nothing."""
        says = "// The outcome of every predicate. One that no guard reads and that divides by zero does not hold."
        if not any(faulty for _, faulty in self.printed):
            yield f"{says}\n{_HD} Vector vector(const Facts& f) {{\n    using namespace internal;\n    Vector v{{}};"
            yield from (f"    v.set({index}, p{index}(f));" for index in range(len(self.printed)))
            yield f"    v.set({len(self.printed)}, !inside(f));\n    return v;\n}}\n"
            yield f"{_HD} Vector outcomes(const Facts& f) {{ return vector(f); }}\n"
            return
        yield "namespace internal {\n"
        yield f"{_HD} Vector all(const Facts& f, Fault& overflow) {{\n    Vector v{{}};\n    Fault fault = Fault::none;"
        for index, (_, faulty) in enumerate(self.printed):
            if faulty:
                yield f"    v.set({index}, p{index}(f, fault) && fault == Fault::none);"
                yield "    if (fault == Fault::overflow) overflow = fault;\n    fault = Fault::none;"
            else:
                yield f"    v.set({index}, p{index}(f));"
        yield f"    v.set({len(self.printed)}, !inside(f));\n    return v;\n}}\n"
        yield f"// What `find` would throw.\n{_HD} Fault fault_of(const Facts& f) {{\n    Fault fault = Fault::none;"
        for rule in self.table.rules:
            if rule.guard != ALWAYS:
                yield f"    if ({bare(self.guard(rule.guard, self._noting))}) return fault;"
        yield "    return fault;\n}\n\n}  // namespace internal\n"
        yield f"{says}\n{_HD} Vector vector(const Facts& f) {{"
        yield "    (void)find(f);  // throws what a decision would"
        yield "    internal::Fault overflow = internal::Fault::none;"
        yield "    const Vector v = internal::all(f, overflow);"
        yield "    if (overflow != internal::Fault::none) ::dispatchcov::fail(overflow, op);\n    return v;\n}\n"
        yield "// The same for what other code decided: facts for which a guard has no value are outside the domains."
        yield f"{_HD} Vector outcomes(const Facts& f) {{\n    internal::Fault fault = internal::fault_of(f);"
        yield "    Vector v = internal::all(f, fault);"
        yield f"    if (fault != internal::Fault::none) v.set({len(self.printed)}, true);\n    return v;\n}}\n"

    def _noting(self, index: int) -> str:
        """Predicate ``index`` as it is read where a fault is noted, not thrown."""
        return f"p{index}(f, fault)" if self.printed[index][1] else f"p{index}(f)"

    def guard(self, formula: Formula, leaf: Callable[[int], str]) -> str:
        """``formula`` with predicate ``i`` printed as ``leaf(i)``."""
        match formula:
            case Leaf():
                return leaf(formula.index)
            case Opposite():
                return f"!{self.guard(formula.operand, leaf)}"
        every = isinstance(formula, Every)
        parts = (self.guard(part, leaf) for part in formula.operands)
        return f"({(' && ' if every else ' || ').join(parts) or str(every).lower()})"

    def _domain(self, variable: Variable) -> Iterator[str]:
        field = f"f.{self.fields[variable.name]}"
        if variable.type == "enum":
            yield f"static_cast<unsigned>({field}) < {len(variable.values)}u"
        elif variable.type == "int" and variable.values:
            yield f"arithmetic::one_of({', '.join([field, *map(str, variable.values)])})"
        elif variable.type == "int":
            if variable.min is not None:
                yield f"{field} >= {variable.min}"
            if variable.max is not None:
                yield f"{field} <= {variable.max}"
            if variable.multiple_of > 1:
                yield f"{field} % {variable.multiple_of} == 0"


def _enumerators(variable: Variable) -> dict[Value, str]:
    names = Names(("other_",))
    return {value: names.give(str(value)) for value in variable.values}


def _other(variable: Variable) -> str:
    text = "?"
    while text in variable.values:
        text += "?"
    return text


def _enum(name: str, first: str, names: Mapping[str, str]) -> str:
    """The enumeration ``name``: an enumerator for each text of the table, which is a comment where it is another."""
    lines = [first]
    for place, (text, own) in enumerate(names.items()):
        called = f"  {comment(f'in the table: {text}')}" if text != own else ""
        lines.append(f"{own} = {place},{called}")
    return "\n".join([f"enum class {name} : std::int32_t {{", *(f"    {line}" for line in lines), "};\n"])


def _name(enum: str, names: Mapping[str, str], first: str, none: str) -> Iterator[str]:
    yield f"{_HD} const char* name({enum} value) {{\n    switch (value) {{"
    yield from (f"        case {enum}::{own}: return {literal(text)};" for text, own in names.items())
    yield f"        case {enum}::{first}:\n        default: return {literal(none)};\n    }}\n}}\n"

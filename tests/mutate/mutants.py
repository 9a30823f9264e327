"""Finds what can be mutated in headers, and writes headers that contain all mutants. A test switches on one at a time."""
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from clang.cindex import CursorKind as Kind
from clang.cindex import Index, TranslationUnit, TypeKind

from lexer import Source

# Of two replacements, one is drawn for each place.
OPERATORS = {
    "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"],
    "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"], "^": ["|"],
    "+=": ["-="], "-=": ["+="], "*=": ["/="], "/=": ["*="], "%=": ["/="],
    "<<=": [">>="], ">>=": ["<<="], "&=": ["|="], "|=": ["&="], "^=": ["|="],
}  # fmt: skip
ONE_BYTE = "latin-1"  # clang counts bytes
CONSTANTS = {Kind.INTEGER_LITERAL, Kind.FLOATING_LITERAL, Kind.CHARACTER_LITERAL, Kind.CXX_BOOL_LITERAL_EXPR}
FUNCTIONS = {
    Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR, Kind.CONVERSION_FUNCTION,
    Kind.FUNCTION_TEMPLATE, Kind.LAMBDA_EXPR,
}  # fmt: skip
SKIPPED = {
    Kind.STATIC_ASSERT, Kind.TYPE_ALIAS_DECL, Kind.TYPE_ALIAS_TEMPLATE_DECL, Kind.TYPEDEF_DECL, Kind.ENUM_DECL,
    Kind.TEMPLATE_TYPE_PARAMETER, Kind.TEMPLATE_NON_TYPE_PARAMETER, Kind.TEMPLATE_TEMPLATE_PARAMETER,
    Kind.UNEXPOSED_DECL, Kind.UNEXPOSED_ATTR, Kind.TYPE_REF, Kind.TEMPLATE_REF, Kind.NAMESPACE_REF,
}  # fmt: skip
LOOPS = {Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT, Kind.CXX_FOR_RANGE_STMT}
STATEMENTS = {Kind.CALL_EXPR, Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.UNARY_OPERATOR, Kind.CONTINUE_STMT}


@dataclass(frozen=True)
class Mutant:
    """`original`, at the offsets `begin` to `end` of a file, becomes `mutated`; a statement becomes nothing."""

    file: str
    begin: int
    end: int
    line: int
    context: str  # the text of that line
    original: str
    mutated: str
    nth: int = 1  # of those with the same text

    @property
    def module(self):
        return self.file.split("/")[0] if "/" in self.file else "top"

    @property
    def key(self):
        """A mutant is known by its text, so it stays the same when it moves."""
        return (self.file, self.context, self.original + (f" [{self.nth}]" if self.nth > 1 else ""), self.mutated)

    @property
    def is_statement(self):
        return self.mutated == ""


def drawn(*of):
    """A number that depends on this text only."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, of)).encode()).digest()[:8], "big")


def negated(condition):
    return f"!({condition})"


def children_of(cursor):
    """The children of kinds that the bindings know."""
    result = []
    for child in cursor.get_children():
        try:
            child.kind
        except ValueError:
            continue
        result.append(child)
    return result


def in_order(mutants):
    """In the order of the files, an outer one before its inner ones."""
    return sorted(mutants, key=lambda mutant: (mutant.file, mutant.begin, -mutant.end))


class Finder:
    def __init__(self, include, skipped_files):
        self.include = include
        self.skipped_files = skipped_files
        self.sources = {}
        self.found = {}
        self.macros = {}

    def find(self, translation_unit):
        for cursor in children_of(translation_unit.cursor):
            if cursor.kind == Kind.MACRO_INSTANTIATION and self.file_of(cursor):
                self.macros.setdefault(self.file_of(cursor), set()).add(cursor.extent.start.offset)
        for cursor in children_of(translation_unit.cursor):
            if self.file_of(cursor):
                self.visit(cursor, None, None)
        keys = Counter()
        result = []
        for mutant in in_order(self.found.values()):
            keys[mutant.key] += 1
            result.append(replace(mutant, nth=keys[mutant.key]))
        return result

    def file_of(self, cursor):
        if cursor.location.file is None:
            return None
        path = Path(cursor.location.file.name).resolve()
        if self.include not in path.parents:
            return None
        file = path.relative_to(self.include).as_posix()
        if file in self.skipped_files:
            return None
        if file not in self.sources:
            self.sources[file] = Source(path.read_text(encoding=ONE_BYTE))
        return file

    def visit(self, cursor, parent, function):
        if cursor.kind in SKIPPED or self.is_constant(cursor) or self.file_of(cursor) is None:
            return
        children = children_of(cursor)
        if function is not None:
            self.mutate(cursor, children, parent, function)
        if cursor.kind in FUNCTIONS or cursor.kind == Kind.FIELD_DECL:
            function = cursor
        if parent is not None and parent.kind == Kind.FOR_STMT and cursor.kind == Kind.UNARY_OPERATOR:
            return
        for child in children:
            if cursor.kind == Kind.CASE_STMT and child == children[0] or self.is_bound(cursor, child):
                continue
            self.visit(child, cursor, function)

    def is_bound(self, declaration, child):
        """Whether the child is the size of an array."""
        if declaration.kind not in (Kind.VAR_DECL, Kind.FIELD_DECL):
            return False
        source = self.sources[self.file_of(declaration)]
        return source.tokens[source.token_at(child.extent.start.offset) - 1][2] == "["

    def is_constant(self, cursor):
        if cursor.kind not in (Kind.VAR_DECL, Kind.FIELD_DECL):
            return False
        source = self.sources[self.file_of(cursor)]
        last = first = source.token_at(cursor.location.offset)
        while source.tokens[first - 1][2] not in ";{}":  # other names may be declared before it
            first -= 1
        return any(token == "constexpr" for _, _, token in source.tokens[first:last])

    def mutate(self, cursor, children, parent, function):
        begin, end = cursor.extent.start.offset, cursor.extent.end.offset
        file = self.file_of(cursor)
        source = self.sources[file]
        is_macro = begin in self.macros.get(file, ())
        if end <= begin or is_macro or source.has_directive(begin, end) or not source.is_executed(begin):
            return
        original = source.words(begin, end)
        if not original:  # a defaulted function, whose body is in no file
            return
        line, context = source.line(begin)
        choices = self.replacements(source, cursor, children, parent, function, original)
        if self.is_statement(cursor, parent, source):
            choices.append("")
        if choices:
            mutated = choices[drawn(file, context, original) % len(choices)]
            self.found[file, begin, end] = Mutant(file, begin, end, line, context, original, mutated)

    @staticmethod
    def is_statement(cursor, parent, source):
        """A statement that is an expression, whose value is not used."""
        end = source.token_at(cursor.extent.end.offset)
        if cursor.kind not in STATEMENTS or source.tokens[end][2] != ";":
            return False
        before = source.tokens[source.token_at(cursor.extent.start.offset) - 1][2]
        return parent.kind == Kind.COMPOUND_STMT or (
            (parent.kind == Kind.IF_STMT or parent.kind in LOOPS) and before in (")", "else")
        )

    def replacements(self, source, cursor, children, parent, function, original):
        if cursor.kind in (Kind.BINARY_OPERATOR, Kind.COMPOUND_ASSIGNMENT_OPERATOR) and len(children) == 2:
            return self.of_operator(source, *children)
        if cursor.kind == Kind.UNARY_OPERATOR:
            operand = original[1:]
            if original.startswith(("++", "--")):
                return [{"+": "--", "-": "++"}[original[0]] + original[2:]] if parent.kind == Kind.COMPOUND_STMT else []
            return {"!": [f"static_cast<bool>({operand})"], "-": [f"+{operand}"], "~": [operand]}.get(original[0], [])
        if cursor.kind in CONSTANTS:
            return self.of_constant(cursor, original)
        if cursor.kind == Kind.CONDITIONAL_OPERATOR:
            condition, yes, no = (source.words(c.extent.start.offset, c.extent.end.offset) for c in children)
            return [f"{condition} ? {no} : {yes}"]
        if cursor.kind in (Kind.CALL_EXPR, Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR, Kind.UNEXPOSED_EXPR):
            for name, other in (("std::min", "std::max"), ("std::max", "std::min")):
                if cursor.kind == Kind.CALL_EXPR and original.startswith((name + "(", name + "<")):
                    return [original.replace(name, other, 1)]
            if self.is_asked(source, cursor, children, parent, function):
                return [negated(original)]
        return []

    @staticmethod
    def is_asked(source, cursor, children, parent, function):
        """Whether the cursor is all of the condition of an if, or what a function of bool returns."""
        before = source.tokens[source.token_at(cursor.extent.start.offset) - 1][2]
        after = source.tokens[source.token_at(cursor.extent.end.offset)][2]
        if parent.kind == Kind.RETURN_STMT:
            return function.result_type.kind == TypeKind.BOOL and before == "return" and after == ";"
        return parent.kind in (Kind.IF_STMT, Kind.WHILE_STMT) and before == "(" and after == ")"

    @staticmethod
    def of_operator(source, left, right):
        operator = source.words(left.extent.end.offset, right.extent.start.offset)
        pointers = (TypeKind.POINTER, TypeKind.NULLPTR)
        if operator == "-" and left.type.kind in pointers and right.type.kind in pointers:
            return []
        if operator in ("+", "+=") and re.search(r"string|char ?\[", left.type.spelling + right.type.spelling):
            return []

        def operand(cursor):
            text = source.words(cursor.extent.start.offset, cursor.extent.end.offset)
            return f"({text})" if cursor.kind in (Kind.BINARY_OPERATOR, Kind.CONDITIONAL_OPERATOR) else text

        return [f"{operand(left)} {other} {operand(right)}" for other in OPERATORS.get(operator, [])]

    @staticmethod
    def of_constant(cursor, original):
        if cursor.kind == Kind.CXX_BOOL_LITERAL_EXPR:
            return ["false" if original == "true" else "true"]
        if cursor.kind == Kind.CHARACTER_LITERAL:
            return [f"static_cast<char>({original} + 1)"]
        is_zero = re.fullmatch(r"(0x[0.]+|0[0.]*)(p0)?[uUlLfF]*", original)
        if cursor.kind == Kind.FLOATING_LITERAL:
            return [f"{original} + 1" if is_zero else f"{original} * 2"]
        return [f"{original} + 1"] if is_zero else [f"{original} + 1", f"{original} - 1"]


def parse(headers, include, flags):
    text = "".join(f"#include <headroom/{header}>\n" for header in headers)
    unit = Index.create().parse(
        "all.cpp",
        ["-std=c++17", f"-I{include.parent}", *flags],
        [("all.cpp", text)],
        TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD,
    )
    for diagnostic in unit.diagnostics:
        if diagnostic.severity >= 3:
            print("clang:", diagnostic)
    return unit


def draw(mutants, number):
    """`number` mutants, from each module by its size, with a minimum for each. The choice depends on their text only."""
    modules = {}
    for mutant in mutants:
        modules.setdefault(mutant.module, []).append(mutant)
    result = []
    for of_module in modules.values():
        share = max(number * len(of_module) // len(mutants), number // (2 * len(modules)))
        result += sorted(of_module, key=lambda mutant: (drawn(*mutant.key), mutant.begin))[:share]
    return in_order(result)


def mutated_source(source, mutants):
    """The text with these mutants: pairs of a number and a mutant of this file, an outer one before its inner ones."""

    def rendered(begin, end, inner):
        result, at = "", begin
        while inner:
            number, mutant = inner.pop(0)
            within = [other for other in inner if other[1].begin < mutant.end]
            inner = inner[len(within) :]
            result += source.text[at : mutant.begin]
            original = rendered(mutant.begin, mutant.end, within)
            at = mutant.end
            if mutant.is_statement:
                at = source.begins[source.token_at(mutant.end)] + 1
                result += f"{{ if (!headroom_mutant({number})) {original}; }}"
            else:
                result += f"(headroom_mutant({number}) ? ({mutant.mutated}) : ({as_condition(mutant, original)}))"
            at = max(at, mutant.end)
        return result + source.text[at:end]

    def as_condition(mutant, original):
        return f"static_cast<bool>({original})" if mutant.mutated == negated(mutant.original) else original

    text = rendered(0, len(source.text), list(mutants))
    return text.replace("#pragma once", "#pragma once\n#include <headroom_mutant.hpp>", 1)

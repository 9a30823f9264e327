"""The part of C++ that mutants.py needs to read in the text itself, which clang-format has formatted."""
import bisect
import re

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<directive>(?<![^\n])\s*\#(?:[^\n\\]|\\.)*)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|['\w.])*)
      | (?P<sign><<=|>>=|->|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|::|.)""",
    re.VERBOSE | re.DOTALL,
)

# The parentheses after these are not executed, or only by the compiler.
UNEXECUTED = {"decltype", "noexcept", "sizeof", "alignof", "alignas", "static_assert", "explicit", "__asm__", "__attribute__"}


class Source:
    """A source file: its tokens, and the parts that are not executed."""

    def __init__(self, text):
        self.text = text
        self.tokens = []  # (begin, kind, text), without spaces and comments
        self.directives = []
        for match in TOKEN.finditer(text):
            if match.lastgroup == "directive":
                self.directives.append(match.start())
            elif match.lastgroup != "space":
                self.tokens.append((match.start(), match.lastgroup, match.group()))
        self.begins = [token[0] for token in self.tokens]
        self.unexecuted = sorted(self._template_arguments() + self._operands())

    def _template_arguments(self):
        """Unlike a comparison, an angle bracket has no space before it, except after `template`."""
        found, stack = [], []
        previous = ""
        for begin, kind, token in self.tokens:
            if kind == "sign" and token == "<" and previous != "operator":
                if previous == "template" or not self.text[begin - 1].isspace():
                    stack.append(begin)
            elif kind == "sign" and token in "([{":
                stack.append(token)
            elif kind == "sign" and token in ")]}":
                while stack and isinstance(stack.pop(), int):
                    pass
            elif kind == "sign" and token in (">", ">>"):
                for _ in token:
                    if stack and isinstance(stack[-1], int):
                        found.append((stack.pop(), begin + 1))
            previous = token
        return found

    def _operands(self):
        found = []
        for i, (begin, _, token) in enumerate(self.tokens[:-1]):
            is_if_constexpr = token == "constexpr" and i > 0 and self.tokens[i - 1][2] == "if"
            if (token in UNEXECUTED or is_if_constexpr) and self.tokens[i + 1][2] == "(":
                found.append((begin, self.closing(i + 1)))
        return found

    def closing(self, opening):
        """The offset behind the bracket that closes the token `opening`."""
        depth = 0
        for begin, kind, token in self.tokens[opening:]:
            if kind == "sign" and token in "([{":
                depth += 1
            elif kind == "sign" and token in ")]}":
                depth -= 1
                if depth == 0:
                    return begin + 1
        raise ValueError("a bracket is not closed")

    def is_executed(self, begin):
        return not any(first <= begin < last for first, last in self.unexecuted)

    def has_directive(self, begin, end):
        return any(begin <= directive < end for directive in self.directives)

    def token_at(self, offset):
        """The number of the first token at or after an offset."""
        return bisect.bisect_left(self.begins, offset)

    def words(self, begin, end):
        """Text on one line and without comments."""
        result, last = "", begin
        for token_begin, _, token in self.tokens[self.token_at(begin) : self.token_at(end)]:
            if last < token_begin and result:
                result += " "
            result += token
            last = token_begin + len(token)
        return result

    def line(self, offset):
        """The number of a line and its text."""
        first = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset) + 1, self.text[first : self.text.find("\n", offset)].strip()

"""From the lexer's tokens to the tokens that the grammar expects.

Decides what a newline means, which words are keywords or units, and what to do about brackets that do not match: they
are reported and repaired here, so that the grammar only sees matching brackets and the rest of the file is still
parsed. What a statement looks like is left to the grammar.
"""

import re
from collections import Counter
from dataclasses import dataclass

from leaven.language import lexical_errors
from leaven.language.diagnostics import Diagnostic
from leaven.language.fixes import Edit
from leaven.language.source import Source, Span
from leaven.language.tokens import Token

MAX_NESTING = 100
MAX_DEPTH = 250  # open brackets and pending operators; keeps every later recursion below Python's stack limit

KEYWORDS = {"extends": "EXTENDS", "import": "IMPORT", "arg": "ARG", "let": "LET"}
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t"}

_CLOSING = {"LPAR": ("RPAR", ")"), "CALL": ("RPAR", ")"), "LSQB": ("RSQB", "]"), "LBRACE": ("RBRACE", "}")}
_AFTER_STRING = {")": "RPAR", "]": "RSQB", "{": "LBRACE", "}": "RBRACE", ",": "COMMA"}
_NAME_OR_VALUE = ("NAME", "STRING", "NUMBER")
_OPERATORS = ("PLUS", "MINUS", "STAR", "SLASH")
_OPERAND_END = (*_NAME_OR_VALUE, "RPAR", "RSQB", "UNIT", "PERCENT")
_STATEMENT_START = ("", "END", "LBRACE")  # types of the token before a statement


@dataclass(slots=True)
class _Open:
    """An open bracket, and the operators in it that wait for their operand."""

    token: Token
    operators: int = 0
    signs: int = 0  # those of them that stand before an operand, not between two


class Layout:
    """The tokens of a file as the grammar expects them, its comments, and every error found."""

    def __init__(self, tokens: list[Token], source: Source) -> None:
        end = source.span(len(source.text), len(source.text))
        self.tokens: list[Token] = []
        self.comments: list[Span] = []
        self.diagnostics: list[Diagnostic] = []
        self.is_beyond_limit = False
        self.raw = [*tokens, Token("NEWLINE", "", end)]
        self.source = source
        self.open: list[_Open] = [_Open(Token("START", "", source.span(0, 0)))]
        self.depth = 0
        self.first_word = ""  # of the current statement
        self.end = 0  # where the last token of the text ends
        self._read()

    def _read(self) -> None:
        following = self._significant_followers()
        block_ends = self._ends_of_unclosed_blocks()
        *tokens, end = self.raw
        for index, token in enumerate(tokens):
            for _ in range(block_ends.get(index, 0)):
                self._end_unclosed_block(token)
            match token.type:
                case "COMMENT":
                    self.comments.append(token.span)
                case "NEWLINE" if self._continues_after_newline(following[index]):
                    pass
                case "NEWLINE" | "SEMICOLON":
                    self._close_brackets(token)
                    self._end_statement(token)
                case "NAME":
                    self._name(token, self.raw[index + 1])
                case _:
                    self._other(token)
            is_call = token.type == "NAME" and self.raw[index + 1].type == "LPAR"
            if token.type in _OPERAND_END and not is_call:  # the operand of the signs is complete
                self.depth -= self.open[-1].signs
                self.open[-1].operators -= self.open[-1].signs
                self.open[-1].signs = 0
            if self.depth > MAX_DEPTH or len(self.open) > MAX_NESTING + 1:
                self.diagnostics = [lexical_errors.too_deep(token, MAX_NESTING, MAX_DEPTH)]
                self.is_beyond_limit = True
                return
        while len(self.open) > 1:
            self._close_unclosed(end)
        self._end_statement(end)

    # -- newlines and statements

    def _continues_after_newline(self, following: int) -> bool:
        """Whether a newline is ignored; `following` is the index of the next significant token."""
        next_type = self.raw[following].type
        # A name before a name, string or number can only start a statement.
        starts_statement = next_type == "NAME" and self.raw[following + 1].type in _NAME_OR_VALUE
        if self._in_brackets():
            return not starts_statement
        previous = self._previous()
        if previous in ("COMMA", "ARROW") and not starts_statement:
            return True
        return next_type == "ARROW" or (next_type == "LBRACE" and previous not in (*_STATEMENT_START, "RBRACE"))

    def _end_statement(self, at: Token) -> None:
        if self._previous() not in _STATEMENT_START:
            self._insert(at, "END")
        self._forget_operators()
        self.first_word = ""

    def _significant_followers(self) -> list[int]:
        """For each token, the index of the next one that is neither newline nor comment; the last for the rest."""
        upcoming = len(self.raw) - 1
        followers = [upcoming] * len(self.raw)
        for index in range(upcoming, -1, -1):
            followers[index] = upcoming
            if self.raw[index].type not in ("NEWLINE", "COMMENT"):
                upcoming = index
        return followers

    # -- brackets

    def _opening(self, token: Token) -> None:
        if token.type == "LBRACE":
            self._close_brackets(token)
            self._forget_operators()
            self.first_word = ""
        self._emit(token, "CALL" if token.type == "LPAR" and self._is_called_statement(token) else token.type)
        self.open.append(_Open(token))
        self.depth += 1

    def _is_called_statement(self, token: Token) -> bool:
        """Whether a parenthesis follows a statement's name without a space: `mixup(0.2)`."""
        tokens = self.tokens
        if not tokens or tokens[-1].type != "NAME" or tokens[-1].span.end != token.span.start:
            return False
        return len(tokens) == 1 or tokens[-2].type in _STATEMENT_START

    def _closing(self, token: Token) -> None:
        if token.type == "RBRACE":
            self._close_brackets(token)
            if len(self.open) > 1:
                self._end_statement(token)
        opened = self.open[-1].token
        if opened.type == "START" or (opened.type == "LBRACE") != (token.type == "RBRACE"):
            self.diagnostics.append(lexical_errors.unmatched_bracket(token))
            return
        closing_type, closing = _CLOSING[opened.type]
        if closing_type != token.type:
            self.diagnostics.append(lexical_errors.wrong_bracket(opened, token, closing))
        self._close_top(token)

    def _close_brackets(self, at: Token) -> None:
        """Close every parenthesis and square bracket, as the next token can't be inside one."""
        while self._in_brackets():
            self._close_unclosed(at)

    def _close_top(self, at: Token) -> None:
        closing_type, closing = _CLOSING[self.open[-1].token.type]
        if closing_type == "RBRACE":
            self._end_statement(at)
        self._forget_operators()
        self.open.pop()
        self.depth -= 1
        if at.value == closing:
            self._emit(at, closing_type)
        else:
            self._insert(at, closing_type, closing)

    def _close_unclosed(self, at: Token) -> None:
        opened = self.open[-1].token
        closing = _CLOSING[opened.type][1]
        missing = Edit(self.source.span(self.end, self.end), closing)
        self.diagnostics.append(lexical_errors.unclosed_bracket(opened, closing, missing))
        self._close_top(at)

    def _in_brackets(self) -> bool:
        return self.open[-1].token.type in ("LPAR", "CALL", "LSQB")

    # -- blocks that are never closed

    def _ends_of_unclosed_blocks(self) -> Counter[int | None]:
        """How many unclosed blocks end before which token: one ends where a line is not indented deeper than it."""
        open_: list[int] = []
        for index, token in enumerate(self.raw):
            if token.type == "LBRACE":
                open_.append(index)
            elif token.type == "RBRACE" and open_:
                open_.pop()
        unclosed = set(open_)
        return Counter(self._dedent(opened, unclosed) for opened in open_[:MAX_NESTING])

    def _dedent(self, opened: int, unclosed: set[int]) -> int | None:
        """The first name after an opening brace that starts a line and is not indented deeper than the brace's line."""
        margin, depth = self._indent(self.raw[opened]), 0
        for index in range(opened + 1, len(self.raw)):
            kind = self.raw[index].type
            if kind == "LBRACE" and index not in unclosed:
                depth += 1
            elif kind == "RBRACE":
                depth -= 1
            elif depth or kind != "NAME" or self.raw[index - 1].type != "NEWLINE":
                continue
            elif self._indent(self.raw[index]) <= margin:
                return index
        return None

    def _indent(self, token: Token) -> int:
        line = self.source.line(token.span.line)
        return len(line) - len(line.lstrip())

    def _end_unclosed_block(self, at: Token) -> None:
        self._close_brackets(at)
        self._end_statement(at)
        opened = self.open[-1].token
        if opened.type == "LBRACE":
            line = at.span.line
            start = self.source.line_starts[line - 1]
            missing = Edit(self.source.span(start, start), f"{'':{self._indent(opened)}}}}\n")
            self.diagnostics.append(lexical_errors.unclosed_bracket(opened, "}", missing, f" before line {line}"))
            self._close_top(at)
            self._end_statement(at)

    # -- names, numbers and strings

    def _name(self, token: Token, following: Token) -> None:
        previous = self._previous()
        if previous in _STATEMENT_START and not self._in_brackets():
            self.first_word = token.value
            self._emit(token, KEYWORDS.get(token.value, "NAME"))
        elif token.value == "as" and self.first_word == "import":
            self._emit(token, "AS")
        elif self._is_second_statement(previous, following):
            self.diagnostics.append(lexical_errors.missing_newline(token))
            self._end_statement(token)
            self._name(token, following)
        elif number := self._number_in_other_base(token):
            self._emit(number)
        elif previous == "NUMBER" and following.type not in ("EQUALS", "LPAR"):
            self._emit(token, "UNIT")
        else:
            self._emit(token)

    def _is_second_statement(self, previous: str, following: Token) -> bool:
        """Whether a name can only start a statement although the one before it has not ended."""
        if self._in_brackets() or previous not in ("RPAR", "RSQB", "STRING", "RBRACE"):
            return False
        return previous == "RBRACE" or following.type in _NAME_OR_VALUE

    def _other(self, token: Token) -> None:
        match token.type:
            case "LPAR" | "LSQB" | "LBRACE":
                self._opening(token)
            case "RPAR" | "RSQB" | "RBRACE":
                self._closing(token)
            case "OPEN_STRING":
                self._open_string(token)
            case "PERCENT" if self._previous() == "NUMBER":
                self._emit(token, "UNIT")
            case kind:
                if kind in _OPERATORS:
                    self.open[-1].signs += kind == "MINUS" and self._previous() not in _OPERAND_END
                    self.open[-1].operators += 1
                    self.depth += 1
                elif kind in ("COMMA", "ARROW"):
                    self._forget_operators()
                elif kind == "STRING":
                    unknown = (pair for pair in re.finditer(r"\\.", token.value) if pair[0] not in ESCAPES)
                    if first := next(unknown, None):  # the others are likely of the same kind
                        self.diagnostics.append(lexical_errors.unknown_escape(token, first[0], first.start()))
                elif kind == "NUMBER" and re.search(r"_(?!\d)", token.value):
                    self.diagnostics.append(lexical_errors.misplaced_underscore(token))
                self._emit(token)

    def _number_in_other_base(self, token: Token) -> Token | None:
        """The number that `0` and a name form, as in `0x10`: it is reported, and replaced by its decimal value."""
        zero = self.tokens[-1]
        if zero.type != "NUMBER" or zero.value != "0" or zero.span.end != token.span.start:
            return None
        try:
            value = str(int(f"0{token}", base=0))
        except ValueError:
            return None
        self.tokens.pop()
        number = Token("NUMBER", value, zero.span.to(token.span))
        self.diagnostics.append(lexical_errors.not_decimal(number))
        return number

    def _open_string(self, token: Token) -> None:
        """A string without its closing quote: brackets and commas at the end of its line are taken to follow it."""
        text = token.value.rstrip(" \t" + "".join(_AFTER_STRING)) or token.value[:1]
        start, end = token.span.start, token.span.start + len(text)
        string = Token("STRING", text, self.source.span(start, end))
        self.diagnostics.append(lexical_errors.unclosed_string(string))
        self._emit(string)
        for at, character in enumerate(token.value[len(text) :], end):
            if character in _AFTER_STRING:
                self._other(Token(_AFTER_STRING[character], character, self.source.span(at, at + 1)))

    # -- the result

    def _forget_operators(self) -> None:
        self.depth -= self.open[-1].operators
        self.open[-1].operators = self.open[-1].signs = 0

    def _previous(self) -> str:
        return self.tokens[-1].type if self.tokens else ""

    def _emit(self, token: Token, kind: str | None = None) -> None:
        """Add a token of the text, as `kind` if one is given."""
        self.end = token.span.end
        self.tokens.append(Token(kind, token.value, token.span) if kind else token)

    def _insert(self, at: Token, kind: str, value: str = "") -> None:
        """Add a token that is not in the text, before another."""
        self.tokens.append(Token(kind, value, at.span.at_start))

"""From characters' tokens to the grammar's tokens.

Decides what a newline means, which words introduce names, and what to do about brackets that do not match:
they are reported here and mended in the token stream, so that the grammar only ever sees matching ones and the
rest of the file is still read. What a statement may look like is left to the grammar.
"""

import re
from dataclasses import dataclass, field

from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error
from leaven.language.source import Source, Span
from leaven.language.tokens import Token

MAX_NESTING = 100
MAX_DEPTH = 250  # brackets and operators that wait for each other; keeps every later walk off Python's stack limit

INTRODUCING_WORDS = {"extends": "EXTENDS", "import": "IMPORT", "arg": "ARG", "let": "LET"}
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t"}

_TAIL = {")": "RPAR", "]": "RSQB", "{": "LBRACE", "}": "RBRACE", ",": "COMMA"}  # what may follow a text on its line
_OPEN = {"LPAR": ("RPAR", ")"), "CALL": ("RPAR", ")"), "LSQB": ("RSQB", "]"), "LBRACE": ("RBRACE", "}")}
_CLOSE = {"RPAR", "RSQB", "RBRACE"}
_BASES = {"x": "hexadecimal", "b": "binary", "o": "octal"}
_SILENT = {"NEWLINE", "COMMENT"}
_OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH"}


@dataclass(slots=True)
class Arranged:
    """What the grammar is to read, the comments, and what was wrong."""

    tokens: list[Token] = field(default_factory=list)
    comments: list[Span] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    is_beyond_limit: bool = False


def _whole(text: str) -> int | None:
    """The number that Python would read."""
    try:
        return int(text, 0)
    except ValueError:
        return None


def arrange(tokens: list[Token], source: Source) -> Arranged:
    """The tokens of a file as the grammar expects them."""
    return _Layout(tokens, source).run()


@dataclass(slots=True)
class _Open:
    token: Token
    operators: int = 0


class _Layout:
    def __init__(self, raw: list[Token], source: Source) -> None:
        self.raw = raw
        self.source = source
        self.result = Arranged()
        self.open: list[_Open] = [_Open(Token("START", "", source.span(0, 0)))]
        self.depth = 0
        self.word = ""  # the word that begins the statement being read
        self.end = 0  # where the last token of the text ends

    def run(self) -> Arranged:
        following = self._significant_followers()
        lost = self._ends_of_lost_blocks()
        for index, token in enumerate(self.raw):
            for _ in range(lost.get(index, 0)):
                self._close_lost_block(token)
            match token.type:
                case "COMMENT":
                    self.result.comments.append(token.span)
                case "NEWLINE":
                    self._newline(following[index], token)
                case "SEMICOLON":
                    self._close_brackets(token)
                    self._end_statement(token)
                case "LPAR" | "LSQB" | "LBRACE" | "RPAR" | "RSQB" | "RBRACE":
                    self._bracket(token)
                case "NAME":
                    self._name(token, self.raw[index + 1] if index + 1 < len(self.raw) else None)
                case _:
                    self._other(token)
            if self.depth > MAX_DEPTH or len(self.open) > MAX_NESTING + 1:
                return self._too_deep(token)
        end = Token("NEWLINE", "", self.source.span(len(self.source.text), len(self.source.text)))
        while len(self.open) > 1:
            self._report_unclosed()
            self._close_top(end)
        self._end_statement(end)
        return self.result

    # -- newlines and statements

    def _newline(self, following: int | None, token: Token) -> None:
        if self._in_brackets():
            if following is not None and self._starts_statement(following):
                self._close_brackets(token)
                self._end_statement(token)
            return
        previous = self._previous()
        next_type = self.raw[following].type if following is not None else ""
        if previous in ("COMMA", "ARROW") and not (following is not None and self._starts_statement(following)):
            return
        if next_type == "ARROW" or (next_type == "LBRACE" and previous not in ("", "END", "LBRACE", "RBRACE")):
            return
        self._end_statement(token)

    def _end_statement(self, at: Token) -> None:
        if self._previous() not in ("", "END", "LBRACE"):
            self._insert(at, "END")
        self._forget_operators()
        self.word = ""

    def _starts_statement(self, index: int) -> bool:
        """Whether what stands there can only be the beginning of a statement: a word, then a word, text or number."""
        if index + 1 >= len(self.raw) or self.raw[index].type != "NAME":
            return False
        return self.raw[index + 1].type in ("NAME", "STRING", "NUMBER")

    def _significant_followers(self) -> list[int | None]:
        """For each token, the index of the next one that is neither newline nor comment."""
        followers: list[int | None] = [None] * len(self.raw)
        upcoming: int | None = None
        for index in range(len(self.raw) - 1, -1, -1):
            followers[index] = upcoming
            if self.raw[index].type not in _SILENT:
                upcoming = index
        return followers

    # -- brackets

    def _bracket(self, token: Token) -> None:
        if token.type in _CLOSE:
            self._closing(token)
        else:
            self._opening(token)

    def _opening(self, token: Token) -> None:
        if token.type == "LBRACE":
            self._close_brackets(token)
            self._forget_operators()
        self._emit(token, "CALL" if token.type == "LPAR" and self._is_called_statement(token) else token.type)
        self.open.append(_Open(token))
        self.depth += 1
        if token.type == "LBRACE":
            self.word = ""

    def _is_called_statement(self, token: Token) -> bool:
        """Whether the bracket follows a statement's name without a space: `mixup(0.2)`."""
        tokens = self.result.tokens
        if not tokens or tokens[-1].type != "NAME" or tokens[-1].span.end != token.span.start:
            return False
        return len(tokens) == 1 or tokens[-2].type in ("END", "LBRACE")

    def _closing(self, token: Token) -> None:
        if token.type == "RBRACE":
            self._close_brackets(token)
            if len(self.open) > 1:
                self._end_statement(token)
        opened = self.open[-1].token
        if opened.type == "START" or (opened.type == "LBRACE") != (token.type == "RBRACE"):
            self._report(
                "unmatched-bracket",
                f"this `{token}` closes nothing",
                Spot(token.span, "no bracket is open here"),
                fix=Fix(f"remove the `{token}`", Edit(token.span, "")),
            )
            return
        wanted_type, wanted = _OPEN[opened.type]
        if wanted_type != token.type:
            self._report(
                "unmatched-bracket",
                f"`{opened}` is closed by `{token}`",
                Spot(token.span, f"expected `{wanted}`"),
                Spot(opened.span, "opened here"),
                fix=Fix(f"write `{wanted}` in its place", Edit(token.span, wanted)),
            )
        self._close_top(token)

    def _close_brackets(self, at: Token) -> None:
        """Close every round and square bracket: what comes next can't stand inside one."""
        while self._in_brackets():
            self._report_unclosed()
            self._close_top(at)

    def _close_top(self, at: Token) -> None:
        opened = self.open[-1]
        closing_type, closing = _OPEN[opened.token.type]
        if closing_type == "RBRACE":
            self._end_statement(at)
        self._forget_operators()
        self.open.pop()
        self.depth -= 1
        if at.value == closing:
            self._emit(at, closing_type)
        else:
            self._insert(at, closing_type, closing)

    def _report_unclosed(self, message: str = "", edit: Edit | None = None) -> None:
        opened = self.open[-1].token
        closing = _OPEN[opened.type][1]
        self._report(
            "unclosed-bracket",
            f"this `{opened}` is never closed",
            Spot(opened.span, f"no `{closing}` follows"),
            fix=Fix(
                message or f"add the missing `{closing}`", edit or Edit(self.source.span(self.end, self.end), closing)
            ),
        )

    # -- blocks whose end is missing

    def _ends_of_lost_blocks(self) -> dict[int, int]:
        """Before which tokens how many blocks end that are never closed: where a line is indented no deeper."""
        open_: list[int] = []
        for index, token in enumerate(self.raw):
            if token.type == "LBRACE":
                open_.append(index)
            elif token.type == "RBRACE" and open_:
                open_.pop()
        ends: dict[int, int] = {}
        lost = set(open_)
        for opened in open_[:MAX_NESTING]:
            end = self._dedent(opened, lost)
            if end is not None:
                ends[end] = ends.get(end, 0) + 1
        return ends

    def _dedent(self, opened: int, lost: set[int]) -> int | None:
        """The first word behind an opening brace that begins a line no further right than the brace's line."""
        margin, depth = self._indent(self.raw[opened]), 0
        for index in range(opened + 1, len(self.raw)):
            kind = self.raw[index].type
            if kind == "LBRACE" and index not in lost:
                depth += 1
            elif kind == "RBRACE":
                depth -= 1
            elif depth == 0 and self._begins_line(index) and self._indent(self.raw[index]) <= margin:
                return index
        return None

    def _begins_line(self, index: int) -> bool:
        return self.raw[index].type == "NAME" and self.raw[index - 1].type == "NEWLINE"

    def _indent(self, token: Token) -> int:
        line = self.source.line(self.source.position(token.span.start)[0])
        return len(line) - len(line.lstrip())

    def _close_lost_block(self, at: Token) -> None:
        self._close_brackets(at)
        self._end_statement(at)
        if self.open[-1].token.type == "LBRACE":
            line = self.source.position(at.span.start)[0]
            start = self.source.line_starts[line - 1]
            closing = " " * self._indent(self.open[-1].token) + "}\n"
            self._report_unclosed(
                f"add the missing `}}` before line {line}", Edit(self.source.span(start, start), closing)
            )
            self._close_top(at)
            self._end_statement(at)

    def _in_brackets(self) -> bool:
        return self.open[-1].token.type in ("LPAR", "CALL", "LSQB")

    # -- words, numbers and texts

    def _name(self, token: Token, following: Token | None) -> None:
        previous = self._previous()
        if previous in ("", "END", "LBRACE") and not self._in_brackets():
            self.word = token.value
            self._emit(token, INTRODUCING_WORDS.get(token.value, "NAME"))
        elif token.value == "as" and self.word == "import":
            self._emit(token, "AS")
        elif self._begins_anew(previous, following):
            self._report(
                "unexpected-token",
                "a second statement begins on this line",
                Spot(token.span, "this belongs to a new statement"),
                fix=Fix(
                    f"begin a new line before `{token}`",
                    Edit(self.source.span(token.span.start, token.span.start), "\n"),
                ),
            )
            self._end_statement(token)
            self._name(token, following)
        elif self._is_of_another_base(token):
            self._read_base(token)
        elif previous == "NUMBER" and (following is None or following.type not in ("EQUALS", "LPAR")):
            self._emit(token, "UNIT")
        else:
            self._emit(token, "NAME")

    def _begins_anew(self, previous: str, following: Token | None) -> bool:
        """Whether a word can only begin a statement although the one before it has not ended."""
        if self._in_brackets() or previous not in ("RPAR", "RSQB", "STRING", "RBRACE"):
            return False
        return previous == "RBRACE" or (following is not None and following.type in ("NAME", "STRING", "NUMBER"))

    def _other(self, token: Token) -> None:
        kind = token.type
        if token.type == "PERCENT" and self._previous() == "NUMBER":
            kind = "UNIT"
        elif token.type in _OPERATORS:
            self.open[-1].operators += 1
            self.depth += 1
        elif token.type in ("COMMA", "ARROW"):
            self._forget_operators()
        elif token.type == "STRING":
            self._check_escapes(token)
        elif token.type == "NUMBER":
            self._check_digits(token)
        elif token.type == "OPEN_STRING":
            self._open_text(token)
            return
        self._emit(token, kind)

    def _is_of_another_base(self, token: Token) -> bool:
        """Whether a word belongs to the number before it, as in `0x10`."""
        before = self.result.tokens[-1]
        is_near = before.type == "NUMBER" and before.value == "0" and before.span.end == token.span.start
        return is_near and token.value[0].lower() in _BASES and _whole("0" + token.value) is not None

    def _read_base(self, token: Token) -> None:
        """A number in another base: it is refused, and read as what it says."""
        zero = self.result.tokens.pop()
        span, number = zero.span.to(token.span), str(_whole("0" + token.value))
        self._report(
            "unexpected-token",
            f"`{span.text}` is {_BASES[token.value[0].lower()]}, and a recipe counts in tens",
            Spot(span, "not a form of a number here"),
            fix=Fix(f"write `{number}`", Edit(span, number)),
        )
        self._emit(Token("NUMBER", number, span), "NUMBER")

    def _check_digits(self, token: Token) -> None:
        """Report an underscore that does not stand between two digits."""
        if "_" in token.value and re.search(r"_(?!\d)", token.value):
            plain = token.value.replace("_", "")
            self._report(
                "unexpected-token",
                f"`{token}` is no number",
                Spot(token.span, "a `_` stands between two digits"),
                fix=Fix(f"write `{plain}`", Edit(token.span, plain)),
            )

    def _open_text(self, token: Token) -> None:
        """A text without its closing quote: brackets and commas at the end of its line are taken to stand behind it."""
        text = token.value.rstrip(" \t" + "".join(_TAIL)) or token.value[:1]
        start, end = token.span.start, token.span.start + len(text)
        self._report(
            "unclosed-text",
            'this text has no closing `"`',
            Spot(self.source.span(start, end), "a text ends on the line where it begins"),
            fix=Fix(f'write `{text}"`', Edit(self.source.span(end, end), '"')),
        )
        self._emit(Token("STRING", text, self.source.span(start, end)), "STRING")
        for at, character in enumerate(token.value[len(text) :], end):
            if character in _TAIL:
                behind = Token(_TAIL[character], character, self.source.span(at, at + 1))
                if behind.type == "COMMA":
                    self._other(behind)
                else:
                    self._bracket(behind)

    def _check_escapes(self, token: Token) -> None:
        """Report the first backslash of a text that means nothing; the others are likely of the same kind."""
        at = token.value.find("\\")
        while at != -1:
            pair = token.value[at : at + 2]
            if pair not in ESCAPES:
                start = token.span.start + at
                straight = token.value.replace("\\", "/")
                self._report(
                    "unknown-escape",
                    f"`{pair}` means nothing in a text",
                    Spot(self.source.span(start, start + 2), 'a text knows `\\"`, `\\\\`, `\\n` and `\\t`'),
                    notes=[f"for a backslash write `\\{pair}`"],
                    fix=Fix(f"in a path, `/` works on every system: `{straight}`", Edit(token.span, straight)),
                )
                return
            at = token.value.find("\\", at + 2)

    # -- the result

    def _too_deep(self, token: Token) -> Arranged:
        self._report(
            "too-deep",
            f"more than {MAX_NESTING} brackets or {MAX_DEPTH} operators stand inside each other here",
            Spot(token.span, "the limit is reached here; nothing of the file was read"),
            fix="give the inner parts names with `let`",
        )
        return Arranged([], self.result.comments, self.result.diagnostics[-1:], is_beyond_limit=True)

    def _forget_operators(self) -> None:
        self.depth -= self.open[-1].operators
        self.open[-1].operators = 0

    def _previous(self) -> str:
        return self.result.tokens[-1].type if self.result.tokens else ""

    def _emit(self, token: Token, kind: str) -> None:
        """Add a token of the text as `kind`."""
        self.end = token.span.end
        self.result.tokens.append(token if token.type == kind else Token(kind, token.value, token.span))

    def _insert(self, at: Token, kind: str, value: str = "") -> None:
        """Add a token that is not in the text, before another."""
        self.result.tokens.append(Token(kind, value, at.span.at_start))

    def _report(self, id: str, headline: str, *spots: Spot, notes: list[str] | None = None, fix: Fix | str) -> None:
        self.result.diagnostics.append(error(id, headline, *spots, notes=notes or (), fix=fix))

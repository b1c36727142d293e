"""From characters' tokens to the grammar's tokens.

Decides what a newline means, which words introduce names, and what to do about brackets that do not match:
they are reported here and mended in the token stream, so that the grammar only ever sees matching ones and the
rest of the file is still read. What a statement may look like is left to the grammar.
"""

from dataclasses import dataclass, field

from lark import Token

from leaven.language.diagnostics import Diagnostic, Edit, Fix, Spot, error
from leaven.language.source import Source, Span

MAX_NESTING = 100
MAX_DEPTH = 250  # brackets and operators that wait for each other; keeps every later walk off Python's stack limit

INTRODUCING_WORDS = {"extends": "EXTENDS", "import": "IMPORT", "arg": "ARG", "let": "LET"}
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n", "\\t": "\t"}

_OPEN = {"LPAR": ("RPAR", ")"), "CALL": ("RPAR", ")"), "LSQB": ("RSQB", "]"), "LBRACE": ("RBRACE", "}")}
_CLOSE = {"RPAR", "RSQB", "RBRACE"}
_SILENT = {"NEWLINE", "COMMENT"}
_OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH"}


class Piece(Token):
    """A token that knows its place in the source."""

    __slots__ = ("span",)
    span: Span


@dataclass(slots=True)
class Arranged:
    """What the grammar is to read, the comments, and what was wrong."""

    tokens: list[Piece] = field(default_factory=list)
    comments: list[Span] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


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
        self.open: list[_Open] = [_Open(Token("START", ""))]
        self.depth = 0
        self.word = ""  # the word that begins the statement being read

    def run(self) -> Arranged:
        following = self._significant_followers()
        for index, token in enumerate(self.raw):
            match token.type:
                case "COMMENT":
                    self.result.comments.append(self._span(token))
                case "NEWLINE":
                    self._newline(following[index], token)
                case "SEMICOLON":
                    self._close_brackets(token)
                    self._end_statement(token)
                case "LPAR" | "LSQB" | "LBRACE":
                    self._opening(token)
                case "RPAR" | "RSQB" | "RBRACE":
                    self._closing(token)
                case "NAME":
                    self._name(token, self.raw[index + 1] if index + 1 < len(self.raw) else None)
                case _:
                    self._other(token)
            if self.depth > MAX_DEPTH or len(self.open) > MAX_NESTING + 1:
                return self._too_deep(token)
        end = Token("NEWLINE", "", start_pos=len(self.source.text), end_pos=len(self.source.text))
        while len(self.open) > 1:
            self._report_unclosed(self.open[-1].token)
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
            self._emit(at, "END", "")
        self._forget_operators()
        self.word = ""

    def _starts_statement(self, index: int) -> bool:
        """Whether what stands there can only be the beginning of a statement: a word, then a word, text or number."""
        if index + 1 >= len(self.raw) or self.raw[index].type != "NAME":
            return False
        return self.raw[index + 1].type in ("NAME", "TEXT", "NUMBER")

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
        if not tokens or tokens[-1].type != "NAME" or tokens[-1].span.end != token.start_pos:
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
                Spot(self._span(token), "no bracket is open here"),
                fix=Fix(f"remove the `{token}`", Edit(self._span(token), "")),
            )
            return
        wanted_type, wanted = _OPEN[opened.type]
        if wanted_type != token.type:
            self._report(
                "unmatched-bracket",
                f"`{opened}` is closed by `{token}`",
                Spot(self._span(token), f"expected `{wanted}`"),
                Spot(self._span(opened), "opened here"),
                fix=Fix(f"write `{wanted}`", Edit(self._span(token), wanted)),
            )
        self._close_top(token)

    def _close_brackets(self, at: Token) -> None:
        """Close every round and square bracket: what comes next can't stand inside one."""
        while self._in_brackets():
            self._report_unclosed(self.open[-1].token)
            self._close_top(at)

    def _close_top(self, at: Token) -> None:
        opened = self.open[-1]
        closing_type, closing = _OPEN[opened.token.type]
        if closing_type == "RBRACE":
            self._end_statement(at)
        self._forget_operators()
        self.open.pop()
        self.depth -= 1
        self._emit(at, closing_type, closing)

    def _report_unclosed(self, opened: Token) -> None:
        closing = _OPEN[opened.type][1]
        self._report(
            "unclosed-bracket",
            f"this `{opened}` is never closed",
            Spot(self._span(opened), f"no `{closing}` follows"),
            fix=f"add the missing `{closing}`",
        )

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
        elif previous == "NUMBER" and (following is None or following.type not in ("EQUALS", "LPAR")):
            self._emit(token, "UNIT")
        else:
            self._emit(token, "NAME")

    def _other(self, token: Token) -> None:
        kind = token.type
        if token.type == "PERCENT" and self._previous() == "NUMBER":
            kind = "UNIT"
        elif token.type in _OPERATORS:
            self.open[-1].operators += 1
            self.depth += 1
        elif token.type in ("COMMA", "ARROW"):
            self._forget_operators()
        elif token.type == "TEXT":
            self._check_escapes(token)
        elif token.type == "OPEN_TEXT":
            self._report(
                "unclosed-text",
                'this text has no closing `"`',
                Spot(self._span(token), "a text ends on the line where it begins"),
                fix=Fix('add the missing `"`', Edit(Span(self.source, _end(token), _end(token)), '"')),
            )
            kind = "TEXT"
        self._emit(token, kind)

    def _check_escapes(self, token: Token) -> None:
        at = token.value.find("\\")
        while at != -1:
            pair = token.value[at : at + 2]
            if pair not in ESCAPES:
                start = _start(token) + at
                self._report(
                    "unknown-escape",
                    f"`{pair}` means nothing in a text",
                    Spot(Span(self.source, start, start + 2), 'a text knows `\\"`, `\\\\`, `\\n` and `\\t`'),
                    notes=["in a path, `/` works on every system"],
                    fix=Fix(f"for a backslash write `\\{pair}`", Edit(Span(self.source, start, start + 1), "\\\\")),
                )
            at = token.value.find("\\", at + 2)

    # -- the result

    def _too_deep(self, token: Token) -> Arranged:
        self._report(
            "too-deep",
            f"more than {MAX_NESTING} brackets or {MAX_DEPTH} operators stand inside each other here",
            Spot(self._span(token), "the limit is reached here; nothing after it was read"),
            fix="give the inner parts names with `let`",
        )
        return Arranged([], self.result.comments, self.result.diagnostics[-1:])

    def _forget_operators(self) -> None:
        self.depth -= self.open[-1].operators
        self.open[-1].operators = 0

    def _previous(self) -> str:
        return self.result.tokens[-1].type if self.result.tokens else ""

    def _emit(self, token: Token, kind: str, value: str | None = None) -> None:
        """Pass a token on as `kind`; one with a value of its own was not written and has no width."""
        piece = Piece(kind, token.value if value is None else value)
        start, end = _start(token), _end(token)
        piece.span = Span(self.source, start, end if value is None or value == token.value else start)
        self.result.tokens.append(piece)

    def _span(self, token: Token) -> Span:
        return Span(self.source, _start(token), _end(token))

    def _report(self, id: str, headline: str, *spots: Spot, notes: list[str] | None = None, fix: Fix | str) -> None:
        self.result.diagnostics.append(error(id, headline, *spots, notes=notes or (), fix=fix))


def _start(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos


def _end(token: Token) -> int:
    assert token.end_pos is not None
    return token.end_pos

"""The text of a recipe in colours."""

from collections.abc import Iterator

from leaven.language.parser import load_grammar
from leaven.language.source import Source
from leaven.language.tokens import Token
from leaven.terminal.colors import Paint

_ROLES = {"STRING": "string", "OPEN_STRING": "string", "NUMBER": "number", "PERCENT": "number", "COMMENT": "comment"}
_OPENING, _CLOSING = ("LPAR", "LSQB"), ("RPAR", "RSQB")
_CONTINUING = ("COMMA", "ARROW")  # at the end of a line: the statement goes on


def highlight(text: str, paint: Paint) -> str:
    """A recipe with its statements, strings, numbers and comments coloured, and otherwise unchanged."""
    shown, end = [], 0
    for token, role in _roles(list(load_grammar().tokens(Source("", text)))):
        shown += [text[end : token.span.start], paint(role, token.value) if role else token.value]
        end = token.span.end
    return "".join(shown) + text[end:]


def _roles(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Each token with its role in colouring; empty for those that have none."""
    depth, starts, before = 0, True, ""
    for token in tokens:
        role = _ROLES.get(token.type, "")
        if token.type == "NAME":
            role = "statement" if starts else "number" if before == "NUMBER" else ""  # a unit
        yield token, role
        depth += (token.type in _OPENING) - (token.type in _CLOSING)
        if token.type == "COMMENT":
            continue
        if token.type == "NEWLINE":
            starts = depth <= 0 and before not in _CONTINUING
        else:
            starts = token.type in ("LBRACE", "SEMICOLON")
            before = token.type

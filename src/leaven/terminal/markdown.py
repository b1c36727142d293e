"""Markdown as a terminal shows it: the part of it that Leaven's own pages and articles use.

Headings, paragraphs, lists and tables are fitted to the width; blocks of code are indented, and recipes in them
coloured. Links show their text alone.
"""

import re
import textwrap
from collections.abc import Callable, Iterator

from leaven.terminal.colors import Paint
from leaven.terminal.table import aligned

PaintRecipe = Callable[[str, Paint], str]  # the language knows what is what in a recipe

_WIDEST = 100  # columns; longer lines are hard to read
_INDENT = "    "  # of code
_FENCE = "```"
_ITEM = re.compile(r"( *)([-*]|\d+\.) +")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*")
_RULE = re.compile(r":?-+:?")


def render(text: str, width: int, paint: Paint, paint_recipe: PaintRecipe) -> str:
    """A page for a terminal of that width."""
    width = min(width - 1, _WIDEST)
    lines: list[str] = []
    for first, *rest in _blocks(text.splitlines()):
        if first.startswith(_FENCE):
            rendered = _code(first.removeprefix(_FENCE).split(), rest, paint, paint_recipe)
        elif first.startswith("#"):
            rendered = [paint("headline", _plain(first.lstrip("# "))), *_prose(rest, width, paint)]
        elif first.startswith("|"):
            rendered = _table([line for line in (first, *rest) if line.startswith("|")], paint)
        else:
            rendered = _prose([first, *rest], width, paint)
        lines += [*([""] if lines else []), *rendered]
    return "\n".join(lines) + "\n"


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """The parts of a page that empty lines divide; a block of code is one part."""
    block: list[str] = []
    is_code = False
    for line in lines:
        opens = line.startswith(_FENCE)
        if not is_code and (opens or not line.strip()):
            if block:
                yield block
            block = []
        if opens or is_code or line.strip():
            block.append(line)
        if opens:
            is_code = not is_code
            if not is_code:
                yield block
                block = []
    if block:
        yield block


def _prose(lines: list[str], width: int, paint: Paint) -> list[str]:
    """Paragraphs and the items of lists."""
    shown: list[str] = []
    for indent, text in _items(lines):
        wrapped = textwrap.wrap(
            _LINK.sub(r"\1", text), width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        shown += _inline("\n".join(wrapped), paint).split("\n")
    return shown


def _items(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each paragraph or item on one line, with the indentation of its further ones."""
    text, indent = "", ""
    for line in lines:
        item = _ITEM.match(line)
        if item and text:
            yield indent, text
            text = ""
        if not text:
            text, indent = line, " " * len(item[0]) if item else ""
        else:
            text = f"{text} {line.strip()}"
    if text:
        yield indent, text


def _code(words: list[str], lines: list[str], paint: Paint, paint_recipe: PaintRecipe) -> list[str]:
    """A block of code, below the name of its file if it has one."""
    body = "\n".join(line for line in lines if not line.startswith(_FENCE))
    shown = paint_recipe(body, paint) if words[:1] == ["leaven"] else body
    named = [paint("comment", f"{_INDENT}{words[1]}:")] if len(words) > 1 else []
    return [*named, *(_INDENT + line if line else "" for line in shown.split("\n"))]


def _table(lines: list[str], paint: Paint) -> list[str]:
    rows = [[_plain(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines]
    rows = [row for row in rows if not all(_RULE.fullmatch(cell) for cell in row)]
    head, *shown = aligned(rows)
    return [paint("headline", head), *shown]


def _inline(text: str, paint: Paint) -> str:
    """Code, bold and emphasised words painted; without their marks, except for those of code."""

    def shown(match: re.Match[str]) -> str:
        code, bold, emphasised = match.groups()
        if code is not None:
            return "\n".join(paint("string", part) for part in f"`{code}`".split("\n"))
        return "\n".join(paint("headline", part) for part in (bold or emphasised).split("\n"))

    return _INLINE.sub(shown, text)


def _plain(text: str) -> str:
    """A text without marks, except for those of code."""
    return _INLINE.sub(lambda match: match[0] if match[1] else match[2] or match[3], _LINK.sub(r"\1", text))

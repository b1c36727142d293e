"""Texts that a person reads in a terminal or on a page: names of files, classes and phases, and what exceptions say.

They come from strangers. Written as they are, an escape would command the terminal, a newline would begin a line of its
own, and a tag would be part of a page.
"""

import html
import re
import unicodedata

TAB = "    "
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_MARKUP = re.compile(r"[\\`*\[\]|~$]|^#|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_TAGS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def visible(text: str) -> str:
    """A text with every control character replaced by a visible symbol."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _symbol(character) for character in text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines, which it keeps."""
    return "\n".join(map(visible, text.split("\n")))


def visible_output(text: str) -> str:
    """The same for what a program has printed, which keeps its lines, tabs and carriage returns: these move bars."""
    return re.sub(r"[^\n\r\t]+", lambda part: visible(part[0]), text)


def in_markdown(text: str) -> str:
    """A text as a paragraph or a cell of Markdown shows it: nothing in it is markup, or a tag."""
    escaped = _MARKUP.sub(lambda mark: f"\\{mark[0]}", visible(text))
    return "".join(_TAGS.get(character, character) for character in escaped)


def in_html(text: str) -> str:
    """A text as a page shows it, with its lines: nothing in it is a tag or an entity, or turns letters around it."""
    return html.escape(visible_lines(text))


def as_code(text: str) -> str:
    """A text as code in a line of Markdown: in more backticks than it has itself."""
    text = visible(text)
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def _symbol(character: str) -> str:
    if character == "\t":
        return TAB
    if character < " ":
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "\u2421"
    return f"<U+{ord(character):04X}>" if unicodedata.category(character) in _INVISIBLE else character

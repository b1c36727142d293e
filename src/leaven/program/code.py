"""Lays out Python expressions and statements as a formatter does: on one line where they fit, else one item a line.

Every line may end in a comment that cites the recipe.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from textwrap import wrap

WIDTH = 120
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Item:
    """One argument, list item or dict entry; `prefix` is `name=` or `"key": `."""

    code: "Code"
    prefix: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Bracketed:
    """A call, list or dict."""

    opening: str
    items: tuple[Item, ...]
    closing: str
    is_string: bool = False  # the pieces of one long string
    is_tall: bool = False  # one item a line even where it fits on one


Code = str | Bracketed


ARGS = "args: argparse.Namespace"
CLASS_NAMES = "class_names: tuple[str, ...]"
FROM_DATA = {
    "num_classes": "len(data.classes)",
    "num_outputs": "data.outputs",
    "channels": "data.channels",
    "class_names": "data.classes",
}


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program. `parameters` have their types."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    body: list[str]
    decorator: str = ""

    def given(self, name: Callable[[str], str] = str) -> list[str]:
        """What a function that builds a part of the program is called with."""
        variables = [parameter.partition(":")[0] for parameter in self.parameters]
        return [name("args") if variable == "args" else FROM_DATA[variable] for variable in variables]

    def lines(self) -> list[str]:
        head = statement(f"def {self.name}", call("", *self.parameters), depth=0, suffix=f" -> {self.returns}:")
        return [*([f"@{self.decorator}"] if self.decorator else []), *head, *self.body]


def call(function: str, *arguments: Code | Item, **named: Code) -> Bracketed:
    items = [argument if isinstance(argument, Item) else Item(argument) for argument in arguments]
    items += [Item(value, f"{name}=") for name, value in named.items()]
    return Bracketed(f"{function}(", tuple(items), ")")


def listing(*items: Code | Item) -> Bracketed:
    return Bracketed("[", tuple(item if isinstance(item, Item) else Item(item) for item in items), "]")


def paths(names: Iterable[str]) -> Bracketed:
    """A list of strings: the paths of layers."""
    return listing(*map(text, names))


def mapping(entries: dict[str, Code]) -> Bracketed:
    return Bracketed("{", tuple(Item(value, f"{text(key)}: ") for key, value in entries.items()), "}")


def text(value: str) -> str:
    """A string in double quotes."""
    quoted = repr(value)
    if quoted.startswith("'") and '"' not in value:
        return f'"{quoted[1:-1]}"'
    if quoted.startswith('"'):
        return quoted
    return '"' + quoted[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'


def docstring(*lines: str, depth: int = 0) -> list[str]:
    """A docstring of one line, or of several with the quotes that end it below them."""
    inner = [_shown(line.replace("\\", r"\\").replace('"""', r"\"\"\"")) for line in lines]
    inner[0] = f'"""{inner[0]}'
    if len(inner) > 1:
        inner.append('"""')
    else:
        inner[0] += '"""'
    return [f"{INDENT * depth}{line}" if line else "" for line in inner]


def commented(line: str, comment: str) -> str:
    """A line of code that ends in a comment, if there is one."""
    return f"{line}  # {_shown(comment)}" if comment else line


def joined(*comments: str) -> str:
    """Several comments as one, without the empty ones."""
    return "; ".join(filter(None, comments))


def _shown(text: str) -> str:
    """The text on one line: what can't be printed, such as a line break in the name of a file, is escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def number(value: float) -> str:
    """A number as people write it: `3e-4`, not `0.0003`."""
    short = re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].replace('+', '')}{found[2]}", f"{value:.0e}")
    return (
        short if isinstance(value, float) and float(short) == value and len(short) < len(repr(value)) else repr(value)
    )


def flat(code: Code) -> str:
    """The code on one line."""
    if isinstance(code, str):
        return code
    inner = ", ".join(item.prefix + flat(item.code) for item in code.items)
    return f"{code.opening}{inner}{code.closing}"


def statement(prefix: str, code: Code, comment: str = "", *, depth: int = 1, suffix: str = "") -> list[str]:
    """`prefix` followed by the code, in as many lines as it needs."""
    indent = INDENT * depth
    line = f"{indent}{prefix}{flat(code)}{suffix}"
    if not _needs_lines(code) and len(commented(line, comment)) <= WIDTH:
        return [commented(line, comment)]
    fits = not _needs_lines(code) and len(line) <= WIDTH
    if isinstance(code, str) and not fits and code.startswith('"'):
        code = _pieces(code, WIDTH - len(indent) - len(INDENT))
    if fits or isinstance(code, str) or not code.items:
        return [*_above(comment, indent), line]
    opening = f"{indent}{prefix}{code.opening}"
    # formatters put no comma after a list that is a call's only argument
    is_only = len(code.items) == 1 and isinstance(code.items[0].code, Bracketed) and not code.items[0].prefix
    end = "" if is_only or code.is_string else ","
    inner = [
        line
        for item in code.items
        for line in statement(item.prefix, item.code, item.comment, depth=depth + 1, suffix=end)
    ]
    closing = f"{indent}{code.closing}{suffix}"
    if len(commented(opening, comment)) <= WIDTH:
        return [commented(opening, comment), *inner, closing]
    return [*_above(comment, indent), opening, *inner, closing]


def _pieces(text: str, width: int) -> Code:
    """A string that is too long for a line, as several that Python joins; one long word stays as it is."""
    most = max(width - 2, WIDTH // 4)
    words = wrap(text[1:-1], most, drop_whitespace=False, break_long_words=False, break_on_hyphens=False)
    if len(words) == 1 and len(words[0]) > width - 2:  # one more bracket would not make it fit
        return text
    return Bracketed("(", tuple(Item(f'"{piece}"') for piece in words), ")", is_string=True)


def _needs_lines(code: Code) -> bool:
    """Whether code needs several lines: for comments in it, or because it reads better."""
    if isinstance(code, str):
        return False
    return code.is_tall or any(item.comment or _needs_lines(item.code) for item in code.items)


def _above(comment: str, indent: str) -> list[str]:
    return [f"{indent}# {_shown(comment)}"] if comment else []


def split_code(split: str) -> Code:
    """A split of the data that a plan names."""
    return "data.train" if split == "train" else "data.val"

"""How a recipe goes wrong: a slip of the finger, a wrong word, a line in the wrong place."""

import re
from collections.abc import Callable
from random import Random

from leaven.catalog import own

SIGNS = (
    *'()[]{}"#,;:=+-*/%.\\',
    *"(){}[]",
    "->",
    "\n",
    "\r",
    "\r\n",
    "\t",
    " ",
    "\f",
    "\v",
    "'",
    "`",
    "!",
    "\x00",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\u2028",
    "\xa0",
    "\ufeff",
    "\u202e",
    "\u201c",
    "\u0301",
    "\u00df",
    "\u4f60",
    "\u0663",  # a digit, and a letter of no alphabet
    "\u00b2",
    "\U0001f33e",
    "\udc80",
)
NUMBERS = (
    *(
        "0",
        "-1",
        "1",
        "2",
        "7",
        "1.5",
        "0.0",
        "-0.0",
        "1e-400",
        "1e308",
        "1e400",
        "-1e309",
        "9" * 18,
        "9" * 40,
        "1_000",
    ),
    *("1__0", "00012", "1e5", "1.", ".5", "0x10", "1e", "100000", "50", "0.999", "1e-8", "\u0663", "3.0"),
)
UNITS = ("%", " epochs", " epoch", " steps", " minutes", "GB", " photos", " items", " %", " e5", "e5")
WORDS = (
    *(
        "true",
        "false",
        "none",
        "all",
        "head",
        "stem",
        "norms",
        "classes",
        "channels",
        "lr",
        "width",
        "mine",
        "mine.Net",
    ),
    *("extends", "import", "arg", "let", "as", "change", "drop", "phase", "layer1", "layer4.1", "val.accuracy", "keep"),
    *(
        "torch.RAdam",
        "torchvision.resnet18",
        "timm.resnet18",
        "efficientnet_lite0",
        "Resize",
        "v2.Resize",
        "x",
        "a.b.c",
    ),
)
LINES = (
    'extends "parent.leaven"',
    'extends "recipe.leaven"',
    'extends "broken.leaven"',
    'extends "missing.leaven"',
    'extends "circle.leaven"',
    'extends ""',
    'import "mine.py" as other',
    "import json as zoo",
    'import "missing.py"',
    "change optimizer, lr=2",
    "change train, epochs=3",
    "change data { train resize(32) }",
    "change model, head=keep",
    "change",
    "drop optimizer",
    "drop phase",
    'drop phase, "one"',
    "drop data",
    "let a = b\nlet b = a",
    "let lr = 5",
    "let width = width * 2",
    "arg lr: int",
    "arg epochs: int = 3",
    'arg o: choice["a", b, 3] = b',
    "freeze all",
    "freeze head",
    "unfreeze all",
    "freeze [layer1, layer2]",
    'freeze "*"',
    "reinit head",
    "group head",
    "cutmix; mixup",
    "sweep lr, [1, 2, 3]",
    "phase train, epochs=1 { }",
    'phase "a", epochs=0 {}',
    "train",
    "data digits",
    "model mine.Net()",
    "optimizer torch.RAdam(lr=1)",
    "metrics val.loss",
    'loss "cross_entropy"',
    'output ""',
    "}",
    "{",
    ";;",
    "#",
    '"',
    "(",
)

_PIECE = re.compile(r'"[^"\n]*"|#[^\n]*|[^\W\d][\w.]*|\d[\w.]*|\s+|->|.', re.S)
_WORD = re.compile(r"[^\W\d][\w.]*")
_NUMBER = re.compile(r"\d[\w.]*")

Mutation = Callable[[str, Random], str]


def mutate(text: str, other: str, random: Random) -> str:
    """A recipe with a few mistakes in it; `other` is a recipe to copy from."""
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 6))):
        text = random.choice(_MUTATIONS)(text, random)
        if random.random() < 0.05:
            text = _borrow(text, other, random)
    return text


# -- characters


def _insert_sign(text: str, random: Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + random.choice(SIGNS) + text[at:]


def _delete_characters(text: str, random: Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + text[at + random.choice((1, 1, 1, 2, 5, 30)) :]


def _swap_characters(text: str, random: Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def _repeat_characters(text: str, random: Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + text[at : at + random.randint(1, 20)] * random.choice((2, 2, 3, 50)) + text[at:]


def _cut_off(text: str, random: Random) -> str:
    return text[: random.randint(0, len(text))]


# -- tokens


def _with_pieces(text: str, random: Random, pattern: re.Pattern[str], change: Callable[[list[str], int], None]) -> str:
    """The text with one of the pieces that match changed."""
    pieces = _PIECE.findall(text)
    fitting = [at for at, piece in enumerate(pieces) if pattern.fullmatch(piece)]
    if fitting:
        change(pieces, random.choice(fitting))
    return "".join(pieces)


def _other_word(text: str, random: Random) -> str:
    kind = random.choice(tuple(own.FOLDERS))
    words = random.choice((WORDS, own.names(kind) or WORDS, _WORD.findall(text) or WORDS))

    def change(pieces: list[str], at: int) -> None:
        pieces[at] = random.choice(words)

    return _with_pieces(text, random, _WORD, change)


def _other_number(text: str, random: Random) -> str:
    def change(pieces: list[str], at: int) -> None:
        pieces[at] = random.choice(NUMBERS)

    return _with_pieces(text, random, _NUMBER, change)


def _other_unit(text: str, random: Random) -> str:
    def change(pieces: list[str], at: int) -> None:
        pieces[at] += random.choice(UNITS)

    return _with_pieces(text, random, _NUMBER, change)


def _delete_piece(text: str, random: Random) -> str:
    def change(pieces: list[str], at: int) -> None:
        del pieces[at]

    return _with_pieces(text, random, _PIECE, change)


def _repeat_piece(text: str, random: Random) -> str:
    def change(pieces: list[str], at: int) -> None:
        pieces.insert(at, pieces[at] + random.choice(("", " ", ", ")))

    return _with_pieces(text, random, _PIECE, change)


def _swap_pieces(text: str, random: Random) -> str:
    pieces = _PIECE.findall(text)
    if pieces:
        a, b = random.randrange(len(pieces)), random.randrange(len(pieces))
        pieces[a], pieces[b] = pieces[b], pieces[a]
    return "".join(pieces)


def _quote_or_unquote(text: str, random: Random) -> str:
    def change(pieces: list[str], at: int) -> None:
        pieces[at] = pieces[at].strip('"') if pieces[at].startswith('"') else f'"{pieces[at]}"'

    return _with_pieces(text, random, re.compile(r'"[^"\n]*"|[\w.]+'), change)


def _wrap(text: str, random: Random) -> str:
    before, after = random.choice(
        (("(", ")"), ("[", "]"), ("-", ""), ("", " * 2"), ("", " -> x"), ("f(", ")"), ("{", "}"))
    )

    def change(pieces: list[str], at: int) -> None:
        pieces[at] = before + pieces[at] + after

    return _with_pieces(text, random, re.compile(r'"[^"\n]*"|[\w.]+'), change)


# -- statements


def _with_lines(text: str, change: Callable[[list[str]], None]) -> str:
    lines = text.split("\n")
    change(lines)
    return "\n".join(lines)


def _delete_line(text: str, random: Random) -> str:
    return _with_lines(text, lambda lines: lines.pop(random.randrange(len(lines))) and None)


def _repeat_line(text: str, random: Random) -> str:
    return _with_lines(text, lambda lines: lines.insert(random.randrange(len(lines) + 1), random.choice(lines)))


def _swap_lines(text: str, random: Random) -> str:
    def change(lines: list[str]) -> None:
        a, b = random.randrange(len(lines)), random.randrange(len(lines))
        lines[a], lines[b] = lines[b], lines[a]

    return _with_lines(text, change)


def _new_line(text: str, random: Random) -> str:
    return _with_lines(text, lambda lines: lines.insert(random.randrange(len(lines) + 1), random.choice(LINES)))


def _join_lines(text: str, random: Random) -> str:
    def change(lines: list[str]) -> None:
        at = random.randrange(len(lines))
        lines[at : at + 2] = [random.choice((" ", ";", "")).join(lines[at : at + 2])]

    return _with_lines(text, change)


def _put_into_block(text: str, random: Random) -> str:
    def change(lines: list[str]) -> None:
        at = random.randrange(len(lines))
        lines[at] = random.choice(
            ('phase "x", epochs=1 {{ {} }}', "data digits() {{ {} }}", "optimizer sgd {{ {} }}")
        ).format(lines[at])

    return _with_lines(text, change)


def _borrow(text: str, other: str, random: Random) -> str:
    lines = other.split("\n")
    start = random.randrange(len(lines))
    at = random.randint(0, len(text))
    return text[:at] + "\n".join(lines[start : start + random.randint(1, 5)]) + text[at:]


_MUTATIONS: tuple[Mutation, ...] = (
    *(_insert_sign, _delete_characters, _swap_characters, _repeat_characters, _cut_off),
    *(_other_word, _other_word, _other_number, _other_number, _other_unit, _delete_piece, _repeat_piece, _swap_pieces),
    *(_quote_or_unquote, _wrap, _delete_line, _repeat_line, _swap_lines, _new_line, _new_line, _join_lines),
    _put_into_block,
)

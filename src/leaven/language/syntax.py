"""The syntax tree of a recipe: what was written, before any name is resolved.

Every node has a span. Spans do not count for equality: two trees are equal if they say the same, which is what the
formatter preserves.
"""

from leaven.language.record import Record
from leaven.language.source import Source, Span


class Node(Record):
    """A piece of written syntax; its place is not compared."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__(without=("span", "source", "comments"))


class Number(Node):
    """`42`, `3e-4`, `30%`, `2 epochs`. A plain number has no unit."""

    value: int | float
    unit: str | None
    span: Span


class String(Node):
    """`"photos"`, with its escapes resolved."""

    value: str
    span: Span


class Literal(Node):
    """`true`, `false` or `none`."""

    value: bool | None
    span: Span


class Name(Node):
    """A word or a dotted path: `lr`, `torch.RAdam`, `layer4.1.conv2`."""

    path: str
    span: Span


class Argument(Node):
    """A positional argument, or `keyword=value`."""

    keyword: Name | None
    value: "Value"
    span: Span


class Call(Node):
    """`name(arguments)`."""

    name: Name
    arguments: tuple[Argument, ...]
    span: Span


class List(Node):
    """`[a, b]`."""

    items: tuple["Value", ...]
    span: Span


class Pipeline(Node):
    """`a -> b -> c`."""

    stages: tuple["Value", ...]
    span: Span


class Binary(Node):
    """`left + right`, and the same for `-`, `*`, `/`."""

    operator: str
    left: "Value"
    right: "Value"
    span: Span


class Negative(Node):
    """`-value`."""

    value: "Value"
    span: Span


Value = Number | String | Literal | Name | Call | List | Pipeline | Binary | Negative


class Block(Node):
    """`{ statements }`."""

    statements: tuple["AnyStatement", ...]
    span: Span


class Statement(Node):
    """`name arguments { block }`."""

    name: Name
    arguments: tuple[Argument, ...]
    block: Block | None
    span: Span

    @property
    def inner(self) -> "tuple[AnyStatement, ...]":
        """The statements in its block."""
        return self.block.statements if self.block is not None else ()


class Extends(Node):
    """`extends "base.leaven"`."""

    target: String
    span: Span


class Import(Node):
    """`import "mine.py" as mine` or `import package.module as zoo`."""

    target: String | Name
    alias: Name | None
    span: Span


class Arg(Node):
    """`arg name: type = default "help"`."""

    name: Name
    type: Name
    choices: List | None
    default: Value | None
    help: String | None
    span: Span

    @property
    def values(self) -> tuple[str, ...]:
        """The values that it can have, as they are written; empty where they can't be listed."""
        if self.type.path == "bool":
            return ("true", "false")
        return tuple(item.span.text.strip('"') for item in self.choices.items) if self.choices else ()


class Let(Node):
    """`let name = value`."""

    name: Name
    value: Value
    span: Span


class Broken(Node):
    """A statement with a syntax error, already reported. Its name and block are kept to avoid follow-up errors."""

    name: Name | None
    block: Block | None
    span: Span


AnyStatement = Statement | Extends | Import | Arg | Let | Broken


class Setting(Node):
    """`optimizer.lr=1e-4`, `phase."fine-tune".epochs=3`: the value of `--set`."""

    path: tuple[Name | String, ...]
    value: Value
    span: Span


class Tree(Node):
    """A whole recipe file. The comments are in source order."""

    statements: tuple[AnyStatement, ...]
    source: Source
    comments: tuple[Span, ...]

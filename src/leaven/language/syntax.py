"""The syntax tree of a recipe: what was written, before any name is resolved.

Every node has a span. Spans do not count for equality: two trees are equal if they say the same, which is what the
formatter preserves.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from leaven.language.source import Source, Span

_NodeType = TypeVar("_NodeType", bound="_Node")


class _Node:
    """Equality, hash and repr of all nodes, by what was written and not where."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _content(self) -> tuple[object, ...]:
        names = (name for name in self.__match_args__ if name not in ("span", "source", "comments"))
        return tuple(getattr(self, name) for name in names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and type(self) is type(other) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((type(self), self._content()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._content()}"


@dataclass_transform(frozen_default=True)
def _node(cls: type[_NodeType]) -> type[_NodeType]:
    """A dataclass that is frozen for the type checker only: generating the methods takes 5 ms of every check."""
    return dataclass(slots=True, eq=False, repr=False)(cls)


@_node
class Number(_Node):
    """`42`, `3e-4`, `30%`, `2 epochs`. A plain number has no unit."""

    value: int | float
    unit: str | None
    span: Span


@_node
class String(_Node):
    """`"photos"`, with its escapes resolved."""

    value: str
    span: Span


@_node
class Literal(_Node):
    """`true`, `false` or `none`."""

    value: bool | None
    span: Span


@_node
class Name(_Node):
    """A word or a dotted path: `lr`, `torch.RAdam`, `layer4.1.conv2`."""

    path: str
    span: Span


@_node
class Argument(_Node):
    """A positional argument, or `keyword=value`."""

    keyword: Name | None
    value: "Value"
    span: Span


@_node
class Call(_Node):
    """`name(arguments)`."""

    name: Name
    arguments: tuple[Argument, ...]
    span: Span


@_node
class List(_Node):
    """`[a, b]`."""

    items: tuple["Value", ...]
    span: Span


@_node
class Pipeline(_Node):
    """`a -> b -> c`."""

    stages: tuple["Value", ...]
    span: Span


@_node
class Binary(_Node):
    """`left + right`, and the same for `-`, `*`, `/`."""

    operator: str
    left: "Value"
    right: "Value"
    span: Span


@_node
class Negative(_Node):
    """`-value`."""

    value: "Value"
    span: Span


Value = Number | String | Literal | Name | Call | List | Pipeline | Binary | Negative


@_node
class Block(_Node):
    """`{ statements }`."""

    statements: tuple["AnyStatement", ...]
    span: Span


@_node
class Statement(_Node):
    """`name arguments { block }`."""

    name: Name
    arguments: tuple[Argument, ...]
    block: Block | None
    span: Span


@_node
class Extends(_Node):
    """`extends "base.leaven"`."""

    target: String
    span: Span


@_node
class Import(_Node):
    """`import "mine.py" as mine` or `import package.module as zoo`."""

    target: String | Name
    alias: Name | None
    span: Span


@_node
class Arg(_Node):
    """`arg name: type = default "help"`."""

    name: Name
    type: Name
    choices: List | None
    default: Value | None
    help: String | None
    span: Span


@_node
class Let(_Node):
    """`let name = value`."""

    name: Name
    value: Value
    span: Span


@_node
class Broken(_Node):
    """A statement with a syntax error, already reported. Its name and block are kept to avoid follow-up errors."""

    name: Name | None
    block: Block | None
    span: Span


AnyStatement = Statement | Extends | Import | Arg | Let | Broken


@_node
class Setting(_Node):
    """`optimizer.lr=1e-4`, `phase."fine-tune".epochs=3`: the value of `--set`."""

    path: tuple[Name | String, ...]
    value: Value
    span: Span


@_node
class Tree(_Node):
    """A whole recipe file. The comments are in source order."""

    statements: tuple[AnyStatement, ...]
    source: Source
    comments: tuple[Span, ...]

"""The tree of a recipe: what was written, before anything is looked up.

Every node knows its span. Spans do not take part in equality: two trees are equal when they say the same,
which is what the formatter promises to keep.
"""

from dataclasses import dataclass, field

from leaven.language.source import Source, Span


@dataclass(frozen=True, slots=True)
class Number:
    """`42`, `3e-4`, `30%`, `2 epochs`. A bare number has no unit."""

    value: int | float
    unit: str | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class String:
    """`"photos"`, with its escapes resolved."""

    value: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """`true`, `false` or `none`."""

    value: bool | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A word or a dotted path: `lr`, `torch.RAdam`, `layer4.1.conv2`."""

    path: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional value, or `keyword=value`."""

    keyword: Name | None
    value: "Value"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`name(arguments)`."""

    name: Name
    arguments: tuple[Argument, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class List:
    """`[a, b]`."""

    items: tuple["Value", ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`a -> b -> c`."""

    stages: tuple["Value", ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """`left + right`, and the same for `-`, `*`, `/`."""

    operator: str
    left: "Value"
    right: "Value"
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """`-value`."""

    value: "Value"
    span: Span = field(compare=False, repr=False)


Value = Number | String | Literal | Name | Call | List | Pipeline | Binary | Negative


@dataclass(frozen=True, slots=True)
class Block:
    """`{ statements }`."""

    statements: tuple["AnyStatement", ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """`name arguments { block }`."""

    name: Name
    arguments: tuple[Argument, ...]
    block: Block | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Extends:
    """`extends "base.leaven"`."""

    target: String
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Import:
    """`import "mine.py" as mine` or `import package.module as zoo`."""

    target: String | Name
    alias: Name | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Arg:
    """`arg name: type = default "help"`."""

    name: Name
    type: Name
    choices: List | None
    default: Value | None
    help: String | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Let:
    """`let name = value`."""

    name: Name
    value: Value
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Broken:
    """A statement that could not be read, already reported. Its name and block are kept, so that no consequence is."""

    name: Name | None
    block: Block | None
    span: Span = field(compare=False, repr=False)


AnyStatement = Statement | Extends | Import | Arg | Let | Broken


@dataclass(frozen=True, slots=True)
class Setting:
    """`optimizer.lr=1e-4`, `phase."fine-tune".epochs=3`: what stands behind `--set`."""

    path: tuple[Name | String, ...]
    value: Value
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tree:
    """A whole recipe file. Comments stand beside the tree, in text order."""

    statements: tuple[AnyStatement, ...]
    source: Source = field(compare=False, repr=False)
    comments: tuple[Span, ...] = field(compare=False, repr=False, default=())

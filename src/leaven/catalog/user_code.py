"""The definitions in a user's Python file, read without running it.

A class or function becomes a `Card` of kind "user": its parameters are known, and a wrong argument is found before
anything starts. What only running can tell (a computed name, a decorated signature) is marked as not known.
"""

import ast
import os.path
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from leaven.catalog.card import Card
from leaven.catalog.hooks import PROVIDED
from leaven.catalog.python_source import Names, hook_arguments, names_in, read_class, read_parameters, summary
from leaven.catalog.traits import Definition
from leaven.catalog.values import UserModule
from leaven.files.regular import open_regular
from leaven.language.record import Record
from leaven.language.source import Span

MAX_BYTES = 1_000_000


class Definitions(Record):
    """The names that a file defines. `is_complete` is false where it may define more than can be seen."""

    cards: Mapping[str, Card]
    is_complete: bool


class Unreadable(Record):
    """The file is not Python, or can't be opened; `line` is where."""

    reason: str
    line: int | None = None


class ImportedModule(Record):
    """A module of the user's, and where it is imported; `definitions` is None where the file could not be read."""

    module: UserModule
    definitions: Definitions | None
    span: Span


def read_definitions(file: Path, alias: str) -> Definitions | Unreadable:
    """The definitions of a Python file."""
    try:
        with open_regular(file) as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            return Unreadable(f"it is larger than {MAX_BYTES:,} bytes, the limit of an imported file")
        tree = ast.parse(content, filename=str(file))
    except SyntaxError as problem:
        return Unreadable(problem.msg or "invalid syntax", problem.lineno)
    except (OSError, ValueError, RecursionError, MemoryError) as problem:
        return Unreadable(getattr(problem, "strerror", None) or str(problem) or type(problem).__name__)
    names = names_in(tree)
    cards: dict[str, Card] = {}
    is_complete = True
    for node in _top_level(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                cards[node.name] = _function_card(node, alias, names)
            case ast.ClassDef():
                cards[node.name] = _class_card(node, alias, names)
            case ast.Import() | ast.ImportFrom():
                for name in node.names:
                    is_complete &= name.name != "*"
                    bound = name.asname or name.name.partition(".")[0]
                    cards[bound] = unseen_card(alias, bound)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                leaves = [leaf for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
                cards |= {leaf.id: unseen_card(alias, leaf.id) for leaf in leaves}
    return Definitions(cards, is_complete and "__getattr__" not in cards)


def find_module(name: str, folder: Path) -> Path | None:
    """The file of an importable module, found without importing it or any package above it."""
    import sys

    parts = name.split(".")
    for root in [folder, *map(Path, sys.path)]:
        base = root.joinpath(*parts)
        for candidate in (base.with_name(base.name + ".py"), base / "__init__.py"):
            if os.path.isfile(candidate):
                return candidate
    return None


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those inside top-level `if`, `try` and `with` among them."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            for inner in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(node, inner, []))
            for handler in getattr(node, "handlers", []):
                yield from _top_level(handler.body)


def _function_card(node: ast.FunctionDef | ast.AsyncFunctionDef, alias: str, names: Names) -> Card:
    # A decorator may change the signature, so nothing is promised about a decorated function's.
    if node.decorator_list:
        return unseen_card(alias, node.name, summary(node))
    parameters, open_ended = read_parameters(node.args, names)
    unseen = unseen_card(alias, node.name, summary(node))
    return replace(unseen, parameters=parameters, open_ended=open_ended, traits=Definition("function"))


def _class_card(node: ast.ClassDef, alias: str, names: Names) -> Card:
    source = read_class(node, names)
    definition = Definition(
        "class",
        bases=tuple(ast.unparse(base) for base in node.bases),
        hook_arguments=hook_arguments(source.methods),
        other_methods=tuple(name for name in source.methods if name not in source.technique.hooks),
        technique=source.technique,
    )
    unseen = unseen_card(alias, node.name, summary(node))
    return replace(unseen, parameters=source.parameters, open_ended=source.open_ended, traits=definition)


def technique_card(card: Card) -> Card:
    """A class in user code as a technique, without the parameters that the program passes."""
    return replace(card, parameters=tuple(parameter for parameter in card.parameters if parameter.name not in PROVIDED))


def unseen_card(alias: str, name: str, summary: str = "") -> Card:
    """A definition of which nothing is known but its name."""
    path = f"{alias}.{name}"
    return Card("user", path, "user", Definition(), summary, target=path, friendly=name, open_ended=True)

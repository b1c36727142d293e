"""What a user's Python file defines, read without running it.

A class or function becomes a `Card` of kind "user": its parameters are known, and a wrong argument is found before
anything starts. What only running can tell (a computed name, a decorated signature) is marked as not known.
"""

import ast
import os.path
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from leaven.catalog.card import Card, Parameter
from leaven.catalog.hooks import HAD, HOOKS, hooks_in
from leaven.catalog.traits import Definition, TechniqueTraits
from leaven.catalog.values import UserModule
from leaven.formats.regular import open_regular
from leaven.language.source import Span

MAX_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Definitions:
    """The names that a file defines. `is_complete` is false where it may define more than can be seen."""

    cards: Mapping[str, Card]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file is not Python, or can't be opened; `line` is where."""

    reason: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ImportedModule:
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
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    cards: dict[str, Card] = {}
    is_complete = True
    for node in _top_level(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                cards[node.name] = _function_card(node, alias)
            case ast.ClassDef():
                cards[node.name] = _class_card(node, alias, classes)
            case ast.Import() | ast.ImportFrom():
                for name in node.names:
                    is_complete &= name.name != "*"
                    bound = name.asname or name.name.partition(".")[0]
                    cards[bound] = unseen_card(alias, bound)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for leaf in ast.walk(target):
                        if isinstance(leaf, ast.Name):
                            cards[leaf.id] = unseen_card(alias, leaf.id)
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


def _top_level(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module, with those inside top-level `if`, `try` and `with` among them."""
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        for inner in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                found.extend(_top_level(getattr(node, inner, [])))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                found.extend(_top_level(handler.body))
    return found


def _function_card(node: ast.FunctionDef | ast.AsyncFunctionDef, alias: str) -> Card:
    # A decorator may change the signature, so nothing is promised about a decorated function's.
    if node.decorator_list:
        return unseen_card(alias, node.name, summary=_summary(node))
    parameters, open_ended = _parameters(node.args)
    return _card(alias, node.name, _summary(node), parameters, open_ended, Definition("function"))


def _class_card(node: ast.ClassDef, alias: str, classes: Mapping[str, ast.ClassDef]) -> Card:
    definition = _class_definition(node, _methods(node, classes))
    init = _initializer(node, classes)
    if init is not None:
        parameters, open_ended = _parameters(init.args)
        return _card(alias, node.name, _summary(node), parameters[1:], open_ended, definition)
    if _is_dataclass(node):
        fields = [line for line in node.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)]
        parameters = tuple(
            Parameter(line.target.id, required=line.value is None)
            for line in fields
            if isinstance(line.target, ast.Name)
        )
        return _card(alias, node.name, _summary(node), parameters, bool(node.bases), definition)
    takes_nothing = all(
        isinstance(base, ast.Attribute | ast.Name) and _last(base) in _PLAIN_BASES for base in node.bases
    )
    return _card(alias, node.name, _summary(node), (), not takes_nothing, definition)


# Bases whose own constructor takes no arguments.
_PLAIN_BASES = {"Module", "object", "Dataset", "IterableDataset", "ABC", "Protocol"}


def _initializer(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], seen: frozenset[str] = frozenset()
) -> ast.FunctionDef | None:
    """The `__init__` of a class, or of its nearest base in the same file."""
    for line in node.body:
        if isinstance(line, ast.FunctionDef) and line.name == "__init__":
            return line
    for base in node.bases:
        name = _last(base)
        if name in classes and name not in seen and name != node.name:
            found = _initializer(classes[name], classes, seen | {node.name})
            if found is not None:
                return found
    return None


def _methods(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], seen: frozenset[str] = frozenset()
) -> dict[str, ast.FunctionDef]:
    """The methods of a class and of its bases in the same file."""
    found: dict[str, ast.FunctionDef] = {}
    for name in map(_last, node.bases):
        if name in classes and name not in seen and name != node.name:
            found |= _methods(classes[name], classes, seen | {node.name})
    return found | {line.name: line for line in node.body if isinstance(line, ast.FunctionDef)}


def _class_definition(node: ast.ClassDef, methods: Mapping[str, ast.FunctionDef]) -> Definition:
    """What a class would do as a technique: its hooks, with how many values each can be called, and other methods."""
    hooks = hooks_in(methods)
    called = [name for name in hooks if name in HOOKS and not methods[name].decorator_list]
    return Definition(
        "class",
        bases=tuple(ast.unparse(base) for base in node.bases),
        hook_arguments={name: _count(methods[name]) for name in called},
        other_methods=tuple(name for name in methods if name not in hooks),
        technique=TechniqueTraits(hooks=hooks),
    )


def _count(method: ast.FunctionDef) -> tuple[float, float]:
    """With how many values a method can be called, at least and at most."""
    parameters, _ = _parameters(method.args)
    own = parameters[1:]  # without `self`
    places = [parameter for parameter in own if parameter.positional and not parameter.variadic]
    if any(parameter.required for parameter in own if not parameter.positional):
        return inf, inf
    most = inf if any(parameter.variadic for parameter in own) else len(places)
    return sum(parameter.required for parameter in places), most


def technique_card(card: Card) -> Card:
    """A class of the user's as a technique: what the program gives its constructor is no matter of the recipe."""
    wants = tuple(parameter.name for parameter in card.parameters if parameter.name in HAD)
    own = tuple(parameter for parameter in card.parameters if parameter.name not in HAD)
    technique = card.technique._replace(wants=wants)
    return replace(card, parameters=own, traits=card.definition._replace(technique=technique))


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(
        _last(decorator.func if isinstance(decorator, ast.Call) else decorator) == "dataclass"
        for decorator in node.decorator_list
    )


def _parameters(arguments: ast.arguments) -> tuple[tuple[Parameter, ...], bool]:
    positional = [*arguments.posonlyargs, *arguments.args]
    without_default = len(positional) - len(arguments.defaults)
    found = [
        _parameter(argument, None if index < without_default else arguments.defaults[index - without_default])
        for index, argument in enumerate(positional)
    ]
    found += [
        _parameter(argument, default, positional=False)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.vararg:
        found.append(Parameter(arguments.vararg.arg, variadic=True))
    return tuple(found), arguments.kwarg is not None


def _parameter(argument: ast.arg, default: ast.expr | None, positional: bool = True) -> Parameter:
    value: Any = None
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
    return Parameter(
        argument.arg,
        type=_type_word(argument.annotation),
        required=default is None,
        default=value if isinstance(value, int | float | str | bool | None) else None,
        positional=positional,
    )


def _type_word(annotation: ast.expr | None) -> str:
    words = {"int": "int", "float": "float", "bool": "bool", "str": "text|path"}
    return words.get(annotation.id, "any") if isinstance(annotation, ast.Name) else "any"


def _summary(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    return (ast.get_docstring(node) or "").strip().partition("\n")[0]


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def unseen_card(alias: str, name: str, summary: str = "") -> Card:
    """A definition of which nothing is known but its name."""
    return _card(alias, name, summary, (), True, Definition())


def _card(
    alias: str, name: str, summary: str, parameters: tuple[Parameter, ...], open_ended: bool, definition: Definition
) -> Card:
    return Card(
        kind="user",
        name=f"{alias}.{name}",
        source="user",
        summary=summary,
        target=f"{alias}.{name}",
        friendly=name,
        parameters=parameters,
        open_ended=open_ended,
        traits=definition,
    )

"""Signatures of classes and functions, read from their source code without running it.

Serves Leaven's own techniques and components (`own.py`) and the user's code (`user_code.py`) alike.
"""

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

from leaven.catalog.card import Parameter
from leaven.catalog.hooks import HOOKS, PROVIDED, hooks_in
from leaven.catalog.traits import TechniqueTraits

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TYPES = {"int": "int", "float": "float", "bool": "bool", "str": "text|path", "None": "none"}
_LISTS = ("Sequence", "list", "tuple", "Iterable", "Collection")
_PLAIN_BASES = {"Module", "object", "Dataset", "IterableDataset", "ABC", "Protocol"}  # their constructors take nothing


class ClassSource(NamedTuple):
    """The parameters of a class's constructor, and its methods with those of its bases in the same file."""

    parameters: tuple[Parameter, ...]
    open_ended: bool
    methods: Mapping[str, ast.FunctionDef]

    @property
    def technique(self) -> TechniqueTraits:
        """The hooks and the objects of the program that it takes if it is used as a technique."""
        wants = tuple(parameter.name for parameter in self.parameters if parameter.name in PROVIDED)
        return TechniqueTraits(hooks=hooks_in(self.methods), wants=wants)

    @property
    def remarks(self) -> dict[str, str]:
        """The first lines of the docstrings of its hooks, by name."""
        hooks = hooks_in(self.methods)
        return {name: said for name in hooks if (said := summary(self.methods[name]))}


class Names(NamedTuple):
    """The classes of a file, and the values of its constants."""

    classes: Mapping[str, ast.ClassDef]
    values: Mapping[str, ast.expr]


def names_in(tree: ast.Module) -> Names:
    """The classes of a file, wherever they are defined, and its constants."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return Names(
        {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)},
        {target.id: node.value for node in assigned for target in node.targets if isinstance(target, ast.Name)},
    )


def read_class(node: ast.ClassDef, names: Names) -> ClassSource:
    methods = _methods(node, names.classes)
    if "__init__" in methods:
        parameters, open_ended = read_parameters(methods["__init__"].args, names)
        return ClassSource(parameters[1:], open_ended, methods)
    decorators = (line.func if isinstance(line, ast.Call) else line for line in node.decorator_list)
    if "dataclass" in map(_last_name, decorators):
        fields = [(line.target, line.value) for line in node.body if isinstance(line, ast.AnnAssign)]
        parameters = tuple(Parameter(f.id, required=value is None) for f, value in fields if isinstance(f, ast.Name))
        return ClassSource(parameters, bool(node.bases), methods)
    return ClassSource((), any(_last_name(base) not in _PLAIN_BASES for base in node.bases), methods)


def _methods(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], seen: frozenset[str] = frozenset()
) -> dict[str, ast.FunctionDef]:
    """The methods of a class, and of its bases in the same file; of two bases, the first counts."""
    found: dict[str, ast.FunctionDef] = {}
    for name in map(_last_name, reversed(node.bases)):
        if name in classes and name not in seen and name != node.name:
            found |= _methods(classes[name], classes, seen | {node.name})
    return found | {line.name: line for line in node.body if isinstance(line, ast.FunctionDef)}


def hook_arguments(methods: Mapping[str, ast.FunctionDef]) -> dict[str, tuple[float, float]]:
    """The least and the largest number of arguments that each hook takes."""
    return {name: _count(methods[name]) for name in HOOKS if name in methods and not methods[name].decorator_list}


def _count(method: ast.FunctionDef) -> tuple[float, float]:
    parameters, _ = read_parameters(method.args)
    own = parameters[1:]  # without `self`
    positional = [parameter for parameter in own if parameter.positional and not parameter.variadic]
    if any(parameter.required for parameter in own if not parameter.positional):
        return inf, inf
    most = inf if any(parameter.variadic for parameter in own) else len(positional)
    return sum(parameter.required for parameter in positional), most


def read_parameters(arguments: ast.arguments, names: Names | None = None) -> tuple[tuple[Parameter, ...], bool]:
    """The parameters of a function, and whether it takes other keyword arguments, too."""
    values = names.values if names is not None else {}
    positional = [*arguments.posonlyargs, *arguments.args]
    without_default = len(positional) - len(arguments.defaults)
    defaults = [*[None] * without_default, *arguments.defaults]
    parameters = [_parameter(argument, default, values) for argument, default in zip(positional, defaults, strict=True)]
    parameters += [
        _parameter(argument, default, values, positional=False)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.vararg:
        parameters.append(Parameter(arguments.vararg.arg, variadic=True))
    return tuple(parameters), arguments.kwarg is not None


def _parameter(
    argument: ast.arg, default: ast.expr | None, values: Mapping[str, ast.expr], *, positional: bool = True
) -> Parameter:
    types, choices, items = _annotated(argument.annotation, values)
    value: Any = None
    with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = ast.literal_eval(default) if default is not None else None
    return Parameter(
        argument.arg,
        type=types,
        choices=choices,
        items=items,
        required=default is None,
        default=value if isinstance(value, int | float | str | bool) else None,  # what a recipe could write
        positional=positional,
    )


def _annotated(annotation: ast.expr | None, aliases: Mapping[str, ast.expr]) -> tuple[str, tuple[str, ...], str]:
    """An annotation as `type`, `choices` and `items` of a parameter; `any` where it says what no recipe can check."""
    types: list[str] = []
    choices: tuple[str, ...] = ()
    items = "any"
    for part in _alternatives(annotation, aliases):
        match part:
            case ast.Constant(value=None):
                types.append("none")
            case ast.Name(id=name) if name in _TYPES:
                types.append(_TYPES[name])
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner) if texts := _texts(inner):
                types.append("choice")
                choices = texts
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Name(id=item)) if name in _LISTS and item in _TYPES:
                types.append("list")
                items = _TYPES[item].partition("|")[0]
            case _:
                return "any", (), "any"
    return "|".join(types), choices, items


def _alternatives(annotation: ast.expr | None, aliases: Mapping[str, ast.expr]) -> list[ast.expr | None]:
    """The parts of a union; an alias such as `Mode = Literal["sum", "mean"]` stands for its value."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return [*_alternatives(left, aliases), *_alternatives(right, aliases)]
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return [*_alternatives(inner, aliases), ast.Constant(None)]
        case ast.Name(id=name) if name in aliases:
            return _alternatives(aliases[name], {})
    return [annotation]


def _texts(literals: ast.expr) -> tuple[str, ...]:
    """The strings of a `Literal`; nothing where it has other values, too."""
    parts: Sequence[ast.expr] = literals.elts if isinstance(literals, ast.Tuple) else [literals]
    texts = tuple(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return texts if len(texts) == len(parts) else ()


def summary(node: Function | ast.ClassDef) -> str:
    """The first line of a docstring."""
    return (ast.get_docstring(node) or "").strip().partition("\n")[0]


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""

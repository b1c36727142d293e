"""Which recipes would have a model built that was not built before.

Building one takes a process of its own and some seconds, however often its layers are in the cache afterwards. A run
builds few of them; a recipe that asks for one more is read and formatted, but not checked.
"""

from collections.abc import Hashable, Iterator

from leaven.binding.values import MODEL_PARAMETERS
from leaven.catalog import lookup
from leaven.language import syntax

_LEAVENS = {parameter.name for parameter in MODEL_PARAMETERS}  # these do not change which layers a model has


class Builds:
    """The models built so far, and how many more may be."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._built: set[Hashable] = set()

    def allow(self, tree: syntax.Tree, *, is_known: bool = False) -> bool:
        """Whether a recipe may be checked; if it has a new model, that is counted."""
        wanted = frozenset(_wanted(tree))
        if wanted <= self._built:
            return True
        if not is_known and not self.left:
            return False
        self.left -= not is_known
        self._built |= wanted
        return True


def _wanted(tree: syntax.Tree) -> Iterator[Hashable]:
    """For each statement about the model that may lead to building it, all that it says, `let`s and `arg`s included."""
    named = {s.name.path: s for s in tree.statements if isinstance(s, syntax.Let | syntax.Arg)}
    data = [s.arguments for s in tree.statements if isinstance(s, syntax.Statement) and s.name.path == "data"]
    for statement in tree.statements:
        if not isinstance(statement, syntax.Statement):
            continue
        is_change = statement.name.path == "change" and _names(statement.arguments[:1]) == ["model"]
        if statement.name.path == "model" or is_change:
            said = tuple(_said(argument) for argument in statement.arguments if _matters(argument))
            used = _used(_names(statement.arguments), named)
            if not is_change and said and not used and _fails(statement.arguments[0].value):
                continue
            bound = tuple(data) if {"linear", "classes", "channels"} & {*_names(statement.arguments), *used} else ()
            yield said, tuple(used.values()), bound


def _matters(argument: syntax.Argument) -> bool:
    return argument.keyword is None or argument.keyword.path not in _LEAVENS


def _said(argument: syntax.Argument) -> Hashable:
    value = argument.value
    if isinstance(value, syntax.Call):
        return argument.keyword, value.name, tuple(inner for inner in value.arguments if _matters(inner))
    return argument.keyword, (value, ()) if isinstance(value, syntax.Name) else value


def _names(arguments: tuple[syntax.Argument, ...]) -> list[str]:
    return [name for argument in arguments for name in _names_in(argument.value)]


def _names_in(value: syntax.Value) -> Iterator[str]:
    match value:
        case syntax.Name(path=path):
            yield path
        case syntax.Call(name=name, arguments=arguments):
            yield name.path
            for argument in arguments:
                yield from _names_in(argument.value)
        case syntax.List(items=parts) | syntax.Pipeline(stages=parts):
            for part in parts:
                yield from _names_in(part)
        case syntax.Binary(left=left, right=right):
            yield from (*_names_in(left), *_names_in(right))
        case syntax.Negative(value=inner):
            yield from _names_in(inner)


def _used(names: list[str], named: dict[str, syntax.Let | syntax.Arg]) -> dict[str, syntax.Let | syntax.Arg]:
    """The `let`s and `arg`s that these names lead to."""
    used: dict[str, syntax.Let | syntax.Arg] = {}
    queue = list(names)
    for name in queue:
        if name in named and name not in used:
            used[name] = named[name]
            value = used[name].value if isinstance(used[name], syntax.Let) else used[name].default
            queue += _names_in(value) if value is not None else ()
    return used


def _fails(value: syntax.Value) -> bool:
    """Whether a model is refused before anything is built, or is the user's own, which a check never builds."""
    match value:
        case syntax.Call(name=syntax.Name(path=path)) | syntax.Name(path=path):
            return not lookup.find("model", path)
        case syntax.Pipeline() | syntax.Binary():
            return any(not lookup.find("component", name) for name in _names_in(value) if name != "classes")
    return True

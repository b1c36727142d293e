"""`let`s: those that can't be expanded are refused before anything expands them.

A few lines can expand to more than fits into memory (`let b = [a, a]`, `let c = [b, b]`, …) or on Python's stack.
`scope.py` says how much is too much.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from leaven.binding.scope import MAX_DEPTH, MAX_LETS, MAX_NESTING, MAX_PARTS, Scope
from leaven.catalog.selectors import WORDS as SELECTOR_WORDS
from leaven.language import syntax
from leaven.messages import names as messages

_LET_DEPTH = 2  # what a `let` adds to the depth


def refuse_unexpandable(scope: Scope) -> None:
    """Report every `let` that refers to itself or becomes too large; what uses it is not mentioned again."""
    _refuse_cycles(scope)
    _remove_broken(scope)
    sizes: dict[str, _Size] = {}
    for name in list(scope.lets):
        _measure(name, scope, sizes)
    _remove_broken(scope)


def _remove_broken(scope: Scope) -> None:
    for name in scope.broken_names & set(scope.lets):
        del scope.lets[name]


def parts_of(value: syntax.Value) -> Iterator[tuple[syntax.Value, bool]]:
    """The parts of a value, and whether brackets may be around them."""
    match value:
        case syntax.Binary(left=left, right=right):
            yield left, False
            yield right, not isinstance(right, syntax.Number | syntax.String | syntax.Literal)
        case syntax.Negative(value=inner):
            yield inner, True
        case syntax.Pipeline(stages=parts):
            yield from ((part, False) for part in parts)
        case syntax.List(items=parts):
            yield from ((part, True) for part in parts)
        case syntax.Call(arguments=arguments):
            yield from ((argument.value, True) for argument in arguments)


def names_in(value: syntax.Value, wanted: Collection[str]) -> Iterator[syntax.Name]:
    """The uses of the wanted names in a value."""
    if isinstance(value, syntax.Name):
        if value.path in wanted and value.path not in SELECTOR_WORDS:
            yield value
        return
    for part, _ in parts_of(value):
        yield from names_in(part, wanted)


def _refuse_cycles(scope: Scope) -> None:
    """Report every `let` that leads back to itself or through too many others."""
    depths: dict[str, int] = {}
    for start in list(scope.lets):
        waiting = [] if start in depths else [(scope.lets[start].name, names_in(scope.lets[start].value, scope.lets))]
        on_the_way = {start}
        while waiting:
            name, uses = waiting[-1]
            use = next(uses, None)
            if use is None:
                waiting.pop()
                on_the_way.discard(name.path)
                depth = depths.setdefault(name.path, 1)
                if depth > MAX_LETS:
                    scope.broken_names.add(name.path)
                if depth == MAX_LETS + 1:  # those that refer to it are not mentioned
                    scope.add(messages.deep_lets(scope.lets[name.path].name, MAX_LETS))
                if waiting:
                    above = waiting[-1][0].path
                    depths[above] = max(depths.get(above, 1), depth + 1)
            elif use.path in on_the_way:
                names = [name for name, _ in waiting]
                at = [name.path for name in names].index(use.path)
                cycle = [*names[at + 1 :], use]
                scope.broken_names |= {name.path for name in cycle}
                scope.add(messages.circular_let(cycle, scope.lets[use.path].name.span))
                depths |= dict.fromkeys(on_the_way, 1)
                break
            elif use.path in depths:
                depths[name.path] = max(depths.get(name.path, 1), depths[use.path] + 1)
            else:
                on_the_way.add(use.path)
                waiting.append((use, names_in(scope.lets[use.path].value, scope.lets)))


class _Size(NamedTuple):
    parts: int
    depth: int
    nesting: int


def _measure(name: str, scope: Scope, sizes: dict[str, _Size]) -> _Size:
    """How large a `let` becomes with every `let` in it written out."""
    if name in sizes:
        return sizes[name]
    sizes[name] = _Size(1, 1, 0)  # what it counts for where it is too large, or where the name means something else
    parts = depth = nesting = 0
    waiting = [(scope.lets[name].value, 1, 0)]
    while waiting:
        value, above, around = waiting.pop()
        inner = _Size(1, 0, 0)
        if isinstance(value, syntax.Name) and value.path in scope.lets:
            inner = _measure(value.path, scope, sizes)
            above += _LET_DEPTH
            if value.path in scope.broken_names:
                scope.broken_names.add(name)
                return sizes[name]
        parts += inner.parts
        depth, nesting = max(depth, above + inner.depth), max(nesting, around + inner.nesting)
        waiting += [(part, above + 1, around + is_bracketed) for part, is_bracketed in parts_of(value)]
    if parts > MAX_PARTS or depth > MAX_DEPTH or nesting > MAX_NESTING:
        scope.broken_names.add(name)
        scope.add(messages.large_let(scope.lets[name].name, MAX_PARTS if parts > MAX_PARTS else None))
    else:
        sizes[name] = _Size(parts, depth, nesting)
    return sizes[name]

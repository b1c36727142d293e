"""Selectors: sets of a model's layers, and which parameters or modules each means.

How one is read from a recipe is left to `binding/selectors.py`.
"""

from dataclasses import field
from itertools import accumulate

from leaven.catalog.layers import Layers
from leaven.catalog.values import Pending, Quantity
from leaven.formats.layer_names import is_glob, is_named, is_under, with_outer
from leaven.language.record import Record

WORDS = ("all", "head", "backbone", "stem", "norms", "biases")


class Word(Record):
    """`all`, `head`, `backbone`, `stem`, `norms`, `biases`."""

    word: str


class Layer(Record):
    """A module path, with all below it, or a glob over paths."""

    pattern: str
    is_glob: bool


class Stages(Record):
    numbers: tuple[int | Pending, ...]


class Share(Record):
    """The first or last layers in forward order: a count of layers, or a percentage of parameters."""

    end: str
    amount: Quantity | Pending


class OfType(Record):
    type: str


class Joined(Record):
    left: "Selector"
    right: "Selector"


class Without(Record):
    left: "Selector"
    right: "Selector"


Selector = Word | Layer | Stages | Share | OfType | Joined | Without


class Selection(Record):
    """A selector and the parameters that it means; None where the model's layers, or a number in it, are not known."""

    selector: Selector
    parameters: frozenset[str] | None = field(compare=False)


def matching(selector: Selector, layers: Layers) -> frozenset[str]:
    """The names of the parameters that a selector means: one set, however often a recipe selects them."""
    known = layers.matched
    if isinstance(selector, Joined | Without):
        left, right = matching(selector.left, layers), matching(selector.right, layers)
        key = type(selector), left, right  # a set keeps its hash; that of a long selector is calculated each time
        if key not in known:
            known[key] = left | right if isinstance(selector, Joined) else left - right
        return known[key]
    if selector not in known:
        known[selector] = _matching(selector, layers)
    return known[selector]


def _matching(selector: Word | Layer | Stages | Share | OfType, layers: Layers) -> frozenset[str]:
    match selector:
        case Word(word):
            return _word(word, layers)
        case Layer(pattern):
            return _under((pattern,), layers)
        case Stages():
            return _under(_of_stages(selector, layers), layers)
        case Share(end, amount):
            return _share(end, amount, layers) if isinstance(amount, Quantity) else frozenset()
        case OfType(type):
            return frozenset(p.name for p in layers.parameters if p.module_type == type)


# -- which modules


def modules_matching(selector: Selector, layers: Layers) -> tuple[str, ...]:
    """The modules that a selector names, whether they have parameters or not: not those within them."""
    match selector:
        case Joined(left, right):
            return tuple(dict.fromkeys((*modules_matching(left, layers), *modules_matching(right, layers))))
        case Without(left, right):
            without = modules_matching(right, layers)
            return tuple(path for path in modules_matching(left, layers) if path not in without)
        case Layer(pattern):
            return tuple(module.path for module in layers.modules if module.path and is_named(module.path, pattern))
        case OfType(type):
            return tuple(module.path for module in layers.modules if module.path and module.type == type)
        case Stages():
            return _of_stages(selector, layers)
        case Word("head" | "stem" as word):
            return layers.head if word == "head" else layers.stem
    return ()


# -- of both


def is_resolved(selector: Selector) -> bool:
    """Whether it is known which layers are meant; `first(n)` waits for an `arg` without a default."""
    match selector:
        case Joined(left, right) | Without(left, right):
            return is_resolved(left) and is_resolved(right)
        case Stages(numbers):
            return all(isinstance(number, int) for number in numbers)
        case Share(amount=amount):
            return isinstance(amount, Quantity)
    return True


def _of_stages(stages: Stages, layers: Layers) -> tuple[str, ...]:
    known = [number for number in stages.numbers if isinstance(number, int)]
    return tuple(path for number in known for paths in layers.stages[number - 1 : number] for path in paths)


def _word(word: str, layers: Layers) -> frozenset[str]:
    match word:
        case "head" | "stem":
            return _under(layers.head if word == "head" else layers.stem, layers)
        case "norms":
            return frozenset(p.name for p in layers.parameters if "Norm" in p.module_type)
        case "biases":
            return frozenset(p.name for p in layers.parameters if p.name.rpartition(".")[2] == "bias")
    everything = frozenset(parameter.name for parameter in layers.parameters)
    return everything - _under(layers.head, layers) if word == "backbone" else everything


def _under(paths: tuple[str, ...], layers: Layers) -> frozenset[str]:
    names = [parameter.name for parameter in layers.parameters]
    if len(paths) == 1:
        return frozenset(name for name in names if is_under(name, paths))
    plain, globs = frozenset(paths), list(filter(is_glob, paths))
    return frozenset(n for n in names if not plain.isdisjoint(with_outer(n)) or is_under(n, globs))


def _share(end: str, amount: Quantity, layers: Layers) -> frozenset[str]:
    ordered = list(layers.parameters) if end == "first" else list(reversed(layers.parameters))
    if amount.unit == "%":
        wanted = sum(p.count for p in ordered) * amount.amount / 100
        before = accumulate((p.count for p in ordered), initial=0)
        return frozenset(p.name for p, seen in zip(ordered, before, strict=False) if seen < wanted)
    modules = list(dict.fromkeys(parameter.module_path for parameter in ordered))[: int(amount.amount)]
    return frozenset(p.name for p in ordered if p.module_path in set(modules))

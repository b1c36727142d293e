"""Reports about selectors of layers."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from leaven.catalog.layers import Layers
from leaven.catalog.selectors import WORDS, Layer, OfType, Selector, Word
from leaven.catalog.value_text import quoted
from leaven.formats.layer_names import is_under
from leaven.formats.listing import both, in_code, some_names
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Fix, write
from leaven.messages.suggestions import similar

# How layers are selected by a call: what it takes, and an example.
CALLS = {
    "stages": ("whole numbers", "stages(1, 3)"),
    "first": ("a percentage or a number of layers", "first(50%)"),
    "last": ("a percentage or a number of layers", "last(2)"),
    "type": ("a string in quotes", 'type("Conv2d")'),
}
_HEADS = ("classifier", "fc", "linear", "output", "top")  # what other models call their head
_NAME = re.compile(r"[^\W\d]\w*(\.\w+)*")


def not_layers(value: syntax.Value) -> Diagnostic:
    text = value.span.text
    is_count = isinstance(value, syntax.Number) and isinstance(value.value, int)
    headline = "this does not select layers"
    notes = ["layers are selected by path (`layer4.1`), by a glob in quotes, or by a word such as `head`"]
    fix = write(value.span, f"first({text})", f"for the first {text} layers, write ") if is_count else None
    return error("wrong-type", headline, (value, "expected layers"), notes=notes, fix=fix)


def unknown_call(call: syntax.Call, near: list[str]) -> Diagnostic:
    headline = f"layers can't be selected by `{call.name.path}`"
    notes = [f"they are selected by {both(in_code(example for _, example in CALLS.values()))}"]
    fix = similar(call.name.span, near[:1])
    return error("unknown-name", headline, (call.name, "unknown selector"), notes=notes, fix=fix)


def wrong_arguments(call: syntax.Call, first: object) -> Diagnostic:
    """A selector such as `first` with other arguments than it takes; `first` is what the first one comes to."""
    name, value = call.name.path, call.arguments[0].value if len(call.arguments) == 1 else None
    takes, example = CALLS[name]
    fix: Fix | str = f"usage: `{example}`"
    if name == "type" and isinstance(value, syntax.Name):
        fix = write(value.span, quoted(value.path), shown=call.span)
    elif value is not None and name in ("first", "last") and isinstance(first, float) and 0 < first < 1:
        share = f"{round(first * 100, 4):g}%"
        fix = write(value.span, share, shown=call.span)
    return error("wrong-type", f"`{name}` takes {takes}", (call, f"expected {takes}"), fix=fix)


def no_such_stage(argument: syntax.Argument, number: int, model: str, available: int | None) -> Diagnostic:
    headline = "stages are numbered from 1"
    if available is not None:
        headline = f"{model} has {available} stages" if available else f"{model} has no stages"
    fix = f"choose a number from 1 to {available}" if available else None
    return error("unknown-layer", headline, (argument, f"there is no stage {number}"), fix=fix)


def nothing_left(value: syntax.Value, model: str) -> Diagnostic:
    headline = f"this selects no layer of {model}"
    return error("empty-selector", headline, (value, "everything is excluded"), fix="check what comes after `-`")


def not_names(value: syntax.Value) -> Diagnostic:
    headline = "these layers are chosen by name"
    label = "its layers can't be selected in this way"
    return error("wrong-type", headline, (value, label), fix='name them: `["layer3", "layer4"]`')


def no_modules(value: syntax.Value, model: str) -> Diagnostic:
    headline = f"this names no layer of {model}"
    return error("empty-selector", headline, (value, "no layer is left"), fix='name layers: `["layer3", "layer4"]`')


def no_such_layer(
    selector: Selector,
    value: syntax.Value,
    written: str,
    model: str,
    layers: Layers,
    nearest: Callable[[str, Iterable[str]], list[str]],
) -> Diagnostic:
    """A selector that matches no layer of the model."""
    paths = [module.path for module in layers.modules if module.path]
    tops = dict.fromkeys(parameter.name.partition(".")[0] for parameter in layers.parameters)
    id, near = "unknown-layer", list[str]()
    label, known = "no layer matches", f"the top-level names in {model} are {some_names(map(_written, tops))}"
    match selector:
        case Layer() | OfType() if types := _types_without_parameters(selector, layers):
            id, headline = "empty-selector", f"`{written}` of {model} has no parameters"
            label = f"nothing to train or freeze in `{types[0]}`"
            known = f"choose layers that have parameters: {some_names(map(_written, tops))}"
        case Word(word):
            headline = f"{model} has no layers for `{word}`"
        case OfType(type):
            headline = f"{model} has no layer of type `{type}`"
            near = nearest(type, {module.type for module in layers.modules})
        case Layer(pattern, is_glob=True):
            headline = f"no layer of {model} matches `{pattern}`"
            if pattern.startswith("*"):
                ends = Counter(parameter.module_path.rpartition(".")[2] for parameter in layers.parameters)
                frequent = [name for name, _ in ends.most_common() if name and not name.isdigit()]
                known = f"layer names end in {some_names(frequent)}"
        case _:
            headline = f"{model} has no layer named `{written}`"
            near = nearest(written, [*WORDS, *paths]) or ["head"] * (written in _HEADS)
    near = list(map(quoted if isinstance(value, syntax.String) else _written, near))
    fix = similar(value.span, near, " (`leaven inspect` lists them)") or Fix(known)
    return error(id, headline, (value, label), fix=fix)


def _types_without_parameters(selector: Layer | OfType, layers: Layers) -> list[str]:
    """The types of the modules that a selector means, none of which has parameters."""
    if isinstance(selector, OfType):
        return [selector.type] * any(module.type == selector.type for module in layers.modules)
    meant = (module for module in layers.modules if module.path and is_under(module.path, (selector.pattern,)))
    return list(dict.fromkeys(module.type for module in meant))


def _written(path: str) -> str:
    """A layer as it is named in a recipe: in quotes where it is not a name of the language, such as `1.conv1`."""
    return path if _NAME.fullmatch(path) else quoted(path)

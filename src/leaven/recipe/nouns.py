"""How values, types and cards are called in a report."""

from collections.abc import Sequence
from typing import Any

from leaven.catalog.card import Card, Parameter
from leaven.language import syntax
from leaven.language.layout import ESCAPES
from leaven.language.source import Span
from leaven.recipe.recipe import FilePath, FromData, Pending, Quantity, Score, UserDefinition

_ESCAPED = str.maketrans({meant: written for written, meant in ESCAPES.items()})
KIND_NOUNS = {
    "statement": "a statement",
    "technique": "a technique",
    "model": "a model",
    "component": "a component",
    "data": "a data set",
    "transform": "a transform",
    "loss": "a loss",
    "metric": "a metric",
    "optimizer": "an optimizer",
    "schedule": "a schedule",
    "sampler": "a sampler",
    "logger": "a logger",
    "range": "a range",
    "pruning": "a way of pruning",
}
TYPE_NOUNS = KIND_NOUNS | {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "text": "a text",
    "path": "a path in quotes",
    "list": "a list",
    "none": "none",
    "any": "a value",
    "selector": "layers",
    "score": "a score such as `val.accuracy`",
    "function": "a function of an imported file",
    "transforms": "transforms",
    "name": "the name of an `arg`",
}
ARG_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "text": "a text",
    "path": "a path",
    "choice": "a choice",
}


def of(value: syntax.Value) -> str:
    """What was written, in two words."""
    match value:
        case syntax.Number(unit=None):
            return "a number"
        case syntax.Number(unit=unit):
            return f"a quantity in {unit}"
        case syntax.Text():
            return "a text"
        case syntax.Literal(value=literal):
            return "none" if literal is None else "true" if literal else "false"
        case syntax.Name(path=path):
            return f"the name `{path}`"
        case syntax.Call(name=name):
            return f"`{name.path}(…)`"
        case syntax.Listing():
            return "a list"
        case syntax.Pipeline():
            return "a pipeline"
        case syntax.Binary() | syntax.Negative():
            return "a calculation"


def wanted(parameter: Parameter) -> str:
    """What a parameter takes."""
    words = []
    for word in parameter.types:
        if word == "choice":
            words.append(either([f"`{choice}`" for choice in parameter.choices]))
        elif word == "quantity":
            counted = [unit for unit in parameter.units if unit != "%"]
            words += ["a percentage"] * ("%" in parameter.units)
            words += [f"a number of {either(counted)}"] * bool(counted)
        else:
            words.append(TYPE_NOUNS.get(word, word))
    return either([word for word in words if word != "none"] or words)


def either(words: Sequence[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    words = list(dict.fromkeys(words))
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1] if words else "nothing"


def both(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def did_you_mean(names: Sequence[str]) -> str:
    return f"did you mean {either([f'`{name}`' for name in names])}?"


def called(card: Card, name: Span) -> str:
    """A card as the user called it: `adamw` and `AdamW` are the same."""
    word = name.text.rpartition(".")[2]
    is_same = word.replace("_", "").lower() == card.bare_name.replace("_", "").lower()
    return word if is_same else card.bare_name


def form(card: Card, parameters: Sequence[Parameter] | None = None, name: Span | None = None) -> str:
    """How a card is used, in one line: `step(every, factor=0.1)`; a statement without brackets."""
    if card.kind == "model":
        return f"{called(card, name) if name else card.bare_name}(pretrained=true)"
    shown = []
    for parameter in card.parameters if parameters is None else parameters:
        if parameter.required:
            example = placeholder(parameter)
            shown.append(example if parameter.positional else f"{parameter.name}={example}")
        elif parameter.variadic:
            shown.append("…")
        elif len(shown) < 4 and parameter.default is not None:
            shown.append(f"{parameter.name}={default(parameter)}")
    inside = ", ".join(shown)
    word = called(card, name) if name else card.bare_name
    is_statement = card.kind in ("statement", "technique")
    if card.kind == "user" and name is not None:
        word = name.text
        is_statement = _begins_a_statement(name) and name.source.text[name.end : name.end + 1] != "("
    return f"{word} {inside}".strip() if is_statement else f"{word}({inside})"


def _begins_a_statement(name: Span) -> bool:
    before = name.source.text[: name.start].rstrip(" \t")
    return not before or before[-1] in "\n;{"


_PLACEHOLDERS = {
    "selector": "all - head",
    "transforms": "resize(256) -> center_crop(224)",
    "score": "val.accuracy",
    "model": "resnet18(pretrained=true)",
    "data": 'folder("photos")',
    "optimizer": "adamw(lr=3e-4)",
    "schedule": "cosine()",
    "loss": "cross_entropy()",
    "metric": "accuracy()",
    "sampler": "balanced()",
    "logger": "tensorboard()",
    "pruning": "structured()",
    "range": "log_range(1e-5, 1e-2)",
    "function": "mine.my_function",
}


def placeholder(parameter: Parameter) -> str:
    """What stands for a value that must be given: an example, or the name of the parameter."""
    kind = parameter.types[0]
    if kind in ("text", "path"):
        return f'"{parameter.name}"'
    if kind == "quantity" and parameter.units:
        unit = parameter.units[0]
        return "40%" if unit == "%" else "5" if unit == parameter.name else f"5 {unit}"
    return _PLACEHOLDERS.get(kind, parameter.name if parameter.positional else "…")


def has_example(parameter: Parameter) -> bool:
    """Whether the placeholder of a parameter is a value that it takes as it is."""
    kind = parameter.types[0]
    return kind in ("text", "path", "quantity") or (kind in _PLACEHOLDERS and kind not in ("function", "data", "model"))


def default(parameter: Parameter) -> str:
    """A default as it is written: quantities and choices without quotes."""
    is_bare = isinstance(parameter.default, str) and bool(set(parameter.types) & {"quantity", "choice"})
    written = str(parameter.default).removesuffix(f" {parameter.name}") if is_bare else plain(parameter.default)
    return written.removesuffix("s") if is_bare and written.startswith("1 ") else written


def could_be(value: syntax.Value, parameter: Parameter) -> bool:
    """Whether a `let` with that value can be meant by a parameter of that type, or only happens to share a name."""
    types = set(parameter.types)
    plain_types = {"int", "float", "bool", "text", "path", "list", "none", "any", "choice", "quantity"}
    match value:
        case syntax.Number() | syntax.Text() | syntax.Literal() | syntax.Listing() | syntax.Negative():
            return bool(types & plain_types)
        case syntax.Call() | syntax.Pipeline():
            return bool(types - plain_types - {"score", "name", "statement"}) or "any" in types
    return True


def arg_could_be(type: str, parameter: Parameter) -> bool:
    accepted = {
        "int": {"int", "float", "quantity", "choice", "any"},
        "float": {"float", "quantity", "any"},
        "bool": {"bool", "any"},
        "text": {"text", "path", "choice", "any"},
        "path": {"path", "text", "any"},
        "choice": {"text", "path", "choice", "any"},
    }
    return type not in accepted or bool(accepted[type] & set(parameter.types))


def quoted(text: str) -> str:
    """A text as it would be written in a recipe."""
    return f'"{text.translate(_ESCAPED)}"'


def plain(value: Any) -> str:
    """A value as it would be written in a recipe."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case float():
            return number(value)
        case int():
            return str(value)
        case Quantity(amount, unit):
            return f"{plain(amount)}%" if unit == "%" else f"{plain(amount)} {_unit(amount, unit)}"
        case str():
            return quoted(value)
        case FilePath(text=text):
            return quoted(text)
        case tuple() | list():
            return "[" + ", ".join(plain(item) for item in value) + "]"
        case Score():
            return str(value)
        case FromData(name=name) | Pending(name=name):
            return name
        case UserDefinition(module, name):
            return f"{module}.{name}"
    return str(value)


def expression(value: syntax.Value, binding: int = 0) -> str:
    """A calculation as it would be written, with brackets where they are needed."""
    match value:
        case syntax.Binary(operator=operator, left=left, right=right):
            strength = 1 if operator in "+-" else 2
            text = f"{expression(left, strength)} {operator} {expression(right, strength + 1)}"
            return f"({text})" if strength < binding else text
        case syntax.Negative(value=inner):
            return f"-{expression(inner, 3)}"
    return value.span.text


def is_pending(value: Any) -> bool:
    """Whether a value is known only when the recipe runs."""
    return isinstance(value, Pending)


def number(value: float) -> str:
    """A float in the shortest form that reads back the same: `3e-4`, `0.1`, `1.0`."""
    text = repr(value)
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        return f"{mantissa}e{int(exponent)}"
    if 0 < abs(value) < 0.001:
        digits = f"{value:.17e}"
        mantissa, _, exponent = digits.partition("e")
        for places in range(17):
            short = f"{value:.{places}e}"
            if float(short) == value:
                mantissa, _, exponent = short.partition("e")
                break
        return f"{mantissa}e{int(exponent)}"
    return text


def _unit(amount: float, unit: str) -> str:
    return unit.removesuffix("s") if amount == 1 else unit

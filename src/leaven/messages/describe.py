"""Words of reports for values, types and cards."""

from collections.abc import Sequence

from leaven.catalog import own
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.value_text import value_text
from leaven.catalog.values import Setting
from leaven.formats.listing import either, in_code
from leaven.formats.target_kind import TargetKind
from leaven.language import syntax
from leaven.language.source import Span

KIND_NOUNS = {kind: f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" for kind in KINDS} | {
    "data": "a dataset",
    "pruning": "a pruning method",
}
TYPE_NOUNS = KIND_NOUNS | {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "text": "a string",
    "path": "a path in quotes",
    "list": "a list",
    "none": "none",
    "any": "a value",
    "selector": "layers",
    "modules": "layers",
    "score": "a score such as `val.accuracy`",
    "function": "a function from an imported file",
    "transforms": "transforms joined with `->`",
    "name": "the name of an `arg`",
    "choice": "a choice",
}


def written_value(value: syntax.Value) -> str:
    """A written value in two words: `a string`, `the name x`."""
    match value:
        case syntax.Number(unit=unit):
            return f"a quantity in {unit}" if unit is not None else "a number"
        case syntax.Literal(value=literal):
            return value_text(literal)
        case syntax.Name(path=path):
            return f"the name `{path}`"
        case syntax.Call(name=name):
            return f"`{name.path}(…)`"
    nouns = {syntax.String: "a string", syntax.List: "a list", syntax.Pipeline: "a pipeline"}
    return nouns.get(type(value), "an expression")


def expected(parameter: Parameter) -> str:
    """The values that a parameter takes, in words."""
    counted = [unit for unit in parameter.units if unit != "%"]
    quantities = ["a percentage"] * ("%" in parameter.units) + [f"a number of {either(counted)}"] * bool(counted)
    choices = [either(in_code(parameter.choices)) or "nothing"]
    special = {"choice": choices, "quantity": quantities}
    nouns = [noun for type in parameter.types for noun in special.get(type, [TYPE_NOUNS.get(type, type)])]
    return either([noun for noun in nouns if noun != "none"] or nouns)


def labels(targets: Sequence[TargetKind]) -> str:
    """The labels that something needs."""
    words = {card.task.target_kind: card.task.labels for card in own.cards("task")}
    return either([words[kind] for kind in targets])


def tasks(targets: Sequence[TargetKind], task: str) -> str:
    """The tasks that something is for, where the task at hand is another one."""
    words = {card.task.target_kind: card.task.title.replace("{input} ", "") for card in own.cards("task")}
    if task.endswith(words["class"]):
        words["class"] = f"single-label {words['class']}"
    is_any_classification = {"class", "binary"} <= set(targets)  # in regression: else one of the two would fit
    if is_any_classification:
        words |= {"class": "classification", "binary": "classification"}
    if "class" in targets:
        words["mask"] = words["class"]  # of each pixel
    return either(words[kind] for kind in targets)


def length_in(epochs: Setting, unit: str) -> str:
    """The length of a phase; without its unit where that was just named."""
    length = epochs.value
    return value_text(length.amount if length.unit == unit else length)


def subject(parameter: Parameter) -> str:
    """The name of a parameter in reports: its own, or that of the statement whose positional argument it is."""
    return parameter.taker or parameter.name


def card_name(card: Card, name: Span) -> str:
    """A card as the user called it: `adamw` and `AdamW` are the same."""
    word = name.text.rpartition(".")[2]
    is_same = word.replace("_", "").lower() == card.bare_name.replace("_", "").lower()
    return word if is_same else card.bare_name


def usage(card: Card, parameters: Sequence[Parameter], name: Span) -> str:
    """How a card is used, in one line: `step(every, factor=0.1)`; a statement without parentheses."""
    word = card_name(card, name)
    if card.kind == "model":
        return f"{word}(pretrained=true)"
    shown = []
    for parameter in parameters:
        if parameter.required or parameter.usual:
            example = placeholder(parameter)
            shown.append(example if parameter.positional else f"{parameter.name}={example}")
        elif parameter.variadic:
            shown.append("…")
        elif len(shown) < 4 and parameter.default is not None:
            shown.append(f"{parameter.name}={default_text(parameter)}")
    is_statement = card.kind in ("statement", "technique")
    if card.kind == "user":
        word = name.text
        before = name.source.text[: name.start].rstrip(" \t")
        is_statement = before[-1:] in ("", "\n", ";", "{") and name.source.text[name.end : name.end + 1] != "("
    inside = ", ".join(shown)
    return f"{word} {inside}".strip() if is_statement else f"{word}({inside})"


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
    """A placeholder for a required value: an example, or the name of the parameter."""
    kind = parameter.types[0]
    if kind in ("text", "path"):
        return f'"{parameter.name}"'
    if kind == "quantity" and parameter.units:
        unit = parameter.units[0]
        return "40%" if unit == "%" else "5" if unit == parameter.name else f"5 {unit}"
    return _PLACEHOLDERS.get(kind, parameter.name if parameter.positional else "…")


def has_example(parameter: Parameter) -> bool:
    """Whether the placeholder of a parameter can be used as a value without editing."""
    kind = parameter.types[0]
    return kind in ("text", "path", "quantity") or (kind in _PLACEHOLDERS and kind not in ("function", "data", "model"))


def default_text(parameter: Parameter) -> str:
    """A default as it is written: quantities and choices without quotes."""
    is_bare = isinstance(parameter.default, str) and bool(set(parameter.types) & {"quantity", "choice"})
    written = str(parameter.default).removesuffix(f" {parameter.name}") if is_bare else value_text(parameter.default)
    return written.removesuffix("s") if is_bare and written.startswith("1 ") else written

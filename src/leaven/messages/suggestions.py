"""Suggestions of what was likely meant, as edits where possible, and what is certainly a misspelling."""

import unicodedata
from collections.abc import Sequence

from leaven.catalog import lookup
from leaven.catalog.card import KINDS, Parameter
from leaven.catalog.value_text import quoted, value_text
from leaven.formats.listing import either, in_code
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic
from leaven.language.fixes import Fix, write
from leaven.language.source import Span
from leaven.messages import describe
from leaven.messages.published_weights import by_tag

# How many reports suggest similar names, and out of how many: the search takes long, and nobody reads that far.
MAX_SUGGESTIONS, MAX_CANDIDATES = 50, 5_000
EXAMPLES = {"model": "resnet18", "optimizer": "adamw", "schedule": "cosine", "loss": "cross_entropy"}
_QUOTES, _NO_QUOTES, _LIST = "write it in quotes: ", "write it without quotes: ", "write a list: "


def similar(span: Span, names: Sequence[str], after: str = "") -> Fix | None:
    """Put the first of some similar names in the place of what was written; None without any."""
    if not names:
        return None
    others = either(in_code(names))[len(names[0]) + 2 :]
    return write(span, names[0], "did you mean ", after=f"{others}?{after}")


def search_for(word: str, after: str = "") -> Fix:
    """How to find what a word may stand for."""
    return Fix(f"`leaven catalog search {word}` searches for similar names{after}", is_general=True)


def for_type(value: syntax.Value, parameter: Parameter) -> Fix | str | None:
    """The edit for the commonest mix-ups of types."""
    types, text = set(parameter.types), value.span.text
    match value:
        case syntax.String():
            return _for_text(value, parameter)
        case syntax.Number():
            return _for_number(value, parameter)
        case syntax.Name() | syntax.Binary() if types & {"text", "path"}:
            return write(value.span, quoted(text), _QUOTES)
        case syntax.List(items=items) if items and "transforms" in types:
            return write(value.span, " -> ".join(item.span.text for item in items), "join transforms with `->`: ")
        case syntax.List(items=items) if items and parameter.variadic:
            return write(value.span, ", ".join(item.span.text for item in items), "write them without brackets: ")
        case syntax.Call(name=name) if parameter.items in KINDS and lookup.find(parameter.items, name.path):
            return write(value.span, f"[{text}]", _LIST)
        case syntax.Call(name=name):
            return as_statement(name.path)
    return None


def _for_text(value: syntax.String, parameter: Parameter) -> Fix | str | None:
    from leaven.messages import habits, other_names

    types, text = set(parameter.types), value.value
    if fix := habits.rand_augment(value.span, parameter.name) or by_tag(value.span, text):
        return fix
    if types & {"int", "float"} and _is_number(text):
        return write(value.span, text, _NO_QUOTES)
    if "bool" in types and text.lower() in ("true", "false"):
        return write(value.span, text.lower(), _NO_QUOTES)
    if kind := other_names.kind_of(parameter):
        is_here = bool(lookup.find(kind, text)) or (kind == "data" and (value.span.source.folder / text).is_dir())
        elsewhere = None if is_here else other_names.instead_of(value.span, kind, text)
        if elsewhere is not None or kind == "data":
            return elsewhere or write(value.span, f"folder({quoted(text)})")
    if "function" in types and text.endswith(".py"):
        alias = text.rpartition("/")[2].removesuffix(".py")
        return f'import the file, `import "{text}" as {alias}`, and name the function: `{alias}.my_function`'
    if types & set(KINDS) and text.replace(".", "_").isidentifier():
        return write(value.span, text, _NO_QUOTES)
    return write(value.span, f"[{value.span.text}]", _LIST) if "list" in types else None


def _for_number(value: syntax.Number, parameter: Parameter) -> Fix | str | None:
    types, text = set(parameter.types), value.span.text
    if types & {"text", "path"}:
        return write(value.span, f'"{text}"', _QUOTES)
    if "bool" in types and value.value in (0, 1):
        return write(value.span, "true" if value.value else "false")
    if value.unit is not None:
        return None
    if "int" in types and isinstance(value.value, float):
        return write(value.span, str(max(1, round(value.value))), "write a whole number: ")
    if "list" in types and isinstance(parameter.default, tuple | list):
        return f"write a list, such as `{value_text(parameter.default)}`"
    return write(value.span, f"[{text}]", _LIST) if "list" in types else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# Where each kind of card is written.
_STATEMENTS = {
    "model": "model {}",
    "data": "data {}",
    "optimizer": "optimizer {}",
    "schedule": "schedule {}",
    "transform": "data … {{ train {} }}",
    "loss": "loss {}",
    "metric": "metrics {}",
}


def as_statement(name: str, without: str = "") -> str | None:
    """The kind and the statement of a name; None where it is unknown or of the kind `without`."""
    for kind, statement in _STATEMENTS.items():
        cards = lookup.find(kind, name) if kind != without else ()
        if cards and without == "component" and cards[0].parameter("drop_rate"):
            form, dropout = statement.format(f"{name}(…)"), statement.format(f"{name}(…, drop_rate=0.3)")
            return f"`{name}` is a model and gets a head: `{form}`, or `{dropout}` for dropout before the head"
        if cards:
            return f"`{name}` is {describe.KIND_NOUNS[kind]}, as in `{statement.format(f'{name}(…)')}`"
    technique = without != "technique" and lookup.find("technique", name)
    return f"`{name}` is a technique, a statement of its own" if technique else None


def owner_of(argument: str) -> str:
    """The statement that takes an argument of that name, itself or in its call; empty where none does."""
    return owned_arguments().get(argument, "")


def owned_arguments() -> dict[str, str]:
    """The arguments that are often named alone, each with the statement that takes it, itself or in its call."""
    owners = dict.fromkeys(("pretrained", "weights", "head"), "model")
    for kind, example in (
        ("optimizer", "adamw"),
        ("optimizer", "sgd"),
        ("schedule", "cosine"),
        ("loss", "cross_entropy"),
        ("statement", "train"),
        ("statement", "early_stop"),
    ):
        for card in lookup.find(kind, example)[:1]:
            for parameter in card.parameters:
                owners.setdefault(parameter.name, example if kind == "statement" else kind)
    return owners


def is_misspelling(written: str, meant: str) -> bool:
    """Whether a word is almost certainly the other one with a letter or two wrong."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, written.lower(), meant).ratio() >= 0.8


def note_on_letters(report: Diagnostic) -> str:
    """A note for a name with a letter of another alphabet that looks like the right one."""
    edit = report.fix.edits[0] if report.fix is not None and report.fix.edits else None
    if not report.spots or edit is None or not edit.text.isascii():
        return ""
    written = edit.span.text
    letter = "" if written.isascii() else next((one for one in written if not one.isascii() and one.isalnum()), "")
    if not letter:
        return ""
    plain = edit.text[written.index(letter) : written.index(letter) + 1]
    script = unicodedata.name(letter, "not ASCII").partition(" ")[0].capitalize()
    script = "a full-width letter" if script == "Fullwidth" else script
    latin = f", not the Latin letter `{plain}`" if plain.isalpha() else ""
    return f"`{letter}` is {script} (U+{ord(letter):04X}){latin}"

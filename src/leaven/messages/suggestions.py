"""What was likely meant by a value or an argument that does not fit: the words, and the edit where there is one."""

from collections.abc import Sequence

from leaven.catalog import lookup, own
from leaven.catalog.card import KINDS, Card, Parameter
from leaven.catalog.value_text import quoted, value_text
from leaven.catalog.values import plural_unit
from leaven.language import syntax
from leaven.language.diagnostics import Edit, Fix
from leaven.language.source import Span
from leaven.messages import describe

_EXAMPLES = {"model": "resnet18", "optimizer": "adamw", "schedule": "cosine", "loss": "cross_entropy"}
# How several values of one kind become one.
_JOINTS = {"selector": ("+", "layers"), "transforms": ("->", "steps")}
_NOT_NUMBERS = frozenset(KINDS) | {"score"}
_LONGEST = 80  # characters of a proposal; a longer one is no help


# -- a value of another type


def for_type(value: syntax.Value, parameter: Parameter) -> Fix | str | None:
    """The edit for the commonest mix-ups of types."""
    match value:
        case syntax.String():
            return _for_text(value, parameter)
        case syntax.Number():
            return _for_number(value, parameter)
        case syntax.Name(path=path) if set(parameter.types) & {"text", "path"}:
            return _replace(value.span, quoted(path), "write it in quotes: ")
        case syntax.Binary() if set(parameter.types) & {"text", "path"}:
            return _replace(value.span, quoted(value.span.text), "write it in quotes: ")
        case syntax.List(items=items) if items:
            return _for_list(value, items, parameter)
        case syntax.Call(name=name) if parameter.items in KINDS and lookup.find(parameter.items, name.path):
            return _replace(value.span, f"[{value.span.text}]", "write a list: ")
        case syntax.Call(name=name):
            for kind in ("schedule", "optimizer", "loss"):
                if lookup.find(kind, name.path):
                    return f"`{name.path}` is {describe.KIND_NOUNS[kind]}: write `{kind} {_short(value.span.text)}`"
    return None


def _for_text(value: syntax.String, parameter: Parameter) -> Fix | str | None:
    types, text = set(parameter.types), value.value
    if types & {"int", "float"} and _is_number(text):
        return _replace(value.span, text, "write it without quotes: ")
    if "bool" in types and text.lower() in ("true", "false"):
        return _replace(value.span, text.lower(), "write it without quotes: ")
    if "data" in types:
        table = text.endswith((".csv", ".tsv"))
        return _replace(value.span, f'csv("{text}", image="…", label="…")' if table else f'folder("{text}")')
    if "function" in types and text.endswith(".py"):
        alias = text.rpartition("/")[2].removesuffix(".py")
        return f'import the file, `import "{text}" as {alias}`, and name the function: `{alias}.my_function`'
    if types & set(KINDS) and text.replace(".", "_").isidentifier():
        return _replace(value.span, text, "write it without quotes: ")
    if "list" in types:
        return _replace(value.span, f"[{value.span.text}]", "write a list: ")
    return None


def _for_number(value: syntax.Number, parameter: Parameter) -> Fix | str | None:
    types, text = set(parameter.types), value.span.text
    if types & {"text", "path"}:
        return _replace(value.span, f'"{text}"', "write it in quotes: ")
    if "bool" in types and value.value in (0, 1):
        return _replace(value.span, "true" if value.value else "false")
    if value.unit is not None:
        return None
    if "int" in types and isinstance(value.value, float):
        return _replace(value.span, str(max(1, round(value.value))), "write a whole number: ")
    if "list" in types and isinstance(parameter.default, tuple | list):
        return f"write a list, such as `{value_text(parameter.default)}`"
    return _replace(value.span, f"[{text}]", "write a list: ") if "list" in types else None


def _for_list(value: syntax.List, items: Sequence[syntax.Value], parameter: Parameter) -> Fix | None:
    texts = [item.span.text for item in items]
    if "transforms" in parameter.types:
        return _replace(value.span, " -> ".join(texts), "join steps with `->`: ")
    return _replace(value.span, ", ".join(texts), "write them without brackets: ") if parameter.variadic else None


# -- an argument that the card does not have


def for_surplus(
    card: Card, arguments: Sequence[syntax.Argument], index: int, available: Sequence[Parameter], name: Span
) -> Fix | str:
    """What to do about a value without a name that is one too many."""
    value, span = arguments[index].value, arguments[index].span
    first = available[0] if available else None
    if first is not None and index and (joint := _JOINTS.get(first.types[0])):
        before, (sign, what) = arguments[index - 1], joint
        joined = _short(f"{before.span.text} {sign} {span.text}")
        gap = Span(span.source, before.span.end, span.start)
        return Fix(f"join {what} with `{sign}`: `{joined}`", Edit(gap, f" {sign} "))
    named = {argument.keyword.path for argument in arguments if argument.keyword}
    free = [p for p in available if not p.positional and p.name not in named]
    flag = _flag(value, free)
    if flag:
        return _replace(span, f"{flag}=true")
    if isinstance(value, syntax.Number):
        meant = _counted(value, free)
        number = value_text(value.value) if value.unit and plural_unit(value.unit) == meant else value.span.text
        if meant:
            return _replace(span, f"{meant}={number}")
    return f"the form is `{describe.usage(card, available, name)}`"


def skipped_to(value: syntax.Value, parameter: Parameter, available: Sequence[Parameter]) -> str:
    """The parameter that a number is for, where a card must stand before it: `prune 40%` leaves out the way."""
    if not isinstance(value, syntax.Number) or not parameter.required or not set(parameter.types) <= _NOT_NUMBERS:
        return ""
    return _counted(value, [p for p in available if not p.positional])


def _flag(value: syntax.Value, free: Sequence[Parameter]) -> str:
    """The switch that `resnet18(pretrained)` or `resnet18(true)` means."""
    flags = [parameter.name for parameter in free if parameter.types == ("bool",)]
    if isinstance(value, syntax.Name) and value.path in flags:
        return value.path
    is_true = (isinstance(value, syntax.Literal) and value.value is True) or value.span.text == "True"
    return "pretrained" if is_true and "pretrained" in flags else ""


def _counted(value: syntax.Number, free: Sequence[Parameter]) -> str:
    """The parameter that a number without a name is for: the one of its unit, or the first that takes a number."""
    for parameter in free:
        if value.unit is not None and plural_unit(value.unit) in parameter.units:
            return parameter.name
        fitting = {"float", "quantity"} if isinstance(value.value, float) else {"int", "float", "quantity"}
        if value.unit is None and set(parameter.types) & fitting:
            return parameter.name
    return ""


def for_unknown_argument(
    card: Card, argument: syntax.Argument, arguments: Sequence[syntax.Argument], available: Sequence[Parameter]
) -> Fix | str:
    """What was meant by an argument that the card does not have."""
    assert argument.keyword is not None
    name, names = argument.keyword.path, [parameter.name for parameter in available]
    near = [parameter.name for parameter in available if parameter.target == name] or lookup.nearest(name, names)
    inner = _inside_call(card, argument, arguments)
    word, value = lookup.SYNONYMS.get(name, name), _short(argument.value.span.text)
    owner = owner_of(word)
    if inner is not None:
        return inner
    if near:
        return Fix(describe.did_you_mean(near), Edit(argument.keyword.span, near[0]))
    if card.name == "sweep":
        return Fix(f"write `{name}, {value}`", Edit(argument.span, f"{name}, {argument.value.span.text}"))
    if own.read("statement", f"data.{word}") and card.name != "data" and word in (name, "workers"):
        return f"write it in the block of `data`: `data … {{ {word} {value} }}`"
    if card.kind == "model" and name in ("classes", "num_classes"):
        return "leave it out: the head is fitted to the data's classes"
    if owner and owner not in (card.bare_name, card.kind) and (word == name or owner != "early_stop"):
        return f"`{word}` belongs to {_the(owner)}: {usage(owner, word, value)}"
    if not names:
        return "it takes no arguments"
    return "it takes " + ", ".join(f"`{name}`" for name in names[:10]) + (", …" if len(names) > 10 else "")


def _inside_call(card: Card, argument: syntax.Argument, arguments: Sequence[syntax.Argument]) -> Fix | None:
    """`optimizer adamw, lr=1e-3`: the argument is the call's, not the statement's."""
    first = arguments[0]
    if card.kind != "statement" or first.keyword is not None or not isinstance(first.value, syntax.Name | syntax.Call):
        return None
    kind = card.parameters[0].types[0]
    name = first.value.path if isinstance(first.value, syntax.Name) else first.value.name.path
    found = lookup.find(kind, name) if kind in KINDS else ()
    takes = found and (found[0].parameter(argument.keyword.path) or found[0].open_ended) if argument.keyword else False
    if not takes and not (kind == "model" and owner_of(argument.keyword.path if argument.keyword else "") == "model"):
        return None
    others = first.value.arguments if isinstance(first.value, syntax.Call) else ()
    inside = ", ".join(one.span.text for one in (*others, argument))
    return Fix(f"it belongs to `{name}`: write `{_short(f'{name}({inside})')}`")


def reordered(arguments: Sequence[syntax.Argument]) -> str:
    """The arguments with those that have no name first."""
    ordered = sorted(arguments, key=lambda argument: argument.keyword is not None)
    return _short(", ".join(argument.span.text for argument in ordered[:8]))


# -- a name that belongs elsewhere


def owner_of(name: str) -> str:
    """The statement that takes an argument of that name, itself or in its call; empty where none does."""
    return owned().get(name, "")


def owned() -> dict[str, str]:
    """The arguments that are often named alone, each with the statement that takes it, itself or in its call."""
    found = dict.fromkeys(("pretrained", "weights", "head"), "model")
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
                found.setdefault(parameter.name, example if kind == "statement" else kind)
    return found


def usage(owner: str, name: str, value: str = "…") -> str:
    """How an argument of that statement is written."""
    given = f"{name}={_short(value)}"
    return f"`{owner} {_EXAMPLES[owner]}({given})`" if owner in _EXAMPLES else f"`{owner} {given}`"


def _the(owner: str) -> str:
    return f"the {owner}" if owner in _EXAMPLES else f"`{owner}`"


# -- small things


def _replace(span: Span, text: str, before: str = "write ") -> Fix:
    return Fix(f"{before}`{_short(text)}`", Edit(span, text))


def _short(text: str) -> str:
    """A text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

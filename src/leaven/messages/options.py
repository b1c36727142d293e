"""Options of the command line: how one sets an argument or adds a statement, and reports about those that set none.

A statement at the top applies to the phases that have none of their own. So how an argument is addressed depends on the
recipe: `--set optimizer.lr=…`, or `--set phase.head.optimizer.lr=…`.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence

from leaven.catalog import lookup, own
from leaven.catalog.card import Card, Parameter
from leaven.catalog.habits import word_for
from leaven.catalog.statement_keys import EDITS, BodyStatement, labels_of, phases_with, statement_card
from leaven.catalog.value_text import quoted
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error, warning
from leaven.language.fixes import Fix, write_option
from leaven.language.source import Span, flag_of
from leaven.messages import describe, habits, suggestions

_FLAGS = ("model", "data", "output")  # statements that an option of that name gives


def option_for(owner: str, name: str, value: str, statements: Sequence[BodyStatement]) -> str:
    """The option that sets an argument of that statement in this recipe: `--set train.epochs=3`; one per phase where
    each phase has it."""
    phases, rest = labels_of("phase", statements), f"{name}={value}"
    is_length = owner == "train" and name == "epochs"
    own_phases = phases if is_length else phases_with(owner, statements)
    if phases and len(own_phases) == len(phases):
        return " ".join(setting(("phase", phase), rest if is_length else f"{owner}.{rest}") for phase in own_phases)
    return setting((owner,), rest)


def option_for_argument(place: Span, name: str, value: str, statements: Sequence[BodyStatement]) -> Fix | str | None:
    """How an argument is set whose statement was not named; None where no statement has one of that name."""
    if form := habits.form_of(name, value):
        if not form.argument:
            return write_option(place, with_option(form.as_statement))
        return write_option(place, option_for(form.statement, form.argument, form.value, statements))
    if setting_of_data := option_for_data(word_for(name) or name, value):
        return write_option(place, setting_of_data)
    if in_data := habits.form_in_data(name, value):
        return f"write it in the recipe: `data … {{ {in_data} }}`"
    if remark := habits.remark_on(name):
        return remark
    near = lookup.nearest(name, suggestions.owned_arguments(), limit=1)
    if not near:
        return None
    option = option_for(suggestions.owner_of(near[0]), near[0], value, statements)
    return write_option(place, option, "did you mean ", "?")


def option_for_data(name: str, value: str) -> str | None:
    """The option that sets the value of a statement in the data's block: `--set data.size.pixels=128`."""
    card = own.read("statement", f"data.{name}")
    if card is None or not card.parameters or not card.parameters[0].positional:
        return None
    return setting(("data", name), f"{card.parameters[0].name}={value}")


def setting(key: tuple[str, ...], rest: str) -> str:
    """`--set key.rest`, in the shell's quotes where it needs them; a label is quoted where it is more than a word."""
    name, *labels = key
    path = ".".join([name, *(label if label.isidentifier() else quoted(label) for label in labels)])
    return f"--set {shlex.quote(f'{path}.{rest}')}"


def dropped_weights(model: syntax.Value, before: Span) -> Diagnostic:
    """`--model resnet18` where the recipe has `pretrained=true`."""
    text = model.span.text.removesuffix(")").removesuffix("(")
    written = f"{text}{', ' if '(' in text else '('}pretrained=true)"
    headline = "the recipe's model is pretrained, but the model of `--model` is not"
    fix = write_option(model.span, f"--model {shlex.quote(written)}")
    spots = (model, "starts from scratch"), (before, "applies to the recipe's model only")
    return warning("dropped-weights", headline, *spots, fix=fix)


def without_statement(
    name: syntax.Name,
    value: syntax.Value,
    place: Span,
    statements: Sequence[BodyStatement],
    args: Collection[str],
    is_arg: bool,
) -> Diagnostic:
    """`--set lr=1e-4`, which names no statement, or `--set arg.lr=1e-4`."""
    if is_arg and name.path in args:
        headline = "an `arg` is set by its own option"
    elif is_arg:
        headline = f"the recipe has no `arg {name.path}`"
    elif statement_card(name.path) and name.path not in args:
        headline = f"`{name.path}` is a statement, not an argument"
    else:
        headline = f"`--set {name.path}` does not name a statement"
    fix = _instead_of(place, name.path, value, statements, args)
    return error("unknown-option", headline, (place, "expected `statement.argument=value`"), fix=fix)


def _instead_of(
    place: Span, name: str, value: syntax.Value, statements: Sequence[BodyStatement], args: Collection[str]
) -> Fix | str:
    word, text = word_for(name) or name, value.span.text
    bare = value.value if isinstance(value, syntax.String) else text
    card = None if word in EDITS else statement_card(word)
    if word in args:
        return write_option(place, f"{flag_of(word)} {shlex.quote(bare)}")
    if word in _FLAGS and (word != "output" or isinstance(value, syntax.String)):
        return write_option(place, f"--{word} {shlex.quote(bare if word == 'output' else text)}")
    if card is not None:
        return instead_of_setting(place, card, value)
    return option_for_argument(place, name, text, statements) or "for example, write `--set train.epochs=20`"


# -- statements that a recipe does not have yet


def new_statement(card: Card, given: Mapping[str, str]) -> str:
    """A statement with those arguments and with all that it must have; what it does not take is left out."""
    positional: list[str] = []
    named: list[str] = []
    for parameter in card.parameters:
        if parameter.name in given:
            value = given[parameter.name]
        elif parameter.required or parameter.usual:
            value = describe.placeholder(parameter)
        else:
            continue
        if parameter.positional and len(positional) == card.parameters.index(parameter):
            positional.append(value)
        else:
            named.append(f"{parameter.name}={value}")
    return f"{card.bare_name} {', '.join([*positional, *named])}".strip()


def is_pasteable(card: Card, given: Collection[str]) -> bool:
    """Whether `new_statement` has no placeholder for what only the user knows."""
    return all(describe.has_example(p) for p in card.parameters if p.required and p.name not in given)


def with_option(statement: str) -> str:
    return f"--with {shlex.quote(statement)}"


def instead_of_setting(place: Span, card: Card, value: syntax.Value) -> Fix | str:
    """The fix for `--set name=value` where the name is a statement's."""
    first = card.parameters[0] if card.parameters else None
    if first is None or not first.positional:
        named = next((p.name for p in card.parameters if _may_be(value, p)), "…")
        return f"name the argument: `--set {card.bare_name}.{named}=…`"
    given = {first.name: value.span.text} if _may_be(value, first) else {}
    option = with_option(new_statement(card, given))
    return write_option(place, option) if is_pasteable(card, given) else f"usage: `{option}`"


def _may_be(value: syntax.Value, parameter: Parameter) -> bool:
    """Whether a value may be one of the parameter's, as far as its form tells."""
    types = set(parameter.types)
    match value:
        case syntax.Number():
            return bool(types & {"int", "float", "quantity", "any"})
        case syntax.String():
            return bool(types & {"text", "path", "choice", "selector", "any"})
    return True

"""How a statement is reached by `change`, `drop` and `--set`, and what to say where it is not.

A setting at the top holds in the phases that have no such statement of their own. So the way to an argument depends on
the recipe: `--set optimizer.lr=…`, or `--set phase.head.optimizer.lr=…`.
"""

import shlex
from collections.abc import Collection, Iterable, Sequence

from leaven.catalog import lookup, own
from leaven.catalog.value_text import quoted
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Edit, Fix, Severity, Spot, error
from leaven.messages import describe, new_statements, suggestions
from leaven.messages.spelling import is_misspelling
from leaven.statements.statement_keys import BLOCK_OWNERS, EDITS, Plain, is_edit, key_of, plain, statement_card

_FLAGS = ("model", "data", "output")  # statements that an option of that name gives
_SHOWN = 8  # labels that a report lists
_LONGEST = 60  # characters of the arguments that a report repeats


def labels_of(name: str, statements: Iterable[Plain]) -> list[str]:
    """The labels of all statements of that name."""
    keys = (key_of(statement) for statement in statements)
    return list(dict.fromkeys(key[1] for key in keys if key[0] == name and len(key) > 1))


def phases_with(name: str, statements: Iterable[Plain]) -> list[str]:
    """The phases that have a statement of that name of their own."""
    return [
        key_of(phase)[-1]
        for phase in statements
        if phase.name is not None and phase.name.path == "phase" and phase.block is not None
        if any(s.name is not None and s.name.path == name and not is_edit(s) for s in plain(phase.block.statements))
    ]


def option_for(owner: str, name: str, value: str, statements: Sequence[Plain]) -> str:
    """The option that sets an argument of that statement in this recipe: `--set train.epochs=3`."""
    phases = labels_of("phase", statements)
    if owner == "train" and name == "epochs" and phases:
        return _option(_into_phase(phases), f"epochs={value}")
    own_phases = phases_with(owner, statements) if phases else []
    if own_phases and len(own_phases) == len(phases):
        return _option(_into_phase(own_phases), f"{owner}.{name}={value}")
    return _option(owner, f"{name}={value}")


def option_instead_of(name: str, value: syntax.Value, statements: Sequence[Plain], args: Collection[str]) -> str:
    """What to write in place of `--set name=value`, which names no statement or nothing but one."""
    word, text = lookup.SYNONYMS.get(name, name), value.span.text
    card = None if word in EDITS else statement_card(word)
    if word in args:
        return f"write `--{word.replace('_', '-')} {shlex.quote(_bare(value))}`"
    if word in _FLAGS and (word != "output" or isinstance(value, syntax.String)):
        return f"write `--{word} {shlex.quote(_bare(value) if word == 'output' else text)}`"
    if card is not None:
        return new_statements.in_place_of(card, value)
    inner = own.read("statement", f"data.{word}")
    if inner is not None and inner.parameters and inner.parameters[0].positional:
        return f"write `{option_for(f'data.{word}', inner.parameters[0].name, text, statements)}`"
    return option_for_argument(name, text, statements) or "the form is `--set train.epochs=20`"


def option_for_argument(name: str, value: str, statements: Sequence[Plain]) -> str:
    """How an argument is set whose statement was not named; empty where no statement has one of that name."""
    word = lookup.SYNONYMS.get(name, name)
    if owner := suggestions.owner_of(word):
        return f"write `{option_for(owner, word, value, statements)}`"
    near = lookup.nearest(word, suggestions.owned_arguments(), limit=1)
    return f"did you mean `{option_for(suggestions.owner_of(near[0]), near[0], value, statements)}`?" if near else ""


def _bare(value: syntax.Value) -> str:
    return value.value if isinstance(value, syntax.String) else value.span.text


def _into_phase(labels: Sequence[str]) -> str:
    return f"phase.{_word(labels[0])}"


def _word(label: str) -> str:
    """A label as it stands in a path: in quotes where it is more than a word."""
    return label if label.isidentifier() else quoted(label)


def _option(path: str, setting: str) -> str:
    """`--set path.setting`, in the shell's quotes where it needs them."""
    return f"--set {shlex.quote(f'{path}.{setting}')}"


def is_misspelt(name: str, statements: Iterable[Plain], owner: str) -> bool:
    """Whether one of the statements, whose own name means nothing, must be the one of that name."""
    names = {statement.name.path for statement in statements if statement.name is not None}
    return any(is_misspelling(other, name) for other in names if "." not in other and not statement_card(other, owner))


# -- reports


def says_nothing(edit: syntax.Statement) -> Diagnostic:
    return error(
        "missing-argument",
        f"`{edit.name.path}` does not say which statement it means",
        Spot(edit.name.span, "expected the name of a statement"),
        fix="the forms are `change optimizer, lr=1e-4` and `drop mixup`",
    )


def not_there(
    edit: syntax.Statement, target: syntax.Name, label: str | None, statements: Sequence[Plain], owner: str
) -> Diagnostic:
    """Nothing of that name, or with that label, stands in the recipe."""
    wanted = f'`{target.path} "{label}"`' if label else f"`{target.path}`"
    place = edit.arguments[1].span if label else target.span
    return error(
        "nothing-to-change",
        f"there is no {wanted} to {edit.name.path}",
        Spot(place, "not in the recipe"),
        fix=_label_fix(edit, target, label, statements) if label else _name_fix(edit, target, statements, owner),
    )


def one_of_several(edit: syntax.Statement, target: syntax.Name, labels: Sequence[str]) -> Diagnostic:
    """`change phase, epochs=3` where there are several phases."""
    listed = ", ".join(f'"{label}"' for label in labels[:_SHOWN]) + (", …" if len(labels) > _SHOWN else "")
    return error(
        "missing-argument",
        f"this does not say which of the {len(labels)} `{target.path}` statements it means",
        Spot(target.span, f"one of {listed}"),
        fix=f"write `{_inside(edit, (target.path, labels[0]))}`",
    )


def out_of_reach(edit: syntax.Statement, target: syntax.Name, phases: Sequence[str], is_total: bool) -> Diagnostic:
    """Phases with a statement of their own, which a `change` at the top leaves as it is."""
    listed = describe.both([f'"{phase}"' for phase in phases[:_SHOWN]]) + (", …" if len(phases) > _SHOWN else "")
    way = _inside(edit, ("phase", phases[0]), target)
    if is_total:
        return error(
            "nothing-to-change",
            f"every phase has its own `{target.path}`, and this changes none of them",
            Spot(target.span, "used by no phase"),
            fix=f"write `{way}`",
        )
    subject = f"phase {listed} has its" if len(phases) == 1 else f"phases {listed} have their"
    return error(
        "changed-in-part",
        f"{subject} own `{target.path}`, which this does not change",
        Spot(target.span, "not changed there"),
        fix=f"to change it there too, write `{way}`",
        severity=Severity.WARNING,
    )


def _label_fix(
    edit: syntax.Statement, target: syntax.Name, label: str, statements: Sequence[Plain]
) -> Fix | str | None:
    """The statement of that name whose label was likely meant, or all there are."""
    place, labels = edit.arguments[1].span, labels_of(target.path, statements)
    near = lookup.nearest(label, labels, limit=1)
    if near:
        return Fix(f'did you mean "{near[0]}"?', Edit(place, f'"{near[0]}"'))
    meant = edit.arguments[1].value
    if labels and isinstance(meant, syntax.Name) and statement_card(label):
        return f"say which {target.path}: `{_inside(edit, (target.path, labels[0]), meant)}`"
    listed = ", ".join(f'"{one}"' for one in labels[:_SHOWN])
    return f"choose one of {listed}" if listed else None


def _name_fix(edit: syntax.Statement, target: syntax.Name, statements: Sequence[Plain], owner: str) -> Fix | str:
    """The statement that was likely meant, or how to add what is not there."""
    labelled = next((key for s in statements if len(key := key_of(s)) > 1 and key[1] == target.path), None)
    if labelled is not None:
        return f"write `{_inside(edit, labelled)}`"
    phases = phases_with(target.path, statements)
    if phases:
        return f"it stands in a phase: write `{_inside(edit, ('phase', phases[0]), target)}`"
    present = {s.name.path for s in statements if s.name is not None}
    near = lookup.nearest(target.path, [*present, *_unwritten(owner)] if edit.name.path == "change" else present)
    if near:
        return Fix(f"did you mean `{near[0]}`?", Edit(target.span, near[0]))
    if edit.name.path == "drop":
        return "remove the line"
    return _addition(edit, target, statements, owner)


def _addition(edit: syntax.Statement, target: syntax.Name, statements: Sequence[Plain], owner: str) -> str:
    """How to add the statement that an edit would change, with what else it needs."""
    card = statement_card(target.path, owner)
    given = {one.keyword.path: one.value.span.text for one in edit.arguments if one.keyword}
    if card is None:
        name, value = next(iter(given.items()), ("", ""))
        way = option_for_argument(name, value, statements) if _is_option(edit) and name else ""
        return way or "no statement has that name; `leaven catalog search` lists what there is"
    word = "to add it, write" if new_statements.is_ready(card, given) else "it is added in the form"
    statement = new_statements.added(card, given)
    return f"{word} `{new_statements.with_option(statement) if _is_option(edit) else statement}`"


def _unwritten(owner: str) -> list[str]:
    """The statements that can be changed although nobody wrote them."""
    if owner in BLOCK_OWNERS:
        return [name.partition(".")[2] for name in own.names("statement") if name.startswith(f"{owner}.")]
    cards = (own.read("statement", name) for name in own.names("statement") if "." not in name)
    return [card.name for card in cards if card is not None and card.facts.get("missing")]


def _inside(edit: syntax.Statement, key: tuple[str, ...], target: syntax.Name | None = None) -> str:
    """An edit as it would be written for the statement with that key, or for one in its block."""
    name, label = key
    inner = f"{target.path}." if target is not None else ""
    if _is_option(edit):
        return _option(f"{name}.{_word(label)}", f"{inner}{_rest(edit)}")
    if target is None:
        return ", ".join(part for part in (f"{edit.name.path} {name}", quoted(label), _arguments(edit)) if part)
    inner = ", ".join(part for part in (f"{edit.name.path} {target.path}", _arguments(edit)) if part)
    return f"change {name}, {quoted(label)} {{ {inner} }}"


def _is_option(edit: syntax.Statement) -> bool:
    """Whether an edit was given as a setting: `--set optimizer.lr=1e-4`."""
    return edit.span.source.name == "--set"


def _rest(edit: syntax.Statement) -> str:
    """What stands in a setting behind the statement that it names."""
    named = [argument for argument in edit.arguments if argument.keyword is None]
    return edit.span.source.text[named[-1].span.end :].strip().lstrip(".")


def _arguments(edit: syntax.Statement) -> str:
    """What an edit changes, as it was written; something long is left out."""
    text = ", ".join(f"{one.keyword.path}={one.value.span.text}" for one in edit.arguments if one.keyword)
    return text if len(text) < _LONGEST else "…"

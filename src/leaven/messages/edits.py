"""Reports about `change`, `drop` and `--set`: which statement they mean."""

from collections.abc import Sequence

from leaven.catalog import lookup, own
from leaven.catalog.statement_keys import (
    BLOCK_OWNERS,
    BodyStatement,
    block_names,
    key_of,
    labels_of,
    phases_with,
    statement_card,
)
from leaven.catalog.value_text import quoted
from leaven.formats.listing import both, some
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Severity, error
from leaven.language.fixes import Fix, write, write_option
from leaven.messages import options
from leaven.messages.suggestions import similar

_SHOWN = 8  # labels that a report lists
_LONGEST = 60  # characters of the arguments that a report repeats


def without_target(edit: syntax.Statement) -> Diagnostic:
    headline = f"`{edit.name.path}` does not name a statement"
    fix = "for example, write `change optimizer, lr=1e-4` or `drop mixup`"
    return error("missing-argument", headline, (edit.name, "expected the name of a statement"), fix=fix)


def no_such_statement(
    edit: syntax.Statement, target: syntax.Name, label: str | None, statements: Sequence[BodyStatement], owner: str
) -> Diagnostic:
    """The recipe has nothing of that name, or with that label."""
    wanted = f'`{target.path} "{label}"`' if label else f"`{target.path}`"
    fix = _other_label(edit, target, label, statements) if label else _other_name(edit, target, statements, owner)
    headline = f"there is no {wanted} to {edit.name.path}"
    place = edit.arguments[1].span if label else target.span
    return error("nothing-to-change", headline, (place, "not in the recipe"), fix=fix)


def one_of_several(edit: syntax.Statement, target: syntax.Name, labels: Sequence[str]) -> Diagnostic:
    """`change phase, epochs=3` where there are several phases."""
    headline = f"the recipe has {len(labels)} `{target.path}` statements, but this does not say which one"
    fix = _rewritten(edit, (target.path, labels[0]))
    return error("missing-argument", headline, (target, f"one of {_listed(labels)}"), fix=fix)


def changes_nothing(edit: syntax.Statement, target: syntax.Name, phases: Sequence[str]) -> Diagnostic:
    """A `change` at the top where every phase has a statement of its own."""
    headline = f"every phase has its own `{target.path}`, so this changes nothing"
    fix = _rewritten(edit, ("phase", phases[0]), target)
    return error("nothing-to-change", headline, (target, "used by no phase"), fix=fix)


def changes_in_part(edit: syntax.Statement, target: syntax.Name, phases: Sequence[str]) -> Diagnostic:
    """A `change` at the top where some phases have a statement of their own."""
    listed = both([f'"{phase}"' for phase in phases[:_SHOWN]]) + ", …" * (len(phases) > _SHOWN)
    subject = f"phase {listed} has its" if len(phases) == 1 else f"phases {listed} have their"
    headline = f"{subject} own `{target.path}`, which this does not change"
    fix = f"to change it there too, add `{_edit_of(edit, ('phase', phases[0]), target)}`"
    return error("changed-in-part", headline, (target, "not changed there"), fix=fix, severity=Severity.WARNING)


def _other_label(
    edit: syntax.Statement, target: syntax.Name, label: str, statements: Sequence[BodyStatement]
) -> Fix | str | None:
    """The statement of that name whose label was likely meant, or all there are."""
    labels = labels_of(target.path, statements)
    near = [f'"{word}"' for word in lookup.nearest(label, labels, limit=1)]
    if fix := similar(edit.arguments[1].span, near):
        return fix
    meant = edit.arguments[1].value
    if labels and isinstance(meant, syntax.Name) and statement_card(label):
        return _rewritten(edit, (target.path, labels[0]), meant, f"name the {target.path}: ")
    return f"choose one of {_listed(labels)}" if labels else None


def _other_name(
    edit: syntax.Statement, target: syntax.Name, statements: Sequence[BodyStatement], owner: str
) -> Fix | str:
    """The statement that was likely meant, or how to add what is not there."""
    labelled = next((key for s in statements if len(key := key_of(s)) > 1 and key[1] == target.path), None)
    if labelled is not None:
        return _rewritten(edit, labelled)
    phases = phases_with(target.path, statements)
    if phases:
        return _rewritten(edit, ("phase", phases[0]), target, "it is in a phase: write ")
    names = [s.name.path for s in statements if s.name is not None]
    if edit.name.path == "change":  # some can be changed although nobody wrote them
        defaults = (card.name for card in own.cards("statement") if "." not in card.name and card.statement.default)
        names += block_names(owner) if owner in BLOCK_OWNERS else defaults
    near = lookup.nearest(target.path, names)
    if fix := similar(target.span, near[:1]):
        return fix
    return "remove the line" if edit.name.path == "drop" else _addition(edit, target, statements, owner)


def _addition(
    edit: syntax.Statement, target: syntax.Name, statements: Sequence[BodyStatement], owner: str
) -> Fix | str:
    """How to add the statement that an edit would change, with what else it needs."""
    card = statement_card(target.path, owner)
    arguments = {a.keyword.path: a.value.span.text for a in edit.arguments if a.keyword}
    if card is None:
        name, value = next(iter(arguments.items()), ("", ""))
        option = options.option_for_argument(edit.span, name, value, statements) if _is_option(edit) and name else None
        return option or "no statement has that name; `leaven catalog search` lists all names"
    statement = options.new_statement(card, arguments)
    written = options.with_option(statement) if _is_option(edit) else statement
    if not options.is_pasteable(card, arguments) or edit.block is not None:
        return f"to add it, the usage is `{written}`"
    add = write_option if _is_option(edit) else write
    return add(edit.span, written, "to add it, write ")


def _rewritten(
    edit: syntax.Statement, key: tuple[str, ...], target: syntax.Name | None = None, before: str = "write "
) -> Fix:
    """An edit with what it must name to mean the statement with that key, or one in its block."""
    text = _edit_of(edit, key, target)
    if _is_option(edit):
        return write_option(edit.span, text, before)
    return write(edit.span, text, before) if "…" not in text and edit.block is None else Fix(f"usage: `{text}`")


def _edit_of(edit: syntax.Statement, key: tuple[str, ...], target: syntax.Name | None = None) -> str:
    """An edit as it would be written for the statement with that key, or for one in its block."""
    name, label = key
    if _is_option(edit):
        return options.setting(key, f"{target.path}.{_rest(edit)}" if target is not None else _rest(edit))
    text = ", ".join(f"{a.keyword.path}={a.value.span.text}" for a in edit.arguments if a.keyword)
    arguments = [text if len(text) < _LONGEST else "…"] * bool(text)
    if target is None:
        return ", ".join([f"{edit.name.path} {name}", quoted(label), *arguments])
    return f"change {name}, {quoted(label)} {{ {', '.join([f'{edit.name.path} {target.path}', *arguments])} }}"


def _is_option(edit: syntax.Statement) -> bool:
    """Whether an edit was given as a setting: `--set optimizer.lr=1e-4`."""
    return edit.span.source.name == "--set"


def _rest(edit: syntax.Statement) -> str:
    """The rest of a setting, after the statement that it names."""
    named = [argument for argument in edit.arguments if argument.keyword is None]
    return edit.span.source.text[named[-1].span.end :].strip().lstrip(".")


def _listed(labels: Sequence[str]) -> str:
    return some([f'"{label}"' for label in labels], _SHOWN)

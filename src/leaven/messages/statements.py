"""Reports about statements: unknown, misplaced, repeated, with an unexpected block; recipes that extend others."""

from collections.abc import Sequence
from dataclasses import replace

from leaven.catalog import lookup, own
from leaven.catalog.habits import word_for
from leaven.catalog.statement_keys import BLOCK_OWNERS, block_names, key_of
from leaven.catalog.value_text import quoted
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Fix, write, write_option
from leaven.language.foreign_syntax import PYTHON
from leaven.language.source import Source, Span
from leaven.messages import describe, habits, places
from leaven.messages.suggestions import is_misspelling, similar

CONTEXTS = {
    "recipe": "at the top level",
    "phase": "in a phase",
    "data": "in `data`",
    "optimizer": "in `optimizer`",
}
_TRANSFORMS = ("augment", "augmentation", "augmentations", "transform", "transforms")


def unknown(statement: syntax.Statement, context: str, near: Sequence[str]) -> Diagnostic:
    """No statement has that name; `near` are similar names."""
    name = statement.name
    alias, dot, _ = name.path.partition(".")
    headline = f"unknown statement `{name.path}`"
    notes = [f"nothing is imported as `{alias}`"] if dot else []
    fix = _instead_of(statement, context, near)
    return error("unknown-statement", headline, (name, f"not a statement {CONTEXTS[context]}"), notes=notes, fix=fix)


def _instead_of(statement: syntax.Statement, context: str, near: Sequence[str]) -> Fix | str:
    """The likeliest fix: another word for a statement, an argument of one, or a similar spelling."""
    word = statement.name.path.rpartition(".")[2].lower()  # `learn.fine_tune(3)`
    meant = word_for(word) or ""
    if "." in statement.name.path and (own.read("statement", meant) or own.read("technique", meant)):
        near = [meant]
    elif meant not in near and (habits.is_known(statement.name.path) or habits.is_known(word)):
        near = ()
    guess = similar(statement.name.span, near)
    if guess is None:
        return _as_argument(statement, context)
    return replace(guess, otherwise=f"in a recipe it is `{meant}`") if meant in near else guess


def misplaced(statement: syntax.Statement, context: str) -> Diagnostic | None:
    """A word that is known, but not as a statement in this context; None where it is not known at all."""
    reason, fix = _elsewhere(statement, context)
    headline = f"`{statement.name.path}` can't be used {CONTEXTS[context]}"
    return error("misplaced-statement", headline, (statement.name, reason), fix=fix) if fix else None


def definition_in_block(statement: syntax.AnyStatement) -> Diagnostic:
    """`let`, `arg`, `import` or `extends` in a block."""
    headline = f"`{statement.span.text.split()[0]}` can't be used in a block"
    fix = "move this line out of the block"
    return error("misplaced-statement", headline, (statement, "belongs at the top level"), fix=fix)


def repeated(statement: syntax.Statement, first: Span) -> Diagnostic:
    name, *labels = key_of(statement)
    shown = " ".join([name, *map(quoted, labels)])
    fix = "give one of them another name" if labels else "remove one of them"
    return places.repeated("repeated-statement", f"`{shown}` is given twice", statement.name.span, first, fix)


def unexpected_block(statement: syntax.Statement, block: syntax.Block, takes_transforms: bool) -> Diagnostic:
    fix = "write its statements on lines of their own" if block.statements else "remove it"
    if takes_transforms:
        calls = [_as_call(one) for one in block.statements[:4] if isinstance(one, syntax.Statement)]
        fix = f"join transforms with `->`: `{statement.name.path} {' -> '.join(calls) or 'resize(256)'}`"
    return error("unexpected-block", f"`{statement.name.path}` takes no block", (block, "unexpected block"), fix=fix)


def repeated_log(name: str, again: Span, first: Span) -> Diagnostic:
    return places.repeated("repeated-statement", f"`{name}` is logged to twice", again, first, "remove one of them")


def epochs_and_phases(epochs: Span, phase: Span, option: str) -> Diagnostic:
    """`option` is what to write for epochs that were given as an option."""
    headline = "both `train` and the phases set `epochs`"
    fix = write_option(epochs, option) if option else "set `epochs` in each phase only"
    spots = (epochs, "remove this"), (phase, "each phase has its own number")
    return error("epochs-and-phases", headline, *spots, fix=fix)


def phase_without_epochs(name: Span) -> Diagnostic:
    headline = "`phase` needs `epochs`"
    return error("missing-argument", headline, (name, "`epochs` is missing"), fix='usage: `phase "name", epochs=5`')


def empty_recipe(source: Source) -> Diagnostic:
    headline = f"`{source.name}` has no statements"
    fix = "`leaven new` writes a first recipe; three lines are enough: `model …`, `data …`, `train …`"
    return error("empty-recipe", headline, (source.span(0, 0), "a recipe has a `model` and `data`"), fix=fix)


def missing(name: str, example: str, source: Source) -> Diagnostic:
    """A statement that every recipe needs."""
    end = len(source.text.rstrip())
    headline = f"the recipe has no `{name}`"
    fix = f"add a line such as `{example}`"
    return error("missing-statement", headline, (source.span(end, end), f"`{name} …` is missing"), fix=fix)


def missing_library(name: str, reason: str) -> Diagnostic:
    fix = f'`python -c "import {name}"` shows the whole error; `pip install --force-reinstall {name}` often fixes it'
    return error("missing-library", f"{name} can't be used: {reason}", fix=fix)


def _elsewhere(statement: syntax.Statement, context: str) -> tuple[str, Fix | str]:
    """A label and a fix for a word that is known elsewhere; empty where it is not known."""
    path = statement.name.path
    if own.read("statement", path) or own.read("technique", path):
        if context == "phase":
            return "applies to the whole recipe", f"move `{path}` out of the phase"
        if context in BLOCK_OWNERS:
            return "belongs outside the block", f"move `{path}` out of the block"
    for owner in BLOCK_OWNERS:
        if own.read("statement", f"{owner}.{path}") and owner != context:
            return f"belongs to `{owner}`", f"write it in the block of `{owner}`: `{owner} … {{ {path} … }}`"
    if path in _TRANSFORMS and context != "data":
        inside = " -> ".join(argument.span.text for argument in statement.arguments) or "…"
        return "belongs to `data`", f"write the transforms in the block of `data`: `data … {{ train {inside} }}`"
    call = _as_call(statement)
    if "." not in path and lookup.find("transform", path):
        if context == "data":
            joined = f"join it to those of `train` or `eval`: `-> {call}`"
            return "a transform", write(statement.span, f"train {call}", after=f" or `eval {call}`", otherwise=joined)
        return "a transform", f"write it in the block of `data`: `data … {{ train {call} }}`"
    for kind in ("optimizer", "schedule", "loss", "model", "data"):
        if context in ("recipe", "phase") and lookup.find(kind, path):
            if "…" in call or statement.block is not None:
                return describe.KIND_NOUNS[kind], f"usage: `{kind} {call}`"
            return describe.KIND_NOUNS[kind], write(statement.span, f"{kind} {call}")
    return "", ""


def _as_argument(statement: syntax.Statement, context: str) -> Fix | str:
    """Where to write what is an argument of another statement: `epochs 10`."""
    name = statement.name.path
    if not habits.is_known(name):
        name = name.rpartition(".")[2]
    word = word_for(name) or name
    value = statement.arguments[0].span.text if len(statement.arguments) == 1 else "…"
    if context == "phase" and word == "epochs":
        return f"write it in the line of the phase: `phase …, epochs={value}`"
    if context == "optimizer":
        return f"write `group {statement.name.path}, lr=…` for layers with settings of their own"
    form = habits.form_of(name, value if statement.arguments else "true")
    if form and context == "recipe" and statement.block is None and "…" not in form.value:
        advice = f"`{form.argument}` is an argument: `{form.as_part}`" if form.argument else f"it is `{form.as_part}`"
        words = f"`{form.argument}` is an argument: write " if form.argument else "write "
        return write(statement.span, form.as_statement, words, otherwise=advice)
    if form:
        outside = " outside the block" if context == "data" else ""
        return f"`{form.argument or form.statement}` is set by `{form.as_statement}`{outside}"
    in_data = habits.form_in_data(name, value)
    if in_data and context == "data":
        return write(statement.span, in_data) if "…" not in in_data else f"in a recipe it is `{in_data}`"
    if in_data:
        return f"write it in the block of `data`: `data … {{ {in_data} }}`"
    if remark := habits.remark_on(name, context):
        return remark
    if word in PYTHON:
        return f"a recipe has no `{word}`; `arg` defines what can be set when you run it"
    if context == "data":
        if fix := _misspelt_transform(statement):
            return fix
        return "the block takes " + ", ".join(f"`{name}`" for name in block_names("data"))
    lists = "`leaven catalog search` lists all names; to write a technique, see `leaven explain custom-components`"
    return Fix(lists, is_general=True)


def _misspelt_transform(statement: syntax.Statement) -> Fix | None:
    """`resiz(64)` in the block of `data`."""
    path = statement.name.path
    for near in lookup.nearest(path, lookup.names("transform"), limit=1):
        if is_misspelling(path, near):
            call = _as_call(statement, near)
            return write(statement.span, f"train {call}", "did you mean ", after=f" or `eval {call}`?")
    return None


def _as_call(statement: syntax.Statement, name: str = "") -> str:
    """A statement as the call that it should have been; long arguments are left out."""
    inside = ", ".join(argument.span.text for argument in statement.arguments[:5])
    is_short = len(inside) < 50 and "\n" not in inside and len(statement.arguments) <= 5
    return f"{name or statement.name.path}({inside if is_short else '…'})"


def circular_extends(target: syntax.String, chain: Sequence[str]) -> Diagnostic:
    headline = "the recipe extends itself"
    notes = ["the chain is " + " -> ".join(chain)]
    fix = "remove one of the `extends`"
    return error("circular-extends", headline, (target, "leads back to this recipe"), notes=notes, fix=fix)


def deep_extends(target: syntax.String, most: int) -> Diagnostic:
    headline = f"more than {most} recipes extend each other"
    fix = "put what they share into fewer recipes"
    return error("too-deep", headline, (target, "the limit is reached here"), fix=fix)

"""The checker: reads a recipe, applies every rule, and returns the recipe only if it has no errors."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace

from leaven.binding import names
from leaven.catalog.model_survey import only_cached
from leaven.language.diagnostics import Diagnostic, has_errors, in_order
from leaven.language.record import Record
from leaven.language.source import Source
from leaven.recipe.reader import Draft, Foundation, open_reader
from leaven.recipe.recipe import Recipe
from leaven.recipe.relative_paths import relative_to_recipe
from leaven.rules import adapters, freezing, inputs, pruning, sharding, solving, teachers, techniques, training
from leaven.statements.options import Options

FAMILIES = (inputs, training, solving, techniques, teachers, freezing, adapters, pruning, sharding)


class Checked(Record):
    """A recipe, or None where there are errors, and all diagnostics."""

    recipe: Recipe | None
    diagnostics: tuple[Diagnostic, ...]
    sources: tuple[Source, ...] = ()
    foundation: Foundation = field(default_factory=Foundation)  # as far as it could be read


def check(
    source: Source, given: Options | None = None, *, run_code: bool = False, requires_args: bool = False
) -> Checked:
    """The recipe in a source, checked as far as possible without running the user's code, unless told to."""
    given = given or Options()
    with _without_garbage_collection():
        checked = check_once(source, given, run_code, requires_args)
        if not any(report.fix is not None and report.fix.edits for report in checked.diagnostics):
            return checked
        from leaven.rules.tried_fixes import with_tried_fixes

        def check_again(source: Source, given: Options) -> tuple[Diagnostic, ...]:
            with only_cached():
                return check_once(source, given, run_code, requires_args).diagnostics

        return replace(checked, diagnostics=with_tried_fixes(checked.diagnostics, source, given, check_again))


def check_once(source: Source, given: Options, run_code: bool = False, requires_args: bool = False) -> Checked:
    """The checked recipe in a source, with fixes that were not tried."""
    reader = open_reader(source, given, run_code, requires_args)
    draft, recipe = reader.read()
    diagnostics = [*reader.scope.diagnostics, *(apply_rules(draft) if draft is not None else ())]
    sources = tuple(reader.assembled.sources)
    if recipe is None or has_errors(diagnostics):
        return Checked(None, in_order(diagnostics), sources, reader.foundation)
    if given != Options() or len(sources) > 1:
        recipe = relative_to_recipe(recipe, source)
    if given == Options(given.args):  # other options may have replaced what uses a name
        diagnostics += names.unused(reader.scope, reader.assembled, source)
    return Checked(recipe, in_order(diagnostics), sources, reader.foundation)


def apply_rules(draft: Draft) -> Iterator[Diagnostic]:
    """Everything that is wrong with a recipe as a whole; what holds for several phases is reported once."""
    reported = set()
    for family in FAMILIES:
        for diagnostic in family.check(draft):
            key = (diagnostic.id, diagnostic.headline, diagnostic.spots[:1])
            if key not in reported:
                reported.add(key)
                yield diagnostic


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A check makes no reference cycles, and looking for them grows faster than the recipe."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

"""From the text of a recipe to its plan, or to the reports that say why not."""

from dataclasses import dataclass

from leaven.language.diagnostics import Diagnostic, error, has_errors
from leaven.language.source import Source
from leaven.plan.plan import Plan
from leaven.planning.make import NotBuilt, make_plan
from leaven.planning.passes import improve
from leaven.recipe.reader import Foundation
from leaven.recipe.recipe import Recipe
from leaven.rules.checker import check
from leaven.statements.options import Options


@dataclass(frozen=True, slots=True)
class Compiled:
    """A recipe and its plan, None where there are errors, and everything there is to say about them."""

    recipe: Recipe | None
    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...]
    foundation: Foundation  # as far as it could be read


def compile_source(
    source: Source, options: Options | None = None, *, requires_args: bool = False, run_code: bool = True
) -> Compiled:
    """The plan of a recipe.

    A model of the user's own is built once, in a process of its own: which layers it has only running it can tell.
    Without `run_code` it is not.
    """
    checked = check(source, options, run_code=run_code, requires_args=requires_args)
    if checked.recipe is None:
        return Compiled(None, None, checked.diagnostics, checked.foundation)
    plan = make_plan(checked.recipe)
    if isinstance(plan, Plan):
        return Compiled(checked.recipe, improve(plan), checked.diagnostics, checked.foundation)
    known = [report for report in checked.diagnostics if report.id != "not-built"]  # a note, which becomes an error
    found = (*known, *(not_built(one) for one in plan))
    assert has_errors(found)
    return Compiled(checked.recipe, None, found, checked.foundation)


def not_built(missing: NotBuilt) -> Diagnostic:
    """The report on a part of the language that can't be run yet."""
    return error("not-built", f"this version can't run {missing.what} yet", (missing.origin, ""), fix=missing.fix)

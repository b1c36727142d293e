"""From a recipe on the command line to its plan, or to the reports that say why not."""

import sys
from dataclasses import dataclass

from leaven.catalog.layers import Layers
from leaven.cli.recipes import MISTAKE_IN_RECIPE, exit_code, open_source, print_reports
from leaven.language.diagnostics import Diagnostic, Severity, error
from leaven.language.parser import parse
from leaven.language.source import Source
from leaven.plan.make import NotBuilt, make_plan
from leaven.plan.plan import Plan
from leaven.recipe.checker import check
from leaven.recipe.options import Options
from leaven.recipe.recipe import Written


@dataclass(frozen=True, slots=True)
class Compiled:
    """A recipe's text, and what is to be done."""

    source: Source
    plan: Plan
    layers: Layers | None


def compile_or_exit(word: str, options: Options, *, requires_args: bool = False) -> Compiled:
    """The plan of a recipe; where there are mistakes they are printed and the command ends.

    A model of the user's own is built once, in a process of its own: which layers it has only running it can tell.
    """
    source = open_source(word)
    if isinstance(source, Diagnostic):
        print_reports([source], err=True)
        sys.exit(MISTAKE_IN_RECIPE)
    checked = check(source, options, run_code=True, requires_args=requires_args)
    print_reports([d for d in checked.diagnostics if d.severity is not Severity.NOTE], err=True)
    if checked.recipe is None:
        sys.exit(exit_code(checked.diagnostics))
    plan = make_plan(checked.recipe, checked.layers, summary_of(source))
    if not isinstance(plan, Plan):
        print_reports([_not_built(one) for one in plan], err=True)
        sys.exit(MISTAKE_IN_RECIPE)
    return Compiled(source, plan, checked.layers)


def summary_of(source: Source) -> str:
    """What a recipe says of itself: the comment that it begins with."""
    tree = parse(source).tree
    first = tree.statements[0].span.start if tree.statements else len(source.text)
    lines: list[str] = []
    for number, comment in enumerate(tree.comments, tree.comments[0].line if tree.comments else 0):
        if comment.start > first or comment.line != number:
            break
        lines.append(comment.text.lstrip("#").strip())
    return " ".join(lines)


def _not_built(missing: NotBuilt) -> Diagnostic:
    spots = [missing.origin.span] if isinstance(missing.origin, Written) else []
    return error(
        "not-built",
        f"this version can't run {missing.what} yet",
        *spots,
        fix="`leaven check` and `leaven show` know it; to run the recipe, remove it",
    )

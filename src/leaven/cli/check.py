"""`leaven check`: the reports on each recipe, and a summary line."""

import sys
from collections.abc import Sequence

import click

from leaven.catalog.values import Invocation, Quantity
from leaven.cli.exit_codes import RECIPE_ERROR
from leaven.cli.printing import echo, echo_json
from leaven.cli.recipe_command import RecipeCommand, exit_code, open_source, print_reports
from leaven.language import report
from leaven.language.diagnostics import Severity
from leaven.language.source import Source
from leaven.recipe.recipe import Recipe
from leaven.rules.checker import Checked, check
from leaven.statements.options import Options
from leaven.terminal.visible import visible


@click.command("check", cls=RecipeCommand, takes_several=True)
@click.option("--json", "as_json", is_flag=True, help="Print the reports as JSON.")
@click.option("--concise", is_flag=True, help="Print one line per report.")
@click.option(
    "--run-code", is_flag=True, help="Also import your Python files, to check what their source alone does not tell."
)
def check_recipes(recipes: Sequence[str], options: Options, as_json: bool, concise: bool, run_code: bool) -> None:
    """Find the errors in a recipe, without running it.

    Options of the recipe (each `arg` is one: --lr 1e-4) are checked, too. Exit code 1 means that the recipe has
    errors, 2 that only the command line has.
    """
    worst = 0
    answers = []
    for word in recipes:
        source = open_source(word)
        checked = check(source, options, run_code=run_code) if isinstance(source, Source) else Checked(None, (source,))
        worst = max(worst, exit_code(checked.diagnostics) if worst != RECIPE_ERROR else worst)
        if as_json:
            reports = [report.to_json(diagnostic) for diagnostic in checked.diagnostics]
            answers.append({"recipe": word, "ok": checked.recipe is not None, "diagnostics": reports})
            continue
        print_reports(checked.diagnostics, concise=concise)
        if not concise or checked.recipe is not None:
            verdict = report.summary(d for d in checked.diagnostics if d.severity is not Severity.NOTE)
            about = f"; {_in_a_line(checked.recipe)}" if checked.recipe is not None else ""
            echo(f"{'<stdin>' if word == '-' else visible(word)}: {verdict}{about}")
    if as_json:
        echo_json(answers[0] if len(answers) == 1 else answers)
    sys.exit(worst)


def _in_a_line(recipe: Recipe) -> str:
    """`resnet18 on folder, 2 phases, 30 epochs`."""
    source = recipe.model.source
    model = source.card.bare_name if isinstance(source, Invocation) else f"a model of {len(source)} components"
    classes = f" ({recipe.data.task.counted(recipe.data.outputs)})" if recipe.data.outputs else ""
    epochs = [phase.epochs.value for phase in recipe.phases]
    known = [quantity.amount for quantity in epochs if isinstance(quantity, Quantity)]
    phases = f"{len(recipe.phases)} phases, " if len(recipe.phases) > 1 else ""
    count = f"{sum(known)} epoch{'s' * (sum(known) != 1)}"
    length = f"{phases}{count}" if len(known) == len(epochs) else f"{phases}epochs as given"
    return f"{model} on {recipe.data.source.card.bare_name}{classes}, {length}"

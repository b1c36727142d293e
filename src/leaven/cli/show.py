"""`leaven show`: a recipe with all defaults filled in."""

import sys

import click

from leaven.cli.printing import echo_file, echo_json, echo_painted
from leaven.cli.recipe_command import RecipeCommand, report_and_exit
from leaven.language.highlight import highlight
from leaven.recipe import show
from leaven.recipe.plain_data import to_json
from leaven.statements.options import Options
from leaven.terminal.colors import painter, wants_color
from leaven.terminal.visible import visible_lines
from leaven.terminal.width import width_of


@click.command("show", cls=RecipeCommand)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show_recipe(recipes: list[str], options: Options, as_json: bool) -> None:
    """Print a recipe with all defaults filled in.

    Comments say where each value comes from.
    """
    recipe = report_and_exit(recipes[0], options)
    if as_json:
        echo_json(to_json(recipe))
        return
    color = wants_color(sys.stdout)
    text = show.to_text(recipe, width_of(sys.stdout))
    if color:
        echo_painted(highlight(visible_lines(text), painter(color)), nl=False, color=color)
    else:
        echo_file(text)

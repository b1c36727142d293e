"""`leaven inspect`: the model's layers, as selectors name them."""

import sys

import click

from leaven.catalog.layers import Layers
from leaven.cli.recipes import exit_code, print_reports, source_or_exit
from leaven.recipe.checker import model_layers
from leaven.recipe.options import Options


def run(word: str, options: Options, *, run_code: bool) -> None:
    """Print the layers of a recipe's model; mistakes elsewhere in the recipe do not matter."""
    name, layers, classes, diagnostics = model_layers(source_or_exit(word), options, run_code=run_code)
    if layers is None:
        print_reports(diagnostics, err=True)
        click.echo(f"the layers of {name} are not known", err=True)
        sys.exit(exit_code(diagnostics) or 1)
    if classes is not None:
        layers = layers.fitted(classes)
    for line in _lines(layers):
        click.echo(line)
    total = sum(parameter.count for parameter in layers.parameters)
    click.echo(f"\n{name}: {total:,} parameters. head: {_paths(layers.head)}; stem: {_paths(layers.stem)}")
    if classes is not None and layers.head:
        click.echo(f"the head is fitted to the data's {classes:,} classes")
    if layers.stages:
        click.echo("stages: " + "; ".join(f"{n} {_paths(paths)}" for n, paths in enumerate(layers.stages, 1)))


def _lines(layers: Layers) -> list[str]:
    counts: dict[str, int] = {}
    for parameter in layers.parameters:
        path = parameter.module_path
        while True:
            counts[path] = counts.get(path, 0) + parameter.count
            if not path:
                break
            path = path.rpartition(".")[0]
    shown = [module for module in layers.modules if module.path and counts.get(module.path)]
    width = max((len(module.path) + 2 * module.path.count(".") for module in shown), default=0)
    lines = []
    for module in shown:
        indented = "  " * module.path.count(".") + module.path
        lines.append(f"{indented:<{width}}  {module.type:<20} {counts[module.path]:>14,}")
    return lines


def _paths(paths: tuple[str, ...]) -> str:
    return ", ".join(paths) or "none"

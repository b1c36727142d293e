"""`leaven inspect`: the model's layers, as selectors name them, and what each phase does to them."""

import sys
from collections.abc import Sequence

import click

from leaven.catalog.layers import Layers
from leaven.cli.recipe_command import exit_code, print_reports, source_or_exit
from leaven.plan.compiling import compile_source
from leaven.plan.effects import effects, summarised
from leaven.plan.plan import Plan
from leaven.recipe.reader import model_layers
from leaven.rules.inputs import size_of_images
from leaven.statements.options import Options


def print_layers(word: str, options: Options, *, run_code: bool) -> None:
    """Print the layers of a recipe's model; errors elsewhere in the recipe do not matter."""
    source = source_or_exit(word)
    compiled = compile_source(source, options)
    size = size_of_images(compiled.recipe.data) if compiled.recipe is not None else None
    name, layers, outputs, diagnostics = model_layers(source, options, size=size, run_code=run_code)
    if layers is None:
        print_reports(diagnostics, err=True)
        click.echo(f"the layers of {name} are not known", err=True)
        sys.exit(exit_code(diagnostics) or 1)
    plan = compiled.plan
    for line in _table(layers, plan):
        click.echo(line)
    total = sum(parameter.count for parameter in layers.parameters)
    flops = sum(count for path, count in layers.flops.items() if "." not in path)
    cost = f", {_large(flops)}FLOPs for an image of {_size(layers.trial_size)}" if flops and layers.trial_size else ""
    click.echo(f"\n{name}: {total:,} parameters{cost}")
    click.echo(f"head: {_paths(layers.head)}; stem: {_paths(layers.stem)}")
    if outputs is not None and layers.head:
        click.echo(f"the head is new: {outputs:,} output{'s' * (outputs != 1)}")
    if layers.stages:
        click.echo("stages: " + "; ".join(f"{n} {_paths(paths)}" for n, paths in enumerate(layers.stages, 1)))
    if plan is None:
        click.echo(f"what the phases do to them is not known: `leaven check {word}` says why", err=True)


def _table(layers: Layers, plan: Plan | None) -> list[str]:
    counts = _counts(layers)
    done = summarised(effects(plan, layers)) if plan is not None else {}
    titles = [f'in "{phase.name}"' for phase in plan.phases] if plan is not None and len(plan.phases) > 1 else [""]
    rows = [["layer", "type", "output", "parameters", "FLOPs", *(titles if plan is not None else [])]]
    for module in layers.modules:
        if module.path and counts.get(module.path):
            rows.append(
                [
                    "  " * module.path.count(".") + module.path,
                    module.type,
                    _size(layers.shapes.get(module.path)),
                    f"{counts[module.path]:,}",
                    _large(layers.flops.get(module.path, 0)),
                    *done.get(module.path, ()),
                ]
            )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [_row(row, widths) for row in rows]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    is_number = (False, False, True, True, True)
    aligned = [
        cell.rjust(width) if at < len(is_number) and is_number[at] else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def _counts(layers: Layers) -> dict[str, int]:
    """How many parameters each module has, at whatever depth."""
    counts: dict[str, int] = {}
    for parameter in layers.parameters:
        path = parameter.module_path
        while True:
            counts[path] = counts.get(path, 0) + parameter.count
            if not path:
                break
            path = path.rpartition(".")[0]
    return counts


def _size(shape: Sequence[int] | None) -> str:
    return "×".join(map(str, shape)) if shape else ""


def _large(number: int) -> str:
    """A number with three digits and a prefix: 1.82 G."""
    for prefix, power in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= power:
            return f"{number / power:.3g} {prefix}"
    return f"{number} " if number else ""


def _paths(paths: tuple[str, ...]) -> str:
    return ", ".join(paths) or "none"

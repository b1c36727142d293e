"""The door: `leaven` and its commands. Each command reads its words, calls one function, prints what it returns."""

import sys
from pathlib import Path
from typing import Any

import click

from leaven import __version__
from leaven.cli.recipes import RecipeCommand, report_and_exit


class _Commands(click.Group):
    """Lists commands in the order in which a newcomer meets them, and suggests the nearest for a misspelt one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            from leaven.catalog.lookup import nearest

            word = args[0] if args else ""
            if word.endswith(".leaven"):
                raise click.UsageError(f"what is to be done with {word}? For example: leaven check {word}") from problem
            near = nearest(word, self.commands, limit=1)
            hint = f" Did you mean `{near[0]}`?" if near else " `leaven --help` lists them."
            raise click.UsageError(f"there is no command `{word}`.{hint}") from problem


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="leaven")
def leaven() -> None:
    """Leaven raises new models out of trained ones.

    \b
    A recipe says what: model, data, what to keep still, how long.
        model resnet18(pretrained=true)
        data  folder("photos")
        train epochs=10

    \b
    A first time through:
        leaven new photos          write a recipe for a folder of images
        leaven check photos.leaven find every mistake before anything starts
        leaven show photos.leaven  see it with every default filled in
    """


@leaven.command(cls=RecipeCommand, takes_several=True)
@click.option("--json", "as_json", is_flag=True, help="Print the reports as JSON.")
@click.option("--concise", is_flag=True, help="Print one line per report.")
@click.option("--run-code", is_flag=True, help="Also run your own Python files, to check what only running can tell.")
def check(recipes: list[Any], options: Any, as_json: bool, concise: bool, run_code: bool) -> None:
    """Find every mistake in a recipe, before anything starts.

    Options of the recipe itself (each `arg` is one: --lr 1e-4) are checked like the file. Exit code 1 says that the
    recipe has mistakes, 2 that the command line has.
    """
    from leaven.cli import checking

    sys.exit(checking.run(recipes, options, as_json=as_json, concise=concise, run_code=run_code))


@leaven.command(cls=RecipeCommand)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(recipes: list[Any], options: Any, as_json: bool) -> None:
    """Print a recipe with every default filled in, and where each came from."""
    from leaven.recipe import show as showing

    recipe = report_and_exit(recipes[0], options)
    if as_json:
        import json

        click.echo(json.dumps(showing.to_json(recipe), indent=2, ensure_ascii=False))
    else:
        click.echo(showing.to_text(recipe), nl=False)


@leaven.command(cls=RecipeCommand)
@click.option("--run-code", is_flag=True, help="Run your own Python files, to list the layers of a model of your own.")
def inspect(recipes: list[Any], options: Any, run_code: bool) -> None:
    """List the model's layers, by the names that selectors use."""
    from leaven.cli import inspecting

    inspecting.run(recipes[0], options, run_code=run_code)


@leaven.command("format")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RECIPE...")
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit code 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Print what would change, and change nothing.")
def format_files(files: tuple[Path, ...], only_check: bool, diff: bool) -> None:
    """Write recipes the way Leaven writes them. Comments stay; the meaning stays.

    `-` reads the recipe from standard input and prints it.
    """
    from leaven.cli import formatting

    sys.exit(formatting.run(files, only_check=only_check, diff=diff))


@leaven.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--model", help="The model to start from, as in a recipe: resnet18, torchvision.vgg16, …")
@click.option("--epochs", type=click.IntRange(min=1), help="How many epochs to train.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to write the recipe.")
@click.option("--scratch", is_flag=True, help="Train from scratch instead of starting from trained weights.")
@click.option("--force", is_flag=True, help="Overwrite a recipe that is there already.")
def new(
    folder: Path | None, model: str | None, epochs: int | None, output: Path | None, scratch: bool, force: bool
) -> None:
    """Write a first recipe for a folder of images.

    The folder holds one sub-folder per class, or train/ and val/ with those inside. Asks what it was not told, unless
    there is nobody to ask.
    """
    from leaven.cli import starting

    starting.run(folder, model=model, epochs=epochs, output=output, scratch=scratch, force=force)


def _error_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from leaven.cli import explaining

    return [name for name in explaining.names() if name.startswith(incomplete)]


@leaven.command()
@click.argument("id", required=False, shell_complete=_error_ids)
def explain(id: str | None) -> None:
    """Explain a report by its id (unknown-layer), or anything in the catalog by its name (mixup)."""
    from leaven.cli import explaining

    sys.exit(explaining.run(id))


@leaven.group(cls=_Commands)
def catalog() -> None:
    """Look up models, data sets, transforms, optimizers, techniques, …"""


def _card_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from leaven.cli import browsing

    return browsing.complete(incomplete)


@catalog.command()
@click.argument("words", nargs=-1)
@click.option("--kind", help="Only this kind: model, transform, optimizer, …")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="How many to print at most.")
def search(words: tuple[str, ...], kind: str | None, limit: int) -> None:
    """Find names in the catalog."""
    from leaven.cli import browsing

    sys.exit(browsing.search(words, kind, limit))


@catalog.command("show")
@click.argument("name", shell_complete=_card_names)
@click.option("--kind", help="Only this kind, where one name means several things.")
def show_card(name: str, kind: str | None) -> None:
    """Print what is known about a name: arguments, defaults, facts and article."""
    from leaven.cli import browsing

    sys.exit(browsing.show(name, kind))


@leaven.command(cls=RecipeCommand)
def run(recipes: list[Any], options: Any) -> None:
    """Check a recipe and train it."""
    recipe = report_and_exit(recipes[0], options, requires_args=True)
    click.echo(
        f"{recipe.name}: the recipe is right, but this version can't train yet: compiling a recipe into a program, "
        "training and bundles are not built. `leaven check`, `show`, `format` and `inspect` work.",
        err=True,
    )
    sys.exit(3)


@leaven.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    For example, in ~/.bashrc:
        eval "$(leaven completion bash)"
    """
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None
    click.echo(completer(leaven, {}, "leaven", "_LEAVEN_COMPLETE").source())


def main() -> None:
    """The command `leaven`. A failure of Leaven's own is said in one line; LEAVEN_DEBUG=1 shows where."""
    try:
        leaven(prog_name="leaven")
    except Exception as failure:
        import os

        if os.environ.get("LEAVEN_DEBUG"):
            raise
        what = f"{type(failure).__name__}: {failure}"
        click.echo(f"Leaven itself failed ({what}). That is a bug; LEAVEN_DEBUG=1 shows where.", err=True)
        sys.exit(70)

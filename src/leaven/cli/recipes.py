"""Commands that take a recipe: its own `arg`s become options, besides those that every recipe has."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from leaven.language.diagnostics import Diagnostic
    from leaven.language.source import Source
    from leaven.recipe.options import Options
    from leaven.recipe.recipe import Recipe

MISTAKE_IN_RECIPE = 1
MISTAKE_IN_COMMAND = 2

_COMMON = (
    click.Option(["--set", "settings"], multiple=True, metavar="STATEMENT.ARGUMENT=VALUE", help="Change any argument."),
    click.Option(["--with", "additions"], multiple=True, metavar="STATEMENT", help="Add a statement."),
    click.Option(["--model"], metavar="VALUE", help="Another model."),
    click.Option(["--data"], metavar="VALUE|PATH", help="Other data; the transforms stay."),
    click.Option(["--checkpoint"], metavar="FILE", help="The weights to start from."),
    click.Option(["--output"], metavar="FOLDER", help="Where results go."),
)


class RecipeCommand(click.Command):
    """A command on a recipe. Words it does not know are options of the recipe: `--lr 1e-4`."""

    def __init__(self, name: str | None, *, takes_several: bool = False, **kwargs: Any) -> None:
        metavar = "RECIPE..." if takes_several else "RECIPE"
        words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, metavar=f"{metavar} [--ARG VALUE]...")
        words.shell_complete = _complete_words  # type: ignore[method-assign]
        params = [words, *(kwargs.pop("params", None) or []), *_COMMON]
        settings = {"ignore_unknown_options": True, **kwargs.pop("context_settings", {})}
        super().__init__(name, params=params, context_settings=settings, **kwargs)
        self.takes_several = takes_several

    def invoke(self, ctx: click.Context) -> Any:
        from leaven.recipe.options import Options

        given = ctx.params
        recipes, args = _sort_words(given.pop("words"))
        if not recipes:
            raise click.UsageError(
                "which recipe? For example: leaven " + (ctx.info_name or "check") + " dogs.leaven", ctx
            )
        if len(recipes) > 1 and not self.takes_several:
            raise click.UsageError(f"one recipe at a time, not {len(recipes)}: {', '.join(recipes)}", ctx)
        given["options"] = Options(
            args=args,
            settings=given.pop("settings"),
            additions=given.pop("additions"),
            **{name: given.pop(name) for name in ("model", "data", "checkpoint", "output")},
        )
        given["recipes"] = recipes
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("The recipe's own options"):
            formatter.write_text("Every `arg` of the recipe is an option: `arg lr: float = 3e-4` makes --lr.")


def _sort_words(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The recipes, and the values given for their `arg`s. A flag without a value says `true`."""
    recipes: list[str] = []
    args: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            recipes.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") and not _is_recipe(rest[0]) else "true"
        args[name.replace("-", "_")] = value
    return recipes, args


def _is_recipe(word: str) -> bool:
    return word.endswith(".leaven")


def _complete_words(ctx: click.Context, incomplete: str) -> list[Any]:
    """Recipe files, and the options that the recipe named so far has."""
    from click.shell_completion import CompletionItem

    if not incomplete.startswith("--"):
        return [CompletionItem(incomplete, type="file")]
    from leaven.language import syntax
    from leaven.language.parser import parse
    from leaven.language.source import Source

    found = []
    for word in ctx.params.get("words") or ():
        source = open_source(word)
        if not isinstance(source, Source):
            continue
        for statement in parse(source).tree.statements:
            if isinstance(statement, syntax.Arg):
                help_text = statement.help.value if statement.help else None
                found.append(CompletionItem(f"--{statement.name.path.replace('_', '-')}", help=help_text))
    return [item for item in found if item.value.startswith(incomplete)]


def open_source(word: str) -> "Source | Diagnostic":
    """The recipe that a word of the command line names; `-` is standard input."""
    from leaven.language.diagnostics import error
    from leaven.language.reading import decode, read_source
    from leaven.language.source import SourceKind

    if word != "-":
        return read_source(Path(word), word)
    if sys.stdin is None or sys.stdin.closed:
        return error("missing-file", "there is no standard input to read a recipe from")
    return decode(sys.stdin.buffer.read(), "<stdin>", Path(), SourceKind.INPUT)


def exit_code(diagnostics: Sequence["Diagnostic"]) -> int:
    """0 without errors; 2 where every error lies in the command line; else 1."""
    from leaven.language.source import SourceKind

    errors = [diagnostic for diagnostic in diagnostics if diagnostic.is_error]
    if not errors:
        return 0
    in_options = [bool(d.spots) and d.spots[0].span.source.kind is SourceKind.OPTION for d in errors]
    return MISTAKE_IN_COMMAND if all(in_options) else MISTAKE_IN_RECIPE


def print_reports(diagnostics: Sequence["Diagnostic"], *, err: bool = False, concise: bool = False) -> None:
    """Each report in full, notes in one line behind them."""
    from leaven.language.diagnostics import Severity
    from leaven.language.report import render_concise, render_full, wants_color

    color = wants_color(sys.stderr if err else sys.stdout)
    for diagnostic in diagnostics:
        if concise or diagnostic.severity is Severity.NOTE:
            click.echo(render_concise(diagnostic), err=err, color=color)
        else:
            click.echo(render_full(diagnostic, color=color) + "\n", err=err, color=color)


def report_and_exit(word: str, options: "Options", *, requires_args: bool = False) -> "Recipe":
    """The checked recipe; where there are mistakes they are printed and the command ends."""
    from leaven.language.diagnostics import Diagnostic, Severity
    from leaven.recipe.checker import check

    source = open_source(word)
    if isinstance(source, Diagnostic):
        print_reports([source], err=True)
        sys.exit(MISTAKE_IN_RECIPE)
    checked = check(source, options, requires_args=requires_args)
    print_reports([d for d in checked.diagnostics if d.severity is not Severity.NOTE], err=True)
    if checked.recipe is None:
        sys.exit(exit_code(checked.diagnostics))
    return checked.recipe

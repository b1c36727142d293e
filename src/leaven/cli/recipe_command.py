"""Commands that take a recipe: its `arg`s become options, besides those that every recipe has."""

import os.path
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from leaven.catalog.habits import option_for
from leaven.catalog.lookup import nearest
from leaven.cli import completion
from leaven.cli.exit_codes import RECIPE_ERROR, USAGE_ERROR
from leaven.cli.printing import echo_painted
from leaven.language import syntax
from leaven.language.diagnostics import Diagnostic, Severity, error
from leaven.language.fixes import Fix
from leaven.language.report import render_concise, render_full
from leaven.language.source import Source, SourceKind, flag_of
from leaven.language.source_files import decode, read_source
from leaven.messages.habits import is_known
from leaven.messages.options import option_for_argument
from leaven.recipe.recipe import Recipe
from leaven.rules.checker import check
from leaven.statements.assemble import assemble
from leaven.statements.options import Options, options_of
from leaven.terminal.colors import wants_color

_COMMON = (
    click.Option(["--set", "settings"], multiple=True, metavar="STATEMENT.ARGUMENT=VALUE", help="Change any argument."),
    click.Option(["--with", "additions"], multiple=True, metavar="STATEMENT", help="Add a statement."),
    click.Option(["--model"], metavar="VALUE", help="Use another model.", shell_complete=completion.models),
    click.Option(
        ["--data"],
        metavar="VALUE|PATH",
        help="Use other data, with the same transforms.",
        shell_complete=completion.files,
    ),
    click.Option(["--checkpoint"], metavar="FILE", help="Start from these weights.", shell_complete=completion.files),
    click.Option(["--output"], metavar="FOLDER", help="Write runs here.", shell_complete=completion.folders),
    click.Option(["--no-cache"], is_flag=True, help="Compute everything in every epoch: --set train.cache=off."),
)
_RAW_WORDS = "leaven.words"
# Options of other tools that name the file that a recipe is.
_RECIPE_OPTIONS = ("--config", "--cfg", "--config-file", "--config-name", "--recipe", "-c", "-f")


class RecipeCommand(click.Command):
    """A command on a recipe. Options that it does not know are options of the recipe: `--lr 1e-4`."""

    def __init__(self, name: str | None, *, takes_several: bool = False, **kwargs: Any) -> None:
        metavar = f"{'RECIPE...' if takes_several else 'RECIPE'} [--ARG VALUE]..."
        words = click.Argument(
            ["words"], nargs=-1, type=click.UNPROCESSED, metavar=metavar, shell_complete=completion.words
        )
        params = [words, *(kwargs.pop("params", None) or []), *_COMMON]
        settings = {"ignore_unknown_options": True, **kwargs.pop("context_settings", {})}
        super().__init__(name, params=params, context_settings=settings, **kwargs)
        self.takes_several = takes_several

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_RAW_WORDS] = tuple(args)  # help is printed before any of them is read
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        given = ctx.params
        recipes, args = _sort_words(given.pop("words"))
        _refuse_habits(ctx, recipes, args)
        self._refuse_misspelt(ctx, recipes, args)
        if not recipes:
            raise click.UsageError(f"no recipe given. For example: leaven {ctx.info_name} dogs.leaven", ctx)
        if len(recipes) > 1 and not self.takes_several:
            raise click.UsageError(f"takes one recipe, got {len(recipes)}: {', '.join(recipes)}", ctx)
        given["options"] = Options(
            args=args,
            settings=(*given.pop("settings"), *(["train.cache=off"] if given.pop("no_cache") else [])),
            additions=given.pop("additions"),
            **{name: given.pop(name) for name in ("model", "data", "checkpoint", "output")},
        )
        given["recipes"] = recipes
        return super().invoke(ctx)

    def _refuse_misspelt(self, ctx: click.Context, recipes: Sequence[str], args: Iterable[str]) -> None:
        """Report an option that is nearer to one of the command than to an `arg` of the recipe."""
        dashed = [word for word in recipes if word.startswith("-") and word != "-" and not Path(word).exists()]
        if not dashed and (not args or not all(map(_can_be_read_again, recipes))):  # the checker reports these too
            return
        known = [flag_of(name) for name in declared(recipes)]
        options = [name for param in self.get_params(ctx) for name in param.opts if name.startswith("--")]
        unknown = [flag_of(arg) for arg in args if flag_of(arg) not in known and not is_known(arg)]
        for word in (*dashed, *unknown):
            names = nearest(word.lstrip("-"), [flag[2:] for flag in (*known, *options)], limit=1)
            near = f"--{names[0]}" if names else None
            if word in dashed or near in options:
                hint = f"Did you mean `{near}`?" if near else f"`leaven {ctx.info_name} --help` lists them."
                raise click.UsageError(f"unknown option `{word}`. {hint}", ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*completion.recipe_options(ctx, incomplete), *super().shell_complete(ctx, incomplete)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        recipes = [word for word in ctx.meta.get(_RAW_WORDS, ()) if is_recipe(word) and Path(word).is_file()]
        args = declared(recipes)
        with formatter.section(f"Options of {', '.join(recipes)}" if recipes else "The recipe's own options"):
            if args:
                formatter.write_dl([_help_row(name, arg) for name, arg in args.items()])
            elif recipes:
                formatter.write_text("This recipe has no `arg`.")
            else:
                formatter.write_text(
                    "Every `arg` of the recipe is an option: `arg lr: float = 3e-4` makes --lr. "
                    f"`leaven {ctx.info_name} RECIPE --help` lists them."
                )


def _refuse_habits(ctx: click.Context, words: Sequence[str], args: Mapping[str, str]) -> None:
    """Report what other tools would take: `run --config a.leaven`, `run a.leaven epochs=3`, `check --format json`."""
    other = [word for word in words if not is_recipe(word) and word != "-" and not os.path.exists(word)]
    if not other and not args:
        return
    recipes = [word for word in (*words, *args.values()) if is_recipe(word)]
    known = declared(recipes) if recipes else {}
    flags = [flag_of(name) for name in args if name not in known]
    if (flag := next((word for word in (*flags, *other) if word in _RECIPE_OPTIONS), None)) and recipes:
        command = f"leaven {ctx.info_name} {recipes[0]}"
        raise click.UsageError(f"unknown option `{flag}`. A recipe needs none: `{command}`", ctx)
    for flag in flags:
        if meant := option_for(str(ctx.info_name), flag):
            raise click.UsageError(f"unknown option `{flag}`. Did you mean `{meant}`?", ctx)
    for word in other:
        if "=" in word and recipes:
            option = _as_option(word, recipes[0])
            hint = f"Did you mean `{option}`?" if option else f"`leaven {ctx.info_name} --help` lists them."
            raise click.UsageError(f"`{word}` is not an option. {hint}", ctx)


def _as_option(word: str, recipe: str) -> str | None:
    """The option that sets what another tool sets by `epochs=3` or `optimizer.lr=1e-3`, if one does."""
    name, _, value = word.lstrip("+~").partition("=")
    source = source_or_exit(recipe)
    statements, last = assemble(source).statements, name.rpartition(".")[2]
    argument = option_for_argument(source.span(0, 0), last, value, statements)
    candidates = [f"{flag_of(name)} {shlex.quote(value)}", f"--set {shlex.quote(f'{name}={value}')}"]
    candidates += [argument.edits[0].text] if isinstance(argument, Fix) and argument.edits else []
    return next(
        (one for one in candidates if exit_code(check(source, options_of(one)).diagnostics) != USAGE_ERROR), None
    )


def _help_row(name: str, arg: syntax.Arg) -> tuple[str, str]:
    """`--lr FLOAT` and its help."""
    takes = f"[{'|'.join(arg.values)}]" if arg.choices else arg.type.path.upper()
    default = f"[default: {arg.default.span.text}]" if arg.default else "[required]"
    return f"{flag_of(name)} {takes}", f"{arg.help.value}  {default}" if arg.help else default


def declared(recipes: Iterable[str]) -> dict[str, syntax.Arg]:
    """The `arg`s of some recipes, with those of the recipes that they extend."""
    found: dict[str, syntax.Arg] = {}
    for recipe in recipes:
        source = open_source(recipe) if _can_be_read_again(recipe) else None
        if isinstance(source, Source):
            found |= assemble(source).args
    return found


def _sort_words(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The recipes, and the values given for their `arg`s. A flag without a value means `true`."""
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
            value = rest.pop(0) if rest and not rest[0].startswith("--") and not is_recipe(rest[0]) else "true"
        args[name.replace("-", "_")] = value
    return recipes, args


def is_recipe(word: str) -> bool:
    """Whether an argument is the name of a recipe."""
    return word.endswith(".leaven")


def _can_be_read_again(word: str) -> bool:
    """Whether a recipe can be read twice; a pipe can't."""
    return word != "-" and os.path.isfile(word)


def open_source(word: str) -> Source | Diagnostic:
    """The recipe that an argument names; `-` is standard input."""
    if word != "-":
        return read_source(Path(word), word)
    if sys.stdin is None or sys.stdin.closed:
        return error("missing-file", "standard input is closed, so no recipe can be read from it")
    try:
        content = sys.stdin.buffer.read()
    except OSError as problem:
        return error("missing-file", f"can't read a recipe from standard input: {problem.strerror}")
    return decode(content, "<stdin>", Path(), SourceKind.INPUT)


def source_or_exit(word: str) -> Source:
    """The recipe that an argument names; where it can't be read, prints the report and exits."""
    source = open_source(word)
    if isinstance(source, Source):
        return source
    print_reports([source], err=True)
    sys.exit(RECIPE_ERROR)


def exit_code(diagnostics: Sequence[Diagnostic]) -> int:
    """0 without errors; 2 where every error is in the command line; else 1."""
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.is_error]
    if not errors:
        return 0
    in_options = [bool(d.spots) and d.spots[0].span.source.kind is SourceKind.OPTION for d in errors]
    return USAGE_ERROR if all(in_options) else RECIPE_ERROR


def print_reports(diagnostics: Sequence[Diagnostic], *, err: bool = False, concise: bool = False) -> None:
    """Each report in full, notes on one line."""
    color = wants_color(sys.stderr if err else sys.stdout)
    for diagnostic in diagnostics:
        if concise or diagnostic.severity is Severity.NOTE:
            echo_painted(render_concise(diagnostic), err=err, color=color)
        else:
            echo_painted(render_full(diagnostic, color=color) + "\n", err=err, color=color)


def report_and_exit(word: str, options: Options) -> Recipe:
    """The checked recipe; where there are errors, prints them and exits."""
    checked = check(source_or_exit(word), options)
    print_reports([d for d in checked.diagnostics if d.severity is not Severity.NOTE], err=True)
    if checked.recipe is None:
        sys.exit(exit_code(checked.diagnostics))
    return checked.recipe

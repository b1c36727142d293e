"""Shell completion: names of the catalog, options of a recipe, runs, files.

Decides what is offered where; the protocol with the shell is click's.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from leaven.catalog.card import KINDS
from leaven.catalog.lookup import names_at_hand
from leaven.formats.run_folder import unfinished_below
from leaven.language.source import flag_of
from leaven.messages.explanations import report_ids

_MOST = 200  # completions


def reports_and_cards(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Report ids first, then everything in the catalog."""
    return _starting([*report_ids(), *_names(*KINDS)], incomplete)


def cards(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of cards: of one kind, where `--kind` was given before."""
    kind = ctx.params.get("kind")
    return _starting(_names(kind) if kind else _names(*KINDS), incomplete)


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of models."""
    return _starting(_names("model"), incomplete)


def stored(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The ids of what is stored, each with what it is."""
    from leaven.cache.groups import groups_of
    from leaven.cache.store import default_store

    try:
        found = groups_of(default_store())
    except OSError:
        return []
    return [CompletionItem(group.id, help=group.what) for group in found if group.id.startswith(incomplete)]


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Any file; the shell lists them."""
    return [CompletionItem(incomplete, type="file")]


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Any folder; the shell lists them."""
    return [CompletionItem(incomplete, type="dir")]


def unfinished_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The runs that can be resumed, in the folder that is written, else in `runs`; any folder where there are none."""
    found = map(str, unfinished_below(Path(os.path.dirname(incomplete) or "runs")))
    return [CompletionItem(run) for run in _starting(found, incomplete)] or folders(ctx, param, incomplete)


def words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A recipe or other file; after an option of the recipe that has choices, those."""
    from leaven.cli.recipe_command import declared, is_recipe

    said = ctx.params.get("words") or ()
    before = said[-1] if said else ""
    if before.startswith("--"):
        arg = declared(filter(is_recipe, said)).get(before[2:].replace("-", "_"))
        if arg and arg.values:
            return [CompletionItem(value) for value in arg.values if value.startswith(incomplete)]
    return files(ctx, param, incomplete)


def recipe_options(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The options that the recipes named so far have by their `arg`s."""
    from leaven.cli.recipe_command import declared, is_recipe

    args = declared(filter(is_recipe, ctx.params.get("words") or ()))
    found = [CompletionItem(flag_of(name), help=arg.help.value if arg.help else None) for name, arg in args.items()]
    return [item for item in found if item.value.startswith(incomplete)]


def _names(*kinds: str) -> list[str]:
    return sorted({name for kind in kinds for name in names_at_hand(kind)})


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)][:_MOST]

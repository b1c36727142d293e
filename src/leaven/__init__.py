"""Leaven: a recipe language for reusing pre-trained models.

The whole way through the house, one function per phase. Each returns a value; nothing is stored on the side:

    text ──parse──▶ Tree ──check──▶ Recipe ──show──▶ text

The rooms are imported when they are first needed, so that `import leaven` is cheap and a program that uses only the
runtime never loads the compiler.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaven.language.diagnostics import Diagnostic
    from leaven.language.parser import Parsed
    from leaven.language.source import Source
    from leaven.recipe.checker import Checked
    from leaven.recipe.options import Options
    from leaven.recipe.recipe import Recipe

__version__ = "0.1.0"
__all__ = ["RecipeError", "check", "format", "parse", "show"]


class RecipeError(ValueError):
    """A recipe has mistakes. Its text is the report; `diagnostics` holds them as values."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        from leaven.language.report import render_full

        self.diagnostics = diagnostics
        super().__init__("\n\n".join(render_full(diagnostic) for diagnostic in diagnostics))


def parse(recipe: str | Path | Source) -> Parsed:
    """The tree of a recipe file (or of a `Source`), and what is wrong with its text."""
    from leaven.language import parser

    return parser.parse(_source(recipe))


def check(recipe: str | Path | Source, options: Options | None = None, *, run_code: bool = False) -> Checked:
    """The typed recipe, if it has no errors, and all there is to say about it. Runs the user's code only if told."""
    from leaven.recipe import checker

    return checker.check(_source(recipe), options, run_code=run_code)


def show(recipe: str | Path | Source | Recipe, options: Options | None = None) -> str:
    """The recipe with every default filled in and where each came from. Raises `RecipeError` if it has errors."""
    from leaven.recipe import show as showing
    from leaven.recipe.recipe import Recipe

    if not isinstance(recipe, Recipe):
        checked = check(recipe, options)
        if checked.recipe is None:
            raise RecipeError(checked.diagnostics)
        recipe = checked.recipe
    return showing.to_text(recipe)


def format(recipe: str | Path | Source) -> str:
    """The recipe's text as Leaven writes it. Raises `RecipeError` if it can't be read."""
    from leaven.language.formatter import format_tree

    parsed = parse(recipe)
    if parsed.diagnostics:
        raise RecipeError(parsed.diagnostics)
    return format_tree(parsed.tree)


def _source(recipe: str | Path | Source) -> Source:
    from leaven.language.reading import read_source
    from leaven.language.source import Source

    if isinstance(recipe, Source):
        return recipe
    source = read_source(Path(recipe), str(recipe))
    if isinstance(source, Source):
        return source
    raise RecipeError((source,))

"""Leaven: a recipe language for reusing pre-trained models.

The pipeline, one function per stage, each of which returns a value:

    text ──parse──▶ Tree ──check──▶ Recipe ──plan──▶ Plan ──generate──▶ program ──▶ model.bundle ──load──▶ predictions

Rooms are imported when they are first needed, so that `import leaven` is fast and a program that uses only the runtime
never loads the compiler.
"""

from __future__ import annotations

TYPE_CHECKING = False  # true for type checkers; `typing` must not be imported before `__main__` has set the path
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from leaven.lab.loaded import Loaded
    from leaven.lab.session import Session
    from leaven.language.diagnostics import Diagnostic
    from leaven.language.parser import Parsed
    from leaven.language.source import Source
    from leaven.plan.plan import Plan
    from leaven.recipe.recipe import Recipe
    from leaven.rules.checker import Checked
    from leaven.runs.run import Run
    from leaven.runtime.failures import Failure
    from leaven.statements.options import Options

__version__ = "0.1.0"
__all__ = [
    "Failure",
    "Options",
    "RecipeError",
    "check",
    "format",
    "generate",
    "load",
    "make_plan",
    "open",
    "open_run",
    "parse",
    "run",
    "show",
]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


def __getattr__(name: str) -> object:
    """What takes time to import."""
    if name == "Options":
        from leaven.statements.options import Options

        return Options
    if name == "Failure":
        from leaven.runtime.failures import Failure

        return Failure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class RecipeError(ValueError):
    """A recipe has errors. The message is the report; `diagnostics` has them as values."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        from leaven.language.report import render_full
        from leaven.statements.in_python import in_python

        self.diagnostics = diagnostics
        super().__init__("\n\n".join(render_full(in_python(diagnostic)) for diagnostic in diagnostics))


def parse(recipe: str | Path | Source) -> Parsed:
    """The tree of a recipe file (or of a `Source`), and its syntax errors."""
    from leaven.language import parser

    return parser.parse(_source(recipe))


def check(recipe: str | Path | Source, options: Options | None = None, *, run_code: bool = False) -> Checked:
    """The typed recipe, if it has no errors, and all reports. User code is run only with `run_code`."""
    from leaven.rules import checker

    return checker.check(_source(recipe), _options(options), run_code=run_code)


def show(recipe: str | Path | Source | Recipe, options: Options | None = None) -> str:
    """The recipe with every default filled in and its origin. Raises `RecipeError` if it has errors."""
    from leaven.recipe import show as showing
    from leaven.recipe.recipe import Recipe

    if not isinstance(recipe, Recipe):
        checked = check(recipe, options)
        if checked.recipe is None:
            raise RecipeError(checked.diagnostics)
        recipe = checked.recipe
    return showing.to_text(recipe)


def make_plan(recipe: str | Path | Source, options: Options | None = None) -> Plan:
    """What a recipe does, step by step. Raises `RecipeError` if it has errors or needs what is not built yet."""
    from leaven.planning.compiling import compile_source

    compiled = compile_source(_source(recipe), _options(options))
    if compiled.plan is None:
        raise RecipeError(compiled.diagnostics)
    return compiled.plan


def generate(recipe: str | Path | Source, options: Options | None = None) -> str:
    """The text of the PyTorch program that a recipe compiles to."""
    from leaven.program.emit import emit

    return emit(make_plan(recipe, options))


def run(
    recipe: str | Path | Source,
    options: Options | None = None,
    *,
    quick: bool = False,
    name: str | None = None,
    from_phase: str | None = None,
    of: str | Path | None = None,
    set: Mapping[str, object] | None = None,
    with_: str | Sequence[str] = (),
    model: str | None = None,
    data: str | Path | None = None,
    checkpoint: str | Path | None = None,
    output: str | Path | None = None,
    **args: object,
) -> Run:
    """Train: `leaven.run("dogs.leaven", lr=1e-3, set={"train.batch": 64}).scores`. The run is done when this returns.

    The arguments are the options of `leaven run`; all others are `arg`s of the recipe. Raises `RecipeError` if the
    recipe has errors, and `Failure` with the report of a run that failed. Ctrl-C saves and stops.
    """
    from leaven.runs.starting import start
    from leaven.statements.options import Options, with_values

    added = (with_,) if isinstance(with_, str) else tuple(with_)
    flags = {"model": model, "data": data, "checkpoint": checkpoint, "output": output}
    chosen = with_values(_options(options) or Options(), args, set or {}, added, **flags)
    earlier = None if of is None else str(of)
    started = start(_source(recipe), chosen, is_quick=quick, name=name, from_phase=from_phase, of=earlier)
    if isinstance(started, tuple):
        raise RecipeError(started)
    return started


def open_run(folder: str | Path, *, trust_code: bool = False) -> Run:
    """A run by its folder: its `scores`, `curve` and `model`. Of a folder of runs, the newest is used."""
    from leaven.runs.run import open_run

    return open_run(folder, trust_code=trust_code)


def open(recipe: str | Path | Source, options: Options | None = None) -> Session:
    """A session with a recipe: look at its data and model, and train step by step."""
    from leaven.lab.session import Session

    return Session(make_plan(recipe, options))


def load(file: str | Path, *, trust_code: bool = False, device: str = "cpu") -> Loaded:
    """A trained model: `leaven.load("dogs.bundle")("photo.jpg").label`.

    A name in place of a file means a published model: `leaven.load("efficientnet_lite0")`. A run that is not finished
    means its best epoch so far, a checkpoint in its folder its weights.
    """
    from leaven.lab.loaded import load

    return load(file, trust_code=trust_code, device=device)


def format(recipe: str | Path | Source) -> str:
    """The formatted text of a recipe. Raises `RecipeError` if it has syntax errors."""
    from leaven.language.formatter import format_tree

    parsed = parse(recipe)
    if parsed.diagnostics:
        raise RecipeError(parsed.diagnostics)
    return format_tree(parsed.tree)


def _source(recipe: str | Path | Source) -> Source:
    import os
    from pathlib import Path

    from leaven.language.source import Source
    from leaven.language.source_files import read_source

    if isinstance(recipe, Source):
        return recipe
    if not isinstance(recipe, str | os.PathLike):
        raise TypeError(f"a recipe is the path of its file, not {type(recipe).__name__}; {_FOR_A_TEXT}")
    if isinstance(recipe, str) and "\n" in recipe and not os.path.exists(recipe):
        raise TypeError(f"a recipe is the path of its file, not its text; {_FOR_A_TEXT}")
    source = read_source(Path(recipe), str(recipe))
    if isinstance(source, Source):
        return source
    raise RecipeError((source,))


_FOR_A_TEXT = 'for a string, write `leaven.language.source.Source("my.leaven", text)`'


def _options(options: Options | None) -> Options | None:
    from leaven.statements.options import Options

    if options is None or isinstance(options, Options):
        return options
    example = 'Options(args={"lr": "1e-4"})'
    raise TypeError(f"options are `leaven.{example}`, not {type(options).__name__}")

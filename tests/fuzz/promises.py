"""What holds for every text, right or wrong: the promises that a mutated recipe is tried against."""

import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import leaven
from leaven.catalog.model_survey import only_cached
from leaven.language import report
from leaven.language.diagnostics import Diagnostic, has_errors
from leaven.language.formatter import format_tree
from leaven.language.parser import Parsed
from leaven.language.source import Source, SourceKind
from leaven.plan import plan_json
from leaven.plan.plan import Plan
from leaven.planning.compiling import not_built
from leaven.planning.explain import explain
from leaven.planning.make import make_plan
from leaven.planning.passes import improve
from leaven.program.emit import emit
from leaven.program.standalone import obstacles, standalone
from leaven.recipe import recipe as checked_recipe
from leaven.recipe import show
from leaven.recipe.plain_data import to_json
from leaven.rules.checker import Checked, check_once
from leaven.rules.tried_fixes import MAX_CHARACTERS, MAX_STEPS, Recipe, apply, errors_left
from leaven.statements.options import Options

NAME = "recipe.leaven"


def try_text(text: str, folder: Path) -> Parsed:
    """Read and format a text; an AssertionError says what is not as promised."""
    parsed = leaven.parse(Source(NAME, text, folder))
    for diagnostic in parsed.diagnostics:
        _try_report(diagnostic)
    if not parsed.diagnostics:
        _try_format(parsed)
    return parsed


def try_check(text: str, folder: Path, options: Options) -> Checked:
    """Check a text, with all that a right recipe promises."""
    checked = leaven.check(Source(NAME, text, folder), options)
    assert (checked.recipe is None) == has_errors(checked.diagnostics), "a recipe and errors, or neither"
    for diagnostic in checked.diagnostics:
        _try_report(diagnostic)
        _try_fix(diagnostic, checked, folder, options)
    if checked.recipe is not None:
        _try_show(checked)
        _try_program(checked.recipe)
        formatted = leaven.format(Source(NAME, text, folder))
        again = leaven.check(Source(NAME, formatted, folder), options)
        assert again.recipe == checked.recipe, (
            f"formatted, it is another recipe: {difference(checked.recipe, again.recipe)}\n{formatted}"
        )
    return checked


def _try_report(diagnostic: Diagnostic) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", diagnostic.id), f"`{diagnostic.id}` is no id"
    assert diagnostic.headline, f"{diagnostic.id} says nothing"
    edits = [edit.span for edit in diagnostic.fix.edits] if diagnostic.fix else []
    for span in (*(spot.span for spot in diagnostic.spots), *edits):
        assert 0 <= span.start <= span.end <= len(span.source.text), f"{diagnostic.id} points outside of its text"
    assert report.render_full(diagnostic)
    assert report.render_full(diagnostic, color=True)
    assert "\n" not in report.render_concise(diagnostic)
    json.dumps(report.to_json(diagnostic))


def _try_fix(diagnostic: Diagnostic, checked: Checked, folder: Path, options: Options) -> None:
    """Apply a fix of the recipe: its report is gone, and no new error is in what it quotes but one that it names."""
    fix = diagnostic.fix
    if fix is None or not fix.edits or fix.edits[0].span.source.kind is not SourceKind.RECIPE:
        return
    source = fix.edits[0].span.source
    if len(source.text) * len(checked.diagnostics) * MAX_STEPS > MAX_CHARACTERS:
        return  # not all of its fixes were tried
    trial = apply(Recipe(source, options), fix.edits)
    assert trial is not None
    with only_cached():
        after = check_once(Source(NAME, trial.text, folder), options).diagnostics
    left = errors_left(diagnostic, checked.diagnostics, after, trial, fix.shown)
    said = [one for one in left if one.headline == fix.remains]
    assert not left or said, f"the fix `{fix.message}` leaves {[one.headline for one in left]}:\n{trial.text}"


def _try_format(parsed: Parsed) -> None:
    formatted = format_tree(parsed.tree)
    again = leaven.parse(Source(NAME, formatted))
    assert not again.diagnostics, f"formatted, it can't be read:\n{formatted}"
    assert again.tree == parsed.tree, f"formatted, it is another tree:\n{formatted}"
    assert format_tree(again.tree) == formatted, f"formatted, it can be formatted again:\n{formatted}"


def _try_show(checked: Checked) -> None:
    assert checked.recipe is not None
    shown = show.to_text(checked.recipe)
    again = leaven.check(Source(NAME, shown, checked.sources[0].folder))
    reports = "\n".join(report.render_concise(diagnostic) for diagnostic in again.diagnostics)
    assert again.recipe is not None, f"shown, it has mistakes:\n{reports}\n{shown}"
    assert again.recipe == checked.recipe, (
        f"shown, it is another recipe: {difference(checked.recipe, again.recipe)}\n{shown}"
    )
    narrow = show.to_text(checked.recipe, 60)
    assert leaven.parse(Source(NAME, narrow)).tree == leaven.parse(Source(NAME, shown)).tree, narrow
    json.dumps(to_json(checked.recipe))


def _try_program(recipe: checked_recipe.Recipe) -> None:
    """What passes the check is planned and compiled to programs that Python reads, or is reported as not built."""
    plan = make_plan(recipe)
    if not isinstance(plan, Plan):
        assert plan, "there is no plan, and no reason"
        for missing in plan:
            _try_report(not_built(missing))
        return
    plan = improve(plan)
    assert explain(plan)
    again = plan_json.from_json(plan_json.to_json(plan))
    assert again == plan, f"written and read, it is another plan: {difference(plan, again, 'plan')}"
    compile(emit(plan), "program.py", "exec")
    if not obstacles(plan):
        compile(standalone(plan), "alone.py", "exec")


def difference(one: Any, other: Any, path: str = "recipe") -> str:
    """The first place where two values differ, and how."""
    if type(one) is type(other) and is_dataclass(one):
        parts = [(f".{field.name}", field.name) for field in fields(one) if field.compare]
        pairs = [(step, getattr(one, name), getattr(other, name)) for step, name in parts]
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = [(f"[{at}]", a, b) for at, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return f"{path} is {one!r}, then {other!r}"
    step, a, b = next((pair for pair in pairs if pair[1] != pair[2]), ("", None, None))
    return difference(a, b, path + step) if step else f"{path} is equal, and yet not"

"""Tries every fix before it is reported: applied, it must remove its report and leave no error in what it quotes.

Where an error is left that has a fix of its own, both are reported as one: `model = f(pretrained=True)` becomes
`model f(pretrained=true)`. Where one is left that has none, the help names it, unless the fix is a guess: a wrong guess
is not reported. Only imported where something is wrong.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from leaven.language.diagnostics import Diagnostic
from leaven.language.fixes import Edit, Fix, as_one
from leaven.language.record import Record
from leaven.language.source import Source, SourceKind, Span
from leaven.statements.edited_options import edited_options
from leaven.statements.options import Options

MAX_STEPS = 4  # fixes that are reported as one
MAX_CHARACTERS = 200_000  # checked again in all: a long recipe with many errors is reported without trying their fixes

Check = Callable[[Source, Options], Sequence[Diagnostic]]


def with_tried_fixes(
    found: Sequence[Diagnostic], source: Source, given: Options, check: Check
) -> tuple[Diagnostic, ...]:
    """The reports on a recipe, each with a fix that works, or with none."""
    left = MAX_CHARACTERS

    def check_again(source: Source, given: Options) -> Sequence[Diagnostic] | None:
        nonlocal left
        left -= len(source.text) + 1
        return check(source, given) if left > 0 else None

    return tuple(_tried(report, found, Recipe(source, given), check_again) for report in found)


class Recipe(Record):
    """What is checked: a recipe with options."""

    source: Source
    given: Options


class Trial(Record):
    """A recipe with an edit applied. `text` is what its source or its option became."""

    recipe: Recipe
    edit: Edit
    text: str

    def is_about(self, report: Diagnostic, shown: Span) -> bool:
        """Whether a report on the edited recipe points into what the edit wrote, or into what is shown around it."""
        first, last = min(shown.start, self.edit.span.start), max(shown.end, self.edit.span.end) + self.growth
        inside = (spot.span for spot in report.spots if self.is_edited(spot.span.source))
        return any(self.edit.is_option or first <= span.start <= span.end <= last for span in inside)

    def is_edited(self, source: Source) -> bool:
        is_option = source.kind is SourceKind.OPTION
        return source.text in self.text if is_option and self.edit.is_option else source.text == self.text

    @property
    def growth(self) -> int:
        return len(self.edit.text) - (self.edit.span.end - self.edit.span.start)

    def key(self, report: Diagnostic) -> tuple[object, ...]:
        """What tells reports apart, the same before and after the edit."""
        if not report.spots:
            return report.id, report.headline
        span, start = report.spots[0].span, report.spots[0].span.start
        if self.is_edited(span.source) and start >= self.edit.span.start:
            is_after = start >= self.edit.span.start + len(self.edit.text)
            start = start - self.growth if is_after else self.edit.span.start
        return report.id, report.headline, span.source.name, start

    def then(self, edit: Edit) -> Edit:
        """The edit of the recipe as it was that does what this one and another after it do."""
        if edit.is_option:
            return Edit(self.edit.span, edit.text, is_option=True)
        mine, source = self.edit.span, self.edit.span.source
        start = min(mine.start, edit.span.start)
        end = max(mine.end, edit.span.end - self.growth)
        text = self.text[start : edit.span.start] + edit.text + self.text[edit.span.end : end + self.growth]
        return Edit(source.span(start, end), text)


def apply(recipe: Recipe, edit: Edit) -> Trial | None:
    """A recipe with an edit applied; None for an edit of a recipe that it extends."""
    span, source = edit.span, edit.span.source
    text = source.text[: span.start] + edit.text + source.text[span.end :]
    if source.kind is SourceKind.OPTION:
        text = edit.text if edit.is_option else text
        given = edited_options(recipe.given, edit, text)
        return Trial(replace(recipe, given=given), edit, " ".join(shlex.split(text)) if edit.is_option else text)
    if source is recipe.source:
        return Trial(replace(recipe, source=Source(source.name, text, source.folder, source.kind)), edit, text)
    return None


def _tried(
    report: Diagnostic,
    found: Sequence[Diagnostic],
    recipe: Recipe,
    check_again: Callable[[Source, Options], Sequence[Diagnostic] | None],
) -> Diagnostic:
    """A report with its fix as far as it works."""
    fix = report.fix
    if fix is None or not fix.edits:
        return report
    trial, left = apply(recipe, as_one(fix.edits)), list[Diagnostic]()
    for step in range(MAX_STEPS):
        after = check_again(trial.recipe.source, trial.recipe.given) if trial is not None else None
        if trial is None or after is None:
            return report
        left = errors_left(report, found, after, trial, fix.shown or trial.edit.span)
        following = next(filter(None, (_following(one, trial) for one in left)), None)
        if following is None or step == MAX_STEPS - 1:
            break
        trial = apply(recipe, trial.then(following))
    assert trial is not None
    joined = _joined(fix, trial.edit) if step else fix
    if not left:
        return replace(report, fix=joined)
    remains = left[0].headline
    is_wrong = fix.is_guess or fix.shown is None or remains == report.headline
    return replace(report, fix=None if is_wrong else replace(joined, remains=remains))


def errors_left(
    report: Diagnostic, found: Iterable[Diagnostic], after: Iterable[Diagnostic], trial: Trial, shown: Span
) -> list[Diagnostic]:
    """The report, if an edit did not remove it, and the new errors about what the edit wrote or what is shown."""
    known = {trial.key(one) for one in found if one is not report}
    new = [one for one in after if trial.key(one) not in known]
    again = [one for one in new if (one.id, one.headline) == (report.id, report.headline)]
    about = [one for one in new if (one.is_error or one in again) and trial.is_about(one, shown)]
    return [one for one in again if trial.key(one) == trial.key(report)] + about


def _following(report: Diagnostic, trial: Trial) -> Edit | None:
    """The edit that fixes what another edit left."""
    edits = report.fix.edits if report.fix is not None else ()
    return as_one(edits) if edits and all(trial.is_edited(edit.span.source) for edit in edits) else None


def _joined(fix: Fix, edit: Edit) -> Fix:
    shown = fix.shown or edit.span
    whole = Span(shown.source, min(shown.start, edit.span.start), max(shown.end, edit.span.end))
    return replace(fix, edits=(edit,), shown=whole if fix.shown is not None else None)

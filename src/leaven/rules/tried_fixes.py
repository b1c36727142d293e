"""Tries every fix before it is reported: applied, it must remove its report and leave no error in what it quotes.

Where an error is left that has a fix of its own, both are reported as one: `model = f(pretrained=True)` becomes
`model f(pretrained=true)`. Where one is left that has none, the fix is not reported, but what is advised about that
word, or what the fix says to do otherwise.
Only a file that does not exist is no fault of a fix: the help names it. Only imported where something is wrong.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from leaven.language.diagnostics import Diagnostic
from leaven.language.fixes import Edit, Fix, edited
from leaven.language.record import Record
from leaven.language.source import Source, SourceKind, Span
from leaven.statements.options import Options, edited_options

MAX_STEPS = 4  # fixes that are reported as one
MAX_CHARACTERS = 200_000  # checked again in all: a long recipe with many errors is reported without trying their fixes

_NOT_OF_THE_TEXT = "missing-file"
_NOT_A_STATEMENT = ("unknown-statement", "misplaced-statement")

Check = Callable[[Source, Options], Sequence[Diagnostic]]
CheckAgain = Callable[[Source, Options], Sequence[Diagnostic] | None]  # None where that would take too long


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
    """A recipe with options, as it is checked."""

    source: Source
    given: Options


class Trial(Record):
    """A recipe with edits applied to its source, or to an option. `text` is what that became."""

    recipe: Recipe
    edits: tuple[Edit, ...]  # in order, not overlapping
    text: str

    @property
    def is_option(self) -> bool:
        return self.edits[0].is_option

    def is_edited(self, source: Source) -> bool:
        """Whether a source of the edited recipe is the one with the edits."""
        return source.text in self.text if self.is_option else source.text == self.text

    def written(self) -> Iterator[tuple[int, int]]:
        """Where the text of each edit is in the edited text."""
        growth = 0
        for edit in self.edits:
            start = edit.span.start + growth
            yield start, start + len(edit.text)
            growth += len(edit.text) - (edit.span.end - edit.span.start)

    def forth(self, offset: int) -> int:
        """Where the text at an offset is after the edits."""
        before = [edit for edit in self.edits if edit.span.end <= offset]
        return offset + sum(len(edit.text) - (edit.span.end - edit.span.start) for edit in before)

    def back(self, offset: int) -> int:
        """Where the text at an offset was before the edits; what an edit wrote was at its start."""
        for edit, (start, end) in zip(reversed(self.edits), reversed(list(self.written())), strict=True):
            if offset >= end:
                return edit.span.end + offset - end
            if offset >= start:
                return edit.span.start
        return offset

    def key(self, report: Diagnostic) -> tuple[object, ...]:
        """A key for reports, the same before and after the edits."""
        if not report.spots:
            return report.id, report.headline
        span = report.spots[0].span
        start = self.back(span.start) if self.is_edited(span.source) and not self.is_option else span.start
        return report.id, report.headline, span.source.name, start

    def is_about(self, report: Diagnostic, shown: Span | None) -> bool:
        """Whether a report on the edited recipe points into what an edit wrote, or into what is quoted."""
        places = list(self.written())
        if shown is not None and not self.is_option:
            first, last = self.forth(shown.start), self.forth(shown.end)
            around = [place for place in places if first <= place[1] and place[0] <= last]
            places.append((min([first, *(start for start, _ in around)]), max([last, *(end for _, end in around)])))
        spans = [spot.span for spot in report.spots if self.is_edited(spot.span.source)]
        return any(self.is_option or first <= s.start <= s.end <= last for s in spans for first, last in places)

    def then(self, later: Edit) -> tuple[Edit, ...]:
        """The edits of the recipe as it was that do what these do, and another one after them."""
        source = self.edits[0].span.source
        if self.is_option:
            return (Edit(source.span(0, len(source.text)), self._options_then(later), is_option=True),)
        start, end = later.span.start, later.span.end
        kept = []
        for edit, (first, last) in zip(self.edits, self.written(), strict=True):
            if first <= end and start <= last:
                start, end = min(start, first), max(end, last)
            else:
                kept.append(edit)
        text = self.text[start : later.span.start] + later.text + self.text[later.span.end : end]
        starts = {first: edit.span.start for edit, (first, _) in zip(self.edits, self.written(), strict=True)}
        ends = {last: edit.span.end for edit, (_, last) in zip(self.edits, self.written(), strict=True)}
        joined = Edit(source.span(starts.get(start, self.back(start)), ends.get(end, self.back(end))), text)
        return tuple(sorted([*kept, joined], key=lambda edit: edit.span.start))

    def _options_then(self, later: Edit) -> str:
        """The options that were written, with an edit of one of them."""
        if later.is_option:
            return later.text
        option = later.span.source
        changed = edited(option.span(0, len(option.text)), [later])
        words = shlex.split(self.edits[0].text)
        return shlex.join(changed if word == option.text else word for word in words)


def apply(recipe: Recipe, edits: Sequence[Edit]) -> Trial | None:
    """A recipe with edits applied; None for edits of a recipe that it extends, or of several texts."""
    edits = tuple(sorted(edits, key=lambda edit: edit.span.start))
    source = edits[0].span.source
    if any(edit.span.source is not source for edit in edits):
        return None
    text = edited(source.span(0, len(source.text)), edits)
    if source.kind is SourceKind.OPTION:
        given = edited_options(recipe.given, edits[0], text)
        plain = " ".join(shlex.split(text)) if edits[0].is_option else text
        return Trial(replace(recipe, given=given), edits, plain)
    if source is recipe.source:
        return Trial(replace(recipe, source=Source(source.name, text, source.folder, source.kind)), edits, text)
    return None


def _tried(report: Diagnostic, found: Sequence[Diagnostic], recipe: Recipe, check_again: CheckAgain) -> Diagnostic:
    """A report with its fix as far as it works."""
    fix = report.fix
    if fix is None or not fix.edits:
        return report
    works = _as_tried(report, fix, found, recipe, check_again)
    if works is not None:
        return replace(report, fix=works)
    otherwise = fix.otherwise if isinstance(fix.otherwise, Fix) else Fix(fix.otherwise) if fix.otherwise else None
    return _tried(replace(report, fix=otherwise), [one for one in found if one is not report], recipe, check_again)


def _as_tried(
    report: Diagnostic, fix: Fix, found: Sequence[Diagnostic], recipe: Recipe, check_again: CheckAgain
) -> Fix | None:
    """A fix with those of the errors that it leaves; None where one is left that has none."""
    trial, left = apply(recipe, fix.edits), list[Diagnostic]()
    for step in range(MAX_STEPS):
        after = check_again(trial.recipe.source, trial.recipe.given) if trial is not None else None
        if trial is None or after is None:
            return fix
        left = errors_left(report, found, after, trial, fix.shown)
        fixes = (one.fix for one in left if one.fix is not None and len(one.fix.edits) == 1)
        following = next((each for each in fixes if trial.is_edited(each.edits[0].span.source)), None)
        if following is None or step == MAX_STEPS - 1:
            break
        if following.caveat:
            fix = replace(fix, caveat=following.caveat, before="")
        trial = apply(recipe, trial.then(following.edits[0]))
    assert trial is not None
    if left and (left[0].id != _NOT_OF_THE_TEXT or fix.shown is None or fix.otherwise):
        advice = left[0].fix if left[0].id in _NOT_A_STATEMENT else None  # about this very word, where there is any
        return advice if advice is not None and not advice.edits and not advice.is_general else None
    shown = fix.shown
    for edit in trial.edits:
        if shown is not None and edit.span.start <= shown.end and shown.start <= edit.span.end:
            shown = Span(shown.source, min(shown.start, edit.span.start), max(shown.end, edit.span.end))
    return replace(fix, edits=trial.edits, shown=shown, remains=left[0].headline if left else "")


def errors_left(
    report: Diagnostic, found: Iterable[Diagnostic], after: Iterable[Diagnostic], trial: Trial, shown: Span | None
) -> list[Diagnostic]:
    """The report, if the edits did not remove it, and the new errors about what they wrote or what is quoted."""
    known = {trial.key(one) for one in found if one is not report}
    new = [one for one in after if trial.key(one) not in known]
    again = [one for one in new if (one.id, one.headline) == (report.id, report.headline)]
    about = [one for one in new if (one.is_error or one in again) and trial.is_about(one, shown)]
    return [one for one in again if trial.key(one) == trial.key(report)] + about

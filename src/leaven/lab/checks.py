"""Checks: sentences about a model's answers in a file, such as `expect "cat.jpg" padded by 8 px is "cat"`.

Decides how such a file is read and reported, and whether a check holds. One line is one check; `#` begins a comment.
Files of images are named relative to the folder of the file.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leaven.bundle import Bundle
from leaven.files.atomic_files import write_text
from leaven.files.regular import read_regular
from leaven.formats.finite_json import as_json
from leaven.lab.answers import Answers, Asked
from leaven.lab.edits.edit import Edit, written
from leaven.lab.edits.edited import Edited
from leaven.lab.edits.phrases import edit_at, nearest_phrases, unquoted
from leaven.language.diagnostics import Diagnostic, error
from leaven.language.fixes import Fix
from leaven.language.report import render_full, summary
from leaven.language.source import Source
from leaven.runtime.failures import Failure
from leaven.terminal.visible import visible

ENDING = ".checks"
FORM = 'expect "photo.jpg" padded by 8 px is "cat"'
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=\s|#|$)")
_SPACE = re.compile(r"[ \t]*")
_END = re.compile(r"[ \t]*(#.*)?$")


@dataclass(frozen=True)
class Check:
    """An input with edits, and the answer that is expected, or with `is not` the one that is not."""

    names: tuple[str, ...]
    edits: tuple[Edit, ...]
    answer: str
    is_not: bool = False
    place: str = ""  # file and line
    folder: Path = Path()  # where the names of images start

    @property
    def words(self) -> str:
        given = Edited(self.names[0] if len(self.names) == 1 else self.names, self.edits)
        return f"expect {given.words} is {'not ' * self.is_not}{written(self.answer)}"

    def __repr__(self) -> str:
        return f"<Check: {visible(self.words)}>"


@dataclass(frozen=True)
class Checked:
    """Whether a check holds, and what the model answers; a problem where it could not be asked."""

    check: Check
    holds: bool
    answer: str = ""
    problem: str = ""

    @property
    def words(self) -> str:
        """`dogs.checks:3: expect "cat.jpg" is "cat"; the answer is dog`."""
        found = self.problem or f"the answer is {self.answer}"
        return f"{self.check.place}: {self.check.words}" + ("" if self.holds else f"; {found}")

    @as_json
    def to_json(self) -> dict[str, Any]:
        said = {"check": self.check.words, "place": self.check.place, "holds": self.holds}
        return {**said, "answer": self.answer, "problem": self.problem}

    def __repr__(self) -> str:
        return f"<Checked: {'holds' if self.holds else 'fails'}: {visible(self.words)}>"


class BadChecks(Failure):
    """A file of checks that can't be read; the reports say where and why."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        file = diagnostics[0].spots[0].span.source.name
        reports = "\n\n".join(render_full(one) for one in diagnostics)
        super().__init__(f"{file} can't be read as checks ({summary(diagnostics)})\n\n{reports}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics,)


# -- carried out


def checks_of(model: Bundle, file: Path | None = None) -> tuple[Check, ...]:
    """The checks in a file; without one, those beside the bundle: in `dogs.checks` beside `dogs.bundle`."""
    beside = model.path.with_suffix(ENDING)
    if file is None and not (model.path.is_file() and beside.exists()):
        return ()
    return read_checks(file or beside)


def carry_out(checks: Sequence[Check], model: Bundle) -> Iterator[Checked]:
    """Each check in turn."""
    one = Asked(str(model.path), model)
    for check in checks:
        try:
            given = Edited(model.manifest.takes.named(check.names, check.folder), check.edits)
            found = one.predict(given)
            yield Checked(check, found.is_answer(check.answer) != check.is_not, found.answer)
        except Failure as failure:
            yield Checked(check, holds=False, problem=failure.headline)


def save_check(answers: Answers, file: Path) -> Check:
    """Add the check that edits don't change an answer to a file, unless it is there; the check."""
    first = answers.each[0]
    given = first.model.bundle.manifest.takes.name_in(file.absolute().parent, answers.given.input)
    sentence = replace(answers, given=Edited(given, answers.given.edits)).as_check()
    (check,) = parse(Source(str(file), sentence))
    there = _text_of(file) if file.exists() else ""
    if check.words not in (one.words for one in parse(Source(str(file), there))):
        write_text(file, f"{there}{'' if not there or there.endswith(chr(10)) else chr(10)}{check.words}\n")
    return check


# -- read


def read_checks(file: Path) -> tuple[Check, ...]:
    """The checks in a file; `BadChecks` where it can't be read as such, with all reports."""
    return parse(Source(str(file), _text_of(file), file.parent))


def _text_of(file: Path) -> str:
    try:
        return read_regular(file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Failure(f"{file} can't be read: it is not UTF-8 text") from None
    except OSError as problem:
        reason = "there is no such file" if isinstance(problem, FileNotFoundError) else problem.strerror
        raise Failure(f"{file} can't be read: {reason}") from None


def parse(source: Source) -> tuple[Check, ...]:
    """The checks of a text; `BadChecks` with a report for each line that is none."""
    found: list[Check] = []
    faults: list[Diagnostic] = []
    for number, start in enumerate(source.line_starts, 1):
        line = source.line(number)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            found.append(replace(_Line(line).check(), place=f"{source.name}:{number}", folder=source.folder))
        except _Unexpected as fault:
            end = start + max(fault.end, fault.start + 1)
            place = source.span(start + fault.start, min(end, start + len(line)) if line[fault.start :] else end)
            faults.append(error("unexpected-token", fault.headline, (place, fault.label), fix=Fix(fault.help)))
    if faults:
        raise BadChecks(tuple(faults))
    return tuple(found)


class _Unexpected(Exception):
    """Where a line stops being a check."""

    def __init__(self, headline: str, start: int, end: int, label: str, help: str) -> None:
        self.headline, self.start, self.end, self.label, self.help = headline, start, end, label, help


class _Line:
    """A line of a file of checks, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def check(self) -> Check:
        self._word("expect", "a check begins with `expect`")
        names = [self._quoted("expected the input in quotes")]
        while self._skipped("/"):
            names.append(self._quoted("expected the second text in quotes"))
        edits = self._edits()
        is_not = self._skipped("not")
        answer = self._answer()
        self._space()
        if not _END.match(self.text, self.at):
            raise self._unexpected("expected the end of the line after the answer", "not part of a check")
        return Check(tuple(names), tuple(edits), answer, is_not)

    def _edits(self) -> list[Edit]:
        """The edits up to the word `is`."""
        edits: list[Edit] = []
        while not self._skipped("is"):
            if edits and not self._skipped(","):
                raise self._unexpected("expected a comma or `is` after an edit", "not part of it")
            self._space()
            try:
                found = edit_at(self.text, self.at)
            except Failure as failure:
                raise self._unexpected(failure.headline, "in this edit", failure.help) from None
            if found is None:
                rest = self.text[self.at :]
                headline = "expected an edit" if edits else "expected an edit or `is`"
                phrases = ", or ".join(f"`{one}`" for one in nearest_phrases(rest))
                raise self._unexpected(headline, "not the words of an edit", f"write {phrases}")
            edit, self.at = found
            edits.append(edit)
        return edits

    def _answer(self) -> str:
        self._space()
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return number[0]
        return self._quoted("expected the answer: a text in quotes, or a number")

    def _quoted(self, wanted: str) -> str:
        self._space()
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            raise self._unexpected(wanted, "not in quotes")
        try:
            text = unquoted(found[0])
        except Failure as failure:
            raise self._unexpected(failure.headline, "in this text", failure.help) from None
        self.at = found.end()
        return text

    def _word(self, word: str, headline: str) -> None:
        if not self._skipped(word):
            raise self._unexpected(headline, f"not `{word}`")

    def _skipped(self, word: str) -> bool:
        """Whether a word or a sign is next; then it is read."""
        self._space()
        end = self.at + len(word)
        is_there = self.text.startswith(word, self.at) and not (word.isalpha() and self.text[end : end + 1].isalnum())
        self.at = end if is_there else self.at
        return is_there

    def _space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def _unexpected(self, headline: str, label: str, help: str = "") -> _Unexpected:
        self._space()
        token = re.compile(r'"[^"]*"?|[^\s,]+|,|$').match(self.text, self.at)
        return _Unexpected(headline, self.at, token.end() if token else self.at, label, help or f"a check is: {FORM}")

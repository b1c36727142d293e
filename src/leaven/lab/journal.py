"""A journal: every question that was asked with its answer, a line each, to be replayed and summarised.

Decides what a line has and how it is written. A line is whole or ignored: it is written at once, and one that was cut
off by a crash is not read. Files and texts are noted as they were given, images in memory are saved beside the journal.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

from leaven.bundle import Bundle
from leaven.bundle.inputs.opening import as_image
from leaven.files.atomic_files import write_bytes
from leaven.files.regular import read_regular
from leaven.formats.finite_json import as_json
from leaven.lab.answers import Answers, Model, predictions
from leaven.lab.curves import Curves, Flip, smallest_flip, vary
from leaven.lab.edits.edited import Edited, edit
from leaven.lab.edits.kinds import edit_from_json
from leaven.lab.subject import Subject
from leaven.runtime.failures import Failure
from leaven.terminal.visible import as_code, in_html, in_markdown, visible

FILE = "journal.jsonl"
_LARGEST = 200_000_000  # bytes
NO_FLIP = "no edit changes the answer"
# the calls that are noted, with the options of each that a line has
CALLS: Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "predictions": (predictions, ("k",)),
    "vary": (vary, ("name", "between", "values", "steps", "k")),
    "smallest_flip": (smallest_flip, ("names",)),
}


@dataclass(frozen=True)
class Entry:
    """A question as it was asked, with its answer as JSON."""

    call: str
    models: tuple[str, ...]
    given: Edited
    options: Mapping[str, Any]
    words: str  # question and answer in one line
    answer: Any
    at: str = ""  # when, in UTC
    check: str = ""  # the sentence that makes a check of it

    @as_json
    def to_json(self) -> dict[str, Any]:
        given = self.given.to_json()
        asked = {"call": self.call, "models": list(self.models), "input": given["input"], "edits": given["edits"]}
        said = {"words": self.words, "answer": self.answer, "at": self.at, "check": self.check}
        return {**asked, "options": dict(self.options), **said}

    def __repr__(self) -> str:
        return f"<Entry: {self.call}, {visible(self.words)}>"


@dataclass(frozen=True)
class Replayed:
    """A question that was asked again, and whether its answer is the same to the last bit."""

    entry: Entry
    answer: Any
    problem: str = ""

    @property
    def is_same(self) -> bool:
        return not self.problem and bool(self.answer == self.entry.answer)

    def __repr__(self) -> str:
        what = "the same" if self.is_same else self.problem or "another answer"
        return f"<Replayed: {visible(self.entry.words)}: {visible(what)}>"


class Journal:
    """Questions to models, noted in a file: `Journal().predictions("dogs.bundle", "photo.jpg", rotate=10)`."""

    def __init__(self, file: str | os.PathLike[str] = FILE, *, trust_code: bool = False) -> None:
        self.file = Path(file)
        self.trust_code = trust_code
        self._subjects: dict[str, Subject] = {}

    def __repr__(self) -> str:
        return f"<Journal {visible(str(self.file))}: {len(self.entries())} questions>"

    # -- asking

    def predictions(self, models: Model | Sequence[Model], given: Any, k: int = 5, **changes: Any) -> Answers:
        """The answers of some models before and after edits, noted."""
        answers: Answers = self.ask("predictions", models, edit(given, **changes), k=k)
        return answers

    def vary(self, models: Model | Sequence[Model], given: Any, name: str, **options: Any) -> Curves:
        """The curves of some models while an edit grows, noted."""
        curves: Curves = self.ask("vary", models, edit(given), name=name, **options)
        return curves

    def smallest_flip(self, model: Model, given: Any, names: Sequence[str] = ()) -> Flip | None:
        """The smallest edit that changes the answer of a model, noted."""
        flip: Flip | None = self.ask("smallest_flip", model, edit(given), names=list(names))
        return flip

    def ask(self, call: str, models: Model | Sequence[Model], given: Edited, **options: Any) -> Any:
        """Ask one of the calls, and note question and answer."""
        several = [models] if isinstance(models, str | os.PathLike | Subject | Bundle) else list(models)
        subjects = [self._known(model) for model in several]
        given = Edited(self._kept(given.input), given.edits)
        answer = _called(call, subjects, given, options)
        self._append(
            Entry(
                call,
                tuple(one.name if isinstance(one, Subject) else os.fspath(one.path) for one in subjects),
                given,
                _plain(options),
                f"{given.words}: {NO_FLIP}" if answer is None else _words(answer),
                _plain(answer.to_json()) if answer is not None else None,
                datetime.now(UTC).isoformat(timespec="seconds"),
                answer.as_check() if isinstance(answer, Answers) else "",
            )
        )
        return answer

    def _known(self, model: Model) -> Subject | Bundle:
        """A model, loaded once however often it is asked."""
        if isinstance(model, Subject | Bundle):
            return model
        name = os.fspath(model)
        return self._subjects.setdefault(name, Subject(name, trust_code=self.trust_code))

    def _kept(self, given: Any) -> Any:
        """An input that can be written in a line: an image in memory is saved beside the journal."""
        if isinstance(given, os.PathLike):
            return os.fspath(given)
        if isinstance(given, str) or (isinstance(given, list | tuple) and all(isinstance(one, str) for one in given)):
            return given
        content = BytesIO()
        as_image(given, "RGBA").save(content, "PNG")
        folder = self.file.with_name(f"{self.file.stem}_images")
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / f"{hashlib.sha256(content.getvalue()).hexdigest()[:24]}.png"
        if not place.exists():
            write_bytes(place, content.getvalue())
        return str(place)

    def _append(self, entry: Entry) -> None:
        """Write a line at once, after the end of what a crash may have cut off."""
        line = json.dumps(entry.to_json(), ensure_ascii=True, allow_nan=False) + "\n"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab+", buffering=0) as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else f"\n{line}"
            file.write(line.encode())

    # -- reading

    def entries(self) -> list[Entry]:
        """The questions in their order; lines that are not whole are left out."""
        if not self.file.exists():
            return []
        try:
            lines = read_regular(self.file, _LARGEST).split(b"\n")
        except OSError as problem:
            raise Failure(f"{self.file} can't be read: {problem.strerror}") from None
        return [entry for line in lines if (entry := _entry(line)) is not None]

    def replay(self) -> Iterator[Replayed]:
        """Every question, asked again."""
        for entry in self.entries():
            try:
                answer = _called(entry.call, [self._known(one) for one in entry.models], entry.given, entry.options)
                yield Replayed(entry, _plain(answer.to_json()) if answer is not None else None)
            except Failure as failure:
                yield Replayed(entry, None, failure.headline)
            except (TypeError, ValueError) as problem:  # the line was not written by a journal
                yield Replayed(entry, None, f"it can't be asked: {problem}")

    # -- summaries

    def as_markdown(self) -> str:
        """What was asked and answered, as a page of Markdown."""
        entries = self.entries()
        lines = [f"# Journal: {_count(entries)}", ""]
        for number, one in enumerate(entries, 1):
            models = ", ".join(map(as_code, one.models))
            lines += [f"{number}. {in_markdown(one.words)}  ", f"   {one.call}, {models}, {in_markdown(one.at)}"]
            lines += [f"   check: {as_code(one.check)}"] if one.check else []
        return "\n".join(lines) + "\n"

    def as_html(self) -> str:
        """The same as a page that needs nothing else and has no scripts."""
        entries = self.entries()
        rows = "\n".join(
            f"<li><p>{in_html(one.words)}</p><p class=quiet>{in_html(one.call)}, {in_html(', '.join(one.models))}, "
            f"{in_html(one.at)}</p>" + (f"<pre>{in_html(one.check)}</pre>" if one.check else "") + "</li>"
            for one in entries
        )
        title = f"Journal: {_count(entries)}"
        head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        body = f"<h1>{title}</h1>\n<ol>{rows}</ol>"
        return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #24292f; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
li { margin: 0 0 1rem; overflow-wrap: anywhere; } p { margin: 0; } .quiet { color: #6b737c; font-size: .85rem; }
pre { white-space: pre-wrap; background: #f3f5f7; padding: .3rem .6rem; border-radius: 4px; margin: .3rem 0 0; }
"""


def _count(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} question{'s' * (len(entries) != 1)}"


def _called(call: str, models: Sequence[Any], given: Edited, options: Mapping[str, Any]) -> Any:
    if call not in CALLS:
        raise Failure(f"there is no question `{visible(call)}`", f"there are {', '.join(CALLS)}")
    function, names = CALLS[call]
    if unknown := [name for name in options if name not in names]:
        raise Failure(f"`{call}` has no option `{visible(unknown[0])}`", f"it takes {', '.join(names)}")
    return function(models, given, **options)


def _words(answer: Answers | Curves | Flip) -> str:
    return f"{answer.given.name}: {answer.words}" if isinstance(answer, Flip) else answer.words


def _plain(value: Any) -> Any:
    """A value as it is after it was written as JSON and read again."""
    return json.loads(json.dumps(value, allow_nan=False))


def _entry(line: bytes) -> Entry | None:
    """The entry of a line; None for a part of one, or for anything else."""
    try:
        match json.loads(line):
            case {
                "call": str(call), "models": list(models), "input": str() | list() as given, "edits": list(edits),
                "options": dict(options), "words": str(words), "answer": answer, "at": str(at), "check": str(check),
            } if all(isinstance(one, str) for one in (*models, *given)):  # fmt: skip
                edited = Edited(given if isinstance(given, str) else tuple(given), tuple(map(edit_from_json, edits)))
                return Entry(call, tuple(models), edited, options, words, answer, at, check)
    except (ValueError, RecursionError, Failure):
        return None
    return None

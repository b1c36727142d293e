"""Renders diagnostics: in full, on one line, or as JSON.

Decides only the appearance: the words come with the diagnostic, and the caller decides where the output goes. Text of a
recipe is never printed raw: control characters are shown as visible symbols.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from leaven.language.diagnostics import Diagnostic, Severity, Spot
from leaven.language.record import Record
from leaven.language.source import Source, Span
from leaven.language.utf16 import utf16_length
from leaven.terminal.colors import Paint, painter
from leaven.terminal.visible import visible
from leaven.terminal.width import columns

LINE_WIDTH = 160  # columns of a source line that are shown; a longer line is cut around its marks
MESSAGE_WIDTH = 500  # characters of one line of a message, which may quote a name as long as the file


def render_full(diagnostic: Diagnostic, color: bool = False) -> str:
    """The report for a terminal: headline, marked source lines, notes and help; no newline at the end."""
    paint = painter(color)
    severity = diagnostic.severity.value
    lines = [
        paint(severity, f"{severity}[{diagnostic.id}]") + paint("headline", f": {_message(diagnostic.headline)}"),
        *_snippets(diagnostic, paint),
        *(paint("note", "note") + f": {_paragraph(note)}" for note in diagnostic.notes),
    ]
    if diagnostic.fix:
        lines.append(paint("help", "help") + f": {_paragraph(diagnostic.fix.message)}")
    return "\n".join(lines)


def render_concise(diagnostic: Diagnostic) -> str:
    """The report on one line: `file:line:col: error[id]: headline`."""
    message = f"{diagnostic.severity.value}[{diagnostic.id}]: {_message(diagnostic.headline)}"
    return f"{_place(diagnostic.spots[0].span)}: {message}" if diagnostic.spots else message


def to_json(diagnostic: Diagnostic, *, is_utf16: bool = False) -> dict[str, Any]:
    """The report as JSON data. Lines and columns count from 1, offsets from 0, all in characters.

    With `is_utf16` columns and offsets count code units of UTF-16, as strings of browsers and editors do.
    """
    fix, place = diagnostic.fix, _span_in_utf16 if is_utf16 else _span_json
    return {
        "id": diagnostic.id,
        "severity": diagnostic.severity.value,
        "headline": diagnostic.headline,
        "file": diagnostic.spots[0].span.source.name if diagnostic.spots else None,
        "spots": [{**place(spot.span), "label": spot.label} for spot in diagnostic.spots],
        "notes": list(diagnostic.notes),
        "help": fix.message if fix else None,
        "edits": [{**place(e.span), "text": e.text, "is_option": e.is_option} for e in (fix.edits if fix else ())],
    }


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """The number of diagnostics by severity: `2 errors, 1 warning`."""
    counts = Counter(diagnostic.severity for diagnostic in diagnostics)
    parts = (f"{counts[kind]} {kind.value}{'s' * (counts[kind] > 1)}" for kind in Severity if counts[kind])
    return ", ".join(parts) or "no errors"


class _Mark(Record):
    """The part of its first line that a spot marks, in characters of that line."""

    line: int
    start: int
    end: int
    label: str
    is_primary: bool


def _snippets(diagnostic: Diagnostic, paint: Paint) -> Iterator[str]:
    """One section per file, the file of the first spot first."""
    spots: dict[Source, list[Spot]] = {}
    for spot in diagnostic.spots:
        spots.setdefault(spot.span.source, []).append(spot)
    primary = diagnostic.spots[0] if diagnostic.spots else None
    sections = {source: [_mark(spot, spot is primary) for spot in own] for source, own in spots.items()}
    width = max((len(str(mark.line)) for marks in sections.values() for mark in marks), default=0)
    arrow = "-->"
    for source, marks in sections.items():
        yield paint("gutter", f"{'':{width}}{arrow}") + f" {_place(spots[source][0].span)}"
        yield _row(width, "", "", paint)
        yield from _section(source, marks, width, diagnostic.severity.value, paint)
        arrow = ":::"


def _section(source: Source, marks: list[_Mark], width: int, severity: str, paint: Paint) -> Iterator[str]:
    """The marked lines of one file in order, each with its marks below it."""
    by_line: dict[int, list[_Mark]] = {}
    for mark in marks:
        by_line.setdefault(mark.line, []).append(mark)
    previous = None
    for number in sorted(by_line):
        if previous is not None and number == previous + 2:
            yield _row(width, str(number - 1), _cut(source.line(number - 1), 0, 0)[0], paint)
        elif previous is not None and number > previous + 2:
            yield paint("gutter", "...")
        line = source.line(number)
        for together in _grouped(line, by_line[number]):
            shown, first, last = _cut(line, min(m.start for m in together), max(m.end for m in together))
            yield _row(width, str(number), shown, paint)
            for mark in together:
                yield _row(width, "", _underline(line, mark, first, last, severity, paint), paint)
        previous = number


def _row(width: int, number: str, content: str, paint: Paint) -> str:
    return paint("gutter", f"{number:>{width}} |") + f" {content}".rstrip()


def _underline(line: str, mark: _Mark, first: int, last: int, severity: str, paint: Paint) -> str:
    """The carets and the label of a mark, below the characters `first` to `last` of a line."""
    indent = _columns(line[first : mark.start]) + (first > 0)
    under = line[mark.start : min(mark.end, last)]
    marked = _columns(under)
    if under and not marked and indent:
        indent -= 1  # a combining accent is drawn on the character before it
    caret, role = ("^", severity) if mark.is_primary else ("-", "aside")
    return " " * indent + paint(role, f"{caret * max(marked, 1)} {_message(mark.label)}".rstrip())


def _mark(spot: Spot, is_primary: bool) -> _Mark:
    """The mark of a spot. A spot over several lines marks the first one up to its end."""
    start, end = _bounds(spot.span)
    number, column = spot.span.source.position(start)
    length = len(spot.span.source.line(number))
    first = min(column - 1, length)
    return _Mark(number, first, min(first + end - start, length), spot.label, is_primary)


def _grouped(line: str, marks: list[_Mark]) -> list[list[_Mark]]:
    """The marks in groups that are shown together: all, unless the line is cut and they are too far apart."""
    first, last = min(mark.start for mark in marks), max(mark.end for mark in marks)
    if _fits(line) or _fits(line[first : min(last, first + LINE_WIDTH + 1)], LINE_WIDTH - 2):
        return [marks]
    return [[mark] for mark in marks]


def _cut(line: str, start: int, end: int) -> tuple[str, int, int]:
    """A line as it is shown, and the range of its characters: all, or those around `start` to `end`."""
    first, last = (0, len(line)) if _fits(line) else _window(line, start, end)
    before, after = "…" * (first > 0), "…" * (last < len(line))
    return before + visible(line[first:last]) + after, first, last


def _window(line: str, start: int, end: int) -> tuple[int, int]:
    """The range of as much of the marked part as fits, with the text around it."""
    room = LINE_WIDTH - 2  # an ellipsis at each end
    first, last = start, start + _fitting(line[start : min(end, start + room)], room * 3 // 4)
    room -= _cost(line[first:last])
    before = _fitting(line[max(0, first - room) : first][::-1], room // 2)
    room -= _cost(line[first - before : first])
    after = _fitting(line[last : last + room], room)
    room -= _cost(line[last : last + after])
    first, last = first - before, last + after
    return first - _fitting(line[max(0, first - room) : first][::-1], room), last


def _fitting(text: str, room: int) -> int:
    """How many characters fit."""
    for count, character in enumerate(text):
        room -= _cost(character)
        if room < 0:
            return count
    return len(text)


def _fits(text: str, room: int = LINE_WIDTH) -> bool:
    return len(text) <= room and _cost(text) <= room


def _cost(text: str) -> int:
    """The columns of a text, where each character counts as at least one, so that no line is endless."""
    return sum(max(1, _columns(character)) for character in text)


def _columns(text: str) -> int:
    """The width of a text in a terminal."""
    return columns(visible(text))


def _message(text: str) -> str:
    """One line of a message, shortened in the middle if it is too long."""
    if len(text) > MESSAGE_WIDTH:
        text = f"{text[: MESSAGE_WIDTH // 2]}…{text[-MESSAGE_WIDTH // 2 :]}"
    return visible(text)


def _paragraph(text: str) -> str:
    """A note or help; further lines are aligned below the first."""
    return "\n      ".join(_message(line) for line in text.split("\n"))


def _bounds(span: Span) -> tuple[int, int]:
    """The start and end of a span, within the text."""
    start = min(max(span.start, 0), len(span.source.text))
    return start, min(max(span.end, start), len(span.source.text))


def _place(span: Span) -> str:
    line, column = span.source.position(_bounds(span)[0])
    return f"{_message(span.source.name)}:{line}:{column}"


def _span_json(span: Span) -> dict[str, Any]:
    data: dict[str, Any] = {"file": span.source.name}
    for end, offset in zip(("start", "end"), _bounds(span), strict=True):
        line, column = span.source.position(offset)
        data[end] = {"line": line, "column": column, "offset": offset}
    return data


def _span_in_utf16(span: Span) -> dict[str, Any]:
    data = _span_json(span)
    text = span.source.text
    for end in ("start", "end"):
        place = data[end]
        before = text[place["offset"] - place["column"] + 1 : place["offset"]]
        place["column"] = utf16_length(before) + 1
        place["offset"] = utf16_length(text[: place["offset"]])
    return data

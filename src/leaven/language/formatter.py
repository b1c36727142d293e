"""From tree to text: the one way to write a recipe.

Decides what goes on which line: statements, blocks, blank lines, comments, and what is aligned because its author
aligned it. `format_statements.py` prepares every statement in source order, so that each comment finds its place; the
lines are made here. `format_values.py` decides where values break, `alignment.py` computes columns.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from leaven.language import syntax
from leaven.language.alignment import plain, tabulate, write_lines
from leaven.language.format_statements import Draft, Entry, Item, draft_recipe
from leaven.language.pretty_printer import INDENT, WIDTH, Line, Remark, flat, lay_out

_PADDING = 2  # from this many blanks on, something was lined up on purpose
_LONGEST_NAME = 40  # a longer one does not push the values of its neighbours to the right
_HELP_GAPS = range(2, 9)


def format_tree(parsed_tree: syntax.Tree) -> str:
    """The text of a recipe that was read without mistakes, written the one way; parsing it gives an equal tree."""
    return write_lines(_lay_body(draft_recipe(parsed_tree), 0))


def _lay_body(entries: Sequence[Entry], indent: int) -> list[Line]:
    lines: list[Line] = []
    for run in _runs(entries):
        if run[0].is_apart:
            lines.append(Line(0, ""))
        if isinstance(run[0].content, Remark):
            lines.append(Line(indent, run[0].content.text))
        else:
            lines += _lay_run([entry.content for entry in run if isinstance(entry.content, Draft)], indent)
    return lines


def _runs(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Statements of one form on adjacent lines, together; comments alone."""
    run: list[Entry] = []
    for entry in entries:
        if run and (entry.is_apart or _family(entry) is None or _family(entry) != _family(run[-1])):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _family(entry: Entry) -> str | None:
    match entry.content:
        case Remark():
            return None
        case Draft(word="arg" | "let" as word):
            return word
        case _:
            return "statement"


def _lay_run(drafts: Sequence[Draft], indent: int) -> list[Line]:
    """The lines of a run: first each statement's own, then those that form a table lined up."""
    width = _name_width(drafts)
    laid = [(draft, _lay_draft(draft, indent, width)) for draft in drafts]
    lines: list[Line] = []
    for key, group in groupby(laid, key=lambda pair: _table_key(*pair)):
        members = list(group)
        if key:
            _line_up([draft for draft, _ in members], [own[0] for _, own in members], width)
        for _, own in members:
            lines += own
    return lines


def _name_width(drafts: Sequence[Draft]) -> int:
    """How wide all names of a run are to be written, or 0 for each in its own width."""
    valued = [draft for draft in drafts if draft.items and len(draft.word) <= _LONGEST_NAME]
    if any(draft.blanks[0] >= _PADDING for draft in valued):
        return max(len(draft.word) for draft in valued)
    return 0


# -- tables


def _table_key(draft: Draft, lines: Sequence[Line]) -> tuple[str, int] | None:
    """What statements of one table have in common; None for one that takes several lines."""
    return (draft.word, len(draft.items)) if len(lines) == 1 else None


def _line_up(drafts: Sequence[Draft], lines: Sequence[Line], width: int) -> None:
    """Line up the cells of statements that take one line each, as far as their author did."""
    gaps = _gaps(drafts)
    rows = [row for draft in drafts if gaps and (row := draft.row(width))]
    if not rows:
        return
    texts = tabulate(rows, gaps, lines[0].indent, may_overflow=drafts[0].word == "arg")
    for line, text in zip(lines, texts, strict=True):
        line.text = text


def _gaps(drafts: Sequence[Draft]) -> dict[int, int]:
    """Which columns are to be lined up, and the blanks before each."""
    padded = {column for draft in drafts for column, blanks in draft.blanks.items() if blanks >= _PADDING} - {0}
    if drafts[0].word != "arg":
        return dict.fromkeys(range(1, len(drafts[0].cells) + 1), 1) if padded else {}
    gaps = {1: 1, 2: 1} if padded & {1, 2} else {}
    if 3 in padded:
        smallest = min(draft.blanks[3] for draft in drafts if 3 in draft.blanks)
        gaps[3] = min(max(smallest, _HELP_GAPS[0]), _HELP_GAPS[-1])
    return gaps


# -- single statements


def _lay_draft(draft: Draft, indent: int, width: int) -> list[Line]:
    """The lines of a statement whose name is written `width` wide."""
    block = draft.block
    if block and block.entries and block.short:
        row = draft.row(width)
        if row and indent + len(plain(row)) <= WIDTH:
            return [Line(indent, plain(row), draft.remark)]
    is_open = block is not None and not block.is_empty
    tail = " {" if is_open else " {}" if block else ""
    lines = _lay_items(draft, indent, width, len(tail))
    lines[-1].text += tail
    if block and is_open:
        lines[-1].remark = block.remark
        lines += _lay_body(block.entries, indent + INDENT)
        lines.append(Line(indent, "}"))
    lines[-1].remark = draft.remark
    return lines


def _lay_items(draft: Draft, indent: int, width: int, reserve: int) -> list[Line]:
    """Name and arguments, broken behind commas where they must be; the last line leaves room for `reserve`."""
    lines = [Line(indent, f"{draft.word:{width}}" if draft.items else draft.word)]
    needs_line = False
    for index, item in enumerate(draft.items):
        is_last = index + 1 == len(draft.items)
        room = reserve if is_last else len(",")
        lines += [Line(indent + INDENT, remark.text) for remark in item.before]
        if index and (needs_line or item.before or _begins_line(item, lines[-1], indent + INDENT, room)):
            lines.append(Line(indent + INDENT, ""))
        else:
            lines[-1].text += " "
        own = lay_out(item.doc, lines[-1].width, lines[-1].indent, room)
        lines[-1].text += own[0].text
        lines[-1].remark = own[0].remark
        lines += own[1:]
        if not is_last:
            lines[-1].text += ","
            lines[-1].remark = item.behind
        needs_line = item.behind is not None or (item.is_pipeline and len(own) > 1)
    return lines


def _begins_line(item: Item, line: Line, indent: int, room: int) -> bool:
    """Whether an argument is better off on a new line than behind the line so far."""
    column = line.width + 1
    text = flat(item.doc)
    if text is not None and column + len(text) + room <= WIDTH:
        return False
    if item.is_pipeline or (text is not None and indent + len(text) + room <= WIDTH):
        return True
    return column + len(lay_out(item.doc, column, line.indent, room)[0].text) > WIDTH

"""From tree to text: the one way to write a recipe.

Decides what goes on which line: statements, blocks, blank lines, comments, and what is aligned because its author
aligned it. `format_statements.py` prepares every statement in source order, so that each comment finds its place; the
lines are made here. `format_values.py` decides where values break, `alignment.py` computes columns.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from leaven.language import syntax
from leaven.language.alignment import align, join, to_text
from leaven.language.format_statements import ArgumentDoc, Entry, StatementDoc, recipe_entries
from leaven.language.pretty_printer import INDENT, WIDTH, Comment, Line, flat, lay_out

_PADDING = 2  # with at least this many spaces, something was aligned on purpose
_LONGEST_NAME = 40  # a longer one does not move the values of its neighbours to the right
_HELP_GAPS = range(2, 9)


def format_tree(tree: syntax.Tree) -> str:
    """The formatted text of a recipe without syntax errors; parsing it gives an equal tree."""
    return to_text(_body_lines(recipe_entries(tree), 0))


def _body_lines(entries: Sequence[Entry], indent: int) -> list[Line]:
    lines: list[Line] = []
    for run in _runs(entries):
        if run[0].is_after_blank_line:
            lines.append(Line(0, ""))
        if isinstance(run[0].content, Comment):
            lines.append(Line(indent, run[0].content.text))
        else:
            lines += _run_lines([entry.content for entry in run if isinstance(entry.content, StatementDoc)], indent)
    return lines


def _runs(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Adjacent statements of one kind together, each comment alone."""
    run: list[Entry] = []
    for entry in entries:
        if run and (entry.is_after_blank_line or _kind(entry) is None or _kind(entry) != _kind(run[-1])):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _kind(entry: Entry) -> str | None:
    match entry.content:
        case Comment():
            return None
        case StatementDoc(name="arg" | "let" as name):
            return name
        case _:
            return "statement"


def _run_lines(statements: Sequence[StatementDoc], indent: int) -> list[Line]:
    """The lines of a run: first those of each statement, then neighbours of the same form aligned."""
    # All names of a run are written as wide as the longest if its author padded one.
    named = [each for each in statements if each.arguments and len(each.name) <= _LONGEST_NAME]
    is_padded = any(each.spaces[0] >= _PADDING for each in named)
    width = max(len(each.name) for each in named) if is_padded else 0
    written = [(statement, _statement_lines(statement, indent, width)) for statement in statements]
    lines: list[Line] = []
    # The statements of a table take one line each, and have the same name and number of arguments.
    for key, group in groupby(written, key=lambda pair: len(pair[1]) == 1 and (pair[0].name, len(pair[0].arguments))):
        members = list(group)
        if key:
            _align([statement for statement, _ in members], [own[0] for _, own in members], width)
        for _, own in members:
            lines += own
    return lines


def _align(statements: Sequence[StatementDoc], lines: Sequence[Line], width: int) -> None:
    """Align the cells of statements that take one line each, as far as their author did."""
    gaps = _gaps(statements)
    rows = [row for statement in statements if gaps and (row := statement.row(width))]
    if not rows:
        return
    texts = align(rows, gaps, lines[0].indent, may_overflow=statements[0].name == "arg")
    for line, text in zip(lines, texts, strict=True):
        line.text = text


def _gaps(statements: Sequence[StatementDoc]) -> dict[int, int]:
    """Which columns to align, and the spaces before each."""
    padded = {column for s in statements for column, spaces in s.spaces.items() if spaces >= _PADDING} - {0}
    if statements[0].name != "arg":
        return dict.fromkeys(range(1, len(statements[0].cells) + 1), 1) if padded else {}
    gaps = {1: 1, 2: 1} if padded & {1, 2} else {}
    if 3 in padded:
        smallest = min(statement.spaces[3] for statement in statements if 3 in statement.spaces)
        gaps[3] = min(max(smallest, _HELP_GAPS[0]), _HELP_GAPS[-1])
    return gaps


def _statement_lines(statement: StatementDoc, indent: int, width: int) -> list[Line]:
    """The lines of a statement whose name is written `width` wide."""
    block = statement.block
    if block and block.entries and block.short:
        row = statement.row(width)
        if row and indent + len(join(row)) <= WIDTH:
            return [Line(indent, join(row), statement.comment)]
    is_open = block is not None and bool(block.entries or block.comment)
    tail = " {" if is_open else " {}" if block else ""
    lines = _argument_lines(statement, indent, width, len(tail))
    lines[-1].text += tail
    if block and is_open:
        lines[-1].comment = block.comment
        lines += _body_lines(block.entries, indent + INDENT)
        lines.append(Line(indent, "}"))
    lines[-1].comment = statement.comment
    return lines


def _argument_lines(statement: StatementDoc, indent: int, width: int, reserve: int) -> list[Line]:
    """Name and arguments, broken after commas where necessary; the last line leaves room for `reserve` characters."""
    lines = [Line(indent, f"{statement.name:{width}}" if statement.arguments else statement.name)]
    needs_line = False
    for index, argument in enumerate(statement.arguments):
        is_last = index + 1 == len(statement.arguments)
        room = reserve if is_last else len(",")
        lines += [Line(indent + INDENT, comment.text) for comment in argument.before]
        if index and (needs_line or argument.before or _starts_line(argument, lines[-1], indent + INDENT, room)):
            lines.append(Line(indent + INDENT, ""))
        else:
            lines[-1].text += " "
        own = lay_out(argument.doc, lines[-1].width, lines[-1].indent, room)
        lines[-1].text += own[0].text
        lines[-1].comment = own[0].comment
        lines += own[1:]
        if not is_last:
            lines[-1].text += ","
            lines[-1].comment = argument.trailing
        needs_line = argument.trailing is not None or (argument.is_pipeline and len(own) > 1)
    return lines


def _starts_line(argument: ArgumentDoc, line: Line, indent: int, room: int) -> bool:
    """Whether an argument fits better on a new line than after the current one."""
    column = line.width + 1
    text = flat(argument.doc)
    if text is not None and column + len(text) + room <= WIDTH:
        return False
    if argument.is_pipeline or (text is not None and indent + len(text) + room <= WIDTH):
        return True
    return lay_out(argument.doc, column, line.indent, room)[0].width > WIDTH

"""What a table of texts or images is: how it is read, what its columns have, its classes, splits and repetitions.

Also a folder with a table for each split, or with one table that lists its images. The words are for people; the recipe
is written in `recipes.py`.
"""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from leaven.first.layout import MOST, look_at_layout
from leaven.first.options import Guess, NotUnderstood, TableOptions
from leaven.first.roles import Column, Images, Roles, listed, look_at_roles
from leaven.formats.commands import typed
from leaven.formats.finding import BadSource, Finding
from leaven.formats.tables import PLAIN, BadLine, Layout, WrongWidth, formats, open_table, split_tables
from leaven.formats.tables.csv_file import COLUMN, UTF8
from leaven.formats.tables.csv_file import Table as TextTable
from leaven.formats.target import TargetReader, shown
from leaven.language.record import Record
from leaven.sources.source import Looked
from leaven.sources.table import Table
from leaven.tasks.classification.target import in_order

SOME = 1000  # rows that tell what columns have
MOST_ROWS = 300_000  # that are counted
NAMES = {" ": "spaces", ",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
NAME_FILES = ("classes.txt", "labels.txt", "class_names.txt")  # what classes with numbers are called


class TableLook(Record):
    """What a table, or a folder of them, contains."""

    path: Path
    source: str  # what reads it: csv
    layout: Layout
    names: tuple[str, ...]  # of all columns
    roles: Roles
    rows: Mapping[str, int]  # of each split; of '' without splits
    classes: Mapping[str, int] = field(default_factory=dict)  # in the training split, the most frequent first
    class_names: tuple[str, ...] = ()  # what a file says that classes with numbers are called, in their order
    name_file: str = ""
    is_all: bool = True  # whether all rows were counted
    has_header: bool = True
    skips: bool = False  # whether some rows can't be used
    facts: tuple[str, ...] = ()  # what else was found
    findings: tuple[Finding, ...] = ()
    guesses: tuple[Guess, ...] = ()

    @property
    def noun(self) -> str:
        return "images" if self.roles.image is not None else "texts"

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    @property
    def for_training(self) -> int:
        return next(iter(self.rows.values()))

    @property
    def seen(self) -> str:
        """What was understood, for people."""
        more = "" if self.is_all else "the first "
        splits = {split: count for split, count in self.rows.items() if split}
        counted = ", ".join(f"{split} {count:,}" for split, count in splits.items())
        lines = [f"{self.path}: {more}{self.total:,} rows{f' ({counted})' if splits else ''}{self._laid_out}"]
        lines += [f"  {what}" for what in self._columns]
        for finding in self.findings:
            lines += [
                finding.fact,
                *(f"  {note}" for note in finding.notes),
                *([f"  {finding.help}"] * bool(finding.help)),
            ]
        lines += self.facts
        lines += [f"guessed: {guess.explanation}; {guess.option} says otherwise" for guess in self.guesses]
        return "\n".join(lines)

    @property
    def _laid_out(self) -> str:
        found = []
        if self.layout.separator is not None:
            found.append(f"separated by {NAMES.get(self.layout.separator, repr(self.layout.separator))}")
        if not self.has_header:
            found.append("without a header")
        if self.layout.quote is None:
            found.append("quotes are part of the text")
        if self.layout.encoding != PLAIN.encoding:
            found.append(f"encoded as {self.layout.encoding}")
        return f"; {', '.join(found)}" if found else ""

    @property
    def _columns(self) -> list[str]:
        """What each column that is used has."""
        found = []
        roles = self.roles
        if roles.text:
            pair = ", read as a pair" if len(roles.text) == 2 else ""
            found.append(f"texts in {' and '.join(f'`{name}`' for name in roles.text)}{pair}")
        if roles.image is not None:
            where = f", relative to {roles.image.root}" if roles.image.root is not None else ""
            ending = f", without their ending {roles.image.ending}" if roles.image.ending else ""
            found.append(f"images in `{roles.image.column}`{where}{ending}")
        if roles.label is not None:
            found.append(f"{len(self.classes)} classes in `{roles.label}`: {shares(self.classes)}")
            found += [f"{self.name_file} says what the labels mean"] * bool(self.name_file)
        if roles.labels:
            found.append(f"{len(roles.labels)} labels, a column each: {listed(roles.labels)}")
        if roles.target is not None:
            found.append(f"numbers to predict in `{roles.target}`")
        used = {*roles.text, *roles.answers, *((roles.image.column,) if roles.image is not None else ())}
        if unused := tuple(name for name in self.names if name and name not in used):
            found.append(f"not used: {listed(unused)}")
        return found


def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def shares(classes: Mapping[str, int]) -> str:
    """The classes with how many samples each has, the most frequent first."""
    total = sum(classes.values())
    some = [f"{shown(name)} ({percent(count / total)})" for name, count in list(classes.items())[:6]]
    return ", ".join(some) + ", …" * (len(classes) > 6)


# -- which file


def tables_at(path: Path) -> dict[str, Path]:
    """The table of each split at a path: a file is one without a split; empty where there is none."""
    if path.is_file():
        return {"": path}
    found = split_tables(path) if path.is_dir() else {}
    if "train" not in found:
        return {}
    return {split: files[0] for split, files in found.items()}


def look_at_table(path: Path, options: TableOptions) -> TableLook:
    """What the table at a path is; a NotUnderstood says why no recipe can be written for it."""
    try:
        return _look(path, tables_at(path), options)
    except (BadLine, OSError, ValueError, BadSource) as problem:
        if isinstance(problem, NotUnderstood):
            raise
        reason = getattr(problem, "strerror", None) or problem
        raise NotUnderstood(f"{path} can't be read: {reason}") from None


def _look(path: Path, tables: Mapping[str, Path], options: TableOptions) -> TableLook:
    first = next(iter(tables.values()))
    layout, guesses = PLAIN, list[Guess]()
    is_text = formats().get(first.suffix.lower(), TextTable) is TextTable
    if is_text:
        found = look_at_layout(first, options)
        layout = found.layout
        guesses += [found.guess] if found.guess is not None else []
    has_header = bool(layout.header)
    columns = _columns(first, layout)
    if len(columns) == 1 and is_text and all(str(cell).startswith("__label__") for cell in columns[0].cells):
        advice = f"sed -E 's/^__label__([^ ]+) +/\\1\\t/' {typed(first)} > {typed(first.with_suffix('.tsv'))}"
        raise NotUnderstood(f"{first} has labels as fastText writes them; as a table, it can be read: {advice}")
    if len(columns) == 1 and is_text:
        raise NotUnderstood(
            f"{first} has a single column; a table has inputs and labels. --separator may say otherwise"
        )
    roles = look_at_roles(first, columns, _by_number(options, columns))
    guesses += roles.guesses
    names = tuple(column.name for column in columns)
    if is_text and not has_header:
        names, roles = (options.columns, roles) if options.columns else _renamed(names, roles)
        layout = layout._replace(columns=names)
    if is_text:
        layout = layout._replace(header="auto" if layout.has_header != bool(layout.columns) else layout.header)
    all_cells = {split: _cells(file, layout, roles) for split, file in tables.items()}
    read = {split: cells for split, cells in all_cells.items() if cells is not None}
    source = _source(path, layout, roles)
    looked = source.look()
    if skips := any(finding.is_error for finding in looked.findings):
        looked = replace(source, on_bad_file="skip").look()
    train = next(iter(read.values()))
    classes = _classes(train) if roles.label is not None else {}
    if wrong := next((finding for finding in looked.findings if finding.is_error), None):
        raise NotUnderstood("\n".join(filter(None, (wrong.fact, *wrong.notes, wrong.help))))
    name_file, class_names = _class_names(first.parent, looked.names or tuple(classes))
    if class_names:
        meanings = dict(zip(in_order(set(looked.names or classes)), class_names, strict=True))
        classes = {meanings[label]: count for label, count in classes.items()}
    return TableLook(
        path=path,
        source=formats().get(first.suffix.lower(), TextTable).SOURCE,
        layout=layout,
        names=names,
        roles=roles,
        rows=_counted(looked, read),
        classes=classes,
        class_names=class_names,
        name_file=name_file,
        is_all=all(len(cells) < MOST_ROWS for cells in read.values()),
        has_header=has_header,
        facts=tuple(_repeated(read)) if roles.text else (),
        findings=looked.findings,
        guesses=tuple(guesses),
        skips=skips,
    )


def _columns(file: Path, layout: Layout) -> list[Column]:
    """All columns with some of their cells, from the whole file where that is quick."""
    table = open_table(file, layout)
    names = [name or COLUMN.format(at) for at, name in enumerate(table.columns(), 1)]
    if isinstance(table, TextTable):
        table.layout = layout._replace(columns=tuple(names))
    most = MOST_ROWS if os.path.getsize(file) <= MOST and isinstance(table, TextTable) else SOME
    rows = [cells for _, cells in islice(table.rows(names), most)]
    if not rows:
        raise NotUnderstood(f"{file} has no rows")
    some = rows[:: max(1, len(rows) // SOME)]
    return [Column(name=name, cells=tuple(row[at] for row in some)) for at, name in enumerate(names)]


def _by_number(options: TableOptions, columns: Sequence[Column]) -> TableOptions:
    """The same with names in place of numbers of columns, which may be given where there are no names."""
    names = [column.name for column in columns]
    if options.columns:
        names = list(options.columns)

    def name(given: str | None) -> str | None:
        if given is None or given in names or not given.isdecimal() or not 1 <= int(given) <= len(names):
            return given
        return names[int(given) - 1]

    return replace(
        options,
        text=tuple(filter(None, map(name, options.text))),
        image=name(options.image),
        label=name(options.label),
        labels=tuple(filter(None, map(name, options.labels))),
        target=name(options.target),
    )


def _renamed(names: Sequence[str], roles: Roles) -> tuple[tuple[str, ...], Roles]:
    """Names for the columns of a table without a header, by what they have."""
    called = dict.fromkeys(roles.text, "text")
    if len(roles.text) == 2:
        called = {roles.text[0]: "text1", roles.text[1]: "text2"}
    called |= {roles.image.column: "image"} if roles.image is not None else {}
    called |= {roles.label: "label"} if roles.label else {roles.target: "target"} if roles.target else {}
    image = roles.image
    return tuple(called.get(name, name) for name in names), Roles(
        text=tuple(called[name] for name in roles.text),
        image=None if image is None else Images(column=called[image.column], root=image.root, ending=image.ending),
        label=called.get(roles.label or ""),
        labels=roles.labels,
        target=called.get(roles.target or ""),
        other_texts=roles.other_texts,
        guesses=roles.guesses,
    )


def _source(path: Path, layout: Layout, roles: Roles) -> Table:
    """The table as the recipe reads it."""
    images = roles.image
    return Table(
        path,
        str(path),
        _reader(roles),
        image=images.column if images is not None else None,
        text=(roles.text[0] if len(roles.text) == 1 else roles.text) or None,
        root=images.root if images is not None else None,
        ending=images.ending if images is not None else "",
        separator=layout.separator,
        header=layout.header,
        columns=layout.columns,
        quote=layout.quote,
        encoding=layout.encoding,
    )


def _reader(roles: Roles) -> TargetReader:
    if roles.label is not None:
        from leaven.tasks.classification.target import Label

        return Label(roles.label)
    if roles.target is not None:
        from leaven.tasks.regression.target import Numbers

        return Numbers(roles.target)
    from leaven.tasks.multilabel.target import Labels

    return Labels(roles.labels)


# -- what is in it


Cells = list[tuple[Any, Any]]  # of each row: its input, and what is to be predicted


def _cells(file: Path, layout: Layout, roles: Roles) -> Cells | None:
    """The input and the answer of each row; None where a table has no answers."""
    table = open_table(file, layout, is_lenient=True)
    inputs = roles.text if roles.text else ()
    wanted = (*inputs, *roles.answers)
    try:
        if not set(wanted) <= set(table.columns()):
            return None
    except WrongWidth:
        return None
    count = len(inputs)
    return [(cells[:count], cells[count:]) for _, cells in islice(table.rows(wanted), MOST_ROWS)]


def _classes(cells: Cells) -> dict[str, int]:
    counts = Counter(str(answer[0]) for _, answer in cells if answer[0] not in (None, ""))
    return dict(counts.most_common())


def _counted(looked: Looked, read: Mapping[str, Cells]) -> dict[str, int]:
    return dict(looked.counts) or {split: len(cells) for split, cells in read.items()}


def _repeated(read: Mapping[str, Cells]) -> list[str]:
    """That texts are there more than once, in a split or in several."""
    found = []
    seen: dict[str, dict[Any, set[Any]]] = {}
    repeated = conflicting = 0
    for split, cells in read.items():
        there: dict[Any, set[Any]] = {}
        for text, answer in cells:
            if not any(text):
                continue
            repeated += text in there
            there.setdefault(text, set()).add(answer)
        conflicting += sum(len(answers) > 1 for answers in there.values())
        for other, earlier in seen.items():
            if both := len(there.keys() & earlier.keys()):
                texts = f"{both:,} texts of {split} are" if both > 1 else f"a text of {split} is"
                found.append(f"{texts} also in {other}: scores on them say little")
        seen[split] = there
    if repeated:
        several = f"; {conflicting:,} with different labels" if conflicting else ""
        found.insert(0, f"{repeated:,} row{'s repeat texts' if repeated > 1 else ' repeats a text'}{several}")
    return found


def _class_names(folder: Path, labels: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """A file beside the table that names classes whose labels are numbers from 0 or 1, and the names in their order."""
    count = len(labels)
    if not count or not any(set(labels) == set(map(str, range(first, first + count))) for first in (0, 1)):
        return "", ()
    for file in NAME_FILES:
        try:
            lines = (folder / file).read_text(UTF8).split("\n")
        except (OSError, UnicodeDecodeError):
            continue
        named = [" ".join(line.split()) for line in lines if line.strip()]
        if len(named) == len(set(named)) == count:
            return file, tuple(named)
    return "", ()

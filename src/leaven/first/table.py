"""A look at a table of texts or images: its layout, the roles of its columns, its classes, splits and repeated rows.

Also at a folder with a table for each split, or with one table that lists its images. The recipe is written in
`recipes.py`.
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from leaven.first.layout import MOST, look_at_layout
from leaven.first.options import Guess, NotUnderstood, TableOptions, seen_in
from leaven.first.roles import Column, Roles, listed, look_at_roles
from leaven.formats.finding import BadSource, Finding
from leaven.formats.listing import both, in_code, some
from leaven.formats.tables import PLAIN, BadLine, Layout, WrongWidth, formats, open_table, split_tables
from leaven.formats.tables.csv_file import COLUMN, UTF8
from leaven.formats.tables.csv_file import Table as TextTable
from leaven.formats.target import TargetReader, plain, shown
from leaven.language.record import Record
from leaven.sources.source import SourceFacts
from leaven.sources.table import Table
from leaven.tasks.classification.target import in_order
from leaven.terminal.commands import typed

SOME = 1000  # rows that tell what columns have
MOST_ROWS = 300_000  # that are counted
NAMES = {" ": "spaces", ",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
MOST_NAME_FILES = 5  # in JSON
LARGEST_NAMES = 100_000  # bytes of one
NAME_FILES = ("classes.txt", "labels.txt", "class_names.txt")  # what classes with numbers are called


class TableLook(Record):
    """The content of a table, or of a folder of them."""

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
    facts: tuple[str, ...] = ()  # other lines for people
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
        """The lines that `leaven new` prints about the table."""
        more = "" if self.is_all else "the first "
        splits = {split: count for split, count in self.rows.items() if split}
        counted = ", ".join(f"{split} {count:,}" for split, count in splits.items())
        lines = [f"{self.path}: {more}{self.total:,} rows{f' ({counted})' if splits else ''}{self._laid_out}"]
        lines += [f"  {what}" for what in self._columns]
        lines += seen_in(self.findings)
        lines += self.facts
        lines += [f"guessed: {guess.explanation}; {guess.option} says otherwise" for guess in self.guesses]
        return "\n".join(lines)

    @property
    def _laid_out(self) -> str:
        facts = []
        if self.layout.separator is not None:
            facts.append(f"separated by {NAMES.get(self.layout.separator, repr(self.layout.separator))}")
        if not self.has_header:
            facts.append("without a header")
        if self.layout.quote is None:
            facts.append("quotes are part of the text")
        if self.layout.encoding != PLAIN.encoding:
            facts.append(f"encoded as {self.layout.encoding}")
        return f"; {', '.join(facts)}" if facts else ""

    @property
    def _columns(self) -> list[str]:
        """A line for each role, with the columns that have it."""
        found = []
        roles = self.roles
        if roles.text:
            pair = ", read as a pair" if len(roles.text) == 2 else ""
            found.append(f"texts in {both(in_code(roles.text))}{pair}")
        if roles.image is not None:
            where = f", relative to {roles.image.root}" if roles.image.root is not None else ""
            ending = f", without their ending {roles.image.ending}" if roles.image.ending else ""
            found.append(f"images in `{roles.image.column}`{where}{ending}")
        if roles.label is not None:
            found.append(f"{len(self.classes)} classes in `{roles.label}`: {shares(self.classes)}")
            found += [f"{self.name_file} says what the labels mean"] * bool(self.name_file)
        if len(roles.labels) == 1:
            between = NAMES.get(roles.label_separator, repr(roles.label_separator))
            separated = f", separated by {between}" if roles.label_separator else ""
            found.append(f"labels in `{roles.labels[0]}`, several in a row{separated}")
        elif roles.labels:
            found.append(f"{len(roles.labels)} labels, a column each: {listed(roles.labels)}")
        if roles.target is not None:
            comma = ", with a decimal comma" if roles.decimal == "," else ""
            found.append(f"numbers to predict in `{roles.target}`{comma}")
        used = {*roles.text, *roles.answers, *((roles.image.column,) if roles.image is not None else ())}
        if unused := tuple(name for name in self.names if name and name not in used):
            found.append(f"not used: {listed(unused)}")
        return found


def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def shares(classes: Mapping[str, int]) -> str:
    """The classes with how many samples each has, the most frequent first."""
    total = sum(classes.values())
    return some([f"{shown(name)} ({percent(count / total)})" for name, count in classes.items()], 6)


def tables_at(path: Path) -> dict[str, Path]:
    """The table of each split at a path: a file is one without a split; empty where there is none."""
    if path.is_file():
        return {"": path}
    tables = split_tables(path) if path.is_dir() else {}
    return {split: files[0] for split, files in tables.items()} if "train" in tables else {}


def look_at_table(path: Path, options: TableOptions) -> TableLook:
    """A look at the table at a path; a NotUnderstood says why no recipe can be written for it."""
    try:
        return _look(path, tables_at(path), options)
    except (BadLine, OSError, ValueError, BadSource) as problem:
        if isinstance(problem, NotUnderstood):
            raise
        reason = getattr(problem, "strerror", None) or problem
        raise NotUnderstood(f"{path} can't be read: {reason}") from None


def _look(path: Path, tables: Mapping[str, Path], options: TableOptions) -> TableLook:
    first = next(iter(tables.values()))
    table_format = formats().get(first.suffix.lower(), TextTable)
    is_text = table_format is TextTable
    layout, guess = look_at_layout(first, options) if is_text else (PLAIN, None)
    has_header = bool(layout.header)
    columns = _columns(first, layout)
    if is_text and len(columns) == 1:
        raise NotUnderstood(_single_column(first, columns[0]))
    roles = look_at_roles(first, columns, _by_number(options, columns))
    names = tuple(column.name for column in columns)
    if is_text and not has_header:
        names, roles = (options.columns, roles) if options.columns else _renamed(names, roles)
        layout = layout._replace(columns=names)
    if is_text:
        layout = layout._replace(header="auto" if layout.has_header != bool(layout.columns) else layout.header)
    all_cells = {split: _cells(file, layout, roles) for split, file in tables.items()}
    read = {split: cells for split, cells in all_cells.items() if cells is not None}
    source, skips = _checked(_source(path, layout, roles))
    training = next(iter(read.values())) if roles.label is not None else []
    labels = Counter(str(plain(answer[0])) for _, answer in training if answer[0] not in (None, ""))
    classes = dict(labels.most_common())
    name_file, class_names = _class_names(first.parent, source.names or tuple(classes))
    if class_names:
        meanings = dict(zip(in_order(set(source.names or classes)), class_names, strict=True))
        classes = {meanings[label]: count for label, count in classes.items()}
    return TableLook(
        path=path,
        source=table_format.SOURCE,
        layout=layout,
        names=names,
        roles=roles,
        rows=dict(source.counts) or {split: len(cells) for split, cells in read.items()},
        classes=classes,
        class_names=class_names,
        name_file=name_file,
        is_all=all(len(cells) < MOST_ROWS for cells in read.values()),
        has_header=has_header,
        facts=tuple(_repeated(read)) if roles.text else (),
        findings=source.findings,
        guesses=tuple(filter(None, (guess, *roles.guesses))),
        skips=skips,
    )


def _single_column(file: Path, column: Column) -> str:
    """Why a text file with one column can't be used."""
    if all(str(cell).startswith("__label__") for cell in column.cells):
        advice = f"sed -E 's/^__label__([^ ]+) +/\\1\\t/' {typed(file)} > {typed(file.with_suffix('.tsv'))}"
        return f"{file} has labels as fastText writes them; as a table, it can be read: {advice}"
    return f"{file} has a single column; a table has inputs and labels. --separator may say otherwise"


def _checked(source: Table) -> tuple[SourceFacts, bool]:
    """The facts of a table, and whether unusable rows have to be skipped for them."""
    facts, skips = source.look(), False
    if any(finding.is_error for finding in facts.findings):
        facts, skips = replace(source, on_bad_file="skip").look(), True
    if wrong := next((finding for finding in facts.findings if finding.is_error), None):
        raise NotUnderstood(wrong.text)
    return facts, skips


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
    rows = rows[:: max(1, len(rows) // SOME)]
    return [Column(name=name, cells=tuple(row[at] for row in rows)) for at, name in enumerate(names)]


def _by_number(options: TableOptions, columns: Sequence[Column]) -> TableOptions:
    """The options with names of columns in place of their numbers, which may be given where there are no names."""
    names = options.columns or [column.name for column in columns]

    def name(given: str | None) -> str | None:
        if given is None or given in names or not given.isdecimal() or not 1 <= int(given) <= len(names):
            return given
        return names[int(given) - 1]

    named: dict[str, Any] = {field: name(getattr(options, field)) for field in ("image", "label", "target")}
    named |= {field: tuple(filter(None, map(name, getattr(options, field)))) for field in ("text", "labels")}
    return replace(options, **named)


def _renamed(names: Sequence[str], roles: Roles) -> tuple[tuple[str, ...], Roles]:
    """Names for the columns of a table without a header, by what they have."""
    called = dict.fromkeys(roles.text, "text")
    if len(roles.text) == 2:
        called = {roles.text[0]: "text1", roles.text[1]: "text2"}
    called |= {roles.image.column: "image"} if roles.image is not None else {}
    called |= {roles.label: "label"} if roles.label else {roles.target: "target"} if roles.target else {}
    return tuple(called.get(name, name) for name in names), replace(
        roles,
        text=tuple(called[name] for name in roles.text),
        image=None if roles.image is None else replace(roles.image, column=called[roles.image.column]),
        label=called.get(roles.label or ""),
        target=called.get(roles.target or ""),
    )


def _source(path: Path, layout: Layout, roles: Roles) -> Table:
    """The table as the recipe reads it."""
    if (images := roles.image) is not None:
        inputs: dict[str, Any] = {"image": images.column, "root": images.root, "ending": images.ending}
    else:
        inputs = {"text": roles.text}
    return Table(path, str(path), _reader(roles), layout=layout, **inputs)


def _reader(roles: Roles) -> TargetReader:
    if roles.label is not None:
        from leaven.tasks.classification.target import Label

        return Label(roles.label)
    if roles.target is not None:
        from leaven.tasks.regression.target import Numbers

        return Numbers(roles.target, roles.decimal)
    from leaven.tasks.multilabel.target import SEPARATOR, Labels

    return Labels(roles.labels, roles.label_separator or SEPARATOR)


Cells = list[tuple[Any, Any]]  # of each row: its input, and what is to be predicted


def _cells(file: Path, layout: Layout, roles: Roles) -> Cells | None:
    """The input and the answer of each row; None where a table has no answers."""
    table = open_table(file, layout, is_lenient=True)
    wanted = (*roles.text, *roles.answers)
    try:
        if not set(wanted) <= set(table.columns()):
            return None
    except WrongWidth:
        return None
    count = len(roles.text)
    return [(cells[:count], cells[count:]) for _, cells in islice(table.rows(wanted), MOST_ROWS)]


def _repeated(read: Mapping[str, Cells]) -> list[str]:
    """Lines about texts that are there more than once, in a split or in several."""
    lines = []
    seen: dict[str, dict[Any, set[str]]] = {}
    repeated = conflicting = 0
    for split, cells in read.items():
        there: dict[Any, set[str]] = {}
        for text, answer in cells:
            if not any(text):
                continue
            repeated += text in there
            there.setdefault(text, set()).add(str(answer))  # which may be a list
        conflicting += sum(len(answers) > 1 for answers in there.values())
        for other, earlier in seen.items():
            if both := len(there.keys() & earlier.keys()):
                texts = f"{both:,} texts of {split} are" if both > 1 else f"a text of {split} is"
                lines.append(f"{texts} also in {other}: scores on them say little")
        seen[split] = there
    if repeated:
        several = f"; {conflicting:,} with different labels" if conflicting else ""
        row = f"{repeated:,} row{'s repeat texts' if repeated > 1 else ' repeats a text'}"
        leak = ", so the same text can be in training and in validation" if list(read) == [""] else ""
        lines.insert(0, f"{row}{leak}{several}")
    return lines


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
    for path in sorted(folder.glob("*.json"))[:MOST_NAME_FILES]:
        if found := _names_in_json(path, labels):
            return path.name, found
    return "", ()


def _names_in_json(file: Path, labels: Collection[str]) -> tuple[str, ...]:
    """The names of labels in their order, where a file is an object that maps these to names, or names to them."""
    try:
        content = json.loads(file.read_text(UTF8)) if file.stat().st_size <= LARGEST_NAMES else None
    except (OSError, ValueError, RecursionError):
        return ()
    if not isinstance(content, dict):
        return ()
    turned = {str(label): str(name) for name, label in content.items()}
    for names in ({str(label): str(name) for label, name in content.items()}, turned):
        if names.keys() == set(labels) and len(set(names.values())) == len(names):
            return tuple(" ".join(names[label].split()) for label in in_order(set(labels)))
    return ()

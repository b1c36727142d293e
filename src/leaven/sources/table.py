"""Images or texts that a table lists, one per row, with their labels; or one table per split."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from leaven.formats.finding import BadSource, Finding
from leaven.formats.tables import BadLine, Embedded, TableFile, formats, metadata_tables, open_table, split_tables
from leaven.formats.target import BadTarget, Target, TargetReader, Value, shown
from leaven.formats.texts import text_fault
from leaven.sources.copies import copies
from leaven.sources.source import Looked, Samples, class_counts, predefined

LARGEST_LOOK = 50_000_000  # bytes: a look at more takes too long
LISTED = 8
FILE_NAME = "file_name"  # as in other libraries that read such folders
_COLUMN = "in this column"
TEXT = ".csv"  # a file with an unknown ending is read as one with this


class _Row(NamedTuple):
    place: str  # "line 7 of `faces.csv`"
    input: Any  # the image, or the texts; None where it was not read
    given: Any  # the label


@dataclass(frozen=True)
class Table:
    """A table of images or texts. `name` is what findings call its file or folder; `endings` are what its files may
    end in. `text` has one column, or two whose texts are read together."""

    path: Path
    name: str
    target: TargetReader
    image: str | None = None
    text: str | Sequence[str] | None = None
    root: Path | None = None
    separator: str | None = None
    endings: tuple[str, ...] = ()
    is_metadata: bool = False  # whether the table is inside of the folder of images
    skips_bad: bool = False  # whether texts that can't be used are left out; otherwise they are errors

    def look(self) -> Looked:
        """What is known before training; of the images, only the first is looked for."""
        splits: tuple[str, ...] = ()
        try:
            self._check_choice()
            tables, ignored = self._labelled(self._tables())
            splits = tuple(split for split in tables if split)
            rows = {split: self._rows(file, is_look=True) for split, file in tables.items()}
            if not all(map(bool, rows.values())):
                return Looked((), splits)
            target, values = self._read(rows)
            self._check_first_image(tables, rows)
            counts = {split: len(there) for split, there in rows.items()}
            doubts = (*self._unseen(target, values, counts), *self._doubts(target, values))
            findings = (*ignored, *self._unusable(rows), *doubts, *self._repeated(rows, values))
            return Looked(target.names, splits, findings, counts, class_counts(target, values))
        except BadSource as bad:
            return Looked((), splits, (bad.finding,))

    def open(self) -> Samples:
        """All samples; a BadSource where they can't be read."""
        self._check_choice()
        tables, ignored = self._labelled(self._tables())
        rows = {split: self._rows(file) for split, file in tables.items()}
        target, values = self._read(rows)
        sizes = {split: len(there) for split, there in rows.items()}
        if self._is_text:
            every = [row for split in rows.values() for row in split]
            texts = [row.input for row in every]
            places = [row.place.replace("`", "") for row in every]
            return Samples(target, values, places, predefined(sizes), findings=ignored, texts=texts)
        self._check_first_image(tables, rows)
        files, images = [], []
        for split, file in tables.items():
            root = self._root(file)
            for row in rows[split]:
                is_inside = isinstance(row.input, Embedded)
                files.append((row.input.name or row.place) if is_inside else str(root / row.input))
                images.append(row.input.content if is_inside else None)
        findings = (*ignored, *copies(files, values)) if not any(images) else ignored
        return Samples(target, values, files, predefined(sizes), images if any(images) else None, findings)

    def _check_first_image(self, tables: Mapping[str, Path], rows: Mapping[str, Sequence[_Row]]) -> None:
        """A table with the wrong root is found by its first image."""
        split, file = next(iter(tables.items()))
        image = rows[split][0].input
        if self._is_text or not isinstance(image, str) or os.path.exists(place := self._root(file) / image):
            return
        fact = f"`{_from_here(place)}`, the first image of `{self.name}`, does not exist"
        help = "say where the paths start: `root=`" if self.root is None else ""
        label = "paths start in the folder of this table" if self.root is None else "paths start in this folder"
        raise BadSource(Finding("missing-file", fact, help, argument="root", label=label))

    @property
    def _inputs(self) -> tuple[str, ...]:
        """The columns with what the model sees."""
        return text_columns(self.text) if self.text is not None else (self.image or FILE_NAME,)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the inputs."""
        return self._inputs

    @property
    def _is_text(self) -> bool:
        return self.text is not None

    @property
    def _column(self) -> str:
        return self._inputs[0]

    @property
    def _input(self) -> str:
        return "text" if self._is_text else "image"

    @property
    def _argument(self) -> str:
        return "path" if self.is_metadata else "file"

    def _root(self, file: Path) -> Path:
        """Where the paths in a table start."""
        return self.root or (self.path if self.path.is_dir() and not self.is_metadata else file.parent)

    def _named(self, file: Path) -> str:
        return self.name if file == self.path else f"{self.name}/{file.relative_to(self.path).as_posix()}"

    def _tables(self) -> dict[str, Path]:
        """The file of each split; a single table is the split ''."""
        if not self.path.is_dir():
            self._check_format(self.path)
            return {"": self.path}
        found = metadata_tables(self.path) if self.is_metadata else split_tables(self.path)
        for tables in found.values():
            if len(tables) > 1:
                both = " and ".join(f"`{file.relative_to(self.path).as_posix()}`" for file in tables)
                fact = f"`{self.name}` has both {both}, which are the same split"
                raise self._bad(Finding("repeated-split", fact, "keep one of them"))
        if not found.keys() & {"", "train"}:
            wanted = f"{'metadata' if self.is_metadata else 'train'}{self.endings[0] if self.endings else TEXT}"
            help = f"list the images in it, with the columns `{self._column}` and {_columns(self.target.columns)}"
            raise self._bad(Finding("missing-file", f"`{self.name}` has no `{wanted}`", help))
        for tables in found.values():
            self._check_format(tables[0])
        return {split: tables[0] for split, tables in found.items()}

    def _labelled(self, tables: Mapping[str, Path]) -> tuple[dict[str, Path], tuple[Finding, ...]]:
        """The tables with labels; a test table without any is left out, as a test folder without classes is."""
        kept, findings = dict(tables), []
        for split, file in tables.items():
            if split not in ("", "train") and self._has_no_labels(file):
                del kept[split]
                fact = f"`{self._named(file)}` has no column {_columns(self.target.columns)} and is ignored"
                help = "add the labels to evaluate on it; images without labels are for `leaven predict`"
                argument, label = self.target.argument, _COLUMN
                findings.append(Finding("unknown-column", fact, help, is_error=False, argument=argument, label=label))
        return kept, tuple(findings)

    def _has_no_labels(self, file: Path) -> bool:
        try:
            there = self._open(file).columns()
        except (OSError, ValueError, BadLine):  # reported when its rows are read
            return False
        return set(self._inputs) <= set(there) and not set(there) & set(self.target.columns)

    def _check_choice(self) -> None:
        """There are columns with labels, each named once, and none of them is that of the images."""
        columns = tuple(self.target.columns)
        if self._is_text and len(self._inputs) not in (1, 2):
            fact = f"a text has one part or two, and `text` names {len(self._inputs) or 'no'} columns"
            label = "one column, or two"
            raise BadSource(Finding("wrong-columns", fact, f"name {label}", argument="text", label=label))
        if both := [column for column in self._inputs if column in columns]:
            fact = f"the column `{both[0]}` is named as {self._input} and as {self.target.argument}"
            help = f"name the column with the labels by `{self.target.argument}=`"
            label = f"it has the {self._input}s"
            raise BadSource(Finding("wrong-columns", fact, help, argument=self.target.argument, label=label))
        twice = next((column for at, column in enumerate(columns) if column in columns[:at]), None)
        if columns and twice is None:
            return
        fact = f"the column `{twice}` is named twice" if columns else "no column is named"
        argument, label = self.target.argument, "each once" if columns else "an empty list"
        raise BadSource(Finding("wrong-columns", fact, "name every column once", argument=argument, label=label))

    def _check_format(self, file: Path) -> None:
        """The name of a file says how it is read, in a check and in training."""
        ending = file.suffix.lower()
        if not self.endings or ending in self.endings:
            return
        fact, help = f"the name of `{self._named(file)}` does not end in {' or '.join(self.endings)}", "rename the file"
        if ending in formats():
            fact = f"`{self._named(file)}` is not a {' or '.join(self.endings)} file"
            help = f"write `{formats()[ending].SOURCE}(…)` instead of `{formats()[self.endings[0]].SOURCE}(…)`"
        elif TEXT in self.endings:
            return
        raise self._bad(Finding("wrong-format", fact, help))

    def _rows(self, file: Path, *, is_look: bool = False) -> list[_Row]:
        """The rows of a table. A look leaves out images or labels that take too long to read."""
        name = self._named(file)
        labels = tuple(self.target.columns)
        try:
            table = self._open(file)
            self._check_columns(table, (*self._inputs, *labels), name)
            has_inputs = not is_look or table.size((*self._inputs, *labels)) <= LARGEST_LOOK
            if not has_inputs and table.size(labels) > LARGEST_LOOK:
                return []
            columns = (*self._inputs, *labels) if has_inputs else labels
            rows = [(f"{place} of `{name}`", *cells) for place, cells in table.rows(columns)]
        except FileNotFoundError:
            raise self._bad(Finding("missing-file", f"`{name}` does not exist")) from None
        except BadLine as bad:
            raise self._bad(Finding("wrong-format", f"{bad.place} of `{name}` {bad.fact}")) from None
        except UnicodeDecodeError:
            raise self._bad(Finding("not-utf8", f"`{name}` is not UTF-8 text", _how_to_convert(file, name))) from None
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise self._bad(Finding("missing-file", f"`{name}` can't be read: {reason}")) from None
        if not rows:
            raise self._bad(Finding("empty-table", f"`{name}` has no rows"))
        if not has_inputs:
            return [_Row(place, None, _given(cells)) for place, *cells in rows]
        return [self._row(*row) for row in rows]

    def _row(self, place: str, *cells: Any) -> _Row:
        inputs, labels = cells[: len(self._inputs)], cells[len(self._inputs) :]
        for column, cell in zip(self._inputs, inputs, strict=True):
            if not self._is_text and (cell is None or cell == ""):
                raise BadSource(Finding("missing-file", f"{place} has no image", argument=self._input, label=_COLUMN))
            if not isinstance(cell, (str | None) if self._is_text else (str | Embedded)):
                wanted = "a string" if self._is_text else "a file name"
                fact = f"{place}: `{column}` must be {wanted}, not {shown(cell)}"
                raise BadSource(Finding("wrong-format", fact, argument=self._input, label=_COLUMN))
        if not self._is_text:
            return _Row(place, inputs[0], _given(labels))
        texts = tuple(cell or "" for cell in inputs)
        return _Row(place, texts[0] if len(texts) == 1 else texts, _given(labels))

    def _open(self, file: Path) -> TableFile:
        """The table in a file; where bad texts are skipped, so are those in another encoding."""
        return open_table(file, self.separator, is_lenient=self.skips_bad and self._is_text)

    def _unusable(self, rows: Mapping[str, Sequence[_Row]]) -> Iterator[Finding]:
        """That texts are empty or broken: an error, unless they are to be skipped."""
        if not self._is_text:
            return
        bad = [(row.place, fault) for split in rows.values() for row in split if (fault := text_fault(row.input))]
        if not bad:
            return
        place, fault = bad[0]
        others = f"; {len(bad) - 1:,} more can't be used either" if len(bad) > 1 else ""
        count = f"{len(bad):,} rows are" if len(bad) > 1 else "a row is"
        fact = f"{count} skipped: {place} {fault}" if self.skips_bad else ""
        help = "fill it in or remove the line; `on_bad_file skip` in the data block goes on without"
        yield Finding(
            "empty-text",
            fact or f"{place} {fault}{others}",
            "" if self.skips_bad else help,
            is_error=not self.skips_bad,
            argument="text",
            label=_COLUMN,
        )

    def _check_columns(self, table: TableFile, wanted: Sequence[str], name: str) -> None:
        there = table.columns()
        if not there:
            raise self._bad(Finding("empty-table", f"`{name}` is empty"))
        for column in wanted:
            if list(there).count(column) > 1:
                fact = f"`{name}` has two columns with the name `{column}`"
                raise self._bad(Finding("wrong-format", fact, "rename one of them"))
            if column not in there:
                listed = _columns(there[:LISTED])
                argument = self._input if column in self._inputs else self.target.argument
                raise BadSource(
                    Finding(
                        "unknown-column",
                        f"`{name}` has no column `{column}`",
                        f"its columns are {listed}; name one by `{argument}=`",
                        argument=argument,
                        label=f"the columns are {listed}",
                        wrong=column,
                        choices=tuple(there),
                    )
                )

    def _read(self, rows: Mapping[str, Sequence[_Row]]) -> tuple[Target, list[Value]]:
        every = [row for split in rows.values() for row in split]
        try:
            return self.target.read([row.given for row in every])
        except BadTarget as bad:
            place = f"`{self.name}`" if bad.at is None else every[bad.at].place
            fact = f"{place} {bad.fact}"
            raise BadSource(Finding(bad.id, fact, bad.help, argument=self.target.argument, label=_COLUMN)) from None

    def _unseen(self, target: Target, values: Sequence[Value], counts: Mapping[str, int]) -> Iterator[Finding]:
        """That a split has classes that are not trained. A warning, as a recipe may split the data anew."""
        there = {split: [values[at] for at in members] for split, members in predefined(counts).items()}
        for split, others in there.items():
            if unseen := target.unseen(there.get("train", others), others):
                fact = f"{split} of `{self.name}` has {unseen}, which train does not have"
                help, argument = "fix the spelling, or add it to train; a run stops here", self.target.argument
                yield Finding("wrong-label", fact, help, is_error=False, argument=argument, label=_COLUMN)

    def _doubts(self, target: Target, values: Sequence[Value]) -> tuple[Finding, ...]:
        """What is probably not meant, as a warning."""
        doubt = self.target.doubt(target, values)
        if doubt is None:
            return ()
        fact, argument = f"`{self.name}` {doubt.fact}", self.target.argument
        return (Finding("unlikely-labels", fact, doubt.help, is_error=False, argument=argument, label=_COLUMN),)

    def _repeated(self, rows: Mapping[str, Sequence[_Row]], values: Sequence[Value]) -> tuple[Finding, ...]:
        """That images are listed in several rows."""
        every = [row for split in rows.values() for row in split]
        places: dict[str, list[int]] = {}
        for at, row in enumerate(every):
            if isinstance(row.input, str) and not self._is_text:
                places.setdefault(row.input, []).append(at)
        repeated = {image: there for image, there in places.items() if len(there) > 1}
        if not repeated:
            return ()
        conflicting = {image: there for image, there in repeated.items() if len({values[at] for at in there}) > 1}
        told = conflicting or repeated
        image, there = next(iter(told.items()))
        counted = f"{len(told):,} images, such as `{image}`," if len(told) > 1 else f"the image `{image}`"
        fact = f"`{self.name}` lists {counted} {'with different labels' if conflicting else 'more than once'}"
        help = "list each image once; otherwise the same image can be in training and in validation"
        if conflicting:
            help = "give each image one label; if an image can have several, write them into one row, and `labels=`"
        where = " and ".join(every[at].place for at in there[:2])
        argument, label = self._argument, "images are listed in this table"
        note = f"`{image}` is in {where}"
        return (Finding("repeated-image", fact, help, (note,), is_error=False, argument=argument, label=label),)

    def _bad(self, finding: Finding) -> BadSource:
        """A finding about the file or folder as a whole."""
        label = f"the table is read from this {'folder' if self.path.is_dir() else 'file'}"
        return BadSource(finding._replace(argument=self._argument, label=label))


def metadata_folder(folder: Path, name: str, target: TargetReader) -> Table:
    """A folder of images that a table in it lists: `metadata.csv`, with the column `file_name`.

    Splits are folders with a table each: `train/metadata.csv`.
    """
    return Table(folder, name, target, FILE_NAME, is_metadata=True)


def text_columns(text: str | Sequence[str]) -> tuple[str, ...]:
    """The columns whose texts a model reads together."""
    return (text,) if isinstance(text, str) else tuple(text)


def _columns(columns: Sequence[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _from_here(place: Path) -> str:
    """A path as people type it: from the working directory, unless that is longer."""
    try:
        return min(os.path.relpath(place), str(place), key=len)
    except ValueError:  # on another drive
        return str(place)


def _given(cells: Sequence[Any]) -> Any:
    """The label of a row: one cell, or several."""
    cells = [cell.content if isinstance(cell, Embedded) else cell for cell in cells]
    return cells[0] if len(cells) == 1 else tuple(cells)


def _how_to_convert(file: Path, name: str) -> str:
    """How a text in another encoding becomes UTF-8: one in UTF-16 begins with a mark, others are usually Latin-1."""
    with open(file, "rb") as content:
        encoding = "utf-16" if content.read(2) in (b"\xff\xfe", b"\xfe\xff") else "latin1"
    place, new = shlex.quote(name), shlex.quote(f"{name.removesuffix(file.suffix)}-utf8{file.suffix}")
    return f"convert it, for example: `iconv -f {encoding} -t utf-8 {place} > {new}`"

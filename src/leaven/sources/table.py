"""Images or texts that a table lists, one per row, with their labels; or one table per split."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from leaven.formats.finding import About, BadSource, Finding
from leaven.formats.tables import (
    PLAIN,
    TEXT,
    BadLine,
    Embedded,
    Layout,
    NotUtf8,
    OneList,
    StrayQuote,
    TableFile,
    WrongWidth,
    formats,
    metadata_tables,
    open_table,
    split_tables,
)
from leaven.formats.tables.csv_file import NO_QUOTES, likely_encoding
from leaven.formats.tables.csv_file import Table as TextTable
from leaven.formats.tables.jsonl_file import is_one_list
from leaven.formats.target import BadTarget, Target, TargetReader, Value, shown
from leaven.formats.texts import text_columns
from leaven.sources.columns import IN_COLUMN, SKIPPING, ImageColumn, InputColumns, Row, TextColumns, skipped
from leaven.sources.source import OnBadFile, Samples, SourceFacts, class_counts, joined, predefined

LARGEST_LOOK = 50_000_000  # bytes: a look at more takes too long
LISTED = 8
LONGEST_NAME = 60  # characters of a column's name
NO_HEADER = "the first line names the columns; for a table without a header, `columns=[…]` does"
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
FILE_NAME = "file_name"  # as in other libraries that read such folders
Rows = dict[str, list[Row]]  # of each split


def table_as_written(path: Path, name: str, target: TargetReader, **arguments: Any) -> "Table":
    """A table by the arguments that recipes have for it, those of its layout among them."""
    laid_out = {field: arguments.pop(field) for field in Layout._fields if field in arguments}
    columns = tuple(laid_out.pop("columns", None) or ())
    return Table(path, name, target, layout=Layout(columns=columns, **laid_out), **arguments)


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
    ending: str = ""  # of image files, where the table leaves it out
    layout: Layout = PLAIN
    endings: tuple[str, ...] = ()
    is_metadata: bool = False  # whether the table is inside of the folder of images
    on_bad_file: OnBadFile = "stop"  # at rows without a label, and at texts that can't be used

    def look(self) -> SourceFacts:
        """The facts that are known before training; of the images, only the first is looked for."""
        splits: tuple[str, ...] = ()
        unusable: tuple[Finding, ...] = ()
        try:
            self._check_choice()
            tables, ignored = self._labelled(self._tables())
            splits = tuple(split for split in tables if split)
            rows, doubted = self._all_rows(tables, is_look=True)
            if not all(map(bool, rows.values())):
                return SourceFacts((), splits)
            unusable = tuple(self.inputs.unusable(joined(rows)[0], skips=self._skips))
            target, values, rows, left_out = self._read(rows)
            self._check_first_image(tables, rows)
        except BadSource as bad:
            return SourceFacts((), splits, (*unusable, *bad.findings))
        counts = {split: len(there) for split, there in rows.items()}
        about = About(self._about.argument, "images are listed in this table")
        repeated = self.inputs.repeated(joined(rows)[0], values, self.name, about)
        findings = (*ignored, *doubted, *unusable, *left_out, *self._doubts(target, values, counts), *repeated)
        return SourceFacts(target.names, splits, findings, counts, class_counts(target, values))

    def open(self) -> Samples:
        """All samples; a BadSource where they can't be read. Texts that can't be used are found when they're loaded."""
        self._check_choice()
        tables, ignored = self._labelled(self._tables())
        read, doubted = self._all_rows(tables)
        target, values, rows, left_out = self._read(read)
        self._check_first_image(tables, rows)
        _, splits = joined(rows)
        samples = Samples(target, values, (), splits, findings=(*ignored, *doubted, *left_out))
        return self.inputs.opened([(self._root(tables[split]), there) for split, there in rows.items()], samples)

    def sizes(self) -> dict[tuple[int, int], str]:
        """The heights and widths of the images that it lists, each with one that has it; none of those inside of it."""
        from leaven.sources.image_sizes import image_sizes

        files: list[str] = []
        try:
            for file in self._labelled(self._tables())[0].values():
                root = self._root(file)
                rows = self._rows(file, [], is_look=True)
                files += [str(root / row.input) for row in rows if isinstance(row.input, str)]
        except BadSource:  # which a look reports
            return {}
        return image_sizes(files, self.path if self.path.is_dir() else self.path.parent)

    def _check_first_image(self, tables: Mapping[str, Path], rows: Mapping[str, Sequence[Row]]) -> None:
        """A table with the wrong root is found by its first image."""
        split, file = next(iter(tables.items()))
        place = self.inputs.first_missing(rows[split], self._root(file)) if rows[split] else None
        if place is None:
            return
        shown = str(place)
        with suppress(ValueError):  # on another drive
            shown = min(os.path.relpath(place), shown, key=len)
        fact = f"`{shown}`, the first image of `{self.name}`, does not exist"
        help = "say where the paths start: `root=`" if self.root is None else ""
        label = "paths start in the folder of this table" if self.root is None else "paths start in this folder"
        raise About("root", label).error("missing-file", fact, help)

    @cached_property
    def inputs(self) -> InputColumns:
        """The columns with what the model sees."""
        if self.text is not None:
            return TextColumns(text_columns(self.text))
        return ImageColumn(self.image or FILE_NAME, self.ending)

    @property
    def _skips(self) -> bool:
        return self.on_bad_file == "skip"

    @property
    def _about(self) -> About:
        """The file or folder as a whole."""
        label = f"the table is read from this {'folder' if self.path.is_dir() else 'file'}"
        return About("path" if self.is_metadata else "file", label)

    @property
    def _about_labels(self) -> About:
        return About(self.target.argument, IN_COLUMN)

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
        by_split = metadata_tables(self.path) if self.is_metadata else split_tables(self.path)
        for tables in by_split.values():
            if len(tables) > 1:
                both = " and ".join(f"`{file.relative_to(self.path).as_posix()}`" for file in tables)
                fact = f"`{self.name}` has both {both}, which are the same split"
                raise self._about.error("repeated-split", fact, "keep one of them")
        if not by_split.keys() & {"", "train"}:
            wanted = f"{'metadata' if self.is_metadata else 'train'}{self.endings[0] if self.endings else TEXT}"
            columns = f"the columns {_columns(self.inputs.columns)} and {_columns(self.target.columns)}"
            help = f"list the {self.inputs.noun}s in it, with {columns}"
            raise self._about.error("missing-file", f"`{self.name}` has no `{wanted}`", help)
        for tables in by_split.values():
            self._check_format(tables[0])
        return {split: tables[0] for split, tables in by_split.items()}

    def _labelled(self, tables: Mapping[str, Path]) -> tuple[dict[str, Path], tuple[Finding, ...]]:
        """The tables with labels; a test table without any is left out, as a test folder without classes is."""
        kept, findings = dict(tables), []
        for split, file in tables.items():
            if split not in ("", "train") and (why := self._why_unlabelled(file)):
                del kept[split]
                fact = f"`{self._named(file)}` {why} and is ignored"
                help = f"add the labels to evaluate on it; {self.inputs.noun}s without labels are for `leaven predict`"
                findings.append(self._about_labels.warning("unknown-column", fact, help))
        return kept, tuple(findings)

    def _why_unlabelled(self, file: Path) -> str:
        """The reason why a table has no labels; empty where it may have some."""
        try:
            there = self._open(file).columns()
        except WrongWidth:
            return f"has not the {len(self.layout.columns)} columns of the others"
        except (OSError, ValueError, BadLine):  # reported when its rows are read
            return ""
        has_none = set(self.inputs.columns) <= set(there) and not set(there) & set(self.target.columns)
        return f"has no column {_columns(self.target.columns)}" if has_none else ""

    def _check_choice(self) -> None:
        """The encoding is known; columns with labels are named, each once, and apart from those of the inputs."""
        columns, argument = tuple(self.target.columns), self.target.argument
        self.inputs.check()
        try:
            "".encode(self.layout.encoding)
        except LookupError:
            fact = f"`{self.layout.encoding}` is not an encoding of text"
            help = 'usual ones are `"utf-8"`, `"cp1252"` and `"utf-16"`'
            raise About("encoding", "not known").error("wrong-value", fact, help) from None
        if both := [column for column in self.inputs.columns if column in columns]:
            fact = f"the column `{both[0]}` is named as {self.inputs.noun} and as {argument}"
            help = f"name the column with the labels by `{argument}=`"
            raise About(argument, f"it has the {self.inputs.noun}s").error("wrong-columns", fact, help)
        twice = next((column for at, column in enumerate(columns) if column in columns[:at]), None)
        if columns and twice is None:
            return
        fact = f"the column `{twice}` is named twice" if columns else "no column is named"
        about = About(argument, "each once" if columns else "an empty list")
        raise about.error("wrong-columns", fact, "name every column once")

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
        elif ending == ".json" and is_one_list(file):
            help = _one_object_per_line(file)
        elif set(self.endings) <= set(TextTable.ENDINGS):
            help = 'write `csv(…, separator="\\t")`, which reads files of any name'
        raise self._about.error("wrong-format", fact, help)

    def _all_rows(self, tables: Mapping[str, Path], *, is_look: bool = False) -> tuple[Rows, tuple[Finding, ...]]:
        """The rows of each split, and what is probably not meant in them, as warnings."""
        doubted: list[Finding] = []
        return {split: self._rows(file, doubted, is_look=is_look) for split, file in tables.items()}, tuple(doubted)

    def _rows(self, file: Path, doubted: list[Finding], *, is_look: bool = False) -> list[Row]:
        """The rows of a table. A look leaves out images or labels that take too long to read."""
        name = self._named(file)
        labels, inputs = tuple(self.target.columns), self.inputs.columns
        try:
            table = self._open(file)
            self._check_columns(table, (*inputs, *labels), name)
            has_inputs = not is_look or table.size((*inputs, *labels)) <= LARGEST_LOOK
            if not has_inputs and table.size(labels) > LARGEST_LOOK:
                return []
            columns = (*inputs, *labels) if has_inputs else labels
            rows = [(f"{place} of `{name}`", cells) for place, cells in table.rows(columns)]
        except FileNotFoundError:
            raise self._about.error("missing-file", f"`{name}` does not exist") from None
        except NotUtf8 as bad:
            raise self._about.error("not-utf8", f"{bad.place} of `{name}` {bad.fact}", self._convert(file)) from None
        except BadLine as bad:
            help = NO_QUOTES if isinstance(bad, StrayQuote) and self.layout.quote is not None else ""
            help = _one_object_per_line(file) if isinstance(bad, OneList) else help
            raise self._about.error("wrong-format", f"{bad.place} of `{name}` {bad.fact}", help) from None
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise self._about.error("missing-file", f"`{name}` can't be read: {reason}") from None
        if not rows:
            raise self._about.error("empty-table", f"`{name}` has no rows")
        for place, fact, help in table.doubts:
            doubted.append(self._about.warning("wrong-format", f"{place} of `{name}` {fact}", help))
        if not has_inputs:
            return [Row(place, None, _given(cells)) for place, cells in rows]
        count = len(inputs)
        return [Row(place, self.inputs.read(place, cells[:count]), _given(cells[count:])) for place, cells in rows]

    def _open(self, file: Path) -> TableFile:
        """The table in a file; where bad texts are skipped, so are those in another encoding."""
        return open_table(file, self.layout, is_lenient=self._skips and self.inputs.may_be_broken)

    def _convert(self, file: Path) -> str:
        skipping = f"; {SKIPPING} such rows" if self.inputs.may_be_broken else ""
        if isinstance(self._open(file), TextTable):
            return f'add the argument `encoding="{likely_encoding(file)}"`{skipping}'
        name = self._named(file)
        place, new = shlex.quote(name), shlex.quote(f"{name.removesuffix(file.suffix)}-utf8{file.suffix}")
        return f"convert it, for example: `iconv -f {likely_encoding(file)} -t utf-8 {place} > {new}`{skipping}"

    def _check_columns(self, table: TableFile, wanted: Sequence[str], name: str) -> None:
        there = table.columns()
        if not there:
            raise self._about.error("empty-table", f"`{name}` is empty")
        for column in wanted:
            if list(there).count(column) > 1:
                fact = f"`{name}` has two columns with the name `{column}`"
                raise self._about.error("wrong-format", fact, "rename one of them")
        missing = [self._missing(column, there, name) for column in dict.fromkeys(wanted) if column not in there]
        marks = _SEPARATORS if len(there) == 1 and missing else ()  # the first line was taken for one column
        parts = {mark: {part.strip(' "') for part in there[0].split(mark)} for mark in marks}
        if mark := next((mark for mark in marks if set(wanted) <= parts[mark]), None):
            fact = f"`{name}` has {_SEPARATORS[mark]} between its columns"
            written = mark.replace("\t", "\\t")
            raise self._about.error("wrong-format", fact, f'add the argument `separator="{written}"`')
        if missing:
            raise BadSource(*missing)

    def _missing(self, column: str, there: Sequence[str], name: str) -> Finding:
        listed = _columns(there[:LISTED])
        argument = self.inputs.noun if column in self.inputs.columns else self.target.argument
        is_no_header = any(len(cell) > LONGEST_NAME or cell.strip().isdecimal() for cell in there)
        return Finding(
            "unknown-column",
            f"`{name}` has no column `{column}`",
            f"its columns are {listed}; name one by `{argument}=`",
            notes=(NO_HEADER,) * (not self.layout.columns and is_no_header),
            argument=argument,
            label=f"the columns are {listed}",
            wrong=column,
            choices=tuple(name for name in there if name not in (*self.inputs.columns, *self.target.columns)),
        )

    def _read(self, rows: Rows) -> tuple[Target, list[Value], Rows, tuple[Finding, ...]]:
        """The target, the value of every row that is kept, these rows, and that those without a label are skipped."""
        facts: list[str] = []  # about rows that are left out
        while True:
            every, _ = joined(rows)
            try:
                target, values = self.target.read([row.given for row in every])
                findings = (self._about_labels.warning("wrong-label", skipped(facts)),) if facts else ()
                return target, values, rows, findings
            except BadTarget as bad:
                wrong = every[bad.at] if bad.at is not None else None
                if wrong is None or not self._skips or not _is_missing(wrong.given):
                    place = f"`{self.name}`" if wrong is None else wrong.place
                    more = f"; {SKIPPING}" if wrong is not None and _is_missing(wrong.given) else ""
                    raise self._about_labels.error(bad.id, f"{place} {bad.fact}", f"{bad.help}{more}") from None
                alike = {id(row) for row in every if type(row.given) is type(wrong.given) and _is_missing(row.given)}
                facts += [f"{row.place} {bad.fact}" for row in every if id(row) in alike]
                rows = {split: [row for row in there if id(row) not in alike] for split, there in rows.items()}

    def _doubts(self, target: Target, values: Sequence[Value], counts: Mapping[str, int]) -> Iterator[Finding]:
        """Warnings: a split has classes that are not trained (a recipe may split the data anew), or labels are
        probably not meant."""
        there = {split: [values[at] for at in members] for split, members in predefined(counts).items()}
        for split, others in there.items():
            if unseen := target.unseen(there.get("train", others), others):
                fact = f"{split} of `{self.name}` has {unseen}, which train does not have"
                help = "fix the spelling, or add it to train; a run stops here"
                yield self._about_labels.warning("wrong-label", fact, help)
        if (doubt := self.target.doubt(target, values)) is not None:
            yield self._about_labels.warning("unlikely-labels", f"`{self.name}` {doubt.fact}", doubt.help)


def _is_missing(given: Any) -> bool:
    """Whether a row has an empty cell in place of a label; to some tasks, that is a label too."""
    return any(cell is None or cell == "" for cell in (given if isinstance(given, tuple) else (given,)))


def _columns(columns: Sequence[str]) -> str:
    return ", ".join(f"`{shown(column)}`" for column in columns)


def _given(cells: Sequence[Any]) -> Any:
    """The label of a row: one cell, or several."""
    cells = [cell.content if isinstance(cell, Embedded) else cell for cell in cells]
    return cells[0] if len(cells) == 1 else tuple(cells)


def _one_object_per_line(file: Path) -> str:
    written = file.with_name(f"{file.stem}_lines.jsonl" if file.suffix == ".jsonl" else f"{file.stem}.jsonl")
    return f"write one object per line: `jq -c '.[]' {shlex.quote(file.name)} > {shlex.quote(written.name)}`"

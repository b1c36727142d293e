"""The roles of a table's columns: texts, images, labels, numbers to predict.

Decides by their names and by some of their cells. Where that is not certain, the role is a guess.
"""

import math
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from leaven.first.options import Guess, NotUnderstood, TableOptions
from leaven.formats.doubtful_labels import separator_in
from leaven.formats.image_folder import IMAGE_ENDINGS, is_image
from leaven.formats.listing import either, in_code, some
from leaven.formats.numerals import MARKS, decimal_mark, is_ambiguous, number_in
from leaven.formats.tables import Embedded
from leaven.formats.target import plain
from leaven.language.record import Record
from leaven.sources.columns import file_in_table
from leaven.terminal.commands import typed

_NAMES = tomllib.loads(Path(__file__).with_name("column_names.toml").read_text(encoding="utf-8"))
NAMES_IN_HEADER = frozenset(_NAMES["header"])
_SURE_LABELS: list[str] = _NAMES["sure_labels"]
_LABELS = [*_SURE_LABELS, *_NAMES["labels"]]
_QUANTITIES, _IDS, _TEXTS, _NO_TEXTS = (frozenset(_NAMES[kind]) for kind in ("quantities", "ids", "texts", "no_texts"))
_PAIRS: list[list[str]] = _NAMES["pairs"]
MOST_CLASSES = 200
MANY_NUMBERS = 20  # different ones, from which on numbers with fractions are quantities
MANY_COLUMNS = 50  # of numbers, which are pixels or other features
TRIED = 20  # cells of which files are looked for
MOST_FOLDERS = 200


class Column(Record):
    """A column with some of its cells."""

    name: str
    cells: tuple[Any, ...]

    @property
    def called(self) -> str:
        return re.sub(r"[\s-]+", "_", self.name.strip().lower())

    @property
    def filled(self) -> list[Any]:
        return [cell for cell in self.cells if cell is not None and cell != ""]

    @property
    def distinct(self) -> int:
        return len({str(cell) for cell in self.filled})

    @property
    def decimal(self) -> str | None:
        """The decimal mark of its numbers, where it has to be given."""
        return decimal_mark(self.texts)

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """Its cells, if all of them are numbers."""
        decimal = self.decimal
        numbers = [_number(cell, decimal) for cell in self.filled]
        return tuple(number for number in numbers if number is not None) if None not in numbers else ()

    @property
    def is_numeric(self) -> bool:
        return bool(self.numbers)

    @property
    def texts(self) -> list[str]:
        return [cell for cell in self.filled if isinstance(cell, str)]

    @property
    def length(self) -> float:
        return sum(map(len, self.texts)) / max(1, len(self.texts))

    @property
    def may_be_text(self) -> bool:
        if self.is_numeric or not self.filled or not all(isinstance(cell, str) for cell in self.filled):
            return False
        if self.called in _TEXTS:
            return True
        spaced = sum(" " in cell for cell in self.filled) / len(self.filled)
        words = sum(len(re.findall(r"[^\W\d_]{2,}", text)) for text in self.texts) / len(self.filled)
        is_not_a_text = bool(_NO_TEXTS & {self.called, *self.called.split("_")})
        return spaced >= 0.5 and words >= 1.5 and not is_not_a_text and self.distinct > 2

    @property
    def may_be_label(self) -> bool:
        filled = [plain(cell) for cell in self.filled]
        if not all(isinstance(cell, str | int | float | bool) for cell in filled):
            return False
        most = min(MOST_CLASSES, max(2, len(filled) // 2))
        return 2 <= self.distinct <= most and self.length <= 60 and not self.may_be_quantity

    @property
    def separator(self) -> str | None:
        """The separator of several labels in a cell: empty where cells are lists, None where they have one label."""
        if self.filled and all(isinstance(cell, list) for cell in self.filled):
            return "" if all(isinstance(label, str | int) for cell in self.filled for label in cell) else None
        names = [*dict.fromkeys(self.texts)]
        return separator_in(names) if names and not self.is_numeric else None

    @property
    def may_be_quantity(self) -> bool:
        is_fractional = any(not number.is_integer() for number in self.numbers)
        is_quantity = is_fractional or (self.is_numeric and self.called in _QUANTITIES)
        return is_quantity and self.distinct > min(MANY_NUMBERS, len(self.filled) // 2)


class Images(Record):
    """Where the images of a column are: the folder in which its paths start, and the ending that they leave out."""

    column: str
    root: Path | None  # None: the table's folder
    ending: str = ""


class Roles(Record):
    """The columns of a table by what they have."""

    text: tuple[str, ...] = ()
    image: Images | None = None
    label: str | None = None
    labels: tuple[str, ...] = ()
    label_separator: str = ""  # in one column of several labels; empty where its cells are lists
    target: str | None = None
    decimal: str | None = None  # the decimal mark of the numbers to predict, where it has to be given
    other_texts: tuple[str, ...] = ()
    guesses: tuple[Guess, ...] = ()

    @property
    def answers(self) -> tuple[str, ...]:
        """The columns with what is to be predicted."""
        return self.labels or tuple(filter(None, (self.label, self.target)))


def look_at_roles(file: Path, columns: Sequence[Column], options: TableOptions) -> Roles:
    """The roles of the columns of a table; a NotUnderstood where it has no inputs or no labels."""
    by_name = {column.name: column for column in columns}
    for name in (*options.text, *filter(None, (options.image, options.label, options.target)), *options.labels):
        if name not in by_name:
            raise NotUnderstood(f"{file} has no column `{name}`; its columns are {listed(tuple(by_name))}")
    guesses: list[Guess] = []
    image = None if options.text else _images(file, columns, options)
    inputs: tuple[str, ...] = (image.column,) if image is not None else options.text
    likely = None  # the column that is called like labels and may have them, so that it is not taken for texts
    if not options.names_target:
        likely = next((c.name for c in _ranked(columns) if c.may_be_label and c.name not in inputs), None)
    texts: list[Column] = []
    if not inputs:
        texts = [column for column in columns if column.may_be_text and column.name not in (likely, options.label)]
        inputs = _pair(columns) or _text(texts, guesses)
    if not inputs:
        raise NotUnderstood(_no_inputs(file, columns))
    if options.names_target:
        answer = Roles(label=options.label, labels=options.labels, target=options.target)
    else:
        answer = _answer(file, [column for column in columns if column.name not in inputs], guesses)
    others = tuple(column.name for column in texts if column.name not in (*inputs, *answer.answers))
    return replace(
        answer,
        text=() if image is not None else inputs,
        image=image,
        label_separator=by_name[answer.labels[0]].separator or "" if len(answer.labels) == 1 else "",
        decimal=_decimal(by_name[answer.target], options, guesses) if answer.target is not None else None,
        other_texts=others,
        guesses=tuple(guesses),
    )


def _pair(columns: Sequence[Column]) -> tuple[str, ...]:
    """Two columns whose names say that their texts belong together."""
    called = {column.called: column.name for column in columns if not column.is_numeric}
    return next(((called[one], called[two]) for one, two in _PAIRS if {one, two} <= called.keys()), ())


def _text(texts: Sequence[Column], guesses: list[Guess]) -> tuple[str, ...]:
    """The column of texts: the only one, or the one with the longest."""
    if not texts:
        return ()
    best = max(texts, key=lambda column: column.length)
    known = [column for column in texts if column.called in _TEXTS]
    if len(texts) > 1 and [best] != known:
        names = tuple(column.name for column in texts)
        others = in_code(name for name in names if name != best.name)
        explanation = f"the texts are in `{best.name}`, not in {either(others)}"
        guesses.append(Guess("text", best.name, names, explanation))
    return (best.name,)


def _images(file: Path, columns: Sequence[Column], options: TableOptions) -> Images | None:
    """The column of images that are there, or that are inside of the table."""
    for column in columns:
        if options.image not in (None, column.name) or not column.filled:
            continue
        if isinstance(column.filled[0], Embedded):
            return Images(column=column.name, root=None)
        names = [file_in_table(str(cell)) for cell in column.filled if isinstance(cell, str | int)]
        if not names or any(len(name) > 300 or "\n" in name for name in names):
            continue
        are_called_so = all(map(is_image, names))
        is_count = column.is_numeric and any(other.may_be_text for other in columns)  # a numbering of texts
        may_be_ids = 2 * column.distinct > max(4, len(column.filled)) and not is_count  # names without an ending
        may_be_images = are_called_so or options.image is not None or may_be_ids
        tried = names[:TRIED] if are_called_so else names[:: max(1, len(names) // TRIED)]
        place = _place_of(tried, file.parent, options.root) if may_be_images else None
        if place is not None:
            return Images(column=column.name, root=place[0], ending=place[1])
        if are_called_so or options.image is not None:
            help = _moved(file, column, names, options) or "--root FOLDER says where the paths start"
            raise NotUnderstood(
                f"{file} names images in `{column.name}`, such as {names[0]}, which are not there; {help}"
            )
    return None


def _moved(file: Path, column: Column, names: Sequence[str], options: TableOptions) -> str:
    """How to make a table of images that are here under the ends of their paths, where the table says where they were
    on another computer; empty where they are not here either."""
    starts = (names[0][: slash.end()] for slash in re.finditer("/", names[0]))
    for start in takewhile(lambda start: all(name.startswith(start) for name in names), starts):
        if _place_of([name.removeprefix(start) for name in names[:TRIED]], file.parent, options.root) is not None:
            prefix = re.sub(r"[][\\.*^$#]", r"\\\g<0>", str(column.filled[0])[: len(start)])
            table = typed(file.with_name(f"{file.stem}_here{file.suffix}"))
            return (
                "they are here under the ends of these paths, and a table can name them so:\n"
                f"  sed {typed(f's#{prefix}##g')} {typed(file)} > {table}\n"
                f"  leaven new {table}{f' --root {typed(options.root)}' if options.root is not None else ''}"
            )
    return ""


def _place_of(names: Sequence[str], folder: Path, given: str | None) -> tuple[Path | None, str] | None:
    """The folder that paths start in (None: this one), and their ending, where all of these files are there."""
    endings = ("", *IMAGE_ENDINGS, *map(str.upper, IMAGE_ENDINGS))
    for root in [Path(given)] if given is not None else _folders_near(folder):
        for ending in endings:
            if all(is_image(name + ending) and os.path.isfile(root / (name + ending)) for name in names):
                return (None if root == folder else root), ending
    return None


def _folders_near(folder: Path) -> list[Path]:
    """This folder, those in it, and those above it."""
    folders = [folder]
    for depth in (folder.glob("*/"), folder.glob("*/*/")):
        visible = (path for path in depth if path.is_dir() and not path.name.startswith("."))
        folders += islice(visible, MOST_FOLDERS - len(folders))
    above = Path(os.path.abspath(folder)).parents
    return [*folders, *above[:2], *(sibling for parent in above[:1] for sibling in sorted(parent.glob("*/"))[:20])]


def _no_inputs(file: Path, columns: Sequence[Column]) -> str:
    names = tuple(column.name for column in columns)
    numeric = [column for column in columns if column.is_numeric]
    if len(numeric) >= MANY_COLUMNS:
        return (
            f"{file} has {len(numeric)} columns of numbers, such as {listed(tuple(c.name for c in numeric)[:3])}: "
            "if these are pixels, save each row as an image file (Leaven reads images from files and texts from "
            "tables); other numbers can't be learned from"
        )
    return (
        f"{file} has no column with texts or with the paths of images, from which Leaven predicts; its columns are "
        f"{listed(names)}. If one of them has texts, --text COLUMN says which"
    )


def _ranked(columns: Sequence[Column]) -> list[Column]:
    """The columns that are called like labels, the surest name first."""

    def rank(column: Column) -> int | None:
        called = column.called.removesuffix("_encoded")
        if called in _LABELS:
            return _LABELS.index(called)
        tail = called.rpartition("_")[2]
        return len(_LABELS) + _SURE_LABELS.index(tail) if tail in _SURE_LABELS else None

    ranks = [(at, column) for column in columns if (at := rank(column)) is not None]
    return [column for _, column in sorted(ranks, key=lambda ranked: ranked[0])]


def _answer(file: Path, columns: Sequence[Column], guesses: list[Guess]) -> Roles:
    """The column with the labels, those with a 0 or 1 for each label, or the one with numbers to predict."""
    columns = [column for column in columns if column.called not in _IDS]
    named = _ranked(columns)
    classes = [column for column in named if column.may_be_label and not column.may_be_text]
    if classes and classes[0].called in _SURE_LABELS:
        return _one_or_several(classes[0], guesses)
    binary = tuple(column.name for column in columns if set(column.numbers) == {0.0, 1.0})
    if len(binary) > 2 or (len(binary) == 2 and not classes):
        explanation = f"the columns {listed(binary)} have a 0 or 1 for each label"
        guesses.append(Guess("label", "all", ("all", *binary), explanation))
        return Roles(labels=binary)
    numbers = [column for column in (*named, *columns) if column.may_be_quantity]
    if numbers and not classes and (numbers[0] in named or not any(column.may_be_label for column in columns)):
        return Roles(target=numbers[0].name)
    possible = classes or [column for column in columns if column.may_be_label and not column.may_be_text]
    several = [column for column in columns if column.separator is not None]
    if not possible and several:
        return Roles(labels=(several[0].name,))
    if not possible:
        names = listed(tuple(column.name for column in columns))
        raise NotUnderstood(
            f"{file} has no column that looks like labels (a few different values, each in several rows): {names}; "
            "--label COLUMN names one, --target COLUMN one with numbers to predict"
        )
    best = min(possible, key=lambda column: (column not in named, column.distinct)) if not classes else classes[0]
    answer = _one_or_several(best, guesses)
    if len(possible) > 1:
        others = [column.name for column in possible if column is not best]
        explanation = f"the labels are in `{best.name}`, not in {either(in_code(others))}"
        guesses.append(Guess("label", best.name, tuple(column.name for column in possible), explanation))
    return answer


def _one_or_several(column: Column, guesses: list[Guess]) -> Roles:
    """The labels in a column: a class for each row, or a guess that rows have several."""
    if not column.separator:  # lists of one label are classes
        return Roles(label=column.name)
    example = next(cell for cell in map(str, column.filled) if column.separator in cell)
    explanation = f"`{example}` in `{column.name}` is several labels, not one class"
    guesses.append(Guess("labels", True, (column.name,), explanation))
    return Roles(labels=(column.name,))


def _decimal(column: Column, options: TableOptions, guesses: list[Guess]) -> str | None:
    """The decimal mark of numbers; a guess where commas may be between thousands, or before fractions."""
    if options.decimal is not None:
        return options.decimal
    if column.decimal == "." and decimal_mark(column.texts, (",",)):
        example = next(filter(is_ambiguous, column.texts))
        guesses.append(Guess("decimal", ".", MARKS, f"the comma in `{example}` separates thousands"))
    return column.decimal


def listed(names: Sequence[str]) -> str:
    return some([f"`{name if len(name) <= 40 else name[:39] + '…'}`" for name in names])


def _number(cell: Any, decimal: str | None) -> float | None:
    if isinstance(cell, str):
        return number_in(cell, decimal)
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else None

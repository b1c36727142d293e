"""Labels that can be read but are probably not what is meant: numbers, names of files or splits, several labels.

Decides only by the names of classes and how often each occurs, for tables and folders alike. How it is reported is left
to the source.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from leaven.formats.image_folder import is_image, looks_split
from leaven.formats.listing import both, in_code
from leaven.formats.target import Doubt, shown

FEWEST = 10  # images from which on a label of each image's own is doubtful
MANY = 20  # whole numbers, from which on they may be quantities
FEW_EACH = 10  # images of a class, on average
SEPARATORS = (";", "|", ",", "/", " ")  # that tables have between labels
_MOST_JOINED = 0.8  # of the names with a separator, that are made of labels which others have, too
_NO_LABEL = ("nan", "na", "n/a", "#n/a", "<na>", "null", "nil", "-", "--", "?")
_QUANTITIES = {
    *("age", "ages", "angle", "area", "count", "counts", "depth", "distance", "height", "length", "price", "rating"),
    *("ratings", "score", "scores", "speed", "stars", "temperature", "volume", "weight", "width", "year", "years"),
}
_NOT_CLASSES = {
    *("annotation", "annotations", "image", "images", "img", "imgs", "jpegimages", "label", "labels", "mask", "masks"),
    *("photos", "segmentation"),
}
_BITS = re.compile(r"[01]([ ,;|][01])+")


def doubt_column(counts: Mapping[str, int], column: str) -> Doubt | None:
    """The first doubt about classes that are the labels in a column, with the number of images of each."""
    names = list(counts)
    return (
        _no_header(names, column)
        or _several_labels(names, column)
        or _not_classes(names)
        or _no_label(counts)
        or doubt_spelling(names)
        or _quantities(counts, column)
        or _one_image_each(counts, "name a column whose labels occur in several rows")
    )


def _no_header(names: Sequence[str], column: str) -> Doubt | None:
    if column not in names:
        return None
    fact = f"has the label `{shown(column)}` in its first line, which is read as the names of the columns"
    return Doubt(fact, "if it has no header, name its columns: `columns=[…]`")


def doubt_folders(counts: Mapping[str, int]) -> Doubt | None:
    """The first doubt about classes that are sub-folders; a number of 0 is one that is not known."""
    names = list(counts)
    if {name.lower() for name in names} <= _NOT_CLASSES:
        fact = f"has the classes {_both(names[:3])}, which look like images and what was drawn on them"
        return Doubt(fact, "put the images of each class into its own sub-folder; masks and boxes can't be learned")
    return doubt_spelling(names) or _one_image_each(counts, "use folders with several images of the same class")


def doubt_spelling(names: Sequence[str]) -> Doubt | None:
    """Two classes that are probably one; single letters may be upper and lower case."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(re.sub(r"[\s_-]+", " ", name.casefold()).strip(), name)
        if other != name and len(name) > 1 and _number(name) is None:
            fact = f"has the classes {_both((other, name))}, which differ only in how they are written"
            return Doubt(fact, "write each class in one way")
    return None


def _several_labels(names: Sequence[str], column: str) -> Doubt | None:
    if all(_BITS.fullmatch(name) for name in names):
        fact = f"has classes such as `{shown(names[0])}`, which look like a 0 or 1 for each label"
        return Doubt(fact, "put each label into its own column, and list the columns: `labels=[…]`")
    if all(name.startswith("[") and name.endswith("]") for name in names):
        joined = max(names, key=len)
        parts = ";".join(part.strip(" '\"") for part in joined.strip("[]").split(","))
        fact = f"has classes such as `{shown(joined)}`, which look like lists of labels"
        return Doubt(
            fact, f'if an image can have several labels, write them as `{shown(parts)}`, and `labels="{column}"`'
        )
    if separator := separator_in(names):
        joined = next(name for name in names if separator in name)
        more = "" if separator == ";" else f', label_separator="{separator}"'
        fact = f"has classes such as `{shown(joined)}`, which look like several labels"
        return Doubt(fact, f'if an image can have several labels, write `labels="{column}"{more}`')
    return None


def _not_classes(names: Sequence[str]) -> Doubt | None:
    if all(map(is_image, names)):
        fact = f"has classes such as `{shown(names[0])}`, which are names of files"
        return Doubt(fact, "name the column with the classes")
    if looks_split(names):
        fact = f"has the classes {_both(names[:3])}, which are names of splits"
        help = "name the column with the classes; for splits, write a table for each: `train.csv`, `val.csv`"
        return Doubt(fact, help)
    return None


def _no_label(counts: Mapping[str, int]) -> Doubt | None:
    name = next((name for name in counts if name.casefold() in _NO_LABEL), None)
    if name is None:
        return None
    images = f"{counts[name]:,} image{'s' * (counts[name] != 1)}"
    fact = f"has {images} of the class `{name}`, which usually means that the label is not known"
    return Doubt(fact, "remove these rows, or fill in their labels")


def _quantities(counts: Mapping[str, int], column: str) -> Doubt | None:
    """Numbers that are probably to be predicted as such, and those that only count the rows."""
    numbers = sorted(number for name in counts if (number := _number(name)) is not None)
    if len(numbers) < len(counts):
        return None
    images, low, high = sum(counts.values()), numbers[0], numbers[-1]
    help = f'to predict a number, write `target="{column}"`'
    if any(not number.is_integer() for number in numbers):
        example = next(name for name in counts if not float(name).is_integer())
        return Doubt(f"has {len(counts):,} classes, all of them numbers, such as `{shown(example)}`", help)
    is_numbering = numbers == [low + at for at in range(len(numbers))] and low in (0, 1)
    if len(counts) == images >= FEWEST and is_numbering:
        fact = f"has another number in every row, from {low:g} to {high:g}"
        return Doubt(fact, "name the column with the classes; these numbers only count the rows")
    is_sparse = images < FEW_EACH * len(counts) or not is_numbering
    is_called = len(counts) > 2 and bool(_QUANTITIES & set(re.split(r"[\W_\d]+", column.lower())))
    if (len(counts) > MANY and is_sparse) or is_called or (images >= FEWEST and _singles(counts) > images / 2):
        return Doubt(f"has {len(counts):,} classes, which are the numbers from {low:g} to {high:g}", help)
    return None


def _one_image_each(counts: Mapping[str, int], help: str) -> Doubt | None:
    images, single = sum(counts.values()), _singles(counts)
    if images < FEWEST or single <= images / 2:
        return None
    return Doubt(f"has {len(counts):,} classes for {images:,} images, {single:,} of them with one image", help)


def _singles(counts: Mapping[str, int]) -> int:
    return sum(count == 1 for count in counts.values())


def _number(name: str) -> float | None:
    try:
        number = float(name)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _both(names: Sequence[str]) -> str:
    return both(in_code(map(shown, names)))


def separator_in(names: Sequence[str]) -> str | None:
    """The separator of labels in names that are made of each other: `;` in `dog`, `dog;cat`, `cat;owl`."""
    for separator in SEPARATORS:
        parts = {name: [part.strip() for part in name.split(separator)] for name in names}
        often = Counter(part for each in parts.values() for part in each)
        joined = [each for each in parts.values() if len(each) > 1]
        made = [each for each in joined if all(part and often[part] > 1 for part in each)]
        if _are_combined(made, joined, often):
            return separator
        if separator == " ":  # also within names: both words are classes themselves
            made = [each for each in made if all(part in parts for part in each)]
        is_usual = separator in (";", "|") or any(part in parts for each in made for part in each)
        if made and is_usual and 2 * len(made) >= len(joined):
            return separator
    return None


def _are_combined(made: Sequence[Sequence[str]], joined: Sequence[Sequence[str]], often: Mapping[str, int]) -> bool:
    """Whether names are combinations of fewer labels, none of which need be there alone: `beach dog`, `dog people`.

    A word of a name has its place, as in `red fox` and `grey fox`; a label comes first or last.
    """
    firsts = {each[0] for each in joined}
    moves = any(part in firsts for each in made for part in each[1:])
    return moves and len(often) <= len(joined) and len(made) >= _MOST_JOINED * len(joined)

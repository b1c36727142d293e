"""A folder of images and masks: `images/` and `masks/` with the same names, optionally inside of `train/` and `val/`.

Decides which mask belongs to which image, and what the classes are called. Of the masks themselves, a check looks at a
few and a run at many (`mask_pixels.py`); all are read again when their images are.
"""

import csv
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from leaven.formats.finding import About, Finding
from leaven.formats.image_folder import PART_NAMES, image_files, sub_folders
from leaven.formats.listing import in_code, some_names, some_of_many
from leaven.sources.mask_pixels import MaskFacts, Pair, look_at_masks
from leaven.sources.name_files import read_lines, unreadable
from leaven.sources.source import OnBadFile, Samples, SourceFacts, joined, returns_findings
from leaven.tasks.segmentation.target import MaskClasses

if TYPE_CHECKING:
    from leaven.tasks.segmentation.target import Colour

IMAGES = ("images", "image", "imgs", "img")
MASKS = ("masks", "mask", "labels", "labels_mask", "annotations")
CLASS_FILES = ("classes.txt", "class_dict.csv", "labels.txt")
BLACK_AND_WHITE = ("background #000000", "object #ffffff")  # the classes of such masks
_SHOWN = 3
_HEX = re.compile(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})")
_SUFFIXES = ("_mask", "-mask", "_label", "_labels", "_gt")
MOST_LOOKED = 32  # masks that a check looks at
MOST_OPENED = 2_000  # and a run
MOST_PIXELS = 16_000_000  # of the masks that a check looks at: more take too long


class MaskFolder(NamedTuple):
    """`classes` are names in a list, with colours where masks have these, or a file of them; `known` are those of a
    trained model."""

    path: Path
    name: str
    classes: "Sequence[str] | str | Path | None" = None
    ignore: int = 255
    known: "MaskClasses | None" = None
    on_bad_file: OnBadFile = "stop"

    @returns_findings
    def look(self) -> SourceFacts:
        target = self._target()
        pairs, findings = self._pairs()
        seen = look_at_masks(joined(pairs)[0], target, MOST_LOOKED, MOST_PIXELS)
        findings += self._bad(seen) + self._unlearnable(seen, pairs, target)
        counts = {split: len(there) for split, there in pairs.items()}
        return SourceFacts(target.names, tuple(split for split in counts if split), findings, counts)

    def open(self) -> Samples:
        target = self._target()
        pairs, findings = self._pairs()
        if self.known is None:  # an evaluation reads all masks anyway
            seen = look_at_masks(joined(pairs)[0], target, MOST_OPENED, None)
            findings += self._bad(seen) + self._unlearnable(seen, pairs, target)
            bad = {one.pair for one in seen if one.fault}
            pairs = {split: [pair for pair in there if pair not in bad] for split, there in pairs.items()}
        every, splits = joined(pairs)
        values = [target.value(pair.mask) for pair in every]
        return Samples(target, values, [pair.image for pair in every], splits, findings=findings)

    def _target(self) -> MaskClasses:
        if self.known is not None:
            return self.known
        names, colours = self._named()
        return MaskClasses(names, colours, self.ignore)

    # -- what is in the masks

    def _bad(self, seen: Sequence[MaskFacts]) -> tuple[Finding, ...]:
        """A warning about skipped masks; a BadSource where they are not skipped, or none is left."""
        bad = [one for one in seen if one.fault]
        if not bad:
            return ()
        first = f"`{self._shown(Path(bad[0].pair.mask))}` can't be used: {bad[0].fault}"
        if self.on_bad_file == "skip" and len(bad) < len(seen):
            are = "is" if len(bad) == 1 else "are"
            fact = f"{_counted(len(bad), 'image')} of `{self.name}` {are} skipped: {first}"
            return (_FOLDER.warning("wrong-mask", fact),)
        others = [os.path.basename(one.pair.mask) for one in bad[1:]]
        more = f"{_counted(len(others), 'more mask')} can't be used either: {some_of_many(in_code(others))}"
        advice = (bad[0].help, "`on_bad_file skip` leaves such images out" if len(bad) < len(seen) else "")
        help = "; ".join(filter(None, advice))
        raise _FOLDER.error("wrong-mask", first, help, notes=(more,) if others else ())

    def _unlearnable(
        self, seen: Sequence[MaskFacts], pairs: Mapping[str, Sequence[Pair]], target: MaskClasses
    ) -> tuple[Finding, ...]:
        """A finding that no pixel has a class, or none has one of the classes; the latter needs many masks."""
        split = "train" if "train" in pairs else ""
        there = set(pairs[split])
        looked = [one for one in seen if one.pair in there]
        train, is_all = [one for one in looked if not one.fault], len(looked) == len(there)
        used = frozenset[int]().union(*(one.classes for one in train))
        if train and not used:
            which = "no mask" if is_all else f"none of the {len(train):,} masks that were looked at"
            fact = f"{which} has a pixel with a class: all are {target.ignored}, which means that they have none"
            help = _is_class(target.names[-1], target)
            if is_all:
                raise _FOLDER.error("wrong-mask", fact, help)
            return (_FOLDER.warning("wrong-mask", fact, help),)
        unused = [name for at, name in enumerate(target.names) if at not in used]
        if not unused or not used or not (is_all or len(train) >= MOST_OPENED // 2):
            return ()
        names = some_names(unused, _SHOWN)
        classes = f"the class {names}" if len(unused) == 1 else f"{len(unused)} of the classes: {names}"
        help = "a model can't learn what it is not shown: remove the class, or add images"
        if any(one.has_ignored for one in train):
            help = f"pixels that are {target.ignored} have no class; {_is_class(unused[0], target)}"
        fact = f"training has no pixels of {classes}"
        return (_FOLDER.warning("unused-category", fact, help),)

    # -- classes

    def _named(self) -> "tuple[tuple[str, ...], tuple[Colour, ...]]":
        """The names of the classes, and the colours that masks have in their place, where they have."""
        source = self.classes
        if source is None:
            source = next((self.path / name for name in CLASS_FILES if (self.path / name).is_file()), None)
        if source is None:
            raise _FOLDER.error("no-classes", f"the classes of the masks in `{self.name}` are not named", _HOW)
        where = f"`{Path(source).name}`" if isinstance(source, str | Path) else "the list"
        try:
            if isinstance(source, str | Path):
                rows = read_classes(Path(source))
            else:
                rows = [_class([str(line)]) for line in source]
        except (OSError, ValueError) as problem:
            fact = f"the classes in {where} can't be read: {unreadable(problem)}"
            raise _CLASSES.error("wrong-format", fact, _HOW) from None
        colours = tuple(colour for _, colour in rows if colour is not None)
        if colours and len(colours) < len(rows):
            fact = f"{where} has a colour for some classes and none for others"
            raise _CLASSES.error("wrong-format", fact, _HOW)
        names = tuple(name for name, _ in rows)
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise _CLASSES.error("no-classes", f"the class `{twice}` is named twice", "name each once")
        if len(names) < 2:
            fact = f"there is only the class `{names[0]}`" if names else "no classes are named"
            raise _CLASSES.error("no-classes", f"{fact}, but segmentation needs two or more", _TWO)
        return names, colours

    # -- images and masks

    def _pairs(self) -> tuple[dict[str, list[Pair]], tuple[Finding, ...]]:
        """The images of each split with their masks; without splits, all are ''."""
        _FOLDER.check_folder(self.path, self.name)
        pairs: dict[str, list[Pair]] = {}
        findings: list[Finding] = []
        for split, (images, masks) in mask_places(self.path).items():
            pairs[split], problems = self._paired(images, masks)
            findings += problems
        if not pairs:
            has = ", ".join(in_code(sub_folders(self.path)[:_SHOWN])) or "no folders"
            fact = f"`{self.name}` has {has}, but not `images` and `masks`"
            help = f"put the images into `{self.name}/images` and their masks, with the same names, into "
            raise _FOLDER.error("missing-file", fact, f"{help}`{self.name}/masks`")
        return pairs, tuple(findings)

    def _paired(self, images: Path, masks: Path) -> tuple[list[Pair], list[Finding]]:
        pairs, lonely, left = paired(images, masks)
        if not pairs:
            fact = f"no image in `{self._shown(images)}` has a mask in `{self._shown(masks)}`"
            raise _FOLDER.error("missing-file", fact, "give each mask the name of its image: `1.jpg`, `1.png`")
        findings = []
        for files, folder, noun, other in ((lonely, images, "image", "mask"), (left, masks, "mask", "image")):
            if files:
                has, are = ("has", "is") if len(files) == 1 else ("have", "are")
                where = f"{_counted(len(files), noun)} in `{self._shown(folder)}`"
                fact, help = f"{where} {has} no {other} and {are} ignored", f"add the {other}s, or remove the {noun}s"
                notes = (some_of_many(in_code(map(os.path.basename, files))),)
                findings.append(_FOLDER.warning("unpaired-mask", fact, help, notes=notes))
        return [Pair(*pair) for pair in pairs], findings

    def _shown(self, place: Path) -> str:
        return f"{self.name}/{place.relative_to(self.path).as_posix()}"


def mask_places(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The folders of images and masks of each split; without splits, of ''. Empty where there are none."""
    whole = _beside(folder)
    if whole is not None:
        inner = {split: (_split(whole[0], split), _split(whole[1], split)) for split in PART_NAMES}
        both = {split: (images, masks) for split, (images, masks) in inner.items() if images and masks}
        return both if "train" in both else {"": whole}
    splits = {split: there for split in PART_NAMES if (place := _split(folder, split)) and (there := _beside(place))}
    return splits if "train" in splits else {}


def paired(images: Path, masks: Path) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Images with their masks, images without one, and masks without an image."""
    by_name = {_stem(file, masks): file for file in image_files(masks)}
    pairs, lonely = [], []
    for file in sorted(image_files(images)):
        stem = _stem(file, images)
        mask = by_name.pop(stem, None)
        mask = mask or next((by_name.pop(stem + end) for end in _SUFFIXES if stem + end in by_name), None)
        if mask is None:
            lonely.append(file)
        else:
            pairs.append((file, mask))
    return pairs, lonely, sorted(by_name.values())


def read_classes(file: Path) -> "list[tuple[str, Colour | None]]":
    """The classes of a file, one per line: `road`, `road 128 64 128`, `road,128,64,128` or `road #804080`."""
    rows = [[cell.strip() for cell in row if cell.strip()] for row in csv.reader(read_lines(file))]
    if rows and len(rows[0]) > 1 and rows[0][0].lower() == "name":  # the header of `class_dict.csv`
        rows = rows[1:]
    return [_class(row) for row in rows]


def _class(cells: Sequence[str]) -> "tuple[str, Colour | None]":
    if len(cells) == 1:
        has_numbers = re.fullmatch(r".*\S(\s+\d{1,3}){3}", cells[0])
        cells = cells[0].rsplit(None, 3 if has_numbers else 1)
        cells = cells if len(cells) == 4 or (len(cells) == 2 and _HEX.fullmatch(cells[1])) else [" ".join(cells)]
    if len(cells) == 2 and (code := _HEX.fullmatch(cells[1])):
        return cells[0], (int(code[1], 16), int(code[2], 16), int(code[3], 16))
    if len(cells) == 4:
        red, green, blue = map(int, cells[1:])
        if not all(0 <= part <= 255 for part in (red, green, blue)):
            raise ValueError(
                f"{cells[0]} has the colour {red}, {green}, {blue}, but a colour has numbers from 0 to 255"
            )
        return cells[0], (red, green, blue)
    if len(cells) > 1:
        raise ValueError(f"`{', '.join(cells)}` is not a name with a colour")
    return cells[0], None


def looks_like_masks(folder: Path) -> bool:
    """Whether a folder has images and masks."""
    splits = [place for split in PART_NAMES if (place := _split(folder, split)) is not None]
    return any(_beside(place) is not None for place in (folder, *splits))


def are_black_and_white(folder: Path) -> bool:
    """Whether the first masks of a folder have pixels of 0 and 255 and no others, as drawing programs write them."""
    from PIL import Image

    seen: set[int] = set()
    for images, masks in mask_places(folder).values():
        for _, file in paired(images, masks)[0][:_SHOWN]:
            try:
                with Image.open(file) as mask:
                    seen |= {int(value) for _, value in mask.convert("L").getcolors() or ()}  # type: ignore[arg-type]
            except OSError:
                return False
    return seen == {0, 255}


def _beside(folder: Path) -> tuple[Path, Path] | None:
    """The folders of images and of masks in a folder."""
    there = {name.lower(): folder / name for name in sub_folders(folder)}
    images = next((there[name] for name in IMAGES if name in there), None)
    masks = next((there[name] for name in MASKS if name in there), None)
    return (images, masks) if images is not None and masks is not None else None


def _split(folder: Path, split: str) -> Path | None:
    return next((folder / name for name in sub_folders(folder) if name.lower() in PART_NAMES[split]), None)


def _stem(file: str, folder: Path) -> str:
    return os.path.splitext(os.path.relpath(file, folder))[0].replace(os.sep, "/")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


_HOW = 'name them in the order of their numbers: `classes=["background", "road"]`, or one per line in `classes.txt`'
_TWO = 'the first is usually the background: `classes=["background", "road"]`'
_FOLDER = About("path", "images and masks are read from this folder")
_CLASSES = About("classes", "the classes of pixels")


def _is_class(name: str, target: MaskClasses) -> str:
    """How to say that pixels of the ignored number are a class."""
    return f"if that is a class, say so by its colour in `classes.txt`: `{name}{f' {target.ignored}' * 3}`"

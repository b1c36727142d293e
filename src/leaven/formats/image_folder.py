"""What a folder of images is: its parts, its classes and their images, and what may be wrong with it.

The checker reads a folder by these rules before anything starts, and the runtime when it loads it, so that the two
can't disagree. A file is an image by its name alone; opening it is left to the runtime, and how a finding is shown to
whoever asked.
"""

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from leaven.cache.folder_counts import Counted, Directory, times_of
from leaven.cache.folder_counts import counted as counted_images
from leaven.formats.finding import Finding
from leaven.formats.listing import both, in_code, some_names
from leaven.formats.texts import is_utf8

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
CONVERTIBLE = (".heic", ".heif", ".avif", ".gif", ".jfif", ".jp2", ".jxl", ".psd", ".cr2", ".nef", ".arw", ".dng")
PART_NAMES = {"train": ("train", "training"), "val": ("val", "valid", "validation", "dev"), "test": ("test", "testing")}
DROPPINGS = ("__MACOSX", "__pycache__", "@eaDir")  # what programs leave behind
MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A folder of class folders: those that hold images, and those that hold none."""

    folder: Path
    name: str
    images: Mapping[str, int]  # how many there are of each class
    empty: tuple[str, ...]
    inside: Mapping[str, Sequence[str]]  # the folders in that of each class

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.images)


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """The splits that a folder comes with, `train` among them; without any, all of it is the split ''."""

    parts: Mapping[str, PartFolder] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that are trained on, in alphabetical order."""
        return next((part.classes for part in self.parts.values()), ())

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(part for part in self.parts if part)

    @property
    def counts(self) -> dict[str, int]:
        """The number of images in each split that are of a class."""
        return {split: sum(part.images.values()) for split, part in self.parts.items()}


def read_image_folder(folder: Path, name: str) -> ImageFolder:
    """The splits and classes of a folder; `name` is its name in findings."""
    tops = sub_folders(folder)
    places = {part: [top for top in tops if top.lower() in names] for part, names in PART_NAMES.items()}
    are_all_parts = bool(tops) and sum(map(len, places.values())) == len(tops)
    # A `train` of images beside a `bus` is a class.
    places = {part: [t for t in there if are_all_parts or sub_folders(folder / t)] for part, there in places.items()}
    if not places["train"]:
        if are_all_parts:
            fact, help = f"`{name}` has {some_names(tops)} but no `train`", "name the folder with the training images"
            return ImageFolder(findings=(Finding("missing-file", fact, f"{help} `{_below(name, 'train')}`"),))
        read = _judged({"": _read_part(folder, name)})
        unused = list(_unused_siblings(folder, name)) if read.parts else []
        return replace(read, findings=(*read.findings, *unused))
    doubled = [there for there in places.values() if len(there) > 1]
    if doubled:
        return ImageFolder(findings=tuple(_doubled(name, there) for there in doubled))
    read = _judged({part: _read_part(folder / t, _below(name, t)) for part, there in places.items() for t in there})
    used = [top for there in places.values() for top in there]
    others = [top for top in tops if top not in used and any(True for _ in image_files(folder / top))]
    return replace(read, findings=(*read.findings, _beside_splits(name, used, others))) if others else read


def looks_split(names: Sequence[str]) -> bool:
    """Whether sub-folders are called like splits: `train2017` and `val2017`."""
    splits = [next((split for split, words in PART_NAMES.items() if _is_called(name, words)), None) for name in names]
    return None not in splits and "train" in splits and len(set(splits)) > 1


def _is_called(name: str, words: Sequence[str]) -> bool:
    return any(re.fullmatch(rf"{word}([\W\d_].*)?", name, re.IGNORECASE) for word in words)


def sub_folders(folder: Path) -> list[str]:
    """The names of the folders in a folder, without those that nobody made by hand; none where it can't be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not _is_hidden(entry.name) and _is_folder(entry))
    return []


def _obstacle(folder: Path) -> str | None:
    """Why a folder can't be looked into; None where it can."""
    try:
        os.scandir(folder).close()
    except OSError as problem:
        return problem.strerror
    return None


def files_below(folder: Path) -> Iterator[str]:
    """Every file in a folder, however deep, without hidden ones; what can't be read holds nothing."""
    for directory in _directories(str(folder)):
        yield from (os.path.join(directory.path, name) for name in directory.files)


def _directories(folder: str) -> Iterator[Directory]:
    """A folder and the directories in it, however deep, without hidden ones."""
    waiting = [(folder, _above(folder))]
    while waiting:
        place, above = waiting.pop()
        files, folders, times = [], [], None
        with suppress(OSError), os.scandir(place) as entries:
            status = os.stat(place)
            here = (status.st_dev, status.st_ino)
            if here in above:  # a link that leads back, or to other classes
                continue
            times = times_of(status)
            for entry in entries:
                if _is_hidden(entry.name):
                    continue
                if _is_folder(entry):
                    folders.append(entry.name)
                    waiting.append((entry.path, above | {here}))
                else:
                    files.append(entry.name)
                if entry.is_symlink() and not is_image(entry.name):
                    times = None
        yield Directory(place, files, folders, times)


def _above(folder: str) -> frozenset[tuple[int, int]]:
    """The devices and numbers of the directories that a folder is in."""
    above = set()
    for place in Path(os.path.abspath(folder)).parents:
        with suppress(OSError):
            status = os.stat(place)
            above.add((status.st_dev, status.st_ino))
    return frozenset(above)


def is_image(file: str) -> bool:
    return file.lower().endswith(IMAGE_ENDINGS)


def image_files(folder: Path) -> Iterator[str]:
    """The image files of a class, in no order."""
    return (file for file in files_below(folder) if is_image(file))


def counted(files: Sequence[str]) -> str:
    """Files by their endings, in words: '3 .heic and 1 .txt files'."""
    endings = Counter(sorted(os.path.splitext(file)[1].lower() or "other" for file in files)).most_common(MOST_SHOWN)
    listed = " and ".join(f"{count:,} {ending}" for ending, count in endings)
    return f"{listed} file{'s' * (len(files) != 1)}"


def how_to_convert(files: Sequence[str]) -> str | None:
    """How images of a kind that is not read become images that are; None where there are none."""
    file = next((file for file in sorted(files) if file.lower().endswith(CONVERTIBLE)), None)
    if file is None:
        return None
    place, ending = os.path.dirname(file), os.path.splitext(file)[1]
    command = f"magick mogrify -format jpg {shlex.quote(place)}/*{ending}"
    return f"convert them to .jpg, for example with ImageMagick: `{command}`"


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in DROPPINGS


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry.path))


def _below(name: str, inside: str) -> str:
    if name == ".":
        return inside
    return f"{name}{inside}" if name.endswith("/") else f"{name}/{inside}"


def images_in(folder: Path) -> dict[str, Counted]:
    """How many images each sub-folder has."""
    return counted_images(folder, sub_folders(folder), _directories, is_image)


def _read_part(folder: Path, name: str) -> PartFolder:
    found = images_in(folder)
    images = {top: there.images for top, there in found.items() if there.images}
    empty = tuple(top for top, there in found.items() if not there.images)
    return PartFolder(folder, name, images, empty, {top: there.folders for top, there in found.items()})


# -- what may be wrong


def _judged(parts: Mapping[str, PartFolder]) -> ImageFolder:
    train, *others = parts.values()
    if len(train.classes) < 2:
        return ImageFolder(findings=(_too_few_classes(train),))
    findings = [_not_utf8(train, name) for name in train.classes if not is_utf8(name)]
    for part in parts.values():
        # That a class without images in train has some elsewhere is the graver fact.
        empty = [name for name in part.empty if part is not train or not any(name in o.classes for o in others)]
        findings += [_empty_classes(part, empty)] if empty else []
    for part in others:
        if not part.classes and not part.empty:
            findings.append(_unlabelled(part, train.classes[0]))
        extra = [name for name in part.classes if name not in train.classes]
        lacking = [name for name in train.classes if name not in (*part.classes, *part.empty)]
        if extra:
            findings.append(_foreign_classes(part, train, extra, lacking))
        elif lacking and part.classes:
            each = "it" if len(lacking) == 1 else "each"
            help = f"add images of {each} to `{part.name}`; otherwise it is never evaluated"
            findings.append(Finding("unequal-classes", _in_one(lacking, train, part), help, is_error=False))
    if "" in parts and looks_split(train.classes):
        findings.append(_splits_as_classes(train))
    elif "" in parts and all(looks_split(train.inside[name]) for name in train.classes):
        findings.append(_splits_in_classes(train))
    findings += [loose for part in parts.values() if part.classes and (loose := _loose(part)) is not None]
    kept = {key: part for key, part in parts.items() if part.classes}
    return ImageFolder(kept, tuple(findings))


def _too_few_classes(part: PartFolder) -> Finding:
    if obstacle := _obstacle(part.folder):
        return Finding("missing-file", f"`{part.name}` can't be read: {obstacle}", "check the folder's permissions")
    found = "no sub-folders with images" if part.empty else "no sub-folders"
    if part.classes:
        found = f"images of `{part.classes[0]}` only" if part.empty else f"only `{part.classes[0]}`"
    ants, bees = _below(part.name, "ants"), _below(part.name, "bees")
    help = f"put the images of each class into its own sub-folder: `{ants}`, `{bees}`"
    if part.classes and len(sub_folders(part.folder / part.classes[0])) > 1:
        help = f"name the folder that has the classes: `{_below(part.name, part.classes[0])}`"
    fact = f"`{part.name}` has {found}, but a classifier needs two classes or more"
    help = how_to_convert(_shown_files(part, part.empty)) or help
    return Finding("no-classes", fact, help, _contents(part, part.empty))


def _not_utf8(part: PartFolder, name: str) -> Finding:
    shown = name.encode("utf-8", "backslashreplace").decode()
    fact = f"the name of the class `{_below(part.name, shown)}` is not UTF-8"
    return Finding("wrong-label", fact, "rename the folder")


def _splits_as_classes(part: PartFolder) -> Finding:
    old = next(name for name in part.classes if _is_called(name, PART_NAMES["train"]))
    help = f"put the images of each class into its own sub-folder, such as `{_below(part.name, 'train/ants')}`"
    if sub_folders(part.folder / old):
        help = f"if they are splits, rename `{_below(part.name, old)}` to `{_below(part.name, 'train')}`, and so on"
    fact = f"the sub-folders of `{part.name}` are read as classes, but have names of splits: {some_names(part.classes)}"
    return Finding("split-as-class", fact, help, is_error=False)


def _empty_classes(part: PartFolder, names: Sequence[str]) -> Finding:
    fact = f"`{_below(part.name, names[0])}` contains no images and is ignored"
    if len(names) > 1:
        fact = f"{len(names)} sub-folders of `{part.name}` contain no images and are ignored: {some_names(names)}"
    it = "it" if len(names) == 1 else "them"
    add = f"add images ({', '.join(IMAGE_ENDINGS)}), or remove {it} from `{part.name}`"
    help = how_to_convert(_shown_files(part, names)) or add
    return Finding("empty-class", fact, help, _contents(part, names), is_error=False)


def _contents(part: PartFolder, names: Sequence[str]) -> tuple[str, ...]:
    """The contents of the first of some folders without images, in words."""
    told = []
    for name in names[:MOST_SHOWN]:
        files = list(files_below(part.folder / name))
        obstacle = _obstacle(part.folder / name)
        held = f"contains {counted(files)}" if files else f"can't be read: {obstacle}" if obstacle else "is empty"
        told.append(f"`{_below(part.name, name)}` {held}")
    return tuple(told)


def _shown_files(part: PartFolder, names: Sequence[str]) -> list[str]:
    """The files of some class folders, by the name that findings use."""
    start = len(str(part.folder))
    files = [file for name in names[:MOST_SHOWN] for file in files_below(part.folder / name)]
    return [_below(part.name, file[start:].replace(os.sep, "/").strip("/")) for file in files]


def _foreign_classes(part: PartFolder, train: PartFolder, names: Sequence[str], lacking: Sequence[str]) -> Finding:
    notes = _contents(train, [name for name in names if name in train.empty])
    if lacking:  # of one class that is spelt in two ways, both are seen
        notes += (_in_one(lacking, train, part),)
    help = "use the same class names in both, or add training images for each class"
    if len(part.classes) == 1 and len(lacking) == len(train.classes):
        help = f"use the same class names in both; if its images have no labels, move `{part.name}` elsewhere"
    return Finding("unequal-classes", _in_one(names, part, train), help, notes)


def _in_one(names: Sequence[str], part: PartFolder, other: PartFolder) -> str:
    """The fact that classes are in one part and not in the other."""
    classes = "class {} is" if len(names) == 1 else "classes {} are"
    return f"{classes.format(some_names(names))} in `{part.name}` but not in `{other.name}`"


def _unlabelled(part: PartFolder, class_: str) -> Finding:
    fact = f"`{part.name}` has no sub-folders for the classes and is ignored"
    help = f"put the images of each class into its own sub-folder, as in `train`: `{_below(part.name, class_)}`"
    return Finding("no-classes", fact, help, ("images without labels are for `leaven predict`",), is_error=False)


def _loose(part: PartFolder) -> Finding | None:
    count = 0
    with suppress(OSError), os.scandir(part.folder) as entries:
        count = sum(is_image(entry.name) and not _is_hidden(entry.name) for entry in entries)
    if not count:
        return None
    images, are, them = (f"{count:,} images", "are", "them") if count > 1 else ("an image", "is", "it")
    fact = f"`{part.name}` has {images} outside of its sub-folders, which {are} ignored"
    help = f"move {them} into the sub-folder of a class, such as `{_below(part.name, part.classes[0])}`"
    return Finding("no-classes", fact, help, is_error=False)


def _splits_in_classes(part: PartFolder) -> Finding:
    first = part.classes[0]
    inside = sub_folders(part.folder / first)
    listed, better = some_names([f"{first}/{name}" for name in inside]), _below(part.name, f"{inside[0]}/{first}")
    fact = f"the splits inside of the classes of `{part.name}` are ignored, and the split is random: {listed}"
    return Finding("unused-split", fact, f"put the classes into the splits: `{better}`", is_error=False)


def _unused_siblings(folder: Path, name: str) -> Iterator[Finding]:
    """A warning where a training split is read alone, and not the others beside it."""
    place = Path(os.path.abspath(folder))
    if place.name.lower() not in PART_NAMES["train"]:
        return
    words = [word for part in ("val", "test") for word in PART_NAMES[part]]
    beside = [top for top in sub_folders(place.parent) if top.lower() in words and sub_folders(place.parent / top)]
    if beside:
        above = os.path.dirname(name.rstrip("/")) or "."
        are, them = ("is", "it") if len(beside) == 1 else ("are", "them")
        others = some_names([_below(above, top) for top in beside])
        fact = f"{others} beside `{name}` {are} not used, and the split is random"
        yield Finding("unused-split", fact, f'write `folder("{above}")` to use {them}', is_error=False)


def _beside_splits(name: str, used: Sequence[str], others: Sequence[str]) -> Finding:
    ignored = f"{some_names([_below(name, top) for top in others])} {'are' if len(others) > 1 else 'is'} ignored"
    help = "move the images into the class folders of a split, or the folder elsewhere"
    return Finding("unused-split", f"`{name}` has the splits {some_names(used)}, so {ignored}", help, is_error=False)


def _doubled(name: str, tops: Sequence[str]) -> Finding:
    fact = f"`{name}` has both {both(in_code(tops))}, which are the same split"
    return Finding("repeated-split", fact, "keep one of them")

"""A look at a folder, for a first recipe: of images or texts in folders for their classes, or of images with masks."""

import os
import re
from collections import Counter
from pathlib import Path

from leaven.first.objects import AnnotatedFolder, annotated_place, look_at_objects
from leaven.first.options import NotUnderstood, seen_in
from leaven.formats.finding import Finding
from leaven.formats.image_folder import counted, files_below, how_to_convert, image_files, is_image, read_image_folder
from leaven.formats.listing import some
from leaven.formats.texts import is_utf8
from leaven.language.record import Record
from leaven.sources.image_sizes import unreadable_images
from leaven.sources.mask_folder import BLACK_AND_WHITE, MaskFolder, are_black_and_white, looks_like_masks
from leaven.sources.text_folder import TextFolder
from leaven.terminal.commands import typed

UNLABELLED = ("unsup", "unsupervised", "unlabeled", "unlabelled")  # what folders of texts without a label are called


class FolderLook(Record):
    """The content of a folder of images or texts."""

    path: Path
    images: dict[str, int]  # per class, for training
    splits: tuple[str, ...]
    others: tuple[str, ...]  # files in the class folders that are not images
    findings: tuple[Finding, ...]
    source: str = "folder"
    left_out: tuple[str, ...] = ()  # sub-folders with texts that nobody labelled
    classes: tuple[str, ...] = ()  # as the recipe names them, where it has to
    unreadable: tuple[str, ...] = ()  # files that are called images and are none

    @property
    def noun(self) -> str:
        return "texts" if self.source == "text_folder" else "images"

    @property
    def total(self) -> int:
        return max(self.images.values()) if self.source == "mask_folder" else sum(self.images.values())

    @property
    def seen(self) -> str:
        """The lines that `leaven new` prints about the folder."""
        splits = f" for training, already split into {', '.join(self.splits)}" if self.splits else ""
        lines = [f"{self.path}: {len(self.images)} classes, {self.total:,} {self.noun}{splits}"]
        name, count = min(self.images.items(), key=lambda item: item[1])
        if count < 5:
            noun = self.noun if count > 1 else self.noun.removesuffix("s")
            lines.append(f"{name} has only {count} {noun}: very few to learn from")
        lines += seen_in(self.findings)
        if self.classes == BLACK_AND_WHITE:
            lines.append(
                "the masks are black and white: white is taken for the object; `classes=` in the recipe names it"
            )
        for name in self.left_out:
            lines.append(
                f"the texts in {name} have no label, as its name says: they are left out by `classes=` in the recipe"
            )
        if self.others:
            lines.append(f"ignored, because they are not readable images: {counted(self.others)}")
            convert = how_to_convert(self.others)
            lines += [f"  {convert}"] if convert else []
        if self.unreadable:
            files = some([typed(os.path.relpath(file, self.path)) for file in self.unreadable], 3)
            fault = "file is not an image" if len(self.unreadable) == 1 else "files are not images"
            lines.append(f"{len(self.unreadable):,} {fault}, and left out by `on_bad_file skip`: {files}")
        return "\n".join(lines)


def look_at_folder(given: Path) -> "FolderLook | AnnotatedFolder":
    """The classes, splits and images of a folder; `NotUnderstood` where it can't be trained on."""
    annotated = annotated_place(given)
    folder = annotated or given
    if annotated is None and not folder.is_dir():
        fault = "is a file, not a folder of images" if folder.exists() else "does not exist"
        raise NotUnderstood(f"{folder} {fault}")
    if not is_utf8(str(folder.resolve())):
        raise NotUnderstood(f"recipes are UTF-8, but the name of {folder} is not; rename the folder")
    if (objects := look_at_objects(folder)) is not None:
        return objects
    if looks_like_masks(folder):
        return _masked(folder)
    read = read_image_folder(folder, folder.as_posix())
    wrong = next((finding for finding in read.findings if finding.is_error or finding.id == "split-as-class"), None)
    if wrong is not None and (texts := _of_texts(folder)) is not None:
        return texts
    if wrong is not None:
        raise NotUnderstood(wrong._replace(help=_classes_in_names(folder) or wrong.help).text)
    train = next(iter(read.parts.values()))
    files = [file for part in read.parts.values() for name in part.classes for file in image_files(part.folder / name)]
    return FolderLook(
        path=folder,
        images=dict(train.images),
        splits=read.splits,
        others=tuple(file for name in train.images for file in files_below(train.folder / name) if not is_image(file)),
        findings=read.findings,
        unreadable=unreadable_images(sorted(files)),
    )


def _classes_in_names(folder: Path) -> str:
    """How to make a table of images whose names begin with their class: `cat.0.jpg`; empty where they don't."""
    place = folder / "train" if (folder / "train").is_dir() else folder
    names = [name for name in os.listdir(place) if is_image(name) and "," not in name]
    classes = Counter(found[1] for name in names if (found := re.fullmatch(r"(.+)[ ._-]\d+\.\w+", name)))
    if len(classes) < 2 or classes.total() < len(names) or min(classes.values()) < 2:
        return ""
    words = ", ".join(f"`{name}`" for name in sorted(classes)[:3])
    table = typed(f"{file_name_for(folder)}.csv")
    pattern = r"s/^(.+)[ ._-][0-9]+\.[A-Za-z]+$/&,\1/p"
    return (
        f"the names of its images begin with {words}; a table can list them:\n"
        f"  (echo file,label; ls {typed(place)} | sed -nE '{pattern}') > {table}\n"
        f"  leaven new {table} --root {typed(place)}"
    )


def _masked(folder: Path) -> FolderLook:
    """A folder of images and masks."""
    source = MaskFolder(folder, folder.as_posix())
    classes: tuple[str, ...] = ()
    looked = source.look()
    if any(finding.id == "no-classes" for finding in looked.findings) and are_black_and_white(folder):
        classes = BLACK_AND_WHITE
        looked = source._replace(classes=classes).look()
    wrong = next((finding for finding in looked.findings if finding.is_error), None)
    if wrong is not None:
        help = "name the classes in classes.txt, one per line" if wrong.id == "no-classes" else wrong.help
        raise NotUnderstood(wrong._replace(help=help).text)
    counts = dict.fromkeys(looked.names, next(iter(looked.counts.values())))
    return FolderLook(folder, counts, looked.splits, (), looked.findings, "mask_folder", classes=classes)


def _of_texts(folder: Path) -> FolderLook | None:
    """A folder of text files for each class; None where it is none."""
    texts = TextFolder(folder, folder.as_posix())
    looked = texts.look()
    left_out = tuple(name for name in looked.names if name.lower() in UNLABELLED)
    if left_out and len(looked.names) > len(left_out) + 1:
        looked = texts._replace(classes=[name for name in looked.names if name not in left_out]).look()
    if any(finding.is_error for finding in looked.findings):
        return None
    counts = dict(zip(looked.names, looked.class_counts, strict=True))
    classes = looked.names if left_out else ()
    return FolderLook(folder, counts, looked.splits, (), looked.findings, "text_folder", left_out, classes)


def file_name_for(place: Path) -> str:
    """The name of a file about a folder or table, without its ending."""
    absolute = Path(os.path.abspath(place))
    name = (absolute.stem if place.is_file() else absolute.name) or "recipe"
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)

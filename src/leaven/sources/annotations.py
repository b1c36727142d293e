"""Images with boxes, whatever the format of their annotations: what is read, and what may be wrong with it.

Something wrong with an annotation is an error; with `on_bad_file skip` it is left out, and counted in a warning.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leaven.formats.finding import About, BadSource, Finding
from leaven.formats.image_folder import IMAGE_ENDINGS, PART_NAMES
from leaven.formats.listing import some_names
from leaven.sources.copies import copies
from leaven.sources.source import OnBadFile, Samples, SourceFacts, joined
from leaven.tasks.detection.target import Box, Categories, Object, Objects, box_fault, within

LARGEST_LOOK = 50_000_000  # bytes: a look at more takes too long
_LISTED = 5
_CORRECT = "correct the annotations"


class Image(NamedTuple):
    """An image with what is marked in it."""

    file: str
    objects: tuple[Object, ...]


class Problems:
    """The problems in the annotations of a source, which findings call `name`; `argument` is that of the data statement
    which names the files being read."""

    def __init__(self, name: str, on_bad_file: OnBadFile, argument: str = "path") -> None:
        self.name = name
        self.skips = on_bad_file == "skip"
        self.argument = argument
        self.found: list[Finding] = []
        self._nouns: Counter[str] = Counter()

    def add(self, fact: str, help: str = "", id: str = "wrong-annotation", noun: str = "annotation") -> None:
        """`noun` is what would be skipped."""
        skipping = f"`on_bad_file skip` leaves such {noun}s out"
        self.found.append(annotations_at(self.argument).of(Finding(id, fact, f"{help or _CORRECT}; {skipping}")))
        self._nouns[noun] += 1

    def findings(self) -> tuple[Finding, ...]:
        """One finding for all; a BadSource where they are not skipped."""
        if not self.found:
            return ()
        first, others = self.found[0], self.found[1:]
        if self.skips:
            counts = [
                f"{count:,} {noun}s" if count > 1 else f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
                for noun, count in sorted(self._nouns.items())
            ]
            verb = "is" if len(self.found) == 1 else "are"
            fact = f"{' and '.join(counts)} {verb} skipped: {first.fact}{', and others' * bool(others)}"
            return (first._replace(fact=fact, help="", is_error=False),)
        notes = [f"also, {other.fact}" for other in others[:_LISTED]]
        notes += [f"and {len(others) - _LISTED:,} more"] if len(others) > _LISTED else []
        raise BadSource(first._replace(notes=tuple(notes)))

    def box(self, box: Box, size: tuple[float, float] | None, place: str, help: str = "") -> Box | None:
        """A box within its image; None where it is outside, or has no size."""
        if fault := box_fault(box, size):
            self.add(f"{place} {fault}", help)
            return None
        return within(box, size) if size is not None else box


class ImageIndex:
    """The images in a folder, found by their path or, if that is not theirs, by their name alone.

    Splits often have images of equal names in folders of their own: of several, the one beside the annotations or in
    the folder of their split is meant. Where that does not tell, all of them are returned.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.by_path: dict[str, str] = {}
        self.by_name: dict[str, list[str]] = {}
        self.by_stem: dict[str, list[str]] = {}
        for place, inside, files in os.walk(folder):
            inside.sort()
            for file in sorted(files):
                if file.lower().endswith(IMAGE_ENDINGS) and not file.startswith("."):
                    path = os.path.join(place, file)
                    self.by_path[self._inside(path)] = path
                    self.by_name.setdefault(file, []).append(path)
                    self.by_stem.setdefault(os.path.splitext(file)[0], []).append(path)

    def find(self, name: str, annotations: Path, split: str = "") -> list[str]:
        """The images that a file of annotations, of a split, may mean by a name or path."""
        name = name.replace("\\", "/")
        beside = self.by_path.get(self._inside(os.path.join(annotations.parent, name)))
        exact = beside or self.by_path.get(name)
        return [exact] if exact else self._nearest(self.by_name.get(name.rpartition("/")[2], []), annotations, split)

    def named(self, stem: str, annotations: Path, split: str = "") -> list[str]:
        """The images of that name without its ending that a file of annotations may mean."""
        return self._nearest(self.by_stem.get(stem, []), annotations, split)

    def _nearest(self, images: list[str], annotations: Path, split: str) -> list[str]:
        if len(images) < 2:
            return images
        split = split or named_split(annotations.name) or named_split(annotations.parent.name)
        within = os.path.join(os.path.normpath(annotations.parent), "")
        beside = [path for path in images if os.path.normpath(path).startswith(within)]
        folders = {path: os.path.dirname(self._inside(path)).split("/") for path in images}
        splits = {path: next(filter(None, map(named_split, names)), "") for path, names in folders.items()}
        of_split = [path for path in images if split and splits[path] == split]
        return next((chosen for chosen in (beside, of_split) if len(chosen) == 1), images)

    def _inside(self, path: str) -> str:
        return os.path.relpath(path, self.folder).replace(os.sep, "/")


def several(name: str, found: Sequence[str], folder: Path) -> tuple[str, str]:
    """The words for an image that several files may be: the fact, and what helps."""
    places = [os.path.relpath(path, folder).replace(os.sep, "/") for path in found]
    shown = " and ".join(f"`{place}`" for place in places[:2]) + (" and others" if len(places) > 2 else "")
    help = "give it by its path in that folder, or name the folders of images like their splits"
    return f"`{name}` may be {shown} of `{folder.name}`", help


class Read(NamedTuple):
    """The names of the categories, and the images of each split, or of '' where there is none."""

    names: tuple[str, ...]
    splits: Mapping[str, Sequence[Image]]
    problems: Problems
    is_relative: bool = False

    def facts(self) -> SourceFacts:
        try:
            findings = self.problems.findings()
        except BadSource as bad:
            findings = bad.findings
        if not any(finding.is_error for finding in findings) and not self.has_objects:
            findings = (*findings, *self._no_objects().findings)
        counts = {split: len(images) for split, images in self.splits.items()}
        return SourceFacts(self.names, tuple(filter(None, counts)), (*findings, *self._unused()), counts)

    def samples(self, target: type[Categories] = Categories) -> Samples:
        """All samples; a BadSource where something is wrong."""
        findings = self.problems.findings()
        if not self.has_objects:
            raise self._no_objects()
        images, splits = joined(self.splits)
        values = [Objects(image.objects, self.is_relative) for image in images]
        files = [image.file for image in images]
        return Samples(
            target(self.names), values, files, splits, findings=(*findings, *self._unused(), *copies(files, values))
        )

    @property
    def has_objects(self) -> bool:
        return any(image.objects for images in self.splits.values() for image in images)

    def _no_objects(self) -> BadSource:
        fact, help = f"`{self.problems.name}` has no objects", "a detector learns from annotated images"
        return annotations_at(self.problems.argument).error("wrong-annotation", fact, help)

    def _unused(self) -> Iterable[Finding]:
        """A warning about categories without objects."""
        train = self.splits.get("train", self.splits.get("", ()))
        used = {one.category for image in train for one in image.objects}
        unused = [name for at, name in enumerate(self.names) if at not in used]
        if unused and used:
            names = some_names(unused, _LISTED)
            many = f"{len(unused)} of the {len(self.names)} categories: {names}"
            fact = f"training has no objects of {many if len(unused) > 1 else f'the category {names}'}"
            where = f"remove such categories from `{self.problems.name}`, or add images"
            help = f"a model can't learn what it is not shown: {where}"
            yield annotations_at(self.problems.argument).warning("unused-category", fact, help)


def annotations_at(argument: str = "path") -> About:
    """The argument that names the annotations, for findings about them."""
    return About(argument, "the annotations are read from here")


def named_split(name: str) -> str:
    """The split that the name of a file or folder tells: `instances_val2017.json` is val; empty where it tells none."""
    words = re.findall("[a-z]+", name.lower())
    if "trainval" in words:
        return "train"
    return next((split for word in words for split, names in PART_NAMES.items() if word in names), "")


def as_text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}…"

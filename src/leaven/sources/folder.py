"""A folder of images: one sub-folder per class, or a table in it that lists the images with their labels."""

import os
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from leaven.files.file_names import FileNames
from leaven.formats.finding import About, BadSource
from leaven.formats.image_folder import image_files, images_in, looks_split, read_image_folder, sub_folders
from leaven.formats.listing import some_names
from leaven.sources.copies import copies
from leaven.sources.source import Samples, SourceFacts, predefined, returns_findings
from leaven.terminal import status_line

if TYPE_CHECKING:
    from leaven.formats.target import TargetReader
    from leaven.sources.table import Table

_FOLDER = About("path", "images are read from this folder")
_PACKED = (".zip", ".tar", ".gz", ".tgz", ".7z")


class Folder(NamedTuple):
    """A folder. `name` is what findings call it; with `target`, a table in it has the labels."""

    path: Path
    name: str
    target: "TargetReader | None" = None

    @returns_findings
    def look(self) -> SourceFacts:
        from leaven.formats.doubtful_labels import doubt_folders  # only a check needs it

        _check_folder(self.path, self.name)
        if self.target is not None:
            return self._listed(self.target).look()
        read = read_image_folder(self.path, self.name)
        images = next((part.images for part in read.parts.values()), {})
        findings = [_FOLDER.of(finding) for finding in read.findings]
        if images and (doubt := doubt_folders(images)) is not None:
            findings.append(_FOLDER.warning("unlikely-labels", f"`{self.name}` {doubt.fact}", doubt.help))
        return SourceFacts(read.classes, read.splits, tuple(findings), read.counts, tuple(images.values()))

    def open(self) -> Samples:
        _check_folder(self.path, self.name)
        if self.target is not None:
            return self._listed(self.target).open()
        read = read_image_folder(self.path, self.name)
        for finding in read.findings:
            if finding.is_error:
                raise BadSource(finding)
        from leaven.tasks.classification.target import Classes  # a look does without

        classes = Classes(read.classes)
        files, values = FileNames(str(self.path)), array("q")
        sizes: dict[str, int] = {}
        for split, there in read.parts.items():
            before = len(files)
            for name in there.classes:
                files.extend(sorted(image_files(there.folder / name)))
                values.extend([classes.value(name)] * (len(files) - len(values)))
                status_line.update(lambda: f"reading {self.name}: {len(files):,} images…")
            sizes[split] = len(files) - before
        return Samples(classes, values, files, predefined(sizes), findings=(*read.findings, *copies(files, values)))

    def sizes(self) -> dict[tuple[int, int], str]:
        """The heights and widths of its images, each with one that has it."""
        from leaven.sources.image_sizes import image_sizes

        if self.target is not None:
            return self._listed(self.target).sizes()
        parts = read_image_folder(self.path, self.name).parts.values()
        files = [file for part in parts for name in part.classes for file in sorted(image_files(part.folder / name))]
        return image_sizes(files, self.path)

    def _listed(self, target: "TargetReader") -> "Table":
        """The table in the folder: `metadata.csv`, or `train/metadata.csv` and others where there are splits."""
        from leaven.sources.table import Table  # few recipes need it

        return Table(self.path, self.name, target, is_metadata=True)


def _check_folder(path: Path, name: str) -> None:
    if os.path.isdir(path):
        return
    if not os.path.exists(path):
        raise _FOLDER.error("missing-file", f"`{name}` does not exist")
    from leaven.formats.tables import formats

    help, ending = "use the folder that contains one sub-folder per class", path.suffix.lower()
    if ending in formats():
        help = f'write `{formats()[ending].SOURCE}("{name}", image="…", label="…")` for a table'
    elif ending in _PACKED:
        help = "unpack it and use the folder"
    raise About("path", "expected a folder").error("missing-file", f"`{name}` is a file, not a folder", help)


class TorchvisionFolder(NamedTuple):
    """A folder as torchvision's `ImageFolder` reads it, which opens it: every sub-folder is a class."""

    path: Path
    name: str
    target: "TargetReader | None" = None
    allow_empty: bool = False

    @returns_findings
    def look(self) -> SourceFacts:
        _check_folder(self.path, self.name)
        names = tuple(sub_folders(self.path))
        if not looks_split(names):
            images = tuple(there.images for there in images_in(self.path).values())
            is_known = all(images)  # torchvision decides about empty classes
            return SourceFacts(names, counts={"": sum(images)}, class_counts=images) if is_known else SourceFacts(names)
        fact = f"the sub-folders of `{self.name}` are read as classes, but have names of splits: {some_names(names)}"
        help = f'use `folder("{self.name}")`, which reads `train`, `val` and `test` as splits'
        return SourceFacts(names, findings=(_FOLDER.warning("split-as-class", fact, help),))

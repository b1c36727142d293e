"""A folder of images: one sub-folder per class, or a table in it that lists the images with their labels."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from leaven.formats.finding import BadSource, Finding
from leaven.formats.image_folder import image_files, read_image_folder
from leaven.sources.source import Looked, Samples, predefined

if TYPE_CHECKING:
    from leaven.formats.target import TargetReader
    from leaven.sources.table import ImageTable

_PACKED = (".zip", ".tar", ".gz", ".tgz", ".7z")


class Folder(NamedTuple):
    """A folder. `name` is what findings call it; with `target`, a table in it has the labels."""

    path: Path
    name: str
    target: "TargetReader | None" = None

    def look(self) -> Looked:
        if not os.path.isdir(self.path):
            return Looked(findings=(self._not_a_folder(),))
        if self.target is not None:
            return self._listed(self.target).look()
        read = read_image_folder(self.path, self.name)
        return Looked(read.classes, read.splits, tuple(map(_at_path, read.findings)), read.counts)

    def open(self) -> Samples:
        if not os.path.isdir(self.path):
            raise BadSource(self._not_a_folder())
        if self.target is not None:
            return self._listed(self.target).open()
        read = read_image_folder(self.path, self.name)
        for finding in read.findings:
            if finding.is_error:
                raise BadSource(finding)
        from leaven.tasks.classification.target import Classes  # a look does without

        classes = Classes(read.classes)
        found = {
            split: [(file, classes.value(n)) for n in there.classes for file in sorted(image_files(there.folder / n))]
            for split, there in read.parts.items()
        }
        pairs = [pair for split in found.values() for pair in split]
        return Samples(
            classes,
            [value for _, value in pairs],
            [file for file, _ in pairs],
            predefined({split: len(there) for split, there in found.items()}),
            findings=read.findings,
        )

    def _listed(self, target: "TargetReader") -> "ImageTable":
        from leaven.sources.table import metadata_folder  # few recipes need it

        return metadata_folder(self.path, self.name, target)

    def _not_a_folder(self) -> Finding:
        from leaven.formats.tables import formats

        if not os.path.exists(self.path):
            return _at_path(Finding("missing-file", f"`{self.name}` does not exist"))
        help, ending = "use the folder that contains one sub-folder per class", self.path.suffix.lower()
        if ending in formats():
            help = f'write `{formats()[ending].SOURCE}("{self.name}", image="…", label="…")` for a table'
        elif ending in _PACKED:
            help = "unpack it and use the folder"
        finding = Finding("missing-file", f"`{self.name}` is a file, not a folder", help)
        return _at_path(finding)._replace(label="expected a folder")


def _at_path(finding: Finding) -> Finding:
    return finding._replace(argument="path", label="images are read from this folder")

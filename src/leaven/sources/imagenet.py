"""ImageNet and the Stanford dogs: images in folders that are named by the wnid of their class.

Both are read as they are unpacked; classes are named in words. Archives are never unpacked here: that takes hours, and
a folder that a recipe reads is left as it is.
"""

import csv
import os
import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from leaven.files.file_names import FileNames
from leaven.formats.class_names import published_classes
from leaven.formats.finding import About, Finding
from leaven.formats.image_folder import image_files, images_in, is_image, sub_folders
from leaven.sources.folder import Folder
from leaven.sources.source import Samples, SourceFacts, joined, predefined, returns_findings

_WNID = re.compile(r"n\d{8}")
_BREED = re.compile(r"(n\d{8})-(.+)")
_KAGGLE = ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC")  # where the archive of its competition has the images
_SOLUTION = "LOC_val_solution.csv"
_ARCHIVES = ("ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar")
_ROOT = About("root", "images are read from this folder")


class ImageNet(NamedTuple):
    """ImageNet in torchvision's layout (`train/n01440764`), in that of its competition at Kaggle, or any of its classes
    in folders that are named by wnid or in words."""

    path: Path
    name: str

    @returns_findings
    def look(self) -> SourceFacts:
        self._check_unpacked()
        facts = self._folder.look()
        names, _ = named(facts.names)
        validation = self._validation(facts.names)
        if validation is None:
            return facts._replace(names=names, findings=self._findings(facts.findings))
        images, left_out = validation
        findings = (*(finding for finding in facts.findings if finding.is_error), *left_out)
        counts = {"train": facts.counts.get("train", 0), "val": len(images)}
        return facts._replace(names=names, splits=("train", "val"), counts=counts, findings=findings)

    def open(self) -> Samples:
        from leaven.tasks.classification.target import Classes  # a look does without

        self._check_unpacked()
        read = self._folder.open()
        folders = read.target.names
        names, wnids = named(folders)
        classes = Classes(names, wnids=wnids)
        validation = self._validation(folders)
        if validation is None:
            return read._replace(target=classes, findings=self._findings(read.findings))
        images, left_out = validation
        files, values = FileNames(str(self.path)), array("q", read.values)
        files.extend(read.files)
        files.extend(images)
        values.extend(images.values())
        splits = predefined({"train": len(read.files), "val": len(images)})
        return Samples(classes, values, files, splits, findings=left_out)

    @property
    def _folder(self) -> Folder:
        inside = next((place for place in _KAGGLE if (self.path / place).is_dir()), "")
        return Folder(self.path / inside, f"{self.name}/{inside}" if inside else self.name)

    def _check_unpacked(self) -> None:
        """There are folders in the folder. Whether it is one is checked when they are read."""
        if not self.path.is_dir() or sub_folders(self.path):
            return
        packed = [name for name in _ARCHIVES if (self.path / name).is_file()]
        if packed:
            fact = f"the archives of ImageNet in `{self.name}` are not unpacked: {', '.join(packed)}"
            splits = [split for split, name in zip(("train", "val"), _ARCHIVES, strict=True) if name in packed]
            made = "; ".join(f"ImageNet('{self.name}', '{split}')" for split in splits)
            help = f'torchvision does that: `python -c "from torchvision.datasets import ImageNet; {made}"`'
            raise _ROOT.error("missing-file", fact, help)
        fact = f"`{self.name}` has no `train` and `val`, and no folders of classes"
        help = "ImageNet grants access on request: download its archives and unpack them into `train` and `val`"
        raise _ROOT.error("missing-file", fact, help)

    def _validation(self, folders: Sequence[str]) -> tuple[dict[str, int], tuple[Finding, ...]] | None:
        """The images of a `val` without folders, each with the number of its class by the table of the competition, and
        that some are left out; None where there is no such `val`."""
        folder = self._folder.path / "val"
        if not folder.is_dir() or sub_folders(folder):
            return None
        table = next((place / _SOLUTION for place in (self.path, folder.parent) if (place / _SOLUTION).is_file()), None)
        if table is None:
            return None
        index = {wnid: at for at, wnid in enumerate(folders)}
        wnids = self._solution(table)
        files = [name for name in sorted(os.listdir(folder)) if is_image(name)]
        kept = {str(folder / file): index[wnid] for file in files if (wnid := wnids.get(Path(file).stem, "")) in index}
        findings: tuple[Finding, ...] = ()
        if left_out := len(files) - len(kept):
            fact = f"{left_out:,} of {len(files):,} images in `val` are left out"
            reason = f"by `{_SOLUTION}`, `train` does not have their class"
            findings = (_ROOT.warning("unequal-classes", f"{fact}: {reason}"),)
        return (kept, findings) if kept else None

    def _solution(self, table: Path) -> dict[str, str]:
        """The wnid of each validation image."""
        try:
            with table.open(newline="", encoding="utf-8") as lines:
                return {row["ImageId"]: row["PredictionString"].split(" ", 1)[0] for row in csv.DictReader(lines)}
        except (OSError, ValueError, KeyError, AttributeError, csv.Error):
            fact = f"`{table.name}` in `{self.name}` does not have the columns `ImageId` and `PredictionString`"
            help = "download it again from the competition, or remove it"
            raise _ROOT.error("wrong-format", fact, help) from None

    def _findings(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """The findings of the folder; the help is about ImageNet where validation images have no classes."""
        help = f"put `{_SOLUTION}` into `{self.name}`, or the images of each class into a folder with its wnid"
        return tuple(
            _ROOT.of(finding._replace(help=help) if finding.id == "no-classes" and not finding.is_error else finding)
            for finding in findings
        )


def named(folders: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of classes in words, and their wnids; folders that have other names are classes of that name."""
    if not folders or not all(map(_WNID.fullmatch, folders)):
        return tuple(folders), ()
    published = published_classes("imagenet-1k")
    words = dict(zip(published.wnids, published.names, strict=True))
    return tuple(words.get(folder, folder) for folder in folders), tuple(folders)


class StanfordDogs(NamedTuple):
    """The Stanford dogs as their archives are unpacked: `Images/n02085620-Chihuahua`, `train_list.mat`."""

    path: Path
    name: str

    @returns_findings
    def look(self) -> SourceFacts:
        folder, lists = self._images(), self._lists()
        images = _breed_folders(folder)
        names, _ = breeds(tuple(images))
        if not lists:
            return SourceFacts(names, (), (self._no_lists(),), {"": sum(images.values())}, tuple(images.values()))
        return SourceFacts(names, tuple(lists), counts={split: len(files) for split, files in lists.items()})

    def open(self) -> Samples:
        from leaven.tasks.classification.target import Classes  # a look does without

        folder, lists = self._images(), self._lists()
        folders = tuple(_breed_folders(folder))
        if not lists:
            lists = {"": [f"{top}/{Path(f).name}" for top in folders for f in sorted(image_files(folder / top))]}
        names, wnids = breeds(folders)
        index = {name: at for at, name in enumerate(folders)}
        listed, splits = joined(lists)
        if unknown := next((file for file in listed if file.partition("/")[0] not in index), None):
            fact = f"`train_list.mat` and `test_list.mat` name `{unknown}`, whose folder is not in `{folder.name}`"
            raise _ROOT.error("missing-file", fact, "unpack images.tar again")
        files = FileNames(str(folder))
        files.extend([str(folder / file) for file in listed])
        values = array("q", [index[file.partition("/")[0]] for file in listed])
        findings = () if "" not in lists else (self._no_lists(),)
        return Samples(Classes(names, "label", wnids), values, files, splits, findings=findings)

    def _images(self) -> Path:
        """The folder of the breeds, wherever the archive was unpacked."""
        for inside in ("Images", "images/Images", "images", ""):
            if sum(bool(_BREED.fullmatch(name)) for name in sub_folders(self.path / inside)) > 1:
                return self.path / inside
        if (self.path / "images.tar").is_file():
            fact = f"the archive `{self.name}/images.tar` is not unpacked"
            help = f"unpack it: `tar xf {self.name}/images.tar -C {self.name}`; the same for lists.tar"
            raise _ROOT.error("missing-file", fact, help)
        fact = f"`{self.name}` has no `Images` with folders such as `n02085620-Chihuahua`"
        help = "download images.tar and lists.tar of the Stanford dogs and unpack both into this folder"
        raise _ROOT.error("missing-file", fact, help)

    def _lists(self) -> dict[str, list[str]]:
        """The images of the official splits; none where the lists are not there."""
        for place in (self.path, self.path / "lists"):
            files = {split: place / f"{split}_list.mat" for split in ("train", "test")}
            if all(file.is_file() for file in files.values()):
                return {split: self._listed(file) for split, file in files.items()}
        return {}

    def _listed(self, file: Path) -> list[str]:
        from scipy.io import loadmat  # takes a while to load

        try:
            cells: Any = loadmat(file, squeeze_me=True)["file_list"]
        except Exception as problem:  # a damaged file makes SciPy raise nearly anything
            fact = f"`{self.name}/{file.relative_to(self.path).as_posix()}` can't be read: {problem}"
            raise _ROOT.error("wrong-format", fact, "unpack lists.tar again") from None
        return [str(cell) for cell in cells.reshape(-1)]

    def _no_lists(self) -> Finding:
        fact = f"`{self.name}` has no `train_list.mat` and `test_list.mat`, so the split is random"
        help = f"unpack lists.tar of the Stanford dogs into `{self.name}` to use the official split"
        return _ROOT.warning("unused-split", fact, help)


def _breed_folders(folder: Path) -> dict[str, int]:
    """The folders of breeds that have images, with their number."""
    folders = images_in(folder)
    return {name: folders[name].images for name in sorted(folders) if _BREED.fullmatch(name) and folders[name].images}


def breeds(folders: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of breeds in words, and their wnids: `n02085782-Japanese_spaniel` is the Japanese spaniel."""
    matches = [match for folder in folders if (match := _BREED.fullmatch(folder))]
    return tuple(match[2].replace("_", " ") for match in matches), tuple(match[1] for match in matches)

"""The Oxford-IIIT pets: `images/`, and `annotations/` with lists of the official splits and a trimap of each image."""

import os
from pathlib import Path
from typing import NamedTuple

from leaven.formats.finding import About, BadSource
from leaven.sources.source import Samples, SourceFacts, joined, returns_findings

_LISTS = {"train": "trainval.txt", "test": "test.txt"}
AREAS = ("background", "pet")
PUBLISHED = {"train": 3680, "test": 3669}
_TRIMAP = ((1, 1), (2, 0), (3, -100))  # what its numbers mean; 3 is between pet and background
_FOLDER = "oxford-iiit-pet"  # which torchvision makes
_ROOT = About("root", "images are read from this folder")


class Pet(NamedTuple):
    """A line of a list: the name of an image, and its breed, counted from 1."""

    image: str
    breed: int

    @property
    def name(self) -> str:
        """The breed in words: `american_bulldog_12` shows an American Bulldog."""
        return " ".join(word.capitalize() for word in self.image.rpartition("_")[0].split("_"))


class OxfordPets(NamedTuple):
    """The pets as their archives are unpacked, or in the folder `oxford-iiit-pet` that torchvision makes."""

    path: Path
    name: str
    masks: str | None = None  # "trimaps": the outlines of the pets, in place of their breeds
    download: bool = False

    def is_there(self) -> bool:
        return self.folder() is not None

    @returns_findings
    def look(self) -> SourceFacts | None:
        if self.download and not self.is_there():
            return SourceFacts(AREAS, tuple(PUBLISHED), counts=PUBLISHED) if self.masks else None
        lists = self.lists()
        counts = {split: len(pets) for split, pets in lists.items()}
        if self.masks:
            return SourceFacts(AREAS, tuple(counts), counts=counts)
        breeds = names_of(lists)
        each = tuple(sum(pet.breed == at + 1 for pet in lists["train"]) for at in range(len(breeds)))
        return SourceFacts(breeds, tuple(counts), (), counts, each)

    def open(self) -> Samples:
        from leaven.tasks.classification.target import Classes  # a look does without these
        from leaven.tasks.segmentation.target import MaskClasses, MaskFile

        lists, folder = self.lists(), self.folder()
        assert folder is not None
        pets, splits = joined(lists)
        files = [os.path.join(folder, "images", f"{pet.image}.jpg") for pet in pets]
        if not self.masks:
            return Samples(Classes(names_of(lists)), [pet.breed - 1 for pet in pets], files, splits)
        target, trimaps = MaskClasses(AREAS), folder / "annotations" / "trimaps"
        values = [MaskFile(str(trimaps / f"{pet.image}.png"), target, _TRIMAP) for pet in pets]
        return Samples(target, values, files, splits)

    def folder(self) -> Path | None:
        """The folder with the images and the annotations."""
        places = (self.path / _FOLDER, self.path)
        return next((at for at in places if (at / "images").is_dir() and (at / "annotations").is_dir()), None)

    def lists(self) -> dict[str, list[Pet]]:
        """The pets of each split; a BadSource where they can't be read."""
        folder = self.folder()
        if folder is None:
            raise self._missing()
        pets = {}
        for split, name in _LISTS.items():
            file = folder / "annotations" / name
            try:
                lines = file.read_text("utf-8").splitlines()
                words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
                pets[split] = [Pet(name, int(breed)) for name, breed, *_ in words]
            except FileNotFoundError:
                help = "unpack annotations.tar.gz again"
                raise _ROOT.error("missing-file", f"`{self._below(file)}` does not exist", help) from None
            except (OSError, ValueError, IndexError) as problem:
                fact = f"`{self._below(file)}` can't be read: {problem}"
                raise _ROOT.error("wrong-format", fact, "unpack annotations.tar.gz again") from None
            if not pets[split]:
                raise _ROOT.error("empty-table", f"`{self._below(file)}` lists no images")
        return pets

    def _below(self, file: Path) -> str:
        return f"{self.name}/{file.relative_to(self.path).as_posix()}"

    def _missing(self) -> BadSource:
        packed = [name for name in ("images.tar.gz", "annotations.tar.gz") if (self.path / name).is_file()]
        if packed:
            fact = f"the archives of the Oxford pets in `{self.name}` are not unpacked: {', '.join(packed)}"
            commands = "; ".join(f"tar xf {self.name}/{name} -C {self.name}" for name in packed)
            return _ROOT.error("missing-file", fact, f"unpack them: `{commands}`")
        fact = f"`{self.name}` has no `images` and `annotations` of the Oxford pets"
        help = "unpack images.tar.gz and annotations.tar.gz into it; `download=true` downloads them (800 MB)"
        return _ROOT.error("missing-file", fact, help)


def names_of(lists: dict[str, list[Pet]]) -> tuple[str, ...]:
    """The breeds in words, by their numbers."""
    names = {pet.breed: pet.name for split in lists.values() for pet in split}
    return tuple(names.get(number, str(number)) for number in range(1, max(names) + 1))

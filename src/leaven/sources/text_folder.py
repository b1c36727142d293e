"""A folder of text files: one sub-folder per class, perhaps inside `train`, `val` and `test`."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from leaven.formats.finding import About, Finding
from leaven.formats.image_folder import PART_NAMES, files_below, sub_folders
from leaven.sources.source import Samples, SourceFacts, predefined, returns_findings

if TYPE_CHECKING:
    from leaven.formats.target import TargetReader

ENDINGS = (".txt", ".text", ".md")
_FOLDER = About("path", "texts are read from this folder")
_HELP = f"put each class into a sub-folder of files that end in {', '.join(ENDINGS)}"


class TextFolder(NamedTuple):
    """A folder of texts. `name` is what findings call it."""

    path: Path
    name: str
    target: "TargetReader | None" = None  # labels are the names of folders
    classes: Sequence[str] | None = None  # the sub-folders that are read; all where there are none

    @returns_findings
    def look(self) -> SourceFacts:
        parts = self._parts()
        train = next(iter(parts.values()))
        counts = {split: sum(map(len, there.values())) for split, there in parts.items()}
        findings = tuple(self._lacking(parts))
        return SourceFacts(tuple(train), tuple(filter(None, parts)), findings, counts, tuple(map(len, train.values())))

    def _lacking(self, parts: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[Finding]:
        """Classes that only some splits have, such as a folder of texts that nobody labelled."""
        train = next(iter(parts.values()))
        for split, there in parts.items():
            if lacking := [name for name in train if name not in there]:
                others = ", ".join(f'"{name}"' for name in train if name not in lacking)
                names = ", ".join(f"`{name}`" for name in lacking)
                several = ("class", "is") if len(lacking) == 1 else ("classes", "are")
                fact = f"{several[0]} {names} {several[1]} in the train split of `{self.name}` but not in {split}"
                help = f"if these texts have no label, leave them out: `classes=[{others}]`"
                yield _FOLDER.warning("unequal-classes", fact, help)

    def open(self) -> Samples:
        from leaven.tasks.classification.target import Classes  # a look does without

        parts = self._parts()
        classes = Classes(tuple(next(iter(parts.values()))))
        files: list[str] = []
        values, sizes = array("q"), {}
        for split, there in parts.items():
            before = len(files)
            for name, texts in there.items():
                files += texts
                values.extend([classes.value(name)] * len(texts))
            sizes[split] = len(files) - before
        return Samples(classes, values, files, predefined(sizes))

    def _parts(self) -> dict[str, dict[str, list[str]]]:
        """The files of each class of each split; all of it is the split '' where there are none."""
        _FOLDER.check_folder(self.path, self.name)
        tops = sub_folders(self.path)
        splits = {split: [top for top in tops if top.lower() in names] for split, names in PART_NAMES.items()}
        if not splits["train"] or sum(map(len, splits.values())) != len(tops):
            return {"": self._classes(self.path, self.name)}
        parts = {
            split: self._classes(self.path / there[0], f"{self.name}/{there[0]}")
            for split, there in splits.items()
            if there
        }
        for split, there in parts.items():
            if unknown := sorted(there.keys() - parts["train"].keys()):
                fact = f"`{self.name}/{splits[split][0]}` has the class `{unknown[0]}`, which train does not have"
                raise _FOLDER.error("unequal-classes", fact, "rename it, or add it to train")
        return parts

    def _classes(self, folder: Path, name: str) -> dict[str, list[str]]:
        tops = sub_folders(folder)
        if self.classes is not None:
            if unknown := next((each for each in self.classes if each not in tops), None):
                fact = f"`{name}` has no sub-folder `{unknown}`"
                raise _FOLDER.error("unknown-choice", fact, f"it has {', '.join(tops)}")
            tops = [top for top in tops if top in self.classes]
        found = {
            top: sorted(file for file in files_below(folder / top) if file.lower().endswith(ENDINGS)) for top in tops
        }
        if len(found) < 2:
            raise _FOLDER.error("no-classes", f"`{name}` has {len(found) or 'no'} sub-folder{'s' * (not found)}", _HELP)
        if empty := [top for top, texts in found.items() if not texts]:
            raise _FOLDER.error("empty-class", f"`{name}/{empty[0]}` has no text files", _HELP)
        return found

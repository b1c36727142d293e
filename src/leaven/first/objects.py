"""Images with annotated objects, for a first recipe: which format a folder has, and what is in it."""

from pathlib import Path

from leaven.first.options import NotUnderstood, seen_in
from leaven.formats.finding import Finding
from leaven.formats.listing import some
from leaven.language.record import Record
from leaven.sources.coco import Coco
from leaven.sources.formats_of_boxes import names_images, source_in
from leaven.sources.yolo import Yolo


class AnnotatedFolder(Record):
    """Images with annotated objects: how a recipe reads them, and what is known of them."""

    path: Path
    source: str  # the name of the data source
    places: tuple[Path, ...]  # its arguments
    names: tuple[str, ...]
    images: int | None  # for training; None where only reading all annotations would tell
    splits: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def seen(self) -> str:
        """The lines that `leaven new` prints about the folder."""
        splits = f" for training, already split into {', '.join(self.splits)}" if self.splits else ""
        counted = f"{_categories(self.names)}, {self.images:,} images" if self.images else "many images"
        seen = f"{self.path}: annotations for `{self.source}`: {counted}{splits}"
        return "\n".join((seen, *seen_in(self.findings)))

    @property
    def summary(self) -> str:
        """The first comment of its recipe."""
        if not self.images:
            return "Annotated images"
        return f"{_categories(self.names)}, {self.images:,} images: {some(self.names, 5)}"


def annotated_place(path: Path) -> Path | None:
    """The annotated images that a file stands for: COCO's annotations, or the folder of YOLO's `data.yaml`; None where
    it is another file."""
    if path.suffix.lower() in (".yaml", ".yml"):
        return path.parent if isinstance(source_in(path.parent, path.parent.as_posix()), Yolo) else None
    return path if path.suffix.lower() == ".json" and names_images(path) else None


def look_at_objects(path: Path) -> AnnotatedFolder | None:
    """The content of a folder of annotated images, or of a file of annotations; None without annotations of objects."""
    source = source_in(path, path.as_posix())
    if source is None:
        return None
    facts = source.look()
    wrong = next((finding for finding in facts.findings if finding.is_error), None)
    if wrong is not None:
        raise NotUnderstood(wrong.text)
    return AnnotatedFolder(
        path=path if path.is_dir() else path.parent,
        source=type(source).__name__.lower(),
        places=_places(source) if isinstance(source, Coco) else (path,),
        names=facts.names,
        images=next(iter(facts.counts.values()), None),
        splits=facts.splits,
        findings=facts.findings,
    )


def _places(source: Coco) -> tuple[Path, ...]:
    """The folder of the images, and the file of annotations or the folder of several; nothing more where each split has
    its own beside its images."""
    given = source.annotations
    if given is None:
        return (source.path,)
    files = sorted(given.glob("*.json")) if given.is_dir() else [given]
    return source.path, files[0] if len(files) == 1 else given


def _categories(names: tuple[str, ...]) -> str:
    return f"{len(names)} categor{'y' if len(names) == 1 else 'ies'}"

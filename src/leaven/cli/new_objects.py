"""`leaven new` for annotated images: which format a folder has, and a first recipe for a detector."""

from pathlib import Path

import click

from leaven.formats.finding import Finding
from leaven.language.record import Record
from leaven.sources.coco import Coco
from leaven.sources.formats_of_boxes import names_images, source_in
from leaven.sources.source import SourceFacts
from leaven.sources.yolo import Yolo

# Models a newcomer may choose from: name, and what it is good for.
SUGGESTED = {
    "ssdlite320_mobilenet_v3_large": "small and fast; weights are downloaded",
    "fasterrcnn_resnet50_fpn_v2": "larger, slower, more exact",
    "retinanet_resnet50_fpn_v2": "as large, in one stage",
}
EPOCHS = 20


class AnnotatedFolder(Record):
    """Images with annotated objects: how a recipe reads them, and what is known of them."""

    folder: Path
    source: str  # the name of the data source
    places: tuple[Path, ...]  # its arguments
    names: tuple[str, ...]
    images: int | None  # for training; None where only reading all annotations would tell
    splits: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def seen(self) -> str:
        """What was found, for people."""
        splits = f" for training, already split into {', '.join(self.splits)}" if self.splits else ""
        counted = f"{_categories(self.names)}, {self.images:,} images" if self.images else "many images"
        lines = [f"{self.folder}: annotations for `{self.source}`: {counted}{splits}"]
        for finding in self.findings:
            lines += [
                finding.fact,
                *(f"  {note}" for note in finding.notes),
                *([f"  {finding.help}"] * bool(finding.help)),
            ]
        return "\n".join(lines)


def annotated_place(path: Path) -> Path | None:
    """The annotated images that a file stands for: COCO's annotations, or the folder of YOLO's `data.yaml`; None where
    it is another file."""
    if path.suffix.lower() in (".yaml", ".yml"):
        return path.parent if isinstance(source_in(path.parent, path.parent.as_posix()), Yolo) else None
    return path if path.suffix.lower() == ".json" and names_images(path) else None


def look_at_objects(path: Path) -> AnnotatedFolder | None:
    """What a folder of annotated images contains, or the images of a file of annotations; None where there are no
    annotations of objects, and a usage error where they can't be trained on."""
    source = source_in(path, path.as_posix())
    if source is None:
        return None
    facts = source.look()
    wrong = next((finding for finding in facts.findings if finding.is_error), None)
    if wrong is not None:
        raise click.UsageError("\n".join(filter(None, (wrong.fact, *wrong.notes, wrong.help))))
    return AnnotatedFolder(
        folder=path if path.is_dir() else path.parent,
        source=type(source).__name__.lower(),
        places=_places(source) if isinstance(source, Coco) else (path,),
        names=facts.names,
        images=_images(facts),
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


def _images(facts: SourceFacts) -> int | None:
    return next(iter(facts.counts.values()), None)


def write_detection_recipe(
    look: AnnotatedFolder, places: tuple[str, ...], model: str, epochs: int | None, scratch: bool
) -> str:
    """The text of a first recipe; `places` are the arguments of the data, relative to the recipe."""
    from leaven.catalog.value_text import quoted

    call = model if "(" in model else f"{model}()" if scratch else f"{model}(pretrained=true)"
    shown = ", ".join(look.names[:5]) + ", …" * (len(look.names) > 5)
    told = f"{_categories(look.names)}, {look.images:,} images: {shown}" if look.images else "Annotated images"
    return (
        f"# {told}.\n"
        f"model {call}\n"
        f"data  {look.source}({', '.join(map(quoted, places))})\n\n"
        f"train epochs={epochs or EPOCHS}, batch=4\n"
    )


def _categories(names: tuple[str, ...]) -> str:
    return f"{len(names)} categor{'y' if len(names) == 1 else 'ies'}"

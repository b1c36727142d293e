"""`leaven new`: a first recipe for a folder of images (classes, masks, annotated objects) or texts, or for a table."""

import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from leaven.cli.new_objects import SUGGESTED as SUGGESTED_FOR_OBJECTS
from leaven.cli.new_objects import AnnotatedFolder, annotated_place, look_at_objects, write_detection_recipe
from leaven.cli.new_tables import look_and_ask, table_at
from leaven.cli.printing import echo, echo_file
from leaven.files.atomic_files import write_text
from leaven.first.options import NotUnderstood, TableOptions
from leaven.first.recipes import (
    MOST_TOKENS,
    metrics_of,
    model_call,
    recipe_of_table,
    training_on_images,
    training_on_texts,
)
from leaven.formats.finding import Finding
from leaven.formats.image_folder import counted, files_below, how_to_convert, image_files, is_image, read_image_folder
from leaven.language.record import Record
from leaven.sources.image_sizes import unreadable_images
from leaven.sources.mask_folder import BLACK_AND_WHITE, MaskFolder, are_black_and_white, looks_like_masks
from leaven.sources.text_folder import TextFolder
from leaven.terminal.commands import typed

# Models a newcomer may choose from: name, and what it is good for.
SUGGESTED = {
    "efficientnet_lite0": "small and fast; its weights are installed, nothing is downloaded",
    "resnet18": "the usual first choice; weights are downloaded",
    "resnet50": "larger, slower, often better",
    "convnext_tiny": "modern, strong on photographs",
}
SUGGESTED_FOR_TEXTS = {
    "minilm": "small and fast, for English; its weights are installed, nothing is downloaded",
    'transformers.auto("bert-base-cased")': "BERT, the usual first choice; weights are downloaded",
    'transformers.auto("roberta-base")': "often better, as large; weights are downloaded",
    'transformers.auto("bert-base-multilingual-cased")': "for a hundred languages; weights are downloaded",
}
STANDARD_OUTPUT = "-"
UNLABELLED = ("unsup", "unsupervised", "unlabeled", "unlabelled")  # what folders of texts without a label are called


class Look(Record):
    """What a folder of images contains."""

    folder: Path
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


def write_first_recipe(
    folder: str | None,
    options: TableOptions,
    *,
    model: str | None,
    epochs: int | None,
    output: str | None,
    scratch: bool,
    force: bool,
) -> None:
    """Write the recipe; ask for what was not given, if there is a terminal to ask in."""
    is_printed = output == STANDARD_OUTPUT
    target = None if output is None else _target(output, force)  # refused before any question
    can_ask = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if folder is not None and (table := table_at(Path(os.path.expanduser(folder)))) is not None:
        _write_for_table(table, options, model, epochs, target, force, scratch, is_printed=is_printed, can_ask=can_ask)
        return
    if options != TableOptions():
        raise click.UsageError("options about columns are for tables, and there is no table at this place")
    if folder is not None:
        look = look_at(folder)
    elif can_ask:
        look = click.prompt("Which folder holds the images?", value_proc=look_at, err=is_printed)
    else:
        raise click.UsageError("no folder given. For example: leaven new photos")
    target = target or _target(f"{_recipe_name(look.folder)}.leaven", force)
    if isinstance(look, AnnotatedFolder):
        _write_for_objects(look, model, epochs, target, scratch=scratch, is_printed=is_printed, can_ask=can_ask)
        return
    echo(_seen(look), err=is_printed)
    suggested = SUGGESTED_FOR_TEXTS if look.noun == "texts" else SUGGESTED
    if model is None:
        model = _ask_model(suggested, scratch, err=is_printed) if can_ask else _suggested(suggested, scratch)[0]
    if epochs is None and look.noun == "images":
        whole = click.IntRange(min=1)
        epochs = click.prompt("How many epochs?", default=10, type=whole, err=is_printed) if can_ask else 10
    _write(write_recipe(look, target, model, epochs, scratch), target, is_printed=is_printed)


def _write_for_objects(
    look: AnnotatedFolder,
    model: str | None,
    epochs: int | None,
    target: Path,
    *,
    scratch: bool,
    is_printed: bool,
    can_ask: bool,
) -> None:
    echo(look.seen, err=is_printed)
    if model is None:
        usual = next(iter(SUGGESTED_FOR_OBJECTS))
        model = _ask_model(SUGGESTED_FOR_OBJECTS, scratch, err=is_printed) if can_ask else usual
    places = tuple(_relative(place, target.parent) for place in look.places)
    _write(write_detection_recipe(look, places, model, epochs, scratch), target, is_printed=is_printed)


def _write_for_table(
    path: Path,
    options: TableOptions,
    model: str | None,
    epochs: int | None,
    target: Path | None,
    force: bool,
    scratch: bool,
    *,
    is_printed: bool,
    can_ask: bool,
) -> None:
    try:
        look = look_and_ask(path, options, can_ask=can_ask, err=is_printed)
    except NotUnderstood as problem:
        raise click.UsageError(str(problem)) from None
    stem = path if path.is_dir() else path.with_suffix("")
    target = target or _target(f"{_recipe_name(stem)}.leaven", force)
    echo(look.seen, err=is_printed)
    suggested = SUGGESTED if look.roles.image is not None else SUGGESTED_FOR_TEXTS
    if model is None:
        model = _ask_model(suggested, scratch, err=is_printed) if can_ask else _suggested(suggested, scratch)[0]
    image = look.roles.image
    root = None if image is None or image.root is None else _relative(image.root, target.parent)
    max_length = _max_length(model_call(model, scratch), target) if image is None else MOST_TOKENS
    text = recipe_of_table(look, _relative(path, target.parent), root, model, epochs, scratch, max_length)
    _write(text, target, is_printed=is_printed)


def _write(text: str, target: Path, *, is_printed: bool) -> None:
    if not _is_right(text, target):
        sys.exit(1)
    if is_printed:
        echo_file(text)
        return
    try:
        write_text(target, text)
    except OSError as problem:
        raise click.UsageError(f"{target} can't be written: {problem.strerror}") from None
    echo(f"\n{text}\nwritten to {target}; next: leaven check {typed(target)}")


def _target(output: str, force: bool) -> Path:
    """Where the recipe is written; a path where it can't be is a usage error."""
    if output == STANDARD_OUTPUT:
        return Path("recipe.leaven")
    target = Path(os.path.expanduser(output))
    if not output or target.is_dir():
        fault = f"{target} is a folder" if output else "the file name is empty"
        raise click.UsageError(f"{fault}; give a file name: -o dogs.leaven")
    if target.exists() and not force:
        raise click.UsageError(f"{target} already exists; --force overwrites it, -o writes elsewhere")
    if not target.parent.is_dir():
        raise click.UsageError(f"the folder {target.parent} does not exist")
    return target


def _is_right(text: str, target: Path) -> bool:
    """Whether the recipe has no errors; an unknown model is reported before anything is written."""
    from leaven.cli.recipe_command import print_reports
    from leaven.language.source import Source
    from leaven.rules.checker import check

    checked = check(Source(str(target), text, target.parent))
    if checked.recipe is None:
        print_reports([d for d in checked.diagnostics if d.is_error], err=True)
        echo("nothing was written", err=True)
    return checked.recipe is not None


# -- looking


def look_at(word: str) -> Look | AnnotatedFolder:
    """The classes, splits and images of a folder; one that can't be trained on is a usage error."""
    if not word.strip():
        raise click.UsageError("the folder name is empty. For example: leaven new photos")
    given = Path(os.path.expanduser(word))
    annotated = annotated_place(given)
    folder = annotated or given
    if annotated is None and not folder.is_dir():
        fault = "is a file, not a folder of images" if folder.exists() else "does not exist"
        raise click.UsageError(f"{folder} {fault}")
    if not _can_be_written(folder):
        raise click.UsageError(f"recipes are UTF-8, but the name of {folder} is not; rename the folder")
    if (objects := look_at_objects(folder)) is not None:
        return objects
    if looks_like_masks(folder):
        return _masked(folder)
    read = read_image_folder(folder, folder.as_posix())
    wrong = next((finding for finding in read.findings if finding.is_error or finding.id == "split-as-class"), None)
    if wrong is not None and (texts := _of_texts(folder)) is not None:
        return texts
    if wrong is not None:
        raise click.UsageError("\n".join((wrong.fact, *wrong.notes, _classes_in_names(folder) or wrong.help)))
    train = next(iter(read.parts.values()))
    files = [file for part in read.parts.values() for name in part.classes for file in image_files(part.folder / name)]
    return Look(
        folder=folder,
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
    some = ", ".join(f"`{name}`" for name in sorted(classes)[:3])
    table = typed(f"{_recipe_name(folder)}.csv")
    pattern = r"s/^(.+)[ ._-][0-9]+\.[A-Za-z]+$/&,\1/p"
    return (
        f"the names of its images begin with {some}; a table can list them:\n"
        f"  (echo file,label; ls {typed(place)} | sed -nE '{pattern}') > {table}\n"
        f"  leaven new {table} --root {typed(place)}"
    )


def _masked(folder: Path) -> Look:
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
        raise click.UsageError("\n".join((wrong.fact, *wrong.notes, help)))
    counts = dict.fromkeys(looked.names, next(iter(looked.counts.values())))
    return Look(folder, counts, looked.splits, (), looked.findings, "mask_folder", classes=classes)


def _of_texts(folder: Path) -> Look | None:
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
    return Look(folder, counts, looked.splits, (), looked.findings, "text_folder", left_out, classes)


def _can_be_written(folder: Path) -> bool:
    try:
        str(folder.resolve()).encode()
    except UnicodeEncodeError:
        return False
    return True


def _seen(look: Look) -> str:
    splits = f" for training, already split into {', '.join(look.splits)}" if look.splits else ""
    lines = [f"{look.folder}: {len(look.images)} classes, {look.total:,} {look.noun}{splits}"]
    name, count = min(look.images.items(), key=lambda item: item[1])
    if count < 5:
        noun = look.noun if count > 1 else look.noun.removesuffix("s")
        lines.append(f"{name} has only {count} {noun}: very few to learn from")
    for finding in look.findings:
        lines += [finding.fact, *(f"  {note}" for note in finding.notes), f"  {finding.help}"]
    if look.classes == BLACK_AND_WHITE:
        lines.append("the masks are black and white: white is taken for the object; `classes=` in the recipe names it")
    for name in look.left_out:
        lines.append(
            f"the texts in {name} have no label, as its name says: they are left out by `classes=` in the recipe"
        )
    if look.others:
        lines.append(f"ignored, because they are not readable images: {counted(look.others)}")
        convert = how_to_convert(look.others)
        lines += [f"  {convert}"] if convert else []
    if look.unreadable:
        some = ", ".join(typed(os.path.relpath(file, look.folder)) for file in look.unreadable[:3])
        more = ", …" * (len(look.unreadable) > 3)
        fault = "file is not an image" if len(look.unreadable) == 1 else "files are not images"
        lines.append(f"{len(look.unreadable):,} {fault}, and left out by `on_bad_file skip`: {some}{more}")
    return "\n".join(lines)


# -- writing


def write_recipe(look: Look, target: Path, model: str, epochs: int | None, scratch: bool) -> str:
    """The text of a first recipe, with what a newcomer changes first."""
    from leaven.catalog.value_text import quoted

    model, classes, block = model_call(model, scratch), "", " { on_bad_file skip }" * bool(look.unreadable)
    body = training_on_images(look.total, epochs or 10, scratch)
    if look.noun == "texts":
        block = f" {{ tokenize max_length={_max_length(model, target)} }}"
        body = training_on_texts(look.total, epochs, scratch)
    if look.classes:
        classes = f", classes=[{', '.join(map(quoted, look.classes))}]"
    return (
        f"# {len(look.images)} classes, {look.total:,} {look.noun}: {_named(list(look.images))}.\n"
        f"model {model}\n"
        f"data  {look.source}({quoted(_relative(look.folder, target.parent))}{classes}){block}\n"
        + metrics_of(look.images if look.source != "mask_folder" else {})
        + (f"\n{body}" if body else "")
    )


def _max_length(model: str, target: Path) -> int:
    """How many tokens of a text are read: no more than the model takes."""
    from leaven.language.source import Source
    from leaven.recipe.reader import longest_text

    longest = longest_text(Source(str(target), f"model {model}\n", target.parent))
    return min(MOST_TOKENS, longest) if longest is not None else MOST_TOKENS


def _named(classes: list[str]) -> str:
    listed = ", ".join(" ".join(name.encode(errors="replace").decode().split()) for name in classes[:5])
    return f"{listed}, …" if len(classes) > 5 else listed


def _relative(folder: Path, start: Path) -> str:
    """The folder as the recipe writes it: relative to the recipe where it can be, with forward slashes."""
    try:
        return Path(os.path.relpath(folder, start)).as_posix()
    except ValueError:  # on another drive
        return folder.absolute().as_posix()


def _recipe_name(folder: Path) -> str:
    name = Path(os.path.abspath(folder)).name or "recipe"
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)


# -- asking


def _suggested(names: Mapping[str, str], scratch: bool) -> list[str]:
    """The models whose weights can be had on this machine."""
    from leaven.catalog import lookup
    from leaven.recipe.model_facts import are_weights_installed

    return [name for name in names if scratch or all(map(are_weights_installed, lookup.find("model", name)[:1]))]


def _ask_model(suggested: Mapping[str, str], scratch: bool, *, err: bool) -> str:
    names = _suggested(suggested, scratch)
    for name in names:
        echo(f"  {name:<20} {suggested[name]}", err=err)
    return str(click.prompt("Which model to start from?", default=names[0], err=err))

"""`leaven new`: look at a folder of images and write a first recipe for it."""

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from leaven.cli.formatting import write_whole
from leaven.recipe.files import IMAGE_ENDINGS, SPLITS, class_folders

# Models a newcomer may choose from: name, and what it is good for.
SUGGESTED = {
    "efficientnet_lite0": "small and quick; its weights come with pip, no download",
    "resnet18": "the usual first choice; weights from the hub",
    "resnet50": "larger, slower, often better",
    "convnext_tiny": "modern, strong on photographs",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What a folder of images holds."""

    folder: Path
    classes: tuple[str, ...]
    splits: tuple[str, ...]
    images: int
    smallest_class: tuple[str, int]


def run(
    folder: Path | None,
    *,
    model: str | None,
    epochs: int | None,
    output: Path | None,
    scratch: bool,
    force: bool,
) -> None:
    """Write the recipe, asking for what was not said where somebody is there to ask."""
    can_ask = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if folder is None:
        folder = _ask_folder() if can_ask else None
    if folder is None:
        raise click.UsageError("which folder of images? For example: leaven new photos")
    look = look_at(folder)
    click.echo(_seen(look))
    if model is None:
        model = _ask_model() if can_ask else "efficientnet_lite0"
    if epochs is None:
        epochs = click.prompt("How many epochs?", default=10, type=click.IntRange(min=1)) if can_ask else 10
    target = output or Path(f"{_recipe_name(folder)}.leaven")
    if target.exists() and not force:
        raise click.UsageError(f"{target} is there already; --force overwrites it, -o writes elsewhere")
    if not target.parent.is_dir():
        raise click.UsageError(f"there is no folder {target.parent} to write the recipe into")
    text = write_recipe(look, target, model, epochs, scratch)
    if not _is_right(text, target):
        sys.exit(1)
    write_whole(target, text)
    click.echo(f"\n{text}\nwritten to {target}. Next: leaven check {target}")


def _is_right(text: str, target: Path) -> bool:
    """Whether the recipe checks; a model that does not exist is reported before anything is written."""
    from leaven.cli.recipes import print_reports
    from leaven.language.source import Source
    from leaven.recipe.checker import check

    checked = check(Source(str(target), text, target.parent))
    if checked.recipe is None:
        print_reports([d for d in checked.diagnostics if d.is_error], err=True)
        click.echo("nothing was written", err=True)
    return checked.recipe is not None


def look_at(folder: Path) -> Look:
    """The classes, splits and number of images of a folder; one that holds none is a wrong command line."""
    if not folder.is_dir():
        raise click.UsageError(f"there is no folder {folder}")
    classes, splits = class_folders(folder)
    root = folder
    if splits:
        root = next(folder / name for name in SPLITS["train"] if (folder / name).is_dir())
    counts = {name: _count(root / name) for name in classes}
    counts = {name: count for name, count in counts.items() if count}
    if len(counts) < 2:
        found = f"only the class {next(iter(counts))}" if counts else "no sub-folders with images"
        raise click.UsageError(
            f"{folder} has {found}. A classifier needs a sub-folder of images per class: {folder}/ants, {folder}/bees"
        )
    smallest = min(counts.items(), key=lambda item: item[1])
    return Look(folder, tuple(counts), tuple(splits), sum(counts.values()), smallest)


def write_recipe(look: Look, target: Path, model: str, epochs: int, scratch: bool) -> str:
    """The text of a first recipe, with the words a newcomer changes first."""
    call = model if "(" in model else f"{model}()" if scratch else f"{model}(pretrained=true)"
    path = _relative(look.folder, target.parent)
    if scratch or look.images < 20:
        body = f"train epochs={epochs}, batch=32\n"
    else:
        head = max(1, epochs // 5)
        rest = max(1, epochs - head)
        body = (
            f"# First only the new head, then everything with a gentle learning rate.\n"
            f'phase "head", epochs={head} {{ freeze all - head }}\n'
            f'phase "all",  epochs={rest} {{ optimizer adamw(lr=1e-4) }}\n'
        )
    return (
        f"# {len(look.classes)} classes, {look.images:,} images: {_named(look.classes)}.\n"
        f"model {call}\n"
        f'data  folder("{path}")\n\n'
        f"{body}"
    )


def _seen(look: Look) -> str:
    splits = f", already divided into {', '.join(look.splits)}" if look.splits else ""
    name, count = look.smallest_class
    few = (
        f"\n{name} has only {count} image{'s' if count > 1 else ''}: that is very little to learn from"
        if count < 5
        else ""
    )
    return f"{look.folder}: {len(look.classes)} classes, {look.images:,} training images{splits}{few}"


def _count(folder: Path) -> int:
    return sum(
        1 for file in folder.rglob("*") if file.suffix.lower() in IMAGE_ENDINGS and not file.name.startswith(".")
    )


def _named(classes: tuple[str, ...]) -> str:
    listed = ", ".join(classes[:5])
    return f"{listed}, …" if len(classes) > 5 else listed


def _relative(folder: Path, start: Path) -> str:
    """The folder as the recipe must write it: relative to the recipe, with forward slashes."""
    import os

    return Path(os.path.relpath(folder.resolve(), start.resolve())).as_posix().replace("\\", "\\\\").replace('"', '\\"')


def _recipe_name(folder: Path) -> str:
    name = folder.resolve().name or "recipe"
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)


def _ask_folder() -> Path:
    return click.prompt("Which folder holds the images?", type=click.Path(exists=True, file_okay=False, path_type=Path))


def _ask_model() -> str:
    for name, what in SUGGESTED.items():
        click.echo(f"  {name:<20} {what}")
    return click.prompt("Which model to start from?", default="efficientnet_lite0")

"""The text of a first recipe, with what a newcomer changes first."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaven.catalog import lookup
from leaven.catalog.value_text import quoted, value_text
from leaven.first.folders import FolderLook
from leaven.first.objects import AnnotatedFolder
from leaven.first.places import Look
from leaven.first.table import TableLook, percent, shares
from leaven.formats.imbalance import are_imbalanced
from leaven.formats.listing import some
from leaven.formats.tables import PLAIN
from leaven.language.source import Source
from leaven.recipe.model_facts import are_weights_installed
from leaven.recipe.reader import read_foundation
from leaven.tasks.multilabel.target import SEPARATOR
from leaven.terminal.visible import visible

# For each kind of data, the models a newcomer may choose from, and what each is good for.
MODELS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))

EPOCHS, EPOCHS_FOR_OBJECTS = 10, 20
FEW_IMAGES = 20  # too few to train more than the head
LARGE = 2_000  # texts, enough to train the whole model at once
WIDTH = 120
MOST_TOKENS = 128  # of a text: enough for a paragraph, and quick
_HEAD_FIRST = "# First only the new head, then the whole model; `leaven show` prints the learning rates.\n"


def suggested_models(look: Look, scratch: bool) -> dict[str, str]:
    """The models that a newcomer may choose from, the usual one first, whose weights can be had on this machine."""
    models = MODELS["objects" if isinstance(look, AnnotatedFolder) else look.noun]
    can_be_used = {name: all(map(are_weights_installed, lookup.find("model", name)[:1])) for name in models}
    return {name: use for name, use in models.items() if scratch or can_be_used[name]}


def first_recipe(look: Look, target: Path, model: str, epochs: int | None, scratch: bool) -> str:
    """The text of a recipe at `target` for data that was looked at."""
    call = model if model.endswith(")") else f"{model}()"
    if not scratch and "pretrained=" not in call and "weights=" not in call:
        call = f"{call[:-1]}{', ' * (not call.endswith('()'))}pretrained=true)"
    match look:
        case TableLook():
            return _recipe_of_table(look, target, call, epochs, scratch)
        case AnnotatedFolder():
            data = f"{look.source}({', '.join(quoted(_relative(place, target)) for place in look.places)})"
            train = f"train epochs={epochs or EPOCHS_FOR_OBJECTS}, batch=4"
            return f"# {look.summary}.\nmodel {call}\ndata  {data}\n\n{train}\n"
        case FolderLook():
            return _recipe_of_folder(look, target, call, epochs, scratch)


def _recipe_of_folder(look: FolderLook, target: Path, model: str, epochs: int | None, scratch: bool) -> str:
    classes, block = "", " { on_bad_file skip }" * bool(look.unreadable)
    body = training_on_images(look.total, epochs or EPOCHS, scratch)
    if look.noun == "texts":
        block = f" {{ tokenize max_length={_max_length(model, target)} }}"
        body = training_on_texts(look.total, epochs, scratch)
    if look.classes:
        classes = f", classes={value_text(look.classes)}"
    names = some([*map(word, look.images)], 5)
    return (
        f"# {len(look.images)} classes, {look.total:,} {look.noun}: {names}.\n"
        f"model {model}\n"
        f"data  {look.source}({quoted(_relative(look.path, target))}{classes}){block}\n"
        + metrics_of(look.images if look.source != "mask_folder" else {})
        + (f"\n{body}" if body else "")
    )


def _max_length(model: str, target: Path) -> int:
    """How many tokens of a text are read: no more than the model takes."""
    longest = read_foundation(Source(str(target), f"model {model}\n", target.parent)).model_facts.longest
    return min(MOST_TOKENS, longest) if longest is not None else MOST_TOKENS


def _relative(place: Path, target: Path) -> str:
    """A place as the recipe writes it: relative to the recipe where it can be, with forward slashes."""
    try:
        return Path(os.path.relpath(place, target.parent)).as_posix()
    except ValueError:  # on another drive
        return place.absolute().as_posix()


def training_on_images(total: int, epochs: int, scratch: bool) -> str:
    """The statements that train a model on so many images."""
    if scratch:
        return f"train epochs={epochs}, batch=32\n"
    if total < FEW_IMAGES or epochs == 1:
        return f"freeze all - head\n\ntrain epochs={epochs}, batch=32\n"
    head = max(1, epochs // 5)
    return f'{_HEAD_FIRST}phase "head", epochs={head} {{ freeze all - head }}\nphase "all",  epochs={epochs - head}\n'


def training_on_texts(total: int, epochs: int | None, scratch: bool) -> str:
    """The statements that train a model on so many texts; empty where the defaults are right."""
    if epochs is not None:
        return f"train epochs={epochs}\n"
    if not scratch and total < LARGE:
        return f'{_HEAD_FIRST}phase "head", epochs=2 {{ freeze all - head }}\nphase "all",  epochs=4\n'
    return ""


def metrics_of(classes: Mapping[str, int]) -> str:
    """The `metrics` statement, with a comment that gives the reason, where classes are imbalanced; else empty.

    Of two classes, the rare one is what matters: its F1 comes first, and so chooses the best epoch.
    """
    if not are_imbalanced(classes.values()):
        return ""
    largest, rare = (end(classes, key=lambda name: classes[name]) for end in (max, min))
    share, few = (percent(classes[name] / sum(classes.values())) for name in (largest, rare))
    if len(classes) > 2:
        imbalance = f"{share} are {word(largest)}, {few} are {word(rare)}"
        return f"\n# {imbalance}: accuracy alone would not show what is missed.\nmetrics f1(), accuracy()\n"
    most = f"\n# {share} are {word(largest)}: accuracy alone would not show that"
    return (
        f"{most} {word(rare)} is missed.\n# The first metric, the F1 of {word(rare)}, chooses the best epoch.\n"
        f"metrics f1(of={quoted(rare)}), accuracy()\n"
    )


def _recipe_of_table(look: TableLook, target: Path, model: str, epochs: int | None, scratch: bool) -> str:
    image = look.roles.image
    root = None if image is None or image.root is None else _relative(image.root, target)
    statements = [f"tokenize max_length={_max_length(model, target)}"] * (image is None)
    statements += ["on_bad_file skip"] * look.skips
    block = f" {{ {'; '.join(statements)} }}" if statements else ""
    parts = [f"# {_summary(look)}\n"]
    parts += [f"# Guessed: {guess.explanation} (`leaven new {guess.option}`).\n" for guess in look.guesses]
    if look.roles.other_texts and len(look.roles.text) == 1:
        both = ", ".join(map(quoted, (*look.roles.other_texts[:1], *look.roles.text)))
        parts.append(f"# Two texts are read as a pair: text=[{both}].\n")
    parts += [f"model {model}\n", f"data  {_data(look, _relative(look.path, target), root)}{block}\n"]
    parts.append(metrics_of(look.classes))
    train = training_on_texts(look.for_training, epochs, scratch)
    body = train if image is None else training_on_images(look.for_training, epochs or EPOCHS, scratch)
    return "".join(parts) + (f"\n{body}" if body else "")


def _summary(look: TableLook) -> str:
    counted = f"{look.total:,} {look.noun}"
    if look.classes:
        return f"{len(look.classes)} classes, {counted}: {word(shares(look.classes))}."
    if len(look.roles.labels) > 1:
        return f"{len(look.roles.labels)} labels, {counted}."
    if look.roles.labels:
        return f"{counted.capitalize()}, with any number of labels for each."
    return f"{counted.capitalize()}, with a number to predict for each."


def word(text: str) -> str:
    """A text in a comment: in one line, and printable."""
    return visible(" ".join(text.encode(errors="replace").decode().split()))


def _data(look: TableLook, path: str, root: str | None) -> str:
    """The data source with its arguments."""
    layout, roles = look.layout, look.roles
    names = ("separator", "columns", "header", "quote", "encoding")
    laid_out = {name: value for name in names if (value := getattr(layout, name)) != getattr(PLAIN, name)}
    image = {"image": roles.image.column, "root": root, "ending": roles.image.ending} if roles.image is not None else {}
    if roles.labels:
        separator = roles.label_separator if roles.label_separator != SEPARATOR else ""
        answer: dict[str, Any] = {"labels": _one_or_list(roles.labels), "label_separator": separator}
    else:
        column = {"label": roles.label} if roles.label is not None else {"target": roles.target}
        answer = {**column, "decimal": roles.decimal, "class_names": look.class_names}
    parts = {**image, "text": _one_or_list(roles.text), **answer}
    given = {name: value for name, value in parts.items() if value}
    arguments = [quoted(path), *(f"{name}={value_text(value)}" for name, value in (laid_out | given).items())]
    call = f"{look.source}({', '.join(arguments)})"
    if len(call) <= WIDTH:
        return call
    broken = ",\n".join(f"    {argument}" for argument in arguments)
    return f"{look.source}(\n{broken},\n)"


def _one_or_list(names: Sequence[str]) -> Sequence[str]:
    return names[0] if len(names) == 1 else names

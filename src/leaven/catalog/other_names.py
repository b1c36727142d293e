"""Models and datasets by the names that other tools have for them, with the form that a recipe has.

The names are in `other_tools/`: `models.toml` and `datasets.toml`, only read where something is wrong.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

from leaven.catalog import lookup, own, tables
from leaven.catalog.habits import TABLES
from leaven.catalog.tables import Words
from leaven.catalog.value_text import quoted
from leaven.language.record import Record


class Counterpart(Record):
    """How a recipe writes what another tool names. `lacking` is what there is none of, so that it is only near."""

    form: str  # with `…` for what is left for the user to fill in
    lacking: str = ""


class Models(TypedDict):
    """Patterns of names of models, and of calls that name one."""

    same: Words
    nearest: dict[str, Words]
    calls: Words
    pipelines: Words


class Datasets(TypedDict):
    """Patterns of names of datasets, and of calls that name one."""

    texts: Words
    images: Words
    readers: Words
    loaders: Words
    formats: Words


# What the names of encoders for texts have in common.
_TEXT_MODEL = r".*(bert|electra|xlnet|mpnet|minilm|ernie|longformer|bigbird|funnel|(^|[-_])(bge|e5|gte)[-_]).*"
_ARGUMENT_OF_NAME = ("model_name", "pretrained_model_name_or_path", "name", "model", "arch", "path", "repo_id")


@cache
def models() -> Models:
    return tables.read(TABLES / "models.toml", Models)


@cache
def _datasets() -> Datasets:
    return tables.read(TABLES / "datasets.toml", Datasets)


def named_by(kind: str, call: str, arguments: Mapping[str, str]) -> Counterpart | None:
    """The counterpart of another library's call. `arguments` are texts of values, positional ones by their number."""
    return _model_of(call, arguments) if kind == "model" else _dataset_of(call, arguments)


def _model_of(call: str, arguments: Mapping[str, str]) -> Counterpart | None:
    at = _expanded(models()["calls"], call)
    if at is None:
        return None
    text = next((arguments[key] for key in (at, *_ARGUMENT_OF_NAME) if key in arguments), None)
    if text is None and call.endswith("pipeline"):
        text = _expanded(models()["pipelines"], arguments.get("task", arguments.get("0", "")).strip('"'))
    return counterpart("model", text.strip('"')) if text else None


def _dataset_of(call: str, arguments: Mapping[str, str]) -> Counterpart | None:
    """`ImageFolder("photos")`, `load_dataset("glue", "sst2")`, `load_dataset("imagefolder", data_dir="photos")`."""
    if form := _expanded(_datasets()["readers"], call):
        return Counterpart(form.format(arguments.get("0") or arguments.get("root") or '"…"'))
    name = _expanded(_datasets()["loaders"], call)
    if name is None:
        return None
    name = name.format(*(arguments.get(key, "").strip('"') for key in ("0", "1"))).strip("/")
    if form := _datasets()["formats"].get(name.partition("/")[0]):
        place = next((arguments[key] for key in ("data_dir", "data_files") if key in arguments), '"…"')
        return Counterpart(form.format(place))
    return counterpart("data", name) if name else None


def counterpart(kind: str, name: str) -> Counterpart | None:
    """The counterpart of another tool's name: `microsoft/resnet-50`, `bert-base-uncased`, `yolov8n.pt`, `imdb`."""
    name = re.sub(r"^(hf[-_]hub:|(\w+\.)*applications\.(\w+\.)?)", "", name)
    return _model(name) if kind == "model" else _dataset(name) if kind == "data" else None


def _model(name: str) -> Counterpart | None:
    bare = name.rpartition("/")[2]
    if lookup.find("model", bare):
        return Counterpart(_with_weights(bare))
    if near := _spelt_alike(bare, lookup.names("model")):
        return Counterpart(_with_weights(near))
    is_for_texts = _is(_TEXT_MODEL, bare)
    for lacking, nearest in models()["nearest"].items():
        form = None if is_for_texts else _expanded(nearest, bare)
        if form is not None:
            return Counterpart(_with_weights(form), lacking)
    if form := _expanded(models()["same"], bare):
        form = form.lower()
        return Counterpart(_with_weights(form)) if lookup.find("model", form.partition("(")[0]) else None
    if is_for_texts:
        spelt = _spelt_alike(name, usual_models()) or name  # as the Hub spells it: `bert_base_uncased` has dashes there
        return Counterpart(f"transformers.auto({quoted(spelt)}, pretrained=true)")
    return None


def _with_weights(model: str) -> str:
    return f"{model}(pretrained=true)" if model and "(" not in model else model


@cache
def usual_models() -> dict[str, dict[str, Any]]:
    """The configurations of the most usual text models, by their names on the Hub."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("text_models.json").read_text("utf-8"))
    return found


def _dataset(name: str) -> Counterpart | None:
    if name.lower().endswith((".yaml", ".yml")):
        return Counterpart(f'yolo("…", names={quoted(name)})')
    for card in own.cards("data"):
        if card.data.endings and name.endswith(card.data.endings):
            return Counterpart(f'{card.name}({quoted(name)}, image="…", label="…")')
    if arguments := _expanded(_datasets()["texts"], name):
        return Counterpart(f"datasets.auto({arguments})")
    if form := _expanded(_datasets()["images"], name):
        return Counterpart(form)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return Counterpart(f'datasets.auto({quoted(name)}, text="…", label="…")')
    return None


def _expanded(patterns: Words, name: str) -> str | None:
    """The meaning of the first pattern that matches a whole name, with the groups that it refers to."""
    return next((found.expand(form) for pattern, form in patterns.items() if (found := _is(pattern, name))), None)


def _is(pattern: str, name: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, name, re.IGNORECASE)


def _spelt_alike(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that differs from a name in nothing but dashes, underscores and capitals."""
    squashed = {re.sub(r"[-_. ]", "", candidate).lower(): candidate for candidate in reversed(list(candidates))}
    return squashed.get(re.sub(r"[-_. ]", "", name).lower())

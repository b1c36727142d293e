"""Facts about a text model before it is loaded: where its files are on this machine, and its configuration.

A configuration comes from the model's folder, from an installed package, from what the hub's library downloaded before,
or, for the most usual models, from `catalog/text_models.json`. Nothing is downloaded.
"""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from leaven.catalog.card import Card
from leaven.catalog.other_names import usual_models
from leaven.catalog.values import Invocation
from leaven.formats.run_folder import read_json
from leaven.formats.text_models import longest_input
from leaven.messages.places import span_of

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
_OWNERS = ("google-bert/", "distilbert/", "FacebookAI/")  # under which the hub has the usual models


def folder_of(source: Invocation) -> Path | None:
    """The folder of a model on this machine that a recipe names; None for a name on the hub."""
    if source.card.model.weights_package is not None:
        return packaged_folder(source.card)
    name = source.value("name")
    folder = span_of(source.origin).source.folder / name if isinstance(name, str) else None
    return folder if folder is not None and os.path.isfile(folder / CONFIG) else None


def packaged_folder(card: Card) -> Path | None:
    """The folder of an installed package that a model comes in."""
    assert card.model.weights_package is not None
    inside = os.path.dirname(card.model.weights_package.file)
    places = (Path(folder, inside) for folder in sys.path)
    return next((place for place in places if os.path.isfile(place / CONFIG)), None)


def configuration(source: Invocation) -> dict[str, Any] | None:
    """The configuration of a model; None where it is not on this machine."""
    folder = folder_of(source)
    if folder is not None:
        return _read(folder / CONFIG)
    name = source.value("name")
    if not isinstance(name, str):
        return None
    downloaded = _downloaded(name)
    bare = next((name.removeprefix(owner) for owner in _OWNERS if name.startswith(owner)), name)
    return downloaded if downloaded is not None else usual_models().get(bare)


def longest_text(source: Invocation, config: Mapping[str, Any]) -> int | None:
    """How many tokens a model can take, by its configuration and its tokenizer's; None where neither has a limit."""
    folder = folder_of(source)
    longest = read_json(folder / TOKENIZER_CONFIG).get("model_max_length") if folder is not None else None
    limits = [longest_input(config), longest if isinstance(longest, int) and longest > 0 else None]
    return min((limit for limit in limits if limit is not None), default=None)


def _read(file: Path) -> dict[str, Any] | None:
    config = read_json(file)
    return config if isinstance(config.get("model_type"), str) else None


def _downloaded(name: str) -> dict[str, Any] | None:
    """The configuration that the hub's library has downloaded for a model."""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"))
    model = hub / f"models--{name.replace('/', '--')}"
    with suppress(OSError, UnicodeDecodeError):
        commit = (model / "refs" / "main").read_text(encoding="utf-8").strip()
        return _read(model / "snapshots" / commit / CONFIG)
    return None

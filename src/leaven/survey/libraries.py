"""Writes an index of what the installed libraries offer: `python -m leaven.survey.libraries FOLDER`.

It has one file of cards for each kind, and `libraries.jsonl`, which says what could not be read and why. A library that
is not installed, or fails when it is imported, has no cards; where a required one fails, there is no index.
`leaven.catalog.index` runs this once for each set of installed versions.
"""

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Collection
from pathlib import Path

from leaven.catalog.index import NOT_INSTALLED, PROGRESS
from leaven.catalog.versions import LIBRARIES
from leaven.survey.card_file import CardFile, write_sealed

REQUIRED = ("torch", "torchvision")
_PLURALS = {"loss": "losses", "data": "datasets"}

# For each kind the functions that add its cards; the library that is read first wins a bare name.
_SOURCES: dict[str, tuple[tuple[str, str], ...]] = {
    "model": (("timm", "timm_models:survey"), ("torchvision", "torchvision_models:survey")),
    "optimizer": (("torch", "training:survey_optimizers"), ("timm", "training:survey_timm_optimizers")),
    "schedule": (("torch", "training:survey_schedules"),),
    "loss": (("torch", "training:survey_losses"),),
    "transform": (("torchvision", "torchvision_transforms:survey"),),
    "data": (("torchvision", "torchvision_data:survey"),),
    "metric": (("torchmetrics", "torchmetrics_metrics:survey"),),
}


def main(folder: Path) -> None:
    """Surveys all libraries into a folder."""
    warnings.simplefilter("ignore")
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    progress = folder / PROGRESS

    def tell(what: str) -> None:
        progress.write_text(what, encoding="utf-8")

    absent = {}
    for library in LIBRARIES:
        tell(f"importing {library}")
        if reason := _import_failure(library):
            absent[library] = reason
    for library in REQUIRED:
        if absent.get(library, NOT_INSTALLED) != NOT_INSTALLED:
            sys.exit(f"{library} {absent[library]}")
    failures: dict[str, str] = {}
    if "torch" not in absent:
        _refuse_downloads()
        for kind in _SOURCES:
            failures |= _survey(kind, folder, absent.keys(), tell)
    progress.unlink()
    seconds = round(time.monotonic() - started, 1)
    summary = {"absent": {**failures, **absent}, "seconds": seconds, "time": time.time()}
    write_sealed(folder / "libraries.jsonl", [json.dumps(summary)])


def _refuse_downloads() -> None:
    """Some entry points would download weights, which a survey never does."""
    import torch.hub

    def refuse(url: str, *_: object, **__: object) -> None:
        raise OSError(f"{url} is not downloaded by a survey")

    torch.hub.download_url_to_file = refuse


def _import_failure(library: str) -> str:
    """Why a library can't be used; empty when it can."""
    try:
        importlib.import_module(library)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        return NOT_INSTALLED if missing == library else f"needs {missing}, which is not installed"
    except Exception as error:
        return f"can't be imported: {_first_line(error)}"
    return ""


def _survey(kind: str, folder: Path, absent: Collection[str], tell: Callable[[str], None]) -> dict[str, str]:
    """Writes the cards of a kind; returns which libraries' could not be read, and why."""
    what = ""
    cards = CardFile(kind, lambda count: tell(f"{what}, {count}"))
    failures = {}
    for library, function in _SOURCES[kind]:
        if library not in absent:
            what = f"{library} {_PLURALS.get(kind, f'{kind}s')}"
            tell(what)
            try:
                module, name = function.split(":")
                getattr(importlib.import_module(f"leaven.survey.{module}"), name)(cards)
            except Exception as error:
                failures[library] = f"its {kind} list can't be read: {_first_line(error)}"
    cards.write(folder)
    return failures


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The record of samples where a run has none that holds: measured once, and kept in the cache by model and data.

Of a run, the splits are measured that it kept for testing and validation; of other data, what `leaven evaluate` does.
"""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from leaven.bundle import Bundle
from leaven.bundle.evaluation import Evaluated
from leaven.bundle.inputs.protocol import SplitName
from leaven.cache.location import keep_newest, user_folder
from leaven.cache.store import key_of
from leaven.files.atomic_files import write_atomically
from leaven.formats import run_folder, sample_table
from leaven.formats.sample_table import SampleTable, Unreadable
from leaven.lab.mistakes.samples import TRAIN, Samples, changed_files, model_hash
from leaven.lab.subject import Subject
from leaven.runtime.failures import Failure
from leaven.runtime.run.samples import Columns, described, facts_of, labels
from leaven.terminal import status_line

_KEPT = 50  # records in the cache
_HELD_OUT: tuple[SplitName, ...] = ("test", "val")


def measured_samples(subject: Any, data: Any, *, features: bool, trust_code: bool, reason: str) -> Samples:
    """The record of a model on some data, from the cache or made now; `reason` is why that of its run is not used."""
    if not sample_table.can_be_written():
        raise Failure("the record of samples needs the library pyarrow", f"install it: {sample_table.NEEDS}")
    about = subject if isinstance(subject, Subject) else _subject(subject, trust_code)
    if about.recipe is not None:
        raise Failure(f"{about.name} is a recipe, which has made no mistakes yet", "train it, and give its run")
    if data is None and about.run is None:
        about.model  # noqa: B018  # a Failure for a name that means nothing
        raise Failure(f"{about.name} is not in the folder of a run, so its data is not known", "give data: `data=`")
    notes = (reason,) if reason else ()
    model = _model_key(about)
    key = key_of(model=model, data=_data_key(about, data), features=features, format=sample_table.FORMAT)
    file = user_folder() / "samples" / f"{key}.parquet"
    known = _known(file, about.name, notes)
    if known is None:
        with status_line.doing(f"measuring {about.name} on its samples…"):
            columns, facts = _measured(about, data, features=features)
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = {**facts, "model": model}
        write_atomically(file, lambda beside: sample_table.write(beside, columns, whole))
        keep_newest(file.parent, "*.parquet", _KEPT)
        known = Samples(SampleTable(file), about.name, notes)
    return known


def _subject(subject: Any, trust_code: bool) -> Subject:
    if not isinstance(subject, Bundle):
        return Subject(subject, trust_code=trust_code)
    found = Subject(subject.path, trust_code=trust_code)
    found.__dict__["model"] = subject  # as it is loaded
    return found


# -- what a record depends on


def _model_key(about: Subject) -> str:
    """The hash of the file of a model; of a published one, its name."""
    of_run = (run_folder.BUNDLE, run_folder.BEST, run_folder.LAST)
    places = [Path(about.name)] if about.run is None else [about.run / name for name in of_run]
    file = next((place for place in places if place.is_file()), None)
    return model_hash(file) if file is not None else about.name


def _data_key(about: Subject, data: Any) -> Any:
    """What tells data from other data, and from its state before a change."""
    if data is None:
        assert about.run is not None
        return run_folder.read_json(about.run / run_folder.LOCK).get("data")
    if not isinstance(data, str | os.PathLike):
        return os.urandom(16).hex()  # objects of Python: measured each time
    path = Path(os.path.realpath(data))
    if path.is_file():
        return [str(path), model_hash(path)]
    return [str(path), [_facts(Path(folder, name)) for folder, _, names in os.walk(path) for name in sorted(names)]]


def _facts(file: Path) -> tuple[str, int, int]:
    found = os.lstat(file)
    return os.fspath(file).encode("utf-8", "backslashreplace").decode(), found.st_size, found.st_mtime_ns


def _known(file: Path, name: str, notes: tuple[str, ...]) -> Samples | None:
    """The record in the cache; None where there is none that holds."""
    if not file.is_file():
        return None
    try:
        found = Samples(SampleTable(file), name, notes)
        return None if changed_files(found) else found
    except Unreadable:
        return None


# -- measuring


def _measured(about: Subject, data: Any, *, features: bool) -> tuple[list[Columns], dict[str, Any]]:
    """The columns of each split, and what holds for all of them."""
    with nullcontext(data) if data is not None else about.data() as given:
        splits: Sequence[SplitName | None] = (None,)
        if data is None:
            splits = [split for split in _HELD_OUT if split in given.predefined]
        found = [about.model.evaluated(given, split=split, shows_progress=True) for split in splits or (TRAIN,)]
        items = found[0].items
        parts = [_columns(one, split) for one in found for split in [_name(one)]]
        if TRAIN in items.predefined and TRAIN not in {part["split"][0] for part in parts}:
            trained = np.asarray(items.predefined[TRAIN], dtype=np.int64)
            parts.append({**described(items, TRAIN, trained), "label": labels(items, trained)})
            if features:
                parts[-1] = _only_features(about.model.evaluated(given, split=TRAIN, shows_progress=True))
    return parts, facts_of(items, "", None)


def _name(found: Evaluated) -> str:
    """The split that was measured."""
    first = found.indices[0]
    return next((name for name, indices in found.items.predefined.items() if first in set(indices)), "all")


def _columns(found: Evaluated, split: str) -> Columns:
    measured = found.evaluation.columns()
    del measured["file"]
    own = {"brightness": found.brightness, "features": found.features}
    known = {name: column for name, column in own.items() if column is not None}
    return {**described(found.items, split, found.indices), **measured, **known}


def _only_features(found: Evaluated) -> Columns:
    """Of samples that the model was trained on, what says nothing about how good it is."""
    indices = np.asarray(found.indices, dtype=np.int64)
    columns = {**described(found.items, TRAIN, indices), "label": labels(found.items, indices)}
    return columns if found.features is None else {**columns, "features": found.features}

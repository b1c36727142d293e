"""What a run prints about its data: how much there is, what has changed since it was started, what was skipped."""

from collections.abc import Mapping, Sequence
from typing import Any

from leaven.formats.split_sizes import sizes_text
from leaven.runtime.data.batches import Data
from leaven.terminal.visible import visible

_MOST_NAMED = 8


def summary(data: Data) -> str:
    """`1,437 samples for training, 180 for validation, 180 for testing; 10 classes`."""
    return f"{sizes_text(len(data.train), len(data.val), len(data.test))}; {data.target.brief}"


def difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """How the fingerprint of the data differs from that of the data that a run was started with."""
    if then.get("outputs") != now["outputs"]:
        before, after = _few(then.get("outputs", ())), _few(now["outputs"])
        return f"the model predicted {before} when the run was started, now {after}"
    for split in ("train", "val", "test"):
        if then.get(split) != now[split]:
            return f"{split} had {then.get(split)} samples when the run was started, now {now[split]}"
    return "the data has other samples than when the run was started"


def skipped(samples: Sequence[str]) -> str:
    """`2 samples could not be read and were skipped: a.jpg, b.jpg`."""
    verb = "sample could not be read and was" if len(samples) == 1 else "samples could not be read and were"
    return f"{len(samples)} {verb} skipped: {_few(samples)}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(visible, names[:_MOST_NAMED])) + (", …" if len(names) > _MOST_NAMED else "")

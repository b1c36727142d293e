"""The samples that a model is measured on, as a user asks for them."""

import os
from dataclasses import dataclass
from typing import Any, Literal

SplitName = Literal["train", "val", "test", "all"]


@dataclass(frozen=True)
class Measured:
    """Which labelled samples to measure: the data, which split of it, and which columns a table has."""

    data: Any
    split: SplitName | None
    image: str | None  # none: that of the training
    text: tuple[str, ...]  # none: those of the training
    columns: tuple[str, ...]  # none: those usual for the task
    root: str | os.PathLike[str] | None
    on_bad_file: Literal["stop", "skip"] = "stop"

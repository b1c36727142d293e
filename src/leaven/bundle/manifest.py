"""What a bundle says about itself: `bundle.json`, in this version's form."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from leaven.bundle.inputs import Takes
from leaven.runtime.failures import Failure
from leaven.runtime.model.pruned_shapes import PrunedShapes

FORMAT = 2  # the first with weights that lie elsewhere; bundles that hold all of theirs are of format 1
TASK = "image-classification"
PACKAGES = ("leaven", "torch", "torchvision", "timm", "numpy", "pillow", "safetensors")


@dataclass(frozen=True)
class Manifest:
    """How to build the model and its steps, what it takes, and what it says. `shape` is that of one prepared input.

    `sizes` are those in which the model is smaller than what it is built by makes it: some of its channels are pruned.
    `over` says on whose weights the model stands, where the bundle holds adapters to them.
    """

    built_by: Mapping[str, Any]
    preprocess: Any
    takes: Takes
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    scores: Mapping[str, float]
    versions: Mapping[str, str]
    sizes: PrunedShapes = field(default_factory=dict)
    over: Mapping[str, Any] | None = None

    def to_bytes(self) -> bytes:
        content = {
            "format": FORMAT if self.over is not None else 1,
            "task": TASK,
            "built_by": self.built_by,
            "preprocess": self.preprocess,
            "takes": self.takes.to_json(),
            "shape": list(self.shape),
            "classes": list(self.classes),
            "scores": {name: value if math.isfinite(value) else None for name, value in self.scores.items()},
            "versions": self.versions,
            **({"sizes": self.sizes} if self.sizes else {}),
            **({"over": self.over} if self.over is not None else {}),
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def read_manifest(content: bytes, bundle: str) -> Manifest:
    """The manifest in `bundle.json`; a ValueError where it can't be read."""
    found = json.loads(content)
    match found:
        case {"format": int(number)} if number > FORMAT:
            raise Failure(
                f"{bundle} was made by a newer Leaven (format {number}, this one reads {FORMAT})",
                "pip install --upgrade leaven",
            )
        case {"task": str(task)} if task != TASK:
            raise Failure(f"{bundle} is for {task}, which this version can't use")
        case {
            "format": int(),
            "task": str(),
            "built_by": dict(built_by),
            "preprocess": preprocess,
            "takes": dict(takes),
            "shape": [*shape],
            "classes": [*classes],
            "scores": dict(scores),
            "versions": dict(versions),
        }:
            return Manifest(
                built_by=built_by,
                preprocess=preprocess,
                takes=Takes.read(takes),
                shape=tuple(int(side) for side in shape),
                classes=tuple(str(name) for name in classes),
                scores={str(name): math.nan if value is None else float(value) for name, value in scores.items()},
                versions={str(name): str(number) for name, number in versions.items()},
                sizes={str(path): dict(numbers) for path, numbers in found.get("sizes", {}).items()},
                over=found.get("over"),
            )
    raise ValueError("it lacks what a bundle must say")


def versions() -> dict[str, str]:
    """The versions of what made this bundle, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

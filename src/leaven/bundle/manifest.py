"""The description of a bundle: `bundle.json`, in this version's format."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from leaven.bundle.inputs import InputKind
from leaven.bundle.inputs import read as read_takes
from leaven.formats.installed_versions import installed_versions
from leaven.formats.target import Target
from leaven.runtime.failures import Failure
from leaven.runtime.model.pruned_shapes import PrunedShapes
from leaven.runtime.run.ending import Epoch
from leaven.tasks import find as find_task
from leaven.tasks.protocol import Task

FORMAT = 3  # the first that names a task and its target
PACKAGES = ("leaven", "torch", "torchvision", "timm", "transformers", "tokenizers", "numpy", "pillow", "safetensors")


@dataclass(frozen=True)
class Manifest:
    """How to build the model and its transforms, what it takes and what it predicts. `shape` is that of one input.

    `sizes` are those in which the model is smaller than what `built_by` makes: some of its channels are pruned.
    `over` says which weights the bundle needs, where it holds adapters to them. `epoch` is the one that was saved.
    `caveats` say what is wrong with a model that is no better than a guess.
    """

    built_by: Mapping[str, Any]
    preprocess: Any
    takes: InputKind
    shape: tuple[int, ...]
    target: Target
    scores: Mapping[str, float]
    versions: Mapping[str, str]
    sizes: PrunedShapes = field(default_factory=dict)
    over: Mapping[str, Any] | None = None
    epoch: Epoch | None = None
    caveats: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        return task_of(self.target)

    def to_bytes(self) -> bytes:
        content = {
            "format": FORMAT,
            "task": self.target.task,
            "target": self.target.to_json(),
            "built_by": self.built_by,
            "preprocess": self.preprocess,
            "takes": self.takes.to_json(),
            "shape": list(self.shape),
            "scores": {name: value if math.isfinite(value) else None for name, value in self.scores.items()},
            "versions": self.versions,
            **({"sizes": self.sizes} if self.sizes else {}),
            **({"over": self.over} if self.over is not None else {}),
            **({"epoch": asdict(self.epoch)} if self.epoch is not None else {}),
            **({"caveats": list(self.caveats)} if self.caveats else {}),
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def task_of(target: Target) -> Task:
    """The task of a target."""
    return cast(Task, find_task(target.task))


def read_manifest(content: bytes, bundle: str) -> Manifest:
    """The manifest in `bundle.json`; a ValueError where it can't be read, a Failure where another version must."""
    data = json.loads(content)
    epoch = data.get("epoch") if isinstance(data, dict) else None
    match data:
        case {"format": int(number)} if number > FORMAT:
            raise Failure(
                f"{bundle} was written by a newer Leaven (format {number}, this one reads {FORMAT})",
                "pip install --upgrade leaven",
            )
        case {"format": int(number)} if number < FORMAT:
            raise Failure(f"{bundle} was written by an older Leaven (format {number}, this one reads {FORMAT})")
        case {"task": str(name)} if find_task(name) is None:
            raise Failure(f"{bundle} is for {name}, a task that this version of Leaven does not have")
        case {
            "format": int(),
            "task": str(name),
            "target": target,
            "built_by": dict(built_by),
            "preprocess": preprocess,
            "takes": dict(takes),
            "shape": [*shape],
            "scores": dict(scores),
            "versions": dict(versions),
        }:
            return Manifest(
                built_by=built_by,
                preprocess=preprocess,
                takes=read_takes(takes),
                shape=tuple(int(side) for side in shape),
                target=cast(Task, find_task(name)).read_target(target),
                scores={str(key): math.nan if value is None else float(value) for key, value in scores.items()},
                versions={str(package): str(number) for package, number in versions.items()},
                sizes={str(path): dict(numbers) for path, numbers in data.get("sizes", {}).items()},
                over=data.get("over"),
                epoch=Epoch(str(epoch["phase"]), int(epoch["number"]), int(epoch["planned"])) if epoch else None,
                caveats=tuple(map(str, data.get("caveats", ()))),
            )
    raise ValueError("`bundle.json` is incomplete")


def versions() -> dict[str, str]:
    """The versions of the packages that a bundle is made with, as far as they are installed."""
    return {"python": platform.python_version(), **installed_versions(PACKAGES)}

"""Models with one row of outputs for each image or text: a number for each name of the target."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from leaven.formats.target import Known, Target
from leaven.runtime.data.datasets import Dataset, image_folder
from leaven.runtime.data.model_inputs import ModelInputs, as_batch
from leaven.runtime.failures import Failure
from leaven.tasks.scored import OutputScore, of_column


def row(model: nn.Module, image: ModelInputs) -> Tensor:
    """The outputs of a model for an image."""
    outputs = model(as_batch(image))
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        raise Failure("the model does not return one row of outputs for each image")
    return outputs[0]


def row_size(target: Target) -> int:
    return len(target.names)


def exported(model: nn.Module, target: Target) -> nn.Module:
    return model


def folder(path: Path, target: Target, columns: Sequence[str]) -> Dataset:
    """The images that a table in a folder lists with their labels."""
    return image_folder(path, target=Known(target, tuple(columns) or target.columns))


def output_score(outputs: Tensor, target: Target, wanted: str | None) -> OutputScore:
    """The output of a name, before it becomes a probability."""
    return of_column(outputs, target.names, wanted)

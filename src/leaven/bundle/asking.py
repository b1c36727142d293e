"""How the model of a bundle is asked: on its device, in its precision, and answering in the images' coordinates."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.bundle.golden import Steps
from leaven.runtime.data.model_inputs import first_tensor, on_device
from leaven.runtime.data.places import Place, prepared
from leaven.runtime.data.samples import Samples

UNFIT = (RuntimeError, ValueError, AssertionError)  # what models raise for inputs that they can't take


def prepare(taken: Any, steps: Steps, samples: Samples) -> tuple[Any, Place]:
    """The model's input for an image or a text, and where it lies in the image, if that matters for its outputs."""
    if samples.is_placed:
        return prepared(taken, steps)
    made = taken if steps is None else steps(taken)
    return made if isinstance(made, dict) else torch.as_tensor(made).as_subclass(Tensor), Place((0, 0))


def ask(model: nn.Module, inputs: Sequence[Any], places: Sequence[Place], samples: Samples) -> Any:
    """The outputs of a model for some prepared inputs, on its device."""
    first = next(model.parameters(), first_tensor(inputs[0]))
    inputs = _pytree.tree_map_only(
        Tensor, lambda each: on_device(each, first.device, first.dtype), samples.inputs(inputs)
    )
    with torch.inference_mode():
        return samples.placed(samples.outputs(model, inputs), places)

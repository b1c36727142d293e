"""A forward pass that a question needs: the batch of one input, and the outputs, as the bundle itself computes them.

Unlike a prediction, it may have gradients. Models are in evaluation mode, and random numbers are drawn as if it had not
taken place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.bundle import Bundle
from leaven.bundle.asking import UNFIT
from leaven.runtime.data.model_inputs import first_tensor, on_device
from leaven.runtime.failures import Failure
from leaven.runtime.model.modes import evaluating
from leaven.runtime.seeding import generators_kept


def batch_of(bundle: Bundle, prepared: Any) -> Any:
    """A prepared input as a batch of one, on the device of the model."""
    first = next(bundle.model.parameters(), first_tensor(prepared))
    batch = bundle.manifest.task.Samples().inputs([prepared])
    return _pytree.tree_map_only(Tensor, lambda each: on_device(each, first.device, first.dtype), batch)


def outputs(bundle: Bundle, batch: Any) -> Any:
    """The outputs of the model for a batch; a Failure where it can't take it."""
    try:
        return bundle.manifest.task.Samples().outputs(bundle.model, batch)
    except UNFIT as problem:
        raise Failure(f"the model fails on the input: {type(problem).__name__}: {problem}") from None


@contextmanager
def asking(model: nn.Module, *, with_gradients: bool) -> Iterator[None]:
    """The model as it is when it predicts; gradients are computed if asked for, and those of weights never kept."""
    with evaluating(model), generators_kept(), torch.inference_mode(False), torch.set_grad_enabled(with_gradients):
        yield

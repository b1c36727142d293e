"""The outputs of frozen layers, computed once for every image and then read from the store.

What is stored is what the model itself would compute: a copy of its modules runs, in the same precision, and only where
their outputs can't change from one epoch to the next (`model/graph.py`). The model itself does not run: it is as it
would be without the store. That stored outputs lead to the same training is tried before they are used: outputs,
gradients and buffers must be equal, bit for bit, and no forward pass may change anything that the next one depends on.
Where anything is not as it should be, `NotStored` says why, and the model runs as it is.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.model.graph import NotTraceable, cut_again, find_cut, over
from leaven.runtime.model.model_around import ModelAround
from leaven.runtime.model.modes import evaluating
from leaven.runtime.model.state import HOOKS
from leaven.runtime.seeding import draws
from leaven.runtime.stored import identity
from leaven.runtime.stored.arrays import Form
from leaven.runtime.stored.batch import MODEL, StoredBatch, own_copies
from leaven.runtime.stored.checked_copy import CheckedCopy, are_same
from leaven.runtime.stored.computing import Computation
from leaven.runtime.stored.identity import NotStored
from leaven.runtime.stored.split import StoredSplit
from leaven.runtime.trials.fused import forward, has_hooks
from leaven.runtime.trials.group import current_trial

Precision = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, eq=False)
class FrozenPart:
    """A model in two parts, which have its layers."""

    before: fx.GraphModule  # from images to the outputs of the frozen layers
    after: fx.GraphModule  # from there to the model's outputs, in training
    after_in_evaluation: fx.GraphModule
    names: tuple[str, ...]

    @classmethod
    def of(cls, model: nn.Module, images: Any, precision: Precision) -> tuple["FrozenPart", Computation]:
        """The parts of a model, and the computation of the first; both are tried with some images on a copy."""
        if "forward" in vars(model):
            raise NotStored(f"{type(model).__name__} has a `forward` that is not that of its class")
        if any(getattr(model, name) for name in HOOKS):
            raise NotStored(f"{type(model).__name__} has hooks, which would not run")
        if any(map(has_hooks, model.parameters())):
            raise NotStored("hooks of weights are code of your own, which may change frozen layers")  # and not copied
        checked = CheckedCopy(model)
        copied = checked.copy
        with precision():
            whole = checked.run(images)
        if not isinstance(whole[0], Tensor):
            raise NotStored(f"{type(model).__name__} gives a {type(whole[0]).__name__}")
        try:
            cut = find_cut(copied)
            if cut is None:
                raise NotStored("no layer before the first trainable one is frozen")
            with evaluating(copied):
                in_evaluation = cut_again(cut, copied)
        except NotTraceable as problem:
            raise NotStored(str(problem)) from None
        if in_evaluation is None:
            raise NotStored(f"{type(model).__name__} computes something else in evaluation before its trainable layers")
        tried = cls(cut.before(copied), cut.after(copied), in_evaluation.after(copied), cut.names)
        with precision():
            parts = tried._trial(checked, images)
            if len(whole) != len(parts) or not all(map(are_same, whole, parts)):
                raise NotStored(f"the two parts of {type(model).__name__} do not compute what the whole does")
        title = f"the frozen layers of {type(model).__name__} up to {' and '.join(tried.names)}"
        computation = Computation(title, tried.before, identity.of_part(tried.before), checked)
        return tried.of_copy(model), computation

    def of_copy(self, model: nn.Module) -> "FrozenPart":
        """The parts of a model with the same layers."""
        parts = (self.before, self.after, self.after_in_evaluation)
        before, after, in_evaluation = (over(model, each.graph, each) for each in parts)
        return FrozenPart(before, after, in_evaluation, self.names)

    def _trial(self, checked: CheckedCopy, images: Any) -> list[Any]:
        """The outputs, gradients and buffers of the copy where it continues from outputs as they are stored."""
        have_drawn = draws()
        with torch.no_grad():
            outputs = tuple(_stored_form(each) for each in self.before(images))
        if have_drawn():
            raise NotStored("the frozen layers draw random numbers")
        stored = StoredBatch(None, {MODEL: outputs}, len(first_tensor(images)))
        return checked.run(stored, RestOfModel(checked.copy, self))


@dataclass(frozen=True, eq=False)
class StoredPart:
    """A model in two parts, the digests of the weights of the first, and splits with its outputs."""

    part: FrozenPart
    weights: dict[str, str]
    splits: dict[str, StoredSplit]
    is_of_copy: bool = False  # of the model that they were computed for, with the same weights

    def of_copy(self, model: nn.Module) -> "StoredPart":
        """The same for a copy of the model."""
        return replace(self, part=self.part.of_copy(model), is_of_copy=True)


class RestOfModel(ModelAround):
    """The layers of a model after its frozen ones: they continue from stored outputs. Images run through all layers.

    A copy, such as an average of the weights, has parts with the layers of the copied model.
    """

    _own = ModelAround._own | {"_part"}

    def __init__(self, model: nn.Module, part: FrozenPart) -> None:
        super().__init__(model)
        self.training = model.training
        self._part = part

    def forward(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(inputs, StoredBatch):
            return self.module(inputs, *args, **kwargs)
        after = self._part.after if self.module.training else self._part.after_in_evaluation
        trial, stored = current_trial(), inputs.outputs[MODEL]
        return after(*own_copies(stored)) if trial is None else forward(trial, after, stored)

    def __repr__(self) -> str:
        return f"RestOfModel({type(self.module).__name__} after {' and '.join(self._part.names)})"


def _stored_form(output: Any) -> Any:
    """An output as it comes from the store."""
    if not isinstance(output, Tensor):
        return output
    form = Form.of(output)
    return form.as_computed(output.permute(0, *form.order).contiguous())

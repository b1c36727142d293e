"""A copy of a model that computes what is stored, and the proof that computing it changes nothing.

A forward pass that changes what the next one depends on (a counter, a running mean, a generator, weights that are
initialised from the first batch) can't be left out. Whether it does is tried on the copy, in evaluation and in
training.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from leaven.runtime.model.looking import NotCopied, copy_to_look_at
from leaven.runtime.model.modes import evaluating
from leaven.runtime.model.outside import Outside, state_with_outside
from leaven.runtime.model.state import differences, digest, own_class, tensors_of
from leaven.runtime.seeding import seed_all
from leaven.runtime.stored.identity import NotStored, OwnCode


class Looked:
    """A copy of a model that runs in its place, and what a forward pass must not change of it.

    `own_code` names code that ran and that comes from no library whose version is known.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        if any(vars(module).get("_compiled_call_impl") is not None for module in model.modules()):
            raise NotStored(f"{type(model).__name__} is compiled, which changes the last digits of its outputs")
        try:
            self.copy = copy_to_look_at(model)
        except NotCopied as problem:
            raise NotStored(str(problem)) from None
        self.own_code = own_class(model)
        self._outside = Outside(model)
        self._state = state_with_outside(model)
        if differs := self._difference(but_buffers=False):
            raise NotStored(f"{type(model).__name__} can't be copied: {differs} is another one in its copy")

    def run(self, forward: Callable[[], Any]) -> Any:
        """The outputs of the copy in evaluation, which something asks for; a `NotStored` if that changes it."""
        with evaluating(self.copy), torch.no_grad():
            outputs = forward()
        self.refuse_changes(but_buffers=False)
        return outputs

    def run_first(self, forward: Callable[[], Any]) -> Any:
        """The same, and a note of whose code runs."""
        own = OwnCode()
        outputs = self.run(lambda: own.noted(forward))
        self.own_code = self.own_code or own.found
        return outputs

    def train(self, images: Any) -> list[Tensor]:
        """The outputs, gradients and buffers of a step of the copy, whose buffers are then as before."""
        found = _trained(self.copy, images)
        self.refuse_changes(but_buffers=True)
        for copied, own in zip(self.copy.modules(), self.model.modules(), strict=True):
            for name, buffer in own._buffers.items():
                copied._buffers[name] = buffer.clone() if buffer is not None else None
        return found

    def refuse_changes(self, *, but_buffers: bool) -> None:
        """Raise where the copy is no longer as the model is."""
        if changed := self._difference(but_buffers=but_buffers):
            self._outside.restore()
            raise NotStored(f"{type(self.model).__name__} changes {changed} in a forward pass")

    def _difference(self, *, but_buffers: bool) -> str:
        """What is not the same in the model and in its copy; empty where all is."""
        of = nn.Module.named_parameters if but_buffers else tensors_of
        ours, theirs = dict(of(self.model)), dict(of(self.copy))
        tensors = (name for name in {**ours, **theirs} if not are_same(ours.get(name), theirs.get(name)))
        return next(chain(differences(self._state, state_with_outside(self.copy)), tensors), "")


def are_same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors are equal, bit for bit."""
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or digest(one) == digest(other)  # the latter with NaN


def _trained(model: nn.Module, inputs: Any) -> list[Tensor]:
    """The outputs, gradients and buffers of a step."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    seed_all(0)
    outputs = model(inputs)
    if not isinstance(outputs, Tensor):
        raise NotStored(f"{type(model).__name__} gives a {type(outputs).__name__} in training")
    grads = torch.autograd.grad(outputs.float().square().sum(), parameters, allow_unused=True)
    return [outputs.detach(), *(grad for grad in grads if grad is not None), *model.buffers()]

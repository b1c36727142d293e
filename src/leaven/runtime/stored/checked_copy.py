"""A copy of a model that computes what is stored, and the proof that computing it changes nothing.

A forward pass that changes what the next one depends on (a counter, a running mean, a generator, weights that are
initialised from the first batch) can't be left out. Whether it does is tried on the copy, in evaluation and in
training.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from leaven.runtime.model.looking import NotCopied, copy_to_look_at
from leaven.runtime.model.modes import evaluating
from leaven.runtime.model.outside import UserVariables, state_with_outside
from leaven.runtime.model.state import differences, digest, own_class, tensors_of
from leaven.runtime.seeding import seed_all
from leaven.runtime.stored.identity import NotStored, OwnCode


class CheckedCopy:
    """A copy of a model that runs in its place; `NotStored` where a forward pass changes it.

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
        self._own: OwnCode | None = OwnCode()
        self._variables = UserVariables(model)
        self._state = state_with_outside(model)
        self._tensors = tensors_of(model)
        if differs := next(chain(self._differing_state(), self._differing_tensors(tensors_of(self.copy))), ""):
            raise NotStored(f"{type(model).__name__} can't be copied: {differs} differs in the copy")

    def evaluate(self, forward: Callable[[], Any]) -> Any:
        """The outputs of a call that runs the copy in evaluation mode."""
        with self._restoring_variables():
            outputs = self._evaluated(forward)
            self.refuse_changes()
        return outputs

    def run(self, inputs: Any, around: nn.Module | None = None) -> list[Any]:
        """The outputs of the copy in evaluation mode, then the outputs, gradients and buffers of a training step; where
        something is `around` it, called through that."""
        model = self.copy if around is None else around
        with self._restoring_variables():
            outputs = self._evaluated(lambda: model(inputs))
            self._refuse(self._differing_tensors(dict(self.copy.named_buffers())))
            step = _training_step(model, inputs)
            self._refuse(self._differing_state(), self._differing_tensors(dict(self.copy.named_parameters())))
        for copied, own in zip(self.copy.modules(), self.model.modules(), strict=True):
            for name, buffer in own._buffers.items():
                copied._buffers[name] = buffer.clone() if buffer is not None else None
        return [outputs, *step]

    def refuse_changes(self) -> None:
        """Raise where the copy is no longer equal to the model."""
        copied = tensors_of(self.copy)
        with self._restoring_variables():
            self._refuse(self._differing_state(), self._tensors.keys() - copied.keys(), self._differing_tensors(copied))

    def _evaluated(self, forward: Callable[[], Any]) -> Any:
        """The outputs in evaluation mode; the first call also notes whose code runs."""
        own, self._own = self._own, None
        with evaluating(self.copy), torch.no_grad():
            outputs = forward() if own is None or self.own_code else own.noted(forward)
        self.own_code = self.own_code or (own.found if own is not None else "")
        return outputs

    @contextmanager
    def _restoring_variables(self) -> Iterator[None]:
        """Where the copy is refused, or its code fails, the variables of the user's code are as before."""
        try:
            yield
        except BaseException:
            self._variables.restore()
            raise

    def _refuse(self, *changes: Iterable[str]) -> None:
        if changed := next(chain(*changes), ""):
            raise NotStored(f"{type(self.model).__name__} changes {changed} in a forward pass")

    def _differing_state(self) -> list[str]:
        """The names of plain state that differs between the model and its copy."""
        return differences(self._state, state_with_outside(self.copy))

    def _differing_tensors(self, copied: Mapping[str, Tensor]) -> Iterator[str]:
        """The names of these tensors of the copy that differ from those of the model."""
        return (name for name, tensor in copied.items() if not are_same(self._tensors.get(name), tensor))


def are_same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two tensors are equal, bit for bit."""
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or digest(one) == digest(other)  # the latter with NaN


def _training_step(model: nn.Module, inputs: Any) -> list[Tensor]:
    """The outputs, gradients and buffers of a step."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    seed_all(0)
    outputs = model(inputs)
    if not isinstance(outputs, Tensor):
        raise NotStored(f"{type(model).__name__} gives a {type(outputs).__name__} in training")
    grads = torch.autograd.grad(outputs.float().square().sum(), parameters, allow_unused=True)
    return [outputs.detach(), *(grad for grad in grads if grad is not None), *model.buffers()]

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
        self._own: OwnCode | None = OwnCode()
        self._outside = Outside(model)
        self._state = state_with_outside(model)
        self._tensors = tensors_of(model)
        if differs := next(chain(self._other_state(), self._other_tensors(tensors_of(self.copy))), ""):
            raise NotStored(f"{type(model).__name__} can't be copied: {differs} differs in the copy")

    def ask(self, forward: Callable[[], Any]) -> Any:
        """The outputs of the copy in evaluation, which something asks for; a `NotStored` if that changes it."""
        with self._outside_kept():
            outputs = self._evaluated(forward)
            self.refuse_changes()
        return outputs

    def run(self, inputs: Any) -> list[Any]:
        """The outputs of the copy in evaluation, and the outputs, gradients and buffers of a step of it."""
        with self._outside_kept():
            outputs = self._evaluated(lambda: self.copy(inputs))
            self._refuse(self._other_tensors(dict(self.copy.named_buffers())))
            found = _trained(self.copy, inputs)
            self._refuse(self._other_state(), self._other_tensors(dict(self.copy.named_parameters())))
        for copied, own in zip(self.copy.modules(), self.model.modules(), strict=True):
            for name, buffer in own._buffers.items():
                copied._buffers[name] = buffer.clone() if buffer is not None else None
        return [outputs, *found]

    def refuse_changes(self) -> None:
        """Raise where the copy is no longer as the model is."""
        theirs = tensors_of(self.copy)
        with self._outside_kept():
            self._refuse(self._other_state(), self._tensors.keys() - theirs.keys(), self._other_tensors(theirs))

    def _evaluated(self, forward: Callable[[], Any]) -> Any:
        """The outputs in evaluation, and the first time a note of whose code runs."""
        own, self._own = self._own, None
        with evaluating(self.copy), torch.no_grad():
            outputs = forward() if own is None or self.own_code else own.noted(forward)
        self.own_code = self.own_code or (own.found if own is not None else "")
        return outputs

    @contextmanager
    def _outside_kept(self) -> Iterator[None]:
        """Where the copy is refused, or its code fails, the variables of the user's code are as before."""
        try:
            yield
        except BaseException:
            self._outside.restore()
            raise

    def _refuse(self, *others: Iterable[str]) -> None:
        if changed := next(chain(*others), ""):
            raise NotStored(f"{type(self.model).__name__} changes {changed} in a forward pass")

    def _other_state(self) -> list[str]:
        """The plain state that is not the same in the model and in its copy."""
        return differences(self._state, state_with_outside(self.copy))

    def _other_tensors(self, copied: Mapping[str, Tensor]) -> Iterator[str]:
        """Those of the copy that are not the same in the model."""
        return (name for name, tensor in copied.items() if not are_same(self._tensors.get(name), tensor))


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

"""A frozen model that is asked about the batches of another model."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import freeze
from leaven.runtime.model.input_spec import InputConverter, input_spec_after, input_spec_of
from leaven.runtime.model.state import changed_names, unsaved_state
from leaven.runtime.stored.batch import StoredBatch

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from leaven.runtime.data.batches import Data

Size = int | Sequence[int] | None
_latest: weakref.WeakKeyDictionary[nn.Module, Any] = weakref.WeakKeyDictionary()  # images, their size, and outputs


class Teacher:
    """A frozen model that computes outputs for batches that were prepared for another model.

    Several techniques may ask the same model about the same batch; it runs once.
    """

    def __init__(self, model: nn.Module, fabric: "Fabric", data: "Data", size: Size = None) -> None:
        freeze(model)
        self.model = fabric.to_device(model)
        self.fabric = fabric
        self._loaded = {name: (tensor, _version(tensor)) for name, tensor in _tensors(self.model)}
        self._plain_before = unsaved_state(self.model)
        input_spec = input_spec_of(model)
        if size is not None:
            input_spec = replace(input_spec, size=(size, size) if isinstance(size, int) else (size[0], size[1]))
        self.convert = InputConverter(input_spec, input_spec_after(data.eval_transform), fabric.device)

    def state_dict(self) -> dict[str, Any]:
        """The state that has changed since the teacher was loaded: usually none."""
        now = dict(_tensors(self.model))
        same = {name for name, (old, times) in self._loaded.items() if now.get(name) is old if _version(old) == times}
        return {name: value for name, value in self.model.state_dict().items() if name not in same}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            self.model.load_state_dict(state, strict=False)

    def unsaved_state(self) -> list[str]:
        """The names of plain state that has changed, and that no checkpoint has."""
        return changed_names(self._plain_before, unsaved_state(self.model))

    def check_classes(self, classes: Sequence[str]) -> None:
        """Whoever learns its outputs must mean the same by each of them."""
        known = input_spec_of(self.model).classes
        if known is None or known == tuple(classes):
            return
        if len(known) != len(classes):
            raise Failure(f"the teacher has {len(known)} classes, but the data has {len(classes)}")
        at = next(at for at, (theirs, ours) in enumerate(zip(known, classes, strict=True)) if theirs != ours)
        raise Failure(f"class {at + 1} of the teacher is {known[at]}, but class {at + 1} of the data is {classes[at]}")

    def __call__(self, images: Any) -> Tensor:
        """The outputs for a batch, in full precision."""
        if isinstance(images, StoredBatch):
            if self in images.outputs:
                known: Tensor = images.outputs[self][0]
                return known
            assert images.images is not None
            images = images.images
        images_before, size, outputs = _latest.get(self.model, (lambda: None, None, None))
        if images_before() is not first_tensor(images) or size != self.convert.size:
            with torch.no_grad(), self.fabric.autocast():
                outputs = self.model(self.convert(images))
            if not isinstance(outputs, Tensor):
                raise Failure(f"the teacher answers with a {type(outputs).__name__}, not with one output per class")
            outputs = outputs.float()
            _latest[self.model] = weakref.ref(first_tensor(images)), self.convert.size, outputs
        assert isinstance(outputs, Tensor)
        return outputs


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False))


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version

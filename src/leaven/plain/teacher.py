"""A frozen model that is asked about the batches of another model."""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from leaven.plain.batches import Data
from leaven.plain.failures import Failure
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.model.freezing import freeze
from leaven.runtime.model.input_spec import InputConverter, input_spec_after, input_spec_of


class Teacher:
    """A frozen model, asked about batches that were prepared for another.

    Several techniques may ask the same model about the same batch; it answers once.
    """

    def __init__(self, model: nn.Module, fabric: Any, data: Data, size: int | Sequence[int] | None = None) -> None:
        freeze(model)
        self.model, self.fabric = fabric.to_device(model), fabric
        spec = input_spec_of(model)
        if size is not None:
            spec = replace(spec, size=(size, size) if isinstance(size, int) else (size[0], size[1]))
        self.convert = InputConverter(spec, input_spec_after(data.eval_transform), fabric.device)

    def state_dict(self) -> dict[str, Any]:
        return {}  # it never changes

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def check_classes(self, classes: Sequence[str]) -> None:
        """Whoever learns its outputs must mean the same by each of them."""
        known = input_spec_of(self.model).classes
        if known is not None and known != tuple(classes):
            raise Failure("the classes of the teacher are not those of the data")

    def __call__(self, images: Any) -> Tensor:
        """The outputs for a batch, in full precision."""
        asked, size, outputs = self.model.__dict__.get("_answer", (lambda: None, None, None))
        if asked() is not first_tensor(images) or size != self.convert.size:
            with torch.no_grad(), self.fabric.autocast():
                outputs = self.model(self.convert(images)).float()
            self.model.__dict__["_answer"] = (weakref.ref(first_tensor(images)), self.convert.size, outputs)
        answer: Tensor = outputs
        return answer

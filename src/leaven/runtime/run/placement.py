"""Where the parameters of a model are while a phase trains it: whole in every process, or a part in each.

The phase asks its placement for all that depends on this, and never which one it is.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import nn

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class Stateful(Protocol):
    """What a checkpoint holds the state of."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


class Placement:
    """A model and its optimizer in a phase: every process has the whole model, a single one, or several whose gradients
    DDP averages. States are always whole, so that any other placement can load them; all processes ask for them
    together, and only the first one's are written."""

    runs_model: ClassVar[bool] = True  # the model's own layers run, and no copies of them

    def __init__(self, fabric: "Fabric", model: nn.Module, optimizer: torch.optim.Optimizer, *, compile: bool) -> None:
        self.model = model
        self.optimizer = optimizer
        self.saved: dict[str, Stateful] = {"model": model, "optimizer": optimizer}  # for checkpoints
        self._fabric = fabric
        self._wrapped, self.used = self._set_up(compile=compile)  # the latter as the program uses the optimizer

    def _set_up(self, *, compile: bool) -> Any:
        model: Any = torch.compile(self.model) if compile else self.model
        return self._fabric.setup(model, self.optimizer)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the model, such that gradients are those of all processes."""
        return self._wrapped(*args, **kwargs)

    def without_exchange(self) -> AbstractContextManager[Any]:
        """Gradients add up in each process, and are not exchanged."""
        return self._fabric.no_backward_sync(self._wrapped)

    def whole(self) -> AbstractContextManager[Any]:
        """For an evaluation, every process has all parameters."""
        return nullcontext()

    def end(self, *, keep_optimizer: bool) -> None:
        """Let model and optimizer be as if there were one process; of the optimizer only if it is used further."""


def place(fabric: "Fabric", model: nn.Module, optimizer: torch.optim.Optimizer, *, compile: bool) -> Placement:
    """Set up a model and its optimizer for the devices and the precision."""
    placement: type[Placement] = getattr(fabric.strategy, "placement", Placement)
    return placement(fabric, model, optimizer, compile=compile)

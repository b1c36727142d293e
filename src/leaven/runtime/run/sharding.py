"""Fully sharded training (`strategy=fsdp`): of every parameter, gradient and optimizer state, each process has a part.

A copy of the model is sharded by torch's FSDP2 and trained in place of the program's own, whose parameters are empty
meanwhile. They are whole for an evaluation and after the phase; then the copy is gone, and no trace of it is left in
the model. So the whole model has to fit on a device, but not together with its gradients and optimizer state.

Checkpoints hold what they would without sharding: another strategy or number of processes can resume from them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from lightning.fabric.strategies.ddp import DDPStrategy
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils import _pytree

from leaven.runtime.run.placement import Placement

if TYPE_CHECKING:
    from lightning.fabric import Fabric

_UNIT = 2**18  # parameters: smaller blocks are gathered with the rest of the model, not by themselves
_CONTAINERS = (nn.Sequential, nn.ModuleList)


class Sharded(Placement):
    """A model of which every process has a part."""

    runs_model: ClassVar[bool] = False

    def __init__(self, fabric: "Fabric", model: nn.Module, optimizer: torch.optim.Optimizer, *, compile: bool) -> None:
        super().__init__(fabric, model, optimizer, compile=compile)
        of_optimizer = _Saved(self.optimizer_state, self.load_optimizer)
        self.saved = {"model": _Saved(self.model_state, self.load_model), "optimizer": of_optimizer}
        self._release()

    def _set_up(self, *, compile: bool) -> Any:
        model, fabric = self.model, self._fabric
        self._names = dict(model.named_parameters(remove_duplicate=False))
        for tensor in chain(model.parameters(), model.buffers()):  # all begin with those of the first, as with DDP
            distributed.broadcast(tensor.data, src=0)
        self._copy = _sharded_copy(model, init_device_mesh(fabric.device.type, (fabric.world_size,)))
        parts: Any = self._copy.named_parameters(remove_duplicate=False)
        self._parts: dict[nn.Parameter, Any] = {self._names[name]: part for name, part in parts}
        self._modules = list(zip(model.modules(), self._copy.modules(), strict=True))
        self._use(self._parts, part_of)
        return fabric.setup(self._copy, self.optimizer, move_to_device=False)

    # -- training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the sharded copy; layers are in the mode that those of the model are in."""
        for own, copied in self._modules:
            copied.training = own.training
        return self._wrapped(*args, **kwargs)

    @contextmanager
    def without_exchange(self) -> Iterator[None]:
        assert isinstance(self._copy, FSDPModule)
        self._copy.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._copy.set_requires_gradient_sync(True)

    # -- whole parameters

    @contextmanager
    def whole(self) -> Iterator[None]:
        self._gather()
        try:
            yield
        finally:
            self._release()

    def end(self, *, keep_optimizer: bool) -> None:
        self._gather()
        whole_parameters = {part: parameter for parameter, part in self._parts.items()}
        if not keep_optimizer:
            self.optimizer.state.clear()
        self._use(whole_parameters, lambda value, _: whole_of(value))

    @torch.no_grad()
    def _gather(self) -> None:
        """Give the model its parameters, as they are now."""
        for parameter, part in self._parts.items():
            parameter.data = part.full_tensor()

    def _release(self) -> None:
        """Free the parameters of the model."""
        for parameter in self._parts:
            parameter.data = parameter.data.new_empty(0)

    def _use(self, others: Mapping[Any, Any], convert: Callable[[Any, Any], Any]) -> None:
        """Let the optimizer train other parameters in place of its own, with the same state."""
        for group in self.optimizer.param_groups:
            group["params"] = [others[parameter] for parameter in group["params"]]
        for parameter in list(self.optimizer.state):
            state, other = self.optimizer.state.pop(parameter), others[parameter]
            self.optimizer.state[other] = {name: convert(value, other) for name, value in state.items()}

    # -- checkpoints

    @torch.no_grad()
    def model_state(self) -> dict[str, Any]:
        """The state of the whole model, in the memory of the first process; others get nothing."""
        parts = {name: self._parts[parameter] for name, parameter in self._names.items()}
        state = {name: parts.get(name, value) for name, value in self.model.state_dict().items()}
        return self._in_first(state)

    @torch.no_grad()
    def load_model(self, state: Mapping[str, Any]) -> None:
        for parameter, part in self._parts.items():
            parameter.data = parameter.data.new_empty(part.shape)
        self.model.load_state_dict(state)
        for parameter, part in self._parts.items():
            part.copy_(part_of(parameter.data, part))
        self._release()

    def optimizer_state(self) -> dict[str, Any]:
        return self._in_first(self.optimizer.state_dict())

    def load_optimizer(self, saved: Mapping[str, Any]) -> None:
        parts = [part for group in self.optimizer.param_groups for part in group["params"]]
        state = {
            number: {name: part_of(value, parts[number]) for name, value in values.items()}
            for number, values in saved["state"].items()
        }
        self.optimizer.load_state_dict({**saved, "state": state})

    def _in_first(self, state: dict[str, Any]) -> dict[str, Any]:
        """A state with whole tensors; only the first process keeps them."""

        def gathered(value: Tensor) -> Tensor | None:
            found = whole_of(value)
            return found.cpu() if self._fabric.is_global_zero else None

        found = _pytree.tree_map_only(Tensor, gathered, state)
        return found if self._fabric.is_global_zero else {}


class _Saved(NamedTuple):
    """What a checkpoint holds the state of."""

    state_dict: Callable[[], dict[str, Any]]
    load_state_dict: Callable[[Mapping[str, Any]], None]


class Sharding(DDPStrategy):
    """Fabric's processes and communication are those of DDP; the model that it sets up is sharded already."""

    placement = Sharded

    def setup_module(self, module: nn.Module) -> Any:
        return module


def whole_of(value: Any) -> Any:
    """A tensor as a whole; all processes ask for it together."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def part_of(value: Any, like: Tensor) -> Any:
    """This process's part of a tensor that belongs to a parameter, such as its momentum."""
    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def _sharded_copy(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """A copy that has the model's buffers, and parts of its parameters."""
    shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    copied = deepcopy(model, shared)
    for block in _blocks(copied) if not _has_tied(copied) else ():
        if sum(parameter.numel() for parameter in block.parameters()) >= _UNIT:
            fully_shard(block, mesh=mesh)
    fully_shard(copied, mesh=mesh)
    return copied


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """What a model has a list or a sequence of: each is gathered shortly before it runs."""
    for child in module.children():
        if isinstance(module, _CONTAINERS) and not isinstance(child, (*_CONTAINERS, nn.ModuleDict)):
            yield child
        else:
            yield from _blocks(child)


def _has_tied(model: nn.Module) -> bool:
    """Whether a parameter is in several layers, which would have to be gathered together."""
    names = model.named_parameters(remove_duplicate=False)
    return sum(1 for _ in names) > sum(1 for _ in model.parameters())

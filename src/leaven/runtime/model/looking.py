"""A copy of a model, for trials that must not change the model itself.

To find its graph, to compare ways to run it, or to measure it, a model runs on random images. Layers may count how
often they run, draw from generators of their own, initialise themselves from their first batch, or build a part when it
is first needed. So a copy runs, and is thrown away.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from leaven.runtime.failures import Failure
from leaven.runtime.memory import available, is_out_of_memory
from leaven.runtime.model.masks import Mask
from leaven.runtime.model.outside import UserVariables, bytes_outside, outside_kept, spaces_of
from leaven.runtime.model.state import ModelState, has_known_version, is_unchanging
from leaven.runtime.seeding import generators_kept
from leaven.terminal.byte_sizes import show_bytes

_CONTAINERS = (OrderedDict, dict, set, list)


class NotCopied(Failure):
    """There is no copy of a model; the headline says why, in words that can follow "because"."""


@contextmanager
def looking_at(model: nn.Module, *, or_itself: bool = False) -> Iterator[nn.Module]:
    """A copy of a model, or where there can be none, the model `or_itself`. Afterwards, the user's variables and the
    generators of random numbers are restored."""
    try:
        copied = copy_to_look_at(model)
    except NotCopied:
        if not or_itself:
            raise
        copied = model
    with generators_kept(), outside_kept(model):
        yield copied


def copy_to_look_at(model: nn.Module) -> nn.Module:
    """A copy of a model that shares nothing with it, in the same modes; `NotCopied` where there can be none."""
    name = type(model).__name__
    state = ModelState(model)
    if reason := _reaches_outside(state):
        raise NotCopied(f"{name} can't be copied: {reason}")
    spaces, tensors = list(spaces_of(model, state.code)), [*model.parameters(), *model.buffers()]
    size = sum(map(_bytes, tensors)) + bytes_outside(spaces)
    device = tensors[0].device if tensors else torch.device("cpu")
    if size > available(device):
        raise NotCopied(f"a copy of {name} ({show_bytes(size)}) does not fit into memory")
    if variable := UserVariables(spaces=spaces).not_copied:
        raise NotCopied(f"{variable} can't be copied")
    try:
        with generators_kept():
            copied = deepcopy(model, _known_copies(model))
    except Exception as problem:  # whatever an object says that can't be copied
        if is_out_of_memory(problem):
            raise NotCopied(f"a copy of {name} ({show_bytes(size)}) does not fit into memory") from None
        reason = str(problem).strip().partition("\n")[0]
        raise NotCopied(f"{name} can't be copied: {reason or type(problem).__name__}") from None
    own = {id(part) for part in _parts(model)}
    if any(id(part) in own for part in _parts(copied)):
        raise NotCopied(f"{name} can't be copied: its copy shares layers or weights with it")
    if [weight.is_leaf for weight in copied.parameters()] != [weight.is_leaf for weight in model.parameters()]:
        raise NotCopied(f"{name} can't be copied: the weights of its copy can't be trained")  # of scripted layers
    if where := ModelState(copied).shared_with(state):
        raise NotCopied(f"{name} can't be copied: its copy shares {where} with it")
    return copied


def _known_copies(model: nn.Module) -> dict[int, Any]:
    """A memo for `deepcopy` with the copies on which it would spend most of its time: those of empty containers, and
    of tuples with nothing inside that can change."""
    memo: dict[int, Any] = {}
    for value in (value for module in model.modules() for value in vars(module).values()):
        if type(value) in _CONTAINERS and not value:
            memo[id(value)] = type(value)()
        elif type(value) is tuple and is_unchanging(value):
            memo[id(value)] = value
    return memo


def _reaches_outside(state: ModelState) -> str:
    """Why a copy would share state with the model; empty where it would not."""
    if torch_module._has_any_global_hook():
        return "hooks of all modules are registered"
    for where, function in state.functions:
        held = [name for name in function.__code__.co_freevars if name != "__class__"]
        if held and not has_known_version(function.__globals__.get("__name__", "")):
            return f"{where} has a function that closes over the variable {held[0]}"
    return ""


def _parts(model: nn.Module) -> Iterator[nn.Module | Tensor]:
    """The layers and weights of a model, but for masks, which copies share and no forward pass changes."""
    for module in model.modules():
        if not isinstance(module, Mask):
            yield module
            yield from (each for each in (*module._parameters.values(), *module._buffers.values()) if each is not None)


def _bytes(tensor: Tensor) -> int:
    try:
        return tensor.nbytes
    except Exception:  # of a layer whose shape its first batch decides
        return 0

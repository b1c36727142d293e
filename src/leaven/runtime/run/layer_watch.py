"""Layers as they train: their gradients, updates and activations, measured at some of the steps.

At such a step, torch's own hooks are registered with the layers and the optimizer, and removed when it is over. They
read, and change nothing. Numbers are read at the end of the step, all at once. Which steps those are, `Phase` asks here
and the program says; what becomes of a row is left to `training_record.py`.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.formats.layer_names import is_named
from leaven.formats.training_record import NOT_COMPUTED, WINDOW
from leaven.runtime.run.loop import Loop
from leaven.runtime.run.training_record import rounded

_CONSTANT = 1e-6  # of the largest output of a layer: a unit that varies less is dead
Row = dict[str, Any]


class LayerWatch:
    """Measures the layers of a model, each by its path. `runs_layers` says whether hooks see the outputs of layers:
    compiled ones show none."""

    def __init__(self, layers: Mapping[str, nn.Module], every: int, *, runs_layers: bool) -> None:
        self._layers = layers
        self._every = every
        self._runs_layers = runs_layers
        self._windows: dict[str, deque[Tensor]] = {path: deque(maxlen=WINDOW) for path in layers}
        self._step: _Step | None = None

    def is_due(self, loop: Loop) -> bool:
        """Whether the current batch completes a step that is measured: every so many, and the last of a shorter
        epoch."""
        if not loop.is_step:
            return False
        return loop.step % self._every == 0 or (loop.whole.steps < self._every and loop.ends_epoch)

    @contextmanager
    def measuring(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """While the hooks are there, which are gone afterwards."""
        step = self._step = _Step({path: trainable(layer) for path, layer in self._layers.items()})
        with ExitStack() as hooks:
            hooks.callback(optimizer.register_step_pre_hook(step.before).remove)
            hooks.callback(optimizer.register_step_post_hook(step.after).remove)
            for path, layer in self._layers.items() if self._runs_layers else ():
                hooks.callback(layer.register_forward_hook(step.hook(path, layer)).remove)
            yield

    def take_row(self) -> Row | None:
        """The row of the step that was measured last, once."""
        step, self._step = self._step, None
        if step is None:
            return None
        layers = {path: {**step.weights(path), "activation": self._activation(path, step)} for path in self._layers}
        return {"gradient": step.gradient, "layers": layers}

    def _activation(self, path: str, step: "_Step") -> Row | str:
        found = step.outputs.get(path)
        if found is None:
            return NOT_COMPUTED
        window, units = self._windows[path], found.units
        if units is None:
            return found.row()
        if window and window[0].shape != units.shape:  # channels were pruned
            window.clear()
        window.append(units)
        varies, is_broken = torch.stack(tuple(window)).any(dim=0)
        dead = int((~varies & ~is_broken).sum())
        return {**found.row(), "units": units.shape[1], "dead": rounded(dead / units.shape[1]), "window": len(window)}

    def state_dict(self) -> dict[str, list[Tensor]]:
        return {path: list(window) for path, window in self._windows.items()}

    def load_state_dict(self, state: Mapping[str, Sequence[Tensor]]) -> None:
        for path, window in self._windows.items():
            window.extend(state.get(path, ()))


def watched_layers(model: nn.Module, paths: Sequence[str]) -> dict[str, nn.Module]:
    """The layers that paths name, without those that the model lacks, as a program may be edited; `*` means all that
    have parameters of their own."""
    modules = dict(model.named_modules())
    found: dict[str, nn.Module] = {}
    for path in paths:
        if path == "*":
            found |= {name: one for name, one in modules.items() if name and dict(one.named_parameters(recurse=False))}
            continue
        found |= {name: one for name, one in modules.items() if name and is_named(name, path)}
    return found


def not_found(paths: Sequence[str], layers: Iterable[str]) -> list[str]:
    """The paths that name none of these layers."""
    return [path for path in paths if path != "*" and not any(is_named(name, path) for name in layers)]


def trainable(layer: nn.Module) -> list[nn.Parameter]:
    """The parameters of a layer that are trained."""
    return [each for each in layer.parameters() if each.requires_grad]


# -- one step


class _Step:
    """What is measured in one step, of layers with these parameters."""

    def __init__(self, parameters: Mapping[str, list[nn.Parameter]]) -> None:
        self.outputs: dict[str, _Outputs] = {}
        self._parameters = parameters
        every = {id(each): each for some in parameters.values() for each in some}
        self._tensors = list(every.values())
        self._places = {place: at for at, place in enumerate(every)}
        self._before: list[Tensor] = []
        self._norms: dict[str, list[float]] = {}  # of the gradient, the weights and the update of each parameter
        self._total: Tensor | None = None

    # -- hooks

    def hook(self, path: str, layer: nn.Module) -> Callable[..., None]:
        """The hook of a layer: a function, which a copy of the layer has in common with it, and that ignores copies."""

        def note(called: nn.Module, inputs: Any, output: Any) -> None:
            found = next((each for each in _pytree.tree_leaves(output) if isinstance(each, Tensor)), None)
            if called is layer and found is not None and found.is_floating_point() and found.numel():
                with torch.no_grad():
                    self.outputs.setdefault(path, _Outputs()).add(found.detach())

        return note

    @torch.no_grad()
    def before(self, optimizer: torch.optim.Optimizer, args: Any, options: Mapping[str, Any]) -> None:
        """Before the step: the weights, and gradients unless the optimizer computes them itself."""
        self._before = [each.detach().clone() for each in self._tensors]
        self._norms["weight"] = _norms(self._before)
        if not args and options.get("closure") is None:
            self._read_gradients(optimizer)

    @torch.no_grad()
    def after(self, optimizer: torch.optim.Optimizer, args: Any, options: Mapping[str, Any]) -> None:
        if self._total is None:
            self._read_gradients(optimizer)
        moved = [one.detach() - before for one, before in zip(self._tensors, self._before, strict=True)]
        self._norms["update"], self._before = _norms(moved), []

    def _read_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        self._norms["gradient"] = _norms([_gradient(each) for each in self._tensors])
        every = (_gradient(each) for group in optimizer.param_groups for each in group["params"])
        norms = torch._foreach_norm([each for each in every if each is not None])
        self._total = torch.stack([each.float() for each in norms]).norm() if norms else torch.zeros(())

    # -- what was found

    @property
    def gradient(self) -> float | None:
        """The norm of the gradient of all parameters, as the optimizer got it; None where it made no step."""
        return None if self._total is None else rounded(float(self._total))

    def weights(self, path: str) -> Row:
        """What is known of the weights of a layer; a frozen one has none that are trained."""
        own = self._parameters[path]
        row: Row = {"trainable": sum(each.numel() for each in own)}
        if own and self._norms.keys() >= {"gradient", "weight", "update"}:
            norms = {name: self._norm(name, own) for name in ("gradient", "weight", "update")}
            size, update = norms["weight"], norms.pop("update")
            row |= {name: rounded(norm) for name, norm in norms.items()}
            row["update"] = rounded(update / size) if size else None
        return row

    def _norm(self, name: str, parameters: Iterable[nn.Parameter]) -> float:
        return math.sqrt(sum(self._norms[name][self._places[id(each)]] ** 2 for each in parameters))


def _gradient(parameter: Tensor) -> Tensor | None:
    """The gradient of a parameter; None where there is none, or not one number for each weight."""
    found = parameter.grad
    return found if found is not None and found.layout is torch.strided else None


def _norms(tensors: Sequence[Tensor | None]) -> list[float]:
    """The norm of each tensor; 0 where there is none."""
    there = [at for at, each in enumerate(tensors) if each is not None and each.numel()]
    found = [0.0] * len(tensors)
    if there:
        norms = torch._foreach_norm([each for each in tensors if each is not None and each.numel()])
        values = torch.stack([each.float() for each in norms]).tolist()
        for at, value in zip(there, values, strict=True):
            found[at] = value
    return found


# -- outputs


@dataclass
class _Outputs:
    """The outputs of a layer in one step, in which it may be called several times."""

    count: int = 0
    mean: float = 0.0
    spread: float = 0.0  # the sum of squared distances from the mean
    nan: int = 0
    inf: int = 0
    units: Tensor | None = field(default=None, repr=False)  # for each: whether it varies, and whether it is not finite

    def add(self, output: Tensor) -> None:
        """Add the outputs of a call."""
        output = output.float()
        variance, mean = (float(each) for each in torch.var_mean(output, correction=0))
        if not math.isfinite(mean) or not math.isfinite(variance):
            self.nan += int(output.isnan().sum())
            self.inf += int(output.isinf().sum())
        count, apart = output.numel(), mean - self.mean
        whole = self.count + count
        self.spread += variance * count + apart**2 * self.count * count / whole
        self.mean, self.count = self.mean + apart * count / whole, whole
        found = varying_units(output)
        if found is not None:
            is_same = self.units is not None and self.units.shape == found.shape
            self.units = self.units | found if is_same and self.units is not None else found

    def row(self) -> Row:
        deviation = math.sqrt(self.spread / self.count) if self.spread >= 0 else math.nan
        return {"mean": rounded(self.mean), "deviation": rounded(deviation), "nan": self.nan, "inf": self.inf}


def varying_units(output: Tensor) -> Tensor | None:
    """Two rows for the units of a layer: whether the output of each varies over samples and places, and whether any
    value of it is NaN or infinite. None where there is one value for each unit."""
    found = unit_range(output)
    at = unit_dimension(output)
    return varying(found) if found is not None and at is not None and output.numel() >= 2 * output.shape[at] else None


def unit_range(output: Tensor) -> Tensor | None:
    """Two rows: the least and the largest output of each unit. None where units can't be told apart."""
    at = unit_dimension(output)
    if at is None:
        return None
    others = tuple(axis for axis in range(output.ndim) if axis != at)
    return torch.stack([output.amin(others), output.amax(others)])


def varying(found: Tensor) -> Tensor:
    """For a range of each unit, whether it varies, and whether it is not finite."""
    least, most = found
    is_finite = least.isfinite() & most.isfinite()
    largest = torch.maximum(least.abs(), most.abs())[is_finite]
    varies = (most - least > _CONSTANT * largest.max()) if largest.numel() else torch.zeros_like(is_finite)
    return torch.stack([varies & is_finite, ~is_finite]).cpu()


def unit_dimension(output: Tensor) -> int | None:
    """The dimension of the units: of images the second, unless their height and width are first; else the last."""
    if output.ndim < 2:
        return None
    if output.ndim < 4:
        return output.ndim - 1
    *_, first, second, last = output.shape
    return output.ndim - 1 if output.ndim == 4 and first == second and last != second else 1

"""The layers after the stored outputs of several trials, computed for all of them at once.

The parameters of the trials are stacked, and `torch.vmap` runs the layers once for all. A trial gets its slice of the
outputs, computes its loss, and gives back the gradient of that slice; the gradients of the parameters are then computed
for all trials at once. Sums may be in another order than in a run of its own: results differ in the last digits.
Whether they are the same otherwise is tried when trials first meet: where they are not, or where `torch.vmap` can't run
the layers, each trial runs its own, and a line says why.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from leaven.runtime.run import progress
from leaven.runtime.stored.batch import own_copies
from leaven.runtime.trials.group import Trial

MOST_BYTES = 64 * 1024**2  # of stacked parameters: larger layers gain nothing
FEW_PARAMETERS = 1_000_000  # of all trials: so few need only one thread
TOLERANCE = 1e-4  # of the largest output or gradient
_PLAIN = (bool, int, float, str, tuple, type(None))


class Layers:
    """The weights of a trial's layers after the stored outputs, and what tells whether others compute the same."""

    def __init__(self, module: fx.GraphModule) -> None:
        named = dict(module.named_parameters())
        self.trained = {name: each for name, each in named.items() if each.requires_grad}
        self.tensors: dict[str, Tensor] = {**named, **dict(module.named_buffers())}
        shapes = [(name, each.shape, each.dtype, each.device) for name, each in self.tensors.items()]
        self.kind = (module.code, tuple(shapes), tuple(self.trained), tuple(_settings(module)))


_layers: WeakKeyDictionary[fx.GraphModule, Layers] = WeakKeyDictionary()  # each is looked at once


def _settings(module: nn.Module) -> list[Any]:
    """The plain attributes of all modules: probabilities, scales, whether they are in training.

    The graph itself has a class of its own, and says what it is in its code.
    """
    return [
        (name, type(inner), tuple((key, value) for key, value in vars(inner).items() if isinstance(value, _PLAIN)))
        for name, inner in module.named_modules()
        if name
    ]


@dataclass(eq=False)
class Forward:
    """A trial waits for the outputs of its layers. The inputs are those of all trials: layers get a copy to change."""

    module: fx.GraphModule
    layers: Layers
    inputs: tuple[Any, ...]
    trains: bool

    @property
    def kind(self) -> tuple[Any, ...]:
        shapes = tuple((each.shape, each.dtype) if isinstance(each, Tensor) else each for each in self.inputs)
        return self.layers.kind, self.trains, shapes

    def run(self) -> Any:
        """The outputs of this trial alone."""
        return self.module(*own_copies(self.inputs))


@dataclass(eq=False)
class Share:
    """The slice of a trial: its number among those that were computed together, and the gradient of its outputs, with
    which the trial waits for those of its parameters."""

    number: int
    together: "Together"
    request: Forward
    is_collected: bool = False  # whether its gradient is left here, or goes on to the parameters at once
    gradient: Tensor | None = None


@dataclass(eq=False)
class Together:
    """Outputs that were computed together, and what computes their gradients."""

    outputs: Tensor
    parameters: int  # of all trials
    pull_back: Callable[[Tensor], tuple[dict[str, Tensor]]] | None = None


def forward(trial: Trial, module: fx.GraphModule, inputs: tuple[Any, ...]) -> Any:
    """The outputs of a trial's layers."""
    trains = torch.is_grad_enabled()
    device = next((each.device.type for each in inputs if isinstance(each, Tensor)), "cpu")
    if trial.is_alone or torch.is_autocast_enabled(device):
        return module(*own_copies(inputs))
    if module not in _layers:
        _layers[module] = Layers(module)
    request = Forward(module, _layers[module], inputs, trains)
    share: Share | None = trial.meet(request)
    if share is None:
        return request.run()
    outputs = share.together.outputs[share.number]
    if not trains:
        return outputs
    trial.shares.append(share)
    return _Slice.apply(share, outputs, *request.layers.trained.values())


def backward(trial: Trial, run: Callable[[], None]) -> None:
    """Compute the gradients of a loss: those of slices by itself, those of parameters with the other trials."""
    shares, trial.shares = trial.shares, []
    for share in shares:
        share.is_collected = True
    run()
    for share in shares:
        if share.gradient is not None:
            gradients: dict[str, Tensor] = trial.meet(share)
            for name, parameter in share.request.layers.trained.items():
                found = gradients[name]
                parameter.grad = found if parameter.grad is None else parameter.grad + found


class _Slice(torch.autograd.Function):
    """Outputs of a trial whose gradient is kept for all trials, where `backward` asks for it."""

    @staticmethod
    def forward(ctx: Any, share: Share, outputs: Tensor, *parameters: Tensor) -> Tensor:
        ctx.share = share
        return outputs.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        share, (gradient,) = ctx.share, gradients
        layers = share.request.layers
        if share.is_collected:
            share.gradient = gradient if share.gradient is None else share.gradient + gradient
            return None, None, *(None for _ in layers.trained)
        create_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            outputs = share.request.run()
            own = torch.autograd.grad(
                outputs, list(layers.trained.values()), gradient, allow_unused=True, create_graph=create_graph
            )
        return None, None, *own


class Fusing:
    """Computes what trials wait for."""

    def __init__(self) -> None:
        self._is_same: dict[Any, bool] = {}  # by the kind of a request

    def serve(self, waiting: Sequence[Trial]) -> None:
        """Give each trial its result; None where it has to compute it itself."""
        alike: dict[Any, list[Trial]] = {}
        for trial in waiting:
            request = trial.request
            key = id(request.together) if isinstance(request, Share) else request.kind
            alike.setdefault((type(request), key), []).append(trial)
        for trials in alike.values():
            if isinstance(trials[0].request, Share):
                _serve_gradients(trials)
            else:
                self._serve_outputs(trials)

    def _serve_outputs(self, trials: Sequence[Trial]) -> None:
        requests: list[Forward] = [trial.request for trial in trials]
        kind = requests[0].kind
        if len(trials) == 1 or not self._is_same.get(kind, True):
            return
        try:
            together = _compute(requests)
            if kind not in self._is_same:
                _compare(together, requests)
        except Exception as problem:
            if self._is_same.get(kind):
                raise
            self._is_same[kind] = False
            reason = str(problem).partition("\n")[0].partition(". ")[0]
            progress.say(f"every trial runs its own layers, because {reason}")
            return
        self._is_same[kind] = True
        if together.parameters <= FEW_PARAMETERS:
            torch.set_num_threads(1)  # others would only wait, and on a busy machine take turns with this one
        for number, trial in enumerate(trials):
            trial.result = Share(number, together, requests[number])


def _compute(requests: Sequence[Forward]) -> Together:
    """The outputs of several trials."""
    first = requests[0]
    layers = first.layers
    if any(has_hooks(each) for one in requests for each in one.layers.trained.values()):
        raise ValueError("hooks change their gradients")
    if sum(each.nbytes for each in layers.tensors.values()) * len(requests) > MOST_BYTES:
        raise ValueError("they are large")
    stacked = {name: torch.stack([one.layers.tensors[name].detach() for one in requests]) for name in layers.tensors}
    trained = {name: stacked.pop(name) for name in layers.trained}
    inputs, dims = [], []
    for at, (given, own) in enumerate(zip(first.inputs, own_copies(first.inputs), strict=True)):
        is_shared = not isinstance(given, Tensor) or all(one.inputs[at] is given for one in requests)
        inputs.append(own if is_shared else torch.stack([one.inputs[at] for one in requests]))
        dims.append(None if is_shared else 0)

    def run(trained: dict[str, Tensor], others: dict[str, Tensor], *given: Any) -> Any:
        return torch.func.functional_call(first.module, {**trained, **others}, given)

    together = torch.vmap(run, in_dims=(0, 0, *dims))
    pull_back: Callable[[Tensor], tuple[dict[str, Tensor]]] | None = None
    with torch.no_grad():
        if first.trains and trained:
            vjp: Any = torch.func.vjp(lambda trained: together(trained, stacked, *inputs), trained)
            outputs, pull_back = vjp
        else:
            outputs = together(trained, stacked, *inputs)
    if any(each._version for each in stacked.values()):
        raise ValueError("they update their statistics")
    count = sum(each.numel() for each in (*trained.values(), *stacked.values()))
    if not isinstance(outputs, Tensor):
        raise ValueError(f"the model returns a {type(outputs).__name__}")
    return Together(outputs, count, pull_back)


def has_hooks(parameter: Tensor) -> bool:
    """Whether functions are called with the gradient of a parameter, or after it: they are not, where gradients are
    computed together."""
    return bool(parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None))


def _serve_gradients(trials: Sequence[Trial]) -> None:
    """The gradients of several trials, from those of their outputs."""
    shares: list[Share] = [trial.request for trial in trials]
    together = shares[0].together
    assert together.pull_back is not None
    gradients = torch.zeros_like(together.outputs)
    for share in shares:
        assert share.gradient is not None
        gradients[share.number] = share.gradient
    (found,) = together.pull_back(gradients)
    for trial, share in zip(trials, shares, strict=True):
        trial.result = {name: each[share.number] for name, each in found.items()}


def _compare(together: Together, requests: Sequence[Forward]) -> None:
    """Raise where what was computed together is not what each trial computes itself."""
    towards = torch.ones_like(together.outputs)
    (found,) = together.pull_back(towards) if together.pull_back is not None else ({},)
    for number, request in enumerate(requests):
        with torch.enable_grad():
            outputs = request.run()
            trained = list(request.layers.trained.values())
            own = torch.autograd.grad(outputs, trained, torch.ones_like(outputs), allow_unused=True) if found else ()
        pairs = [(together.outputs[number], outputs)]
        pairs += [(each[number], one) for each, one in zip(found.values(), own, strict=True) if one is not None]
        if not all(_is_near(*pair) for pair in pairs):
            raise ValueError("together they have other outputs than one by one")


def _is_near(some: Tensor, other: Tensor) -> bool:
    scale = float(other.detach().abs().max()) if other.numel() else 0.0
    return bool(((some - other.detach()).abs() <= TOLERANCE * scale + 1e-7).all())

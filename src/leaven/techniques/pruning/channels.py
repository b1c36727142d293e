"""Whole channels taken out of a model, with all that reads them, along the dependencies that Torch-Pruning finds.

Layers that it can't shrink without breaking the model (a shortcut that pads channels, the heads of an attention) are
found by trying, and keep their channels. All this is found on copies: the model itself never runs, and only loses the
channels.
"""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leaven.runtime.failures import Failure
from leaven.runtime.model.freezing import parameters_under
from leaven.runtime.model.looking import looking_at
from leaven.runtime.model.masks import has_masks
from leaven.runtime.seeding import generator
from leaven.techniques.pruning.cost import flops_of

if TYPE_CHECKING:
    from leaven.runtime.data.batches import Data

_LAYERS = (nn.modules.conv._ConvNd, nn.Linear)
_BATCHES = 8  # from which the gradients are taken
_TRIES = 12  # to come near a share of the cost
_MOST_NAMED = 8
_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # by the kind of the data's target
    "class": F.cross_entropy,
    "number": F.mse_loss,
    "binary": F.binary_cross_entropy_with_logits,
}
Scores = Mapping[str, Tensor]  # how important each channel is, by the layer that makes it


@dataclass(frozen=True)
class Structured:
    """The least important channels of each layer, until a share `of` the channels, FLOPs or parameters is out."""

    by: Literal["l1", "l2", "taylor", "random"] = "l1"
    of: Literal["channels", "flops", "parameters"] = "channels"

    def cut(
        self, model: nn.Module, example: Tensor, share: float, on: Sequence[str] | None, data: "Data", seed: int
    ) -> str:
        """Take so large a share out of the chosen layers; what came of it, in a sentence."""
        if has_masks(model):
            raise Failure("structured pruning can't follow unstructured pruning", "change the order of the two")
        weights, layers = parameters_under(model, [""] if on is None else on), model.named_modules()
        chosen = {path for path, layer in layers if _owns(layer) and layer._parameters["weight"] in weights}
        with looking_at(model) as copied, torch.enable_grad():
            copied.eval().requires_grad_(True)  # by gradients, dependencies are found
            every = self._scores(deepcopy(copied), example, chosen, data, seed)
            scores = _that_can_go(copied, example, every, share)
            ratio, reached = self._ratio(copied, example, scores, share)
            cuts = _cuts(copied, example, scores, ratio)
        _take_out(model, cuts)
        return _summary(self.of, reached, scores, [path for path in every if path not in scores])

    def _scores(
        self, model: nn.Module, example: Tensor, chosen: set[str], data: "Data", seed: int
    ) -> dict[str, Tensor]:
        """The importance of tied channels, by the layer that makes them first."""
        if self.by == "taylor":  # what the loss on a few batches says about each weight
            device = next(model.parameters()).device
            for images, targets in islice(data.train.batches(0), _BATCHES):
                _LOSSES[data.target.kind](model(images.to(device)), targets.to(device)).backward()
        rng = generator(seed, len(list(model.parameters())))
        paths = {layer: path for path, layer in model.named_modules()}
        kept = [layer for layer, path in paths.items() if _owns(layer) and path not in chosen]
        scores: dict[str, Tensor] = {}
        graph = _graph(model, example)
        for group in graph.get_all_groups(ignored_layers=kept, root_module_types=list(_LAYERS)):
            made = [item.dep.target for item in group.items if graph.is_out_channel_pruning_fn(item.dep.handler)]
            if not all(node.outputs for node in made):
                continue  # these channels are the model's outputs
            count = len(group[0].idxs)
            importance = torch.rand(count, generator=rng) if self.by == "random" else self._measured(group, model)
            if importance is not None and len(importance) == count > 1:
                scores[paths[group[0].dep.target.module]] = _by_part(importance.detach().cpu(), group)
        if not scores:
            raise Failure(
                "none of the chosen layers can lose channels",
                "these channels are tied by a residual sum: select all layers involved, or omit `on`",
            )
        return scores

    def _measured(self, group: Any, model: nn.Module) -> Tensor | None:
        importance = _library().importance
        ways = {"l1": (importance.GroupMagnitudeImportance, 1), "l2": (importance.GroupMagnitudeImportance, 2)}
        make, power = ways.get(self.by, (importance.GroupTaylorImportance, None))
        try:
            return make(p=power)(group) if power else make()(group)  # type: ignore[no-any-return]
        except Exception as problem:
            raise _lost(model, problem) from problem

    def _ratio(self, model: nn.Module, example: Tensor, scores: Scores, share: float) -> tuple[float, float]:
        """The share of channels that must go, and the share of the cost that goes with them."""
        if self.of == "channels":
            return share, share
        whole = self._cost(deepcopy(model), example)

        def saved(ratio: float) -> float:
            return 1 - self._cost(_tried(model, example, scores, ratio), example) / whole

        low, high = 0.0, 1.0
        most = saved(high)
        if most < share:
            raise Failure(
                f"no more than {100 * most:.0f} % of the {_COSTS[self.of]} can be pruned in the chosen layers",
                "ask for less, or choose more layers",
            )
        for _ in range(_TRIES):
            middle = (low + high) / 2
            low, high = (low, middle) if saved(middle) >= share else (middle, high)
        return high, saved(high)

    def _cost(self, model: nn.Module, example: Tensor) -> int:
        if self.of == "flops":
            return flops_of(model, example)
        return sum(parameter.numel() for parameter in model.parameters())


_COSTS = {"channels": "channels", "flops": "FLOPs", "parameters": "parameters"}


def _summary(of: str, reached: float, scores: Scores, left: Sequence[str]) -> str:
    layers = f"{len(scores)} groups of layers" if len(scores) > 1 else "one group of layers"
    summary = f"pruned: {100 * reached:.1f} % of the {_COSTS[of]}, in {layers} that share their channels"
    if not left:
        return summary
    return (
        f"{summary}\n  the net can't do with fewer channels of {_listed(left)} and of what is added to them: they stay"
    )


def _listed(paths: Sequence[str]) -> str:
    """A few paths, with a star for the numbers in which they differ."""
    alike = list(dict.fromkeys(re.sub(r"\d+", "*", path) if len(paths) > 2 else path for path in paths))
    return ", ".join(alike[:_MOST_NAMED]) + (", …" if len(alike) > _MOST_NAMED else "")


# -- which channels


def channels_of(model: nn.Module) -> dict[str, int]:
    """How many channels each layer makes, by its name."""
    return {path: len(layer.weight) for path, layer in model.named_modules() if _owns(layer)}


def _owns(layer: nn.Module) -> bool:
    """Whether a layer makes channels of its own; one that works on each by itself has those of the layer before."""
    return isinstance(layer, _LAYERS) and not _is_depthwise(layer)


def _is_depthwise(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.conv._ConvNd) and layer.groups == layer.out_channels > 1


def _by_part(scores: Tensor, group: Any) -> Tensor:
    """Scores in as many rows as the channels have parts that must stay alike, for grouped convolutions and norms."""
    parts = 1
    for item in group.items:
        layer = item.dep.target.module
        if isinstance(layer, nn.modules.conv._ConvNd) and not _is_depthwise(layer):
            parts = max(parts, layer.groups)
        elif isinstance(layer, nn.GroupNorm):
            parts = max(parts, layer.num_groups)
    return scores.view(parts, -1) if len(scores) % parts == 0 else scores.view(1, -1)


def _out(scores: Tensor, ratio: float) -> list[int]:
    """The places of the least important channels; one at least stays."""
    parts, width = scores.shape
    count = min(width - 1, round(width * ratio))
    least = scores.mean(dim=0).argsort(stable=True)[:count].tolist()
    return sorted(place + part * width for part in range(parts) for place in least)


# -- taking them out


@dataclass(frozen=True)
class _Cut:
    """Channels to take out of one layer or parameter of a model, and the function of Torch-Pruning that does it."""

    path: str
    prune: Callable[[Any, list[int]], Any]
    dim: int
    places: list[int]


def _cuts(model: nn.Module, example: Tensor, scores: Scores, ratio: float) -> list[_Cut]:
    """The cuts that take these channels out, in this order; a copy of the model loses them."""
    copied = deepcopy(model)
    graph = _graph(copied, example)
    cuts: list[_Cut] = []
    for path, found in scores.items():
        if places := _out(found, ratio):
            group = _group(graph, copied.get_submodule(path), places)
            paths = {id(part): name for name, part in (*copied.named_modules(), *copied.named_parameters())}
            parts = [(item, item.dep.target) for item in group.items if id(item.dep.target.module) in paths]
            cuts += [_Cut(paths[id(to.module)], one.dep.handler, to.pruning_dim, list(one.idxs)) for one, to in parts]
            group.prune()
    return cuts


def _take_out(model: nn.Module, cuts: Sequence[_Cut]) -> None:
    """Take channels out of a model, whose parameters stay as trainable as they were."""
    trainable = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    for cut in cuts:
        parent, _, name = cut.path.rpartition(".")
        part = getattr(model.get_submodule(parent), name)
        pruner: Any = getattr(cut.prune, "__self__", None)
        pruner.pruning_dim = cut.dim
        smaller = cut.prune(part, cut.places)
        if isinstance(part, nn.Parameter):
            setattr(model.get_submodule(parent), name, smaller)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trainable[name])


def _group(graph: Any, layer: nn.Module, places: Sequence[int]) -> Any:
    """Some channels of a layer, with all that makes and reads them."""
    return graph.get_pruning_group(layer, graph.get_pruner_of_module(layer).prune_out_channels, places)


def _tried(model: nn.Module, example: Tensor, scores: Scores, ratio: float) -> nn.Module:
    """A copy without those channels, which has not run yet."""
    copied = deepcopy(model)
    _take_out(copied, _cuts(model, example, scores, ratio))
    return copied


def _that_can_go(model: nn.Module, example: Tensor, scores: Scores, share: float) -> Scores:
    """The channels without which the model still runs; each group is tried by itself where together they break it."""
    if _answers_without(model, example, scores, share):
        return scores
    good = {path: one for path, one in scores.items() if _answers_without(model, example, {path: one}, share)}
    if not good or not _answers_without(model, example, good, share):
        broken = [path for path in scores if path not in good] or list(scores)
        raise Failure(
            f"no channels of {type(model).__name__} can be taken out: it breaks without those of {_listed(broken)}",
            "choose other layers with `on=`, or prune individual weights: `prune unstructured(), amount=…`",
        )
    return good


def _answers_without(model: nn.Module, example: Tensor, scores: Scores, share: float) -> bool:
    """Whether the model still runs, and its outputs are those of the whole model in which nobody reads the channels."""
    try:
        smaller = _tried(model, example, scores, share)
        if _answer(smaller, example).shape != _answer(deepcopy(model), example).shape:
            return False
        silenced, plain = _silenced(model, example, scores, share)
        if plain.keys() != scores.keys():
            smaller = _tried(model, example, plain, share)
        # but for what another order of sums would change
        one, other = _answer(smaller, example), _answer(silenced, example)
        return bool((one - other).abs().max() <= 1e-3 * other.abs().max().clamp_min(1e-6))
    except Exception:  # a net that does not fit together any more can raise anything
        return False


@torch.no_grad()
def _answer(model: nn.Module, example: Tensor) -> Tensor:
    outputs: Tensor = model(example)
    return outputs


def _silenced(model: nn.Module, example: Tensor, scores: Scores, ratio: float) -> tuple[nn.Module, Scores]:
    """A copy in which nobody reads the channels that would go, and the scores for which that holds: the other channels
    pass through norms over channels or parameters of the model's own, and without them the outputs differ."""
    copied, traced = deepcopy(model), deepcopy(model)
    graph = _graph(traced, example)
    paths = {layer: path for path, layer in traced.named_modules()}
    plain: dict[str, Tensor] = {}
    for path, found in scores.items():
        group = _group(graph, traced.get_submodule(path), _out(found, ratio))
        if any(_is_intricate(item.dep.target.module) for item in group.items):
            continue
        plain[path] = found
        for item in group.items:
            reader = item.dep.target.module
            if not graph.is_out_channel_pruning_fn(item.dep.handler) and isinstance(reader, _LAYERS):
                same: Any = copied.get_submodule(paths[reader])
                same.weight.data[:, item.idxs] = 0
    return copied, plain


def _is_intricate(part: Any) -> bool:
    if isinstance(part, nn.modules.conv._ConvNd):
        return part.transposed or (part.groups > 1 and not _is_depthwise(part))
    return isinstance(part, nn.Parameter | nn.LayerNorm | nn.GroupNorm | nn.MultiheadAttention)


def _graph(model: nn.Module, example: Tensor) -> Any:
    """Which layers depend on which."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _library().DependencyGraph().build_dependency(model, example_inputs=example, verbose=False)
        except Exception as problem:
            raise _lost(model, problem) from problem


def _lost(model: nn.Module, problem: Exception) -> Failure:
    return Failure(
        f"the tied channels of {type(model).__name__} can't be found: {type(problem).__name__}: {problem}",
        "prune individual weights instead: `prune unstructured(), amount=…`",
    )


def _library() -> Any:
    try:
        import torch_pruning
    except ImportError:
        raise Failure("torch_pruning is not installed", "pip install torch-pruning") from None
    return torch_pruning

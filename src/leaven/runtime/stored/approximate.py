"""Faster ways to compute the outputs of frozen layers, whose results are slightly different: only with `exact=false`.

Batch norms become part of the convolution before them, images have their channels last in memory, or the layers run in
bfloat16. Which of these is the fastest is measured on a real batch, and remembered in the store, so that later runs
find the outputs of earlier ones. What differs by more than the tolerance is not used.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from leaven.cache.store import key_of
from leaven.runtime.data.model_inputs import ModelInputs, first_tensor
from leaven.runtime.run.timing import seconds_of
from leaven.runtime.stored.agreement import agreed
from leaven.runtime.stored.computing import Computation, Computing, group_of
from leaven.terminal.duration_text import duration_text

if TYPE_CHECKING:
    from leaven.runtime.data.batches import IndexedSplit
    from leaven.runtime.run.run import Run

TOLERANCE = 0.02  # of the outputs for an image, by their norm
PLAIN = "as they are"
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True, eq=False)
class Way:
    """One way to run a part of a model."""

    part: fx.GraphModule
    has_channels_last: bool = False
    is_bf16: bool = False

    def __call__(self, images: ModelInputs) -> tuple[Any, ...]:
        first = first_tensor(images)
        if self.has_channels_last:
            images = first.contiguous(memory_format=torch.channels_last)
        precision: AbstractContextManager[object] = nullcontext()
        if self.is_bf16:
            precision = torch.autocast(first.device.type, torch.bfloat16)
        with precision:
            outputs = self.part(images)
        if not self.is_bf16:
            return tuple(outputs)
        dtype = first.dtype if first.is_floating_point() else torch.float32
        return tuple(each.to(dtype) if getattr(each, "dtype", None) == torch.bfloat16 else each for each in outputs)


def ways(part: fx.GraphModule, images: ModelInputs, *, with_bf16: bool = True) -> dict[str, Way]:
    """The ways to run a part, by what is different in words that follow "run"."""
    folded = fold_norms(part)
    same = PLAIN if folded is part else "with folded batch norms"
    joined = "with" if folded is part else f"{same},"
    found = {PLAIN: Way(part), same: Way(folded)}
    if isinstance(images, Tensor) and images.ndim == 4:
        last = deepcopy(folded).to(memory_format=torch.channels_last)
        found[f"{joined} channels last"] = Way(last, has_channels_last=True)
        found[f"{joined} channels last, bf16"] = Way(last, has_channels_last=True, is_bf16=True)
    found[f"{joined} bf16"] = Way(folded, is_bf16=True)
    return {name: way for name, way in found.items() if with_bf16 or not way.is_bf16}


# -- batch norms


def fold_norms(part: fx.GraphModule) -> fx.GraphModule:
    """The part with batch norms folded into the convolutions before them; itself where there are none."""
    graph = fx.Graph()
    graph.output(graph.graph_copy(part.graph, {}))
    folded = fx.GraphModule(part, graph)
    count = 0
    for before, after in list(_pairs(folded)):
        convolution, norm = folded.get_submodule(str(before.target)), folded.get_submodule(str(after.target))
        count += 1
        folded.add_submodule(f"folded_{count}", _folded(convolution, norm))
        before.target = f"folded_{count}"
        with graph.inserting_after(before):
            rest = before
            if type(norm) not in _NORMS:
                more = nn.Sequential(norm.get_submodule("drop"), norm.get_submodule("act"))
                folded.add_submodule(f"after_{count}", more)
                rest = graph.call_module(f"after_{count}", (before,))
        after.replace_all_uses_with(rest)
        graph.erase_node(after)
    folded.delete_all_unused_submodules()
    folded.recompile()
    return folded if count else part


def _pairs(part: fx.GraphModule) -> Iterator[tuple[fx.Node, fx.Node]]:
    """A convolution and the batch norm that alone uses its outputs. Neither is used a second time."""
    used = [node.target for node in part.graph.nodes if node.op == "call_module"]
    for node in part.graph.nodes:
        before = node.args[0] if node.op == "call_module" and len(node.args) == 1 and not node.kwargs else None
        if not isinstance(before, fx.Node) or before.op != "call_module" or len(before.users) > 1:
            continue
        if used.count(node.target) > 1 or used.count(before.target) > 1:
            continue
        convolution, norm = part.get_submodule(str(before.target)), part.get_submodule(str(node.target))
        if isinstance(convolution, _CONVOLUTIONS) and _is_foldable(norm):
            yield before, node


def _is_foldable(norm: nn.Module) -> bool:
    is_known = type(norm) in _NORMS or hasattr(norm, "act")  # timm's have an activation, too
    return isinstance(norm, _NORMS) and is_known and not norm.training and norm.running_mean is not None


def _folded(convolution: nn.Module, norm: nn.Module) -> nn.Module:
    assert isinstance(convolution, _CONVOLUTIONS)
    assert isinstance(norm, _NORMS)
    folded = deepcopy(convolution)
    folded.weight, folded.bias = fuse_conv_bn_weights(
        convolution.weight,
        convolution.bias,
        norm.running_mean,  # type: ignore[arg-type]
        norm.running_var,  # type: ignore[arg-type]
        norm.eps,
        norm.weight,
        norm.bias,
    )
    return folded


# -- the choice


def fastest(computation: Computation, computing: Computing, split: "IndexedSplit") -> tuple[Computation, str]:
    """The computation in the fastest way that is within the tolerance, and what was measured, in words."""
    part, fabric = computation.run, computing.fabric
    assert isinstance(part, fx.GraphModule)
    images = fabric.to_device(next(split.read(split.keys(0, fabric.global_rank, fabric.world_size)[:1]))[0])
    known = key_of(
        **computing.facts(computation, split)[1], what="the fastest way", shape=list(first_tensor(images).shape)
    )
    found = ways(part, images, with_bf16=fabric.strategy.precision.precision == "32-true")

    def choose() -> tuple[str, str]:
        if not fabric.is_global_zero:
            return PLAIN, ""
        if not computation.keeps:
            return _of_this_run(computing.run, computation.title, lambda: _measured(found, images, computing))
        entry = computing.store.open(known)
        if entry is None:
            chosen, told = _measured(found, images, computing)
            about = {"group": group_of(computation, split), "way": chosen, "told": told}
            entry = computing.store.write(known, about, ())
        return entry.about["way"], entry.about["told"]

    chosen, told = fabric.broadcast(agreed(computing.run, choose))
    title = f"{computation.title}, approximately"
    facts = {**computation.facts, "way": chosen}
    return replace(computation, title=title, run=found[chosen], facts=facts), told


def _of_this_run(run: "Run", title: str, measure: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """What was measured, or what the run has measured before it was interrupted."""
    known = run.folder.lock.get("ways", {})
    if title not in known:
        known = {**known, title: list(measure())}
        run.folder.note(ways=known)
    chosen, told = known[title]
    return chosen, told


def _measured(found: dict[str, Way], images: ModelInputs, computing: Computing) -> tuple[str, str]:
    exact = _tensors(found[PLAIN], images, computing)
    differences: dict[str, float] = {}
    for name, way in found.items():
        try:
            differences[name] = _difference(exact, _tensors(way, images, computing))
        except (RuntimeError, NotImplementedError):  # an operation that a device does not have in bfloat16
            continue
    close = [name for name, difference in differences.items() if difference <= TOLERANCE]
    steps = {name: partial(_tensors, found[name], images, computing) for name in close}
    times = seconds_of(steps, first_tensor(images).device, computing.run.stop_here)
    best = min(times, key=times.__getitem__)
    if best == PLAIN:
        return PLAIN, f"{PLAIN}, which is the fastest here ({duration_text(times[PLAIN])} per batch)"
    taken = f"{duration_text(times[best])}, {duration_text(times[PLAIN])} per batch"
    faster = f"{times[PLAIN] / times[best]:.1f} times as fast ({taken})"
    return best, f"{best}: {faster}; their outputs differ by {differences[best]:.2g} of their norm"


def _tensors(way: Way, images: ModelInputs, computing: Computing) -> list[Tensor]:
    with torch.no_grad(), computing.fabric.autocast():
        return [each for each in way(images) if isinstance(each, Tensor)]


def _difference(exact: list[Tensor], others: list[Tensor]) -> float:
    """How far outputs are from the exact ones: of any image, the largest share of their norm."""
    found = 0.0
    for one, other in zip(exact, others, strict=True):
        one, other = one.flatten(1).double(), other.flatten(1).double()
        found = max(found, float(((one - other).norm(dim=1) / one.norm(dim=1).clamp_min(1e-12)).max()))
    return found

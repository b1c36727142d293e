"""Statistics of a model's layers: weights, activations for some inputs, time and memory, gradients from the record.

For a run, a bundle or a published model; of a recipe that was never run, only what needs no weights. Activations are
those in evaluation, of validation samples of the run or of given data, each in its own pass, so that the model's
own input size is used. Time and memory are measured on this machine.
"""

import os
import statistics as numbers
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from leaven.bundle import Bundle
from leaven.formats.finite_json import as_json
from leaven.formats.image_folder import image_files
from leaven.formats.training_record import NOT_COMPUTED, without_nan
from leaven.lab.comparison.comparing import recipe_layers
from leaven.lab.comparison.cost import flops_by_layer, probe
from leaven.lab.forward import batch_of, outputs
from leaven.lab.recorded_training import Measurement, training
from leaven.lab.subject import Subject
from leaven.pictures.layers import draw_layers
from leaven.runtime.failures import Failure
from leaven.runtime.run.layer_watch import unit_range, varying
from leaven.tasks.reports import aligned

WINDOW = 32  # inputs: a unit whose output is constant for all of them is dead
_PASSES = 5
Word = str | os.PathLike[str] | Subject


@dataclass(frozen=True, kw_only=True)
class LayerStatistics:
    """A layer; None where a number is not known, and `not computed` where the layer did not run."""

    path: str
    type: str
    parameters: int
    trainable: int | None = None
    weight: float | None = None  # the norm of all weights
    zeros: float | None = None  # the share of weights that are zero
    bad_weights: int = 0  # NaN or infinite
    flops: int | None = None
    milliseconds: float | None = None  # for one input, with all layers inside
    megabytes: float | None = None  # of the outputs for one input
    activation: Mapping[str, float] | str | None = None  # mean, deviation, units, dead, nan, inf
    gradient: float | None = None  # at the last measured step of training
    update: float | None = None

    @property
    def depth(self) -> int:
        return self.path.count(".") + 1

    def of_activation(self, name: str) -> float | None:
        return self.activation.get(name) if isinstance(self.activation, Mapping) else None

    @as_json
    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = without_nan(vars(self))
        return found


@dataclass(frozen=True, repr=False)
class Statistics:
    """The layers of a model in their order, with the number of inputs that activations are of."""

    name: str
    layers: tuple[LayerStatistics, ...]
    inputs: int = 0
    shape: tuple[int, ...] = ()  # of an input
    notes: tuple[str, ...] = ()

    @as_json
    def to_json(self) -> dict[str, Any]:
        layers = [layer.to_json() for layer in self.layers]
        told = {"inputs": self.inputs, "shape": list(self.shape), "notes": list(self.notes)}
        return {"name": self.name, **told, "layers": layers}

    def picture(self) -> bytes:
        """Time, dead units and the norm of the weights by layer, as a PNG."""
        columns = {
            "milliseconds": [layer.milliseconds for layer in self.layers],
            "dead units": [layer.of_activation("dead") for layer in self.layers],
            "norm of the weights": [layer.weight for layer in self.layers],
        }
        return draw_layers([layer.path for layer in self.layers], columns)

    def __str__(self) -> str:
        """For a terminal."""
        heads = ("layer", "type", "parameters", "norm", "zeros", "mean", "deviation", "dead", "gradient", "update")
        rows = [[*heads, "FLOPs", "ms", "MB"], *map(_cells, self.layers)]
        at = "×".join(map(str, self.shape[1:] or self.shape))
        measured = f"activations of {self.inputs} inputs of {at}" if self.inputs else ""
        return "\n".join([*aligned(rows), "", *filter(None, [measured, *self.notes])]).rstrip()

    def __repr__(self) -> str:
        return f"<Statistics of {self.name}: {len(self.layers)} layers, {self.inputs} inputs>"


def statistics(run_or_model: Word, data: Any = None, depth: int | None = None, *, inputs: int = WINDOW) -> Statistics:
    """Statistics of the layers of a run, a bundle, a published model or a recipe, down to `depth`.

    Activations are those for some `inputs` of `data` (a list of photos or texts, or a folder of photos), else of the
    run's validation split; without either, of drawn inputs.
    """
    subject = run_or_model if isinstance(run_or_model, Subject) else Subject(run_or_model)
    if subject.recipe is not None:
        return _of_recipe(subject, depth)
    bundle = subject.model
    bundle.model.eval()
    layers = [
        _weights(path, module)
        for path, module in bundle.model.named_modules()
        if path and (depth is None or path.count(".") < depth)
    ]
    run = probe(bundle)
    flops = flops_by_layer(bundle, run)
    prepared, notes = _inputs(subject, data, inputs)
    passes = [_calling(bundle, each) for each in prepared] or [run.run]
    found = _activations(bundle.model, [layer.path for layer in layers], passes)
    costs = _costs(bundle.model, [layer.path for layer in layers], run.run)
    recorded = _recorded(subject)
    whole = tuple(
        replace(
            layer,
            flops=flops.get(layer.path, 0),
            activation=found.get(layer.path, NOT_COMPUTED),
            milliseconds=costs[layer.path][0] if layer.path in costs else None,
            megabytes=costs[layer.path][1] if layer.path in costs else None,
            **_trained(recorded.get(layer.path, ())),
        )
        for layer in layers
    )
    return Statistics(subject.name, whole, len(passes), run.shape, notes)


def _of_recipe(subject: Subject, depth: int | None) -> Statistics:
    """What is known of the layers of a model that was never trained."""
    known = recipe_layers(subject)
    counts: dict[str, int] = {}
    for parameter in known.parameters:
        parts = parameter.module_path.split(".")
        for end in range(1, len(parts) + 1):
            path = ".".join(parts[:end])
            counts[path] = counts.get(path, 0) + parameter.count
    layers = tuple(
        LayerStatistics(path=m.path, type=m.type, parameters=counts.get(m.path, 0), flops=known.flops.get(m.path))
        for m in known.modules
        if m.path and (depth is None or m.path.count(".") < depth)
    )
    shape = (1, known.input_channels or 3, *known.trial_size) if known.trial_size else ()
    return Statistics(subject.name, layers, shape=shape, notes=("the recipe was never run: it has no weights yet",))


def _weights(path: str, module: nn.Module) -> LayerStatistics:
    own = [each.detach() for each in module.parameters()]
    count = sum(each.numel() for each in own)
    floats = [each.float() for each in own if each.is_floating_point()]
    size = torch.stack([each.norm() for each in floats]).norm() if floats else None
    return LayerStatistics(
        path=path,
        type=type(module).__name__,
        parameters=count,
        weight=None if size is None else float(size),
        zeros=sum(int((each == 0).sum()) for each in own) / count if count else None,
        bad_weights=sum(int((~each.isfinite()).sum()) for each in floats),
    )


# -- inputs


def _inputs(subject: Subject, data: Any, count: int) -> tuple[list[Any], tuple[str, ...]]:
    """Prepared inputs: of the given data, else of the validation split of the run."""
    bundle = subject.model
    if data is not None:
        return [bundle.prepare(each) for each in islice(_given(bundle, data), count)], ()
    try:
        with subject.data() as dataset:
            splits = [dataset.predefined[name] for name in ("val", "test", "train") if name in dataset.predefined]
            indices = list(splits[0]) if splits else []
            some = [dataset.load(int(at)) for at in indices[:: max(1, len(indices) // count)][:count]]
            loaded = [each[0] if dataset.values is None else each for each in some]
            return [bundle.prepare(each) for each in loaded], ()
    except Failure as problem:
        return [], (f"activations are those of a drawn input: {problem.headline}",)


def _given(bundle: Bundle, data: Any) -> Iterator[Any]:
    if isinstance(data, str | os.PathLike) and os.path.isdir(data):
        images = sorted(image_files(Path(data)))
        if not images:
            raise Failure(f"{os.fspath(data)} has no images in it", "give a folder of images")
        yield from images
    elif isinstance(data, str | os.PathLike):
        yield data
    else:
        yield from data


def _calling(bundle: Bundle, prepared: Any) -> Callable[[], Any]:
    return lambda: outputs(bundle, batch_of(bundle, prepared))


# -- activations


def _activations(
    model: nn.Module, paths: Sequence[str], passes: Sequence[Callable[[], Any]]
) -> dict[str, Mapping[str, float]]:
    """What is known of the outputs of each layer over all passes."""
    found: dict[str, list[Tensor]] = {}
    varies: dict[str, _Range] = {}

    def note(path: str, output: Any) -> None:
        tensor = _first(output)
        if tensor is None or not tensor.is_floating_point() or not tensor.numel():
            return
        values = tensor.detach().float()
        finite = values[values.isfinite()].double()
        sums = [finite.sum(), finite.square().sum(), values.isnan().sum(), values.isinf().sum()]
        row = [float(finite.numel()), *(float(each) for each in sums)]
        found.setdefault(path, []).append(torch.tensor(row, dtype=torch.float64))
        varies.setdefault(path, _Range()).add(values)

    with torch.no_grad(), _hooked(model, paths, lambda path: lambda layer, inputs, output: note(path, output)):
        for run in passes:
            run()
    return {path: _summary(torch.stack(rows).sum(dim=0).tolist(), varies[path]) for path, rows in found.items()}


class _Range:
    """The least and the largest output of each unit of a layer over several passes."""

    def __init__(self) -> None:
        self._found: Tensor | None = None
        self._count = 0  # of values of each unit

    def add(self, values: Tensor) -> None:
        found = unit_range(values)
        if found is None:
            return
        known = self._found
        if known is not None and known.shape == found.shape:
            found = torch.stack([torch.minimum(known[0], found[0]), torch.maximum(known[1], found[1])])
        self._found, self._count = found, self._count + values.numel() // found.shape[1]

    def units(self) -> Tensor | None:
        return varying(self._found) if self._found is not None and self._count > 1 else None


def _summary(row: Sequence[float], values: _Range) -> dict[str, float]:
    count, total, squares, nan, inf = row
    mean = total / count if count else float("nan")
    deviation = max(0.0, squares / count - mean**2) ** 0.5 if count else float("nan")
    known: dict[str, float] = {"mean": mean, "deviation": deviation, "nan": nan, "inf": inf}
    units = values.units()
    if units is not None:
        dead = (~units[0] & ~units[1]).double().mean()
        known |= {"units": float(units.shape[1]), "dead": float(dead)}
    return known


# -- time and memory


def _costs(model: nn.Module, paths: Sequence[str], run: Callable[[], Any]) -> dict[str, tuple[float, float]]:
    """The median milliseconds of each layer for one input, and the size of its outputs."""
    began: dict[str, float] = {}
    spent: dict[str, list[float]] = {}
    sizes: dict[str, float] = {}
    now: dict[str, float] = {}

    def before(path: str) -> Callable[..., None]:
        return lambda layer, inputs: began.__setitem__(path, time.perf_counter())

    def after(path: str) -> Callable[..., None]:
        def note(layer: nn.Module, inputs: Any, output: Any) -> None:
            now[path] = now.get(path, 0.0) + 1000 * (time.perf_counter() - began[path])
            leaves = [each for each in _pytree.tree_leaves(output) if isinstance(each, Tensor)]
            sizes[path] = sum(each.nbytes for each in leaves) / 1e6

        return note

    with torch.no_grad(), _hooked(model, paths, before, is_before=True), _hooked(model, paths, after):
        for turn in range(1 + _PASSES):
            now.clear()
            run()
            for path, milliseconds in now.items() if turn else ():
                spent.setdefault(path, []).append(milliseconds)
    return {path: (numbers.median(times), sizes[path]) for path, times in spent.items()}


@contextmanager
def _hooked(
    model: nn.Module, paths: Sequence[str], hook: Callable[[str], Callable[..., Any]], *, is_before: bool = False
) -> Iterator[None]:
    """A hook for each layer, removed at the end."""
    with ExitStack() as hooks:
        for path in paths:
            layer = model.get_submodule(path)
            register = layer.register_forward_pre_hook if is_before else layer.register_forward_hook
            hooks.callback(register(hook(path)).remove)
        yield


def _first(output: Any) -> Tensor | None:
    return next((each for each in _pytree.tree_leaves(output) if isinstance(each, Tensor)), None)


# -- from the record of the run


def _recorded(subject: Subject) -> Mapping[str, Sequence[Measurement]]:
    return training(subject.run).layers if subject.run is not None else {}


def _trained(measured: Sequence[Measurement]) -> dict[str, Any]:
    """The gradient and the update of a layer at the last step that was measured."""
    if not measured:
        return {}
    last = measured[-1]
    return {"trainable": last.trainable, "gradient": last.gradient, "update": last.update}


# -- for a terminal


def _cells(layer: LayerStatistics) -> list[str]:
    known = layer.activation if isinstance(layer.activation, Mapping) else {}
    bad = known.get("nan", 0) + known.get("inf", 0)
    mean = f"{bad:.0f} not finite" if bad else _short(known.get("mean"))
    if layer.activation == NOT_COMPUTED:
        mean = NOT_COMPUTED
    return [
        "  " * (layer.depth - 1) + layer.path,
        layer.type,
        f"{layer.parameters:,}",
        f"{layer.bad_weights:,} not finite" if layer.bad_weights else _short(layer.weight),
        _percent(layer.zeros),
        mean,
        _short(known.get("deviation")),
        _percent(known.get("dead")),
        "frozen" if layer.trainable == 0 and layer.parameters else _short(layer.gradient),
        _short(layer.update),
        _large(layer.flops),
        _short(layer.milliseconds),
        _short(layer.megabytes),
    ]


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _large(count: int | None) -> str:
    for prefix, power in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count is not None and count >= power:
            return f"{count / power:.3g} {prefix}"
    return str(count) if count else ""

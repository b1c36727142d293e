"""How a trained model becomes one file that anyone can use.

Decides what goes into a bundle, and makes sure that what is loaded from it is the model that was given: the model is
built again from its description, and must have the same outputs.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn

from leaven.bundle import golden
from leaven.bundle.archive import CARD, GOLDEN, MANIFEST, RECORDS, write_archive
from leaven.bundle.building import BuiltBy, read_builder
from leaven.bundle.card import card
from leaven.bundle.golden import Steps
from leaven.bundle.inputs import InputKind, candidates
from leaven.bundle.manifest import Manifest, task_of, versions
from leaven.bundle.over import Over, left_out, put_together
from leaven.bundle.source_code import Code, Sources
from leaven.bundle.steps import describe, has_code, rebuild
from leaven.bundle.tried import key_of, remember
from leaven.formats.run_folder import LOCK, read_json
from leaven.formats.tables import PLAIN, Layout
from leaven.formats.target import Target
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.failures import Failure
from leaven.runtime.model.looking import looking_at
from leaven.runtime.model.pruned_shapes import PrunedShapes, pruned_shapes, shrink
from leaven.runtime.model.weights import BUNDLED_WEIGHTS
from leaven.runtime.run.ending import Epoch
from leaven.tasks.protocol import Task
from leaven.techniques.adapters.adapter import merge_adapters

_USUAL = (224, 224)
LOCAL = ("commands", "started_in", "arguments")  # what a lock says about the paths of a machine


def save(
    file: str | os.PathLike[str],
    module: nn.Module,
    *,
    built_by: BuiltBy,
    preprocess: Steps,
    target: Target,
    scores: Mapping[str, float] | None = None,
    caveats: Sequence[str] = (),
    folder: str | os.PathLike[str] | None = None,
    example: Any = None,
    columns: Sequence[str] = (),
    layout: Layout = PLAIN,
    ending: str = "",
    over: Over | None = None,
    epoch: Epoch | None = None,
) -> Path:
    """Write a bundle atomically. The model and the random state are left as they were.

    `example` is an image as the data gives it to the transforms: only its kind, mode and size are used. It is needed
    where the transforms don't change the size, or where images are greyscale. A text model needs one, too. `columns`
    are those of the table with the texts, or with the files of images, whose `ending` it may leave out; `layout` is how
    it is laid out. The records of the run are copied from `folder`. With `over`, the bundle holds only what differs
    from those weights: unmerged adapters, and the head. `epoch` is the one that the weights are of.
    """
    path = Path(os.fspath(file))
    sources = Sources()
    task = task_of(target)
    with golden.fixed_seed():
        steps, built = describe(preprocess, sources), built_by.describe(sources)
        code = Code(sources.members, is_trusted=True, bundle=path.name)
        weights, stands_on = _weights(module), None  # before anything runs that might change them
        with looking_at(module, or_itself=True) as copied:
            tried = _tried_out(copied, preprocess, example, task)
        _compare_steps(preprocess, rebuild(steps, code), steps, tried)
        if over is not None:
            stands_on, weights = left_out(over, read_builder(built), code, module, weights, path)
        again, sizes = rebuilt(built, stands_on, code, module, weights, path)
        with looking_at(module, or_itself=True) as copied:
            outputs = _compare_models(copied, again, tried.prepared, task)
    if outputs.shape[1] != (task.row_size(target) or outputs.shape[1]):
        raise Failure(f"the model has {outputs.shape[1]} outputs, but the data has {len(target.names)} names for them")
    manifest = Manifest(
        built_by=built,
        preprocess=steps,
        takes=tried.takes.with_columns(columns, layout, ending),
        shape=tuple(first_tensor(tried.prepared[0]).shape),
        target=target,
        scores={name: float(value) for name, value in (scores or {}).items()},
        versions=versions(),
        sizes=sizes,
        over=stands_on,
        epoch=epoch,
        caveats=tuple(caveats),
    )
    members = {
        CARD: card(manifest, path.name).encode(),
        MANIFEST: manifest.to_bytes(),
        BUNDLED_WEIGHTS: bytes(safetensors.torch.save(weights)),
        GOLDEN: golden.pack(tried.inputs, outputs),
    }
    written = write_archive(path, {**members, **_records(folder), **sources.members})
    remember(key_of(written))
    return path


class _Tried(NamedTuple):
    """What the transforms take, golden inputs of that kind, and what the transforms make of them."""

    takes: InputKind
    inputs: list[Tensor]
    prepared: list[Any]


def _tried_out(module: nn.Module, steps: Steps, example: Any, task: Task) -> _Tried:
    """The first kind of input that goes through the transforms and the model."""
    possible, problems = candidates(example), []
    for takes in possible:
        try:
            near = _fixed_size(takes, steps)
            if near is not None or task.Samples.is_placed:  # images with boxes need not be of one size
                takes = takes.of_any_size()
            inputs = golden.make_inputs(takes, near or _USUAL)
            tried = _Tried(takes, inputs, [golden.prepared(made, takes, steps) for made in inputs])
            golden.outputs_of(module, tried.prepared, task)
            return tried
        except Failure:
            raise
        except Exception as problem:
            problems.append(problem)
    first, noun = problems[0], possible[0].noun
    raise Failure(
        f"a test {noun} does not pass through the transforms and the model: {type(first).__name__}: {first}",
        "" if example is not None else f"give `example=`, an {noun} of the data, whose size and mode are used",
    )


def _fixed_size(takes: InputKind, steps: Steps) -> tuple[int, int] | None:
    """The height and width with which the transforms end, whatever the image; None where that depends."""
    shapes: set[tuple[int, ...]] = set()
    for probe in takes.probes():
        (made, *_) = golden.make_inputs(probe, _USUAL)
        shapes.add(tuple(golden.prepared(made, probe, steps).shape[-2:]))
    if len(shapes) != 1:
        return None
    height, width = shapes.pop()
    return height, width


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """The weights, each with memory of its own: a tensor with several names is written several times."""
    state = module.state_dict()
    if strange := [name for name, value in state.items() if not isinstance(value, Tensor)]:
        raise Failure(f"a bundle holds only tensors, but {strange[0]} in the model's state dict is not one")
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format).contiguous()
        for name, value in state.items()
    }


def rebuilt(
    built_data: Mapping[str, Any],
    stands_on: Mapping[str, Any] | None,
    code: Code,
    module: nn.Module,
    weights: Mapping[str, Tensor],
    file: Path,
) -> tuple[nn.Module, PrunedShapes]:
    """The model as it will be loaded, and the sizes in which it is smaller than its description says."""
    builder = read_builder(built_data)
    model = builder.build(code)
    if stands_on is not None:
        weights = put_together(model, stands_on, weights, builder, code, file)
    sizes = pruned_shapes(module, model)
    fill(model, weights, sizes)
    merge_adapters(model)
    return model.eval(), sizes


def fill(model: nn.Module, weights: Mapping[str, Tensor], sizes: PrunedShapes) -> None:
    """Load weights into a model, which must have exactly these; a failure lists what does not fit."""
    if sizes:
        try:
            shrink(model, sizes, weights)
        except ValueError as problem:
            raise Failure(f"the weights don't fit the model that the description builds: {problem}") from None
    wanted = model.state_dict()
    lines = [f"{name} is missing from the weights" for name in wanted if name not in weights]
    lines += [f"{name} is not in the model" for name in weights if name not in wanted]
    lines += [
        f"{name} is {tuple(weights[name].shape)}, but {tuple(value.shape)} in the model"
        for name, value in wanted.items()
        if name in weights and weights[name].shape != value.shape
    ]
    if lines:
        more = f"; and {len(lines) - 3} more" if len(lines) > 3 else ""
        raise Failure(f"the weights don't fit the model that the description builds: {'; '.join(lines[:3])}{more}")
    model.load_state_dict(dict(weights))


def _compare_steps(steps: Steps, again: Steps, data: Any, tried: _Tried) -> None:
    """A failure where transforms that were built again do not do the same."""
    if not has_code(data) and describe(again, Sources()) != data:
        raise Failure(f"the transforms can't be saved in a bundle: built again, {steps!r} become {again!r}")
    for one, made in zip(tried.prepared, tried.inputs, strict=True):
        if not _are_same(one, golden.prepared(made, tried.takes, again)):
            raise Failure(
                f"the transforms can't be saved in a bundle: built again, {steps!r} have other results",
                "state that is not among the arguments of a transform's constructor is lost",
            )


def _are_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_are_same(one[name], other[name]) for name in one)
    is_alike = one.shape == other.shape and one.dtype == other.dtype
    return is_alike and torch.allclose(one, other, equal_nan=True)


def _compare_models(module: nn.Module, again: nn.Module, prepared: list[Any], task: Task) -> Tensor:
    """The outputs of the model that was built again, which must be those of the model that was trained."""
    outputs = golden.outputs_of(again, prepared, task)
    first = next(module.parameters(), torch.empty(0))
    is_exact = first.device.type == "cpu" and first.dtype in (torch.float32, torch.float64)
    allowed = golden.SAME_HERE if is_exact else golden.SAME_ROUGHLY
    if golden.distance(golden.outputs_of(module, prepared, task), outputs) > allowed:
        raise Failure(
            "the model is not what `built_by` says: built again, it has other outputs",
            "its weights are safe in the checkpoint; let `built_by` say how the model is built",
        )
    return outputs


def _records(folder: str | os.PathLike[str] | None) -> dict[str, bytes]:
    """The records of the run, as far as they exist; the lock without the paths of the machine."""
    if folder is None:
        return {}
    files = {name: Path(os.fspath(folder)) / name for name in RECORDS}
    records = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    if LOCK in records:
        lock = {name: value for name, value in read_json(files[LOCK]).items() if name not in LOCAL}
        records[LOCK] = (json.dumps(lock, indent=2) + "\n").encode()
    return records

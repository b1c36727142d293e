"""A trained model made into one file that a stranger can use.

Decides what goes into a bundle, and sees to it that what can be loaded from it is the model that was given: it is
built anew from its description, and must answer alike.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from leaven.bundle import golden
from leaven.bundle.archive import CARD, GOLDEN, MANIFEST, RECORDS, write_archive
from leaven.bundle.building import BuiltBy, read_builder
from leaven.bundle.card import card
from leaven.bundle.golden import Steps
from leaven.bundle.inputs import Takes
from leaven.bundle.manifest import Manifest, versions
from leaven.bundle.over import Over, left_out, put_together
from leaven.bundle.source_code import Code, Sources
from leaven.bundle.steps import describe, has_code, rebuild
from leaven.formats.run_folder import LOCK, read_json
from leaven.runtime.failures import Failure
from leaven.runtime.model.pruned_shapes import PrunedShapes, pruned_shapes, shrink
from leaven.runtime.model.weights import BUNDLED_WEIGHTS
from leaven.techniques.adapters.adapter import merge_adapters

_PROBES = ((200, 240), (260, 230))  # sizes by which to see whether the steps end with one size
_USUAL = (224, 224)
LOCAL = ("command", "started_in", "arguments")  # what a lock says about a machine's folders


def save(
    file: str | os.PathLike[str],
    module: nn.Module,
    *,
    built_by: BuiltBy,
    preprocess: Steps,
    classes: Sequence[str],
    scores: Mapping[str, float] | None = None,
    folder: str | os.PathLike[str] | None = None,
    example: Any = None,
    over: Over | None = None,
) -> Path:
    """Write a bundle, whole or not at all. The module and the state of chance are left as they were.

    `example` is an item as the data gives it to the steps: only its kind, mode and size are taken. It is needed where
    the steps leave pictures in their size, or where they are grey. From `folder`, the records of the run are taken.
    With `over`, the bundle holds only what differs from those weights: adapters that were kept aside, and the head.
    """
    path = Path(os.fspath(file))
    sources = Sources()
    with golden.settled_chance():
        steps_data = describe(preprocess, sources)
        built_data = built_by.describe(sources)
        code = Code(sources.members, is_trusted=True, bundle=path.name)
        takes, inputs = _tried_out(module, preprocess, example)
        prepared = [golden.prepared(made, takes, preprocess) for made in inputs]
        _compare_steps(preprocess, rebuild(steps_data, code), steps_data, prepared, inputs, takes)
        weights, stands_on = _weights(module), None
        if over is not None:
            stands_on, weights = left_out(over, built_by, code, module, weights, path)
        again, sizes = _rebuilt(built_data, stands_on, code, module, weights, path)
        outputs = _compare_models(module, again, prepared)
    if outputs.shape[1] != len(classes):
        raise Failure(f"the model gives {outputs.shape[1]} numbers, but there are {len(classes)} classes")
    manifest = Manifest(
        built_by=built_data,
        preprocess=steps_data,
        takes=takes,
        shape=tuple(prepared[0].shape),
        classes=tuple(str(name) for name in classes),
        scores={name: float(value) for name, value in (scores or {}).items()},
        versions=versions(),
        sizes=sizes,
        over=stands_on,
    )
    members = {
        CARD: card(manifest, path.name).encode(),
        MANIFEST: manifest.to_bytes(),
        BUNDLED_WEIGHTS: bytes(safetensors.torch.save(weights)),
        GOLDEN: golden.pack(inputs, outputs),
        **_records(folder),
        **sources.members,
    }
    write_archive(path, members)
    return path


def _tried_out(module: nn.Module, steps: Steps, example: Any) -> tuple[Takes, list[Tensor]]:
    """What the steps take, and made inputs that go through them and the model."""
    candidates = [Takes.like(example)] if example is not None else [Takes(mode="RGB"), Takes(mode="L")]
    problems = []
    for takes in candidates:
        try:
            near = _fixed_size(takes, steps)
            takes = replace(takes, size=()) if near and takes.kind == "picture" else takes
            inputs = golden.made_inputs(takes, near or _USUAL)
            golden.answers(module, [golden.prepared(made, takes, steps) for made in inputs])
        except Failure:
            raise
        except Exception as problem:
            problems.append(problem)
            continue
        return takes, inputs
    first = problems[0]
    raise Failure(
        f"a made picture does not go through the steps and the model: {type(first).__name__}: {first}",
        "" if example is not None else "give `example=`, an item as the data has it, whose size and mode are taken",
    )


def _fixed_size(takes: Takes, steps: Steps) -> tuple[int, int] | None:
    """The height and width with which the steps end whatever they begin with; None where that depends."""
    if takes.kind != "picture":
        return None
    shapes: set[tuple[int, ...]] = set()
    for height, width in _PROBES:
        (probe, *_) = golden.made_inputs(replace(takes, size=(width, height)), _USUAL)
        shapes.add(tuple(golden.prepared(probe, takes, steps).shape[-2:]))
    if len(shapes) > 1:
        return None
    height, width = shapes.pop()
    return height, width


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """The weights, each with memory of its own: names that share a tensor are written in full."""
    state = module.state_dict()
    if strange := [name for name, value in state.items() if not isinstance(value, Tensor)]:
        raise Failure(f"a bundle holds tensors only, but {strange[0]} of the model's state is none")
    return {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format).contiguous()
        for name, value in state.items()
    }


def _rebuilt(
    built_data: Mapping[str, Any],
    stands_on: Mapping[str, Any] | None,
    code: Code,
    module: nn.Module,
    weights: Mapping[str, Tensor],
    file: Path,
) -> tuple[nn.Module, PrunedShapes]:
    """The model as whoever loads it gets it, and the sizes in which it is smaller than its description says."""
    builder = read_builder(built_data)
    model = builder.build(code)
    if stands_on is not None:
        weights = put_together(model, stands_on, weights, builder, code, file)
    sizes = pruned_shapes(module, model)
    fill(model, weights, sizes)
    merge_adapters(model)
    return model.eval(), sizes


def fill(model: nn.Module, weights: Mapping[str, Tensor], sizes: PrunedShapes) -> None:
    """Put the weights into a model that must want exactly these; a failure that lists what does not fit."""
    if sizes:
        try:
            shrink(model, sizes, weights)
        except ValueError as problem:
            raise Failure(f"the model is not what its description builds: {problem}") from None
    wanted = model.state_dict()
    lines = [f"{name} is not among the weights" for name in wanted if name not in weights]
    lines += [f"{name} is unknown to the model" for name in weights if name not in wanted]
    lines += [
        f"{name} is {tuple(weights[name].shape)}, the model wants {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in weights and weights[name].shape != value.shape
    ]
    if lines:
        more = f"; and {len(lines) - 3} more" if len(lines) > 3 else ""
        raise Failure(f"the model is not what its description builds: {'; '.join(lines[:3])}{more}")
    model.load_state_dict(dict(weights))


def _compare_steps(
    steps: Steps, again: Steps, data: Any, prepared: Sequence[Tensor], inputs: Sequence[Tensor], takes: Takes
) -> None:
    if not has_code(data) and describe(again, Sources()) != data:
        raise Failure(f"the steps can't be written into a bundle: built again, {steps!r} become {again!r}")
    for one, made in zip(prepared, inputs, strict=True):
        other = golden.prepared(made, takes, again)
        if one.shape != other.shape or one.dtype != other.dtype or not torch.allclose(one, other, equal_nan=True):
            raise Failure(
                f"the steps can't be written into a bundle: built again, {steps!r} do something else",
                "state that is not among the arguments of a step's constructor is lost",
            )


def _compare_models(module: nn.Module, again: nn.Module, prepared: list[Tensor]) -> Tensor:
    """The answers of the model built anew, which must be those of the model that was trained."""
    answers = golden.answers(again, prepared)
    first = next(module.parameters(), torch.empty(0))
    is_exact = first.device.type == "cpu" and first.dtype in (torch.float32, torch.float64)
    allowed = golden.SAME_HERE if is_exact else golden.SAME_ROUGHLY
    if golden.distance(golden.answers(module, prepared), answers) > allowed:
        raise Failure(
            "the model in the program is not what `built_by` says: built again, it answers otherwise",
            "its weights are safe in the checkpoint; say in `built_by` how the model was really built",
        )
    return answers


def _records(folder: str | os.PathLike[str] | None) -> dict[str, bytes]:
    """The records of the run that are there; of the lock, only what does not tell where it was made."""
    if folder is None:
        return {}
    files = {name: Path(os.fspath(folder)) / name for name in RECORDS}
    records = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    if LOCK in records:
        lock = {name: value for name, value in read_json(files[LOCK]).items() if name not in LOCAL}
        records[LOCK] = (json.dumps(lock, indent=2) + "\n").encode()
    return records

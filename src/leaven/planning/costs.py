"""The costs of the planner's choices: forward passes, bytes on disk, and time, as far as it can be told before a run.

The frozen part of a model and teachers are measured by `leaven.survey`, on this machine and without their weights.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leaven.catalog.frozen_part import FrozenPart, measure
from leaven.plan.plan import BuildModel, Chain, Plan, TrainPhase
from leaven.plan.values import Plain, Variable
from leaven.planning.passes import frozen_layers, teachers
from leaven.planning.passes.inputs import SPLITS
from leaven.terminal.byte_sizes import show_bytes
from leaven.terminal.duration_text import duration_text

_SOME_OUTPUTS = 10
_WHOLE: Mapping[str, Any] = {"all_but": ()}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one part of a phase, with the planner's choices and without them."""

    about: str
    phase: str
    passes: int  # forward passes, of one image each
    passes_without: int
    stored: int  # images whose outputs are stored
    part: FrozenPart | None  # what is run, where it could be measured

    def text(self, *, without: bool = False) -> str:
        """`1,797 forward passes, 9.2 MB on disk, about 11 s of CPU time`; or the same without the planner's choices."""
        passes, stored = (self.passes_without, 0) if without else (self.passes, self.stored)
        words = [f"{passes:,} forward passes"]
        if self.part is not None and stored:
            words.append(f"{show_bytes(self.part.image_bytes * stored)} on disk")
        if self.part is not None and self.part.image_seconds is not None:
            seconds = duration_text(self.part.image_seconds * passes)
            words.append(f"about {seconds}{' of CPU time' * self.part.is_processor_time}")
        return ", ".join(words)


def expected_costs(plan: Plan, size: tuple[int, int] | None) -> tuple[Cost, ...]:
    """The costs of frozen layers and teachers, for images of that size, where the numbers of images are known."""
    pairs = zip(plan.phases, (plan.asked or plan).phases, strict=True)
    return tuple(cost for phase, asked in pairs for cost in _costs(phase, asked, plan, size))


def _costs(phase: TrainPhase, asked: TrainPhase, plan: Plan, size: tuple[int, int] | None) -> Iterator[Cost]:
    epochs = phase.epochs.value
    if plan.data.samples is None or not isinstance(epochs, int) or not phase.trains:
        return
    images = dict(zip(SPLITS, plan.data.samples, strict=False))
    if phase.freeze is not None and phase.freeze.has_first_layer:
        passes = {split: count * _times(phase, split, epochs) for split, count in images.items()}
        stored = sum(passes[split] for split in phase.stored)
        earlier = plan.phases[: plan.phases.index(phase) + 1]
        is_changed = any(each.preparations for each in earlier)
        part = None if is_changed else _measured(plan.model, plan, size, phase.freeze.arguments)
        without = sum(count * _times(asked, split, epochs) for split, count in images.items())
        yield Cost(frozen_layers.ABOUT, phase.name, sum(passes.values()), without, stored, part)
    count = images["train"]
    for use in phase.techniques:
        for _, model in use.models:
            part = _measured(model, plan, size, _WHOLE) if isinstance(model, BuildModel) else None
            made = count * (_views(phase, epochs) if use.asks_once else epochs)
            yield Cost(teachers.ABOUT, phase.name, made, count * epochs, made * use.asks_once, part)


def _times(phase: TrainPhase, split: str, epochs: int) -> int:
    """How often the frozen layers run for an image."""
    if split not in phase.stored and phase.solver is None:
        return epochs
    return _views(phase, epochs) if split == "train" else 1


def _views(phase: TrainPhase, epochs: int) -> int:
    views = phase.views.value if phase.views is not None else 1
    return views if isinstance(views, int) else epochs


def _measured(
    model: BuildModel, plan: Plan, size: tuple[int, int] | None, freeze: Mapping[str, Any]
) -> FrozenPart | None:
    """A part of a model as `leaven.survey` measures it; None where it can't be asked to build that model."""
    source = model.source
    if size is None or isinstance(source, Chain) or model.by == "bundle":
        return None
    given = {one.name: one.value for one in source.arguments if one.name not in ("pretrained", "weights")}
    name = given.pop("", None)
    outputs = [argument for argument, value in given.items() if isinstance(value, Variable)]
    arguments = {argument: value for argument, value in given.items() if argument not in outputs}
    if not all(isinstance(value, Plain) for value in arguments.values()):
        return None
    if source.is_user:
        alias, _, definition = source.target.partition(".")
        module = next(one for one in plan.user_modules if one.alias == alias)
        arguments |= dict.fromkeys(outputs, _SOME_OUTPUTS)
        request = {"file": module.target, "name": definition, "arguments": arguments}
        return measure(request, size, freeze) if module.is_file else None
    return measure({"target": source.target, "timm_name": name, "arguments": arguments}, size, freeze)

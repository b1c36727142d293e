"""The batch in which a sample lands, and what the techniques of its phase make of it.

Mixup, cutmix and their like are made and called as the program does it, with the random numbers of that step. Which
other sample was mixed in is not assumed but looked up: it is the one with which the result is equal to the last bit or
nearly so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leaven.formats.finite_json import as_json
from leaven.lab.program import Program, seed_of
from leaven.lab.tracing.arguments import Applied, watching
from leaven.lab.tracing.contents import Content, content_of, pixels
from leaven.plan.plan import Plan, TrainPhase
from leaven.plan.values import ArgValue, Value, lines_of
from leaven.program.names import Names, function_names
from leaven.runtime.data.batches import Data, IndexedSplit, Split
from leaven.runtime.data.loading import DrawnSample, transforms_in
from leaven.runtime.data.model_inputs import first_tensor
from leaven.runtime.failures import Failure
from leaven.runtime.run.length import EpochSize, Length, length_of
from leaven.runtime.run.loop import Loop
from leaven.runtime.seeding import generators_kept, seed_all

HOOK = "on_batch"
_MIXED = 0.001  # a share of a label that counts


@dataclass(frozen=True, eq=False, repr=False)
class Mixed:
    """The sample after a technique that changes whole batches."""

    name: str
    line: int | None
    applied: tuple[Applied, ...]
    content: Content
    target: str
    partner: str = ""  # the name of the other sample in it
    weight: float | None = None  # its share
    pixels: np.ndarray | None = None
    problem: str = ""  # why it is not known

    @property
    def words(self) -> str:
        """`30 % of cat/3.jpg`, or what is known."""
        if self.problem:
            return self.problem
        if self.partner and self.weight is not None:
            return f"{100 * self.weight:.0f} % of {self.partner}"
        return ", ".join(one.words for one in self.applied if one.words)

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "line": self.line,
            "arguments": [one.to_json() for one in self.applied],
            "content": self.content.to_json(),
            "target": self.target,
            "partner": self.partner or None,
            "weight": self.weight,
            "problem": self.problem or None,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Landing:
    """The batch in which a sample lands; numbers count from 1. `padding` is how many of a text's tokens are padding."""

    number: int
    of: int
    place: int
    size: int
    content: Content
    target: str
    padding: int | None = None
    mixed: tuple[Mixed, ...] = ()

    @property
    def words(self) -> str:
        """`batch 3 of 45, place 7 of 32`."""
        return f"batch {self.number} of {self.of}, place {self.place} of {self.size}"

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            **{"number": self.number, "of": self.of, "place": self.place, "size": self.size},
            "content": self.content.to_json(),
            "target": self.target,
            "padding": self.padding,
            "mixed": [one.to_json() for one in self.mixed],
        }


@dataclass(frozen=True)
class PhaseOutline:
    """What a program's phase tells a technique before a batch."""

    name: str
    epoch: int
    batch: int
    total_epochs: int
    steps_per_epoch: int
    total_steps: int


@dataclass(frozen=True, eq=False)
class EpochOfPhase:
    """An epoch of the whole run, from 0, as one of a phase: `plan` has it at `at`, and `epoch` counts within it."""

    program: Program
    plan: Plan
    data: Data
    at: int
    epoch: int
    loop: Loop

    @property
    def phase(self) -> TrainPhase:
        return self.plan.phases[self.at]

    @property
    def views(self) -> int | None:
        """How many augmented views of an image the phase uses, where they are limited."""
        views = None if self.phase.views is None else value_of(self.program, self.plan, self.phase.views.value)
        return int(views) if isinstance(views, int) else None


def epoch_of_phase(program: Program, plan: Plan, data: Data, epoch: int) -> EpochOfPhase:
    """The phase in which an epoch is; those after the last belong to the last."""
    batches, before = data.train.steps(), 0
    for at, phase in enumerate(plan.phases):
        amount = value_of(program, plan, phase.epochs.value)
        accumulate = 1 if phase.accumulate is None else value_of(program, plan, phase.accumulate.value)
        length = length_of(**{phase.epochs.name: amount}) if isinstance(amount, int | float) else Length(1)
        size = EpochSize(batches, len(data.train), data.batch_size, accumulate if isinstance(accumulate, int) else 1)
        loop = Loop(length, size)
        if epoch < before + loop.most_epochs or at + 1 == len(plan.phases):
            break
        before += loop.most_epochs
    return EpochOfPhase(program, plan, data, at, epoch - before, loop)


def value_of(program: Program, plan: Plan, value: Value) -> Value:
    """A value of the plan; of an `arg`, what the program was given."""
    return getattr(program.args, Names(plan).arg(value.name)) if isinstance(value, ArgValue) else value


def landing_of(sample: DrawnSample, split: Split, data: Data, epoch: int, during: EpochOfPhase | None) -> Landing:
    """The batch of a sample; of training, with what the techniques of the phase make of it."""
    batch, names, place = _batch(sample, split, epoch)
    inputs, targets = batch
    tensor = first_tensor(inputs)
    padding = None
    if isinstance(inputs, dict) and "attention_mask" in inputs:
        padding = int((inputs["attention_mask"][place] == 0).sum())
    mixed = _mixed(batch, names, place, sample.batch, epoch, during) if during is not None else ()
    return Landing(
        number=sample.batch + 1,
        of=split.steps(),
        place=place + 1,
        size=len(targets),
        content=content_of(tensor) if tensor is not inputs or isinstance(inputs, Tensor) else Content("list"),
        target=_told(targets[place], data),
        padding=padding,
        mixed=mixed,
    )


def _batch(sample: DrawnSample, split: Split, epoch: int) -> tuple[tuple[Any, Any], list[str], int]:
    """The batch as the program yields it, the names of its samples, and which of them it is."""
    if not isinstance(split, IndexedSplit):
        batch = next(split.batches(epoch, first=sample.batch))
        names = [f"sample {number + 1} of the batch" for number in range(len(batch[1]))]
        return batch, names, sample.place
    reader = split.reader
    key = split.keys(epoch)[sample.batch]
    loaded = reader[key]
    if isinstance(loaded, Failure):
        raise loaded
    inputs, targets, bad = loaded.inputs, loaded.targets, loaded.bad
    every = [reader.dataset.name(index) for index in key.indices.tolist()]
    place = sum(name not in bad for name in every[: sample.place])
    return (inputs, targets), [name for name in every if name not in bad], place


def _mixed(
    batch: tuple[Any, Any], names: Sequence[str], place: int, number: int, epoch: int, during: EpochOfPhase
) -> tuple[Mixed, ...]:
    uses = [use for use in during.phase.techniques if HOOK in use.hooks]
    if not uses:
        return ()
    loop, phase = during.loop, during.phase
    outline = PhaseOutline(phase.name, during.epoch, number, loop.epochs, loop.whole.steps, loop.steps)
    objects = {"data": during.data, "args": during.program.args, "phase": outline}
    function = function_names(during.plan)[during.at]
    made: list[Mixed] = []
    with generators_kept():
        try:
            techniques = during.program.techniques(function, HOOK, objects)
            for technique, has_epochs in techniques:
                if has_epochs:
                    technique.before_epoch(outline)
        except Exception as problem:  # one that needs the model, or code of the user's
            about = f"not known: it can't be made without training ({type(problem).__name__})"
            return tuple(_unknown(use.call.text, lines_of(use.call.because), about) for use in uses)
        seed_all(seed_of(during.plan, during.program.args), epoch, number, 0)
        for use, (technique, _) in zip(uses, techniques, strict=True):
            lines = lines_of(use.call.because)
            try:
                with watching() as watched:
                    after = technique.on_batch(*batch)
            except Exception as problem:
                made.append(_unknown(use.call.text, lines, f"fails: {type(problem).__name__}: {problem}"))
                break
            applied = tuple(watched.applied)
            made.append(_described(use.call.text, lines, applied, batch, after, names, place, during.data))
            batch = after
    return tuple(made)


def _unknown(name: str, lines: Sequence[int], problem: str) -> Mixed:
    return Mixed(name, lines[0] if lines else None, (), Content(""), "", problem=problem)


def _described(
    name: str,
    lines: Sequence[int],
    applied: tuple[Applied, ...],
    before: tuple[Any, Any],
    after: tuple[Any, Any],
    names: Sequence[str],
    place: int,
    data: Data,
) -> Mixed:
    inputs, targets = after
    own = inputs[place] if isinstance(inputs, Tensor | list) else None
    partner, weight = "", None
    if isinstance(inputs, Tensor) and isinstance(before[0], Tensor) and inputs.shape == before[0].shape:
        found = _partner(before[0], own, place, applied)
        if found is not None:
            partner, weight = names[found[0]], found[1]
    shown = pixels(own, transforms_in(data.train_transform)) if isinstance(own, Tensor) else None
    line = lines[0] if lines else None
    return Mixed(name, line, applied, content_of(own), _told(targets[place], data), partner, weight, shown)


def _partner(images: Tensor, mixed: Any, place: int, applied: Sequence[Applied]) -> tuple[int, float] | None:
    """The other sample in a mixed one and its share, by the arguments as drawn; None where none fits."""
    drawn = next((one.arguments for one in applied if one.arguments), None) or {}
    for other in range(len(images)):
        if "lam" in drawn:
            weight = 1 - float(drawn["lam"])
            wanted = images[other] * weight + images[place] * (1 - weight)
        elif "box" in drawn:
            weight = 1 - float(drawn["lam_adjusted"])
            left, top, right, bottom = map(int, drawn["box"])
            wanted = images[place].clone()
            wanted[..., top:bottom, left:right] = images[other][..., top:bottom, left:right]
        else:
            return None
        if other != place and torch.allclose(wanted, mixed, atol=1e-5):
            return other, weight
    return None


def _told(one: Any, data: Data) -> str:
    """The target of a sample in words: of a mixed one, the shares of its labels."""
    names = data.target.names
    is_shares = isinstance(one, Tensor) and one.is_floating_point() and one.shape == (len(names),)
    if is_shares and data.target.kind != "number" and bool(((one > _MIXED) & (one < 1 - _MIXED)).any()):
        order = one.argsort(descending=True).tolist()
        return ", ".join(f"{names[at]} {100 * float(one[at]):.0f} %" for at in order if one[at] > _MIXED)
    if is_shares and data.target.kind == "class":
        return names[int(one.argmax())]
    return data.samples.caption(one, data.target).replace("\n", ", ")

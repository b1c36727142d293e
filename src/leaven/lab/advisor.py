"""Advice on a training, from its record: which layer, the likely cause, and the line of the recipe to change.

Each rule looks for one fault and says what it saw. Its change of the recipe is offered only if the checker accepts the
changed recipe. Reads the record and the recipe of a run, and needs no torch.
"""

import math
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from leaven.formats.finite_json import as_json
from leaven.formats.run_folder import LOCK, read_json
from leaven.lab.recipe_change import Ask, Change, add_clip, add_early_stop, keep_trainable, longer, scale_rate
from leaven.lab.recorded_training import Measurement, Phase, Training, training
from leaven.language.recorded_recipe import recorded_recipe
from leaven.plan.plan import Plan
from leaven.plan.recorded_plan import recorded_plan
from leaven.recipe.recipe import Recipe
from leaven.rules.checker import check
from leaven.terminal.score_text import score_text
from leaven.terminal.visible import visible

Severity = Literal["severe", "warning", "hint"]

EXPLODES = 100  # times the median of the gradients before
VANISHES = 1e-6  # of the largest gradient of a layer, for weights of the same size
DEAD = 0.5  # of the units of a layer
TOO_LARGE, TOO_SMALL = 0.1, 1e-6  # an update, relative to the weights
_CAUSES = ("nan-loss", "exploding-gradients", "dead-units")
_EFFECTS = ("vanishing-gradients", "rate-too-low")  # of these
_FEW = 3  # measurements that are enough to judge by


@dataclass(frozen=True)
class Advice:
    """A fault of a training. `change` is an edit of the recipe that the checker accepts, if one is known."""

    id: str
    severity: Severity
    headline: str
    cause: str
    layer: str | None = None
    step: int | None = None
    change: Change | None = None

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "change": self.change and self.change.to_json()}

    def __str__(self) -> str:
        lines = [f"{self.severity}: {visible(self.headline)}", f"  likely cause: {self.cause}"]
        if self.change is not None:
            lines.append(f"  try: {self.change}")
        return "\n".join(lines)


@dataclass(frozen=True)
class _Seen:
    """What the rules look at."""

    record: Training
    plan: Plan | None
    lock: dict[str, Any]

    def loss(self, name: str = "loss") -> tuple[tuple[int, float], ...]:
        return self.record.curve(name, None) if name in self.record.names else ()


def advice(run: str | os.PathLike[str]) -> list[Advice]:
    """The faults that the record of a run shows, the most severe first; none where nothing stands out."""
    record = training(run)
    seen = _Seen(record, recorded_plan(record.run), read_json(record.run / LOCK))
    order: Sequence[Severity] = ("severe", "warning", "hint")
    found = [(finding, ask) for rule in _RULES for finding, ask in rule(seen)]
    if any(finding.severity == "severe" and finding.id in _CAUSES for finding, _ in found):
        found = [each for each in found if each[0].id not in _EFFECTS]
    found.sort(key=lambda each: order.index(each[0].severity))
    recipe = _recipe(record.run) if found else None
    return [replace(one, change=ask(recipe) if ask is not None and recipe is not None else None) for one, ask in found]


def _recipe(run: Path) -> Recipe | None:
    source = recorded_recipe(run)
    return check(source).recipe if source is not None else None


Found = Iterator[tuple[Advice, Ask | None]]


# -- the loss


def _not_a_number(seen: _Seen) -> Found:
    """The loss became NaN or infinite."""
    for step, loss in seen.loss():
        if not math.isfinite(loss):
            where = _first_bad_layer(seen, step)
            cause = "the learning rate is too large, or an input or a weight is not finite"
            headline = f"the loss is {loss} at step {step:,}" + (
                f"; {where} is the first layer with it" if where else ""
            )
            yield Advice("nan-loss", "severe", headline, cause, where, step), scale_rate(0.1)
            return


def _first_bad_layer(seen: _Seen, until: int) -> str | None:
    """The first layer in whose outputs there was NaN or infinity."""
    for path, measured in seen.record.layers.items():
        for one in measured:
            if one.step <= until and ((one.value("nan") or 0) + (one.value("inf") or 0)) > 0:
                return path
    return None


def _explodes(seen: _Seen) -> Found:
    """Gradients grew far beyond what they were."""
    whole = seen.loss("gradient")
    for at in range(_FEW, len(whole)):
        step, norm = whole[at]
        usual = statistics.median(value for _, value in whole[:at] if math.isfinite(value)) if at else 0.0
        if not math.isfinite(norm) or (usual > 0 and norm > EXPLODES * usual):
            path = _largest(seen, step)
            headline = f"gradients explode at step {step:,}: {norm:.3g}, and {usual:.3g} before"
            headline += f"; the largest is that of {path}" if path else ""
            cause = "the learning rate is too large for this layer, or a batch has extreme values"
            yield Advice("exploding-gradients", "severe", headline, cause, path, step), add_clip
            return


def _largest(seen: _Seen, step: int) -> str | None:
    """The layer with the largest gradient at a step, or at the next that was measured."""
    norms = {}
    for path, measured in seen.record.layers.items():
        one = next((each for each in measured if each.step >= step and each.gradient is not None), None)
        if one is not None and one.gradient is not None:
            norms[path] = math.inf if math.isnan(one.gradient) else one.gradient
    return max(norms, key=norms.__getitem__) if norms else None


# -- layers


def _vanishes(seen: _Seen) -> Found:
    """A trained layer gets next to no gradient, while others do."""
    last = {path: measured[-1] for path, measured in seen.record.layers.items() if len(measured) >= _FEW}
    shares = {path: one.gradient / one.weight for path, one in last.items() if one.gradient is not None and one.weight}
    largest = max((each for each in shares.values() if math.isfinite(each)), default=0.0)
    for path, share in shares.items():
        if largest > 0 and share < VANISHES * largest:
            cause = "units after it are dead or saturated, or nothing connects it with the loss"
            headline = f"{path} gets next to no gradient: {last[path].gradient:.2g}"
            yield Advice("vanishing-gradients", "warning", headline, cause, path, last[path].step), None


def _dead(seen: _Seen) -> Found:
    """Many units of a layer never fire."""
    for path, measured in seen.record.layers.items():
        known = [one for one in measured if one.value("dead") is not None and (one.value("window") or 0) >= _FEW]
        share = known[-1].value("dead") if known else None
        if share is not None and share >= DEAD:
            began = next(one.step for one in known if (one.value("dead") or 0) >= DEAD)
            headline = f"{100 * share:.0f} % of the units of {path} are dead, since step {began:,} or before"
            cause = "too large an update pushed them to where they are constant; it may have been before this training"
            severity: Severity = "severe" if share > 0.95 else "warning"
            yield Advice("dead-units", severity, headline, cause, path, began), scale_rate(0.1)


def _frozen(seen: _Seen) -> Found:
    """A layer with random weights is never trained."""
    if seen.plan is None:
        return
    model = seen.plan.model
    new = [*model.new, *([model.replaced_head] if model.replaced_head else [])]
    for path, measured in seen.record.layers.items():
        is_random = model.weights is None or any(path == one or path.startswith(f"{one}.") for one in new)
        if is_random and measured and all(one.is_frozen for one in measured) and _has_weights(seen, path):
            headline = f"{path} is frozen in every phase, and its weights are random"
            cause = "a `freeze` selects it, though it was never trained"
            yield Advice("frozen-new-layer", "severe", headline, cause, path, measured[0].step), keep_trainable(path)


def _has_weights(seen: _Seen, path: str) -> bool:
    """Whether the plan freezes something that the layer has; one without weights is no mistake."""
    assert seen.plan is not None
    return any(phase.freeze is not None for phase in seen.plan.phases)


def _rate(seen: _Seen) -> Found:
    """Updates are far larger or smaller than weights can bear, or than changes anything."""
    rates = dict(seen.loss("lr"))
    most = max(rates.values(), default=0.0)
    for path, measured in seen.record.layers.items():
        known = [each for each in measured if each.update is not None and rates.get(each.step, most) >= most / 2]
        if len(known) < _FEW:
            continue
        usual = statistics.median(each.update for each in known if each.update is not None)
        if usual > TOO_LARGE:
            headline = f"an update changes {path} by {100 * usual:.0f} % of its weights"
            yield Advice("rate-too-high", "warning", headline, "the learning rate is too large", path), scale_rate(0.1)
            return
        if usual < TOO_SMALL and _is_moving(known):
            headline = f"an update changes {path} by {usual:.1g} of its weights"
            yield Advice("rate-too-low", "warning", headline, "the learning rate is too small", path), scale_rate(10)
            return


def _is_moving(measured: Sequence[Measurement]) -> bool:
    """Whether a layer has a gradient; without one it is not the rate that is too small."""
    return all(each.gradient for each in measured)


# -- scores


def _overfits(seen: _Seen) -> Found:
    """The validation loss rises while the training loss goes on falling."""
    for phase in seen.record.phases[-1:]:
        val, train = (_of_phase(seen.loss(name), phase) for name in ("val.loss", "train.loss"))
        if len(val) < 4 or len(train) != len(val):
            continue
        best = min(range(len(val)), key=val.__getitem__)
        if best <= 0.6 * (len(val) - 1) and val[-1] > 1.1 * val[best] and train[-1] < 0.9 * train[best]:
            headline = f'overfitting in phase "{phase.name}": val.loss was best in epoch {best + 1}, at '
            headline += f"{score_text(val[best])}, and ended at {score_text(val[-1])}"
            cause = "more epochs than the data can bear; augmentation, or fewer trainable layers, help too"
            yield Advice("overfitting", "warning", headline, cause), add_early_stop


def _still_improving(seen: _Seen) -> Found:
    """The validation loss was still falling when the training ended."""
    if not seen.lock.get("trained"):
        return
    for phase in seen.record.phases[-1:]:
        val = _of_phase(seen.loss("val.loss"), phase)
        if len(val) < 4:
            continue
        at = max(1, len(val) // 5)
        gained = (val[-1 - at] - val[-1]) / abs(val[0] or 1.0)
        if min(val) == val[-1] and gained > 0.03:
            headline = f'val.loss was still falling when phase "{phase.name}" ended: {score_text(val[-1])}'
            yield Advice("still-improving", "hint", headline, "too few epochs"), longer(phase.name)


def _of_phase(points: Sequence[tuple[int, float]], phase: Phase) -> list[float]:
    return [value for step, value in points if phase.before < step <= phase.before + phase.steps]


def _one_answer(seen: _Seen) -> Found:
    """All predictions are the same."""
    for line in seen.lock.get("caveats", ()):
        if isinstance(line, str) and line.startswith("all "):
            cause = "the model learned nothing that tells samples apart: see the other findings, labels and transforms"
            yield Advice("one-answer", "severe", line, cause), None
            return
    samples = [each for row in seen.record.probes[-1:] for each in row["samples"] if isinstance(each, dict)]
    answers, actual = {str(each.get("answer")) for each in samples}, {str(each.get("actual")) for each in samples}
    if len(samples) >= 6 and len(answers) == 1 and len(actual) >= 3 and "None" not in actual:
        headline = f"all {len(samples)} probe samples are predicted to be {visible(next(iter(answers)))}"
        cause = "the model tells no samples apart so far"
        yield Advice("one-answer", "warning", headline, cause), None


_RULES: tuple[Callable[[_Seen], Found], ...] = (
    _not_a_number,
    _explodes,
    _dead,
    _frozen,
    _vanishes,
    _rate,
    _one_answer,
    _overfits,
    _still_improving,
)

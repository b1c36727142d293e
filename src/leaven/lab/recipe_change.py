"""Changes of a recipe that advice offers: edits of the resolved recipe of a run, which the checker accepts.

In the resolved recipe every setting is written, so that each change has its place. A change that the checker refuses is
not offered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from leaven.catalog.value_text import value_text
from leaven.catalog.values import Quantity, Setting
from leaven.formats.finite_json import as_json
from leaven.language.source import Source, Span
from leaven.recipe.recipe import Freeze, Phase, Recipe
from leaven.recipe.show import selector
from leaven.rules.checker import check

Ask = Callable[[Recipe], "Change | None"]
CLIP = 1.0
_PATIENCE = "early_stop val.loss, patience=3 epochs"


@dataclass(frozen=True)
class Change:
    """A statement as it should be; `recipe` is the whole resolved recipe with it."""

    phase: str  # empty for the whole recipe
    before: str  # empty for a statement that is added
    after: str
    recipe: str

    @as_json
    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        where = f' in phase "{self.phase}"' if self.phase else ""
        return f"`{self.after}`{f' in place of `{self.before}`' if self.before else ''}{where}"


def scale_rate(factor: float, phase: int = -1) -> Ask:
    """The learning rate of a phase times a factor."""

    def ask(recipe: Recipe) -> Change | None:
        changed = recipe.phases[phase]
        rate = changed.optimizer.invocation.setting("lr")
        if rate is None or not isinstance(rate.value, int | float) or rate.origin.span is None:
            return None
        new = float(f"{rate.value * factor:.2g}")
        return _tried(
            rate.origin.span, value_text(new), changed, f"lr={value_text(rate.value)}", f"lr={value_text(new)}"
        )

    return ask


def add_clip(recipe: Recipe) -> Change | None:
    """Gradients clipped, or clipped to a tenth."""
    clip, batch = recipe.train.clip, recipe.train.batch
    if isinstance(clip.value, int | float) and clip.origin.span is not None:
        new = value_text(clip.value / 10)
        return _tried(clip.origin.span, new, None, f"clip={value_text(clip.value)}", f"train clip={new}")
    if batch.origin.span is None:
        return None
    added = f"{batch.origin.span.text}, clip={CLIP}"
    return _tried(batch.origin.span, added, None, "", f"train clip={CLIP}")


def keep_trainable(path: str) -> Ask:
    """A layer left out of what is frozen; without anything else in it, the `freeze` is removed."""

    def ask(recipe: Recipe) -> Change | None:
        for phase in recipe.phases:
            for one in (each for each in phase.techniques if isinstance(each, Freeze)):
                span = one.origin.span
                if span is None or not _selects(one, path):
                    continue
                before = f"freeze {selector(one.layers.selector)}"
                after = f'{before} - "{path}"'
                text = span.text.replace(before, after, 1)
                return _tried(span, text, phase, before, after) or _tried(span, "", phase, before, "no freeze")
        return None

    return ask


def _selects(one: Freeze, path: str) -> bool:
    return any(name == path or name.startswith(f"{path}.") for name in one.layers.parameters or ())


def add_early_stop(recipe: Recipe) -> Change | None:
    """The last phase ends when the validation loss stops improving."""
    phase = recipe.phases[-1]
    span = phase.schedule.origin.span
    if phase.early_stop is not None or span is None:
        return None
    line = span.source.text.find("\n", span.end)
    return _tried(span.source.span(line, line), f"\n    {_PATIENCE}", phase, "", _PATIENCE)


def longer(name: str) -> Ask:
    """Twice as many epochs."""

    def ask(recipe: Recipe) -> Change | None:
        phase = next((each for each in recipe.phases if each.name == name), None)
        epochs: Setting | None = phase.epochs if phase is not None else None
        if epochs is None or not isinstance(epochs.value, Quantity) or epochs.origin.span is None:
            return None
        before, new = value_text(epochs.value.amount), value_text(2 * epochs.value.amount)
        return _tried(epochs.origin.span, new, phase, f"epochs={before}", f"epochs={new}")

    return ask


def _tried(span: Span, text: str, phase: Phase | None, before: str, after: str) -> Change | None:
    """The recipe with an edit; None where the checker refuses it."""
    source = span.source
    changed = source.text[: span.start] + text + source.text[span.end :]
    checked = check(Source(source.name, changed, source.folder))
    return (
        Change(phase.name if phase is not None else "", before, after, changed) if checked.recipe is not None else None
    )

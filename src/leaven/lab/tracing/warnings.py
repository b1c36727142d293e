"""What is wrong with the data as its transforms make it, as seen in some samples.

Each rule looks at the ways of samples through the transforms, and names the transform, its line of the recipe, and a
line that would change it. A rule reports what it has seen, in how many of the samples, and nothing else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from leaven.formats.finite_json import as_json
from leaven.lab.tracing.steps import Step
from leaven.plan.plan import PublishedInputs

CROPPED = 0.4  # of an image: from here on it is worth a warning
ENLARGED = 2.0  # times longer sides
_SLACK = 0.1  # of the range that a model knows
_UNIT = 1.05  # the largest value of an image that is scaled to 1, as interpolation makes it
_MOST_BYTE = 255


@dataclass(frozen=True)
class DataWarning:
    """Something that is wrong with the data, in words. `id` says what kind of thing, `change` is a line to try."""

    id: str
    transform: str
    line: int | None
    words: str
    change: str
    share: float  # of the samples that were looked at

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        return f"{place}{self.words}" + (f"; try `{self.change}`" if self.change else "")

    @as_json
    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "transform": self.transform,
            "line": self.line,
            "words": self.words,
            "change": self.change or None,
            "share": self.share,
        }


@dataclass(frozen=True)
class Facts:
    """What is known besides the ways: the statement that has the transforms, and what the model was trained on."""

    statement: str = "train"
    inputs: PublishedInputs | None = None


Ways = Sequence[Sequence[Step]]
Rule = Callable[[Ways, Facts], Iterable[DataWarning]]


def warnings_of(ways: Ways, facts: Facts) -> tuple[DataWarning, ...]:
    """The warnings about some samples, each as loaded and after its transforms."""
    whole = [way for way in ways if len(way) > 1]
    return tuple(found for rule in RULES for found in rule(whole, facts)) if whole else ()


def _seen(count: int, ways: Ways) -> str:
    return "" if count == len(ways) == 1 else f" in {count} of {len(ways)} draws"


# -- the part of the image that is left


def _cropped(ways: Ways, facts: Facts) -> Iterable[DataWarning]:
    known = [way for way in ways if way[-1].area is not None]
    lost = [1 - way[-1].area.share for way in known if way[-1].area is not None]
    if not lost or mean(lost) <= CROPPED:
        return
    step = _largest_loss(known)
    low, high = (f"{100 * edge:.0f}" for edge in (min(lost), max(lost)))
    between = f" ({low} to {high} % in {len(lost)} draws)" if len(lost) > 1 and low != high else ""
    words = f"`{step.name}` crops away {100 * mean(lost):.0f} % of the image{between}"
    change = ""
    if step.name.startswith("random_resized_crop"):
        change = f"{facts.statement} random_resized_crop({_first_argument(step.name)}, scale=[{1 - CROPPED:g}, 1])"
    elif "crop" in step.name and (size := step.content.size) is not None:
        change = f"{facts.statement} resize({min(size)}) -> center_crop({min(size)})"
    yield DataWarning("cropped-away", step.name, step.line, words, change, _share(lost, lambda one: one > CROPPED))


def _largest_loss(ways: Ways) -> Step:
    """The transform that takes the most away, over all draws."""
    losses: dict[int, float] = {}
    for way in ways:
        for at in range(1, len(way)):
            before, after = way[at - 1].area, way[at].area
            if before is not None and after is not None:
                losses[at] = losses.get(at, 0.0) + before.share - after.share
    return ways[0][max(losses, key=lambda at: losses[at])] if losses else ways[0][-1]


def _first_argument(call: str) -> str:
    """`224` of `random_resized_crop(224, scale=…)`, whether it is named or not."""
    inside = call.partition("(")[2].removesuffix(")")
    return inside.partition(",")[0].rpartition("=")[2].strip() if "[" not in inside.partition(",")[0] else "224"


def _enlarged(ways: Ways, _facts: Facts) -> Iterable[DataWarning]:
    for at in range(1, min(map(len, ways))):
        factors = [
            after.enlarged / before.enlarged
            for before, after in ((way[at - 1].area, way[at].area) for way in ways)
            if before is not None and after is not None and before.enlarged <= 1.0 + _SLACK
        ]
        large = [factor for factor in factors if factor > ENLARGED + _SLACK]
        if large and len(large) * 2 >= len(ways):
            step, first = ways[0][at], ways[0][0]
            sizes = " to ".join("×".join(map(str, one.content.size or ())) for one in (first, step))
            words = f"`{step.name}` enlarges images {mean(large):.1f} times, from {sizes}: no detail is added"
            # no change is suggested: a pretrained model may do better with images of the size that it knows
            yield DataWarning("enlarged", step.name, step.line, words, "", len(large) / len(ways))


# -- values


def _normalised_twice(ways: Ways, facts: Facts) -> Iterable[DataWarning]:
    steps = [at for at in range(1, len(ways[0])) if ways[0][at].name.startswith("normalize")]
    for at in steps:
        step, count = ways[0][at], sum(_is_normalised(way[at - 1]) for way in ways)
        if not count:
            continue
        is_second = at != steps[0]
        why = "they are normalised already" if is_second else "the values are not from 0 to 1 before it"
        words = f"`{step.name}` is applied to values from {ways[0][at - 1].content.range}: {why}"
        if (ways[0][at - 1].content.high or 0) > _UNIT and not is_second:
            change = f"{facts.statement} to_tensor() -> {step.name}"
        else:
            change = f"remove `{step.name}`"
        yield DataWarning("normalised-twice", step.name, step.line, words, change, count / len(ways))


def _is_normalised(step: Step) -> bool:
    """Whether the values are no longer those of an image from 0 to 1, or from 0 to 255."""
    low, high = step.content.low, step.content.high
    return low is not None and high is not None and (low < 1 - _UNIT or high > _UNIT)


def _outside(ways: Ways, facts: Facts) -> Iterable[DataWarning]:
    last = [way[-1] for way in ways]
    if facts.inputs is None or any(step.content.low is None or step.content.kind == "uint8" for step in last):
        return
    pairs = list(zip(facts.inputs.mean, facts.inputs.std, strict=True))
    low = min((0 - middle) / spread for middle, spread in pairs)
    high = max((1 - middle) / spread for middle, spread in pairs)
    slack = _SLACK * (high - low)
    outside = [s for s in last if (s.content.low or 0) < low - slack or (s.content.high or 0) > high + slack]
    never = low < -slack and all((step.content.low or 0) >= 0 for step in last)
    if not outside and not never:
        return
    at = max((at for at in range(1, len(ways[0])) if ways[0][at].name.startswith("normalize")), default=None)
    step = ways[0][at] if at is not None else last[0]
    found = f"{min(s.content.low or 0 for s in last):.3g} to {max(s.content.high or 0 for s in last):.3g}"
    words = f"the model gets values from {found}, and knows {low:.3g} to {high:.3g}"
    numbers = "mean=[{}], std=[{}]".format(
        *(", ".join(f"{one:g}" for one in each) for each in (facts.inputs.mean, facts.inputs.std))
    )
    share = (len(outside) or len(last)) / len(last)
    yield DataWarning("outside-range", step.name, step.line, words, f"normalize({numbers})", share)


def _constant(ways: Ways, facts: Facts) -> Iterable[DataWarning]:
    for at in range(1, min(map(len, ways))):
        count = sum(way[at].content.is_constant and not way[at - 1].content.is_constant for way in ways)
        if count:
            step = ways[0][at]
            words = f"`{step.name}` makes the whole image one value{_seen(count, ways)}"
            yield DataWarning("constant", step.name, step.line, words, f"remove `{step.name}`", count / len(ways))


# -- what is marked in the image


def _vanished(ways: Ways, facts: Facts) -> Iterable[DataWarning]:
    for at in range(1, min(map(len, ways))):
        pairs = [(way[at - 1].objects, way[at].objects) for way in ways]
        lost = [(before, after) for before, after in pairs if before and after is not None and after < before]
        if not lost:
            continue
        step = ways[0][at]
        empty = sum(not after for _, after in lost)
        gone = sum(before - after for before, after in lost)
        every = sum(before or 0 for before, _ in pairs)
        words = f"`{step.name}` removes {gone} of {every} labels in {len(ways)} draws"
        words += f"; {empty} images have none left" if empty else ""
        change = ""
        if step.name.startswith("random_iou_crop"):
            change = f"{facts.statement} random_iou_crop(min_scale=0.7)"
        elif "crop" in step.name and (size := step.content.size) is not None:
            change = f"{facts.statement} resize([{size[1]}, {size[0]}])"
        id = "no-labels-left" if empty else "labels-lost"
        yield DataWarning(id, step.name, step.line, words, change, len(lost) / len(ways))


# -- texts


def _cut_off(ways: Ways, facts: Facts) -> Iterable[DataWarning]:
    cut = [way for way in ways if way[-1].cut]
    if not cut:
        return
    step = next(step for step in cut[0] if step.tokens)
    longest = max(len(one.tokens) for way in cut for one in way)
    kept = len(cut[0][-1].tokens)
    share = mean(len(way[-1].cut) / (len(way[-1].cut) + len(way[-1].tokens)) for way in cut)
    words = f"{len(cut)} of {len(ways)} texts are cut off at {kept} tokens: they have up to {longest}"
    words += f" and lose {100 * share:.0f} % on average"
    change = f"tokenize max_length={longest}"
    yield DataWarning("cut-off", step.name, step.line, words, change, len(cut) / len(ways))


def _share(values: Sequence[float], is_bad: Callable[[float], bool]) -> float:
    return sum(map(is_bad, values)) / len(values)


RULES: tuple[Rule, ...] = (_outside, _normalised_twice, _cropped, _enlarged, _constant, _vanished, _cut_off)

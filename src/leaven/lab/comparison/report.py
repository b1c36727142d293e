"""A comparison as text for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leaven.lab.comparison.cost import Cost
from leaven.lab.comparison.layers import Layer, LayerPair
from leaven.lab.comparison.measured import Measured
from leaven.lab.comparison.paired import Paired
from leaven.lab.comparison.seeds import SeedTest
from leaven.tasks.reports import aligned
from leaven.terminal.columns import left_aligned
from leaven.terminal.score_text import score_text
from leaven.terminal.visible import visible

if TYPE_CHECKING:
    from leaven.lab.comparison.comparing import Comparison

MOST_LAYERS = 10
MOST_SAMPLES = 4
_LONGEST = 60  # letters of a setting


def report(found: "Comparison") -> str:
    """Who is better, what differs, what it costs."""
    parts = [[f"A: {found.a}", f"B: {found.b}"]]
    if found.measured is not None:
        parts.append(_scores(*found.measured))
    if found.paired is not None:
        parts.append(_paired(found.paired))
    if found.seeds is not None:
        parts.append(_seeds(found.seeds))
    if found.notes:
        parts.append(list(found.notes))
    if found.claim:
        parts[-1] = [*parts[-1], found.claim]
    if found.differences:
        rows = [[one.what, _cut(one.a), _cut(one.b)] for one in found.differences]
        parts.append(left_aligned([["what differs", "A", "B"], *rows]))
    parts += [_costs(*found.costs), _layers(found.layers)]
    return "\n\n".join("\n".join(map(visible, part)) for part in parts)


def _scores(a: Measured, b: Measured) -> list[str]:
    """Every score of both, and the one by which they are compared with its interval."""
    names = dict.fromkeys([*a.scores, *b.scores])
    rows = [[name, *(score_text(one.scores[name]) if name in one.scores else "" for one in (a, b))] for name in names]
    count = f"{len(a.errors):,}" if len(a.errors) == len(b.errors) else f"{len(a.errors):,} and {len(b.errors):,}"
    what = a.graded_by or "right"
    return aligned([[f"{count} {a.inputs}", "A", "B"], *rows, [f"{what} (95 % interval)", a.words, b.words]])


def _paired(found: Paired) -> list[str]:
    groups = {"only A": found.only_a, "only B": found.only_b, "both": found.both, "neither": found.neither}
    if found.is_graded:
        groups = {"A nearer": found.only_a, "B nearer": found.only_b, "equal": found.both}
    else:
        groups = {f"{name} right": samples for name, samples in groups.items()}
    lines = [f"{name}: {len(samples):,}{_some(name, samples)}" for name, samples in groups.items()]
    apart = found.difference
    scale, unit, noun = (1.0, "", "error") if found.is_graded else (100.0, " points", "share right")
    low, high = sorted((apart.low, apart.high))
    sign = -1 if found.is_graded else 1
    shown = [f"{scale * sign * each:+.3g}" for each in (apart.value, *((low, high) if sign > 0 else (high, low)))]
    return [found.words, *lines, f"B − A, {noun}: {shown[0]}{unit} ({shown[1]} to {shown[2]})"]


def _some(name: str, samples: Sequence[str]) -> str:
    """The first samples that only one of them gets right."""
    if not samples or name.startswith(("both", "neither", "equal")):
        return ""
    more = ", …" if len(samples) > MOST_SAMPLES else ""
    return f" ({', '.join(map(_cut, samples[:MOST_SAMPLES]))}{more})"


def _seeds(found: SeedTest) -> list[str]:
    names = sorted({*found.a, *found.b})
    rows = [[f"seed {seed}", *(score_text(one[seed]) if seed in one else "" for one in (found.a, found.b))]
            for seed in names]  # fmt: skip
    return aligned([["mean error", "A", "B"], *rows])


def _costs(a: Cost, b: Cost) -> list[str]:
    rows = [["", "A", "B"], ["parameters", f"{a.parameters:,}", f"{b.parameters:,}"]]
    rows.append(["FLOPs of an input", *(f"{one.flops:,}" if one.flops is not None else "?" for one in (a, b))])
    rows.append(["its shape", *("×".join(map(str, one.shape)) or "?" for one in (a, b))])
    if a.milliseconds is not None and b.milliseconds is not None:
        rows.append(["latency here (ms)", f"{a.milliseconds:.2f}", f"{b.milliseconds:.2f}"])
    return aligned(rows)


def _layers(pairs: Sequence[LayerPair]) -> list[str]:
    """How many layers agree, those that don't, and those whose weights differ most."""
    same = [one for one in pairs if one.is_same]
    only = [sum(1 for one in pairs if one.b is None), sum(1 for one in pairs if one.a is None)]
    other = len(pairs) - len(same) - sum(only)
    lines = [
        f"layers: {len(same)} of the same shape, {other} of other shapes, {only[0]} only in A, {only[1]} only in B"
    ]
    if apart := [one for one in pairs if not one.is_same]:
        rows = [[one.name, _words(one.a), _words(one.b)] for one in apart[:MOST_LAYERS]]
        lines += left_aligned([["layer", "A", "B"], *rows]) + _more(len(apart))
    moved = [one for one in same if one.distance]
    if moved:
        moved.sort(key=lambda one: -(one.distance or 0.0))
        rows = [[one.name, f"{one.distance:.3g}", f"{one.cosine:.4f}"] for one in moved[:MOST_LAYERS]]
        lines += aligned([["weights that differ", "distance", "cosine"], *rows]) + _more(len(moved))
    elif any(one.distance is not None for one in same):
        lines.append("the weights of these layers are the same")
    return lines


def _words(layer: Layer | None) -> str:
    return layer.words if layer is not None else ""


def _more(count: int) -> list[str]:
    return [f"… and {count - MOST_LAYERS} more"] if count > MOST_LAYERS else []


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

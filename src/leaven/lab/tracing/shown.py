"""A trace for people: a table and its warnings for a terminal, tiles for a picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leaven.lab.tracing.area import Area
from leaven.lab.tracing.steps import Step
from leaven.pictures.batch import Rows, Tile, rows_png
from leaven.pictures.crop import draw_crop
from leaven.terminal.columns import left_aligned
from leaven.terminal.visible import visible

if TYPE_CHECKING:
    from leaven.lab.tracing.data_way import Draw
    from leaven.lab.tracing.trace import Trace

_WIDEST = 44  # letters of a cell
_TOKENS = 110  # letters of the tokens of a text


def as_text(trace: "Trace") -> str:
    """For a terminal: a table per draw, where the sample lands, notes and warnings."""
    about = f": {visible(trace.target)}" if trace.target else ""
    parts = [f"{visible(trace.sample)} ({trace.split}{about})"]
    for draw in trace.draws:
        head = f"epoch {draw.epoch}" if trace.split == "train" else "evaluation"
        parts += ["", f"{head}, {draw.landing.words}" if draw.landing is not None else head]
        parts += way_lines(draw)
    parts += ["", *map(visible, trace.notes)] if trace.notes else []
    parts += ["", *(f"warning: {visible(str(one))}" for one in trace.warnings)] if trace.warnings else []
    return "\n".join(parts)


def way_lines(draw: "Draw") -> list[str]:
    """The steps of a draw, and where it lands."""
    return [*(_text_lines(draw.steps) if draw.is_text else _table(draw.steps)), *_landing_lines(draw)]


def _table(steps: Sequence[Step]) -> list[str]:
    rows = [["step", "line", "arguments as drawn", "result", "values", "mean", "left", "ms"]]
    for step in steps:
        marked = f", {step.marked}".replace("\n", ", ") if step.marked else ""
        rows.append(
            [
                _cut(visible(step.name)),
                str(step.line or ""),
                _cut(visible(step.drawn)),
                _cut(visible(f"{step.content.dimensions}{marked}")),
                step.content.range,
                step.content.spread,
                f"{100 * step.area.share:.0f} %" if step.area is not None else "",
                "stored" if step.is_stored else f"{step.milliseconds:.1f}" if step.milliseconds is not None else "",
            ]
        )
    used = [at for at in range(len(rows[0])) if any(row[at] for row in rows[1:])]
    return ["  " + line for line in left_aligned([[row[at] for at in used] for row in rows])]


def _text_lines(steps: Sequence[Step]) -> list[str]:
    lines = []
    for step in steps:
        lines.append(f"  {visible(step.name)}: {step.about}")
        if step.text is not None and not step.tokens:
            lines.append(f"    {_cut(visible(step.text), _TOKENS)}")
        if step.tokens and not step.cut:
            lines.append(
                f"    {_cut(visible(' '.join(f'{token}:{number}' for token, number in step.tokens)), _TOKENS)}"
            )
        if step.cut:
            lines.append(f"    lost: {_cut(visible(' '.join(step.cut)), _TOKENS)}")
    return lines


def _landing_lines(draw: "Draw") -> list[str]:
    landing = draw.landing
    if landing is None:
        return []
    content = landing.content
    shape = (
        f"{'×'.join(map(str, content.shape))}, {content.kind}" if content.shape else "a list, as images differ in size"
    )
    padding = f", {landing.padding} of them padding" if landing.padding else ""
    lines = [f"  the batch: {shape}{padding}; target: {visible(landing.target)}"]
    for one in landing.mixed:
        line = f" (line {one.line})" if one.line is not None else ""
        target = f"; target: {visible(one.target)}" if one.target else ""
        lines.append(f"  {visible(one.name)}{line}: {visible(one.words)}{target}")
    return lines


def _cut(text: str, width: int = _WIDEST) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


# -- as a picture


def rows_of(trace: "Trace") -> list[Rows]:
    """A row of tiles for each draw: as loaded, with the part that is left in a frame, and after each transform."""
    return [Rows(_title(trace, draw), tiles_of(draw)) for draw in trace.draws]


def picture_of(trace: "Trace") -> bytes:
    """The content of a PNG file."""
    return rows_png(rows_of(trace))


def _title(trace: "Trace", draw: "Draw") -> str:
    about = f"epoch {draw.epoch}" if trace.split == "train" else trace.split
    landing = f", {draw.landing.words}" if draw.landing is not None else ""
    return f"{trace.sample}: {about}{landing}"


def tiles_of(draw: "Draw") -> list[Tile]:
    first, *steps = draw.steps
    area = steps[-1].area if steps else None
    tiles = [Tile(with_crop(first.pixels, area), f"{first.name}\n{first.content.dimensions}{_left(area)}")]
    tiles += [Tile(step.pixels, _caption(step)) for step in steps]
    mixed = draw.landing.mixed if draw.landing is not None else ()
    return tiles + [Tile(one.pixels, f"{one.name}\n{one.words}\n{one.target}") for one in mixed]


def _caption(step: Step) -> str:
    """Where arguments were drawn, these matter more than those of the recipe."""
    return f"{step.name.partition('(')[0]}\n{step.drawn}" if step.drawn else f"{step.name}\n{step.content.dimensions}"


def with_crop(pixels: np.ndarray | None, area: Area | None) -> Any:
    """The original image; what the model is not given is pale, and the rest has a frame."""
    if pixels is None or area is None or area.share >= 1:
        return pixels
    return draw_crop(pixels, area.box, area.seen)


def _left(area: Area | None) -> str:
    return f"\n{100 * area.share:.0f} % of it is left" if area is not None and area.share < 1 else ""

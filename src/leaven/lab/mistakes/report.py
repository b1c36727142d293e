"""The mistakes of a model as a text for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leaven.lab.mistakes.calibration import Calibration
from leaven.terminal.visible import visible

if TYPE_CHECKING:
    from leaven.lab.mistakes.errors import Errors

_ROWS = 10
_WIDTH = 60  # of a name


def report(errors: "Errors", parts: Sequence[str] = ("worst", "confusions", "calibration", "slices")) -> str:
    """Some parts of it, each under its title."""
    sections = [_head(errors), *(_SECTIONS[part](errors) for part in parts)]
    return "\n\n".join(section for section in sections if section)


def _head(errors: "Errors") -> str:
    splits = sorted({errors.samples.splits[at] for at in errors.samples.is_measured.nonzero()[0].tolist()})
    where = "" if splits == ["all"] else f" ({', '.join(splits)})"
    lines = [f"{errors.count:,} {errors.samples.noun}s{where}"]
    if not errors.is_graded:
        share = 100 * len(errors.wrong) / max(1, errors.count)
        lines[0] += f", {len(errors.wrong):,} wrong ({share:.1f} %)"
    return "\n".join([*lines, *(f"note: {visible(note)}" for note in errors.samples.notes)])


def _worst(errors: "Errors") -> str:
    if not errors.worst:
        return "no mistakes"
    title = "largest errors" if errors.is_graded else "most confident mistakes"
    heads = ("file", "split", "label", "predicted", "error" if errors.is_graded else "confidence")
    rows = [
        (one.file, one.split, one.label, one.prediction, f"{one.error:.4g}" if errors.is_graded else _share(one))
        for one in errors.worst
    ]
    return _table(title, heads, rows)


def _share(one: Any) -> str:
    return "" if one.confidence is None else f"{100 * one.confidence:.1f} %"


def _confusions(errors: "Errors") -> str:
    found = errors.confusions
    if isinstance(found, str):
        return found
    rows = [(one.label, one.prediction, f"{one.count} of {one.total}") for one in found[:_ROWS]]
    heads = ("label", "predicted", "how often")
    return _table("confusions", heads, rows) + _more(len(found)) if rows else ""


def _calibration(errors: "Errors") -> str:
    found = errors.calibration
    if not isinstance(found, Calibration):
        return found
    rows = [
        (f"{100 * one.low:.0f} to {100 * one.high:.0f} %", str(one.count), f"{100 * one.right:.1f} %")
        for one in found.bins
    ]
    return "\n".join([f"calibration: {found}", _table("", ("confidence", "answers", "right"), rows)])


def _slices(errors: "Errors") -> str:
    found = errors.slices
    if not found:
        return "no group of samples in which the model is certainly worse"
    rows = []
    for one in found[:_ROWS]:
        scale, unit = (1.0, "") if errors.is_graded else (100.0, " %")
        mean = f"{scale * one.error:.3g}{unit} ({scale * one.low:.3g} to {scale * one.high:.3g})"
        rows.append((f"{one.by}: {one.name}", str(one.count), mean, f"{scale * one.others:.3g}{unit}", f"{one.p:.2g}"))
    return _table("where it is worse", ("group", "samples", "error", "others", "p"), rows) + _more(len(found))


def _suspects(errors: "Errors") -> str:
    found = errors.suspects
    if isinstance(found, str):
        return found
    issues = sum(one.is_issue for one in found)
    rows = [(one.file, one.split, one.label, one.suggested, f"{one.quality:.3f}") for one in found[:_ROWS]]
    title = f"doubtful labels: {issues:,} of {len(found):,} are probably wrong"
    return _table(title, ("file", "split", "label", "rather", "quality"), rows)


def _duplicates(errors: "Errors") -> str:
    found = errors.duplicates
    if isinstance(found, str):
        return found
    if not found:
        return "no duplicates across splits"
    rows = [
        (one.files[0], one.splits[0], one.files[1], one.splits[1], "the same" if one.is_exact else "nearly the same")
        for one in found[:_ROWS]
    ]
    return _table(f"{len(found):,} duplicates across splits", ("file", "split", "file", "split", ""), rows)


_SECTIONS = {
    "worst": _worst,
    "confusions": _confusions,
    "calibration": _calibration,
    "slices": _slices,
    "suspects": _suspects,
    "duplicates": _duplicates,
}


def _more(count: int) -> str:
    return f"\nand {count - _ROWS:,} more" if count > _ROWS else ""


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, the names in them shortened at their beginning."""
    shown = [heads, *([_short(visible(cell.replace("\n", ", "))) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in shown) for at in range(len(heads))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    return "\n".join([title, *lines] if title else lines)


def _short(name: str) -> str:
    return name if len(name) <= _WIDTH else f"…{name[1 - _WIDTH :]}"

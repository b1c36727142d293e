"""`training.jsonl` in a run folder: what training recorded, a line of JSON each, which another process may follow.

    {"kind": "phase", "phase": 0, "name": "head", "steps": 450, "steps_per_epoch": 45}
    {"kind": "step", "phase": 0, "epoch": 1, "step": 1, "loss": 2.31, "lr": 0.003}
    {"kind": "layers", "phase": 0, "epoch": 1, "step": 50, "gradient": 0.8, "layers": {"layer1": {…}, …}}
    {"kind": "epoch", "phase": 0, "epoch": 1, "step": 45, "scores": {…}}
    {"kind": "probes", "phase": 0, "epoch": 1, "step": 45, "samples": [{"name": "cat.jpg", "actual": "cat", …}, …]}

Phases count from 0, epochs and steps of a phase from 1. Numbers that JSON lacks are the words `nan`, `inf` and `-inf`.
Lines are only ever appended, but for a run that is resumed, which goes on after those of its checkpoint. The last line
may be torn; it is not read before it is whole.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leaven.files.regular import open_regular

TRAINING = "training.jsonl"
NOT_COMPUTED = "not computed"  # of a layer that did not run when it was to be measured
WINDOW = 5  # measurements: a unit whose output is constant in all of them is dead
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_AT_ONCE = 1 << 20  # bytes
_LONGEST = 16 << 20  # of a line: no run writes one like that


def as_line(row: dict[str, Any]) -> str:
    """A row as a line of the file."""
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(without_nan(row), ensure_ascii=False) + "\n"


def without_nan(value: Any) -> Any:
    """A value with words in place of the numbers that JSON lacks."""
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def number(value: Any) -> float | None:
    """A number of a row; None where it has none."""
    if isinstance(value, str):
        return _WORDS.get(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def read_rows(run: Path, after: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The rows of a run from a byte of the file on, and the byte where the next one will begin."""
    rows, at = [], after
    for line, end in _lines(run / TRAINING, after):
        at = end
        if (row := _row(line)) is not None:
            rows.append(row)
    return rows, at


def _lines(file: Path, at: int) -> Iterator[tuple[bytes, int]]:
    """The whole lines of a file from a byte on, each with the byte after it; all, if no line begins at that byte."""
    try:
        opened = open_regular(file)
    except OSError:
        return
    with opened:
        opened.seek(max(0, at - 1))
        if at > 0 and opened.read(1) != b"\n":  # the file was cut, when its run was resumed
            at = 0
        opened.seek(at)
        rest = b""
        while chunk := opened.read(_AT_ONCE):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                at += len(line) + 1
                yield line, at
            if len(rest) > _LONGEST:
                return


def _row(line: bytes) -> dict[str, Any] | None:
    """A row of one of the kinds; None for anything else, which is passed over."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_row = isinstance(row, dict) and isinstance(row.get("kind"), str) and isinstance(row.get("phase"), int)
    return row if is_row else None
